"""A whole run, and what it leaves behind."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from transformers import BertConfig, BertModel

import longdoc
from longdoc.app.build import build, complete, labels_of, make
from longdoc.app.model import ModelSettings
from longdoc.app.quiet import quieten
from longdoc.app.train import fit_and_test, train
from longdoc.errors import ConfigError, DataError
from longdoc.models.encoder import AttentionConfig
from longdoc.text.documents import Document
from longdoc.text.windows import Windower
from longdoc.training.profiling import StepProfiler
from longdoc.training.store import store_documents
from tests.app.conftest import SMALL

ROOT = Path(__file__).parents[2]


def test_leaves_configuration_checkpoint_scores_and_predictions(small_run: Path, corpus: Path) -> None:
    config = yaml.safe_load((small_run / "config.yaml").read_text())
    assert config["data"]["path"] == str(corpus)
    assert config["optim"]["lr"] == 0.01
    metrics = json.loads((small_run / "metrics.json").read_text())
    assert metrics["strategy"] == "chunk"
    assert metrics["dev"]["best_score"] > 0.9
    assert metrics["test"]["f1"] > 0.9
    assert set(metrics["test"]["labels"]) == {"PERSON", "PLACE"}
    assert set(metrics["test"]["slices"]) == {"rest", "far"}
    assert metrics["test"]["seqeval"]["scheme"] == "IOB2"
    assert metrics["test"]["seqeval"]["mode"] == "strict"
    assert metrics["test"]["lost"] == {}
    assert metrics["train"]["num_documents"] == 10
    assert metrics["train"]["lost"] == {}
    assert metrics["speed"]["train_tokens_per_second"] > 0
    assert metrics["speed"]["test_tokens_per_second"] > 0
    assert metrics["speed"]["peak_memory_mb"] > 0


def test_predictions_are_those_of_the_checkpoint(small_run: Path, corpus: Path) -> None:
    rows = [json.loads(line) for line in (small_run / "predictions.jsonl").read_text().splitlines()]
    documents = [json.loads(line) for line in (corpus / "test.jsonl").read_text().splitlines()]
    assert sorted(row["id"] for row in rows) == sorted(document["id"] for document in documents)
    module = longdoc.load(small_run)
    for document in documents:
        found = next(row["spans"] for row in rows if row["id"] == document["id"])
        again = module.predict(document["text"]).predicted
        assert [(s["start"], s["end"], s["label"]) for s in found] == [s.key for s in again]
        assert all(0 <= span["score"] <= 1 for span in found)


def test_checkpoint_holds_nothing_but_plain_containers_and_tensors(small_run: Path) -> None:
    content = torch.load(small_run / "best.ckpt", weights_only=True)
    assert content["longdoc"]["task"] == "ner"
    assert "hyper_parameters" not in content


def test_truncation_is_counted(
    corpus: Path, composed: Callable[..., dict], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    config = composed(
        f"data.path={corpus}", f"data.cache_dir={tmp_path}", *SMALL, "strategy=truncate", "trainer.max_epochs=1",
        "windows.overlap_tokens=0", output_dir=tmp_path,
    )  # fmt: skip
    metrics = train(config)
    assert metrics["test"]["lost"]["truncated"] > 10
    assert metrics["test"]["num_truncated_documents"] == 4
    printed = capsys.readouterr().out
    assert "stand beyond what was read" in printed
    assert "4 of 4 documents were not read whole" in printed


def test_outputs_are_compared_with_those_of_the_tested_checkpoint(
    corpus: Path, composed: Callable[..., dict], tmp_path: Path
) -> None:
    config = complete(composed(
        f"data.path={corpus}", f"data.cache_dir={tmp_path}", *SMALL, "callbacks=[default,drift]",
        "callbacks.best.mode=min", "trainer.max_epochs=4", "logger=none", output_dir=tmp_path / "run",
    ))  # fmt: skip
    parts = build(config)
    with quieten():
        fit_and_test(config, parts)
    files = tmp_path / "run" / "best.ckpt", next((tmp_path / "run").glob("last-*.ckpt"))
    baselines = [torch.load(file, weights_only=True)["callbacks"]["OutputDrift"]["baseline"] for file in files]
    assert baselines[0] != baselines[1]
    assert parts.callbacks["output_drift"].state_dict()["baseline"] == baselines[0]


def test_bars_of_transformers_stay_out_of_files(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    config = BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    BertModel(config).save_pretrained(tmp_path)
    capfd.readouterr()
    with quieten():
        BertModel.from_pretrained(tmp_path)
    assert capfd.readouterr().err == ""
    BertModel.from_pretrained(tmp_path)
    assert "Loading weights" in capfd.readouterr().err


def test_a_setting_at_the_top_that_does_not_exist_is_refused(composed: Callable[..., dict]) -> None:
    with pytest.raises(ConfigError, match=r"^sed: no such key at the top level; expected task, data"):
        complete({**composed(), "sed": 1})


@pytest.mark.parametrize(("name", "lr"), [("null", 3e-3), ("some/encoder", 5e-5)])
def test_learning_rate_follows_the_encoder_unless_it_is_set(
    composed: Callable[..., dict], name: str, lr: float
) -> None:
    assert complete(composed(f"model.name={name}"))["optim"]["lr"] == lr
    assert complete(composed(f"model.name={name}", "optim.lr=0.25"))["optim"]["lr"] == 0.25


def test_epochs_follow_the_data_unless_they_are_set(composed: Callable[..., dict]) -> None:
    assert complete(composed())["trainer"]["max_epochs"] == 1
    assert complete(composed("data.path=cases"))["trainer"]["max_epochs"] == 10
    assert complete(composed("data.path=cases", "trainer.max_epochs=3"))["trainer"]["max_epochs"] == 3


@pytest.mark.parametrize("setting", ["check_val_every_n_epoch=2", "limit_val_batches=0", "max_steps=0"])
def test_a_run_that_would_keep_nothing_is_refused(
    corpus: Path, composed: Callable[..., dict], tmp_path: Path, setting: str
) -> None:
    few = [f"data.path={corpus}", f"data.cache_dir={tmp_path}", *SMALL, "trainer.max_epochs=1", f"trainer.{setting}"]
    with pytest.raises(ConfigError, match="no validation would take place"):
        train(composed(*few, output_dir=tmp_path / "run"))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("seed=null", "seed=None: expected an integer from 0"),
        ("seed=-1", "seed=-1: expected an integer from 0"),
        ("optim.lr=abc", "OptimizerConfig: .*lr='abc'"),
        ("model.pool=foo", "model.pool='foo': expected one of first, mean"),
        ("model.subword=foo", "model.subword='foo': expected one of first, mean, max"),
        ("model.tag_scheme=foo", "model.tag_scheme='foo': expected one of BIOES, IOB2"),
        ("model.dropout=2", "model.dropout=2: expected a number from 0 to below 1"),
        ("model.attention_dropout=-1", "model.attention_dropout=-1: expected a number from 0 to below 1"),
        ("model.max_tokens_per_forward=0", "model.max_tokens_per_forward=0: expected an integer from 1"),
        ("model.scratch.num_heads=0", "model.scratch.num_heads=0: expected an integer from 1"),
        ("+model.scratch.depth=2", "model.scratch: .*unexpected keyword argument 'depth'.*; it was given width, "),
        ("model.scratch.num_layers=1.5", "model.scratch.num_layers=1.5: expected an integer from 1"),
        ("model.scratch.dropout=a", "model.scratch.dropout='a': expected a number from 0 to below 1"),
        ("model.scratch.vocab_size=0", "model.scratch.vocab_size=0: expected an integer from 1"),
        ("attention.packed=foo", "attention.packed='foo': expected one of auto, never"),
        ("attention.global_tokens=3", "attention.global_tokens=3: expected a list of positions from 0"),
        ("attention.global_tokens=[a]", r"attention.global_tokens=\['a'\]: expected a list of positions from 0"),
        ("data.num_workers=-1", "data.num_workers=-1: expected an integer from 0"),
        ("data.max_tokens_per_batch=null", "data.max_tokens_per_batch=None: expected an integer from 1"),
        ("data.max_train_documents=0", "data.max_train_documents=0: expected an integer from 1"),
        ("data.overlapping=foo", "data.overlapping='foo': expected one of error, outermost"),
        ("data.language=null", "data.language=None: expected an ISO 639-1 code"),
        ("loss.weight=foo", "loss.weight='foo': expected one of none, inverse"),
        ("loss.focal_gamma=-1", "loss.focal_gamma=-1: expected 0 or more"),
        ("selection.method=foo", "selection method='foo': expected one of none, lead"),
        ("+aggregation.num_layers=2", "aggregation.num_layers: no such key; expected method"),
        ("task=foo", "task='foo': expected one of ner, single_label"),
        ("windows.size_tokens=abc", "windows size_tokens='abc'"),
    ],
)
def test_values_of_a_wrong_type_are_named(composed: Callable[..., dict], setting: str, message: str) -> None:
    config = composed(setting)

    def start() -> None:
        complete(config)
        made = make(config[setting.lstrip("+").partition(".")[0]])
        if isinstance(made, ModelSettings):
            made.encoder(["text"], AttentionConfig(), Windower())

    with pytest.raises(ConfigError, match=message):
        start()


def test_training_data_without_gold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected annotated entities, got none"):
        labels_of(store_documents([Document("a", "text", ())], tmp_path, "key"))


def test_a_dev_split_without_entities_is_said(
    corpus: Path, composed: Callable[..., dict], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for split in ("train", "dev"):
        rows = [json.loads(line) for line in (corpus / "dev.jsonl").read_text().splitlines()]
        rows = [row | {"entities": row["entities"] if split == "train" else []} for row in rows]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    build(complete(composed(f"data.path={tmp_path}", f"data.cache_dir={tmp_path / 'cache'}", *SMALL)))
    assert "split dev: expected annotated entities to choose the best checkpoint by, got none" in caplog.text


@pytest.mark.parametrize(("name", "trace"), [("simple", None), ("pytorch", "nowhere/trace.json")])
def test_profilers_of_that_name_are_ours(composed: Callable[..., dict], name: str, trace: str | None) -> None:
    profiler = make(complete(composed(f"trainer.profiler={name}"))["trainer"]["profiler"])
    assert isinstance(profiler, StepProfiler)
    assert profiler.trace_path == trace


@pytest.mark.slow
def test_command_line_runs_and_sweeps(corpus: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(ROOT / "train.py"),
        "-m",
        "recipe=legal_ner",
        f"data.path={corpus}",
        *SMALL,
        "seed=1,2",
    ]
    environment = {**os.environ, "LONGDOC_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    done = subprocess.run(
        [*command, "trainer.max_epochs=1"], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    runs = sorted(path.parent for path in tmp_path.glob("outputs/legal_ner/*/*/metrics.json"))
    assert [json.loads((run / "metrics.json").read_text())["seed"] for run in runs] == [1, 2]
    assert all((run / name).is_file() for run in runs for name in ("best.ckpt", "config.yaml", "predictions.jsonl"))
    first, second = (longdoc.load(run) for run in runs)
    assert not torch.equal(first.head.linear.weight, second.head.linear.weight)
    assert "arning" not in done.stderr
    assert "strict entity scores" in done.stdout
