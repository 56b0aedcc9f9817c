import math

import numpy as np
import pytest
from sklearn.metrics import f1_score

from longdoc.text.classes import ClassScheme
from longdoc.training.class_metrics import ClassScores, class_scores, log_loss, tuned_thresholds

SINGLE = ClassScheme("single_label", ("a", "b", "c"), (2, 2, 2), 6)
MULTI = ClassScheme("multi_label", ("a", "b"), (2, 2), 4)
NUMBER = ClassScheme("regression", ("target",), (4,), 4, target_mean=10.0, target_std=2.0)
HALF = np.full(3, 0.5)


def rows(scheme: ClassScheme, *gold: tuple[str, ...] | float) -> np.ndarray:
    return np.stack([row for one in gold if (row := scheme.encode(one)) is not None])


def test_golden_single_label():
    probs = np.array([[0.6, 0.3, 0.1], [0.4, 0.5, 0.1], [0.3, 0.3, 0.4], [0.9, 0.1, 0.0]])
    # The second is wrong, and the fourth is of a class that the model does not know.
    scores = class_scores(SINGLE, probs, rows(SINGLE, ("a",), ("a",), ("c",), ("x",)), HALF)
    assert (scores["score"], scores["accuracy"], scores["num_correct"], scores["num_documents"]) == (0.5, 0.5, 2, 4)
    assert scores["labels"] == {
        "a": {"precision": 0.5, "recall": 0.5, "f1": 0.5, "num_gold": 2},
        "b": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "num_gold": 0},
        "c": {"precision": 1.0, "recall": 1.0, "f1": 1.0, "num_gold": 1},
    }
    assert scores["macro_f1"] == 0.5
    assert (scores["precision"], scores["recall"], scores["f1"]) == (0.5, 0.5, 0.5)


def test_macro_f1_is_that_of_scikit_learn():
    gold, probs = ["a", "a", "b"], np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.3, 0.7, 0.0]])
    scores = class_scores(SINGLE, probs, rows(SINGLE, *((label,) for label in gold)), HALF)  # nothing is a c
    assert scores["macro_f1"] == pytest.approx(f1_score(gold, ["a", "b", "b"], average="macro"))
    assert class_scores(MULTI, np.zeros((1, 2)), rows(MULTI, ()), np.array([0.5, 0.5]))["macro_f1"] == 0.0


def test_golden_multi_label():
    probs = np.array([[0.6, 0.3], [0.4, 0.5], [0.1, 0.2]])
    gold = rows(MULTI, ("a", "b"), ("b",), ())
    scores = class_scores(MULTI, probs, gold, np.array([0.5, 0.5]))
    assert (scores["precision"], scores["recall"], scores["f1"]) == (1.0, 2 / 3, 4 / 5)
    assert (scores["score"], scores["accuracy"]) == (4 / 5, 2 / 3)
    assert class_scores(MULTI, probs, gold, np.array([0.5, 0.3]))["accuracy"] == 1.0
    assert scores["labels"]["b"] == {"precision": 1.0, "recall": 0.5, "f1": 2 / 3, "num_gold": 2}


def test_each_unknown_class_is_missed():
    scores = class_scores(MULTI, np.array([[0.9, 0.1]]), rows(MULTI, ("a", "x", "y")), np.array([0.5, 0.5]))
    assert (scores["precision"], scores["recall"], scores["accuracy"]) == (1.0, 1 / 3, 0.0)


def test_golden_regression():
    gold = rows(NUMBER, 8.0, 10.0, 12.0)
    predicted = np.array([[-1.0], [0.5], [1.0]])  # 8, 11 and 12
    scores = class_scores(NUMBER, predicted, gold, HALF)
    assert scores["r2"] == scores["score"] == pytest.approx(1 - 1 / 8)
    assert (scores["rmse"], scores["mae"]) == (pytest.approx(math.sqrt(1 / 3)), pytest.approx(1 / 3))
    assert class_scores(NUMBER, np.zeros((3, 1)), gold, HALF)["r2"] == pytest.approx(0.0)
    assert class_scores(NUMBER, np.zeros((1, 1)), gold[:1], HALF)["r2"] == 0.0  # one document has no spread


