"""Attention within one long segment, tile by tile: linear in time and memory for a fixed window.

A tile is a block of queries against the keys of their windows. Its scores are formed, used and dropped while they are
in the cache; the backward pass forms them again, and adds the gradients of keys and values straight into place.

Shapes: L tokens of the segment, H heads, D width of a head, R queries of a tile, C keys of its window, G global tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK_TOKENS = 128
_TILE_ELEMENTS = 2**22
"""Scores held at a time: a tile takes fewer heads if they would not fit."""
_TEMPLATE_BLOCKS = 32
"""Widest window, in blocks, of which the bias is kept; beyond it is made anew for each tile."""


@dataclass(frozen=True)
class Tile:
    """Queries, keys and heads that are computed together, as half-open ranges."""

    queries: slice
    keys: slice
    heads: slice

    @property
    def num_queries(self) -> int:
        """R."""
        return self.queries.stop - self.queries.start

    @property
    def num_keys(self) -> int:
        """C."""
        return self.keys.stop - self.keys.start

    @property
    def num_heads(self) -> int:
        """H of the tile."""
        return self.heads.stop - self.heads.start


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

    def tiles(self, num_heads: int) -> Iterator[Tile]:
        """Cut the segment, always in the same order."""
        left, right = self.reach
        widest = min(self.length, self.block_tokens + left + right) + len(self.global_positions)
        heads = max(1, min(num_heads, _TILE_ELEMENTS // (self.block_tokens * widest)))
        for start in range(0, self.length, self.block_tokens):
            stop = min(self.length, start + self.block_tokens)
            keys = slice(max(0, start - left), min(self.length, stop + right))
            for head in range(0, num_heads, heads):
                yield Tile(slice(start, stop), keys, slice(head, min(num_heads, head + heads)))

    def globals_within(self, keys: slice) -> list[int]:
        """Columns of a tile's window that hold global tokens."""
        return [position - keys.start for position in self.global_positions if keys.start <= position < keys.stop]

    def bias(self, tile: Tile, like: Tensor) -> Tensor:
        """Give what is added to the scores of a window: distance bias, and -inf outside. *Shape:* (1 or H, R, C)."""
        left, right = self.reach
        before = tile.queries.start - tile.keys.start
        if left + right > _TEMPLATE_BLOCKS * self.block_tokens:
            return self._make_bias(tile.num_queries, before, tile.num_keys, tile.heads, like)
        shift = left - before
        whole = self._template(like)
        heads = slice(None) if self.slopes is None else tile.heads
        return whole[heads, : tile.num_queries, shift : shift + tile.num_keys]

    def _template(self, like: Tensor) -> Tensor:
        left, right = self.reach
        key = (left, right, self.block_tokens, like.dtype, like.device)
        if key not in self.templates:
            num_keys = self.block_tokens + left + right
            self.templates[key] = self._make_bias(self.block_tokens, left, num_keys, slice(None), like)
        return self.templates[key]

    def _make_bias(self, num_queries: int, before: int, num_keys: int, heads: slice, like: Tensor) -> Tensor:
        left, right = self.reach
        row = torch.arange(num_queries, device=like.device)[:, None] + before
        offset = torch.arange(num_keys, device=like.device)[None, :] - row
        seen = (offset >= -left) & (offset <= right)
        if self.slopes is None:
            bias = torch.zeros((1, *offset.shape), dtype=like.dtype, device=like.device)
        else:
            bias = -self.slopes.to(like)[heads, None, None] * offset.abs()
        return bias.masked_fill_(~seen, -torch.inf)


class _Tiles:
    """The arithmetic that forward and backward share: scores and weights of a tile, in buffers used again and again."""

    def __init__(self, q: Tensor, k: Tensor, band: Band, scale: float, dropout: float, seed: int) -> None:
        self.q, self.k, self.band, self.scale, self.dropout = q, k, band, scale, dropout
        self.k_global = k[:, list(band.global_positions)] if band.global_positions else None
        self.num_global = len(band.global_positions)
        self.buffers: dict[str, Tensor] = {}
        self.generator = torch.Generator(q.device).manual_seed(seed) if dropout else None

    def __iter__(self) -> Iterator[Tile]:
        return self.band.tiles(self.q.shape[0])

    def buffer(self, name: str, tile: Tile) -> Tensor:
        """Give scratch memory for one value per score. *Shape:* (H, R, C + G)."""
        shape = (tile.num_heads, tile.num_queries, tile.num_keys + self.num_global)
        size = shape[0] * shape[1] * shape[2]
        if name not in self.buffers or self.buffers[name].numel() < size:
            self.buffers[name] = self.q.new_empty(size)
        return self.buffers[name][:size].view(shape)

    def scores(self, tile: Tile) -> Tensor:
        """Form the masked scores of a tile. *Shape:* (H, R, C + G)."""
        scores = self.buffer("weights", tile)
        q, k = self.q[tile.heads, tile.queries], self.k[tile.heads, tile.keys]
        bias = self.band.bias(tile, self.q)
        if self.k_global is None:
            return torch.baddbmm(bias, q, k.mT, alpha=self.scale, out=scores)
        window = scores[..., : tile.num_keys]
        window.copy_(bias).baddbmm_(q, k.mT, alpha=self.scale)
        window[..., self.band.globals_within(tile.keys)] = -torch.inf
        torch.mul(q @ self.k_global[tile.heads].mT, self.scale, out=scores[..., tile.num_keys :])
        return scores

    def weights(self, tile: Tile) -> Tensor:
        """Form the attention weights of a tile, before dropout. *Shape:* (H, R, C + G)."""
        scores = self.scores(tile)
        torch.softmax(scores, -1, out=scores)
        if self.band.slopes is not None:
            # Products with numbers too small for the normal range are many times slower on a CPU.
            torch.threshold_(scores, torch.finfo(scores.dtype).tiny, 0.0)
        return scores

    def keep(self, tile: Tile) -> Tensor | None:
        """Draw what dropout multiplies the weights with; the same again in the backward pass."""
        if not self.dropout:
            return None
        kept = self.buffer("keep", tile).bernoulli_(1 - self.dropout, generator=self.generator)
        return kept.div_(1 - self.dropout)


