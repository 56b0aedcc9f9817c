"""Preprocessing: one path from a document to its windows, for training, evaluation and prediction."""

from dataclasses import asdict, dataclass, replace

import numpy as np

from longdoc.text.alignment import LostSpan, OverlapPolicy, align, without_overlap, word_spans
from longdoc.text.documents import Document
from longdoc.text.sentences import split_sentences
from longdoc.text.tags import TagScheme
from longdoc.text.tokens import WordTokenizer
from longdoc.text.windows import Windower, Windows
from longdoc.text.words import split_words


@dataclass(frozen=True, slots=True)
class EncodedDocument:
    """A document as the model reads it.

    Args:
        document: What it was made of.
        words: Character offsets of its words. *Shape:* (num_words, 2).
        token_ids: Vocabulary ids without special tokens. *Shape:* (num_tokens,).
        token_word: Word of each token, -1 for a blank. *Shape:* (num_tokens,).
        first_token: First token of each word; -1 for a word that was not read. *Shape:* (num_words,).
        windows: How the tokens are cut.
        tags: Gold tag of each word; None without gold spans. *Shape:* (num_words,).
        lost: Gold spans that the model cannot see or learn from, with the reason.
    """

    document: Document
    words: np.ndarray
    token_ids: np.ndarray
    token_word: np.ndarray
    first_token: np.ndarray
    windows: Windows
    tags: np.ndarray | None
    lost: tuple[LostSpan, ...]

    def to(self, device: object) -> "EncodedDocument":  # noqa: ARG002
        """Return itself: a Trainer moves what has this method, and would take other dataclasses apart."""
        return self

    @property
    def truncated(self) -> bool:
        """Whether a part of the document stands in no window."""
        return self.windows.num_covered < len(self.token_ids)


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

    Args:
        tokenizer: Text to tokens that never mix words.
        windower: How the tokens are cut; also serves prediction, so windows never depend on gold.
        tags: The tags of a tagging task; None for classification.
        overlapping: What happens to gold spans that share words.
        language: ISO 639-1 code for the sentence splitter.
    """

    tokenizer: WordTokenizer
    windower: Windower
    tags: TagScheme | None = None
    overlapping: OverlapPolicy = "error"
    language: str = "en"

    def __post_init__(self) -> None:
        self.windower.check(self.tokenizer.num_special)

    def __call__(self, document: Document) -> EncodedDocument:
        """Encode one document. Gold is aligned where there is some; it has no influence on tokens and windows."""
        words = split_words(document.text)
        tokens = self.tokenizer(document.text, words)
        first_token = np.full(len(words), -1, dtype=np.int32)
        word, at = np.unique(tokens.word, return_index=True)
        first_token[word[word >= 0]] = at[word >= 0]
        sentence_starts = self._sentence_starts(document, words, first_token)
        windows = self.windower(tokens.word, self.tokenizer.num_special, sentence_starts)
        encoded = EncodedDocument(document, words, tokens.ids, tokens.word, first_token, windows, None, ())
        return self._with_gold(encoded) if self.tags is not None and document.spans is not None else encoded

    def _sentence_starts(self, document: Document, words: np.ndarray, first_token: np.ndarray) -> np.ndarray | None:
        if self.windower.border != "sentence" or len(words) == 0:
            return None
        sentences = split_sentences(document.text, language=self.language)
        first_word = np.searchsorted(words[:, 0], sentences[:, 0])
        return np.unique(first_token[first_word[first_word < len(words)]])

    def _with_gold(self, encoded: EncodedDocument) -> EncodedDocument:
        assert self.tags is not None
        document, covered = encoded.document, encoded.windows.num_covered
        aligned, lost = align(document, encoded.words)
        known = [item for item in aligned if item[0].label in self.tags.labels]
        lost += [LostSpan(item[0], "unknown_label") for item in aligned if item[0].label not in self.tags.labels]
        kept, overlapping = without_overlap(known, self.overlapping, document.id)
        lost += overlapping
        # A span reaching past the last window cannot come back whole; what is left of it would teach a wrong end.
        whole = [item for item in kept if encoded.first_token[item[2] - 1] < covered]
        lost += [LostSpan(item[0], "truncated") for item in kept if encoded.first_token[item[2] - 1] >= covered]
        tags = self.tags.encode(word_spans(whole), len(encoded.words))
        return replace(encoded, tags=tags, lost=tuple(lost))

    def state(self) -> dict[str, object]:
        """Everything ``from_state`` needs, in plain containers."""
        return {
            "tokenizer": self.tokenizer.state(),
            "windower": asdict(self.windower),
            "tags": None if self.tags is None else {"labels": list(self.tags.labels), "scheme": self.tags.scheme},
            "overlapping": self.overlapping,
            "language": self.language,
        }

    @classmethod
    def from_state(cls, state: dict) -> "Preprocessor":
        """Build the preprocessor that ``state`` came from."""
        tags = state["tags"]
        return cls(
            tokenizer=WordTokenizer.from_state(state["tokenizer"]),
            windower=Windower(**state["windower"]),
            tags=None if tags is None else TagScheme(tuple(tags["labels"]), tags["scheme"]),
            overlapping=state["overlapping"],
            language=state["language"],
        )
