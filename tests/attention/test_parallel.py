"""Work spread over threads gives what one thread gives."""

import os
import threading

import pytest
import torch

from longdoc.attention import Pattern, alibi_slopes, attend, first_tokens
from longdoc.attention.parallel import for_each

CPU = torch.device("cpu")


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def outcome(dropout: float = 0.0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 6, 900, 16, generator=generator).requires_grad_() for _ in range(3))
    pattern = Pattern.packed([800, 100], 200, 70, first_tokens([800, 100]), alibi_slopes(6))
    torch.manual_seed(1)
    out = attend(q, k, v, pattern, dropout=dropout)
    out.square().sum().backward()
    return [out.detach(), q.grad, k.grad, v.grad]


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_threads_change_nothing(dropout):
    alone = outcome(dropout)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        together = outcome(dropout)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("three_threads")
def test_pieces_run_apart_on_one_core_each():
    seen = []
    lock = threading.Lock()

    def work(piece: int) -> None:
        with lock:
            seen.append((piece, threading.current_thread().name, torch.get_num_threads(), torch.is_grad_enabled()))

    for_each(work, range(6), CPU)
    assert sorted(piece for piece, *_ in seen) == list(range(6))
    assert all(name.startswith("longdoc-attention") and cores == 1 and not grad for _, name, cores, grad in seen)
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_a_single_piece_stays_in_the_calling_thread():
    names = []
    for_each(lambda _: names.append(threading.current_thread()), [0], CPU)
    assert names == [threading.current_thread()]


@pytest.mark.usefixtures("three_threads")
def test_errors_come_out():
    def work(piece: int) -> None:
        raise ValueError(f"piece {piece}")

    with pytest.raises(ValueError, match="piece 0"):
        for_each(work, range(3), CPU)


@pytest.mark.usefixtures("three_threads")
def test_inference_mode_goes_along():
    with torch.inference_mode():
        q = torch.randn(1, 6, 800, 16)
        out = attend(q, q, q, Pattern.packed([800], 100, 100))
    assert out.is_inference()


@pytest.mark.usefixtures("three_threads")
def test_a_forked_process_makes_threads_of_its_own():
    for_each(lambda _: None, range(3), CPU)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        done: list[int] = []
        for_each(done.append, range(3), CPU)
        os.write(write, bytes(sorted(done)))
        os._exit(0)
    os.close(write)
    assert os.read(read, 8) == bytes([0, 1, 2])
    assert os.waitpid(child, 0)[1] == 0
