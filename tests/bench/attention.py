"""Attention compared: time, memory and share of the machine's matrix rate, from 512 to 131,072 tokens.

Run ``python -m tests.bench.attention`` (``--help`` shows the choices). All numbers come from one run on one machine, as
medians; nothing else should run meanwhile. The projections are left out everywhere: queries, keys and values are given.

Shapes: T tokens, H heads, D width of a head.
"""

import argparse
import copy
import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BigBirdConfig, LongformerConfig, ModernBertConfig, ModernBertModel
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

from longdoc.attention import Pattern, alibi_slopes, attend, first_tokens
from longdoc.models.hf_attention import AttentionConfig, apply_attention

HEADS, WIDTH, NEIGHBOURS = 12, 64, 256
LENGTHS = tuple(2**i for i in range(9, 18))
LONGEST_CELL_SECONDS = 60.0
LARGEST_CELL_MIB = 16384
BIGBIRD_TOKENS = 1024
USEFUL_BACKWARD = 3.5
"""Operations of forward and backward together, over those of forward."""

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Cell:
    """One measurement."""

    forward_s: float
    both_s: float
    peak_mib: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1])
    parser.add_argument("--only", nargs="*", default=[], help="names of the rows to measure")
    parser.add_argument("--modernbert", action="store_true", help="compare a ModernBERT at 8,192 tokens as well")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rate = matrix_rate()
    print(f"load {Path('/proc/loadavg').read_text().split()[0]}, {arguments.threads} threads, "
          f"fp32 matrix rate {rate / 1e9:.0f} GFLOP/s, {HEADS} heads of {WIDTH}, {NEIGHBOURS} neighbours each side")  # fmt: skip
    lengths = [length for length in LENGTHS if length <= arguments.longest]
    results = {}
    print(f"{'':18}{'tokens':>8}{'forward':>11}{'fwd + bwd':>11}{'peak':>9}{'rate':>7}{'x dense':>9}")
    for length in lengths:
        for name in arguments.only or ROWS:
            cell = measure(name, length, results, arguments.repeats)
            if isinstance(cell, Cell):
                results[name, length] = cell
            print(line(name, length, cell, results, rate), flush=True)
    print(marks(results, rate))
    if arguments.modernbert:
        compare_modernbert()


