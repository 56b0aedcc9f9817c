"""``longdoc predict`` and ``longdoc evaluate``."""

import io
import json
from pathlib import Path

import pytest

import longdoc
from longdoc.app.cli import main
from longdoc.app.predict import result_stream
from longdoc.text.documents import Document
from longdoc.text.formats import read
from longdoc.training.checkpoint import load

TEXT = "Ada met the court in Rome. "


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def command(*arguments: str | Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert not stop.value.code, stop.value.code


def test_predicts_text_files_folders_and_jsonl(small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "in").mkdir()
    for name in ("in/b.txt", "in/a.txt", "c.txt"):
        (tmp_path / name).write_text(TEXT)
    (tmp_path / "one.jsonl").write_text(json.dumps({"id": "x", "text": TEXT * 30}) + "\n")
    output = tmp_path / "new" / "out.jsonl"
    command("predict", small_run, tmp_path / "in", tmp_path / "one.jsonl", tmp_path / "c.txt", "--output", output)
    rows = lines(output.read_text())
    assert [row["id"] for row in rows] == ["a", "b", "x", "c"]
    expected = [{"start": 0, "end": 3, "label": "PERSON"}, {"start": 21, "end": 25, "label": "PLACE"}]
    assert [{key: span[key] for key in ("start", "end", "label")} for span in rows[0]["spans"]] == expected
    assert len(rows[2]["spans"]) == 60
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"4 documents\nWritten to {output}\n"


def test_an_id_in_two_inputs_is_refused_or_left_out(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture, caplog: pytest.LogCaptureFixture
) -> None:
    files = [tmp_path / name / "a.txt" for name in ("one", "two")]
    for file in files:
        file.parent.mkdir()
        file.write_text(TEXT)
    told = f"document 'a' of {files[1]}: there is one of that id in {files[0]}; "
    for twice in (files, files[1:] * 2):
        with pytest.raises(SystemExit) as stop:
            main(["predict", str(small_run), *map(str, twice)])
        assert f"DataError: document 'a' of {files[1]}: there is one of that id in {twice[0]}; " in str(stop.value.code)
    capsys.readouterr()
    command("predict", small_run, *files, "--on-error", "skip")
    assert [row["id"] for row in lines(capsys.readouterr().out)] == ["a"]
    assert f"{told}this one is skipped" in caplog.text


def test_predicts_to_standard_output(small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    command("predict", small_run / "best.ckpt", tmp_path / "a.txt")
    assert [row["id"] for row in lines(capsys.readouterr().out)] == ["a"]


@pytest.mark.parametrize(
    ("stdin", "arguments", "ids"),
    [
        (TEXT, [], ["stdin"]),
        ("\n\n  " + TEXT, [], ["stdin"]),
        ("", [], ["stdin"]),
        ('\n{"id": "a", "text": "Ada"}\n\n{"id": "b", "text": "Ben"}\n', [], ["a", "b"]),
        ('{"id": "a", "body": "Ada"}', ["--field", "text=body"], ["a"]),
        ('{"a brace": but text}', ["--input-format", "text"], ["stdin"]),
        ('{"text": "no id"}\n', [], ["<stdin>:1"]),
        ("\n", [], ["stdin"]),
        ('{"id": "q", "text": "Ada\u2028 x"}\n', [], ["q"]),
        ('\ufeff{"id": "q", "text": "Ada"}\n', [], ["q"]),
    ],
)
def test_reads_standard_input(
    small_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
    stdin: str,
    arguments: list,
    ids: list,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
    command("predict", small_run, "-", *arguments)
    rows = lines(capsys.readouterr().out)
    assert [row["id"] for row in rows] == ids
    if stdin.strip() == TEXT.strip():
        assert rows[0]["spans"][0]["start"] == stdin.index("Ada")


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (
            ["predict", "RUN", "-"],
            '{"text": "Ada"}\n{"text": \n',
            "DataError: 1 rows cannot be used (1 can):\n  <stdin>:2: broken JSON",
        ),
        (
            ["predict", "RUN", "-", "--input-format", "csv"],
            "",
            "ConfigError: --input-format=csv: standard input is text or jsonl",
        ),
        (["predict", "RUN", "nowhere.txt"], "", "DataError: nowhere.txt: no such file or folder"),
        (["predict", "RUN", "-", "--output", "/proc/no/file"], "x", "ConfigError: /proc/no: cannot be read or written"),
        (["predict", "RUN", "-"], "a\0b", "NUL character"),
        (["predict", "nowhere", "-"], "", "ConfigError: checkpoint 'nowhere'"),
        (["predict", "RUN", "-", "--device", "cuda:77"], "", "ConfigError: --device=cuda:77: cannot be used here"),
        (["predict", "RUN", "-", "--max-tokens-per-forward", "0"], "", "ConfigError: --max-tokens-per-forward=0"),
        (["evaluate", "RUN", "CORPUS", "--split", "tset"], "", "has no split 'tset'; there is train, dev, test"),
    ],
)
def test_errors_are_short(
    small_run: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], stdin: str, message: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
    with pytest.raises(SystemExit) as stop:
        main([{"RUN": str(small_run), "CORPUS": str(corpus)}.get(argument, argument) for argument in arguments])
    assert message in str(stop.value.code)


@pytest.mark.parametrize("name", ["jsonl", "conll", "doccano", "label_studio", "brat"])
def test_predictions_go_to_the_tools_of_annotators(small_run: Path, corpus: Path, tmp_path: Path, name: str) -> None:
    output = tmp_path / "found"
    command("predict", small_run, corpus / "test.jsonl", "--format", name, "--output", output)
    found = {document.id: document for document in read(output, name)}
    module = load(small_run)
    for document in read(corpus / "test.jsonl"):
        expected = module.predict(document).predicted
        assert found[document.id].text == document.text
        assert [span.key for span in found[document.id].spans or ()] == [span.key for span in expected]


def test_a_tools_format_needs_a_file(small_run: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["predict", str(small_run), "-", "--format", "doccano"])
    assert "--format=doccano: expected --output" in str(stop.value.code)


def test_a_file_may_be_read_and_written_and_survives_a_failure(small_run: Path, tmp_path: Path) -> None:
    both = tmp_path / "in.jsonl"
    both.write_text('{"id": "a", "text": "Ada met Ben"}\n')
    command("predict", small_run, both, "--output", both)
    assert [row["id"] for row in lines(both.read_text())] == ["a"]
    before = both.read_text()
    with pytest.raises(SystemExit):
        main(["predict", str(small_run), "nowhere.txt", "--output", str(both)])
    assert both.read_text() == before


def test_what_was_done_before_a_failure_is_named(
    small_run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows.write_text('{"id": "a", "text": "Ada met Ben"}\n{"id": 7}\n')
    with pytest.raises(SystemExit):
        main(["predict", str(small_run), str(rows), "--output", str(output)])
    assert f"what was done so far is in {output}.part" in caplog.text
    assert not output.exists()


def test_bad_rows_are_said_before_documents_are_scored(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": "a", "text": "Ada", "entities": []}\n{"id": "b"}\n')
    monkeypatch.setattr("longdoc.app.predict.score_documents", lambda *_: pytest.fail("scored"))
    with pytest.raises(SystemExit, match=r"in\.jsonl:2: no text"):
        main(["evaluate", str(small_run), str(tmp_path / "in.jsonl")])


def test_evaluate_gives_the_scores_of_the_training_run(
    small_run: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    scores, predictions = tmp_path / "scores.json", tmp_path / "predictions.jsonl"
    command("evaluate", small_run, corpus, "--output", scores, "--predictions", predictions)
    kept = json.loads((small_run / "metrics.json").read_text())["test"]
    assert json.loads(scores.read_text()) | {"num_tokens": kept["num_tokens"]} == kept
    assert predictions.read_text() == (small_run / "predictions.jsonl").read_text()
    assert "all (micro)" in capsys.readouterr().out
    command("evaluate", small_run, corpus / "test.jsonl", "--output", tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads(scores.read_text())


def test_overlapping_gold_stops_neither_prediction_nor_evaluation(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    spans = [(0, 3, "PERSON"), (0, 7, "PERSON"), (21, 25, "PLACE")]
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "a", "text": TEXT, "entities": spans}))
    command("predict", small_run, tmp_path / "a.jsonl")
    (row,) = lines(capsys.readouterr().out)
    (document,) = read(tmp_path / "a.jsonl")
    assert load(small_run).predict(document).predicted == load(small_run).predict(TEXT).predicted
    assert [(s["start"], s["end"], s["label"]) for s in row["spans"]] == [spans[0], spans[2]]
    command("evaluate", small_run, tmp_path / "a.jsonl", "--output", tmp_path / "scores.json")
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert (scores["num_gold"], scores["lost"]) == (3, {"overlapping": 1})


def test_a_folder_without_parts_is_scored_as_a_whole(small_run: Path, corpus: Path, tmp_path: Path) -> None:
    output, folder = tmp_path / "scores.json", tmp_path / "in"
    folder.mkdir()
    rows = (corpus / "train.jsonl").read_text()
    (folder / "cases.jsonl").write_text(rows)
    sizes = []
    for arguments in ([folder], [folder, "--split", "train"], [folder / "cases.jsonl", "--split", "train"]):
        command("evaluate", small_run, *arguments, "--output", output)
        sizes.append(json.loads(output.read_text())["num_documents"])
    assert sizes[0] == 10
    assert 0 < sizes[1] == sizes[2] < 10
    (folder / "cases.jsonl").rename(folder / "train.jsonl")
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", str(small_run), str(folder)])
    assert "has no split 'test'; there is train, dev; choose with --split" in str(stop.value.code)


def test_a_smaller_forward_changes_nothing(small_run: Path, corpus: Path, tmp_path: Path) -> None:
    for name, budget in (("a", "1"), ("b", "100000")):
        command(
            "predict", small_run, corpus / "test.jsonl", "--output", tmp_path / name, "--max-tokens-per-forward", budget
        )
    a, b = (lines((tmp_path / name).read_text()) for name in "ab")
    assert [[s["start"] for s in row["spans"]] for row in a] == [[s["start"] for s in row["spans"]] for row in b]


def test_stream_holds_a_few_documents_at_a_time(small_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longdoc.app.predict._GROUP_TOKENS", 30)
    taken = []

    def documents():
        for i in range(50):
            taken.append(i)
            yield Document(str(i), TEXT)

    stream = result_stream(longdoc.load(small_run), documents())
    assert next(stream)[1].id == "0"
    assert len(taken) < 10
    assert [result.id for _, result in stream] == [str(i) for i in range(1, 50)]


@pytest.mark.parametrize("arguments", [["predict", "RUN", "-"], ["inspect", "cases"]])
@pytest.mark.parametrize("field", ["text", "=body", "text="])
def test_a_field_has_two_names(capsys: pytest.CaptureFixture, arguments: list[str], field: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--field", field])
    assert stop.value.code == 2
    assert f"--field: expected OURS=THEIRS, such as text=body, got '{field}'" in capsys.readouterr().err


def test_help_names_the_commands(capsys: pytest.CaptureFixture) -> None:
    command("--help")
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("train", "predict", "evaluate", "inspect"))
