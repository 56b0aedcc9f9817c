"""Formats are told apart, fields mapped, offsets converted, and nothing outside a folder is read."""

import json
import os
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longdoc.errors import ConfigError, DataError
from longdoc.text.documents import Document, Span
from longdoc.text.formats import READERS, ReadOptions, detect_format, read, write
from longdoc.text.formats.offsets import RawSpan, convert_offsets


def put(path, content: str | bytes | list | dict):
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, (list, dict)):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


TASK = {"data": {"text": "Ann"}, "annotations": []}


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("a.jsonl", "", "jsonl"),
        ("a.ndjson", "{}", "jsonl"),
        ("a.jsonl", '{"id": 1, "text": "x", "label": [], "Comments": []}', "doccano"),
        ("a.jsonl", '{"text": "x", "annotations": [{"label": 1, "start_offset": 0}]}', "doccano"),
        ("a.json", [{"text": "x"}], "json"),
        ("a.json", [TASK], "label_studio"),
        ("a.json", json.dumps([{"annotations": [{"result": []}], "data": {}}], indent=2), "label_studio"),
        ("a.csv", "", "csv"),
        ("a.TSV", "", "tsv"),
        ("a.bio", "", "conll"),
        ("a.txt", "Ann B-PER\nis O\n\n-DOCSTART- O\n", "conll"),
        ("a.txt", "Ann is here.\nAnd O\n", "text"),
        ("a.txt", "", "text"),
        ("a", '{"text": "x"}\n', "jsonl"),
        ("a.data", "\n [1]", "json"),
        ("a.train", "Ann\tB-PER\n", "conll"),
    ],
)
def test_formats_are_detected(tmp_path, name, content, format):
    assert detect_format(put(tmp_path / name, content)) == format


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.jsonl.gz", "a.7z"])
def test_archives_are_refused_with_advice(tmp_path, name):
    with pytest.raises(DataError, match="archives are not opened; unpack it"):
        read(put(tmp_path / name, b"PK\x03\x04"))


def test_what_cannot_be_told_or_found_is_an_error(tmp_path):
    with pytest.raises(DataError, match="cannot tell its format; name it with format= one of jsonl"):
        read(put(tmp_path / "a.xyz", "Ann is here."))
    with pytest.raises(DataError, match=r"no such file or folder; there is a\.xyz"):
        read(tmp_path / "b.jsonl")
    with pytest.raises(DataError, match="does not exist either"):
        read(tmp_path / "no" / "b.jsonl")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"holds no file of a known format.*the folder is empty"):
        read(tmp_path / "empty")
    with pytest.raises(ConfigError, match="format='xml': expected one of auto, jsonl"):
        read(tmp_path / "a.xyz", "xml")
    with pytest.raises(ConfigError, match="on_error"):
        read(tmp_path / "a.xyz", on_error="ignore")
    with pytest.raises(ConfigError, match="task"):
        ReadOptions(task="tagging")
    with pytest.raises(ConfigError, match=r"fields: expected names among id, text.*got body"):
        ReadOptions(fields={"body": "text"})
    with pytest.raises(DataError, match="expected UTF-8, got UTF-16"):
        read(put(tmp_path / "a.jsonl", '{"text": "x"}'.encode("utf-16"))).__iter__().__next__()


