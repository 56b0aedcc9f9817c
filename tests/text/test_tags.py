import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from longdoc.errors import ConfigError
from longdoc.text.tags import TagScheme

SCHEMES = ["BIOES", "IOB2"]
every_scheme = pytest.mark.parametrize("scheme", SCHEMES)


def legal(tags: tuple[str, ...], scheme: str) -> bool:
    """The rules in words: I continues its label, BIOES closes what it opens."""
    previous = "O"
    for tag in (*tags, "O"):
        inside = previous[0] in "BI" and previous != "O"
        continues = tag[0] in "IE"
        if continues and not (inside and tag[2:] == previous[2:]):
            return False
        if scheme == "BIOES" and inside and not continues:
            return False
        previous = tag
    return True


def brute_force(scheme: TagScheme, scores: np.ndarray) -> float:
    best = -np.inf
    for ids in itertools.product(range(len(scheme)), repeat=len(scores)):
        if legal(tuple(scheme.tags[i] for i in ids), scheme.scheme):
            best = max(best, sum(scores[t, i] for t, i in enumerate(ids)))
    return best


def test_order_of_tags():
    assert TagScheme(("P", "Q")).tags == ("O", "B-P", "I-P", "E-P", "S-P", "B-Q", "I-Q", "E-Q", "S-Q")
    assert TagScheme(("P",), "IOB2").tags == ("O", "B-P", "I-P")
    assert len(TagScheme(("P", "Q"))) == 9


def test_golden_transitions_bioes():
    scheme = TagScheme(("P", "Q"))
    allowed = {a: {b for j, b in enumerate(scheme.tags) if scheme.may_follow[i, j]} for i, a in enumerate(scheme.tags)}
    outside = {"O", "B-P", "S-P", "B-Q", "S-Q"}
    expected = {"O": outside, "E-P": outside, "S-P": outside, "E-Q": outside, "S-Q": outside}
    expected |= {"B-P": {"I-P", "E-P"}, "I-P": {"I-P", "E-P"}, "B-Q": {"I-Q", "E-Q"}, "I-Q": {"I-Q", "E-Q"}}
    assert allowed == expected
    assert {t for t, ok in zip(scheme.tags, scheme.may_start, strict=True) if ok} == outside
    assert {t for t, ok in zip(scheme.tags, scheme.may_end, strict=True) if ok} == {"O", "E-P", "S-P", "E-Q", "S-Q"}


def test_golden_transitions_iob2():
    scheme = TagScheme(("P", "Q"), "IOB2")
    allowed = {a: {b for j, b in enumerate(scheme.tags) if scheme.may_follow[i, j]} for i, a in enumerate(scheme.tags)}
    begin = {"O", "B-P", "B-Q"}
    assert allowed == {
        "O": begin,
        "B-P": begin | {"I-P"},
        "I-P": begin | {"I-P"},
        "B-Q": begin | {"I-Q"},
        "I-Q": begin | {"I-Q"},
    }
    assert scheme.may_start.tolist() == [True, True, False, True, False]
    assert scheme.may_end.all()


def test_golden_encoding():
    spans = [(0, 1, "P"), (1, 3, "P"), (4, 7, "Q")]
    scheme = TagScheme(("P", "Q"))
    assert [scheme.tags[i] for i in scheme.encode(spans, 8)] == ["S-P", "B-P", "E-P", "O", "B-Q", "I-Q", "E-Q", "O"]
    scheme = TagScheme(("P", "Q"), "IOB2")
    assert [scheme.tags[i] for i in scheme.encode(spans, 8)] == ["B-P", "B-P", "I-P", "O", "B-Q", "I-Q", "I-Q", "O"]


@every_scheme
@given(plan=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.sampled_from("PQ"))), tail=st.integers(0, 3))
def test_decode_undoes_encode(scheme, plan, tail):
    tags = TagScheme(("P", "Q"), scheme)
    spans, at = [], 0
    for gap, length, label in plan:
        spans.append((at + gap, at + gap + length, label))
        at += gap + length
    assert tags.decode(tags.encode(spans, at + tail)) == spans


