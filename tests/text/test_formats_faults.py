"""A thousand rows with 37 planted faults: exactly these are reported, each at its line, and the rest is used."""

import csv
import io
import json
import logging
import re

import pytest

from longdoc.errors import DataError
from longdoc.text.formats import ReadOptions, read

NUM_ROWS = 1000
OPTIONS = ReadOptions(task="ner")


def good(i: int) -> dict:
    return {"id": f"d{i}", "text": f"Row {i} names Ann here.", "entities": [{"start": 0, "end": 3, "label": "A"}]}


def dumped(**changes) -> str:
    """A row as JSON, good but for the changes; None takes a field away."""
    row = {name: value for name, value in (good(0) | changes).items() if value is not None}
    return json.dumps(row)


def entity(start, end, label="A", **more) -> dict:
    return {"start": start, "end": end, "label": label, **more}


# What stands in the row instead of a good one -> the reason that must be given. {id} is the row's own id.
JSON_FAULTS: list[tuple[str | bytes, str]] = [
    ("[1, 2]", "expected an object, got list"),
    ('"text"', "expected an object, got str"),
    ("null", "expected an object, got NoneType"),
    (dumped(id="{id}", text=None), "no text"),
    (dumped(id="{id}").replace('"Row 0 names Ann here."', "null"), "no text"),
    (dumped(id="{id}", text=7), "text must be a string, got int"),
    (dumped(id="{id}", text=["a"]), "text must be a string, got list"),
    (dumped(id="{id}", entities=[entity(0, 99)]), r"span 0-99 does not fit: expected 0 <= start < end <= 21"),
    (dumped(id="{id}", entities=[entity(-1, 3)]), r"span -1-3 does not fit"),
    (dumped(id="{id}", entities=[entity(3, 3)]), r"span 3-3 does not fit"),
    (dumped(id="{id}", entities=[entity(5, 2)]), r"span 5-2 does not fit"),
    (dumped(id="{id}", entities=[entity(0.0, 3)]), "must be integers, got 0.0 and 3"),
    (dumped(id="{id}", entities=[entity("0", "3")]), "must be integers, got '0' and '3'"),
    (dumped(id="{id}", entities=[entity(True, 3)]), "must be integers, got True and 3"),
    (dumped(id="{id}", entities=[{"start": 0, "label": "A"}]), "must be integers, got 0 and None"),
    (dumped(id="{id}", entities=[{"label": "A"}]), "expected a span with start, end and label"),
    (dumped(id="{id}", entities=[7]), "expected a span with start, end and label"),
    (dumped(id="{id}", entities=[entity(0, 3, 1.5)]), "label must be a string, got 1.5"),
    (dumped(id="{id}", entities=[entity(0, 3, "")]), "label must be a string, got ''"),
    (dumped(id="{id}", entities=[{"start": 0, "end": 3}]), "label must be a string, got None"),
    (dumped(id="{id}", entities=[entity(3, 4)]), "span 3-4 covers only white space"),
    (dumped(id="{id}", entities=[entity(0, 3), entity(0, 3)]), "span 0-3 A stands there twice"),
    (dumped(id="{id}", entities=[entity(0, 3, score=1.5)]), "score of span 0-3 must be within 0 and 1, got 1.5"),
    (dumped(id="{id}", entities=[entity(0, 3, slice=1)]), "slice of span 0-3 must be a string"),
    (dumped(id="{id}", entities=[entity(0, 3, text="Bob")]), "span 0-3 reads 'Row', the export says 'Bob'"),
    (dumped(id="{id}", entities=None), r"no entities \(task ner\)"),
    (dumped(id="{id}", text="", entities=[]), "empty text"),
    (dumped(id="{id}", text=" \n", entities=[]), "empty text"),
    (dumped(id="{id}", text="Row \0"), "NUL character at 4"),
    (dumped(id="{id}", text="Row \ud83d."), r"lone surrogate U\+D83D at character 4"),
    (dumped(id="{id}", text="Row \udc80."), "U|0x80"),
    (dumped(id="d3"), "duplicate id 'd3'"),
    (dumped(id=[1]), r"id must be a string or an integer, got \[1\]"),
    (dumped(id="{id}", text="Müll").encode("utf-8").decode("utf-8").replace("M\\u00fcll", "M\xfcll").encode("latin-1"),
     "not UTF-8 .byte 0xfc"),
]  # fmt: skip
LINE_FAULTS = [
    ('{"id": "x", "text": "Row', "broken JSON: Unterminated string"),
    ("{'id': 1}", "broken JSON"),
    ("[" * 200_000, "broken JSON: nested too deeply"),
]


