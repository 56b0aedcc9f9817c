"""How the blocked backend cuts a stream: short segments side by side for a dense kernel, long ones on their own.

Shapes: T real tokens, S segments, H heads, L tokens of a segment, G global tokens of a segment.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from longdoc.attention.pattern import Pattern

_DENSE_BIASED_ROWS = 4096
_DENSE_ONE_SIDED_TOKENS = 512


@dataclass(frozen=True)
class Part:
    """Segments that are computed in one go: a single long one, or short ones alike in length and global tokens.

    Args:
        num_segments: How many.
        length: L, tokens of each.
        global_positions: Positions of the global tokens in each.
        dense: Whether the dense kernel takes it.
    """

    num_segments: int
    length: int
    global_positions: tuple[int, ...]
    dense: bool


@dataclass(frozen=True)
class Layout:
    """The parts of a stream and the order in which they take its tokens.

    Args:
        parts: In the order of computation.
        index: Slot of the batch that stands at each place of that order; None if it is the order of the slots.
            *Shape:* (T,).
    """

    parts: tuple[Part, ...]
    index: Tensor | None
    masks: dict[tuple[Part, torch.dtype, torch.device], Tensor] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        """Tokens of each part."""
        return [part.num_segments * part.length for part in self.parts]


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


def build_layout(pattern: Pattern, device: torch.device) -> Layout:
    """Group the segments of a pattern. The result is kept with the pattern."""
    return pattern._once(("layout", device), lambda: _group(pattern, device))


def _group(pattern: Pattern, device: torch.device) -> Layout:
    limit = dense_limit(pattern)
    members: dict[tuple[int, tuple[int, ...], int], list[int]] = {}
    for segment, (length, marked) in enumerate(zip(pattern.lengths, pattern.global_positions, strict=True)):
        alone = -1 if length <= limit else segment
        members.setdefault((length, marked, alone), []).append(segment)
    parts = tuple(Part(len(found), length, marked, alone < 0) for (length, marked, alone), found in members.items())
    order = [segment for found in members.values() for segment in found]
    if order == sorted(order):
        index = pattern.slots
    else:
        bounds = pattern.bounds
        index = torch.cat([torch.arange(bounds[segment], bounds[segment + 1]) for segment in order])
        index = index if pattern.slots is None else pattern.slots.cpu()[index]
    return Layout(parts, None if index is None else index.to(device))


def dense_mask(layout: Layout, part: Part, pattern: Pattern, like: Tensor) -> Tensor | None:
    """Give the bias of a part that goes to the dense kernel, None if every pair may attend and has no bias.

    Returns:
        What is added to the scores. *Shape:* (1, 1 or H, L, L).
    """
    if pattern.slopes is None and pattern.covers(part.length):
        return None
    key = (part, like.dtype, like.device)
    if key not in layout.masks:
        layout.masks[key] = _make_mask(part, pattern, like)
    return layout.masks[key]


def _make_mask(part: Part, pattern: Pattern, like: Tensor) -> Tensor:
    place = torch.arange(part.length, device=like.device)
    offset = place[None, :] - place[:, None]
    seen = torch.ones_like(offset, dtype=torch.bool)
    if pattern.left is not None:
        seen &= offset >= -pattern.left
    if pattern.right is not None:
        seen &= offset <= pattern.right
    distance = offset.abs()
    for position in part.global_positions:
        seen[position] = True
        seen[:, position] = True
        distance[position] = 0
        distance[:, position] = 0
    if pattern.slopes is None:
        bias = like.new_zeros((1, *distance.shape))  # the dense kernel would make floats of booleans in each call
    else:
        bias = -pattern.slopes.to(like)[:, None, None] * distance
    return bias.masked_fill(~seen, -torch.inf)[None]
