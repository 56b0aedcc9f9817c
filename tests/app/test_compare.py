"""The figure of a comparison."""

from pathlib import Path

import pytest

from longdoc.app.compare import draw, pareto_front


def row(run: str, score: float | None, speed: float | None, memory: float | None = None) -> dict:
    return {"run": run, "score": score, "sd": None, "tokens_per_second": speed, "memory_mb": memory}


def test_only_what_no_other_beats_is_on_the_front() -> None:
    rows = [row("a", 0.9, 10), row("b", 0.8, 20), row("c", 0.8, 15), row("d", None, 99), row("b again", 0.8, 20)]
    assert pareto_front(rows) == [0, 1, 4]


def test_long_names_of_runs_fit_the_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    name = " ".join(f"model.scratch.setting_{i}=value_{i}" for i in range(12))
    draw([row(name, 0.9, 1000, 300), row(f"$x^{{ {name}", 0.8, 90000, 900)], "strict F1", tmp_path / "compare.png")
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")
