"""The report of a corpus: its numbers together with what they were counted with, and the ways to write a number."""

import unicodedata
from dataclasses import dataclass

from longdoc.app.inspect.statistics import Duplicates, PartStatistics, total
from longdoc.text.preprocess import Preprocessor

_BIDI_CONTROLS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True)
class TokenCounter:
    """What counts tokens.

    Args:
        model: Hub name or folder; None for a tokenizer trained on the corpus.
        description: Where the tokenizer comes from, in words.
        limit: Longest input of the encoder, special tokens included; None if there is none.
        limit_source: Where that limit comes from.
    """

    model: str | None
    description: str
    limit: int | None = None
    limit_source: str = "no limit"


@dataclass
class CorpusReport:
    """All that ``longdoc inspect`` found.

    Args:
        path: What was asked for.
        formats: Names of the formats read.
        counter: What counted tokens.
        preprocessor: Its tokenizer counted, its windower cut.
        parts: Numbers under ``train``, ``dev`` and ``test``, or under ``all`` where there are no parts.
        duplicates: Across all parts.
        notes: How the parts were found, where that is not plain.
    """

    path: str
    formats: tuple[str, ...]
    counter: TokenCounter
    preprocessor: Preprocessor
    parts: dict[str, PartStatistics]
    duplicates: Duplicates
    notes: tuple[str, ...] = ()

    @property
    def window(self) -> int:
        """Tokens in a window, special ones included."""
        size = self.preprocessor.windower.size_tokens
        assert size is not None
        return size

    @property
    def overlap(self) -> int:
        """Tokens that neighbouring windows share."""
        return self.preprocessor.windower.overlap_tokens

    @property
    def num_special(self) -> int:
        """Special tokens around each window."""
        return self.preprocessor.tokenizer.num_special

    @property
    def room(self) -> int:
        """Tokens of text that fit into a window."""
        return self.window - self.num_special

    @property
    def all(self) -> PartStatistics:
        """The numbers of all parts together."""
        return total(self.parts.values())


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


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Write a number with its noun.

    >>> count(1, "document"), count(1200, "entity", "entities")
    ('1 document', '1,200 entities')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"