def measure(name: str, length: int, results: dict[tuple[str, int], Cell], repeats: int) -> Cell | str:
    """Measure one row at one length, or say why not."""
    before = results.get((name, length // 2))
    growth = 4.0 if name in ("dense", "bigbird") else 2.0  # BigBird fills a matrix of all pairs
    if name == "bigbird" and length < BIGBIRD_TOKENS:
        return "skipped: random blocks need more than 704 tokens"
    if before is None and length > (BIGBIRD_TOKENS if name == "bigbird" else LENGTHS[0]):
        return "skipped: the shorter one was"
    if before is not None and growth * before.both_s > LONGEST_CELL_SECONDS:
        return f"skipped: would take {growth * before.both_s:.0f} s"
    if before is not None and name == "bigbird" and growth * before.peak_mib > LARGEST_CELL_MIB:
        return f"skipped: would take {growth * before.peak_mib / 1024:.0f} GiB"
    torch.manual_seed(0)
    inputs = [torch.randn(1, length, HEADS, WIDTH).transpose(1, 2).requires_grad_() for _ in range(3)]
    gradient = torch.randn(1, length, HEADS, WIDTH).transpose(1, 2)
    attention = ROWS[name](length)
    reset_peak()
    start_mib = status_mib("VmRSS")
    forward, both = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        out = attention(*inputs)
        forward.append(time.perf_counter() - start)
        torch.autograd.grad(out, inputs, gradient, allow_unused=True)
        both.append(time.perf_counter() - start)
        if sum(both) > LONGEST_CELL_SECONDS / 2:
            break
    return Cell(statistics.median(forward), statistics.median(both), status_mib("VmHWM") - start_mib)


def dense(_: int) -> Attention:
    """Full attention by PyTorch's fused kernel."""
    return F.scaled_dot_product_attention


def blocked(length: int) -> Attention:
    """Ours."""
    pattern = Pattern.packed([length], NEIGHBOURS, NEIGHBOURS)
    return lambda q, k, v: attend(q, k, v, pattern)


def blocked_alibi(length: int) -> Attention:
    """Ours, with a distance bias."""
    pattern = Pattern.packed([length], NEIGHBOURS, NEIGHBOURS, slopes=alibi_slopes(HEADS))
    return lambda q, k, v: attend(q, k, v, pattern)


def blocked_global(length: int) -> Attention:
    """Ours, with a global token."""
    pattern = Pattern.packed([length], NEIGHBOURS, NEIGHBOURS, first_tokens([length]))
    return lambda q, k, v: attend(q, k, v, pattern)


class _Given(nn.Module):
    """Stands where a projection was."""

    def __init__(self) -> None:
        super().__init__()
        self.value: Tensor | None = None

    def forward(self, _: Tensor) -> Tensor:
        assert self.value is not None
        return self.value.clone()


def _flat(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def longformer(length: int) -> Attention:
    """Hugging Face Longformer."""
    config = LongformerConfig(
        hidden_size=HEADS * WIDTH,
        num_attention_heads=HEADS,
        attention_window=[2 * NEIGHBOURS],
        attention_probs_dropout_prob=0.0,
    )
    layer = LongformerSelfAttention(config, 0).eval()
    layer.query, layer.key, layer.value = (_Given() for _ in range(3))
    mask = torch.zeros(1, length)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        for projection, x in ((layer.query, q), (layer.key, k), (layer.value, v)):
            projection.value = _flat(x).transpose(0, 1)
        out = layer(_flat(q), mask, mask < 0, mask > 0, is_global_attn=False)[0]
        return out.unflatten(2, (HEADS, WIDTH)).transpose(1, 2)

    return run


def bigbird(length: int) -> Attention:
    """Hugging Face BigBird: 3 blocks of 64 in the window, 3 random and 2 global ones."""
    config = BigBirdConfig(
        hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, max_position_embeddings=LENGTHS[-1], block_size=64
    )
    layer = BigBirdBlockSparseAttention(config, seed=0).eval()
    layer.query, layer.key, layer.value = (_Given() for _ in range(3))
    blocked_mask, band, rows, columns = BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(1, length), 64)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        for projection, x in ((layer.query, q), (layer.key, k), (layer.value, v)):
            projection.value = _flat(x)
        out = layer(_flat(q), band, rows, columns, blocked_mask, blocked_mask)[0]
        return out.unflatten(2, (HEADS, WIDTH)).transpose(1, 2)

    return run


ROWS: dict[str, Callable[[int], Attention]] = {
    "dense": dense,
    "longformer": longformer,
    "bigbird": bigbird,
    "blocked": blocked,
    "blocked + alibi": blocked_alibi,
    "blocked + global": blocked_global,
}


def useful_operations(length: int) -> float:
    """Count the operations of a forward pass on pairs within the window."""
    reach = min(NEIGHBOURS, length - 1)
    pairs = length * (2 * reach + 1) - reach * (reach + 1)
    return 4.0 * HEADS * WIDTH * pairs


def matrix_rate(size: int = 2048, repeats: int = 7) -> float:
    """Measure the rate of a large float32 product, in operations a second."""
    one, other = torch.randn(size, size), torch.randn(size, size)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        torch.mm(one, other)
        seconds.append(time.perf_counter() - start)
    return 2 * size**3 / statistics.median(seconds)


def line(name: str, length: int, cell: Cell | str, results: dict[tuple[str, int], Cell], rate: float) -> str:
    """Format one row of the table."""
    head = f"{name:18}{length:>8,}"
    if isinstance(cell, str):
        return f"{head}   {cell}"
    share = ""
    if name.startswith("blocked"):
        share = f"{USEFUL_BACKWARD * useful_operations(length) / cell.both_s / rate:.0%}"
    against = results.get(("dense", length))
    times = f"{against.both_s / cell.both_s:.2f}" if against is not None else ""
    milliseconds = f"{cell.forward_s * 1e3:>8,.0f} ms{cell.both_s * 1e3:>8,.0f} ms"
    return f"{head}{milliseconds}{cell.peak_mib:>5,.0f} MiB{share:>7}{times:>9}"


def marks(results: dict[tuple[str, int], Cell], rate: float) -> str:
    """Sum up what is asked of the blocked backend, forward and backward together."""

    def ratios() -> Iterator[str]:
        for other, length, wanted in (
            ("dense", 512, 0.8),
            ("dense", 4096, 4),
            ("dense", 8192, 8),
            ("longformer", 4096, 14),
        ):
            if (other, length) in results and ("blocked", length) in results:
                times = results[other, length].both_s / results["blocked", length].both_s
                yield f"{times:.2f}x {other} at {length:,} tokens (at least {wanted}x)"
        found = [
            (length, cell.both_s) for (name, length), cell in results.items() if name == "blocked" and length >= 4096
        ]
        if len(found) > 1:
            slope = statistics.linear_regression(*zip(*[_log(pair) for pair in found], strict=True)).slope
            yield f"log-log slope {slope:.3f} from {found[0][0]:,} to {found[-1][0]:,} tokens (at most 1.08)"
        if ("blocked", 8192) in results:
            share = USEFUL_BACKWARD * useful_operations(8192) / results["blocked", 8192].both_s / rate
            yield f"{share:.0%} of the matrix rate at 8,192 tokens (at least 35%)"

    return "\n".join(ratios())


def _log(pair: tuple[float, float]) -> tuple[float, float]:
    one, other = torch.tensor(pair, dtype=torch.float64).log().tolist()
    return one, other


def compare_modernbert(length: int = 8192) -> None:
    """Run ModernBERT, 4 layers of which one is global, on its own attention and on ours."""
    config = ModernBertConfig(num_hidden_layers=4, global_attn_every_n_layers=4, vocab_size=1000, pad_token_id=0)
    torch.manual_seed(0)
    theirs = ModernBertModel(config).eval()
    theirs.set_attn_implementation("sdpa")
    ours = apply_attention(copy.deepcopy(theirs), AttentionConfig())
    ids = torch.randint(1, 1000, (1, length))
    times, hidden = {}, {}
    for name, model in (("theirs", theirs), ("ours", ours)):
        start = time.perf_counter()
        out = model(ids).last_hidden_state
        out.square().mean().backward()
        times[name], hidden[name] = time.perf_counter() - start, out.detach()
    difference = (hidden["theirs"] - hidden["ours"]).abs().max()
    print(f"ModernBERT, 4 layers, {length:,} tokens, forward and backward: its own attention {times['theirs']:.1f} s, ours "
          f"{times['ours']:.1f} s, {times['theirs'] / times['ours']:.2f}x; outputs differ by {difference:.1e}")  # fmt: skip


def reset_peak() -> None:
    """Give free memory back to the kernel and let it count the peak anew."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def status_mib(field: str) -> float:
    """Read a size from the kernel's account of this process."""
    for entry in Path("/proc/self/status").read_text().splitlines():
        if entry.startswith(field):
            return int(entry.split()[1]) / 1024
    raise KeyError(field)


if __name__ == "__main__":
    main()
