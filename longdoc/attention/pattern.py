"""Who may see whom: one description for all backends, built once per batch and shared by all layers.

Shapes: B rows of the batch, L slots of a row, N = B * L slots, T real tokens (one after the other, row by row),
H heads, S segments.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from longdoc.errors import ConfigError, check_choice, check_integer

Control = Literal["uniform"]
_Made = TypeVar("_Made")


@dataclass(frozen=True, eq=False)
class Pattern:
    """Segments, their windows, global tokens and distance bias.

    A token sees the tokens of its own segment that stand at most ``left`` before and ``right`` after it, itself
    always, and the global tokens of its segment. A global token sees its whole segment. A pair with a global token on
    either side carries no distance bias. Build one with `packed` or `padded`.

    Args:
        lengths: Tokens of each segment, in the order of the stream; their sum is T.
        batch_shape: (B, L) of the tensors that `attend` will get.
        left: Neighbours seen before a token, itself not counted; None for all.
        right: Neighbours seen after a token, itself not counted; None for all.
        global_tokens: True for the tokens that see and are seen by all of their segment. *Shape:* (T,).
        slopes: Slope m of the bias -m|i - j| of each head, None for no bias. *Shape:* (H,).
        control: "uniform" (all visible keys weigh the same): what is left when attention cannot choose. None for
            attention.
        slots: Slot of each real token among the N; None if all slots are real. *Shape:* (T,).
    """

    lengths: tuple[int, ...]
    batch_shape: tuple[int, int]
    left: int | None = None
    right: int | None = None
    global_tokens: Tensor | None = None
    slopes: Tensor | None = None
    control: Control | None = None
    slots: Tensor | None = None
    _cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, value in (("left", self.left), ("right", self.right)):
            if value is not None:
                check_integer(name, value, 0)
        if any(length < 1 for length in self.lengths):
            raise ConfigError(f"lengths={self.lengths}: expected at least one token in each segment")
        check_choice("control", self.control, (None, "uniform"))
        if self.global_tokens is not None and self.global_tokens.shape != (self.num_tokens,):
            raise ConfigError(
                f"global_tokens: expected one boolean for each of the {self.num_tokens} tokens, got shape "
                f"{tuple(self.global_tokens.shape)}"
            )

    @classmethod
    def packed(
        cls,
        lengths: Sequence[int] | Tensor,
        left: int | None = None,
        right: int | None = None,
        global_tokens: Tensor | None = None,
        slopes: Tensor | None = None,
        control: Control | None = None,
    ) -> "Pattern":
        """Describe a stream of segments without padding; `attend` then takes tensors of one row.

        All but the lengths, (S,), is as in the class.
        """
        counts = tuple(torch.as_tensor(lengths).tolist())
        marked = None if global_tokens is None else global_tokens.bool()
        return cls(counts, (1, sum(counts)), left, right, marked, slopes, control)

    @classmethod
    def padded(
        cls,
        mask_BL: Tensor,
        left: int | None = None,
        right: int | None = None,
        global_tokens: Tensor | None = None,
        slopes: Tensor | None = None,
        control: Control | None = None,
    ) -> "Pattern":
        """Describe a padded batch: each row is a segment of its real tokens, wherever the padding stands.

        The mask is true or 1 where there is a token; it and ``global_tokens`` are of shape (B, L), and what the latter
        says about padding is ignored. All else is as in the class.
        """
        if mask_BL.dim() != 2:
            raise ConfigError(f"attention mask: expected two dimensions (rows, slots), got {tuple(mask_BL.shape)}")
        real = mask_BL.bool()
        counts = real.sum(1).tolist()
        batch_shape = (real.shape[0], real.shape[1])
        slots = None if sum(counts) == real.numel() else real.flatten().nonzero().squeeze(1)
        chosen = None if global_tokens is None else global_tokens.bool()[real]
        return cls(tuple(n for n in counts if n), batch_shape, left, right, chosen, slopes, control, slots)

    @property
    def num_tokens(self) -> int:
        """T."""
        return sum(self.lengths)

    @property
    def bounds(self) -> tuple[int, ...]:
        """Where each segment begins in the stream, and the end of the last: S + 1 numbers."""
        return self._once("bounds", lambda: tuple(torch.tensor((0, *self.lengths)).cumsum(0).tolist()))

    @property
    def positions(self) -> Tensor:
        """Position of each real token within its segment, from 0. *Shape:* (T,)."""
        return self._once("positions", lambda: _ragged_arange(self.lengths))

    @property
    def segment_ids(self) -> Tensor:
        """Segment of each real token. *Shape:* (T,)."""
        counts = torch.tensor(self.lengths, dtype=torch.long)
        return self._once("segment_ids", lambda: torch.arange(len(counts)).repeat_interleave(counts))

    @property
    def position_ids(self) -> Tensor:
        """Position of each slot within its segment, 0 in padding. *Shape:* (B, L)."""
        return self._once("position_ids", lambda: self._spread(self.positions, 0))

    @property
    def global_positions(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the global tokens within each segment: S tuples."""
        return self._once("global_positions", self._find_globals)

    @property
    def is_global(self) -> Tensor:
        """Whether each real token is global. *Shape:* (T,)."""
        return (
            torch.zeros(self.num_tokens, dtype=torch.bool) if self.global_tokens is None else self.global_tokens.cpu()
        )

    def narrowed(self, half_width: int) -> "Pattern":
        """Give the same pattern with at most so many neighbours on each side: one object, whose cache layers share."""
        left, right = (half_width if n is None else min(n, half_width) for n in (self.left, self.right))
        if (left, right) == (self.left, self.right):
            return self
        return self._once(("window", half_width), lambda: replace(self, left=left, right=right))

    def covers(self, length: int) -> bool:
        """Say whether the window reaches over a whole segment of this length from any of its tokens."""
        reach = length - 1
        return (self.left is None or self.left >= reach) and (self.right is None or self.right >= reach)

    def _find_globals(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.lengths]
        if self.global_tokens is not None:
            tokens = self.global_tokens.nonzero().squeeze(1).cpu()
            for segment, position in torch.stack((self.segment_ids[tokens], self.positions[tokens]), 1).tolist():
                found[segment].append(position)
        return tuple(tuple(positions) for positions in found)

    def _spread(self, value_T: Tensor, fill: int) -> Tensor:
        rows, slots = self.batch_shape
        spread = torch.full((rows * slots,), fill, dtype=value_T.dtype)
        if self.slots is None:
            spread[:] = value_T
        else:
            spread[self.slots.cpu()] = value_T
        return spread.view(rows, slots)

    def _once(self, key: Any, make: Callable[[], _Made]) -> _Made:
        if key not in self._cache:
            with torch.inference_mode(False):  # what is kept may serve a training step later
                self._cache[key] = make()
        return self._cache[key]


def first_tokens(lengths: Sequence[int]) -> Tensor:
    """Mark the first token of each segment of a stream. *Shape:* (T,)."""
    return _ragged_arange(lengths) == 0


def in_window(offset: Tensor, left: int | None, right: int | None) -> Tensor:
    """Say whether a key that stands so many tokens after its query is within the window. *Shape:* as the offsets."""
    near = torch.ones_like(offset, dtype=torch.bool)
    if left is not None:
        near = near & (offset >= -left)
    return near if right is None else near & (offset <= right)


def _ragged_arange(lengths: Sequence[int]) -> Tensor:
    counts = torch.tensor(tuple(lengths), dtype=torch.long)
    start = (counts.cumsum(0) - counts).repeat_interleave(counts)
    return torch.arange(int(counts.sum())) - start
