"""Words: the units that carry labels, the same for every tokenizer.

A word is a maximal run of letters and digits. Every other visible character is a word of its own, and so is every
character of a script that is written without spaces (Chinese, Japanese, Korean syllables, Thai, Lao, Khmer, Burmese).
Combining marks belong to the word of the character before them. Blanks, control and format characters belong to none.
"""

import re
import unicodedata

import numpy as np

_SURROGATES = re.compile("[\ud800-\udfff]")

INVISIBLE, RUN, SINGLE, MARK, UNKNOWN = 0, 1, 2, 3, 255

_UNSPACED_RANGES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x9FFF),  # radicals, kana, bopomofo, unified ideographs and extension A
    (0xA960, 0xA97F),  # Hangul Jamo extended
    (0xAC00, 0xD7FF),  # Hangul syllables
    (0xF900, 0xFAFF),  # compatibility ideographs
    (0xFF66, 0xFF9F),  # half-width katakana
    (0x20000, 0x3FFFF),  # further ideographs
)

_kind_of_code_point = np.full(0x110000, UNKNOWN, dtype=np.uint8)


def _classify(code_point: int) -> int:
    category = unicodedata.category(chr(code_point))
    if category[0] in "ZC" and category not in ("Co", "Cs", "Cn"):
        return INVISIBLE
    if category[0] == "M":
        return MARK
    if any(first <= code_point <= last for first, last in _UNSPACED_RANGES):
        return SINGLE
    return RUN if category[0] in "LN" else SINGLE


def code_points(text: str) -> np.ndarray:
    """Return the code points of a text, lone surrogates included. *Shape:* (num_characters,)."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def without_surrogates(text: str) -> str:
    """Put U+FFFD in the place of lone surrogates, which libraries that want UTF-8 refuse. The length stays."""
    return _SURROGATES.sub("\ufffd", text)


def _kinds(text: str) -> np.ndarray:
    points = code_points(text)
    kinds = _kind_of_code_point[points]
    for point in np.unique(points[kinds == UNKNOWN]).tolist():
        _kind_of_code_point[point] = _classify(point)
    return _kind_of_code_point[points]


def split_words(text: str) -> np.ndarray:
    """Find the words of a text, in time linear in its length.

    Returns:
        Half-open character offsets, in order, not overlapping. *Shape:* (num_words, 2), int32.

    >>> [(int(s), int(e)) for s, e in split_words("in 2018).")]
    [(0, 2), (3, 7), (7, 8), (8, 9)]
    """
    kinds = _kinds(text)
    if kinds.size == 0:
        return np.zeros((0, 2), dtype=np.int32)
    # A mark takes the kind of the character it stands on; after a blank it begins a run.
    position = np.arange(kinds.size)
    base = np.maximum.accumulate(np.where(kinds == MARK, -1, position))
    carried = np.where(base >= 0, kinds[np.maximum(base, 0)], INVISIBLE)
    joins_base = (kinds == MARK) & (carried != INVISIBLE)
    effective = np.where((kinds == MARK) & ~joins_base, RUN, carried)

    previous = np.concatenate(([INVISIBLE], effective[:-1]))
    visible = effective != INVISIBLE
    continues = visible & (((effective == RUN) & (previous == RUN)) | joins_base)
    starts = np.flatnonzero(visible & ~continues)
    next_continues = np.concatenate((continues[1:], [False]))
    ends = np.flatnonzero(visible & ~next_continues) + 1
    return np.stack([starts, ends], axis=1).astype(np.int32)
