import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longdoc.errors import ConfigError
from longdoc.text.windows import Windower, Windows, word_borders

NUM_SPECIAL = 2


def token_words(lengths: list[int]) -> np.ndarray:
    """Words of the given lengths in tokens; a negative length is that many blanks."""
    parts = [np.full(abs(n), i if n > 0 else -1) for i, n in enumerate(lengths)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=int)


word_lengths = st.lists(st.one_of(st.integers(1, 4), st.integers(-2, -1), st.integers(1, 90)), max_size=120).map(
    token_words
)


@st.composite
def windowers(draw: st.DrawFn, mode: str = "overlap") -> Windower:
    size = draw(st.integers(8, 64))
    overlap = draw(st.integers(0, size - NUM_SPECIAL - 1))
    return Windower(size, overlap, draw(st.sampled_from(["word", "sentence"])), mode)


def is_border(token_word: np.ndarray, at: int) -> bool:
    return at in (0, len(token_word)) or token_word[at] < 0 or token_word[at] != token_word[at - 1]


def cut(windower: Windower, token_word: np.ndarray) -> Windows:
    every_tenth = np.array([i for i in range(0, len(token_word), 10) if is_border(token_word, i)], dtype=int)
    return windower(token_word, NUM_SPECIAL, every_tenth)


@given(windowers(), word_lengths)
def test_windows_cover_in_order_and_none_lies_inside_another(windower, token_word):
    windows = cut(windower, token_word)
    room = windower.size_tokens - NUM_SPECIAL
    if len(token_word) == 0:
        assert len(windows) == 0
        return
    assert windows.start[0] == 0
    assert windows.end[-1] == windows.num_covered == windows.num_tokens == len(token_word)
    assert (windows.start[1:] <= windows.end[:-1]).all()
    assert (np.diff(windows.start) > 0).all()
    assert (np.diff(windows.end) > 0).all()
    assert (windows.end - windows.start <= room).all()
    assert (windows.end > windows.start).all()


@given(windowers(), word_lengths)
def test_every_token_has_one_owner_and_it_is_the_window_with_most_context(windower, token_word):
    windows = cut(windower, token_word)
    n = len(token_word)
    for token in range(n):
        owners = [w for w in range(len(windows)) if windows.own_start[w] <= token < windows.own_end[w]]
        assert len(owners) == 1
        context = {}
        for w in range(len(windows)):
            start, end = int(windows.start[w]), int(windows.end[w])
            if start <= token < end:
                context[w] = min(token - start if start else n, end - 1 - token if end < n else n)
        assert context[owners[0]] == max(context.values())


@given(windowers(), word_lengths)
def test_overlap_is_at_least_what_was_asked_and_no_later_border_would_do(windower, token_word):
    windows = cut(windower, token_word)
    for w in range(1, len(windows)):
        latest = int(windows.end[w - 1]) - windower.overlap_tokens
        start, before = int(windows.start[w]), int(windows.start[w - 1])
        assert start <= latest
        later = [at for at in range(max(start, before) + 1, latest + 1) if is_border(token_word, at)]
        assert later == []
        assert is_border(token_word, start) or start == latest