def test_shapes_of_spans_and_labels(tmp_path):
    span = (Span(0, 3, "PER"),)
    rows = [
        ({"entities": [{"start": 0, "end": 3, "label": "PER"}]}, span, None),
        ({"spans": [[0, 3, "PER"]]}, span, None),
        ({"label": [[0, 3, "PER"]]}, span, None),
        ({"labels": [[0, 3, "PER"]]}, span, None),
        ({"entities": [{"id": 7, "label": "PER", "start_offset": 0, "end_offset": 3}], "relations": []}, span, None),
        ({"annotations": [{"label": 3, "start_offset": 0, "end_offset": 3, "user": 1}]}, (Span(0, 3, "3"),), None),
        ({"annotations": [{"label": 3, "user": 1}]}, None, ("3",)),
        ({"label": [{"start": 0, "end": 3, "text": "Ann", "labels": ["PER", "ORG"]}]}, (*span, Span(0, 3, "ORG")), None),
        ({"entities": [[0, 3, "PER"]], "cats": ["x"]}, span, ("x",)),
        ({"entities": [[0, 3, "PER"]], "label": "x"}, span, ("x",)),
        ({"label": "x"}, None, ("x",)),
        ({"label": 1}, None, ("1",)),
        ({"label": ["x", "y", "x"]}, None, ("x", "y")),
        ({"labels": ["x"]}, None, ("x",)),
        ({"labels": []}, None, ()),
        ({"label": []}, (), None),
        ({"entities": []}, (), None),
        ({"entities": None, "label": None}, None, None),
        ({}, None, None),
    ]  # fmt: skip
    path = put(tmp_path / "a.jsonl", "\n".join(json.dumps({"text": "Ann"} | row) for row, _, _ in rows))
    for document, (row, spans, labels) in zip(read(path), rows, strict=True):
        assert (document.spans, document.labels) == (spans, labels), row
    path = put(tmp_path / "b.jsonl", {"text": "Ann", "label": [], "target": 2})
    assert list(read(path, options=ReadOptions(task="classification"))) == [Document("b:1", "Ann", None, (), 2.0)]


def test_fields_are_mapped(tmp_path):
    row = {"key": 7, "body": "Ann", "text": "no", "ents": [[0, 3, "PER"]], "kind": ["x"], "y": 1.5}
    fields = {"id": "key", "text": "body", "spans": "ents", "labels": "kind", "target": "y"}
    expected = [Document("7", "Ann", (Span(0, 3, "PER"),), ("x",), 1.5)]
    assert list(read(put(tmp_path / "a.jsonl", row), options=ReadOptions(fields))) == expected
    assert list(read(put(tmp_path / "a.json", [row]), options=ReadOptions(fields))) == expected
    (task,) = read(put(tmp_path / "l.json", [{"data": row, "predictions": []}]), options=ReadOptions({"text": "body"}))
    assert task.text == "Ann"
    table = 'key,body,text,ents,kind,y\n7,Ann,no,"[[0, 3, ""PER""]]",x,1.5\n'
    assert list(read(put(tmp_path / "a.csv", table), options=ReadOptions(fields))) == expected
    with pytest.raises(
        DataError, match=r"no column text; there is a, b; name it with data\.fields\.text=COLUMN, or --field"
    ):
        list(read(put(tmp_path / "b.csv", "a,b\n1,2\n")))
    source = read(
        put(tmp_path / "c.csv", "text;x,label,target,spans\na,b|c,,\nb,,x,{\n,,\n"),
        options=ReadOptions({"text": "text;x"}),
    )
    with pytest.raises(DataError, match=r"(?s)target must be a finite number.*|spans must be a JSON list"):
        list(source)
    assert [row.line for row in source.report.bad_rows] == [3, 4]


@pytest.mark.parametrize(
    "cell", ["[[0,4]]", '["Anna"]', '[{"from":0,"to":4,"label":"A"}]', "7", "null", '[[0,4,"A"],{"label":"A"}]', "{}"]
)
def test_what_is_no_span_in_a_cell_is_reported(tmp_path, cell):
    for name, value in (("a.csv", cell.replace('"', '""')), ("b.jsonl", cell)):
        row = f'text,entities\nAnna,"{value}"\n' if name == "a.csv" else f'{{"text": "Anna", "entities": {value}}}'
        if (name, cell) != ("b.jsonl", "null"):
            with pytest.raises(DataError, match="expected a span with start, end and label, got"):
                list(read(put(tmp_path / name, row)))


def test_one_span_in_a_cell_needs_no_list(tmp_path):
    cell = '{"start":0,"end":4,"label":"A"}'.replace('"', '""')
    (document,) = read(put(tmp_path / "a.csv", f'text,entities\nAnna,"{cell}"\n'))
    assert document.spans == (Span(0, 4, "A"),)


def test_numbers_that_are_too_large_are_no_targets(tmp_path):
    put(tmp_path / "a.jsonl", '{"text": "a", "target": 1%s}\n{"text": "b", "target": 1e308}' % ("0" * 400))
    source = read(tmp_path / "a.jsonl", on_error="skip")
    assert [document.target for document in source] == [1e308]
    assert source.report.bad_rows[0].reason.startswith("target must be a finite number, got 1000")


