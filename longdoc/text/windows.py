"""Windows: how a stream of tokens is cut into overlapping parts, with one owner for every token."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from longdoc.errors import ConfigError, check_choice, check_integer


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of one document, in order. All bounds are half-open token positions. *Shape of each:* (num_windows,).

    Args:
        start: First token.
        end: One past the last token.
        own_start: First token for which this window has the most context.
        own_end: One past the last such token.
        num_tokens: Length of the document; tokens past the last ``end`` are not covered.
    """

    start: np.ndarray
    end: np.ndarray
    own_start: np.ndarray
    own_end: np.ndarray
    num_tokens: int

    def __len__(self) -> int:
        return len(self.start)

    @property
    def num_covered(self) -> int:
        """How many tokens stand in at least one window."""
        return int(self.end[-1]) if len(self) else 0


@dataclass(frozen=True)
class Windower:
    """Cuts a document into windows at word borders.

    A window holds at most ``size_tokens`` tokens, special tokens counted. The next one begins at the last word border
    that leaves at least ``overlap_tokens`` tokens in common. A word longer than a window is cut. A token in several
    windows is owned by the one in which it stands farther from the edge (Devlin's "maximum context").

    Args:
        size_tokens: Tokens in a window, special tokens included; None for one window as long as the document.
        overlap_tokens: Tokens that neighbouring windows share, at least.
        border: Where a window may end: at a word, or at a sentence where one ends in its second half.
        mode: ``overlap`` covers the document, ``truncate`` keeps the first window only.
    """

    size_tokens: int | None = 512
    overlap_tokens: int = 128
    border: Literal["word", "sentence"] = "word"
    mode: Literal["overlap", "truncate"] = "overlap"

    def __post_init__(self) -> None:
        check_choice("windows mode", self.mode, ("overlap", "truncate"))
        check_choice("windows border", self.border, ("word", "sentence"))
        if self.size_tokens is None and self.mode == "truncate":
            raise ConfigError("windows mode='truncate' needs size_tokens, got None: nothing would be cut")
        if self.size_tokens is not None:
            check_integer("windows size_tokens", self.size_tokens, 1)
        check_integer("windows overlap_tokens", self.overlap_tokens, 0)

    def check(self, num_special: int, max_tokens: int | None = None, source: str = "the encoder") -> None:
        """Refuse sizes that cannot work with an encoder, naming the largest legal ones.

        Args:
            num_special: Special tokens around every window.
            max_tokens: Longest input of the encoder, special tokens included; None if there is no limit.
            source: Where that limit comes from, for the message.
        """
        if self.size_tokens is None:
            return
        if max_tokens is not None and self.size_tokens > max_tokens:
            raise ConfigError(
                f"windows size_tokens={self.size_tokens}: {source} takes at most {max_tokens} tokens; "
                f"set windows.size_tokens={max_tokens} or less"
            )
        largest = self.size_tokens - num_special - 1
        if largest < 0:
            raise ConfigError(
                f"windows size_tokens={self.size_tokens}: {num_special} special tokens leave no room for text; "
                f"expected at least {num_special + 1}"
            )
        if self.mode == "overlap" and self.overlap_tokens > largest:
            raise ConfigError(
                f"windows overlap_tokens={self.overlap_tokens}: with size_tokens={self.size_tokens} and {num_special} "
                f"special tokens the largest legal overlap is {largest}"
            )

    def __call__(self, token_word: np.ndarray, num_special: int, sentence_starts: np.ndarray | None = None) -> Windows:
        """Cut one document.

        Args:
            token_word: Word of each token, -1 for blanks, as in ``Tokens.word``. *Shape:* (num_tokens,).
            num_special: Special tokens that each window will get on top of its own.
            sentence_starts: Sorted token positions at which sentences begin; needed for ``border="sentence"``.
        """
        num_tokens = len(token_word)
        if self.size_tokens is None or num_tokens + num_special <= self.size_tokens:
            whole = np.array([0] if num_tokens else [], dtype=np.int32)
            stop = np.array([num_tokens] if num_tokens else [], dtype=np.int32)
            return Windows(whole, stop, whole, stop, num_tokens)
        self.check(num_special)
        borders = word_borders(token_word)
        sentences = sentence_starts if self.border == "sentence" and sentence_starts is not None else borders[:0]
        starts, ends = self._cut(num_tokens, self.size_tokens - num_special, borders, sentences)
        return _with_owners(np.array(starts, dtype=np.int32), np.array(ends, dtype=np.int32), num_tokens)

    def _cut(
        self, num_tokens: int, room: int, borders: np.ndarray, sentences: np.ndarray
    ) -> tuple[list[int], list[int]]:
        starts: list[int] = [0]
        ends: list[int] = []
        while True:
            start, limit = starts[-1], starts[-1] + room
            # A window reaches past the one before, its overlap and its own middle, if need be by cutting a word.
            shared = self.overlap_tokens if self.mode == "overlap" else 0
            least = max(ends[-1] if ends else 0, start + shared, start + room // 2)
            end = num_tokens if limit >= num_tokens else last_border(borders, least, limit, otherwise=limit)
            if end < num_tokens:
                end = last_border(sentences, least, end, otherwise=end)
            ends.append(end)
            if end == num_tokens or self.mode == "truncate":
                return starts, ends
            exact = end - self.overlap_tokens
            starts.append(last_border(borders, start, exact, otherwise=exact))


def word_borders(token_word: np.ndarray) -> np.ndarray:
    """Token positions at which a word or a blank begins: where the stream may be cut. *Shape:* (num_borders,)."""
    if len(token_word) == 0:
        return np.zeros(0, dtype=np.int64)
    before = np.maximum.accumulate(token_word)
    behind = np.minimum.accumulate(np.where(token_word < 0, np.iinfo(np.int32).max, token_word)[::-1])[::-1]
    return np.concatenate(([0], np.flatnonzero(before[:-1] != behind[1:]) + 1))


def last_border(borders: np.ndarray, above: int, at_most: int, otherwise: int) -> int:
    """The last border in (above, at_most], or ``otherwise`` where there is none."""
    i = int(np.searchsorted(borders, at_most, side="right")) - 1
    return int(borders[i]) if i >= 0 and borders[i] > above else otherwise


def _with_owners(start: np.ndarray, end: np.ndarray, num_tokens: int) -> Windows:
    # Between two windows the token in the middle of the overlap changes hands.
    change = ((start[1:] + end[:-1] + 1) // 2).astype(np.int32)
    own_start = np.concatenate((start[:1], change))
    own_end = np.concatenate((change, end[-1:]))
    return Windows(start, end, own_start, own_end, num_tokens)
