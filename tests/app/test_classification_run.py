"""Classification from a file to a report, and selection beside it."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

import longdoc
from longdoc.app.cli import main
from longdoc.app.train import train
from longdoc.errors import ConfigError, DataError
from longdoc.text.formats import read
from tests.app.conftest import SMALL
from tests.app.test_predict import command, lines

SINGLE = ("task=single_label", "aggregation=max", "model.pool=mean", "model.dropout=0", "model.scratch.dropout=0")


@pytest.fixture(scope="module")
def class_run(class_corpus: Path, composed: Callable[..., dict], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a finished run."""
    output = tmp_path_factory.mktemp("run")
    cache = f"data.cache_dir={tmp_path_factory.mktemp('cache')}"
    more = ("windows.size_tokens=16", "windows.overlap_tokens=4", "model.scratch.width=32", "trainer.max_epochs=40")
    train(composed(f"data.path={class_corpus}", cache, *SMALL, *SINGLE, *more, output_dir=output))
    return output


def test_a_run_learns_reports_and_keeps_what_compare_needs(class_run: Path) -> None:
    metrics = json.loads((class_run / "metrics.json").read_text())
    assert metrics["task"] == metrics["test"]["task"] == "single_label"
    assert metrics["dev"]["best_score"] > 0.8
    assert metrics["test"]["score"] == metrics["test"]["accuracy"] > 0.7
    assert set(metrics["test"]["labels"]) == {"appeal", "claim"}
    assert metrics["test"]["num_documents"] == 8
    assert sum(row["num_documents"] for row in metrics["test"]["by_length"]) == 8
    assert metrics["train"]["num_documents"] == 16
    assert set(metrics["baselines"]) == {"linear"}
    counts = lines((class_run / "test_documents.jsonl").read_text())
    assert sum(row["num_correct"] for row in counts) == metrics["test"]["num_correct"]
    assert [row["id"] for row in counts] == [f"doc-{i}" for i in range(8)]


def test_predictions_with_their_evidence(class_run: Path, class_corpus: Path, tmp_path: Path) -> None:
    command("predict", class_run, class_corpus / "test.jsonl", "--output", tmp_path / "out.jsonl")
    rows, module = lines((tmp_path / "out.jsonl").read_text()), longdoc.load(class_run)
    tested = {row["id"]: row for row in lines((class_run / "predictions.jsonl").read_text())}
    num_found = 0
    for row, document in zip(rows, read(class_corpus / "test.jsonl"), strict=True):
        expected = module.predict(document)
        assert row["labels"] == list(expected.predicted) == tested[document.id]["labels"]
        assert row["probs"] == pytest.approx(expected.probs, abs=1e-4)
        assert row["probs"] == pytest.approx(tested[document.id]["probs"], abs=2e-4)
        assert [(e["start"], e["end"]) for e in row["evidence"]] == [(e.start, e.end) for e in expected.evidence]
        best = max(row["evidence"], key=lambda e: e["weight"])
        num_found += row["labels"][0] in document.text[best["start"] : best["end"]]
    assert num_found >= 5


@pytest.mark.parametrize("name", ["jsonl", "doccano", "label_studio"])
def test_predictions_go_to_the_tools_of_annotators(
    class_run: Path, class_corpus: Path, tmp_path: Path, name: str
) -> None:
    command("predict", class_run, class_corpus / "test.jsonl", "--format", name, "--output", tmp_path / "found")
    module = longdoc.load(class_run)
    for found, document in zip(read(tmp_path / "found", name), read(class_corpus / "test.jsonl"), strict=True):
        assert (found.id, found.text) == (document.id, document.text)
        assert found.labels == module.predict(document).predicted


def test_evaluate_gives_the_scores_of_the_training_run(class_run: Path, class_corpus: Path, tmp_path: Path) -> None:
    command("evaluate", class_run, class_corpus, "--output", tmp_path / "scores.json")
    kept = json.loads((class_run / "metrics.json").read_text())["test"]
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores | {"num_tokens": kept["num_tokens"]} == kept


def test_several_labels_are_not_scored_as_one(class_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": "a", "text": "Ada", "labels": ["claim", "appeal"]}\n')
    with pytest.raises(SystemExit, match="document 'a': expected one label, got 2"):
        main(["evaluate", str(class_run), str(tmp_path / "in.jsonl")])


def test_nothing_and_very_much_to_predict(class_run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "none.jsonl").write_text("")
    (tmp_path / "long.txt").write_text("Ada met the court in Rome. " * 3000)
    for name, num_rows in (("empty.txt", 1), ("none.jsonl", 0), ("long.txt", 1)):
        command("predict", class_run, tmp_path / name, "--output", tmp_path / "out")
        rows = lines((tmp_path / "out").read_text())
        assert len(rows) == num_rows
        assert all(math.isclose(sum(row["probs"].values()), 1, abs_tol=1e-3) for row in rows)
    assert rows[0]["evidence"][-1]["end"] == 3000 * 27 - 1


def test_a_class_has_no_place_in_brat(class_run: Path, class_corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "predict",
                str(class_run),
                str(class_corpus / "test.jsonl"),
                "--format",
                "brat",
                "--output",
                str(tmp_path / "x"),
            ]
        )
    assert "--format=brat: has a place for entities only" in str(stop.value.code)


