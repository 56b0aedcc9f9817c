"""Runs side by side: what counts as a repetition, what is compared, and the figure."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from longdoc.app.compare import compare, draw, pareto_front, read_groups, run_folders
from longdoc.errors import ConfigError


def row(run: str, score: float | None, speed: float | None, memory: float | None = None) -> dict:
    return {"run": run, "score": score, "sd": None, "tokens_per_second": speed, "memory_mb": memory}


def run(
    folder: Path, correct: int | None, overrides: tuple[str, ...] = (), config: Any = None, documents: str = "d"
) -> Path:
    """A run folder: ten documents of two entities each, so many of which were found; None for no test split."""
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "overrides.yaml").write_text(yaml.safe_dump(list(overrides)))
    (folder / "config.yaml").write_text(yaml.safe_dump({"seed": len(str(folder)), **(config or {})}))
    metrics = {} if correct is None else {"test": {"task": "ner", "score": correct / 20, "num_tokens": 100}}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    found = [2] * ((correct or 0) // 2) + [0] * 10
    rows = [
        {"id": f"{documents}{i}", "num_correct": n, "num_predicted": 2, "num_gold": 2} for i, n in enumerate(found[:10])
    ]
    (folder / "test_documents.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def test_what_is_no_setting_of_the_model_makes_no_group_of_its_own(tmp_path: Path) -> None:
    a = run(tmp_path / "a", 10, ("seed=1", "optim.lr=1"), {"optim": {"lr": 1}})
    b = run(tmp_path / "b", 14, ("optim.lr=1", "seed=2", "logger=none"), {"optim": {"lr": 1}, "logger": {}})
    c = run(tmp_path / "c", 16, ("seed=1", "optim.lr=2"), {"optim": {"lr": 2}})
    rows = compare(read_groups([a, b, c]))
    assert [(row["seeds"], row["score"]) for row in rows] == [(2, 0.6), (1, 0.8)]
    assert rows[1]["difference"] == pytest.approx(0.2)
    assert rows[1]["low"] <= 0.2 <= rows[1]["high"]


def test_a_run_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    jobs = [run(tmp_path / name, 10, (f"seed={name}",)) for name in ("10", "9")]
    assert run_folders([tmp_path, jobs[0], tmp_path / "9" / ".." / "9"]) == [jobs[1], jobs[0]]


def test_runs_without_a_test_split_or_an_end_are_told_apart(tmp_path: Path) -> None:
    jobs = [run(tmp_path / name, None, (f"optim.lr={name}",), {"optim": name}) for name in ("1", "2")]
    (jobs[1] / "metrics.json").unlink()
    assert [(row["untested"], row["failed"]) for row in compare(read_groups(jobs))] == [(1, 0), (0, 1)]


@pytest.mark.parametrize("change", ["ids", "gold", "missing"])
def test_other_documents_give_no_difference(change: str, tmp_path: Path) -> None:
    jobs = [run(tmp_path / name, 10, (), {"data": name}, name if change == "ids" else "d") for name in ("1", "2")]
    rows = jobs[1] / "test_documents.jsonl"
    if change == "gold":
        rows.write_text(rows.read_text().replace('"num_gold": 2', '"num_gold": 3'))
    elif change == "missing":
        rows.unlink()
    assert math.isnan(compare(read_groups(jobs))[1]["difference"])


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    job = run(tmp_path / "1", 10)
    (job / "metrics.json").write_text("{")
    with pytest.raises(ConfigError, match=r"metrics\.json: cannot be read, leave this run out"):
        read_groups([job])


def test_only_what_no_other_beats_is_on_the_front() -> None:
    rows = [row("a", 0.9, 10), row("b", 0.8, 20), row("c", 0.8, 15), row("d", None, 99), row("b again", 0.8, 20)]
    assert pareto_front(rows) == [0, 1, 4]


def test_long_names_of_runs_fit_the_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    name = " ".join(f"model.scratch.setting_{i}=value_{i}" for i in range(12))
    draw([row(name, 0.9, 1000, 300), row(f"$x^{{ {name}", 0.8, 90000, 900)], "strict F1", tmp_path / "compare.png")
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")
