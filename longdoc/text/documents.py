"""Documents and spans: what longdoc reads, labels and gives back."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from longdoc.errors import DataError


class Unmoved:
    """Stays where it is: a Trainer moves what has a ``to``, and would take other lists and dataclasses apart."""

    __slots__ = ()

    def to(self, device: object) -> Self:  # noqa: ARG002
        """Return itself."""
        return self


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A labelled stretch of a document.

    Args:
        start: First character, counted in code points of the original text.
        end: One past the last character.
        label: Entity type.
        score: Probability in [0, 1]; None for gold.
        slice: Name of a subgroup whose scores are reported apart, such as ``"far"``; None for the rest.
    """

    start: int
    end: int
    label: str
    score: float | None = None
    slice: str | None = None

    @property
    def key(self) -> tuple[int, int, str]:
        """What strict scoring compares: start, end and label."""
        return self.start, self.end, self.label


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its id and, where known, its gold.

    Args:
        id: Unique within a corpus.
        text: The original text, never normalised.
        spans: Gold entities; None where the document is not annotated.
        labels: Gold classes; None where the document is not annotated.
        target: Gold number for regression; None where the document is not annotated.
    """

    id: str
    text: str
    spans: tuple[Span, ...] | None = None
    labels: tuple[str, ...] | None = None
    target: float | None = None


def span_problem(text: str, start: object, end: object) -> str | None:
    """Say what is wrong with offsets into a text, or None if nothing is."""
    if not (type(start) is int and type(end) is int):
        return f"start and end must be integers, got {start!r} and {end!r}"
    if not 0 <= start < end <= len(text):
        return f"span {start}-{end} does not fit: expected 0 <= start < end <= {len(text)}"
    return None


def check_unique_ids(ids: Iterable[str], where: str) -> None:
    """Refuse a corpus in which two documents share an id, because results are merged by id."""
    seen: set[str] = set()
    repeated = [one for one in ids if one in seen or seen.add(one)]  # type: ignore[func-returns-value]
    if repeated:
        raise DataError(
            f"{where}: {len(repeated)} repeated document ids, the first is {repeated[0]!r}; ids must differ"
        )
