"""The blocked backend: any mix of short and long segments, linear in time and memory.

A stream is cut into parts: short segments side by side for a dense kernel, long ones on their own.

Shapes: B rows, L slots of a row, N = B * L slots, T real tokens, H heads, D width of a head, S segments of a part.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from longdoc.attention.banded import Band, banded_attention
from longdoc.attention.pattern import Pattern, in_window

_DENSE_BIASED_ROWS = 4096
_DENSE_ONE_SIDED_TOKENS = 512


@dataclass(frozen=True)
class Part:
    """Segments that are computed in one go: a single long one, or short ones alike in length and global tokens.

    Args:
        num_segments: S.
        length: Tokens of each.
        global_positions: Positions of the global tokens in each.
        dense: Whether the dense kernel takes it.
    """

    num_segments: int
    length: int
    global_positions: tuple[int, ...]
    dense: bool


def dense_limit(pattern: Pattern) -> int:
    """Say up to which length a segment goes to a dense kernel, as measured for windows of 64 to 256 neighbours.

    With distance bias the dense kernel reads one value for each head and pair of tokens, while tiles of few heads are
    too small to be worth their calls: the limit falls with the number of heads.
    """
    if pattern.slopes is not None:
        return min(1024, _DENSE_BIASED_ROWS // len(pattern.slopes))
    if pattern.left is None or pattern.right is None:
        return _DENSE_ONE_SIDED_TOKENS
    return min(1024, max(256, pattern.left + pattern.right + 128))


def _layout(pattern: Pattern, device: torch.device) -> tuple[list[Part], Tensor | None]:
    """Give the parts of a stream, and the slot at each place of their order; None for the order of the slots, (T,)."""
    limit = dense_limit(pattern)
    members: dict[tuple[int, tuple[int, ...], int], list[int]] = {}
    for segment, (length, marked) in enumerate(zip(pattern.lengths, pattern.global_positions, strict=True)):
        alone = -1 if length <= limit else segment
        members.setdefault((length, marked, alone), []).append(segment)
    parts = [Part(len(found), length, marked, alone < 0) for (length, marked, alone), found in members.items()]
    order = [segment for found in members.values() for segment in found]
    index = pattern.slots
    if order != sorted(order):
        index = torch.cat([torch.arange(*pattern.bounds[segment : segment + 2]) for segment in order])
        index = index if pattern.slots is None else pattern.slots.cpu()[index]
    return parts, None if index is None else index.to(device)


def _dense_mask(part: Part, pattern: Pattern, like: Tensor) -> Tensor:
    """Give what is added to the scores of a part. *Shape:* (1, 1 or H, length, length)."""
    place = torch.arange(part.length, device=like.device)
    offset = place[None, :] - place[:, None]
    marked = torch.zeros_like(place, dtype=torch.bool)
    marked[list(part.global_positions)] = True
    either = marked[:, None] | marked[None, :]
    if pattern.slopes is None:
        bias = like.new_zeros((1, *offset.shape))  # the dense kernel would make floats of booleans in each call
    else:
        bias = -pattern.slopes.to(like)[:, None, None] * offset.abs().masked_fill(either, 0)
    return bias.masked_fill(~(in_window(offset, pattern.left, pattern.right) | either), -torch.inf)[None]


class _Take(torch.autograd.Function):
    """Take rows that are all different: the gradient is written back without adding."""

    @staticmethod
    def forward(ctx: Any, x_NHD: Tensor, index_T: Tensor) -> Tensor:
        ctx.save_for_backward(index_T)
        ctx.num_rows = x_NHD.shape[0]
        return x_NHD.index_select(0, index_T)

    @staticmethod
    def backward(ctx: Any, grad_THD: Tensor) -> tuple[Tensor, None]:
        return _put(grad_THD, ctx.saved_tensors[0], ctx.num_rows), None


def _put(x_THD: Tensor, index_T: Tensor, num_rows: int) -> Tensor:
    return x_THD.new_zeros((num_rows, *x_THD.shape[1:])).index_copy(0, index_T, x_THD)


def blocked_attention(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scale: float, dropout: float) -> Tensor:
    """Attend part by part: short segments through a dense kernel, long ones tile by tile. *Shape:* (B, H, L, D)."""
    rows, _, slots, _ = q.shape
    parts, index = pattern._once(("layout", q.device), lambda: _layout(pattern, q.device))
    streams = [x.transpose(1, 2).flatten(0, 1) for x in (q, k, v)]
    if index is not None:
        streams = [_Take.apply(x_NHD, index) for x_NHD in streams]
    # The gradient of a split is a copy, which a single part does without.
    sizes = [part.num_segments * part.length for part in parts]
    pieces_of = [[x] if len(parts) == 1 else x.split(sizes) for x in streams]
    pieces = [
        _attend_part(part, q_part, k_part, v_part, pattern, scale, dropout)
        for part, q_part, k_part, v_part in zip(parts, *pieces_of, strict=True)
    ]
    if not pieces:
        return torch.zeros_like(v)
    out_THD = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
    out_NHD = out_THD if index is None else _put(out_THD, index, rows * slots)
    return out_NHD.unflatten(0, (rows, slots)).transpose(1, 2)


def _attend_part(
    part: Part, q_THD: Tensor, k_THD: Tensor, v_THD: Tensor, pattern: Pattern, scale: float, dropout: float
) -> Tensor:
    plain = pattern.slopes is None and pattern.covers(part.length)
    if part.dense or plain:
        key = ("mask", part, q_THD.dtype, q_THD.device)
        mask = None if plain else pattern._once(key, lambda: _dense_mask(part, pattern, q_THD))
        q, k, v = (x.unflatten(0, (part.num_segments, part.length)).transpose(1, 2) for x in (q_THD, k_THD, v_THD))
        out = F.scaled_dot_product_attention(q, k, v, mask, dropout, scale=scale)
        return out.transpose(1, 2).flatten(0, 1)
    q, k, v = (x.transpose(0, 1) for x in (q_THD, k_THD, v_THD))
    # All layers and segments share what the pattern keeps.
    templates: dict[Any, Tensor] = pattern._once("templates", dict)
    band = Band(part.length, pattern.left, pattern.right, part.global_positions, pattern.slopes, templates=templates)
    return banded_attention(q, k, v, band, scale, dropout).transpose(0, 1)
