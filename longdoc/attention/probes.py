"""What attention does, measured tile by tile while the model runs as it is.

Shapes: B rows, L slots of a row, T real tokens, H heads, D width of a head, C visible keys of a row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from longdoc.attention.banded import Band, band_weights
from longdoc.attention.pattern import Pattern, in_window
from longdoc.errors import ConfigError


@dataclass(frozen=True)
class AttentionRow:
    """The weights of one query.

    Args:
        token: The query, counted along the stream of real tokens.
        keys: The tokens that it sees. *Shape:* (C,).
        weights: They add up to 1 for each head. *Shape:* (H, C).
    """

    token: int
    keys: Tensor
    weights: Tensor


@torch.no_grad()
def head_entropy(q: Tensor, k: Tensor, pattern: Pattern, scale: float | None = None) -> Tensor:
    """Give the mean entropy of the attention weights of each head, over all real tokens, in nats.

    Args:
        q: Queries. *Shape:* (B, H, L, D).
        k: Keys. *Shape:* (B, H, L, D).
        pattern: Who may see whom.
        scale: Factor of the scores; 1 / sqrt(D) by default.

    Returns:
        From 0 (each token reads one other) to the logarithm of the number of visible keys. *Shape:* (H,).
    """
    q_HTD, k_HTD, scale = _streams(q, k, pattern, scale)
    wide = torch.float32 if q.device.type == "mps" else torch.float64  # of which MPS has none
    total = torch.zeros(q_HTD.shape[0], dtype=wide, device=q.device)
    for start, band in _bands(pattern):
        inside = slice(start, start + band.length)
        q_segment, k_segment = q_HTD[:, inside], k_HTD[:, inside]
        for heads, weights in band_weights(q_segment, k_segment, band, scale):
            total[heads] += torch.special.entr(weights).sum((-2, -1)).to(wide)
    return total / max(pattern.num_tokens, 1)


@torch.no_grad()
def attention_rows(
    q: Tensor, k: Tensor, pattern: Pattern, tokens: Sequence[int], scale: float | None = None
) -> list[AttentionRow]:
    """Give the attention weights of chosen tokens, counted along the stream of real ones, each over the keys it sees.

    All other arguments are those of `head_entropy`.
    """
    q_HTD, k_HTD, scale = _streams(q, k, pattern, scale)
    segment_of, is_global = pattern.segment_ids, pattern.is_global
    found = []
    for token in tokens:
        if not 0 <= token < pattern.num_tokens:
            raise ConfigError(f"tokens: {token} is not one of the {pattern.num_tokens} tokens of the batch")
        segment = int(segment_of[token])
        keys = torch.arange(*pattern.bounds[segment : segment + 2])
        marked = is_global[keys] | is_global[token]
        seen = in_window(keys - token, pattern.left, pattern.right) | marked
        keys, marked = keys[seen], marked[seen]
        scores = q_HTD[:, token, None] @ k_HTD[:, keys.to(q.device)].mT * scale
        if pattern.slopes is not None and pattern.control is None:
            distance = (keys - token).abs().masked_fill(marked, 0).to(scores)
            scores -= pattern.slopes.to(scores)[:, None, None] * distance
        found.append(AttentionRow(token, keys, scores.softmax(-1)[:, 0]))
    return found


def uniform_entropy(pattern: Pattern) -> float:
    """Give the entropy that heads would have if all visible keys weighed the same, over all real tokens, in nats."""
    total = 0.0
    for length, marked in zip(pattern.lengths, pattern.global_positions, strict=True):
        place = torch.arange(length)
        left, right = (length if side is None else side for side in (pattern.left, pattern.right))
        first, last = (place - left).clamp(min=0), (place + right).clamp(max=length - 1)
        visible = last - first + 1
        for position in marked:
            visible += (position < first) | (position > last)
        visible[list(marked)] = length
        total += float(visible.double().log().sum())
    return total / max(pattern.num_tokens, 1)


def head_overlap(rows: Sequence[AttentionRow]) -> Tensor:
    """Give the share of their attention that two heads spend on the same keys, mean over rows. *Shape:* (H, H)."""
    shared = [torch.minimum(row.weights[:, None], row.weights[None]).sum(-1) for row in rows]
    return torch.stack(shared).mean(0)


@torch.no_grad()
def largest_score(q: Tensor, k: Tensor, pattern: Pattern) -> float:
    """Give the largest product of a query and a key, in size, before any factor; not finite where one is not.

    The edges of a window are taken with up to a tile beyond. The arguments are those of `head_entropy`.
    """
    q_HTD, k_HTD, _ = _streams(q, k, pattern, None)
    largest = torch.zeros((), device=q.device)
    for start, band in _bands(pattern):
        inside, marked = slice(start, start + band.length), list(band.global_positions)
        q_segment, k_segment = q_HTD[:, inside], k_HTD[:, inside]
        pairs = [(q_segment[:, t.queries], k_segment[:, t.keys]) for t in band.tiles(slice(None))]
        pairs += [(q_segment, k_segment[:, marked]), (q_segment[:, marked], k_segment)] if marked else []
        for queries, keys in pairs:
            largest = torch.maximum(largest, (queries @ keys.mT).abs().amax())
    return float(largest)


def _streams(q: Tensor, k: Tensor, pattern: Pattern, scale: float | None) -> tuple[Tensor, Tensor, float]:
    if k.shape[1] != q.shape[1]:
        k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    q_HTD, k_HTD = (x.transpose(0, 1).flatten(1, 2) for x in (q, k))
    if pattern.slots is not None:
        q_HTD, k_HTD = (x.index_select(1, pattern.slots.to(q.device)) for x in (q_HTD, k_HTD))
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    q_HTD = q_HTD * 0 if pattern.control == "uniform" else q_HTD
    return q_HTD.to(wide), k_HTD.to(wide), q.shape[-1] ** -0.5 if scale is None else scale


def _bands(pattern: Pattern) -> Iterator[tuple[int, Band]]:
    templates: dict = pattern._once("templates", dict)
    slopes = None if pattern.control is not None else pattern.slopes
    for start, length, marked in zip(pattern.bounds, pattern.lengths, pattern.global_positions, strict=False):
        yield start, Band(length, pattern.left, pattern.right, marked, slopes, templates=templates)