def plant(faults: list[tuple[str | bytes, str]]) -> tuple[list[bytes], dict[int, str]]:
    """Rows of JSON, with the faults spread over them, and the reasons by line."""
    rows = [json.dumps(good(i)).encode() for i in range(NUM_ROWS)]
    expected = {}
    for k, (row, reason) in enumerate(faults):
        place = 10 + 26 * k
        row = row.encode() if isinstance(row, str) else row
        rows[place] = row.replace(b"{id}", f"d{place}".encode())
        expected[place + 1] = reason
    return rows, expected


def check(source, expected: dict[int, str], num_documents: int) -> None:
    with pytest.raises(DataError) as error:
        list(source)
    found = {row.line: row.reason for row in source.report.bad_rows}
    assert sorted(found) == sorted(expected)
    for line, reason in expected.items():
        assert re.search(reason, found[line]), (line, reason, found[line])
    assert len(source.report.bad_rows) == len(expected)
    assert source.report.num_documents == num_documents
    message = str(error.value)
    assert message.startswith(f"{len(expected)} rows cannot be used ({num_documents} can)")
    assert all(f":{line}: " in message for line in expected)


def test_jsonl(tmp_path, caplog):
    rows, expected = plant(JSON_FAULTS + LINE_FAULTS)
    assert len(expected) == 37
    # Four rows that look odd and are fine: overlap, UTF-16 units, CRLF as one, one word of 5 MB.
    rows[1] = dumped(id="overlap", entities=[entity(0, 7), entity(4, 9, "B")]).encode()
    rows[2] = dumped(id="utf16", text="😀😀 Ann", entities=[entity(5, 8, text="Ann")]).encode()
    rows[4] = dumped(id="crlf", text="a\r\nb\r\nAnn", entities=[entity(4, 7, text="Ann")]).encode()
    rows[5] = dumped(id="giant", text="x" * 5_000_000).encode()
    rows[6] = b"\r"
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(rows))
    source = read(path, options=OPTIONS)
    check(source, expected, NUM_ROWS - 37 - 1)
    assert {(row.line, row.reason, row.id) for row in source.report.repairs} == {
        (3, "offsets converted from UTF-16 units", "utf16"),
        (5, "offsets converted from characters with CRLF as one", "crlf"),
    }

    source = read(path, options=OPTIONS, on_error="skip")
    with caplog.at_level(logging.WARNING):
        documents = {document.id: document for document in source}
    assert len(documents) == NUM_ROWS - 38
    assert len(source.report.bad_rows) == 37
    assert "37 rows cannot be used and were skipped" in caplog.text
    assert documents["utf16"].spans[0].key == (3, 6, "A")
    assert documents["crlf"].spans[0].key == (6, 9, "A")


def test_a_slice_holds_characters(tmp_path):
    (tmp_path / "x.jsonl").write_text(dumped(entities=[entity(0, 3, slice="\ud800")]))
    check(read(tmp_path / "x.jsonl"), {1: "slice of span 0-3 must be a string that can be used"}, 0)


def test_json_array(tmp_path):
    rows, expected = plant(JSON_FAULTS)
    path = tmp_path / "x.json"
    path.write_bytes(b"[" + b",\n".join(rows) + b"]")
    check(read(path, options=OPTIONS), expected, NUM_ROWS - len(JSON_FAULTS))


