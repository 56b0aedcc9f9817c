"""Offsets as annotation tools count them, turned into code points of the text.

Tools written in JavaScript count UTF-16 units, so that every emoji shifts what follows by one. Others count a line end
CR LF as one character, or count two where the text has only LF. Where the export repeats the surface of each
span, the surface tells which it was.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from longdoc.text.documents import span_problem

_BLANK = re.compile(r"\s+")
_UNIT_NAMES = {
    (True, 0): "UTF-16 units",
    (False, -1): "characters with CRLF as one",
    (True, -1): "UTF-16 units with CRLF as one",
    (False, 1): "characters with line feeds as two",
    (True, 1): "UTF-16 units with line feeds as two",
}


class RawSpan(NamedTuple):
    """A span as it stands in a file.

    ``surface`` is the text that the exporting tool says it covers, ``line`` where it stands if not on its row's line.
    """

    start: object
    end: object
    label: object
    score: object = None
    slice: object = None
    surface: object = None
    line: int | None = None


def convert_offsets(
    text: str, spans: Sequence[RawSpan], unit: str
) -> tuple[list[RawSpan], str | None, list[tuple[int | None, str]]]:
    """Convert the offsets of one document to code points.

    Args:
        text: The document.
        spans: Its raw spans; those whose offsets are no integers are left alone.
        unit: ``auto`` takes code points unless a surface contradicts and another unit explains all surfaces. ``unsure``
            does too, but refuses spans without surface that UTF-16 units would place elsewhere.

    Returns:
        The spans in code points, what was repaired (or None), and lines with reasons that forbid the use of the row.
    """
    spans = list(spans)
    if unit == "utf16":
        converted = spans if text.isascii() else _converted(spans, _positions(text, utf16=True, line_feed=0))
        if converted is None:
            return spans, None, [(None, "an offset in UTF-16 units falls inside a character")]
        repair = f"offsets converted from {_UNIT_NAMES[True, 0]}" if converted != spans else None
        return converted, repair, _mismatches(text, converted)
    if unit == "unsure" and not text.isascii():
        bare = [span for span in spans if span.surface is None]
        if bare != _converted(bare, _positions(text, utf16=True, line_feed=0)):
            return spans, None, [(None, "offsets may count UTF-16 units: say format=doccano or offset_unit=codepoint")]
    if all(_agrees(text, span) for span in spans):
        return spans, None, _hint(text, spans) if unit != "codepoint" else []
    for (utf16, line_feed), name in _UNIT_NAMES.items() if unit != "codepoint" else ():
        if (utf16 and text.isascii()) or (line_feed and ("\r\n" if line_feed < 0 else "\n") not in text):
            continue
        candidate = _converted(spans, _positions(text, utf16=utf16, line_feed=line_feed))
        if candidate is not None and all(_agrees(text, span) for span in candidate):
            return candidate, f"offsets converted from {name}", []
    return spans, None, _mismatches(text, spans) + _hint(text, spans)


def utf16_offsets(text: str, offsets: Sequence[int]) -> list[int]:
    """Count code point offsets in UTF-16 units."""
    return _positions(text, utf16=True, line_feed=0)[np.array(offsets, int)].tolist()


def _positions(text: str, *, utf16: bool, line_feed: int) -> np.ndarray:
    """Where each code point begins in the tool's count. Shape: (len(text) + 1,)."""
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    widths = np.ones(len(points), dtype=np.int64)
    if utf16:
        widths += points > 0xFFFF
    if line_feed == -1:
        widths[1:][(points[1:] == 10) & (points[:-1] == 13)] = 0
    elif line_feed == 1:
        widths[points == 10] = 2
    return np.concatenate([[0], np.cumsum(widths)])


def _converted(spans: list[RawSpan], positions: np.ndarray) -> list[RawSpan] | None:
    """Replace counted offsets by code points; None if one falls inside a character. What is out of range stays so."""
    last, converted = int(positions[-1]), []
    for span in spans:
        ends = [span.start, span.end]
        for i, offset in enumerate(ends):
            if type(offset) is int and 0 <= offset <= last:
                point = int(np.searchsorted(positions, offset, side="right")) - 1
                if positions[point] != offset:
                    return None
                ends[i] = point
        converted.append(span._replace(start=ends[0], end=ends[1]))
    return converted


def _agrees(text: str, span: RawSpan) -> bool:
    """Whether the text at a span reads as its surface does, if it has one; runs of white space count as equal."""
    if not isinstance(span.surface, str):
        return True
    if span_problem(text, span.start, span.end):
        return False
    found = text[span.start : span.end]  # type: ignore[index]
    return found == span.surface or _BLANK.sub(" ", found) == _BLANK.sub(" ", span.surface)


def _mismatches(text: str, spans: list[RawSpan]) -> list[tuple[int | None, str]]:
    """The spans whose surface stands elsewhere; offsets that do not fit the text are left to other checks."""
    return [
        (line, f"span {start}-{end} reads {text[start:end]!r:.60}, the export says {surface!r:.60}")  # type: ignore[index]
        for start, end, *_, surface, line in (span for span in spans if not _agrees(text, span))
        if span_problem(text, start, end) is None
    ]


def _hint(text: str, spans: list[RawSpan]) -> list[tuple[int | None, str]]:
    """Say so where offsets past the end would fit if they were UTF-16 units."""
    extra = 0 if text.isascii() else int(_positions(text, utf16=True, line_feed=0)[-1]) - len(text)
    past = [span for span in spans if type(span.end) is int and span.end > len(text)]
    if extra and past and all(span.end <= len(text) + extra for span in past):  # type: ignore[operator]
        return [(past[0].line, "the offsets would fit as UTF-16 units: if they are, say offset_unit=utf16")]
    return []