def _zeros_by_token(like: Tensor) -> Tensor:
    num_heads, length, width = like.shape
    return like.new_zeros((length, num_heads, width)).transpose(0, 1)


class _BandedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, band: Band, scale: float, dropout: float, seed: int
    ) -> Tensor:
        tiles = _Tiles(q, k, band, scale, dropout, seed)
        out = _zeros_by_token(v)
        v_global = v[:, list(band.global_positions)]
        for tile in tiles:
            weights, keep = tiles.weights(tile), tiles.keep(tile)
            if keep is not None:
                weights.mul_(keep)
            target, window = out[tile.heads, tile.queries], weights[..., : tile.num_keys]
            torch.bmm(window, v[tile.heads, tile.keys], out=target)
            if band.global_positions:
                target.baddbmm_(weights[..., tile.num_keys :], v_global[tile.heads])
        ctx.save_for_backward(q, k, v)
        ctx.band, ctx.scale, ctx.dropout, ctx.seed = band, scale, dropout, seed
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        band: Band = ctx.band
        tiles = _Tiles(q, k, band, ctx.scale, ctx.dropout, ctx.seed)
        grad = grad if grad.stride(-1) == 1 else grad.contiguous()
        marked = list(band.global_positions)
        v_global, k_global = v[:, marked], k[:, marked]
        dq, dk, dv = (_zeros_by_token(x) for x in (q, k, v))
        dk_global, dv_global = torch.zeros_like(k_global), torch.zeros_like(v_global)
        for tile in tiles:
            heads, num_keys = tile.heads, tile.num_keys
            q_tile, k_tile, v_tile = q[heads, tile.queries], k[heads, tile.keys], v[heads, tile.keys]
            grad_tile = grad[heads, tile.queries]
            weights, keep = tiles.weights(tile), tiles.keep(tile)
            d_weights = tiles.buffer("gradient", tile)
            if marked:
                d_weights[..., :num_keys].baddbmm_(grad_tile, v_tile.mT, beta=0)
                d_weights[..., num_keys:].baddbmm_(grad_tile, v_global[heads].mT, beta=0)
            else:
                torch.bmm(grad_tile, v_tile.mT, out=d_weights)
            used = weights
            if keep is not None:
                d_weights.mul_(keep)
                used = keep.mul_(weights)
            dv[heads, tile.keys].baddbmm_(used[..., :num_keys].mT, grad_tile)
            if marked:
                dv_global[heads].baddbmm_(used[..., num_keys:].mT, grad_tile)
            d_scores = torch._softmax_backward_data(d_weights, weights, -1, weights.dtype, grad_input=d_weights)
            window = d_scores[..., :num_keys]
            dq_tile = dq[heads, tile.queries]
            dq_tile.baddbmm_(window, k_tile, alpha=ctx.scale)
            dk[heads, tile.keys].baddbmm_(window.mT, q_tile, alpha=ctx.scale)
            if marked:
                behind = d_scores[..., num_keys:]
                dq_tile.baddbmm_(behind, k_global[heads], alpha=ctx.scale)
                dk_global[heads].baddbmm_(behind.mT, q_tile, alpha=ctx.scale)
        if marked:
            dk[:, marked] += dk_global
            dv[:, marked] += dv_global
        return dq, dk, dv, None, None, None, None


def banded_attention(q: Tensor, k: Tensor, v: Tensor, band: Band, scale: float, dropout: float = 0.0) -> Tensor:
    """Attend within one segment; the rows of global tokens get no more than their window (see `blocked`).

    Args:
        q: *Shape:* (H, L, D).
        k: *Shape:* (H, L, D).
        v: *Shape:* (H, L, D).
        band: The window.
        scale: Factor of the scores.
        dropout: Share of the weights that is set to zero.

    Returns:
        *Shape:* (H, L, D).
    """
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    seed = int(torch.randint(2**62, ())) if dropout else 0
    return _BandedAttention.apply(q, k, v, band, scale, dropout, seed)


def tile_weights(q: Tensor, k: Tensor, band: Band, scale: float) -> Iterator[tuple[Tile, Tensor]]:
    """Give the attention weights tile by tile; each is overwritten by the next. *Shape:* (H, R, C + G)."""
    tiles = _Tiles(q, k, band, scale, 0.0, 0)
    for tile in tiles:
        yield tile, tiles.weights(tile)