def test_a_json_array_that_breaks_is_used_up_to_there(tmp_path):
    rows, _ = plant([])
    rows[600] = b'{"id": }'
    path = tmp_path / "x.json"
    path.write_bytes(b"[\n" + b",\n".join(rows) + b"]")
    check(read(path), {602: "broken JSON: Expecting value.*nothing after it could be read"}, 600)
    path.write_bytes(b"[\n" + b",\n".join(rows[:600]))
    check(read(path), {601: "the array never closes"}, 600)


def as_doccano(row: bytes) -> bytes:
    """The same row in doccano's shape, where it is a row at all."""
    try:
        value = json.loads(row)
    except (ValueError, RecursionError):
        return row
    if isinstance(value, dict) and isinstance(value.get("entities"), list) and b"start_offset" not in row:
        entities = value.pop("entities")
        value["label"] = [[item.get(name) for name in ("start", "end", "label")] for item in entities]
        return json.dumps(value).encode()
    return row


def test_doccano(tmp_path):
    no_place = ("score of span", "slice of span", "the export says", "expected a span")
    kept = [(row, reason) for row, reason in JSON_FAULTS + LINE_FAULTS if not reason.startswith(no_place[:2])]
    kept = [(row, reason) for row, reason in kept if not any(part in reason for part in no_place)]
    kept += [
        (json.dumps({"id": "{id}", "text": "😀 Ann", "label": [[1, 6, "A"]]}), "UTF-16 units falls inside a character"),
        (json.dumps({"id": "{id}", "text": "x", "label": [[0, 1]]}), "no entities|expected a span"),
        (json.dumps({"id": "{id}", "text": "x", "label": [["A", 0, 1]]}), "must be integers"),
        (json.dumps({"id": "{id}", "text": "x", "entities": [{"start_offset": 0, "end_offset": 2, "label": "A"}]}),
         "does not fit"),
        (json.dumps({"id": "{id}", "text": "x", "annotations": [{"start_offset": 0, "end_offset": 2, "label": 1}]}),
         "does not fit"),
    ]  # fmt: skip
    assert len(kept) == 37
    rows, expected = plant(kept)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\n".join(map(as_doccano, rows)))
    check(read(path, "doccano", options=OPTIONS), expected, NUM_ROWS - 37)


def as_task(row: bytes) -> bytes:
    """The same row as a Label Studio task, where it is a row at all."""
    value = json.loads(row.decode("utf-8", "surrogateescape"))
    if not isinstance(value, dict):
        return row
    task: dict = {"data": {name: value[name] for name in ("id", "text") if name in value}}
    if "entities" in value:
        results = []
        for item in value["entities"]:
            known = {name: item[name] for name in ("start", "end", "text") if name in item}
            known |= {"labels": [item["label"]] if "label" in item else [None]}
            results.append({"type": "labels", "value": known, "score": item.get("score")})
            results[-1]["meta"] = {"slice": item.get("slice")}
        task["annotations"] = [{"result": results}]
    return json.dumps(task, ensure_ascii=False).encode("utf-8", "surrogateescape" if b"\xfc" in row else "replace")


