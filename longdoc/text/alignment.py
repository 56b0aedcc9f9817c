"""Alignment: gold spans in characters to spans in words, and what is lost on the way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from longdoc.errors import DataError, check_choice
from longdoc.text.documents import Document, Span
from longdoc.text.tags import WordSpan

OverlapPolicy = Literal["error", "outermost", "longest_first"]
LostReason = Literal["unalignable", "overlapping", "unknown_label", "truncated", "not_selected"]


@dataclass(frozen=True, slots=True)
class LostSpan:
    """A gold span that the model never sees, with the reason. It counts as missed in every score."""

    span: Span
    reason: LostReason


def align(document: Document, words: np.ndarray) -> tuple[list[tuple[Span, int, int]], list[LostSpan]]:
    """Find the words of each gold span.

    A span is aligned if it begins where a word begins and ends where a word ends; blanks at its ends do not matter to
    the words, but the characters it gives back would differ, so such a span is lost like one that cuts a word.

    Args:
        document: Annotated document.
        words: *Shape:* (num_words, 2).

    Returns:
        Aligned spans with first word and one past the last word, and the lost ones.
    """
    aligned: list[tuple[Span, int, int]] = []
    lost: list[LostSpan] = []
    for span in document.spans or ():
        first = int(np.searchsorted(words[:, 0], span.start))
        stop = int(np.searchsorted(words[:, 1], span.end)) + 1
        inside = first < len(words) and stop <= len(words)
        if inside and words[first, 0] == span.start and words[stop - 1, 1] == span.end:
            aligned.append((span, first, stop))
        else:
            lost.append(LostSpan(span, "unalignable"))
    return aligned, lost


def without_overlap(
    aligned: Sequence[tuple[Span, int, int]], policy: OverlapPolicy, document_id: str
) -> tuple[list[tuple[Span, int, int]], list[LostSpan]]:
    """Keep spans of which no two share a word.

    Args:
        aligned: Spans with their words, as ``align`` gives them.
        policy: ``error`` refuses overlap; ``outermost`` goes through the text and keeps the longest span at each place;
            ``longest_first`` keeps the longest spans of the document.
        document_id: For the message.
    """
    check_choice("overlapping", policy, get_args(OverlapPolicy))
    by_place = sorted(aligned, key=lambda item: (item[1], -item[2]))
    order = sorted(by_place, key=lambda item: item[1] - item[2]) if policy == "longest_first" else by_place
    kept: list[tuple[Span, int, int]] = []
    lost: list[LostSpan] = []
    taken: set[int] = set()
    for span, first, stop in order:
        if taken.isdisjoint(range(first, stop)):
            taken.update(range(first, stop))
            kept.append((span, first, stop))
        elif policy == "error":
            raise DataError(
                f"document {document_id!r}: span {span.start}-{span.end} ({span.label}) overlaps another; "
                "choose data.overlapping=outermost or longest_first, which keep one of them and count the rest"
            )
        else:
            lost.append(LostSpan(span, "overlapping"))
    kept.sort(key=lambda item: item[1])
    return kept, lost


def word_spans(kept: Sequence[tuple[Span, int, int]]) -> list[WordSpan]:
    """Drop the characters: first word, one past the last word, label."""
    return [(first, stop, span.label) for span, first, stop in kept]
