"""Stitching: the scores of overlapping windows become one sequence of scores a document, decoded once."""

from typing import Literal, get_args

import numpy as np

from longdoc.errors import check_choice
from longdoc.text.documents import Span
from longdoc.text.tags import TagScheme

Aggregation = Literal["owner", "mean"]


class Stitcher:
    """Collects tag probabilities of words, window by window, in memory that grows with the document alone.

    Args:
        num_words: Words in the document.
        num_tags: Classes a word.
        aggregation: ``owner`` takes a word's probabilities from the window in which it has the most context; ``mean``
            averages them over its windows, weighted by the distance to the window's edge.
    """

    def __init__(self, num_words: int, num_tags: int, aggregation: Aggregation = "mean") -> None:
        check_choice("aggregation", aggregation, get_args(Aggregation))
        self.aggregation = aggregation
        self._sum = np.zeros((num_words, num_tags), dtype=np.float32)
        self._weight = np.zeros(num_words, dtype=np.float32)

    def add(self, words: np.ndarray, probs: np.ndarray, context: np.ndarray, owned: np.ndarray) -> None:
        """Add what one window says.

        Args:
            words: Distinct word indices. *Shape:* (num_words_in_window,).
            probs: Their tag probabilities. *Shape:* (num_words_in_window, num_tags).
            context: Tokens between each word and the nearer edge of the window, at least 0.
                *Shape:* (num_words_in_window,).
            owned: Whether the window is the owner of the word. *Shape:* (num_words_in_window,), bool.
        """
        weight = owned.astype(np.float32) if self.aggregation == "owner" else context.astype(np.float32) + 1.0
        self._sum[words] += probs * weight[:, None]
        self._weight[words] += weight

    @property
    def seen(self) -> np.ndarray:
        """Which words some window has scored. *Shape:* (num_words,), bool."""
        return self._weight > 0

    def probs(self) -> np.ndarray:
        """The stitched probabilities; a word that no window has seen is ``O``. *Shape:* (num_words, num_tags)."""
        probs = self._sum / np.maximum(self._weight, 1e-12)[:, None]
        probs[~self.seen] = 0.0
        probs[~self.seen, 0] = 1.0
        return probs


def decode_spans(probs: np.ndarray, scheme: TagScheme, words: np.ndarray) -> list[Span]:
    """Decode a document once, from stitched probabilities to spans with character offsets.

    A span's score is the geometric mean of the probabilities of its words' tags.

    Args:
        probs: *Shape:* (num_words, num_tags).
        scheme: The tags.
        words: *Shape:* (num_words, 2).
    """
    log_probs = np.log(np.maximum(probs, 1e-12))
    tags = scheme.best_legal(log_probs)
    chosen = log_probs[np.arange(len(tags)), tags]
    return [
        Span(int(words[first, 0]), int(words[stop - 1, 1]), label, float(np.exp(chosen[first:stop].mean())))
        for first, stop, label in scheme.decode(tags)
    ]