def test_label_studio(tmp_path):
    kept = [
        (row, reason)
        for row, reason in JSON_FAULTS
        if not any(part in reason for part in ("expected an object", "expected a span", "got 0 and None", "U"))
    ]
    kept += [(row, reason) for row, reason in JSON_FAULTS if "not UTF-8" in reason]
    rows, expected = plant(kept)
    tasks = list(map(as_task, rows))
    broken = [
        (b"[1]", "not a task of Label Studio"),
        (b"7", "not a task"),
        (b'{"id": 1}', "not a task.*data"),
        (b'{"data": 1}', "not a task"),
        (b'{"data": {"text": "x"}, "annotations": [1]}', "not a task"),
        (b'{"data": {"text": "x"}, "annotations": [{}]}', "not a task.*result"),
        (b'{"data": {"text": "x"}, "annotations": [{"result": [{"type": "labels"}]}]}', "not a task.*start"),
        (b'{"data": {"text": "x"}, "annotations": [{"result": [{"value": {}}]}]}', "not a task.*type"),
        (b'{"data": {"text": "x"}, "annotations": [{"result": [{"type": "labels", "value": {"labels": ["A"]}}]}]}',
         "not a task.*start"),
        (b'{"data": {"text": "x\\ud800"}, "annotations": []}', r"lone surrogate U\+D800"),
        (b'{"data": {"text": "x"}, "annotations": []}', "no entities"),
        (b'{"data": {"text": "x"}, "annotations": [{"was_cancelled": true, "result": []}]}', "no entities"),
    ]  # fmt: skip
    for k, (task, reason) in enumerate(broken):
        tasks[5 + 26 * k] = task
        expected[5 + 26 * k + 1] = reason
    assert len(expected) == 37
    path = tmp_path / "x.json"
    path.write_bytes(b"[" + b",\n".join(tasks) + b"]")
    check(read(path, options=OPTIONS), expected, NUM_ROWS - 37)


@pytest.mark.parametrize("labels", ['"labels": [], ', ""])
def test_a_region_without_label_is_reported(tmp_path, labels):
    region = f'{{"type": "labels", "value": {{{labels}"start": 0, "end": 4}}}}'
    (tmp_path / "x.json").write_text(f'[{{"data": {{"text": "Anna"}}, "annotations": [{{"result": [{region}]}}]}}]')
    check(read(tmp_path / "x.json"), {1: "region 0-4 has no list of labels"}, 0)


