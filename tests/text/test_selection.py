import subprocess
import sys

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from longdoc.errors import ConfigError
from longdoc.text.documents import Document
from longdoc.text.preprocess import Preprocessor
from longdoc.text.selection import (
    Selection,
    choose,
    head_tail_scores,
    lead_scores,
    random_scores,
    textrank_scores,
    tfidf_scores,
)
from longdoc.text.windows import Windower
from tests.text.worlds import tokenizer_of

HOSTILE = {
    "one sentence": "the court heard the parties and " * 3_125,
    "no sentence end": " ".join(f"word{i % 997}" for i in range(13_000)),
    "e.g.": "e.g. " * 20_000,
    "a repeated sentence": "The court held it. " * 5_263,
    "empty": "",
    "blanks": " " * 100_000,
    "Chinese without stops": "今天天气很好我们走吧" * 3_333,
    "newlines": "\n" * 100_000,
    "full stops": "." * 100_000,
    "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467 " * 4_000,
    "NULs": "\x00" * 100_000,
    "one word": "a" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("method", ["tfidf", "textrank"])
def test_hostile_texts_are_read_within_the_budget(name, method):
    text = HOSTILE[name]
    language = "zh" if name.startswith("Chinese") else "en"
    preprocessor = Preprocessor(tokenizer_of("scratch"), Windower(), language=language, selection=Selection(method, 50))
    encoded = preprocessor(Document("d", text))
    assert len(encoded.token_ids) <= 50
    assert (len(encoded.token_ids) > 0) == (len(encoded.words) > 0)


def choices(sizes, **settings):
    """Sentences taken where the scores fall from the first to the last."""
    return choose(lead_scores(len(sizes)), np.array(sizes), **settings).tolist()


def test_what_does_not_fit_is_passed_over():
    assert choices([3, 5, 2, 1], budget_tokens=6) == [3, 0, 2, 1]
    assert choices([3, 3], budget_tokens=6) == [3, 3]


def test_the_best_sentence_is_cut_where_it_alone_exceeds_the_budget():
    assert choices([9, 1, 1], budget_tokens=4) == [4, 0, 0]


def test_neighbours_come_with_the_chosen_nearest_first():
    scores = np.array([0.0, 0, 0, 1, 0, 0, 0.5])
    ones = np.ones(7, dtype=np.int64)
    assert np.flatnonzero(choose(scores, ones, 3, neighbours=2)).tolist() == [2, 3, 4]
    assert np.flatnonzero(choose(scores, ones, 4, neighbours=2)).tolist() == [1, 2, 3, 4]
    assert np.flatnonzero(choose(scores, ones, 6, neighbours=1)).tolist() == [0, 2, 3, 4, 5, 6]
    # One that was taken as a neighbour brings its own when its turn comes.
    assert np.flatnonzero(choose(np.array([3.0, 2, 1, 0]), ones[:4], 3, neighbours=1)).tolist() == [0, 1, 2]


@given(
    sentences=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=20),
    budget=st.integers(1, 40),
    neighbours=st.integers(0, 3),
)
def test_the_budget_is_held_and_used(sentences, budget, neighbours):
    scores, sizes = (np.array(column) for column in zip(*sentences, strict=True))
    taken = choose(scores, sizes, budget, neighbours)
    best = int(scores.argmax())
    assert taken[best] == min(sizes[best], budget)
    if sizes[best] <= budget:
        assert set(taken[taken != sizes]) <= {0}
        left = budget - taken.sum()
        assert left >= 0
        assert (sizes[taken == 0] > left).all()


def test_scores_of_places():
    assert np.argsort(-lead_scores(4)).tolist() == [0, 1, 2, 3]
    assert np.argsort(-head_tail_scores(5)).tolist() == [0, 4, 1, 3, 2]
    assert np.argsort(-head_tail_scores(4)).tolist() == [0, 3, 1, 2]


def test_random_depends_on_seed_and_document_but_not_on_the_process():
    here = random_scores(5, 3, "d").tolist()
    assert here != random_scores(5, 4, "d").tolist()
    assert here != random_scores(5, 3, "e").tolist()
    script = "from longdoc.text.selection import random_scores; print(random_scores(5, 3, 'd').tolist())"
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == str(here)


def test_tfidf_prefers_what_is_rare_in_the_document():
    sentences = ["the court held it", "the court met", "the court met", "zebra quagga okapi court"]
    assert tfidf_scores(sentences).argmax() == 3
    assert (tfidf_scores(["...", "?!"]) == 0).all()


def test_unspaced_scripts_are_compared_by_pairs_of_signs():
    # The same signs in another order: equal as single signs, different as pairs.
    sentences = ["上海人", "人海上", "上海人"]
    assert len(np.unique(textrank_scores(sentences, "en").round(12))) == 1
    assert textrank_scores(sentences, "zh").argmin() == 1


words = st.sampled_from(["court", "judge", "held", "case", "appeal", "zebra", "claim"])


@given(st.lists(st.lists(words, max_size=6).map(" ".join), min_size=1, max_size=12).filter(any))
def test_textrank_is_the_pagerank_of_networkx(sentences):
    vectors = TfidfVectorizer().fit_transform(sentences).toarray()
    cosine = vectors @ vectors.T
    np.fill_diagonal(cosine, 0.0)
    graph = networkx.from_numpy_array(cosine)
    expected = networkx.pagerank(graph, alpha=0.85, tol=1e-13, max_iter=1000)
    ours = textrank_scores(sentences)
    assert np.abs(ours - [expected[i] for i in range(len(sentences))]).max() < 1e-8


def test_textrank_of_one_and_of_repeated_sentences():
    assert textrank_scores([]).tolist() == []
    assert textrank_scores(["the court"]).tolist() == pytest.approx([1.0])
    assert textrank_scores(["the court"] * 3).tolist() == pytest.approx([1 / 3] * 3)
    assert textrank_scores(["", "..."]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "first"}, "method='first': expected one of none, lead"),
        ({"method": "lead"}, "expected one of the two budgets"),
        ({"method": "lead", "budget_tokens": 5, "budget_ratio": 0.5}, "budget_tokens=5 and budget_ratio=0.5"),
        ({"method": "none", "budget_tokens": 5}, "reads everything, got budget_tokens=5"),
        ({"method": "lead", "budget_tokens": 0}, "budget_tokens=0"),
        ({"method": "lead", "budget_ratio": 0.0}, "budget_ratio=0.0"),
        ({"method": "lead", "budget_ratio": 1.5}, "budget_ratio=1.5"),
        ({"method": "lead", "budget_ratio": "x"}, "budget_ratio='x': expected a number above 0"),
        ({"method": "lead", "budget_tokens": 5, "neighbours": -1}, "neighbours=-1"),
        ({"method": "lead", "budget_tokens": 5, "splitter": "spacy"}, "splitter='spacy'"),
    ],
)
def test_settings_that_cannot_work(settings, message):
    with pytest.raises(ConfigError, match=message):
        Selection(**settings)


def test_budgets():
    assert Selection("none").budget(7) == 7
    assert Selection("lead", budget_tokens=9).budget(7) == 9
    assert Selection("lead", budget_ratio=0.5).budget(7) == 3
    assert Selection("lead", budget_ratio=0.1).budget(7) == 1
