"""Writing and reading back gives the same documents in every format."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longdoc.errors import ConfigError, DataError
from longdoc.text.documents import Document, Span
from longdoc.text.formats import read, write
from longdoc.text.words import split_words

SUFFIX = {"jsonl": ".jsonl", "doccano": ".jsonl", "label_studio": ".json", "conll": ".conll", "brat": ""}
PIECES = ["a", "B7", "é", "e\u0301", "न\u093f", "中", "ع", "👩\u200d⚖️", "😀", "\u200b", "\ufeff", "\u2028", "\x85", "\u00a0",
          " ", "  ", "\t", "\n", "\r\n", "\r", ".", "§", "#", "# id = ", "-DOCSTART-", '"', "\\", "%41", "O", "\x1f"]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
labels = st.sampled_from(["PER", "Anti-Assignment", "Überschrift", "B-X", "a b", "中"])


@st.composite
def annotated(draw, *, overlap: bool, blank_edges: bool, gold: bool) -> Document:
    text = draw(texts)
    spans: list[Span] = []
    for _ in range(draw(st.integers(0, 5)) if text else 0):
        start = draw(st.integers(0, len(text) - 1))
        end = draw(st.integers(start + 1, len(text)))
        surface = text[start:end]
        edges = surface.replace(surface.strip(), "") if surface.strip() else surface
        if surface.isspace() or (not blank_edges and set(edges) & set("\t\r\n")):
            continue
        if not overlap and any(span.start < end and start < span.end for span in spans):
            continue
        if any((start, end) == (span.start, span.end) for span in spans):
            continue
        score = None if gold else draw(st.none() | st.floats(0, 1))
        part = None if gold else draw(st.none() | st.sampled_from(["far", "nah é"]))
        spans.append(Span(start, end, draw(labels), score, part))
    return Document("x", text, tuple(spans))


def back(documents: list[Document], tmp_path, format: str) -> list[Document]:
    path = tmp_path / f"{os.urandom(6).hex()}{SUFFIX[format]}"
    assert write(documents, path, format) == len(documents)
    return list(read(path))


def with_ids(documents: list[Document]) -> list[Document]:
    return [Document(f"id/{i:03} é😀..", d.text, d.spans, d.labels, d.target) for i, d in enumerate(documents)]


@pytest.mark.parametrize("format", ["jsonl", "label_studio"])
@given(documents=st.lists(annotated(overlap=True, blank_edges=True, gold=False), max_size=4).map(with_ids))
def test_spans_scores_and_slices_come_back(tmp_path_factory, format, documents):
    assert back(documents, tmp_path_factory.mktemp("x"), format) == documents


@pytest.mark.parametrize("format", ["doccano", "brat"])
@given(documents=st.lists(annotated(overlap=True, blank_edges=True, gold=True), min_size=1, max_size=4).map(with_ids))
def test_spans_come_back(tmp_path_factory, format, documents):
    assert back(documents, tmp_path_factory.mktemp("x"), format) == documents


@given(documents=st.lists(annotated(overlap=False, blank_edges=False, gold=True), max_size=4).map(with_ids))
def test_conll_comes_back_with_text_and_cut_words(tmp_path_factory, documents):
    expected = [Document(d.id, d.text, tuple(sorted(d.spans))) for d in documents]
    assert back(documents, tmp_path_factory.mktemp("x"), "conll") == expected


@pytest.mark.parametrize("format", ["jsonl", "label_studio", "doccano"])
@pytest.mark.parametrize("spans", [None, (), (Span(0, 1, "A"),)])
@pytest.mark.parametrize("classes", [None, (), ("pos",), ("b", "a")])
@pytest.mark.parametrize("target", [None, 0.1])
def test_every_mixture_of_gold_comes_back(tmp_path, format, spans, classes, target):
    document = Document("d", "a b", spans, classes, target)
    if format == "doccano" and target is not None:
        with pytest.raises(DataError, match="doccano has no place for target"):
            write([document], tmp_path / "x.jsonl", format)
    else:
        assert back([document], tmp_path, format) == [document]


@pytest.mark.parametrize("format", list(SUFFIX))
def test_500_documents_with_emoji_and_marks(tmp_path, format):
    documents = []
    for i in range(500):
        text = f"Nr. {i} 👩\u200d⚖️ Richte\u0301rin Å. Weiß 😀\n\nsagt: \u200bनि 中文 {'x' * (i % 7)}, Ende."
        words = split_words(text)[i % 5 :: 3]
        documents.append(Document(f"../{i}", text, tuple(Span(int(s), int(e), "AB"[i % 2]) for s, e in words)))
    found = back(documents, tmp_path, format)
    assert sorted(found, key=lambda d: d.id) == sorted(documents, key=lambda d: d.id)


def test_conll_columns_are_plain_for_other_tools(tmp_path):
    path = tmp_path / "x.conll"
    text = "Ann Smith met\nBob2018)."
    write([Document("d", text, (Span(0, 9, "PER"), Span(14, 17, "PER")))], path, "conll")
    assert path.read_text().split("\n") == [
        "-DOCSTART-\tO", '# id = "d"', '# text = "Ann Smith met\\nBob2018)."', "Ann\tB-PER", "Smith\tI-PER", "met\tO", "",
        "Bob\tB-PER", "2018\tO", ")\tO", ".\tO", "", "",
    ]  # fmt: skip


def test_brat_ids_never_climb(tmp_path):
    ids = ["../../etc/passwd", "/abs", "..", ".hidden", "a/b\\c", "C:x", "%2E%2E", " lead", "trail ", "ü"]
    write([Document(i, "t", ()) for i in ids], tmp_path / "out" / "brat", "brat")
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(files) == 2 * len(ids)
    assert {p.parent for p in files} == {tmp_path / "out" / "brat"}
    assert sorted(d.id for d in read(tmp_path / "out" / "brat")) == sorted(ids)


def test_label_studio_prediction_has_score_and_surface(tmp_path):
    path = tmp_path / "x.json"
    write([Document("d", "😀 Ann", (Span(2, 5, "PER", 0.5),))], path, "label_studio")
    (task,) = json.loads(path.read_text())
    (prediction,) = task["predictions"]
    assert prediction["score"] == 0.5
    assert prediction["result"][0]["value"] == {"start": 2, "end": 5, "text": "Ann", "labels": ["PER"]}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("old")
    with pytest.raises(DataError, match=r"document 'b'.*NUL"):
        write([Document("a", "fine"), Document("b", "\0")], path, "jsonl")
    with pytest.raises(DataError, match=r"x.jsonl/y/z: expected a place that can be written"):
        write([Document("a", "fine")], path / "y" / "z", "jsonl")
    with pytest.raises(DataError, match=r"expected a file to write, got a folder"):
        write([Document("a", "fine")], tmp_path, "jsonl")
    with pytest.raises(DataError, match="new or empty folder"):
        write([Document("a", "fine", ())], tmp_path, "brat")
    with pytest.raises(DataError, match="repeated"):
        write([Document("a", "x", ()), Document("a", "y", ())], tmp_path / "brat", "brat")
    assert [p.name for p in tmp_path.iterdir()] == ["x.jsonl"]
    assert path.read_text() == "old"


@pytest.mark.parametrize(
    ("document", "format", "reason"),
    [
        (Document("d", "a b", (Span(0, 3, "A"), Span(2, 3, "B"))), "conll", "overlap"),
        (Document("d", "a\nb", (Span(0, 2, "A"),)), "conll", "tab or line end"),
        (Document("d", "a", None), "conll", "no spans"),
        (Document("d", "a", (), ("c",)), "conll", "no place for labels"),
        (Document("d", "a", None, ("c",)), "brat", "no place for labels"),
        (Document("d", "a", (Span(0, 2, "A"),)), "jsonl", "does not fit"),
        (Document("d", "a ", (Span(1, 2, "A"),)), "jsonl", "white space"),
        (Document("d", "\ud83d", ()), "jsonl", "lone surrogate"),
        (Document("d", "a", (), None, float("nan")), "jsonl", "cannot be written"),
        (Document("i" * 300, "a", ()), "brat", "too long"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(tmp_path, document, format, reason):
    with pytest.raises(DataError, match=reason):
        write([document], tmp_path / "x", format)
    assert list(tmp_path.iterdir()) == []


def test_unknown_format(tmp_path):
    with pytest.raises(ConfigError, match="label_studio"):
        write([], tmp_path / "x", "xml")
