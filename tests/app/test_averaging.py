"""A run that averages its weights validates, saves, tests and predicts with the same ones."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

import longdoc
from longdoc.app.train import train
from tests.app.conftest import SMALL


def test_the_average_is_what_is_saved(corpus: Path, composed: Callable[..., dict], tmp_path: Path) -> None:
    config = composed(
        f"data.path={corpus}", f"data.cache_dir={tmp_path / 'cache'}", *SMALL, "trainer.max_epochs=6",
        "callbacks=[default,ema,early_stopping]", "callbacks.average.decay=0.5", output_dir=tmp_path / "run",
    )  # fmt: skip
    metrics = train(config)
    content = torch.load(tmp_path / "run" / "best.ckpt", weights_only=True)
    saved, current = content["state_dict"], content["current_model_state"]
    assert any(not torch.equal(saved[name], current[name]) for name in saved)
    module = longdoc.load(tmp_path / "run")
    assert all(torch.equal(tensor, saved[name]) for name, tensor in module.state_dict().items())
    dev = [json.loads(line) for line in (corpus / "dev.jsonl").read_text().splitlines()]
    scores = longdoc.SpanF1(module.tags.labels)
    scores.update([module.predict(longdoc.Document(row["id"], row["text"], gold(row))) for row in dev])
    assert metrics["dev"]["best_score"] == pytest.approx(float(scores.compute()["f1"]), abs=1e-6)
    assert yaml.safe_load((tmp_path / "run" / "logs" / "hparams.yaml").read_text())["seed"] == 0


def gold(row: dict) -> tuple[longdoc.Span, ...]:
    return tuple(longdoc.Span(entity["start"], entity["end"], entity["label"]) for entity in row["entities"])
