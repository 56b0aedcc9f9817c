"""Tags: word-level classes for spans, and the best legal sequence of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from longdoc.errors import ConfigError, check_choice

Scheme = Literal["BIOES", "IOB2"]
WordSpan = tuple[int, int, str]
"""First word, one past the last word, label."""

_PREFIXES = {"BIOES": "BIES", "IOB2": "BI"}


@dataclass(frozen=True)
class TagScheme:
    """The tags of a label set: ``O`` first, then the prefixes of each label in order.

    Args:
        labels: Entity types, in a fixed order.
        scheme: ``BIOES`` or ``IOB2``.
    """

    labels: tuple[str, ...]
    scheme: Scheme = "BIOES"

    def __post_init__(self) -> None:
        check_choice("scheme", self.scheme, tuple(_PREFIXES))
        if len(set(self.labels)) != len(self.labels):
            raise ConfigError(f"labels={self.labels}: expected distinct labels")
        if not self.labels:
            raise ConfigError("labels: expected at least one entity type, got none; is the training data annotated?")

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """All tags; their position is their id. *Length:* ``1 + len(labels) * len(prefixes)``."""
        return ("O", *(f"{prefix}-{label}" for label in self.labels for prefix in _PREFIXES[self.scheme]))

    @cached_property
    def _id_of(self) -> dict[str, int]:
        return {tag: i for i, tag in enumerate(self.tags)}

    def __len__(self) -> int:
        return len(self.tags)

    def encode(self, spans: Sequence[WordSpan], num_words: int) -> np.ndarray:
        """Turn spans that do not overlap into one tag a word. *Shape:* (num_words,), int32."""
        tags = np.zeros(num_words, dtype=np.int32)
        for first, stop, label in spans:
            inside = self._id_of[f"I-{label}"]
            tags[first:stop] = inside
            tags[first] = self._id_of[f"B-{label}"]
            if self.scheme == "BIOES":
                tags[stop - 1] = self._id_of[f"E-{label}" if stop - first > 1 else f"S-{label}"]
        return tags

    def decode(self, tags: np.ndarray) -> list[WordSpan]:
        """Turn a legal tag sequence into spans; inverse of ``encode``."""
        spans: list[WordSpan] = []
        label_of = self._label_of[tags]
        continues = self._continues[tags]
        for first in np.flatnonzero((label_of >= 0) & ~continues).tolist():
            stop = first + 1
            while stop < len(tags) and continues[stop] and label_of[stop] == label_of[first]:
                stop += 1
            spans.append((first, stop, self.labels[label_of[first]]))
        return spans

    @cached_property
    def _continues(self) -> np.ndarray:
        return np.array([tag[0] in "IE" for tag in self.tags])

    @cached_property
    def _label_of(self) -> np.ndarray:
        return np.array([-1, *(i for i in range(len(self.labels)) for _ in _PREFIXES[self.scheme])])

    @cached_property
    def may_start(self) -> np.ndarray:
        """Tags that may stand first. *Shape:* (num_tags,), bool."""
        return ~self._continues

    @cached_property
    def may_end(self) -> np.ndarray:
        """Tags that may stand last. *Shape:* (num_tags,), bool."""
        return np.array([self.scheme == "IOB2" or tag[0] in "OES" for tag in self.tags])

    @cached_property
    def may_follow(self) -> np.ndarray:
        """Entry [i, j] says whether tag j may follow tag i. *Shape:* (num_tags, num_tags), bool."""
        same_label = self._label_of[:, None] == self._label_of[None, :]
        inside = np.array([tag[0] in "BI" for tag in self.tags])
        continuation = inside[:, None] & self._continues[None, :] & same_label
        return continuation | (self.may_end[:, None] & self.may_start[None, :])

    def best_legal(self, log_probs: np.ndarray) -> np.ndarray:
        """Find the legal tag sequence with the highest sum of log-probabilities.

        Args:
            log_probs: *Shape:* (num_words, num_tags). Need not be normalised.

        Returns:
            Tag ids. *Shape:* (num_words,), int32.

        **Source:** Viterbi (1967); transitions are 0 where legal and minus infinity elsewhere.
        """
        num_words, num_tags = log_probs.shape
        if num_words == 0:
            return np.zeros(0, dtype=np.int32)
        if not np.isfinite(log_probs).all():
            log_probs = np.nan_to_num(log_probs, nan=-1e30, neginf=-1e30, posinf=1e30)
        greedy = log_probs.argmax(axis=1)
        if self.may_start[greedy[0]] and self.may_end[greedy[-1]] and self.may_follow[greedy[:-1], greedy[1:]].all():
            return greedy.astype(np.int32)
        penalty = np.where(self.may_follow, 0.0, -np.inf)
        back = np.zeros((num_words, num_tags), dtype=np.int16)
        score = np.where(self.may_start, log_probs[0].astype(np.float64), -np.inf)
        everyone = np.arange(num_tags)
        for t in range(1, num_words):
            arrivals = score[:, None] + penalty
            best = arrivals.argmax(axis=0)
            back[t] = best
            score = arrivals[best, everyone] + log_probs[t]
        path = np.zeros(num_words, dtype=np.int32)
        path[-1] = int(np.where(self.may_end, score, -np.inf).argmax())
        for t in range(num_words - 1, 0, -1):
            path[t - 1] = back[t, path[t]]
        return path
