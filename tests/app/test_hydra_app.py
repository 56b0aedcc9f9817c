"""What the command line says when something is wrong, and that it helps with tab completion."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf

from longdoc.app import hydra_app
from longdoc.app.hints import hints
from longdoc.app.recipes import register_recipes
from longdoc.errors import ConfigError

ROOT = Path(__file__).parents[2]


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "train.py"), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment}, check=False
    )


def test_unknown_recipe_lists_the_recipes(tmp_path: Path) -> None:
    done = run("recipe=legal", cwd=tmp_path)
    assert done.returncode == 1
    assert "Could not find 'recipe/legal'" in done.stderr
    assert "legal_ner" in done.stderr


def test_unknown_choice_lists_the_choices(tmp_path: Path) -> None:
    done = run("strategy=chunks", cwd=tmp_path)
    assert done.returncode == 1
    assert "chunk\n" in done.stderr
    assert "truncate\n" in done.stderr


def test_our_errors_are_one_line_unless_all_is_asked_for(tmp_path: Path) -> None:
    done = run("data.path=nowhere", cwd=tmp_path)
    assert done.returncode == 1
    assert "DataError: nowhere: no such file or folder" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in run("data.path=nowhere", cwd=tmp_path, HYDRA_FULL_ERROR="1").stderr


@pytest.mark.parametrize(
    ("score", "given"), [(0.5, 0.5), (math.nan, None), (-math.inf, None), (ConfigError("too small"), None)]
)
def test_a_job_without_a_score_gives_a_sweep_none(
    score: float | Exception, given: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(_: object) -> float:
        if isinstance(score, Exception):
            raise score
        return score

    hydra = {"mode": RunMode.MULTIRUN, "runtime": {"output_dir": str(tmp_path)}}
    monkeypatch.setattr(HydraConfig.instance(), "cfg", OmegaConf.create({"hydra": hydra}))
    monkeypatch.setattr("longdoc.app.train.run", job)
    assert hydra_app._task(OmegaConf.create()) == given
    assert (tmp_path / "error.txt").exists() == isinstance(score, Exception)


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        (
            "optim.lrr=1",
            "optim has no 'lrr'. Did you mean optim.lr? There is: lr, weight_decay, layer_decay, warmup_steps,",
        ),
        (
            "datas=x",
            "The configuration has no 'datas'. Did you mean data? There is: aggregation, attention, callbacks, data,",
        ),
        (
            "model.scratch.depth=2",
            "model.scratch has no 'depth'. Did you mean model.scratch.width? There is: vocab_size",
        ),
    ],
)
def test_unknown_key_lists_the_keys(argument: str, hint: str) -> None:
    register_recipes()
    assert [line.startswith(hint) for line in hints(["recipe=legal_ner", "output_dir=here", argument, "-m"])] == [True]


def test_known_and_added_keys_need_no_hint() -> None:
    assert list(hints(["data=files", "optim.lr=1,2", "+windows.more=1", "~logger"])) == []
    assert list(hints(["optim.lr=["])) == []


def test_tab_completion_knows_recipes_and_keys(tmp_path: Path) -> None:
    for line, expected in (
        ("recipe=", "recipe=legal_ner"),
        ("strategy=", "strategy=truncate"),
        ("windows.o", "windows.overlap_tokens="),
    ):
        done = run(
            "-sc", "query=bash", cwd=tmp_path, COMP_LINE=f"python train.py {line}", COMP_POINT=str(16 + len(line))
        )
        assert expected in done.stdout.split(), (line, done.stdout, done.stderr)


def test_a_broken_recipe_harms_no_other_and_is_named_when_chosen(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "broken.yaml").write_text("a: [1\n")
    (tmp_path / "recipes" / "mine.yaml").write_text("defaults:\n  - legal_ner\n  - _self_\nseed: 7\n")
    done = run("recipe=mine", "trainer.max_epochs=3", "--cfg", "job", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "seed: 7" in done.stdout
    assert "max_epochs: 3" in done.stdout
    done = run("recipe=broken", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("recipe 'broken': ")
    assert "recipes/broken.yaml cannot be read" in done.stderr
    assert done.stderr.count("\n") == 1