CSV_FAULTS = [
    ("{id},text", "expected 3 cells, got 2"),
    ("{id},a,b,A", "expected 3 cells, got 4"),
    ('{id},"a"b,A', "broken row"),
    ("{id},,A", "empty text"),
    ("{id},  ,A", "empty text"),
    ("{id},text,\0", "label: NUL character at 0"),
    ("{id},text,A|C\0", "label: NUL character at 1"),
    ("{id},te\0xt,A", "NUL character at 2"),
    ("d3,text,A", "duplicate id 'd3'"),
    ('d4,"multi\nline",A', "duplicate id 'd4'"),
    (",text,A", "id must be a string or an integer, got ''"),
]


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".tsv", "\t")])
def test_csv(tmp_path, suffix, delimiter):
    faults = [CSV_FAULTS[k % len(CSV_FAULTS)] for k in range(36)] + [("{id},M\xfcll,A", "not UTF-8 .byte 0xfc")]
    rows, expected, line = [], {}, 2
    for i in range(NUM_ROWS):
        text = io.StringIO()
        body = f"Row {i},\tand\r\nmore" if i % 3 else f"Row {i}"
        csv.writer(text, delimiter=delimiter, lineterminator="\n").writerow([f"d{i}", body, "A|B" if i % 2 else "A"])
        row = text.getvalue()
        if i % 26 == 11 and i // 26 < len(faults):
            row, reason = faults[i // 26]
            row = row.replace("{id}", f"d{i}").replace(",", delimiter) + "\n"
            expected[line] = reason
        rows.append(row)
        line += row.count("\n")
    assert len(expected) == 37
    path = tmp_path / f"x{suffix}"
    content = "".join(["id,text,labels\n".replace(",", delimiter), *rows])
    path.write_bytes(b"\xef\xbb\xbf" + content.replace("M\xfcll", "M@ll").encode().replace(b"M@ll", b"M\xfcll"))
    source = read(path, options=ReadOptions(task="classification"))
    check(source, expected, NUM_ROWS - 37)
    documents = list(read(path, on_error="skip"))
    assert documents[1].text == "Row 1,\tand\r\nmore"
    assert documents[1].labels == ("A", "B")


CONLL_FAULTS = [
    ("Ann", "expected 2 columns, got 1"),
    ("Ann x B-A", "expected 2 columns, got 3"),
    ("Ann A", "expected a tag such as O or B-LABEL, got 'A'"),
    ("Ann B-", "expected a tag such as O or B-LABEL, got 'B-'"),
    ("Ann o", "expected a tag such as O or B-LABEL, got 'o'"),
    ("Ann L-A", "tag 'L-A' does not belong to iob2"),
    ("An\0n B-A", "NUL character"),
    ("M\xfcll B-A", "not UTF-8"),
]


def test_conll(tmp_path):
    lines, expected = [], {}
    for i in range(NUM_ROWS):
        lines += ["-DOCSTART- O", "", f"Row{i} O", "names O"]
        row = "Ann B-A"
        if i % 26 == 11 and i // 26 < 37:
            row, expected[len(lines) + 1] = CONLL_FAULTS[(i // 26) % len(CONLL_FAULTS)]
        lines += [row, "Lee I-A", ""]
    path = tmp_path / "x.conll"
    path.write_bytes("\n".join(lines).replace("M\xfcll", "M@ll").encode().replace(b"M@ll", b"M\xfcll"))
    check(read(path, options=ReadOptions(task="ner", tag_scheme="iob2")), expected, NUM_ROWS - 37)


def test_conll_spans_without_a_word_stand_at_their_document(tmp_path):
    path = tmp_path / "x.conll"
    path.write_text("-DOCSTART-\tO\n\nAnn\tB-A\n\n-DOCSTART-\tO\n\nAnn\tO\n\u3000\tB-C\n")
    check(read(path, options=OPTIONS), {5: "span 4-5 covers only white space"}, 1)


BRAT_FAULTS = [
    ("T1\tA 0 99\tRow", "span 0-99 does not fit"),
    ("T1\tA 3 3\t", "span 3-3 does not fit"),
    ("T1\tA 0 1;2 3\tR w", "a span in pieces cannot be used"),
    ("T1 A 0 3 Row", r"expected T1<tab>LABEL START END<tab>TEXT"),
    ("T1\tA 0 x\tRow", "expected T1<tab>"),
    ("T1\t 0 3\tRow", "label must be a string, got ''"),
    ("T1\tA 0 3\tBob", "reads 'Row', the export says 'Bob'"),
    ("T1\tA 3 4\t ", "covers only white space"),
    ("what is this", "not a line of brat's format"),
    ("T1\tA 0 3\tR\xfcw", "not UTF-8"),
]


def test_brat(tmp_path):
    expected = {}
    for i in range(NUM_ROWS):
        name = f"d{i:04}"
        (tmp_path / f"{name}.txt").write_text(f"Row {i} names Ann here.")
        line = "T9\tA 0 3\tRow"
        if i % 26 == 11 and i // 26 < 37:
            line, reason = BRAT_FAULTS[(i // 26) % len(BRAT_FAULTS)]
            expected[name] = reason
        notes = "T8\tB 4 5\t" + str(i)[0] + "\nR1\tKnows Arg1:T8 Arg2:T9\n#1\tAnnotatorNotes T8\tsure?\n"
        (tmp_path / f"{name}.ann").write_bytes((notes + line + "\n").encode("latin-1"))
    source = read(tmp_path, options=OPTIONS)
    with pytest.raises(DataError, match="37 rows cannot be used"):
        list(source)
    found = {row.id: row for row in source.report.bad_rows}
    assert sorted(found) == sorted(expected)
    for name, reason in expected.items():
        assert re.search(reason, found[name].reason)
        assert found[name].line == 4
        assert found[name].file.endswith(f"{name}.ann")
    assert source.report.num_documents == NUM_ROWS - 37


def test_more_than_fifty_bad_rows_are_counted(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("{\n" * 60)
    with pytest.raises(DataError, match=r"60 rows cannot be used \(0 can\)") as error:
        list(read(path))
    assert str(error.value).count("broken JSON") == 50
    assert "and 10 more" in str(error.value)
