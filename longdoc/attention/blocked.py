"""The blocked backend: any mix of short and long segments, linear in time and memory.

Shapes: B rows, L slots of a row, T real tokens, H heads, D width of a head, S segments of a part.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from longdoc.attention.banded import Band, banded_attention
from longdoc.attention.layout import Layout, Part, build_layout, dense_mask
from longdoc.attention.pattern import Pattern


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
    layout = build_layout(pattern, q.device)
    streams = [_to_stream(x, layout) for x in (q, k, v)]
    # The gradient of a split is a copy, which a single part does without.
    parts = [[x] if len(layout.parts) == 1 else x.split(layout.sizes) for x in streams]
    pieces = [
        _attend_part(q_part, k_part, v_part, part, layout, pattern, scale, dropout)
        for q_part, k_part, v_part, part in zip(*parts, layout.parts, strict=True)
    ]
    if not pieces:
        return torch.zeros_like(v)
    out_THD = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
    if layout.index is not None:
        out_THD = _put(out_THD, layout.index, rows * slots)
    return out_THD.view(rows, slots, *out_THD.shape[1:]).transpose(1, 2)


def _to_stream(x_BHLD: Tensor, layout: Layout) -> Tensor:
    x_NHD = x_BHLD.transpose(1, 2).flatten(0, 1)
    return x_NHD if layout.index is None else _Take.apply(x_NHD, layout.index)


def _attend_part(
    q_THD: Tensor,
    k_THD: Tensor,
    v_THD: Tensor,
    part: Part,
    layout: Layout,
    pattern: Pattern,
    scale: float,
    dropout: float,
) -> Tensor:
    if part.dense or (pattern.slopes is None and pattern.covers(part.length)):
        mask = dense_mask(layout, part, pattern, q_THD)
        q, k, v = (x.unflatten(0, (part.num_segments, part.length)).transpose(1, 2) for x in (q_THD, k_THD, v_THD))
        out = F.scaled_dot_product_attention(q, k, v, mask, dropout, scale=scale)
        return out.transpose(1, 2).flatten(0, 1)
    q, k, v = (x.transpose(0, 1) for x in (q_THD, k_THD, v_THD))
    return banded_attention(q, k, v, band_of(part, pattern), scale, dropout).transpose(0, 1)


def band_of(part: Part, pattern: Pattern) -> Band:
    """Give the window of a long segment; all layers and segments share what the pattern keeps."""
    templates: dict[Any, Tensor] = pattern._once("templates", dict)
    return Band(part.length, pattern.left, pattern.right, part.global_positions, pattern.slopes, templates=templates)
