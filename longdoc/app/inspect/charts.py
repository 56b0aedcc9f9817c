"""Histograms as inline SVG: no script, no network, colours from the style sheet of the page."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WIDTH, HEIGHT = 460, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 14, 38, 38
_MAX_TICKS = 8
_LEAST_HEIGHT = 2
_MARK_ROW = 15
_MARK_CHARS_WIDTH = 90


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line at a value, with a word at its top."""

    value: int
    text: str


@dataclass(frozen=True)
class LogBins:
    """Bins of equal width on a log axis, closed on the right; a given value is an edge.

    Args:
        edges: Ascending. *Shape:* (num_bins + 1,).
        counts: *Shape:* (num_bins,).
    """

    edges: np.ndarray
    counts: np.ndarray


def log_bins(values: Sequence[int], edge: int, bins_per_octave: int) -> LogBins:
    """Count values, in bins that begin and end at ``edge`` times powers of two (or their roots).

    Args:
        values: At least one; what is below 1 counts as 1.
        edge: A value that is to be an edge, 1 or more.
        bins_per_octave: Bins between a value and its double.
    """
    data = np.maximum(np.asarray(values, dtype=np.float64), 1)
    position = np.log2(data / edge) * bins_per_octave
    bins = np.ceil(np.round(position, 9)).astype(int)  # bin k holds (edge * 2^((k - 1) / n), edge * 2^(k / n)]
    low, high = int(bins.min()) - 1, int(bins.max())
    edges = edge * 2.0 ** (np.arange(low, high + 1) / bins_per_octave)
    return LogBins(edges, np.bincount(bins - low - 1, minlength=high - low))


def histogram(
    values: Sequence[int], marks: Sequence[Mark], lost_above: int, bins_per_octave: int, unit: str, title: str
) -> str:
    """Draw a histogram on a log axis.

    Args:
        values: Positive numbers.
        marks: Lines to draw; the first one is an edge of the bins.
        lost_above: Bars beyond this value have the second colour.
        bins_per_octave: Bins between a value and its double.
        unit: What a bar counts, in the plural.
        title: For those who cannot see it.
    """
    bins = log_bins(values, max(1, marks[0].value), bins_per_octave)
    low = math.log2(min(bins.edges[0], *(mark.value for mark in marks))) - 0.1
    high = math.log2(max(bins.edges[-1], *(mark.value for mark in marks))) + 0.1
    tallest = int(bins.counts.max())

    def x(value: float) -> float:
        return _LEFT + (math.log2(value) - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    def y(number: float) -> float:
        return HEIGHT - _BOTTOM - number / tallest * (HEIGHT - _TOP - _BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">']
    for number in _count_ticks(tallest):
        parts.append(_level(y(number), "grid"))
        parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{y(number) + 4:.1f}" text-anchor="end">{number:,}</text>')
    for left, right, number in zip(bins.edges[:-1], bins.edges[1:], bins.counts.tolist(), strict=True):
        if number:
            width = max(1.0, x(right) - x(left) - 1.5)
            top = min(y(number), y(0) - _LEAST_HEIGHT)
            kind = "bar lost" if left >= lost_above * 0.999 else "bar"
            parts.append(
                f'<rect class="{kind}" x="{x(left) + 0.75:.1f}" y="{top:.1f}" width="{width:.1f}" '
                f'height="{y(0) - top:.1f}"><title>{math.floor(left) + 1:,} to {math.floor(right + 1e-6):,} tokens: '
                f"{number:,} {html.escape(unit)}</title></rect>"
            )
    parts.append(_level(y(0), "axis"))
    for tick in _value_ticks(low, high):
        place = f'x="{x(tick):.1f}" y="{HEIGHT - _BOTTOM + 16}"'
        parts.append(f'<text class="tick" {place} text-anchor="middle">{_short(tick)}</text>')
    parts.append(f'<text class="tick" x="{WIDTH - _RIGHT}" y="{HEIGHT - 5}" text-anchor="end">tokens, log axis</text>')
    parts += _draw_marks(marks, [x(mark.value) for mark in marks], y(0))
    return "".join([*parts, "</svg>"])


def _level(y: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _draw_marks(marks: Sequence[Mark], at: Sequence[float], bottom: float) -> list[str]:
    drawn = []
    # From right to left, each word lower than the one before: no line runs through a word.
    for row, (place, mark) in enumerate(sorted(zip(at, marks, strict=True), key=lambda item: -item[0])):
        anchor, shift = ("end", -5) if place > _MARK_CHARS_WIDTH + _LEFT else ("start", 5)
        baseline = 14 + row * _MARK_ROW
        text = html.escape(mark.text)
        drawn.append(f'<line class="mark" x1="{place:.1f}" x2="{place:.1f}" y1="{baseline - 9}" y2="{bottom:.1f}"/>')
        drawn.append(f'<text class="mark" x="{place + shift:.1f}" y="{baseline}" text-anchor="{anchor}">{text}</text>')
    return drawn


def _value_ticks(low: float, high: float) -> list[int]:
    """Powers of two, as many as there is room for."""
    exponents = range(max(0, math.ceil(low)), math.floor(high) + 1)
    step = -(-len(exponents) // _MAX_TICKS)
    return [2**exponent for exponent in exponents if (exponent - 9) % max(1, step) == 0]


def _count_ticks(tallest: int) -> list[int]:
    step = max(1, int(_nice(tallest / 4)))
    return list(range(step, tallest + 1, step))


def _nice(number: float) -> float:
    scale = 10.0 ** math.floor(math.log10(max(number, 1)))
    return next(scale * f for f in (1, 2, 5, 10) if scale * f >= number)


def _short(number: int) -> str:
    return f"{number // 1024}k" if number >= 1024 and number % 1024 == 0 else f"{number:,}"
