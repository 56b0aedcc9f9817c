"""The slow and obvious backend that the others are compared with.

Shapes: B rows, L slots of a row, N = B * L slots, H heads, D width of a head.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from longdoc.attention.pattern import Pattern, in_window


def visible(pattern: Pattern) -> Tensor:
    """Say for each pair of slots whether the first may attend to the second. *Shape:* (N, N)."""
    segment, position, is_global = _slot_tables(pattern)
    offset = position[None, :] - position[:, None]
    near = in_window(offset, pattern.left, pattern.right) | is_global[:, None] | is_global[None, :]
    together = (segment[:, None] == segment[None, :]) & (segment[:, None] >= 0)
    return together & near


def distance_bias(pattern: Pattern) -> Tensor | None:
    """Give the bias of each head and pair of slots; None if there is none. *Shape:* (H, N, N)."""
    if pattern.slopes is None or pattern.control is not None:
        return None
    _, position, is_global = _slot_tables(pattern)
    distance = (position[None, :] - position[:, None]).abs()
    distance = distance.masked_fill(is_global[:, None] | is_global[None, :], 0)
    return -pattern.slopes.cpu().double()[:, None, None] * distance


def reference_weights(q: Tensor, k: Tensor, pattern: Pattern, scale: float) -> Tensor:
    """Give the attention weights of all slots; a row with no key is zero. *Shape:* (H, N, N)."""
    q_HND, k_HND = (x.transpose(0, 1).flatten(1, 2) for x in (q, k))
    scores = torch.zeros_like(q_HND @ k_HND.mT) if pattern.control == "uniform" else scale * (q_HND @ k_HND.mT)
    bias = distance_bias(pattern)
    if bias is not None:
        scores = scores + bias.to(scores)
    seen = visible(pattern).to(scores.device)
    alone = ~seen.any(-1, keepdim=True)
    weights = scores.masked_fill(~seen & ~alone, -torch.inf).softmax(-1)
    return weights.masked_fill(alone, 0)


def reference_attention(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scale: float, dropout: float) -> Tensor:
    """Attend with a dense mask. *Shape:* (B, H, L, D)."""
    weights = F.dropout(reference_weights(q, k, pattern, scale), dropout)
    out_HND = weights @ v.transpose(0, 1).flatten(1, 2)
    return out_HND.unflatten(1, pattern.batch_shape).transpose(0, 1)


def _slot_tables(pattern: Pattern) -> tuple[Tensor, Tensor, Tensor]:
    segment, is_global = pattern._spread(pattern.segment_ids, -1), pattern._spread(pattern.is_global, 0)
    return segment.flatten(), pattern.position_ids.flatten(), is_global.flatten()
