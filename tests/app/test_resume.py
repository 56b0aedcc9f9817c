"""A run that was ended goes on in its folder, and only with what it was started with."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser

from longdoc.app.environment import environment, without_secrets
from longdoc.app.resume import quoted, resumed_arguments
from longdoc.app.train import train
from longdoc.callbacks.last import last_checkpoints
from longdoc.errors import ConfigError
from tests.app.conftest import SMALL

Settings = dict[str, Any]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def settings(corpus: Path, cache: Path, composed: Callable[..., dict]) -> Callable[..., Settings]:
    def make(output: Path, *overrides: str) -> Settings:
        few = (f"data.path={corpus}", f"data.cache_dir={cache}", *SMALL, "trainer.max_epochs=3")
        return composed(*few, "callbacks.last.every_n_train_steps=2", *overrides, output_dir=output)

    return make


def stop_after(settings: Settings, step: int) -> Settings:
    path = f"{settings['output_dir']}/order.txt"
    watch = {"_target_": "tests.reliability.parts.Watch", "path": path, "stop_after": step}
    return {**settings, "callbacks": {"watch": watch, **settings["callbacks"]}}


@pytest.fixture
def ended(settings: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that got a signal in its second epoch."""
    monkeypatch.setenv("LONGDOC_ALLOWED_TARGETS", "tests.")
    with pytest.raises(SystemExit) as stop:
        train(stop_after(settings(tmp_path / "run"), 13))
    assert stop.value.code == 143
    return tmp_path / "run"


def test_a_run_that_was_ended_goes_on_to_the_same_scores(
    settings: Callable[..., Settings], ended: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert not (ended / "metrics.json").exists()
    assert [path.name for path in last_checkpoints(ended)] == ["last-13.ckpt", "last-12.ckpt"]
    unbroken = train(settings(tmp_path / "unbroken"))
    damaged = bytearray((ended / "last-13.ckpt").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (ended / "last-13.ckpt").write_bytes(damaged)
    resumed = train(settings(ended, f"resume={ended}"))
    assert "last-13.ckpt' is damaged" in caplog.text
    assert {**resumed, "speed": None} == {**unbroken, "speed": None}
    assert (ended / "predictions.jsonl").read_text() == (tmp_path / "unbroken" / "predictions.jsonl").read_text()
    assert (ended / "logs" / "metrics-to-step-12.csv").exists()
    assert not list(ended.glob(".*.part"))
    with pytest.raises(ConfigError, match="the run has come to its end"):
        train(settings(ended, f"resume={ended}"))


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("windows.overlap_tokens=4", "windows.overlap_tokens: 8, now 4"),
        ("optim.lr=1e-5", "optim.lr: 0.01, now 1e-05"),
        ("loss.focal_gamma=2.0", "loss.focal_gamma: 0.0, now 2.0"),
        ("teacher=somewhere", "teacher: None, now one"),
        ("task=multi_label", "task: ner, now multi_label"),
        ("data.max_tokens_per_batch=64", "data.max_tokens_per_batch: 128, now 64"),
        ("trainer.accumulate_grad_batches=2", "trainer.accumulate_grad_batches: 1, now 2"),
        ("seed=5", "seed: 0, now 5"),
        ("data.max_train_documents=9", "training documents"),
    ],
)
def test_what_has_changed_is_named(settings: Callable[..., Settings], ended: Path, override: str, named: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot go on, this has changed since it was started: .*{named}"):
        train(settings(ended, f"resume={ended}", override))


def test_a_refused_resume_leaves_the_folder_as_it_was(
    settings: Callable[..., Settings], ended: Path, corpus: Path, cache: Path
) -> None:
    (ended / ".hydra").mkdir()
    few = [f"data.path={corpus}", f"data.cache_dir={cache}", *SMALL, "trainer.max_epochs=3"]
    (ended / ".hydra" / "overrides.yaml").write_text(yaml.safe_dump([*few, "callbacks.last.every_n_train_steps=2"]))

    def content() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in ended.rglob("*") if path.is_file() and path.name != "train.log"}

    before = content()
    command = [sys.executable, str(ROOT / "train.py"), f"resume={ended}", "task=single_label"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ended.parent, check=False)
    assert done.returncode == 1
    assert "task: ner, now single_label" in done.stderr
    with pytest.raises(ConfigError, match="training documents"):
        train(settings(ended, f"resume={ended}", "data.max_train_documents=9", "trainer.max_epochs=4"))
    with pytest.raises(ConfigError, match=r"trainer\.max_steps=5: the run is at 13 already"):
        train(settings(ended, f"resume={ended}", "trainer.max_steps=5"))
    assert content() == before
    command = [*command[:-1], "trainer.max_epochs=4"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ended.parent, check=False)
    assert done.returncode == 0, done.stderr
    assert "trainer.max_epochs=4" in resumed_arguments([f"resume={ended}"])  # the next time, too


