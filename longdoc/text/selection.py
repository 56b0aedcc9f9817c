"""Selection: which sentences of a document are read at all, under a budget of tokens."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Protocol, get_args

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from longdoc.errors import ConfigError, check_choice, check_integer
from longdoc.text.sentences import SPLITTERS
from longdoc.text.words import split_words

Method = Literal["none", "lead", "head_tail", "random", "tfidf", "textrank", "cnn"]

UNSPACED_LANGUAGES = ("zh", "ja", "ko", "th", "lo", "km", "my")
_NO_WEIGHT = 1e-8
_TOLERANCE = 1e-10
_MAX_STEPS = 200


class Scorer(Protocol):
    """What a learned selection asks for the worth of sentences."""

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """Score sentences, higher is better. *Shape:* (num_sentences,)."""

    def state(self) -> dict[str, Any]:
        """Everything needed to build it again: plain containers and tensors."""


def lead_scores(num_sentences: int) -> np.ndarray:
    """Prefer what comes first. *Shape:* (num_sentences,)."""
    return -np.arange(num_sentences, dtype=np.float64)


def head_tail_scores(num_sentences: int) -> np.ndarray:
    """Take turns: the first sentence, the last, the second, the last but one ... *Shape:* (num_sentences,)."""
    place = np.arange(num_sentences, dtype=np.float64)
    return -np.minimum(2 * place, 2 * place[::-1] + 1)


def random_scores(num_sentences: int, seed: int, document_id: str) -> np.ndarray:
    """Draw a worth that depends on the seed and the document's id alone. *Shape:* (num_sentences,)."""
    digest = hashlib.blake2b(f"{seed}\0{document_id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "little")).random(num_sentences)


def tfidf_scores(sentences: Sequence[str], language: str = "en") -> np.ndarray:
    """Sum the tf-idf weights of a sentence's terms; its document is the corpus. *Shape:* (num_sentences,)."""
    weights = _tfidf(sentences, language, norm=None)
    return np.zeros(len(sentences)) if weights is None else _row_sums(weights)


def textrank_scores(sentences: Sequence[str], language: str = "en") -> np.ndarray:
    """PageRank of the sentences, linked by the cosine of their tf-idf weights. *Shape:* (num_sentences,).

    **Source:** Mihalcea and Tarau (2004), *TextRank*; there the weight of a link is the number of shared words over the
    logarithms of the lengths.
    """
    vectors = _tfidf(sentences, language, norm="l2")
    return np.zeros(len(sentences)) if vectors is None else page_rank(vectors)


def page_rank(vectors: Any, damping: float = 0.85) -> np.ndarray:
    """PageRank over the products of rows, by power iteration; the S x S products are never formed.

    Args:
        vectors: Sparse rows without negative values. *Shape:* (num_sentences, num_terms).
        damping: Chance to follow a link. A sentence without links leads everywhere alike.

    Returns:
        *Shape:* (num_sentences,), sums to 1.
    """
    num_sentences, across = vectors.shape[0], vectors.T.tocsr()
    itself = _row_sums(vectors.multiply(vectors))
    degree = vectors @ (across @ np.ones(num_sentences)) - itself
    linked = degree > _NO_WEIGHT
    rank = np.full(num_sentences, 1 / num_sentences)
    for _ in range(_MAX_STEPS):
        flow = np.divide(rank, degree, out=np.zeros_like(rank), where=linked)
        arrived = vectors @ (across @ flow) - itself * flow
        before, rank = rank, (1 - damping + damping * rank[~linked].sum()) / num_sentences + damping * arrived
        if np.abs(rank - before).sum() < _TOLERANCE:
            break
    return rank


def _tfidf(sentences: Sequence[str], language: str, norm: Literal["l2"] | None) -> Any:
    """Sparse tf-idf weights of the sentences, or None where no sentence has a term."""
    terms = [_terms(sentence, language in UNSPACED_LANGUAGES) for sentence in sentences]
    if not any(terms):
        return None
    return TfidfVectorizer(analyzer=lambda of_one: of_one, norm=norm).fit_transform(terms)


def _terms(sentence: str, with_pairs: bool) -> list[str]:
    """Words in lower case; where they are single characters, pairs of neighbours too."""
    words = [sentence[start:end].lower() for start, end in split_words(sentence).tolist()]
    words = [word for word in words if word[0].isalnum()]
    return words + [left + right for left, right in pairwise(words)] if with_pairs else words


def _row_sums(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.sum(axis=1)).ravel()


def choose(scores: np.ndarray, sizes: np.ndarray, budget_tokens: int, neighbours: int = 0) -> np.ndarray:
    """Take sentences from the best down, as long as they fit; what does not fit is passed over.

    The best sentence is taken in any case, and cut where it alone exceeds the budget. Equals are taken in document
    order.

    Args:
        scores: Worth of each sentence. *Shape:* (num_sentences,).
        sizes: Its tokens, at least 1. *Shape:* (num_sentences,).
        budget_tokens: Tokens that may be read.
        neighbours: Sentences either side of a chosen one that are taken with it, nearest first, where they fit.

    Returns:
        Tokens to read of each sentence, from its beginning; 0 where it is not chosen. *Shape:* (num_sentences,).
    """
    order = np.argsort(-scores, kind="stable")
    taken = np.zeros_like(sizes)
    if sizes[order[0]] > budget_tokens:
        taken[order[0]] = budget_tokens
        return taken
    left, smallest = budget_tokens, int(sizes.min())
    steps = [0, *(sign * step for step in range(1, min(neighbours, len(sizes)) + 1) for sign in (-1, 1))]
    for chosen in order.tolist():
        if left < smallest:
            break
        if not taken[chosen] and sizes[chosen] > left:
            continue
        for at in (chosen + step for step in steps):
            if 0 <= at < len(sizes) and not taken[at] and sizes[at] <= left:
                taken[at] = sizes[at]
                left -= int(sizes[at])
    return taken


@dataclass(frozen=True)
class Selection:
    """Chooses the sentences of a document that are read. Labels have no part in it.

    Args:
        method: ``none`` (all), ``lead`` (the beginning), ``head_tail`` (beginning and end in turn), ``random`` (the
            control), ``tfidf``, ``textrank``, or ``cnn`` (learned from training sentences and the task's labels).
        budget_tokens: Tokens that may be read of a document, special tokens not counted.
        budget_ratio: The same as a share of the document's tokens, above 0 and at most 1.
        neighbours: Sentences either side of a chosen one that are read too, within the budget.
        splitter: ``sentencex`` or ``line``.
        seed: Of ``random``, and of the training of ``cnn``.
    """

    method: Method
    budget_tokens: int | None = None
    budget_ratio: float | None = None
    neighbours: int = 0
    splitter: str = "sentencex"
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("selection method", self.method, get_args(Method))
        budgets = f"budget_tokens={self.budget_tokens} and budget_ratio={self.budget_ratio}"
        if self.method == "none":
            if self.budget_tokens is not None or self.budget_ratio is not None:
                raise ConfigError(f"selection method='none' reads everything, got {budgets}; choose another method")
            return
        if (self.budget_tokens is None) == (self.budget_ratio is None):
            raise ConfigError(f"selection method={self.method!r}: expected one of the two budgets, got {budgets}")
        if self.budget_tokens is not None:
            check_integer("selection budget_tokens", self.budget_tokens, 1)
        ratio = self.budget_ratio
        if ratio is not None and (type(ratio) not in (int, float) or not 0 < ratio <= 1):
            raise ConfigError(f"selection budget_ratio={ratio!r}: expected a number above 0 and at most 1")
        check_choice("selection splitter", self.splitter, SPLITTERS)
        check_integer("selection neighbours", self.neighbours, 0)

    def budget(self, num_tokens: int) -> int:
        """Tokens that may be read of a document of so many."""
        if self.budget_tokens is not None:
            return self.budget_tokens
        return num_tokens if self.budget_ratio is None else max(1, int(self.budget_ratio * num_tokens))

    def scores(
        self, sentences: Sequence[str], document_id: str, language: str = "en", scorer: Scorer | None = None
    ) -> np.ndarray:
        """Score the sentences of a document, higher is better. *Shape:* (num_sentences,)."""
        match self.method:
            case "random":
                return random_scores(len(sentences), self.seed, document_id)
            case "head_tail":
                return head_tail_scores(len(sentences))
            case "tfidf":
                return tfidf_scores(sentences, language)
            case "textrank":
                return textrank_scores(sentences, language)
            case "cnn":
                if scorer is None:
                    raise ConfigError("selection method='cnn': expected scorer=..., which was trained, got None")
                return scorer(sentences)
        return lead_scores(len(sentences))