def test_csv_labels_are_split_by_the_named_separator_only(tmp_path):
    path = put(tmp_path / "a.csv", "text,labels\nx,a|b; c\ny,\n")
    assert [document.labels for document in read(path)] == [("a", "b; c"), ()]
    assert [d.labels for d in read(path, options=ReadOptions(label_separator=";"))] == [("a|b", "c"), ()]
    path = put(tmp_path / "b.csv", "text,label\nx,a|b\ny,\n")
    assert [document.labels for document in read(path)] == [("a|b",), None]
    path = put(tmp_path / "c.csv", 'text,label\nx,a\n"never closed,b\n' + "z,a\n" * 9)
    source = read(path)
    with pytest.raises(DataError, match=r"c.csv:3: broken row \(up to line 12\): unexpected end of data"):
        list(source)


# text, offsets as the tool counts them, surface -> code points, unit
CONVERSIONS = [
    ("😀 Ann", 3, 6, "Ann", (2, 5), "UTF-16 units"),
    ("😀😀", 2, 4, "😀", (1, 2), "UTF-16 units"),
    ("👩\u200d⚖️ Ann", 6, 9, "Ann", (5, 8), "UTF-16 units"),
    ("a\r\nb\r\nAnn", 4, 7, "Ann", (6, 9), "characters with CRLF as one"),
    ("a\r\nAnn\r\nLee.", 2, 9, "Ann\nLee", (3, 11), "characters with CRLF as one"),
    ("😀\r\nAnn", 3, 6, "Ann", (3, 6), None),
    ("😀\r\nAnn Lee", 3, 6, "Ann", (3, 6), None),
    ("😀😀\r\nAnn", 5, 8, "Ann", (4, 7), "UTF-16 units with CRLF as one"),
    ("a\nb\nAnn", 6, 9, "Ann", (4, 7), "characters with line feeds as two"),
    ("naïve Ann", 6, 9, "Ann", (6, 9), None),
]


@pytest.mark.parametrize(("text", "start", "end", "surface", "points", "unit"), CONVERSIONS)
def test_offsets_are_converted_where_the_surface_proves_the_unit(text, start, end, surface, points, unit):
    (span,), repair, problems = convert_offsets(text, [RawSpan(start, end, "A", surface=surface)], "auto")
    assert (span.start, span.end) == points
    assert repair == (unit and f"offsets converted from {unit}")
    assert problems == []


def test_offsets_that_nothing_explains_are_reported():
    _, repair, problems = convert_offsets("😀 Ann", [RawSpan(0, 3, "A", surface="Ann")], "auto")
    assert repair is None
    assert problems == [(None, "span 0-3 reads '😀 A', the export says 'Ann'")]
    spans = [RawSpan(3, 6, "A", surface="Ann"), RawSpan(0, 1, "B")]
    assert convert_offsets("😀 Ann", spans, "auto")[1] is None  # the second would fall inside a character
    _, _, problems = convert_offsets("😀 Ann", [RawSpan(3, 6, "A")], "auto")
    assert "offset_unit=utf16" in problems[0][1]
    (span,), _, problems = convert_offsets("😀 Ann", [RawSpan(3, 6, "A")], "utf16")
    assert ((span.start, span.end), problems) == ((2, 5), [])
    assert "inside a character" in convert_offsets("😀 Ann", [RawSpan(1, 6, "A")], "utf16")[2][0][1]
    assert convert_offsets("😀 Ann", [RawSpan(3, 6, "A")], "codepoint") == ([RawSpan(3, 6, "A")], None, [])


def test_doccano_counts_utf16_units_and_other_lists_must_say(tmp_path):
    row = {"id": 1, "text": "👨🏻🚒 firemen drive firetrucks", "label": [[21, 31, "A"]]}
    (document,) = source = read(put(tmp_path / "a.jsonl", row | {"Comments": []}))
    assert document.text[document.spans[0].start : document.spans[0].end] == "firetrucks"
    assert [repair.reason for repair in source.report.repairs] == ["offsets converted from UTF-16 units"]
    assert list(read(put(tmp_path / "b.jsonl", row), "doccano")) == [document]
    with pytest.raises(DataError, match="say format=doccano or offset_unit=codepoint"):
        list(read(tmp_path / "b.jsonl"))
    row["label"] = [[18, 28, "A"]]
    assert list(read(put(tmp_path / "b.jsonl", row), options=ReadOptions(offset_unit="codepoint"))) == [document]
    row["entities"] = row.pop("label")
    assert list(read(put(tmp_path / "b.jsonl", row))) == [document]


