"""The flex backend: PyTorch's FlexAttention, on CUDA.

Shapes: B rows, L slots of a row, N = B * L slots, H heads, D width of a head.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import flex_attention as flex

from longdoc.attention.pattern import Pattern

_LEAST_WIDTH = 16


def why_not_flex(pattern: Pattern, q: Tensor, dropout: float) -> str | None:
    """Say why FlexAttention cannot compute a pattern, None if it can."""
    if q.device.type != "cuda":
        return f"FlexAttention has a backward pass on CUDA only, the tensors are on {q.device.type}"
    if dropout:
        return "FlexAttention has no attention dropout"
    if q.dtype == torch.float64:
        return "FlexAttention does not take float64"
    if q.shape[-1] < _LEAST_WIDTH:
        return f"FlexAttention takes heads of at least {_LEAST_WIDTH}, not {q.shape[-1]}"
    if not pattern.lengths:
        return "the batch holds no token"
    return None


def flex_attention(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scale: float) -> Tensor:
    """Attend with FlexAttention over all slots as one stream. *Shape:* (B, H, L, D)."""
    rows, heads, slots, width = q.shape
    stream = [x.transpose(0, 1).reshape(1, heads, rows * slots, x.shape[-1]) for x in (q, k, v)]
    block_mask, score_mod = pattern._once(("flex", q.device), lambda: _make_mods(pattern, q.device))
    out_1HND = _compiled()(*stream, score_mod=score_mod, block_mask=block_mask, scale=scale)
    out_BHLD = out_1HND.view(heads, rows, slots, width).transpose(0, 1)
    if pattern.slots is None:
        return out_BHLD
    padding = (pattern._spread(pattern.segment_ids, -1) < 0).to(q.device)
    return out_BHLD.masked_fill(padding[:, None, :, None], 0)


@cache
def _compiled() -> Any:
    return torch.compile(flex.flex_attention, dynamic=True)


def _make_mods(pattern: Pattern, device: torch.device) -> tuple[Any, Any]:
    segment = pattern._spread(pattern.segment_ids, -1).flatten().to(device)
    position = pattern.position_ids.flatten().to(device)
    marked = pattern._spread(pattern.is_global, 0).flatten().to(device)
    num_slots = len(segment)
    left = num_slots if pattern.left is None else pattern.left
    right = num_slots if pattern.right is None else pattern.right

    def mask_mod(_b: Tensor, _h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        offset = position[key] - position[query]
        near = (offset >= -left) & (offset <= right)
        return (segment[query] == segment[key]) & (segment[query] >= 0) & (near | marked[query] | marked[key])

    block_mask = flex.create_block_mask(mask_mod, None, None, num_slots, num_slots, device=device, _compile=True)
    if pattern.slopes is None:
        return block_mask, None
    slopes = pattern.slopes.to(device)

    def score_mod(score: Tensor, _b: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        distance = (position[key] - position[query]).abs()
        return score - slopes[head] * torch.where(marked[query] | marked[key], 0, distance)

    return block_mask, score_mod
