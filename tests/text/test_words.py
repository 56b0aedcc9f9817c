import time
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longdoc.text.words import code_points, split_words
from tests.text.worlds import FRAGMENTS, GIANT, any_character, texts

UNSPACED_BLOCKS = [
    range(0x0E00, 0x0F00), range(0x1000, 0x10A0), range(0x1780, 0x1800), range(0x2E80, 0xA000), range(0xA960, 0xA980),
    range(0xAC00, 0xD800), range(0xF900, 0xFB00), range(0xFF66, 0xFFA0), range(0x20000, 0x40000),
]  # fmt: skip


def kind(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Zs", "Zl", "Zp", "Cc", "Cf"):
        return "invisible"
    if category.startswith("M"):
        return "mark"
    if category[0] in "LN" and not any(ord(character) in block for block in UNSPACED_BLOCKS):
        return "run"
    return "single"


def reference_words(text: str) -> list[tuple[int, int]]:
    words: list[list[int]] = []
    open_run = False  # the last word is a run that may grow
    base_visible = False
    for i, character in enumerate(text):
        this = kind(character)
        if this == "invisible":
            open_run = base_visible = False
        elif this == "mark" and base_visible:
            words[-1][1] = i + 1
        elif this == "single":
            words.append([i, i + 1])
            open_run, base_visible = False, True
        elif open_run:
            words[-1][1] = i + 1
            base_visible = this == "run"
        else:
            words.append([i, i + 1])
            open_run, base_visible = True, this == "run"
    return [(s, e) for s, e in words]


def surfaces(text: str) -> list[str]:
    return [text[s:e] for s, e in split_words(text).tolist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("ﾃｽﾄ テスト", list("ﾃｽﾄテスト")),
        (" \t\r\n\u200b\ufeff\u00ad", []),
        ("in 2018).", ["in", "2018", ")", "."]),
        ("Berlin.", ["Berlin", "."]),
        ("Berlin .", ["Berlin", "."]),
        ("5.975,74", ["5", ".", "975", ",", "74"]),
        ("AC2015-110", ["AC2015", "-", "110"]),
        ("naïve", ["naïve"]),
        ("nai\u0308ve", ["nai\u0308ve"]),
        (")\u0301x", [")\u0301", "x"]),
        ("\u0301x y", ["\u0301x", "y"]),
        ("a \u0301\u0302 b", ["a", "\u0301\u0302", "b"]),
        ("今天天气。", ["今", "天", "天", "气", "。"]),
        ("東京Tower", ["東", "京", "Tower"]),
        ("か\u3099く", ["か\u3099", "く"]),
        ("한국", ["한", "국"]),
        ("น้ำ", ["น้", "ำ"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("مُحَمَّد بن", ["مُحَمَّد", "بن"]),
        ("\U0001f44d\U0001f3fdok", ["\U0001f44d", "\U0001f3fd", "ok"]),
        ("\u2764\ufe0f", ["\u2764\ufe0f"]),
        ("\U0001f468\u200d\U0001f469", ["\U0001f468", "\U0001f469"]),
        ("zero\u200bwidth", ["zero", "width"]),
        ("a\ud800b", ["a", "\ud800", "b"]),
        ("\ufffd˜", ["\ufffd", "˜"]),
        ("½x²", ["½x²"]),
        ("\ue000a", ["\ue000", "a"]),
        (GIANT, [GIANT]),
    ],
)
def test_golden(text, expected):
    assert surfaces(text) == expected


def test_shape_and_type_of_nothing():
    words = split_words("")
    assert words.shape == (0, 2)
    assert words.dtype == np.int32


@given(st.one_of(texts(), st.text(any_character, max_size=60)))
@example("".join(FRAGMENTS))
@example("\u200d\u0301\u0301a\u0301")
def test_equals_the_slow_reference(text):
    assert [tuple(word) for word in split_words(text).tolist()] == reference_words(text)


@given(st.text(any_character, max_size=80))
def test_every_visible_character_is_in_exactly_one_word(text):
    count = np.zeros(len(text), dtype=int)
    for start, end in split_words(text).tolist():
        count[start:end] += 1
    assert count.tolist() == [0 if kind(character) == "invisible" else 1 for character in text]


def test_code_points_one_by_one():
    points = [*range(0x32000), *range(0xE0000, 0xE0200), 0xF0000, 0x10FFFF]
    words = split_words(" ".join(map(chr, points)))
    visible = [2 * i for i, point in enumerate(points) if kind(chr(point)) != "invisible"]
    assert words[:, 0].tolist() == visible
    assert (words[:, 1] - words[:, 0] == 1).all()


def test_code_points_keep_lone_surrogates():
    assert code_points("a\ud800\U0001f600").tolist() == [0x61, 0xD800, 0x1F600]


@pytest.mark.parametrize("fragment", ["a", "word ", "今", "\u0301", ").", " "])
def test_a_million_characters_take_linear_time(fragment):
    text = fragment * (1_000_000 // len(fragment))
    start = time.process_time()
    split_words(text)
    assert time.process_time() - start < 2
