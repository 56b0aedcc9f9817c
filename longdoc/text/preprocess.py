"""Preprocessing: one path from a document to its windows, for training, evaluation and prediction."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from longdoc.errors import ConfigError
from longdoc.text.alignment import LostSpan, OverlapPolicy, align, without_overlap, word_spans
from longdoc.text.documents import Document, Span, Unmoved
from longdoc.text.selection import Scorer, Selection, choose
from longdoc.text.sentences import sentence_words
from longdoc.text.tags import TagScheme
from longdoc.text.tokens import Tokens, WordTokenizer
from longdoc.text.windows import Windower, Windows, last_border, word_borders
from longdoc.text.words import split_words


@dataclass(frozen=True, slots=True)
class EncodedDocument(Unmoved):
    """A document as the model reads it.

    Args:
        document: What it was made of.
        words: Character offsets of its words, those that are not read too. *Shape:* (num_words, 2).
        token_ids: Vocabulary ids of what is read, without special tokens. *Shape:* (num_tokens,).
        token_word: Word of each token, -1 for a blank. *Shape:* (num_tokens,).
        first_token: First token of each word; -1 for a word that was not read. *Shape:* (num_words,).
        windows: How the tokens are cut.
        tags: Gold tag of each word; None without gold spans. *Shape:* (num_words,).
        lost: Gold spans that the model cannot see or learn from, with the reason.
        kept: Character offsets of the selected sentences; None where everything is read. *Shape:* (num_kept, 2).
        num_unselected: Tokens that were not selected.
    """

    document: Document
    words: np.ndarray
    token_ids: np.ndarray
    token_word: np.ndarray
    first_token: np.ndarray
    windows: Windows
    tags: np.ndarray | None
    lost: tuple[LostSpan, ...]
    kept: np.ndarray | None = None
    num_unselected: int = 0

    @property
    def truncated(self) -> bool:
        """Whether a part of the text is not read: it was not selected, or stands in no window."""
        return self.num_unselected > 0 or self.windows.num_covered < len(self.token_ids)

    @property
    def seen_words(self) -> np.ndarray:
        """Which words some window reads. *Shape:* (num_words,), bool."""
        return (self.first_token >= 0) & (self.first_token < self.windows.num_covered)

    @property
    def num_document_tokens(self) -> int:
        """Tokens of the whole document, without special tokens."""
        return len(self.token_ids) + self.num_unselected


@dataclass(frozen=True, slots=True)
class WindowItems:
    """The words that one window labels: those whose first token it holds. *Shape of each:* (num_items,).

    Args:
        word: Index in the document.
        token: Position of the first token, counted in the window without its special tokens.
        context: Tokens between that and the nearer edge; the ends of the document are no edges.
        owned: Whether this window has the most context for the word.
    """

    word: np.ndarray
    token: np.ndarray
    context: np.ndarray
    owned: np.ndarray


def window_items(encoded: EncodedDocument, window: int) -> WindowItems:
    """Find the words that a window labels."""
    cut = encoded.windows
    start, end = int(cut.start[window]), int(cut.end[window])
    positions = np.arange(start, end)
    word = encoded.token_word[start:end]
    is_first = (word >= 0) & (encoded.first_token[word] == positions)
    at = positions[is_first]
    far = cut.num_tokens  # more context than any edge gives
    left = np.full_like(at, far) if start == 0 else at - start
    right = np.full_like(at, far) if end == cut.num_tokens else end - 1 - at
    context = np.minimum(np.minimum(left, right), end - start)
    owned = (at >= cut.own_start[window]) & (at < cut.own_end[window])
    return WindowItems(word[is_first], at - start, context, owned)


@dataclass(frozen=True)
class Preprocessor:
    """Turns documents into windows of tokens with word-level gold.

    Words that are not selected have no token: their ``first_token`` is -1, no window labels them, and stitching leaves
    them ``O``. What is kept stands in one stream in document order, and windows reach across the gaps.

    Args:
        tokenizer: Text to tokens that never mix words.
        windower: How the tokens are cut; also serves prediction, so windows never depend on gold.
        tags: The tags of a tagging task; None for classification.
        overlapping: What happens to gold spans that share words.
        language: ISO 639-1 code for the sentence splitter and the terms of a selection.
        selection: Which sentences are read; None for all.
        scorer: Learned worth of sentences, for ``selection.method="cnn"``.
    """

    tokenizer: WordTokenizer
    windower: Windower
    tags: TagScheme | None = None
    overlapping: OverlapPolicy = "error"
    language: str = "en"
    selection: Selection | None = None
    scorer: Scorer | None = None

    def __post_init__(self) -> None:
        self.windower.check(self.tokenizer.num_special)
        if (self.selection is not None and self.selection.method == "cnn") != (self.scorer is not None):
            raise ConfigError(
                f"preprocessor scorer={self.scorer!r}: selection method='cnn' needs a trained scorer, and no other "
                "method takes one"
            )

    def __call__(self, document: Document) -> EncodedDocument:
        """Encode one document. Gold is aligned where there is some; it has no influence on tokens and windows."""
        words = split_words(document.text)
        tokens = self.tokenizer(document.text, words)
        first_token = _first_tokens(tokens.word, len(words))
        sentences, kept, num_tokens = self._sentences(document, words), None, len(tokens)
        budget = num_tokens if self.selection is None else self.selection.budget(num_tokens)
        if num_tokens > budget:
            read = self._selected(document, words, tokens, first_token, sentences, budget)
            tokens = Tokens(tokens.ids[read], tokens.word[read])
            first_token = _first_tokens(tokens.word, len(words))
            kept = _kept(words, first_token >= 0, sentences)
        starts = first_token[sentences]
        windows = self.windower(tokens.word, self.tokenizer.num_special, starts[starts >= 0])
        unselected = num_tokens - len(tokens)
        encoded = EncodedDocument(
            document, words, tokens.ids, tokens.word, first_token, windows, None, (), kept, unselected
        )
        return self._with_gold(encoded) if self.tags is not None and document.spans is not None else encoded

    def _sentences(self, document: Document, words: np.ndarray) -> np.ndarray:
        """First word of each sentence; none where nothing asks for them."""
        selects = self.selection is not None and self.selection.method != "none"
        if not selects and self.windower.border != "sentence":
            return np.zeros(0, dtype=np.int64)
        splitter = "sentencex" if self.selection is None else self.selection.splitter
        return sentence_words(document.text, words, splitter, self.language)

    def _selected(
        self,
        document: Document,
        words: np.ndarray,
        tokens: Tokens,
        first_token: np.ndarray,
        sentences: np.ndarray,
        budget: int,
    ) -> np.ndarray:
        """Which tokens are read. A blank belongs to the sentence before it. *Shape:* (num_tokens,), bool."""
        assert self.selection is not None
        start = first_token[sentences]
        size = np.diff(np.append(start, len(tokens)))
        last = np.append(sentences[1:], len(words)) - 1
        texts = [document.text[s:e] for s, e in zip(words[sentences, 0].tolist(), words[last, 1].tolist(), strict=True)]
        scores = self.selection.scores(texts, document.id, self.language, self.scorer)
        taken = choose(scores, size, budget, self.selection.neighbours)
        stop = start + taken
        for cut in np.flatnonzero((taken > 0) & (taken < size)):
            stop[cut] = last_border(word_borders(tokens.word), start[cut], stop[cut], otherwise=stop[cut])
        at = np.arange(len(tokens))
        sentence = np.searchsorted(start, at, side="right") - 1
        return (sentence >= 0) & (at < stop[sentence])

    def _with_gold(self, encoded: EncodedDocument) -> EncodedDocument:
        assert self.tags is not None
        document, covered = encoded.document, encoded.windows.num_covered
        aligned, lost = align(document, encoded.words)
        known = [item for item in aligned if item[0].label in self.tags.labels]
        lost += [LostSpan(item[0], "unknown_label") for item in aligned if item[0].label not in self.tags.labels]
        kept, overlapping = without_overlap(known, self.overlapping, document.id)
        lost += overlapping
        whole: list[tuple[Span, int, int]] = []
        for span, first, stop in kept:
            tokens = encoded.first_token[first:stop]
            # A span reaching past the last window cannot come back whole; what is left of it would teach a wrong end.
            if tokens.min() < 0 or tokens[-1] >= covered:
                lost.append(LostSpan(span, "not_selected" if tokens.min() < 0 else "truncated"))
            else:
                whole.append((span, first, stop))
        tags = self.tags.encode(word_spans(whole), len(encoded.words))
        return replace(encoded, tags=tags, lost=tuple(lost))

    def state(self) -> dict[str, Any]:
        """Everything ``from_state`` needs: plain containers, and the tensors of a scorer."""
        return {
            "tokenizer": self.tokenizer.state(),
            "windower": asdict(self.windower),
            "tags": None if self.tags is None else {"labels": list(self.tags.labels), "scheme": self.tags.scheme},
            "overlapping": self.overlapping,
            "language": self.language,
            "selection": None if self.selection is None else asdict(self.selection),
            "scorer": None if self.scorer is None else self.scorer.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], scorer: Scorer | None = None) -> "Preprocessor":
        """Build the preprocessor that ``state`` came from; ``scorer`` is what was built from ``state["scorer"]``."""
        tags, selection = state["tags"], state["selection"]
        return cls(
            tokenizer=WordTokenizer.from_state(state["tokenizer"]),
            windower=Windower(**state["windower"]),
            tags=None if tags is None else TagScheme(tuple(tags["labels"]), tags["scheme"]),
            overlapping=state["overlapping"],
            language=state["language"],
            selection=None if selection is None else Selection(**selection),
            scorer=scorer,
        )


def _first_tokens(token_word: np.ndarray, num_words: int) -> np.ndarray:
    first_token = np.full(num_words, -1, dtype=np.int32)
    word, at = np.unique(token_word, return_index=True)
    first_token[word[word >= 0]] = at[word >= 0]
    return first_token


def _kept(words: np.ndarray, read: np.ndarray, sentences: np.ndarray) -> np.ndarray:
    """Character offsets of what is read of each sentence. *Shape:* (num_kept, 2)."""
    num_read = np.add.reduceat(read.astype(np.int64), sentences)
    first, num_read = sentences[num_read > 0], num_read[num_read > 0]
    return np.stack([words[first, 0], words[first + num_read - 1, 1]], axis=1)
