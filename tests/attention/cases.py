"""Random attention problems. Shapes: T tokens, H heads, D width of a head."""

import random
from dataclasses import dataclass

import torch
from torch import Tensor

from longdoc.attention import Pattern, alibi_slopes, attend


@dataclass
class Case:
    pattern: Pattern
    inputs: tuple[Tensor, Tensor, Tensor, Tensor]
    """Queries, keys, values and the gradient of the result. *Shape:* (B, H, L, D)."""


def random_case(seed: int, most_tokens: int = 3000) -> Case:
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    heads, width = rng.choice((1, 6, 8, 12)), rng.choice((16, 24, 32, 48, 64))
    num_segments = rng.randint(1, 40)
    lengths = [rng.randint(1, 60) for _ in range(num_segments)]
    if rng.random() < 0.6:
        lengths[rng.randrange(num_segments)] = rng.randint(130, most_tokens)
    while sum(lengths) > most_tokens:
        lengths[lengths.index(max(lengths))] //= 2
    num_tokens = sum(lengths)
    left, right = (rng.choice((None, 0, 1, 7, 37, 128, 200, 256)) for _ in range(2))
    marked = None
    num_global = rng.randint(0, 8)
    if num_global:
        marked = torch.zeros(num_tokens, dtype=torch.bool)
        marked[torch.randint(num_tokens, (num_global,), generator=generator)] = True
    slopes = alibi_slopes(heads) if rng.random() < 0.5 else None
    if rng.random() < 0.3:
        pattern = _as_padded(lengths, left, right, marked, slopes, rng)
    else:
        pattern = Pattern.packed(lengths, left, right, marked, slopes)
    rows, slots = pattern.batch_shape
    layouts = ((rows, slots, heads, width), (rows, heads, slots, width), (rows, heads, slots, 2 * width))
    layout = rng.randrange(3)

    def draw() -> Tensor:
        x = torch.randn(layouts[layout], generator=generator)
        return x.transpose(1, 2) if layout == 0 else x[..., :width]

    return Case(pattern, (draw(), draw(), draw(), draw()))


def _as_padded(lengths, left, right, marked, slopes, rng) -> Pattern:
    longest = max(lengths)
    mask = torch.zeros(len(lengths), longest, dtype=torch.bool)
    for row, length in enumerate(lengths):
        start = rng.randint(0, longest - length)
        mask[row, start : start + length] = True
    keep = max(1, 3000 // longest)
    mask = mask[:keep]
    spread = None
    if marked is not None:
        spread = torch.zeros_like(mask)
        spread[mask] = marked[: int(mask.sum())]
    return Pattern.padded(mask, left, right, spread, slopes)


def run(case: Case, backend: str, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """Give the result and the gradients of queries, keys and values."""
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in case.inputs[:3])
    out = attend(q, k, v, case.pattern, backend=backend)
    out.backward(case.inputs[3].to(dtype))
    return out.detach(), q.grad, k.grad, v.grad
