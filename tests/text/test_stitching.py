import numpy as np
import pytest

from longdoc.errors import ConfigError
from longdoc.text.documents import Document
from longdoc.text.preprocess import EncodedDocument, window_items
from longdoc.text.stitching import Stitcher, decode_spans
from longdoc.text.tags import TagScheme
from longdoc.text.windows import Windower
from longdoc.text.words import split_words

TEXT = "on Monday the old City of London Police closed early"
SCHEME = TagScheme(("ORG",), "IOB2")


def ten_words() -> EncodedDocument:
    """One token a word; windows 0-5, 3-8 and 6-10 of them, so that words 3, 4, 6 and 7 stand in two."""
    words = split_words(TEXT)
    token_word = np.arange(len(words), dtype=np.int32)
    windows = Windower(7, 2)(token_word, num_special=2)
    return EncodedDocument(Document("d", TEXT), words, token_word, token_word, token_word, windows, None, ())


def test_golden_windows_and_items():
    encoded = ten_words()
    assert encoded.windows.start.tolist() == [0, 3, 6]
    assert encoded.windows.end.tolist() == [5, 8, 10]
    items = [window_items(encoded, w) for w in range(3)]
    assert [i.word.tolist() for i in items] == [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [6, 7, 8, 9]]
    assert [i.token.tolist() for i in items] == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3]]
    # The ends of the document are no edges.
    assert [i.context.tolist() for i in items] == [[4, 3, 2, 1, 0], [0, 1, 2, 1, 0], [0, 1, 2, 3]]
    assert [i.owned.tolist() for i in items] == [
        [True] * 4 + [False],
        [False, True, True, True, False],
        [False, True, True, True],
    ]


# Probability of B and I for each word, window by window; the rest is O.
GOLDEN = [
    {3: (0.1, 0.1), 4: (0.8, 0.0)},
    {3: (0.5, 0.1), 4: (0.6, 0.2), 5: (0.0, 0.9), 6: (0.0, 0.8), 7: (0.0, 0.3)},
    {6: (0.5, 0.2), 7: (0.2, 0.6)},
]


def stitched(aggregation: str) -> np.ndarray:
    encoded = ten_words()
    stitcher = Stitcher(10, 3, aggregation)
    for window, said in enumerate(GOLDEN):
        items = window_items(encoded, window)
        begin_inside = np.array([said.get(word, (0.0, 0.0)) for word in items.word.tolist()])
        probs = np.column_stack([1 - begin_inside.sum(axis=1), begin_inside])
        stitcher.add(items.word, probs, items.context, items.owned)
    assert stitcher.seen.all()
    return stitcher.probs()


def test_golden_owner():
    probs = stitched("owner")
    assert probs[:, 1].tolist() == pytest.approx([0, 0, 0, 0.1, 0.6, 0, 0, 0.2, 0, 0])
    assert probs[:, 2].tolist() == pytest.approx([0, 0, 0, 0.1, 0.2, 0.9, 0.8, 0.6, 0, 0])
    (span,) = decode_spans(probs, SCHEME, split_words(TEXT))
    assert TEXT[span.start : span.end] == "City of London Police"
    assert span.score == pytest.approx((0.6 * 0.9 * 0.8 * 0.6) ** 0.25)


def test_golden_mean():
    # Weights are distance to the edge plus one: word 3 has 2 and 1, word 4 has 1 and 2, word 6 has 2 and 1, word 7 1 and 2.
    probs = stitched("mean")
    assert probs[3].tolist() == pytest.approx([1 - 0.7 / 3 - 0.1, 0.7 / 3, 0.1])
    assert probs[4].tolist() == pytest.approx([0.2, 2.0 / 3, 0.4 / 3], abs=1e-6)
    assert probs[6].tolist() == pytest.approx([1 - 0.5 / 3 - 0.6, 0.5 / 3, 0.6])
    assert probs[7].tolist() == pytest.approx([1 - 0.4 / 3 - 0.5, 0.4 / 3, 0.5])
    assert probs.sum(axis=1) == pytest.approx(np.ones(10))
    (span,) = decode_spans(probs, SCHEME, split_words(TEXT))
    assert TEXT[span.start : span.end] == "City of London Police"
    assert span.score == pytest.approx((2 / 3 * 0.9 * 0.6 * 0.5) ** 0.25, rel=1e-5)


@pytest.mark.parametrize("aggregation", ["owner", "mean"])
def test_the_order_of_windows_does_not_matter(aggregation):
    rng = np.random.default_rng(0)
    parts = [(np.arange(a, a + 6), rng.random((6, 3), dtype=np.float32), np.arange(6)) for a in range(0, 15, 3)]
    forward, backward = Stitcher(18, 3, aggregation), Stitcher(18, 3, aggregation)
    for stitcher, order in ((forward, parts), (backward, parts[::-1])):
        for words, probs, context in order:
            stitcher.add(words, probs, context, context >= 3)
    np.testing.assert_allclose(forward.probs(), backward.probs(), rtol=1e-5)


def test_a_word_that_no_window_has_seen_is_outside():
    stitcher = Stitcher(3, 3)
    stitcher.add(np.array([1]), np.array([[0.0, 1.0, 0.0]]), np.array([0]), np.array([True]))
    assert stitcher.seen.tolist() == [False, True, False]
    assert stitcher.probs().tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]


def test_nothing_to_stitch():
    assert Stitcher(0, 3).probs().shape == (0, 3)
    assert decode_spans(np.zeros((0, 3)), SCHEME, split_words("")) == []


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_broken_probabilities_do_not_crash(bad):
    probs = np.full((10, 3), bad, dtype=np.float32)
    for span in decode_spans(probs, SCHEME, split_words(TEXT)):
        assert TEXT[span.start : span.end]


def test_wrong_name():
    with pytest.raises(ConfigError, match="aggregation='max'"):
        Stitcher(1, 1, "max")  # type: ignore[arg-type]