def short(composed: Callable[..., dict], data: Path, folder: Path, *settings: str) -> dict:
    few = (f"data.path={data}", f"data.cache_dir={folder / 'cache'}", *SMALL, "trainer.max_epochs=1")
    return train(composed(*few, *settings, output_dir=folder / "run"))


@pytest.mark.parametrize("method", ["cnn", "tfidf", "random"])
def test_selection_stands_beside_chance(class_corpus: Path, composed: Callable, tmp_path: Path, method: str) -> None:
    settings = (*SINGLE, f"selection={method}", "selection.budget_tokens=24")
    metrics = short(composed, class_corpus, tmp_path, *settings)
    assert set(metrics["baselines"]) == {"linear", "linear_selected", "linear_random"}
    if method == "cnn":
        assert metrics["baselines"]["linear_selected"] >= metrics["baselines"]["linear_random"]
    module = longdoc.load(tmp_path / "run")
    assert module.preprocessor.selection.method == method
    assert all(module.predict(d).num_tokens <= 24 + 2 for d in read(class_corpus / "test.jsonl"))


def test_entities_that_are_not_selected_are_lost_and_bound_the_recall(
    corpus: Path, composed: Callable, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    metrics = short(composed, corpus, tmp_path, "strategy=select", "selection.budget_tokens=40")
    lost, num_gold = metrics["test"]["lost"]["not_selected"], metrics["test"]["num_gold"]
    assert metrics["baselines"]["ceiling"] == pytest.approx(1 - lost / num_gold)
    assert metrics["test"]["recall"] <= metrics["baselines"]["ceiling"] < 1
    printed = capsys.readouterr().out
    assert f"{lost} stand in sentences that were not selected" in printed
    assert f"recall ceiling: entities inside the selected sentences: {1 - lost / num_gold:.4f}" in printed
    assert "recall ceiling of random sentences, equal budget" in printed


def test_one_stream_is_classified_by_its_global_token(class_corpus: Path, composed: Callable, tmp_path: Path) -> None:
    settings = (
        "task=single_label",
        "strategy=sparse",
        "windows.size_tokens=4096",
        "attention.left=8",
        "attention.right=8",
    )
    metrics = short(composed, class_corpus, tmp_path, *settings)
    assert metrics["test"]["num_documents"] == 8
    module = longdoc.load(tmp_path / "run")
    assert module.pool == "first"
    assert module.predict("Ada met the court in Rome. " * 100).evidence == ()


def test_tables_of_several_labels_and_numbers(composed: Callable, tmp_path: Path) -> None:
    words = ["appeal", "claim", "appeal claim", ""]
    tables = {
        "multi_label": ("labels", ["appeal", "claim", "appeal|claim", ""]),
        "regression": ("target", ["1.5", "-2", "3", "0"]),
    }
    for task, (column, gold) in tables.items():
        folder = tmp_path / task
        folder.mkdir()
        for split in ("train", "dev", "test"):
            rows = [f"The {word} was heard at length.,{given}\n" for word, given in zip(words, gold, strict=True)] * 2
            (folder / f"{split}.csv").write_text(f"text,{column}\n" + "".join(rows))
        metrics = short(composed, folder, folder, f"task={task}")
        assert metrics["test"]["num_documents"] == 8
        assert metrics["baselines"]["linear"] > 0.3
    assert len(longdoc.load(tmp_path / "multi_label" / "run").thresholds) == 2


@pytest.mark.parametrize(
    ("data", "settings", "message"),
    [
        (
            "class",
            ["task=ner"],
            "no entities .task ner.*data.fields in training.*or the task that the data is for",
        ),
        ("ner", ["task=single_label"], "no label .task classification.*or the task that the data is for"),
        ("class", ["task=regression"], "no target .task regression.*or the task that the data is for"),
        ("class", ["task=single_label", "aggregation=owner"], "aggregation='owner': expected one of mean, max"),
        ("ner", ["aggregation=lstm"], "aggregation='lstm': expected one of owner, mean"),
        ("class", ["task=single_label", "attention.global_tokens=[100]"], "global_tokens: .100. stand in no window"),
        ("class", ["task=single_label", "strategy=sparse", "attention.global_tokens=[-1]"], "positions from 0"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(
    corpus: Path, class_corpus: Path, composed: Callable, tmp_path: Path, data: str, settings: list[str], message: str
) -> None:
    with pytest.raises((ConfigError, DataError), match=f"(?s){message}"):
        short(composed, {"ner": corpus, "class": class_corpus}[data], tmp_path, *settings)
    assert not (tmp_path / "run" / "best.ckpt").exists()


def test_a_second_label_anywhere_is_refused(class_corpus: Path, composed: Callable, tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        rows = [json.loads(line) for line in (class_corpus / f"{split}.jsonl").read_text().splitlines()]
        rows[0] |= {"label": ["appeal", "claim"] if split == "test" else "appeal"}
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"document 'doc-0': expected one label, got 2; .*set task=multi_label"):
        short(composed, tmp_path, tmp_path / "out", "task=single_label")
