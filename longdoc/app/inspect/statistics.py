"""What is counted: one document, one part of a corpus, all parts. No text is kept but short examples."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b

import numpy as np

from longdoc.text.alignment import LostSpan, align, without_overlap
from longdoc.text.documents import Document, Span
from longdoc.text.preprocess import EncodedDocument, Preprocessor

KEPT_FINDINGS = 200
_SHOWN_CHARS = 40


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to look at in the data.

    Args:
        where: File and line.
        reason: What is wrong there.
    """

    where: str
    reason: str


@dataclass
class Findings:
    """Findings of one kind: how many there were, and the first of them."""

    count: int = 0
    first: list[Finding] = field(default_factory=list)

    def add(self, where: str, reason: str) -> None:
        """Count one; keep it if there is room."""
        self.count += 1
        if len(self.first) < KEPT_FINDINGS:
            self.first.append(Finding(where, reason))

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(self.count + other.count, (self.first + other.first)[:KEPT_FINDINGS])


@dataclass(frozen=True, slots=True)
class EntityNumbers:
    """One entity in tokens.

    Args:
        label: Its type.
        num_tokens: Tokens of all words that it touches.
        beyond: Whether it reaches past the first window, so that truncation loses it.
        whole: Whether one window at least holds all of it.
    """

    label: str
    num_tokens: int
    beyond: bool
    whole: bool


@dataclass(frozen=True)
class DocumentNumbers:
    """One document in numbers.

    Args:
        num_words: Words, as ``split_words`` counts them.
        num_tokens: Tokens, special ones not counted.
        num_read: Tokens in the first window: all that truncation leaves.
        window_tokens: Tokens of each overlapping window, special ones not counted.
        entities: Its gold entities; None without annotation.
        unalignable: Entities that begin or end inside a word, with the reason.
        overlapping: Entities that share words with a longer one at their place, and that one.
        num_lost_longest_first: Entities lost under ``overlapping=longest_first``.
    """

    num_words: int
    num_tokens: int
    num_read: int
    window_tokens: tuple[int, ...]
    entities: tuple[EntityNumbers, ...] | None
    unalignable: tuple[tuple[Span, str], ...] = ()
    overlapping: tuple[tuple[Span, Span], ...] = ()
    num_lost_longest_first: int = 0


def measure(document: Document, preprocessor: Preprocessor) -> DocumentNumbers:
    """Count one document.

    Args:
        document: With or without gold.
        preprocessor: Its tokenizer counts, its windower cuts.
    """
    encoded = preprocessor(document)
    windows = encoded.windows
    first_only = replace(preprocessor.windower, mode="truncate", overlap_tokens=0)
    num_read = first_only(encoded.token_word, preprocessor.tokenizer.num_special).num_covered
    numbers = DocumentNumbers(
        num_words=len(encoded.words),
        num_tokens=len(encoded.token_ids),
        num_read=num_read,
        window_tokens=tuple((windows.end - windows.start).tolist()),
        entities=None if document.spans is None else entity_numbers(encoded, num_read),
    )
    return _with_faults(numbers, document, encoded) if document.spans else numbers


def entity_numbers(encoded: EncodedDocument, num_read: int) -> tuple[EntityNumbers, ...]:
    """Measure the entities of a document against its windows, those that cannot be aligned included.

    Args:
        encoded: The document and its windows.
        num_read: Tokens that truncation leaves.
    """
    words, windows = encoded.words, encoded.windows
    at = np.flatnonzero(encoded.token_word >= 0)
    last_token = np.zeros(len(words), dtype=np.int64)
    np.maximum.at(last_token, encoded.token_word[at], at)
    numbers = []
    for span in encoded.document.spans or ():
        first = int(np.searchsorted(words[:, 1], span.start, side="right"))
        stop = int(np.searchsorted(words[:, 0], span.end, side="left"))
        if stop <= first:  # blanks only: it has no words that a window could cut
            numbers.append(EntityNumbers(span.label, 0, False, True))
            continue
        start, end = int(encoded.first_token[first]), int(last_token[stop - 1]) + 1
        window = int(np.searchsorted(windows.start, start, side="right")) - 1
        # The preprocessor calls an entity truncated if the first token of its last word is.
        beyond = int(encoded.first_token[stop - 1]) >= num_read
        numbers.append(EntityNumbers(span.label, end - start, beyond, bool(windows.end[window] >= end)))
    return tuple(numbers)


def _with_faults(numbers: DocumentNumbers, document: Document, encoded: EncodedDocument) -> DocumentNumbers:
    aligned, unalignable = align(document, encoded.words)
    kept, lost = without_overlap(aligned, "outermost", document.id)
    _, lost_longest_first = without_overlap(aligned, "longest_first", document.id)
    starts = [span.start for span, _, _ in kept]
    partners = []
    for item in lost:
        # Kept spans do not overlap, so the one it met begins before its end and is the last to do so.
        i = int(np.searchsorted(starts, item.span.end)) - 1
        partners.append((item.span, kept[max(i, 0)][0]))
    return replace(
        numbers,
        unalignable=tuple((item.span, _why_unalignable(item, document.text, encoded.words)) for item in unalignable),
        overlapping=tuple(partners),
        num_lost_longest_first=len(lost_longest_first),
    )


def _why_unalignable(lost: LostSpan, text: str, words: np.ndarray) -> str:
    span = lost.span
    for edge, verb in ((span.start, "begins"), (span.end, "ends")):
        i = int(np.searchsorted(words[:, 1], edge, side="right"))
        if i < len(words) and words[i, 0] < edge < words[i, 1]:
            return f"{verb} inside the word {_shown(text, int(words[i, 0]), int(words[i, 1]))}"
    return "begins or ends with blanks"


