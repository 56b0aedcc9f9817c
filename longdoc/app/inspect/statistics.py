"""What a corpus holds in numbers: of a document, of a part, of all parts. No text is kept but short examples."""

import operator
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from longdoc.text.alignment import align, without_overlap
from longdoc.text.documents import Document, Span
from longdoc.text.preprocess import EncodedDocument, Preprocessor

_SHOWN_CHARS = 40
_BIDI_CONTROLS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Finding(NamedTuple):
    """Something to look at in the data: file and line, and what is wrong there."""

    where: str
    reason: str


@dataclass
class Statistics:
    """Numbers of a document, of a part of a corpus or of all of it; special tokens are never counted.

    Args:
        words: Of each document.
        tokens: Of each document.
        tokens_read: Of each document in its first window: all that truncation leaves.
        entity_tokens: Tokens of all words that an entity touches.
        num_windows: Overlapping windows.
        num_window_tokens: Tokens in them.
        num_cut: Documents longer than one window.
        num_annotated: Documents with entities, labels or a target.
        num_targets: Documents with a number.
        num_not_of_one_class: Documents with labels, but not with exactly one.
        num_in_no_window: Entities that no window holds whole.
        entities: By label.
        entities_beyond: Those that reach past the first window, so that truncation loses them.
        classes: Documents by label.
    """

    words: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    tokens_read: list[int] = field(default_factory=list)
    entity_tokens: list[int] = field(default_factory=list)
    num_windows: int = 0
    num_window_tokens: int = 0
    num_cut: int = 0
    num_annotated: int = 0
    num_targets: int = 0
    num_not_of_one_class: int = 0
    num_in_no_window: int = 0
    entities: Counter[str] = field(default_factory=Counter)
    entities_beyond: Counter[str] = field(default_factory=Counter)
    classes: Counter[str] = field(default_factory=Counter)
    bad_rows: list[Finding] = field(default_factory=list)
    repairs: list[Finding] = field(default_factory=list)
    unalignable: list[Finding] = field(default_factory=list)
    overlapping: list[Finding] = field(default_factory=list)
    copies_across: list[Finding] = field(default_factory=list)
    copies_within: list[Finding] = field(default_factory=list)
    repeated_ids: list[Finding] = field(default_factory=list)

    @property
    def num_documents(self) -> int:
        """Usable documents."""
        return len(self.tokens)

    def add_(self, other: "Statistics") -> None:
        """Count others in."""
        for f in fields(self):
            setattr(self, f.name, operator.iadd(getattr(self, f.name), getattr(other, f.name)))


def measure(document: Document, preprocessor: Preprocessor, where: str) -> Statistics:
    """Count one document.

    Args:
        document: With or without gold.
        preprocessor: Its tokenizer counts, its windower cuts.
        where: File and line, for the findings.
    """
    encoded = preprocessor(document)
    windows, num_tokens = encoded.windows, len(encoded.token_ids)
    first_only = replace(preprocessor.windower, mode="truncate", overlap_tokens=0)
    num_read = first_only(encoded.token_word, preprocessor.tokenizer.num_special).num_covered
    found = Statistics(
        words=[len(encoded.words)],
        tokens=[num_tokens],
        tokens_read=[num_read],
        num_windows=len(windows.start),
        num_window_tokens=int((windows.end - windows.start).sum()),
        num_cut=int(num_read < num_tokens),
        num_annotated=int((document.spans, document.labels, document.target) != (None, None, None)),
        classes=Counter(document.labels or ()),
        num_targets=int(document.target is not None),
        num_not_of_one_class=int(document.labels is not None and len(document.labels) != 1),
    )
    _count_entities(found, encoded, num_read)
    _find_lost(found, encoded, where)
    return found


def _count_entities(found: Statistics, encoded: EncodedDocument, num_read: int) -> None:
    words, windows = encoded.words, encoded.windows
    at = np.flatnonzero(encoded.token_word >= 0)
    last_token = np.zeros(len(words), dtype=np.int64)
    np.maximum.at(last_token, encoded.token_word[at], at)
    for span in encoded.document.spans or ():
        found.entities[span.label] += 1
        first = int(np.searchsorted(words[:, 1], span.start, side="right"))
        stop = int(np.searchsorted(words[:, 0], span.end, side="left"))
        if stop <= first:  # it covers no word that a window could cut
            found.entity_tokens.append(0)
            continue
        start, end = int(encoded.first_token[first]), int(last_token[stop - 1]) + 1
        window = int(np.searchsorted(windows.start, start, side="right")) - 1
        found.entity_tokens.append(end - start)
        found.num_in_no_window += int(windows.end[window] < end)
        # The preprocessor calls an entity truncated if the first token of its last word is.
        if encoded.first_token[stop - 1] >= num_read:
            found.entities_beyond[span.label] += 1


