"""Scores of classes, their interval and what is printed, against values counted by hand."""

import numpy as np
import pytest
from rich.console import Console

from longdoc.app.class_report import evaluate_classes, print_class_report, wilson_interval
from longdoc.app.report import document_counts, evaluate, print_report
from longdoc.text.classes import ClassScheme
from longdoc.text.results import ClassificationResult
from longdoc.training.classification import DocumentClassificationModule
from tests.training.test_classification import module_of

SINGLE = ClassScheme("single_label", ("a", "b"), (1, 1), 2)
MULTI = ClassScheme("multi_label", ("a", "b"), (1, 1), 2)
NUMBER = ClassScheme("regression", ("target",), (2,), 2, target_mean=10.0, target_std=4.0)
HALF = np.full(2, 0.5)


def result(name: str, gold: tuple[str, ...] | float | None, **probs: float) -> ClassificationResult:
    if isinstance(gold, float):
        return ClassificationResult(name, "text", gold, probs["target"], {})
    predicted = tuple(label for label in probs if probs[label] >= 0.5)
    return ClassificationResult(name, "text", gold, predicted, probs, truncated=name == "long")


def test_one_label() -> None:
    results = [
        result("right", ("a",), a=0.9, b=0.1),
        result("wrong", ("b",), a=0.6, b=0.4),
        result("unknown", ("x",), a=0.2, b=0.8),
        result("bare", None, a=0.2, b=0.8),
        result("long", ("b",), a=0.2, b=0.8),
    ]
    scores = evaluate_classes(results, SINGLE, HALF)
    assert (scores["accuracy"], scores["num_documents"], scores["num_correct"]) == (0.5, 4, 2)
    assert scores["interval"] == wilson_interval(2, 4)
    assert scores["labels"]["a"]["f1"] == scores["labels"]["b"]["precision"] + 1 / 6 == pytest.approx(2 / 3)


def test_several_labels_are_held_to_the_thresholds_of_the_model() -> None:
    results = [result("0", ("a", "b"), a=0.9, b=0.3), result("1", (), a=0.1, b=0.2)]
    assert evaluate_classes(results, MULTI, np.array([0.5, 0.25]))["f1"] == 1.0
    assert evaluate_classes(results, MULTI, HALF)["f1"] == pytest.approx(2 / 3)
    assert "interval" not in evaluate_classes(results, MULTI, HALF)


def test_numbers_are_scored_in_the_units_of_the_data() -> None:
    scores = evaluate_classes([result("0", 8.0, target=10.0), result("1", 12.0, target=12.0)], NUMBER, HALF[:1])
    assert scores["r2"] == pytest.approx(0.5)
    assert (scores["mae"], scores["rmse"]) == (pytest.approx(1.0), pytest.approx(2**0.5))


def test_nothing_scored() -> None:
    scores = evaluate_classes([result("bare", None, a=0.2, b=0.8)], SINGLE, HALF)
    assert (scores["score"], scores["interval"], scores["num_documents"]) == (0.0, (0.0, 1.0), 0)
    assert evaluate_classes([], NUMBER, HALF[:1])["r2"] == 0.0


def test_golden_interval() -> None:
    # Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20 and 1 of 29.
    for correct, num, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (1, 29, 0.0061, 0.1718)):
        assert wilson_interval(correct, num) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))
    assert wilson_interval(0, 20) == (pytest.approx(0.0, abs=1e-9), pytest.approx(0.1611, abs=5e-5))


@pytest.fixture(scope="module")
def module() -> DocumentClassificationModule:
    found = module_of("single_label")
    found.scheme = SINGLE
    return found


def test_report_of_a_module(module: DocumentClassificationModule) -> None:
    results = [result("short", ("a",), a=0.9, b=0.1), result("long", ("b",), a=0.6, b=0.4), result("bare", None, a=1.0)]
    report = evaluate(module, results, {"short": 512, "long": 513, "bare": 1})
    assert (report["task"], report["score"], report["num_truncated_documents"]) == ("single_label", 0.5, 1)
    assert [(row["tokens"], row["score"], row["num_documents"]) for row in report["by_length"]] == [
        ("to 512", 1.0, 1),
        ("to 1k", 0.0, 1),
    ]
    console = Console(record=True, width=100)
    print_report(report, "[b]test[/b]", console)
    printed = " ".join(console.export_text().split())
    for expected in (
        "[b]test[/b]: 2 documents",
        "a │ 0.5000 │ 1.0000 │ 0.6667 │ 1",
        "accuracy 0.5000, macro F1 0.3333, micro F1 0.5000; 95 % interval of the accuracy 0.095 to 0.905",
        "to 512 tokens: accuracy 1.0000 (1 documents)",
        "1 of 2 documents were not read whole",
    ):
        assert expected in printed, printed


@pytest.mark.parametrize(
    ("scheme", "results", "expected"),
    [
        (MULTI, [result("0", ("a",), a=0.9, b=0.1)], "accuracy counts documents with all labels right"),
        (NUMBER, [result("0", 8.0, target=9.0)], "R2 0.0000, root mean squared error 1.0000, mean error 1.0000"),
    ],
)
def test_the_line_of_every_task(scheme: ClassScheme, results: list, expected: str) -> None:
    console = Console(record=True, width=120)
    scores = evaluate_classes(results, scheme, np.full(len(scheme.labels), 0.5))
    print_class_report({"task": scheme.task, **scores, "by_length": []}, "test", console)
    assert expected in console.export_text()


def test_counts_of_each_document() -> None:
    results = [result("0", ("a", "b"), a=0.9, b=0.3), result("bare", None, a=0.9), result("1", 8.0, target=9.0)]
    assert document_counts(results) == [
        {"id": "0", "num_correct": 1, "num_predicted": 1, "num_gold": 2},
        {"id": "1", "gold": 8.0, "predicted": 9.0},
    ]