@given(windowers(), word_lengths)
def test_a_window_ends_inside_a_word_only_where_no_border_is_near(windower, token_word):
    windows = cut(windower, token_word)
    room = windower.size_tokens - NUM_SPECIAL
    for w, (start, end) in enumerate(zip(windows.start.tolist(), windows.end.tolist(), strict=True)):
        if not is_border(token_word, end):
            assert end - start == room
            least = max(start + windower.overlap_tokens, start + room // 2, int(windows.end[w - 1]) if w else 0)
            assert not any(is_border(token_word, at) for at in range(least + 1, end + 1))


@given(windowers(), word_lengths)
def test_number_of_windows_is_bounded(windower, token_word):
    room = windower.size_tokens - NUM_SPECIAL
    gain = max(1, room // 2 + 1 - windower.overlap_tokens)
    assert len(cut(windower, token_word)) <= 2 * -(-len(token_word) // gain) + 2


@given(windowers("truncate"), word_lengths)
def test_truncate_keeps_the_first_window(windower, token_word):
    windows = cut(windower, token_word)
    room = windower.size_tokens - NUM_SPECIAL
    assert len(windows) == min(1, len(token_word))
    if len(token_word):
        assert windows.own_start.tolist() == [0]
        assert windows.own_end.tolist() == windows.end.tolist() == [windows.num_covered]
        assert windows.num_covered <= room
        if len(token_word) <= room:
            assert windows.num_covered == len(token_word)
        elif windower.border == "word":
            borders = [at for at in range(room // 2 + 1, room + 1) if is_border(token_word, at)]
            assert windows.num_covered == (borders[-1] if borders else room)


def test_truncate_cuts_at_a_word_whatever_the_overlap():
    windows = Windower(10, 128, mode="truncate")(token_words([3, 3, 3, 3]), NUM_SPECIAL)
    assert windows.end.tolist() == [6]


def test_no_size_is_one_window():
    windows = Windower(None)(token_words([2000]), NUM_SPECIAL)
    assert windows.start.tolist() == [0]
    assert windows.end.tolist() == [2000]
    assert len(Windower(None)(token_words([]), NUM_SPECIAL)) == 0


def test_golden_words():
    # Room for 8 tokens, 3 shared: words of two tokens, so the overlap becomes 4.
    windows = Windower(10, 3)(token_words([2] * 8), NUM_SPECIAL)
    assert windows.start.tolist() == [0, 4, 8]
    assert windows.end.tolist() == [8, 12, 16]
    assert windows.own_start.tolist() == [0, 6, 10]
    assert windows.own_end.tolist() == [6, 10, 16]


def test_golden_sentences():
    # Room for 10; sentences begin at 0, 7 and 12: the first window ends with its sentence, the next start leaves 2.
    windows = Windower(12, 2, border="sentence")(token_words([1] * 15), NUM_SPECIAL, np.array([0, 7, 12]))
    assert windows.start.tolist() == [0, 5]
    assert windows.end.tolist() == [7, 15]
    assert Windower(12, 2)(token_words([1] * 15), NUM_SPECIAL).end.tolist() == [10, 15]


def test_a_giant_word_is_cut():
    windows = Windower(12, 0)(token_words([1, 25, 1]), NUM_SPECIAL)
    assert windows.start.tolist()[:2] == [0, 1]
    assert windows.num_covered == 27
    assert (windows.end - windows.start <= 10).all()


def test_word_borders():
    assert word_borders(np.array([0, 0, -1, -1, 1, 2, 2])).tolist() == [0, 2, 3, 4, 5]
    assert word_borders(np.array([-1, 0, -1, 0, 1, -1])).tolist() == [0, 1, 4, 5]  # a blank may stand within a word
    assert word_borders(np.zeros(0)).tolist() == []


@pytest.mark.parametrize("size", [*range(4, 65), 512])
def test_the_largest_legal_overlap_is_named_and_works(size):
    largest = size - NUM_SPECIAL - 1
    Windower(size, largest).check(NUM_SPECIAL)
    with pytest.raises(ConfigError, match=f"overlap_tokens={largest + 1}.* largest legal overlap is {largest}$"):
        Windower(size, largest + 1).check(NUM_SPECIAL)
    with pytest.raises(ConfigError, match="largest legal overlap"):
        Windower(size, largest + 1)(np.arange(1000), NUM_SPECIAL)
    if size < 64:
        assert len(Windower(size, largest)(np.arange(200), NUM_SPECIAL)) == 200 - size + NUM_SPECIAL + 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size_tokens": 0}, "size_tokens=0"),
        ({"size_tokens": -5}, "size_tokens=-5"),
        ({"overlap_tokens": -1}, "overlap_tokens=-1"),
        ({"border": "line"}, "border='line'"),
        ({"mode": "cut"}, "mode='cut'"),
        ({"size_tokens": None, "mode": "truncate"}, "needs size_tokens"),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(ConfigError, match=message):
        Windower(**settings)


def test_check_names_the_limit_of_the_encoder_and_its_source():
    with pytest.raises(ConfigError, match=r"the position table takes at most 512 tokens; set windows.size_tokens=512"):
        Windower(514, 128).check(NUM_SPECIAL, 512, "the position table")
    with pytest.raises(ConfigError, match="expected at least 3"):
        Windower(2, 0).check(NUM_SPECIAL)
    Windower(512, 128).check(NUM_SPECIAL, 512)
    Windower(None).check(NUM_SPECIAL, 512)


def test_a_million_tokens_take_linear_time():
    start = time.process_time()
    windows = Windower(512, 128)(np.repeat(np.arange(500_000), 2), NUM_SPECIAL)
    assert time.process_time() - start < 2
    assert len(windows) == -(-(1_000_000 - 128) // (510 - 128))