@given(st.text("a😀\r\n 中é", max_size=30), st.data())
def test_utf16_offsets_come_back(text, data):
    if not text:
        return
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    units = [len(text[:i].encode("utf-16-le")) // 2 for i in (start, end)]
    (span,), _, problems = convert_offsets(text, [RawSpan(*units, "A")], "utf16")
    assert ((span.start, span.end), problems) == ((start, end), [])
    (span,), _, problems = convert_offsets(text, [RawSpan(*units, "A", surface=text[start:end])], "auto")
    found = text[span.start : span.end]  # the unit may be ambiguous, the surface may not
    assert " ".join(found.split()) == " ".join(text[start:end].split())
    assert problems == []


def test_label_studio_annotations(tmp_path):
    def labels(start, end, *names, kind="labels"):
        return {"type": kind, "value": {"start": start, "end": end, "text": "Ann Lee"[start:end], kind: list(names)}}

    choice = {"type": "choices", "value": {"choices": ["x", "y"]}}
    tasks = [
        {"id": 1, "data": {"text": "Ann Lee"}, "annotations": [{"result": [labels(0, 3, "A", "B"), choice]}]},
        {"id": 2, "data": {"text": "Ann Lee"}, "annotations": [
            {"was_cancelled": True, "result": [labels(0, 7, "A")]}, {"result": [labels(0, 3, "A")]},
            {"ground_truth": True, "result": [labels(4, 7, "A"), {"type": "relation"}]}]},
        {"id": 3, "data": {"text": "Ann Lee"}, "completions": [{"result": [labels(4, 7, "A", kind="hypertextlabels")]}]},
        {"id": 4, "data": {"text": "Ann Lee"}, "annotations": [], "predictions": [{"result": [labels(0, 3, "A")]}]},
        {"id": 5, "data": {"text": "Ann Lee"}, "annotations": [{"result": []}]},
        {"id": 6, "data": {"text": "Ann Lee"}, "annotations": [{"result": [choice]}]},
        {"id": 7, "data": {"text": "Ann Lee"}, "annotations": [{"result": [{"type": "rating", "value": {"rating": 4}}]}]},
        {"id": 8, "data": {"text": "Ann Lee"}},
        {"id": 9, "data": {"text": "😀 Ann"}, "annotations": [
            {"result": [{"type": "labels", "value": {"start": 3, "end": 6, "text": "Ann", "labels": ["A"]}}]}]},
    ]  # fmt: skip
    source = read(put(tmp_path / "a.json", json.dumps(tasks, indent=1)), "label_studio")
    first, last = (Span(0, 3, "A"),), (Span(4, 7, "A"),)
    assert [(d.id, d.spans, d.labels, d.target) for d in source] == [
        ("1", (*first, Span(0, 3, "B")), ("x", "y"), None),
        ("2", last, None, None),
        ("3", last, None, None),
        ("4", first, None, None),
        ("5", (), None, None),
        ("6", None, ("x", "y"), None),
        ("7", None, None, 4.0),
        ("8", None, None, None),
        ("9", (Span(2, 5, "A"),), None, None),
    ]
    assert [(row.id, row.reason) for row in source.report.repairs] == [
        ("2", "2 annotations, the ground truth or the first of them used"),
        ("2", "results that are not used: 1 relation"),
        ("4", "no annotation, the prediction used"),
        ("9", "offsets converted from UTF-16 units"),
    ]


def test_brat_folders(tmp_path):
    put(tmp_path / "a.txt", "Ann\r\nLee 😀 Bob")
    put(tmp_path / "a.ann", "T1\tPER 0 7\tAnn Lee\nT2\tPER 10 13\tBob\n")  # as Python counts in text mode
    put(tmp_path / "sub" / "b.txt", "\ufeffBob")
    put(tmp_path / "sub" / "b.ann", "")
    put(tmp_path / "c.txt", "Bob")
    source = read(tmp_path)
    assert list(source) == [
        Document("a", "Ann\r\nLee 😀 Bob", (Span(0, 8, "PER"), Span(11, 14, "PER"))),
        Document("c", "Bob"),
        Document("sub/b", "Bob", ()),
    ]
    assert [row.reason for row in source.report.repairs] == ["offsets converted from characters with CRLF as one"]
    assert list(read(tmp_path / "a.txt")) == list(source)[:1]
    put(tmp_path / "lone.ann", "T1\tPER 0 3\tBob\n")
    with pytest.raises(DataError, match=r"lone.ann:1: no lone.txt beside it"):
        list(read(tmp_path))


def test_suffixes_in_capital_letters_are_the_same_suffixes(tmp_path):
    put(tmp_path / "x.TXT", "Bob")
    put(tmp_path / "x.ANN", "T1\tPER 0 3\tBob\n")
    put(tmp_path / "y.txt", "Bob")
    put(tmp_path / "y.Ann", "T1\tPER 0 3\tBob\n")
    expected = [Document(name, "Bob", (Span(0, 3, "PER"),)) for name in "xy"]
    assert list(read(tmp_path)) == expected
    for name in ("x.TXT", "x.ANN"):
        assert list(read(tmp_path / name)) == expected[:1]
    put(tmp_path / "x.txt", "Bob")
    with pytest.raises(DataError, match="duplicate id 'x'"):
        list(read(tmp_path))
    put(tmp_path / "texts" / "A.TXT", "A")
    assert list(read(tmp_path / "texts")) == [Document("A", "A")]


def test_plain_texts(tmp_path):
    put(tmp_path / "b.txt", "B\r\n\r\n")
    put(tmp_path / "a" / "a.txt", "A")
    put(tmp_path / ".hidden" / "a.jsonl", "{}")
    put(tmp_path / "README.md", "x")
    put(tmp_path / ".hidden" / "a.txt", "A")
    put(tmp_path / "_a.txt", "_")
    assert list(read(tmp_path)) == [Document("_a", "_"), Document("a/a", "A"), Document("b", "B\r\n\r\n")]
    put(tmp_path / "c.txt", b"fine\nM\xfcll\n")
    with pytest.raises(DataError, match=r"c.txt:2: not UTF-8 \(byte 0xfc at character 1\)"):
        list(read(tmp_path))


def test_a_folder_of_one_format_is_one_corpus(tmp_path):
    put(tmp_path / "part1.jsonl", {"id": 1, "text": "a"})
    put(tmp_path / "part2.jsonl", {"id": 1, "text": "b"})
    with pytest.raises(DataError, match=r"part2.jsonl:1: duplicate id '1'"):
        list(read(tmp_path))
    put(tmp_path / "x.csv", "text\n")
    with pytest.raises(DataError, match=r"holds several formats \(csv, jsonl\)"):
        read(tmp_path)


def test_other_files_beside_pairs_are_refused(tmp_path):
    for name, content in (("x.txt", "Ann"), ("x.ann", ""), ("more.jsonl", {"text": "b"})):
        put(tmp_path / name, content)
    with pytest.raises(DataError, match=r"holds several formats \(brat, jsonl\)"):
        read(tmp_path)
    assert [document.id for document in read(tmp_path, "brat")] == ["x"]


def test_rows_without_id_are_named_by_their_path_where_files_share_a_name(tmp_path):
    for name in ("2019/cases.jsonl", "2020/cases.jsonl"):
        put(tmp_path / name, {"text": name})
    assert [document.id for document in read(tmp_path)] == ["2019/cases:1", "2020/cases:1"]
    assert [document.id for document in read(tmp_path / "2019")] == ["cases:1"]


@pytest.mark.parametrize("name", ["x.txt", "x.ann", "x.jsonl", "sub"])
def test_links_that_climb_out_of_their_folder_are_refused(tmp_path, name):
    put(tmp_path / "out" / "secret.txt", "secret")
    put(tmp_path / "in" / "a.txt", "a")
    put(tmp_path / "in" / "a.ann", "")
    os.symlink(tmp_path / "out" / ("" if name == "sub" else "secret.txt"), tmp_path / "in" / name)
    with pytest.raises(DataError, match="leads out of its folder"):
        list(read(tmp_path / "in"))
    with pytest.raises(DataError, match="leads out of its folder"):
        list(read(tmp_path / "in", "brat"))


def test_a_link_within_the_folder_is_fine(tmp_path):
    put(tmp_path / "a.txt", "a")
    os.symlink("a.txt", tmp_path / "b.txt")
    assert [document.id for document in read(tmp_path)] == ["a", "b"]


def test_a_source_can_be_read_again(tmp_path):
    good = put(tmp_path / "a.jsonl", '{"text": "a"}\n{"text": 1}\n')
    skipping = read(good, on_error="skip")
    assert list(skipping) == list(skipping) == [Document("a:1", "a")]
    assert (skipping.report.num_documents, len(skipping.report.bad_rows)) == (1, 1)


@pytest.mark.parametrize("format", list(READERS))
@given(content=st.binary(max_size=80) | st.text('{}[]",:\\\t\n O-BA#0T1<.é😀\x00', max_size=80).map(str.encode))
def test_whatever_the_bytes_only_our_errors_are_raised(tmp_path_factory, format, content):
    folder = tmp_path_factory.mktemp("x")
    put(folder / "a.txt", content)
    put(folder / "a.ann", content)
    source = read(folder if format == "brat" else folder / "a.txt", format, on_error="skip")
    try:
        documents = list(source)
    except DataError:
        return
    assert all(isinstance(document, Document) for document in documents)


HOSTILE = {
    "blanks": " " * 2_000_000 + "x",
    "line feeds": "\r\n" * 1_000_000 + "x",
    "quotes": '"' * 200_000,
    "marks": "a" + "\u0301" * 1_000_000,
    "emoji": "👩\u200d⚖️" * 50_000,
    "tabs": "\t" * 2_000_000 + "x",
    "hash": "# id =\n" * 50_000 + "x",
}


@pytest.mark.parametrize("text", list(HOSTILE.values()), ids=list(HOSTILE))
def test_hostile_texts_take_linear_time(tmp_path, text):
    document = Document("d", text, (Span(len(text) - 1, len(text), "A"),))
    began = time.process_time()
    for format, name in [("jsonl", "a.jsonl"), ("label_studio", "a.json"), ("brat", "a"), ("conll", "a.conll")]:
        write([document], tmp_path / name, format)
        assert list(read(tmp_path / name)) == [document]
    assert time.process_time() - began < 30


def test_twice_the_text_with_twice_the_spans_takes_twice_the_time(tmp_path):
    def seconds(num_words: int) -> float:
        text = "Wörter 😀 " * num_words
        spans = [{"start": 9 * i, "end": 9 * i + 6, "label": "A", "text": "Wörter"} for i in range(num_words)]
        shifted = [item | {"start": 10 * i, "end": 10 * i + 6} for i, item in enumerate(spans)]
        path = put(tmp_path / "a.jsonl", json.dumps({"id": "d", "text": text, "entities": shifted}))
        began = time.process_time()
        (document,) = read(path)
        assert document.spans[-1].start == 9 * (num_words - 1)
        return time.process_time() - began

    few = min(seconds(20_000) for _ in range(3))
    assert min(seconds(40_000) for _ in range(3)) < 3 * few + 0.5


def test_documents_of_ten_megabytes(tmp_path):
    document = Document("d", "Wörter 😀\r\n" * 1_000_000, (Span(9_999_990, 9_999_996, "A"),))
    for format, name in [("jsonl", "a.jsonl"), ("label_studio", "a.json"), ("brat", "a"), ("doccano", "b.jsonl")]:
        write([document], tmp_path / name, format)
        assert list(read(tmp_path / name)) == [document]


@pytest.mark.parametrize("format", ["jsonl", "json", "csv", "conll", "label_studio"])
def test_memory_is_flat_in_the_length_of_the_file(tmp_path, format):
    row = {
        "jsonl": '{"text": "%s"}\n',
        "json": '{"text": "%s"},',
        "csv": "%s\n",
        "conll": "-DOCSTART- O\n\n%s O\n",
        "label_studio": '{"data": {"text": "%s"}},',
    }[format] % ("x" * 20_000)
    head, tail = {"json": ("[", "]"), "label_studio": ("[", "]"), "csv": ("text\n", "")}.get(format, ("", ""))
    path = put(tmp_path / "a", head + row * 1500 + tail)
    source = read(path, format)
    tracemalloc.start()
    try:
        assert sum(len(document.text) for document in source) == 1500 * 20_000
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
