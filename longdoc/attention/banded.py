"""Attention within one long segment, tile by tile: linear in time and memory for a fixed window.

A tile is a block of queries against the keys of their windows. Its scores are formed, used and dropped while they are
in the cache; the backward pass forms them again, and adds the gradients of keys and values straight into place.

Shapes: L tokens of the segment, H heads, D width of a head, R queries of a tile, C keys of its window, G global tokens.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from longdoc.attention.parallel import for_each
from longdoc.attention.pattern import in_window

BLOCK_TOKENS = 64
"""Queries of a tile: few waste less of the window, many make larger products."""
_TILE_ELEMENTS = 2**19
"""Scores that each core holds at a time: a tile takes fewer heads if they would not fit."""
_STEEP = 40.0
"""Largest distance bias from which a head's weights are searched for numbers below the normal range."""
_TEMPLATE_TOKENS = 4096
"""Widest window of which the bias is kept; beyond it is made anew for each tile."""


@dataclass(frozen=True)
class Tile:
    """Queries, keys and heads that are computed together, as half-open ranges."""

    queries: slice
    keys: slice
    heads: slice

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, R, C)."""
        num_heads, num_queries, num_keys = (s.stop - s.start for s in (self.heads, self.queries, self.keys))
        return num_heads, num_queries, num_keys


@dataclass(frozen=True, eq=False)
class Band:
    """The window of one segment and what is needed to mask its tiles.

    Args:
        length: L.
        left: Neighbours seen before a token; None for all.
        right: Neighbours seen after a token; None for all.
        global_positions: Of the global tokens; their columns stand apart, behind those of the window.
        slopes: Of the distance bias. *Shape:* (H,).
        block_tokens: Queries of a tile.
        templates: Where the bias of an inner tile is kept, which is the same for all of them; bands may share it.
    """

    length: int
    left: int | None
    right: int | None
    global_positions: tuple[int, ...] = ()
    slopes: Tensor | None = None
    block_tokens: int = BLOCK_TOKENS
    templates: dict[Any, Tensor] = field(default_factory=dict)

    @cached_property
    def reach(self) -> tuple[int, int]:
        """Neighbours before and after that can exist at all."""
        most = self.length - 1
        left, right = (most if side is None else min(most, side) for side in (self.left, self.right))
        return left, right

    def head_groups(self, num_heads: int) -> list[slice]:
        """Share the heads among the cores, in groups whose scores fit the memory set aside for a tile."""
        widest = min(self.length, self.block_tokens + sum(self.reach)) + len(self.global_positions)
        most = max(self.block_tokens * widest, len(self.global_positions) * self.length)
        size = max(1, min(_TILE_ELEMENTS // most, num_heads // torch.get_num_threads()))
        return [slice(head, min(num_heads, head + size)) for head in range(0, num_heads, size)]

    def tiles(self, heads: slice) -> Iterator[Tile]:
        """Cut the segment, always in the same order."""
        left, right = self.reach
        for start in range(0, self.length, self.block_tokens):
            stop = min(self.length, start + self.block_tokens)
            yield Tile(slice(start, stop), slice(max(0, start - left), min(self.length, stop + right)), heads)

    def globals_within(self, span: slice) -> list[int]:
        """Places of the global tokens in a range of the segment, counted from its start."""
        return [position - span.start for position in self.global_positions if span.start <= position < span.stop]

    def masked_columns(self, tile: Tile) -> tuple[slice, ...]:
        """Columns of a window that some query of the tile does not see; what lies between is seen by all."""
        left, right = self.reach
        _, num_queries, num_keys = tile.shape
        shift = left - (tile.queries.start - tile.keys.start)
        first = max(0, num_queries - 1 - shift)
        last = min(num_keys, left + right + 1 - shift)
        if first >= last:
            return (slice(0, num_keys),)
        return tuple(span for span in (slice(0, first), slice(last, num_keys)) if span.start < span.stop)

    def bias(self, tile: Tile, like: Tensor) -> Tensor:
        """Give what is added to the scores of a window: distance bias, and -inf outside. *Shape:* (1 or H, R, C)."""
        left, right = self.reach
        _, num_queries, num_keys = tile.shape
        before = tile.queries.start - tile.keys.start
        if left + right > _TEMPLATE_TOKENS:
            return self._make_bias(num_queries, before, num_keys, tile.heads, like)
        key = (left, right, self.block_tokens, like.dtype, like.device)
        if key not in self.templates:
            widest = self.block_tokens + left + right
            self.templates[key] = self._make_bias(self.block_tokens, left, widest, slice(None), like)
        heads = slice(None) if self.slopes is None else tile.heads
        return self.templates[key][heads, :num_queries, left - before : left - before + num_keys]

    @cached_property
    def steep_heads(self) -> tuple[int, ...]:
        """Heads whose distance bias drives weights below the normal range of numbers."""
        if self.slopes is None:
            return ()
        return tuple((self.slopes * max(self.reach) > _STEEP).nonzero().flatten().tolist())

    def _make_bias(self, num_queries: int, before: int, num_keys: int, heads: slice, like: Tensor) -> Tensor:
        row = torch.arange(num_queries, device=like.device)[:, None] + before
        offset = torch.arange(num_keys, device=like.device)[None, :] - row
        if self.slopes is None:
            bias = like.new_zeros((1, *offset.shape))
        else:
            bias = -self.slopes.to(like)[heads, None, None] * offset.abs()
        return bias.masked_fill_(~in_window(offset, *self.reach), -torch.inf)


class _Scratch:
    """Memory for the scores of one tile after the other, and what dropout draws for them."""

    def __init__(self, like: Tensor, dropout: float, seed: int) -> None:
        self.like, self.dropout = like, dropout
        self.buffers: dict[str, Tensor] = {}
        self.generator = torch.Generator(like.device).manual_seed(seed) if dropout else None

    def get(self, name: str, *shape: int) -> Tensor:
        """Give memory of a shape, with anything in it."""
        size = math.prod(shape)
        if name not in self.buffers or self.buffers[name].numel() < size:
            self.buffers[name] = self.like.new_empty(size)
        return self.buffers[name][:size].view(shape)

    def keep(self, weights: Tensor) -> Tensor | None:
        """Draw what dropout multiplies weights with; the backward pass draws the same again."""
        if not self.dropout:
            return None
        kept = self.get("keep", *weights.shape).bernoulli_(1 - self.dropout, generator=self.generator)
        return kept.div_(1 - self.dropout)


def _behind(x: Tensor, y: Tensor, heads: slice, band: Band, scale: float = 1.0) -> Tensor | None:
    """Multiply all tokens with the global ones, None without any. *Shapes:* (H, L, D) twice to (H, L, G)."""
    marked = list(band.global_positions)
    return (x[heads] @ y[heads, marked].mT).mul_(scale) if marked else None


def _tile_weights(
    q: Tensor, k: Tensor, behind: Tensor | None, tile: Tile, band: Band, scale: float, scratch: _Scratch
) -> Tensor:
    """Form the weights of a tile; the rows of global tokens are zero. *Shape:* (H, R, C + G).

    ``behind`` holds the scores of the global keys, for all queries, *shape* (H, L, G).
    """
    num_heads, num_queries, num_keys = tile.shape
    weights = scratch.get("weights", num_heads, num_queries, num_keys + len(band.global_positions))
    q_tile, k_tile = q[tile.heads, tile.queries], k[tile.heads, tile.keys]
    window = weights[..., :num_keys]
    bias = band.bias(tile, q)
    if band.slopes is None:
        window.baddbmm_(q_tile, k_tile.mT, beta=0, alpha=scale)
        for columns in band.masked_columns(tile):
            window[..., columns] += bias[..., columns]
    elif behind is not None:
        window.copy_(bias).baddbmm_(q_tile, k_tile.mT, alpha=scale)
    else:
        torch.baddbmm(bias, q_tile, k_tile.mT, alpha=scale, out=window)
    if behind is not None:
        if places := band.globals_within(tile.keys):
            window[..., places] = -torch.inf
        weights[..., num_keys:] = behind[:, tile.queries]
    torch.softmax(weights, -1, out=weights)
    for head in band.steep_heads:
        if tile.heads.start <= head < tile.heads.stop:
            # Products with numbers below the normal range are many times slower on a CPU.
            torch.threshold_(weights[head - tile.heads.start], torch.finfo(weights.dtype).eps ** 4, 0.0)
    if rows := band.globals_within(tile.queries):
        weights[:, rows] = 0
    return weights


def _global_weights(q: Tensor, k: Tensor, heads: slice, band: Band, scale: float, scratch: _Scratch) -> Tensor:
    """Form the weights of the global tokens, which see the whole segment. *Shape:* (H, G, L)."""
    marked = list(band.global_positions)
    scores = scratch.get("weights", heads.stop - heads.start, len(marked), band.length)
    scores.baddbmm_(q[heads, marked], k[heads].mT, beta=0, alpha=scale)
    return torch.softmax(scores, -1, out=scores)


class _BandedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, band: Band, scale: float, dropout: float, seed: int
    ) -> Tensor:
        out = _empty_by_token(v)

        def attend_heads(heads: slice) -> None:
            _forward(q, k, v, out, heads, band, scale, _Scratch(q, dropout, seed + heads.start))

        # Each head draws its own dropout, however many are computed together.
        one_by_one = [slice(head, head + 1) for head in range(q.shape[0])]
        groups = one_by_one if dropout else band.head_groups(q.shape[0])
        for_each(attend_heads, groups, q.device)
        ctx.save_for_backward(q, k, v)
        ctx.groups, ctx.band, ctx.scale, ctx.dropout, ctx.seed = groups, band, scale, dropout, seed
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        grad = grad if grad.stride(-1) == 1 else grad.contiguous()
        gradients = (_empty_by_token(q), k.new_zeros(k.shape), v.new_zeros(v.shape))

        def attend_heads(heads: slice) -> None:
            scratch = _Scratch(q, ctx.dropout, ctx.seed + heads.start)
            _backward(q, k, v, grad, gradients, heads, ctx.band, ctx.scale, scratch)

        for_each(attend_heads, ctx.groups, q.device)
        return *gradients, None, None, None, None


def _forward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, heads: slice, band: Band, scale: float, scratch: _Scratch
) -> None:
    marked = list(band.global_positions)
    behind = _behind(q, k, heads, band, scale)
    for tile in band.tiles(heads):
        weights = _tile_weights(q, k, behind, tile, band, scale, scratch)
        keep = scratch.keep(weights)
        if keep is not None:
            weights.mul_(keep)
        num_keys = tile.shape[2]
        torch.bmm(weights[..., :num_keys], v[heads, tile.keys], out=out[heads, tile.queries])
        if behind is not None:
            behind[:, tile.queries] = weights[..., num_keys:]  # scores become weights
    if behind is not None:
        out[heads] += behind @ v[heads, marked]
        weights = _global_weights(q, k, heads, band, scale, scratch)
        keep = scratch.keep(weights)
        out[heads, marked] = (weights if keep is None else weights.mul_(keep)) @ v[heads]


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    grad: Tensor,
    gradients: tuple[Tensor, Tensor, Tensor],
    heads: slice,
    band: Band,
    scale: float,
    scratch: _Scratch,
) -> None:
    marked = list(band.global_positions)
    dq, dk, dv = gradients
    behind, d_behind = _behind(q, k, heads, band, scale), _behind(grad, v, heads, band)
    for tile in band.tiles(heads):
        num_keys = tile.shape[2]
        q_tile, k_tile, v_tile = q[heads, tile.queries], k[heads, tile.keys], v[heads, tile.keys]
        grad_tile = grad[heads, tile.queries]
        weights = _tile_weights(q, k, behind, tile, band, scale, scratch)
        d_weights = scratch.get("gradient", *weights.shape)
        d_weights[..., :num_keys].baddbmm_(grad_tile, v_tile.mT, beta=0)
        if d_behind is not None:
            d_weights[..., num_keys:] = d_behind[:, tile.queries]
        used, d_scores = _through_softmax(weights, d_weights, scratch)
        window = d_scores[..., :num_keys]
        dv[heads, tile.keys].baddbmm_(used[..., :num_keys].mT, grad_tile)
        dk[heads, tile.keys].baddbmm_(window.mT, q_tile, alpha=scale)
        dq[heads, tile.queries].baddbmm_(window, k_tile, beta=0, alpha=scale)
        if behind is not None and d_behind is not None:  # scores become weights, and their gradients those of scores
            behind[:, tile.queries] = used[..., num_keys:]
            d_behind[:, tile.queries] = d_scores[..., num_keys:]
    if behind is not None and d_behind is not None:
        dq[heads] += scale * (d_behind @ k[heads, marked])
        grad_rows, weights = grad[heads, marked], _global_weights(q, k, heads, band, scale, scratch)
        d_weights = torch.bmm(grad_rows, v[heads].mT, out=scratch.get("gradient", *weights.shape))
        used, d_scores = _through_softmax(weights, d_weights, scratch)
        dv[heads].baddbmm_(used.mT, grad_rows)
        dk[heads].baddbmm_(d_scores.mT, q[heads, marked], alpha=scale)
        dq[heads, marked] = scale * (d_scores @ k[heads])
        dk[heads, marked] += scale * (d_behind.mT @ q[heads])
        dv[heads, marked] += behind.mT @ grad[heads]


def _empty_by_token(like: Tensor) -> Tensor:
    num_heads, length, width = like.shape
    return like.new_empty((length, num_heads, width)).transpose(0, 1)


def _through_softmax(weights: Tensor, d_weights: Tensor, scratch: _Scratch) -> tuple[Tensor, Tensor]:
    """Give the weights after dropout, and the gradient of the scores in the place of that of the weights."""
    keep = scratch.keep(weights)
    used = weights
    if keep is not None:
        d_weights.mul_(keep)
        used = keep.mul_(weights)
    return used, torch._softmax_backward_data(d_weights, weights, -1, weights.dtype, grad_input=d_weights)


def banded_attention(q: Tensor, k: Tensor, v: Tensor, band: Band, scale: float, dropout: float = 0.0) -> Tensor:
    """Attend within one segment; all tensors are of shape (H, L, D)."""
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    seed = int(torch.randint(2**62, ())) if dropout else 0
    return _BandedAttention.apply(q, k, v, band, scale, dropout, seed)


def band_weights(q: Tensor, k: Tensor, band: Band, scale: float) -> Iterator[tuple[slice, Tensor]]:
    """Give the attention weights of a segment piece by piece, with their heads; each is overwritten by the next.

    The rows of global tokens are zero where they come with others, and come on their own at the end.
    """
    scratch = _Scratch(q, 0.0, 0)
    for heads in band.head_groups(q.shape[0]):
        behind = _behind(q, k, heads, band, scale)
        for tile in band.tiles(heads):
            yield heads, _tile_weights(q, k, behind, tile, band, scale, scratch)
        if band.global_positions:
            yield heads, _global_weights(q, k, heads, band, scale, scratch)
