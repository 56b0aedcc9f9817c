"""Multiruns: what fails does not end them, and searches find."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from longdoc.app import hydra_app
from tests.app.conftest import SMALL

ROOT = Path(__file__).parents[2]


def sweep(corpus: Path, folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess, Path]:
    """Run a multirun in a process of its own; also its folder."""
    swept = {argument.partition("=")[0] for argument in arguments} | {"optim.lr"}
    small = [override for override in SMALL if override.partition("=")[0] not in swept]
    command = [sys.executable, str(ROOT / "train.py"), "-m", f"data.path={corpus}", *small, "trainer.max_epochs=1"]
    environment = {**os.environ, "LONGDOC_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, cwd=folder, env=environment, check=False
    )
    return done, next(path.parent for path in folder.glob("outputs/defaults/*/0"))


@pytest.mark.slow
def test_failed_jobs_do_not_end_a_sweep_and_stand_in_its_table(corpus: Path, tmp_path: Path) -> None:
    done, folder = sweep(corpus, tmp_path, "optim.lr=30.0,0.01", "model.scratch.num_heads=3,2")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in sorted(folder.glob("[0-9]"))] == ["0", "1", "2", "3"]
    for job in ("0", "2"):  # the rate is swept outside, the heads inside
        reason = (folder / job / "error.txt").read_text(encoding="utf-8")
        assert "ConfigError: model.scratch.width=16: not a multiple of num_heads=3" in reason.splitlines()[-1]
        assert (
            f"This job has failed: ConfigError: model.scratch.width=16: {reason.rpartition(': ')[2].strip()}"
            in done.stdout
        )
    assert json.loads((folder / "3" / "metrics.json").read_text())["test"]["num_documents"] == 4
    with (folder / "compare.csv").open() as file:
        rows = {row["run"]: row for row in csv.DictReader(file)}
    assert len(rows) == 4
    assert rows["optim.lr=0.01 model.scratch.num_heads=2"]["score"] != ""
    for failed in ("optim.lr=30.0 model.scratch.num_heads=3", "optim.lr=0.01 model.scratch.num_heads=3"):
        assert (rows[failed]["score"], rows[failed]["failed"]) == ("", "1")


@pytest.mark.slow
def test_a_sweep_of_which_nothing_came_says_so(corpus: Path, tmp_path: Path) -> None:
    done, folder = sweep(corpus, tmp_path, "model.scratch.num_heads=3,5")
    assert done.returncode == 1
    assert (folder / "1" / "error.txt").is_file()


@pytest.mark.slow
@pytest.mark.skipif(not hydra_app.installed("hydra-optuna-sweeper"), reason="needs the extra 'optuna'")
def test_a_search_goes_on_after_a_failed_trial(corpus: Path, tmp_path: Path) -> None:
    done, folder = sweep(
        corpus, tmp_path, "hparams_search=optuna", "hydra.sweeper.n_trials=6", "windows.overlap_tokens=8",
        "model.scratch.num_heads=2,3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    failed = [path.parent.name for path in folder.glob("*/error.txt")]
    finished = [path.parent.name for path in folder.glob("*/metrics.json")]
    assert sorted(failed + finished) == ["0", "1", "2", "3", "4", "5"]
    assert failed
    for name in failed:
        assert "model.scratch.num_heads=3" in yaml.safe_load((folder / name / ".hydra" / "overrides.yaml").read_text())
    best = yaml.safe_load((folder / "optimization_results.yaml").read_text())
    assert set(best["best_params"]) >= {"optim.lr", "optim.layer_decay", "model.dropout", "model.scratch.num_heads"}
    scores = [json.loads((folder / name / "metrics.json").read_text())["dev"]["best_score"] for name in finished]
    assert best["best_value"] == max(scores)


@pytest.mark.slow
@pytest.mark.skipif(not hydra_app.installed("hydra-joblib-launcher"), reason="needs the extra 'joblib'")
def test_jobs_side_by_side(corpus: Path, tmp_path: Path) -> None:
    done, folder = sweep(corpus, tmp_path, "launcher=joblib", "model.scratch.num_heads=2,3")
    assert done.returncode == 0, done.stderr
    assert (folder / "0" / "metrics.json").is_file()
    assert (folder / "1" / "error.txt").is_file()
    assert (folder / "compare.csv").is_file()


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("hparams_search=optuna", "needs the package 'hydra-optuna-sweeper': pip install 'longdoc[optuna]'"),
        ("launcher=joblib", "needs the package 'hydra-joblib-launcher': pip install 'longdoc[joblib]'"),
        ("launcher=slurm", "needs the package 'hydra-submitit-launcher': pip install 'longdoc[submitit]'"),
    ],
)
def test_a_missing_plug_in_names_its_extra(choice: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hydra_app, "installed", lambda package: False)  # noqa: ARG005
    with pytest.raises(SystemExit, match=rf"MissingExtra: {choice} ".replace("[", r"\[")) as stop:
        hydra_app.main([choice])
    assert str(stop.value).endswith(message)
