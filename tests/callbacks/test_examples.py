"""The page of the worst documents, and what was never seen."""

import random
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from longdoc.callbacks import Coverage, ErrorExamples
from longdoc.callbacks.examples import error_page, num_errors
from longdoc.text.alignment import LostSpan
from longdoc.text.documents import Span
from longdoc.text.results import ClassificationResult, DocumentResult, Evidence
from tests.callbacks.models import ForeignModule, loader, trainer

VOID = {"meta"}


class Reader(HTMLParser):
    """What a page shows, and whether its elements are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.marks: list[tuple[str | None, str]] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "p":
            self.cells.append("")
        if tag == "mark":
            self.marks.append((dict(attrs).get("class"), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "p" in self.open and "small" not in self.open:
            self.cells[-1] += data
        if "mark" in self.open and "small" not in self.open:
            self.marks[-1] = (self.marks[-1][0], self.marks[-1][1] + data)


def result(text: str, gold: tuple[Span, ...], said: tuple[Span, ...], **more: Any) -> DocumentResult:
    return DocumentResult(more.pop("id", "d"), text, gold, said, **more)


def test_gold_and_predictions_stand_side_by_side() -> None:
    text = "Ada Lovelace sued Babbage in London."
    gold = (Span(0, 12, "PERSON"), Span(18, 25, "PERSON"), Span(29, 35, "PLACE"))
    said = (Span(0, 12, "PERSON", 0.9), Span(18, 25, "PLACE", 0.625), Span(29, 36, "PLACE", 0.5))
    shown = result(text, gold, said, lost=(LostSpan(gold[2], "unalignable"),))
    page = Reader(error_page([shown], "Errors"))
    assert page.cells[1:] == [text, text]
    assert page.marks[4:] == [
        ("same", "Ada Lovelace"),
        ("missed", "Babbage"),
        ("lost", "London"),
        ("same", "Ada Lovelace"),
        ("wrong", "Babbage"),
        ("wrong", "London."),
    ]
    titles = [attributes["title"] for tag, attributes in page.elements if "title" in attributes]
    assert titles == ["PERSON", "PERSON", "PLACE unalignable", "PERSON 0.90", "PLACE 0.62", "PLACE 0.50"]
    assert num_errors(shown) == 4


def test_only_what_is_around_an_error_is_shown_of_a_long_text() -> None:
    text = "".join(f"{i:06d} " for i in range(20_000))
    gold = (Span(700, 706, "A"), Span(70_000, 70_006, "A"), Span(70_020, 70_026, "B"))
    page = Reader(error_page([result(text, gold, ())], "Errors", context_chars=50))
    assert page.cells[1:] == [f"…{text[650:756]}…"] * 2 + [f"…{text[69_950:70_076]}…"] * 2
    rng = random.Random(0)
    dense = tuple(Span(at, at + 6, "A") for at in range(0, len(text), 70))
    page = Reader(error_page([result(text, dense, tuple(s for s in dense if rng.random() < 0.5))], "Errors"))
    assert sum(kind == "missed" for kind, _ in page.marks) == pytest.approx(len(dense) / 2, rel=0.1)


def test_nested_and_overlapping_spans_keep_the_text() -> None:
    rng = random.Random(1)
    text = "a<b>&\"c' \u202eאבג\u202c\n مرحبا 中文 e\u0301 🙂 end"
    for _ in range(200):
        spans = []
        for _ in range(5):
            start = rng.randrange(len(text))
            spans.append(Span(start, rng.randrange(start + 1, len(text) + 1), rng.choice("<>&")))
        page = Reader(error_page([result(text, tuple(spans[:3]), tuple(spans[3:]))], "x", context_chars=len(text)))
        assert page.cells[1:] in ([text, text], [])


def test_whatever_a_document_holds_is_shown_as_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'&amp;</p></table>\ud800\x00"
    bad = result(evil, (Span(0, 8, "<img src=x onerror=alert(1)>"),), (Span(0, 3, '" onmouseover=x'),), id=evil)
    page = error_page([bad], evil)
    tags = {tag for tag, _ in Reader(page).elements}
    assert not tags & {"script", "img"}
    assert not any(name.startswith("on") for _, attributes in Reader(page).elements for name in attributes)
    assert "default-src 'none'" in page
    assert "https://" not in page
    example = ErrorExamples(tmp_path / "errors.html")
    example.see([bad], None)  # type: ignore[arg-type]
    run = trainer(example)
    run.test(Returns([bad]), loader(), verbose=False)
    assert "\\ud800" not in (tmp_path / "errors.html").read_text(encoding="utf-8")


def test_classes_and_numbers_are_shown() -> None:
    text = "A long text"
    wrong = ClassificationResult(
        "c", text, ("a", "b"), ("b", "<c>"), {"a": 0.1, "b": 0.9, "<c>": 0.6}, (Evidence(2, 6, 0.75),)
    )
    far = ClassificationResult("n", text, 1.5, 4.0, {})
    page = Reader(error_page([wrong, far], "Errors"))
    assert page.marks[4:] == [("missed", "a"), ("same", "b"), ("same", "b"), ("wrong", "<c>")]
    assert page.cells[1:] == ["a b", "b <c>", "", "long (0.75)", "1.5", "4"]
    assert [num_errors(r) for r in (wrong, far)] == [2, 2.5]


class Returns(ForeignModule):
    def __init__(self, results: list[Any]) -> None:
        super().__init__()
        self.results = results

    def test_step(self, batch: Any, batch_idx: int) -> list[Any]:  # noqa: ARG002
        return self.results if batch_idx == 0 else []


def test_the_worst_come_first_and_right_ones_not_at_all(tmp_path: Path) -> None:
    def bad(id: str, number: int) -> DocumentResult:
        return result("text " * 10, tuple(Span(5 * i, 5 * i + 4, "A") for i in range(number)), (), id=id)

    results = [bad("one", 1), bad("none", 0), bad("three", 3), bad("two", 2)]
    trainer(ErrorExamples(tmp_path / "a" / "errors.html", num_documents=2)).test(
        Returns(results), loader(), verbose=False
    )
    page = (tmp_path / "a" / "errors.html").read_text(encoding="utf-8")
    assert page.index("<bdi>three</bdi>") < page.index("<bdi>two</bdi>")
    assert "<bdi>one</bdi>" not in page
    assert "Worst documents of test after step 0" in page


def test_coverage_counts_what_was_never_seen() -> None:
    gold = tuple(Span(i, i + 1, "A") for i in range(4))
    lost = (LostSpan(gold[0], "truncated"),)
    results = [
        result("abcdef", gold, (), id="a", lost=lost, truncated=True, num_tokens=7),
        result("abcdef", gold, (), id="b", num_tokens=3),
        ClassificationResult("c", "text", ("x",), ("x",), {"x": 1.0}),
    ]
    coverage, module = Coverage(), Returns(results)
    run = trainer(coverage)
    run.test(module, loader(), verbose=False)
    assert run.callback_metrics["test/coverage"] == pytest.approx(7 / 8)
    expected = {
        "num_documents": 3,
        "num_truncated": 1,
        "num_tokens": 10,
        "num_gold": 8,
        "num_lost": 1,
        "lost_truncated": 1,
    }
    assert coverage.summary() == expected
    run.test(module, loader(), verbose=False)
    assert coverage.summary() == expected
    assert set(Coverage().summary().values()) == {0}