def test_nothing_to_score():
    for scheme in (SINGLE, MULTI, NUMBER):
        scores = ClassScores(scheme)
        scores.update(np.zeros((0, len(scheme.labels))), [])
        probs, gold = scores.compute()
        assert class_scores(scheme, probs, gold, np.full(len(scheme.labels), 0.5))["score"] == 0.0
        assert log_loss(scheme, probs, gold) == 0.0


def test_golden_thresholds():
    probs = np.array([[0.10, 0.9, 0.2], [0.20, 0.6, 0.2], [0.30, 0.7, 0.2], [0.05, 0.2, 0.2]])
    gold = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 5]])
    # a: from 0.2 up, so between 0.1 and 0.2. b: from 0.7 up. c: no document has it, of whatever else it is.
    assert tuned_thresholds(probs, gold) == pytest.approx([0.15, 0.65, 0.5])


def test_a_threshold_may_give_up_precision_and_stays_near_the_middle():
    # With 0.8 and 0.1 both of a: taking all four gives F1 2/3 as the first alone does.
    probs, gold = np.array([[0.8], [0.3], [0.2], [0.1]]), np.array([[1, 0], [0, 0], [0, 0], [1, 0]])
    assert tuned_thresholds(probs, gold) == pytest.approx([0.55])
    assert tuned_thresholds(np.array([[0.1], [0.1]]), np.array([[1, 0], [1, 0]])) == pytest.approx([0.05])


def test_golden_log_loss():
    probs = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
    assert log_loss(SINGLE, probs[:1], rows(SINGLE, ("b",))) == pytest.approx(math.log(4))
    assert log_loss(SINGLE, probs, rows(SINGLE, ("a",), ("x",))) == pytest.approx(math.log(2) / 2)
    assert math.isfinite(log_loss(SINGLE, probs, rows(SINGLE, ("a",), ("b",))))
    loss = log_loss(MULTI, np.array([[0.5, 0.25]]), rows(MULTI, ("a",)))
    assert loss == pytest.approx((math.log(2) + math.log(4 / 3)) / 2)
    assert log_loss(NUMBER, np.array([[1.0], [0.0]]), rows(NUMBER, 10.0, 14.0)) == pytest.approx((1 + 4) / 2)


@pytest.mark.parametrize("scheme", [SINGLE, MULTI])
def test_neither_order_nor_batches_change_the_scores(scheme):
    rng = np.random.default_rng(0)
    probs = rng.random((20, len(scheme.labels))).astype(np.float32)
    gold = [None if i % 7 == 6 else scheme.encode((scheme.labels[i % len(scheme.labels)],)) for i in range(20)]
    found = []
    for order in (range(20), range(19, -1, -1), rng.permutation(20)):
        for size in (1, 6, 20):
            metric = ClassScores(scheme)
            for at in range(0, 20, size):
                batch = list(order)[at : at + size]
                metric.update(probs[batch], [gold[i] for i in batch])
            metric.update(probs[:0], [])
            found.append(class_scores(scheme, *metric.compute(), np.full(len(scheme.labels), 0.5)))
    assert found == [found[0]] * 9
    assert found[0]["num_documents"] == 18


def test_a_process_without_documents_holds_rows_of_the_same_width():
    metric = ClassScores(MULTI)
    metric.update(np.zeros((0, 2)), [])
    metric.update(np.zeros((1, 2)), [None])
    assert [(state[0].shape, state[0].dtype.is_floating_point) for state in (metric.probs, metric.gold)] == [
        ((0, 2), True),
        ((0, 3), True),
    ]
