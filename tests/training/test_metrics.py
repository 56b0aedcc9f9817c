import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2

from longdoc.errors import ConfigError
from longdoc.text.alignment import LostSpan
from longdoc.text.documents import Span
from longdoc.text.results import DocumentResult
from longdoc.text.tags import TagScheme
from longdoc.training.metrics import SpanF1, precision_recall_f1, seqeval_f1

TEXT = "one two three four five six seven eight nine ten"
WORDS = [(i, i + len(w)) for w in TEXT.split() for i in [TEXT.index(w)]]


def spans(*places: tuple) -> tuple[Span, ...]:
    """First word, last word, label and perhaps slice."""
    return tuple(Span(WORDS[p[0]][0], WORDS[p[1]][1], p[2], None, p[3] if len(p) > 3 else None) for p in places)


def result(gold: tuple[Span, ...] | None, predicted: tuple[Span, ...], name: str = "d") -> DocumentResult:
    return DocumentResult(name, TEXT, gold, predicted)


def scores(*results: DocumentResult, slices: tuple[str, ...] = ()) -> dict[str, float]:
    metric = SpanF1(("A", "B"), slices)
    metric.update(results)
    return metric.compute()


def test_golden():
    gold = spans((0, 1, "A"), (3, 3, "B"), (5, 7, "A"))
    predicted = spans((0, 1, "A"), (3, 3, "A"), (5, 6, "A"), (9, 9, "B"))
    found = scores(result(gold, predicted))
    assert found["precision"] == 1 / 4
    assert found["recall"] == 1 / 3
    assert found["f1"] == 2 / 7
    assert (found["num_gold"], found["num_predicted"]) == (3, 4)
    assert (found["label/A/precision"], found["label/A/recall"], found["label/A/f1"]) == (1 / 3, 1 / 2, 2 / 5)
    assert (found["label/B/f1"], found["label/B/num_gold"]) == (0.0, 1)


def test_golden_slices():
    gold = spans((0, 1, "A", "far"), (3, 3, "B", "far"), (5, 7, "A"), (9, 9, "B", "other"))
    # Right and far; wrong over a far one; right and of no slice; wrong over nothing.
    predicted = spans((0, 1, "A"), (3, 4, "B"), (5, 7, "A"), (8, 8, "B"))
    found = scores(result(gold, predicted), slices=("far",))
    assert (found["slice/far/precision"], found["slice/far/recall"], found["slice/far/f1"]) == (1 / 2, 1 / 2, 1 / 2)
    assert (found["slice/rest/precision"], found["slice/rest/recall"]) == (1 / 2, 1 / 2)
    assert found["slice/far/num_gold"] == 2
    assert not any(key.startswith("slice/") for key in scores(result(gold, predicted)))


def test_lost_gold_counts_as_missed():
    gold = (Span(0, 2, "A"), *spans((3, 3, "B")))  # the first ends inside a word
    lost = (LostSpan(gold[0], "unalignable"),)
    found = scores(DocumentResult("d", TEXT, gold, spans((3, 3, "B")), lost))
    assert (found["precision"], found["recall"], found["num_gold"]) == (1.0, 0.5, 2)


def test_documents_without_gold_are_left_out_and_empty_gold_is_not():
    assert scores(result(None, spans((0, 0, "A"))))["num_predicted"] == 0
    assert scores(result((), spans((0, 0, "A"))))["num_predicted"] == 1


def test_labels_outside_the_list_count_in_the_whole():
    found = scores(result(spans((0, 0, "C"), (1, 1, "A")), spans((1, 1, "A"))))
    assert (found["recall"], found["label/A/recall"], found["label/B/num_gold"]) == (0.5, 1.0, 0)


def test_nothing():
    assert scores() == {
        "precision": 0, "recall": 0, "f1": 0, "num_gold": 0, "num_predicted": 0,
        "label/A/precision": 0, "label/A/recall": 0, "label/A/f1": 0, "label/A/num_gold": 0,
        "label/B/precision": 0, "label/B/recall": 0, "label/B/f1": 0, "label/B/num_gold": 0,
    }  # fmt: skip
    assert precision_recall_f1(0, 0, 0) == {"precision": 0.0, "recall": 0.0, "f1": 0.0}


def some_spans(rng: random.Random) -> tuple[Span, ...]:
    at, places = 0, []
    while (at := at + rng.randrange(3)) < 10:
        stop = min(9, at + rng.randrange(3))
        places.append((at, stop, rng.choice("AB"), rng.choice(["far", None])))
        at = stop + 1
    return spans(*places)


def some_results(rng: random.Random, number: int) -> list[DocumentResult]:
    found = []
    for i in range(number):
        gold = some_spans(rng)
        guess = tuple(span for span in gold if rng.random() < 0.6) or some_spans(rng)
        found.append(result(gold, guess, str(i)))
    return found


@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(1, 5))
def test_counts_are_equal_for_every_split_and_order(seed, number, size):
    rng = random.Random(seed)
    results = some_results(rng, number)
    whole, parts, other_rank = (SpanF1(("A", "B"), ("far",)) for _ in range(3))
    whole.update(results)
    shuffled = rng.sample(results, len(results))
    for batch, at in enumerate(range(0, len(shuffled), size)):
        (parts if batch % 2 else other_rank).update(shuffled[at : at + size])
    assert torch.equal(whole.counts, parts.counts + other_rank.counts)
    assert torch.equal(whole.slice_counts, parts.slice_counts + other_rank.slice_counts)
    assert not whole.counts.is_floating_point()


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_agrees_with_seqeval_where_nothing_is_lost(seed, number):
    results = some_results(random.Random(seed), number)
    metric = SpanF1(("A", "B"))
    metric.update(results)
    assert seqeval_f1(results) == pytest.approx(metric.compute()["f1"])


def test_seqeval_of_nothing():
    assert seqeval_f1([]) == 0.0
    assert seqeval_f1([result(None, ())]) == 0.0
    assert seqeval_f1([result((), ())]) == 0.0
    assert seqeval_f1([DocumentResult("d", "", (), ())]) == 0.0


def test_an_entity_without_a_beginning_earns_nothing():
    # seqeval's default mode would give 1.0 here.
    assert f1_score([["B-A", "I-A"]], [["I-A", "I-A"]], mode="strict", scheme=IOB2, zero_division=0) == 0.0
    for scheme in ("IOB2", "BIOES"):
        assert TagScheme(("A",), scheme).decode(np.array([2, 2])) == []


def test_a_label_right_and_a_border_wrong_is_wrong_for_both():
    results = [result(spans((0, 2, "A")), spans((0, 1, "A")))]
    assert seqeval_f1(results) == scores(*results)["f1"] == 0.0


def test_a_slice_cannot_be_called_what_stands_for_none():
    with pytest.raises(ConfigError, match="the name 'rest' stands for the spans of no slice"):
        SpanF1(("A",), ("rest",))