@every_scheme
@given(scores=arrays(np.float64, st.tuples(st.integers(1, 4), st.just(5)), elements=st.floats(-9, 9)))
def test_best_sequence_against_all_sequences(scheme, scores):
    tags = TagScheme(("P",) if scheme == "BIOES" else ("P", "Q"), scheme)
    path = tags.best_legal(scores)
    assert path.dtype == np.int32
    assert legal(tuple(tags.tags[i] for i in path), scheme)
    assert scores[np.arange(len(path)), path].sum() == pytest.approx(brute_force(tags, scores), abs=1e-9)


@every_scheme
@given(seed=st.integers(0, 10**6), num_words=st.integers(1, 200))
def test_output_is_legal_and_a_legal_greedy_answer_stays(scheme, seed, num_words):
    tags = TagScheme(("P", "Q", "R"), scheme)
    scores = np.random.default_rng(seed).normal(size=(num_words, len(tags)))
    path = tags.best_legal(scores)
    assert legal(tuple(tags.tags[i] for i in path), scheme)
    scores[np.arange(num_words), path] += 100  # now the greedy answer is legal
    assert tags.best_legal(scores).tolist() == path.tolist() == scores.argmax(axis=1).tolist()


def test_the_shortcut_gives_what_the_long_way_gives():
    tags = TagScheme(("P", "Q"))
    rng = np.random.default_rng(0)
    gold = tags.encode([(2, 5, "P"), (7, 8, "Q")], 10)
    scores = rng.normal(size=(10, len(tags)))
    scores[np.arange(10), gold] += 50
    # One more word whose greedy tag is illegal forces the long way; the ten words before are as they were.
    longer = np.concatenate([scores, np.zeros((1, len(tags)))])
    longer[10, 2] = 1.0
    assert tags.best_legal(longer)[:10].tolist() == tags.best_legal(scores).tolist() == gold.tolist()


@every_scheme
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_do_not_crash(scheme, bad):
    tags = TagScheme(("P", "Q"), scheme)
    scores = np.random.default_rng(1).normal(size=(30, len(tags)))
    for where in (np.s_[3], np.s_[:, 1], np.s_[5:9, 2:], np.s_[:]):
        broken = scores.astype(np.float32)
        broken[where] = bad
        assert legal(tuple(tags.tags[i] for i in tags.best_legal(broken)), scheme)


def test_one_bad_word_leaves_the_others_alone():
    tags = TagScheme(("P",), "IOB2")
    scores = np.log(np.eye(3)[[0, 1, 2, 0, 1]] * 0.9 + 0.03)
    scores[3] = np.nan
    assert tags.best_legal(scores)[[0, 1, 2, 4]].tolist() == [0, 1, 2, 1]


def test_nothing_to_tag():
    tags = TagScheme(("P",))
    assert tags.best_legal(np.zeros((0, 5))).tolist() == []
    assert tags.decode(np.zeros(0, dtype=np.int32)) == []
    assert tags.encode([], 0).tolist() == []


def test_decoding_takes_linear_time():
    tags = TagScheme(tuple("PQRSTU"))
    scores = np.random.default_rng(0).normal(size=(40_000, len(tags)))

    def seconds(num_words: int) -> float:
        start = time.process_time()
        tags.best_legal(scores[:num_words])
        return time.process_time() - start

    seconds(1000)
    assert seconds(40_000) < 6 * max(seconds(10_000), 0.05)


@pytest.mark.parametrize(
    ("labels", "scheme", "message"),
    [(("P",), "BILOU", "scheme='BILOU'"), (("P", "P"), "IOB2", "distinct"), ((), "BIOES", "at least one entity type")],
)
def test_refusals(labels, scheme, message):
    with pytest.raises(ConfigError, match=message):
        TagScheme(labels, scheme)