def test_changed_labels_are_named(settings: Callable[..., Settings], ended: Path, corpus: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(corpus, changed)
    for split in changed.glob("*.jsonl"):
        split.write_text(split.read_text().replace("PLACE", "CITY"))
    with pytest.raises(ConfigError, match=r"training documents; dev documents; labels: .*PLACE.*, now .*CITY"):
        train(settings(ended, f"resume={ended}", f"data.path={changed}"))


def test_a_folder_without_a_checkpoint_is_refused(settings: Callable[..., Settings], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a whole checkpoint to go on from in it, last-STEP\.ckpt"):
        train(settings(tmp_path, f"resume={tmp_path}"))
    with pytest.raises(ConfigError, match="a run goes on in its own folder"):
        train(settings(tmp_path, "resume=elsewhere"))


def test_environment_tells_how_a_run_was_made(ended: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.loads((ended / "environment.json").read_text())
    assert content["seed"] == 0
    assert content["packages"]["lightning"]
    assert content["cpu"]["cores"] >= 1
    assert len(content["git"]["commit"] or "0" * 40) == 40
    monkeypatch.setenv("MY_TOKEN", "planted-in-the-environment")
    assert "planted" not in json.dumps(environment(0))


def test_secrets_are_left_out_of_the_command() -> None:
    words = [
        "train.py",
        "data.max_tokens_per_batch=64",
        "+logger.wandb.api_key=abc",
        "hf_token=abc",
        "data.path=https://me:abc@host/x",
        "note=hf_abcabcabcabcabc",
    ]
    assert without_secrets(words) == [
        "train.py",
        "data.max_tokens_per_batch=64",
        "+logger.wandb.api_key=***",
        "hf_token=***",
        "data.path=https://***@host/x",
        "note=***",
    ]


def run_folder(folder: Path, overrides: list[str], finished: bool = False) -> Path:
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "overrides.yaml").write_text(yaml.safe_dump(overrides))
    (folder / "last-3.ckpt").touch()
    if finished:
        (folder / "metrics.json").touch()
    return folder


def test_overrides_of_the_run_come_back_and_given_ones_win(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "it's", ["recipe=legal_ner", "seed=1", "optim.lr=1", "resume=old"])
    assert resumed_arguments([f"resume={run}", "seed=2"]) == [
        "recipe=legal_ner",
        "optim.lr=1",
        "seed=2",
        f"resume='{tmp_path}/it\\'s'",
        f"hydra.run.dir='{tmp_path}/it\\'s'",
        "hydra.output_subdir=null",
        "hydra.mode=RUN",
    ]
    assert resumed_arguments(["seed=2"]) == ["seed=2"]
    assert resumed_arguments(["resume=null"]) == ["resume=null"]


@pytest.mark.parametrize(
    "value",
    ["null", "True", "007", "1e3", "nan", "a=b", "a b", "x,y", "(z)", "../up/x", "/a/b.c", "it's", "~/x", "${y}"],
)
def test_hydra_reads_a_quoted_value_as_it_was(value: str) -> None:
    assert OverridesParser.create().parse_override(f"key={quoted(value)}").value() == value


def test_auto_takes_the_newest_run_of_the_recipe_that_was_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert resumed_arguments(["recipe=a", "resume=auto"]) == ["recipe=a"]
    assert "a new one begins" in capsys.readouterr().err
    for name, finished in (("a/1", False), ("a/2/0", False), ("a/3", True), ("b/4", False)):
        run_folder(tmp_path / "outputs" / name, [f"recipe={name[0]}", "seed=7"], finished)
    assert resumed_arguments(["recipe=a", "resume=auto"]) == [
        "seed=7",
        "recipe=a",
        "resume=outputs/a/2/0",
        "hydra.run.dir=outputs/a/2/0",
        "hydra.output_subdir=null",
        "hydra.mode=RUN",
    ]


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected the folder of a run, with \.hydra/overrides\.yaml in it"):
        resumed_arguments([f"resume={tmp_path}"])
    with pytest.raises(ConfigError, match="leave out -m"):
        resumed_arguments(["-m", "resume=auto"])