def _find_lost(found: Statistics, encoded: EncodedDocument, where: str) -> None:
    document, words = encoded.document, encoded.words
    aligned, unalignable = align(document, words)
    kept, overlapping = without_overlap(aligned, "outermost", document.id)
    for lost in unalignable:
        shown, why = _shown(document, lost.span), "begins or ends with blanks"
        for edge, verb in ((lost.span.end, "ends"), (lost.span.start, "begins")):
            i = int(np.searchsorted(words[:, 1], edge, side="right"))
            if i < len(words) and words[i, 0] < edge:
                why = f"{verb} inside the word {_quoted(document.text[words[i, 0] : words[i, 1]])}"
        found.unalignable.append(Finding(where, f"{shown} {why}"))
    starts = [span.start for span, _, _ in kept]
    for lost in overlapping:
        # Kept spans do not overlap, so the one it met is the last to begin before its end.
        other = kept[int(np.searchsorted(starts, lost.span.end)) - 1][0]
        reason = f"{_shown(document, lost.span)} shares words with {other.label} {other.start}-{other.end}"
        found.overlapping.append(Finding(where, reason))


def _shown(document: Document, span: Span) -> str:
    return f"{span.label} {span.start}-{span.end} {_quoted(document.text[span.start : span.end])}"


def _quoted(text: str) -> str:
    return repr(text[:_SHOWN_CHARS]) + ("..." if len(text) > _SHOWN_CHARS else "")


def find_copies_(
    found: Statistics, document: Document, part: str, where: str, seen: dict[str | bytes, tuple[str, str]]
) -> None:
    """Compare a document with those before it, its text by a hash and white space aside.

    ``seen`` maps ids and hashes to the part and place that held them first.
    """
    first_part, _ = seen.setdefault(document.id, (part, where))
    if first_part != part:
        found.repeated_ids.append(Finding(where, f"id {document.id!r:.80} stands in {first_part} too"))
    text = " ".join(document.text.split())
    key = blake2b(text.encode(), digest_size=16).digest()
    first_part, first_where = seen.setdefault(key, (part, where))
    if text and first_where != where:
        copies = found.copies_within if first_part == part else found.copies_across
        copies.append(Finding(where, f"same text as {first_where}"))


@dataclass(frozen=True)
class CorpusReport:
    """All that ``longdoc inspect`` found.

    Args:
        path: What was asked for.
        model: Hub name or folder of the encoder; None if a tokenizer was trained on the corpus.
        limit: Longest input of the encoder, special tokens included; None if there is none.
        window: Tokens in a window, special ones included.
        room: Tokens of text that fit into a window.
        overlap: Tokens that neighbouring windows share.
        parts: Numbers under ``train``, ``dev`` and ``test``, or under ``all`` where there are no parts.
        notes: How the corpus was read and counted.
        settings: What the command line of a training needs to read it alike.
    """

    path: str
    model: str | None
    limit: int | None
    window: int
    room: int
    overlap: int
    parts: dict[str, Statistics]
    notes: list[str]
    settings: list[str]

    @cached_property
    def whole(self) -> Statistics:
        """The numbers of all parts together."""
        whole = Statistics()
        for part in self.parts.values():
            whole.add_(part)
        return whole


def spread(values: Sequence[int]) -> tuple[int | str, ...]:
    """Median, 90th percentile and maximum, each a value that occurs.

    >>> spread([10, 30, 20, 40]), spread([])
    ((20, 40, 40), ('-', '-', '-'))
    """
    if not values:
        return "-", "-", "-"
    return tuple(np.percentile(values, [50, 90, 100], method="inverted_cdf").tolist())


def histogram(values: Sequence[int], border: int) -> list[tuple[int, int, int]]:
    """Count lengths in bins that widen by half an octave, from the first to the last that is not empty.

    Args:
        values: At least one, none negative.
        border: A length that is to be the last of its bin, 1 or more.

    Returns:
        First length, last length and number of each bin.

    >>> histogram([400, 510, 511, 511], 510)
    [(361, 510, 2), (511, 721, 2)]
    """
    octaves = np.arange(-20, 40, 0.5)
    last = np.unique([-1, *np.floor(border * 2.0**octaves + 1e-6).astype(np.int64)])
    numbers, _ = np.histogram(values, bins=last + 1)
    bins = list(zip((last[:-1] + 1).tolist(), last[1:].tolist(), numbers.tolist(), strict=True))
    filled = np.flatnonzero(numbers)
    return bins[filled[0] : filled[-1] + 1]


def percent(part: float, whole: float) -> str:
    """Write a share so that something never reads as nothing, nor nearly all as all.

    >>> percent(1, 3), percent(1, 5000), percent(4999, 5000), percent(0, 7), percent(1, 40), percent(0, 0)
    ('33 %', '<0.1 %', '>99 %', '0 %', '2.5 %', '-')
    """
    if not whole:
        return "-"
    value = 100 * part / whole
    if 0 < value < 0.1:
        return "<0.1 %"
    if 99 < value < 100:
        return ">99 %"
    return f"{value:.1f} %" if 0 < value < 9.95 else f"{value:.0f} %"


def clean(text: str) -> str:
    r"""Escape what would steer a terminal or turn a line around; letters of every script stay.

    >>> clean("a\x1b[31m")
    'a\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(
        ascii(c)[1:-1] if unicodedata.category(c) in ("Cc", "Cs") or c in _BIDI_CONTROLS else c for c in text
    )