def _shown(text: str, start: int, end: int) -> str:
    cut = text[start : min(end, start + _SHOWN_CHARS)]
    return repr(cut) + ("..." if end - start > _SHOWN_CHARS else "")


@dataclass
class PartStatistics:
    """Numbers of one part of a corpus. Arrays hold one number a document or an entity.

    Two of them add up to the statistics of both parts.
    """

    words: array = field(default_factory=lambda: array("q"))
    tokens: array = field(default_factory=lambda: array("q"))
    tokens_read: array = field(default_factory=lambda: array("q"))
    entity_tokens: array = field(default_factory=lambda: array("q"))
    num_windows: int = 0
    num_window_tokens: int = 0
    num_cut_documents: int = 0
    num_blank: int = 0
    num_tagged: int = 0
    num_classified: int = 0
    num_targets: int = 0
    num_in_no_window: int = 0
    num_lost_outermost: int = 0
    num_lost_longest_first: int = 0
    entities: Counter[str] = field(default_factory=Counter)
    entities_beyond: Counter[str] = field(default_factory=Counter)
    classes: Counter[str] = field(default_factory=Counter)
    unalignable: Findings = field(default_factory=Findings)
    overlapping: Findings = field(default_factory=Findings)
    bad_rows: Findings = field(default_factory=Findings)
    repairs: Findings = field(default_factory=Findings)

    @property
    def num_documents(self) -> int:
        """Usable documents."""
        return len(self.tokens)

    def add(self, document: Document, numbers: DocumentNumbers, where: str) -> None:
        """Count a document in.

        Args:
            document: For its labels, and the words of a finding.
            numbers: As ``measure`` gives them.
            where: File and line.
        """
        self.words.append(numbers.num_words)
        self.tokens.append(numbers.num_tokens)
        self.tokens_read.append(numbers.num_read)
        self.num_windows += len(numbers.window_tokens)
        self.num_window_tokens += sum(numbers.window_tokens)
        self.num_cut_documents += numbers.num_read < numbers.num_tokens
        self.num_blank += numbers.num_words == 0
        self.num_tagged += numbers.entities is not None
        self.num_classified += document.labels is not None
        self.num_targets += document.target is not None
        self.classes.update(document.labels or ())
        for entity in numbers.entities or ():
            self.entity_tokens.append(entity.num_tokens)
            self.entities[entity.label] += 1
            self.entities_beyond[entity.label] += entity.beyond
            self.num_in_no_window += not entity.whole
        self.num_lost_outermost += len(numbers.overlapping)
        self.num_lost_longest_first += numbers.num_lost_longest_first
        for span, reason in numbers.unalignable:
            surface = _shown(document.text, span.start, span.end)
            self.unalignable.add(where, f"{span.label} {span.start}-{span.end} {surface} {reason}")
        for span, other in numbers.overlapping:
            shown = f"{span.label} {span.start}-{span.end} {_shown(document.text, span.start, span.end)}"
            self.overlapping.add(where, f"{shown} shares words with {other.label} {other.start}-{other.end}")

    def __add__(self, other: "PartStatistics") -> "PartStatistics":
        return PartStatistics(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})


def total(parts: Iterable[PartStatistics]) -> PartStatistics:
    """Add up the parts of a corpus."""
    return sum(parts, PartStatistics())


@dataclass
class Duplicates:
    """Documents that stand in a corpus more than once; texts are compared by a hash, white space aside.

    Args:
        texts: Pairs of parts (the earlier one first) -> second copies of a text.
        ids: Pairs of different parts -> ids that stand in both.
        num_contradicting: Second copies whose class labels differ from those of the first.
        found: The first of them.
    """

    texts: Counter[tuple[str, str]] = field(default_factory=Counter)
    ids: Counter[tuple[str, str]] = field(default_factory=Counter)
    num_contradicting: int = 0
    found: Findings = field(default_factory=Findings)
    _first_text: dict[bytes, tuple[str, str, bytes]] = field(default_factory=dict)
    _first_id: dict[bytes, str] = field(default_factory=dict)

    def add(self, part: str, document: Document, where: str) -> None:
        """Compare a document with those before it."""
        identifier = _digest(document.id)
        earlier = self._first_id.setdefault(identifier, part)
        if earlier != part:
            self.ids[earlier, part] += 1
            self.found.add(where, f"id {document.id!r:.80} stands in {earlier} too")
        text = " ".join(document.text.split())
        if not text:
            return
        gold = _digest("\0".join(sorted(document.labels or ())))
        first_part, first_where, first_gold = self._first_text.setdefault(_digest(text), (part, where, gold))
        if first_where != where:
            self.texts[first_part, part] += 1
            self.num_contradicting += gold != first_gold
            other = ", with other labels" if gold != first_gold else ""
            self.found.add(where, f"same text as {first_where}{other}")

    @property
    def num_texts_within(self) -> int:
        """Second copies in the part of the first."""
        return sum(count for (first, second), count in self.texts.items() if first == second)

    @property
    def num_texts_across(self) -> int:
        """Second copies in another part than the first."""
        return self.texts.total() - self.num_texts_within


def _digest(string: str) -> bytes:
    return blake2b(string.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def spread(values: Sequence[int]) -> tuple[int, int, int] | None:
    """Median, 90th percentile and maximum, each a value that occurs; None of nothing.

    >>> spread([10, 30, 20, 40])
    (20, 40, 40)
    """
    if len(values) == 0:
        return None
    median, high, most = np.quantile(np.asarray(values), [0.5, 0.9, 1.0], method="inverted_cdf")
    return int(median), int(high), int(most)


def share(part: float, whole: float) -> float:
    """Part of a whole, 0 of nothing."""
    return part / whole if whole else 0.0
