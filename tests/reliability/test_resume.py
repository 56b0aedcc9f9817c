"""A run that is stopped and resumed ends as one that never was."""

from pathlib import Path

import pytest
import torch

from longdoc.callbacks.last import last_checkpoints
from tests.reliability.parts import fit


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> dict[int, tuple[Path, dict]]:
    """Folder and final weights of a run that was never stopped, for each accumulation."""
    ends = {}
    for accumulate in (1, 3):
        folder = tmp_path_factory.mktemp(f"unbroken-{accumulate}")
        ends[accumulate] = folder, fit(folder, cache, accumulate).state_dict()
    return ends


def largest_difference(a: dict, b: dict) -> float:
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def stop_and_resume(
    folder: Path,
    cache: Path,
    unbroken: dict,
    step: int,
    accumulate: int,
    workers: int,
    where: str = "train",
    **settings,
) -> float:
    """Difference of the weights; the order of documents and the best checkpoint are compared as well."""
    kept, weights = unbroken[accumulate]
    with pytest.raises(SystemExit) as stop:
        fit(folder, cache, accumulate, workers, stop_after=step, where=where, **settings)
    assert stop.value.code == 128 + 15
    end = fit(folder, cache, accumulate, workers, resume=last_checkpoints(folder)[0], **settings)
    assert (folder / "order.txt").read_text() == (kept / "order.txt").read_text()
    best, expected = (torch.load(path / "best.ckpt", weights_only=True) for path in (folder, kept))
    assert best["global_step"] == expected["global_step"]
    assert largest_difference(best["state_dict"], expected["state_dict"]) == 0.0
    return largest_difference(end.state_dict(), weights)


QUICK = [("train", 1), ("train", 5), ("train", 12), ("validate", 12), ("train", 17), ("train", 24), ("validate", 24)]


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize(("where", "step"), QUICK)
def test_stopped_and_resumed_equals_unbroken(tmp_path, cache, unbroken, where, step, accumulate) -> None:
    assert stop_and_resume(tmp_path, cache, unbroken, step, accumulate, 0, where) == 0.0
