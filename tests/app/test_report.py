"""Scores, buckets and tables, against values counted by hand."""

import pytest
from rich.console import Console

from longdoc.app.report import evaluate_spans, lost_line, print_report, speed_line
from longdoc.text.alignment import LostSpan
from longdoc.text.documents import Span
from longdoc.text.results import DocumentResult

TEXT = "Ada met Ben in Rome."
ADA, BEN, ROME = Span(0, 3, "PERSON"), Span(8, 11, "PERSON", slice="far"), Span(15, 19, "PLACE")


def results() -> list[DocumentResult]:
    return [
        DocumentResult(
            "a",
            TEXT,
            (ADA, BEN, ROME),
            (ADA, Span(8, 11, "PLACE")),
            lost=(LostSpan(ROME, "truncated"),),
            truncated=True,
        ),
        DocumentResult("b", TEXT, (ADA, BEN), (ADA, BEN)),
        DocumentResult("c", TEXT, None, (ADA,)),
    ]


@pytest.fixture
def report() -> dict:
    return evaluate_spans(results(), {"a": 512, "b": 513, "c": 9000}, ("PERSON", "PLACE"))


def test_counts(report: dict) -> None:
    assert (report["num_documents"], report["num_gold"], report["num_predicted"]) == (2, 5, 4)
    assert (report["precision"], report["recall"], report["f1"]) == (3 / 4, 3 / 5, 6 / 9)
    assert report["labels"]["PERSON"] == {"precision": 1.0, "recall": 3 / 4, "f1": 6 / 7, "num_gold": 4}
    assert report["labels"]["PLACE"]["f1"] == 0.0
    assert report["slices"]["far"] == {"precision": 1 / 2, "recall": 1 / 2, "f1": 1 / 2, "num_gold": 2}
    assert report["slices"]["rest"]["num_gold"] == 3
    assert report["lost"] == {"truncated": 1}
    assert report["num_truncated_documents"] == 1
    assert report["seqeval"] == {"f1": pytest.approx(6 / 9), "mode": "strict", "scheme": "IOB2"}


def test_length_buckets_end_at_their_name_and_leave_out_empty_ones(report: dict) -> None:
    assert [(row["tokens"], row["num_documents"], row["f1"]) for row in report["by_length"]] == [
        ("to 512", 1, 2 / 5),
        ("to 1k", 1, 1.0),
    ]
    lengths = {"a": 8192, "b": 8193}
    rows = evaluate_spans(results()[:2], lengths, ("PERSON", "PLACE"))["by_length"]
    assert [row["tokens"] for row in rows] == ["to 8k", "above 8k"]


def test_console(report: dict) -> None:
    console = Console(record=True, width=100)
    print_report(report, "test", console)
    printed = " ".join(console.export_text().split())
    for expected in (
        "PERSON │ 1.0000 │ 0.7500 │ 0.8571 │ 4",
        "all (micro) │ 0.7500 │ 0.6000 │ 0.6667 │ 5",
        "slice far │ 0.5000",
        "to 512 tokens (1 document)",
        "seqeval F1 0.6667 (mode strict, scheme IOB2)",
        "test: 1 of 5 gold entities lost before the model saw them: 1 stand beyond what was read",
        "1 of 2 documents were not read whole",
    ):
        assert expected in printed, printed


def test_labels_that_look_like_markup_are_shown_as_they_are() -> None:
    odd = DocumentResult("a", TEXT, (Span(0, 3, "[red]X[/]"),), ())
    console = Console(record=True, width=100)
    print_report(evaluate_spans([odd], {"a": 5}, ("[red]X[/]",)), "[b]title[/b]", console)
    assert "[red]X[/]" in console.export_text(clear=False)
    assert "[b]title[/b]" in console.export_text()


def test_lines() -> None:
    assert lost_line({}, 7, "train") == "train: 0 of 7 gold entities lost before the model saw them"
    assert lost_line({"overlapping": 2, "unalignable": 1}, 7, "train").endswith(
        "3 of 7 gold entities lost before the model saw them: 2 overlap another that was kept; 1 begin or end inside a word"
    )
    speed = {
        "train_tokens_per_second": None,
        "test_tokens_per_second": 1234.5,
        "test_seconds": 2.0,
        "peak_memory_mb": 1500,
    }
    assert speed_line(speed) == "test 1,234 tokens/s (2 s), peak memory 1,500 MB"
    shares = {"train_padding_share": 0.0, "train_wait_share": 0.126, "train_hardware_share": None}
    assert speed_line(shares) == "0% padding, 13% waiting for data"


def test_nothing_scored() -> None:
    report = evaluate_spans([], {}, ("PERSON",))
    assert report["f1"] == 0.0
    assert report["by_length"] == []
