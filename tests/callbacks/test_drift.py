"""Drift of inputs and outputs: planted shifts are named, clean runs are silent, the baseline travels."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
import transformers
from torch.utils.data import DataLoader

from longdoc.callbacks import InputDrift, OutputDrift
from longdoc.callbacks.drift import drift, input_tally, ks, label_counts, output_tally, psi
from longdoc.callbacks.vocabulary import Vocabulary
from longdoc.errors import ConfigError
from longdoc.models.batch import WindowRef, collate
from longdoc.text.documents import Span
from longdoc.text.preprocess import EncodedDocument
from longdoc.text.results import ClassificationResult, DocumentResult
from longdoc.text.selection import Selection
from longdoc.text.windows import Windower
from tests.callbacks.models import VOCAB, EncoderModule, ForeignModule, loader, texts, tokenizer, trainer
from tests.training import little

NUM_BATCHES = 40


def test_psi_by_hand() -> None:
    before, now = Counter(a=6000, b=4000), Counter(a=3000, b=7000)
    plain = (0.3 - 0.6) * math.log(0.3 / 0.6) + (0.7 - 0.4) * math.log(0.7 / 0.4)
    assert psi(before, now) == pytest.approx(plain - 2 * 2 / 10000, abs=1e-3)
    assert psi(before, before) == 0
    assert psi(Counter(), now) == 0
    assert psi(Counter(a=10, b=10), Counter(a=2)) == 0


def test_ks_by_hand() -> None:
    before, now = Counter({1: 500, 2: 300, 5: 200}), Counter({2: 500, 5: 400, 7: 100})
    assert ks(before, now) == pytest.approx(0.5)
    assert ks(Counter({1: 5}), Counter({2: 3})) == 0
    assert drift({"length": before, "labels": Counter(a=1)}, {"length": now}) == {"length": ks(before, now)}


def test_what_is_counted_of_inputs() -> None:
    vocabulary = Vocabulary(tokenizer())
    ids = np.array([2, 5, 6, 7, 3, 2, 1, 3, 2, 3])
    tally = input_tally(ids, [5, 3, 2], vocabulary)
    assert tally == {
        "tokens": Counter({5: 1, 6: 1, 7: 1, 1: 1}),
        "length": Counter({round(4 * math.log2(3)): 1, 0: 1}),
        "unknown": Counter({0: 1, 7: 1}),
        "fertility": Counter({15: 1, 10: 1}),
    }
    assert input_tally(ids, [5, 3, 2], None)["length"] == Counter({9: 1, 6: 1, 4: 1})
    ours = Vocabulary(little.preprocessor().tokenizer)
    assert ours.starts_word.any()
    assert not ours.starts_word.all()
    assert ours.encode("the case")[0] in ours.special_ids
    assert "".join(ours.shown(ours.encode("the case")[1:-1])).replace("##", "") == "thecase"


def test_what_is_counted_of_labels_and_outputs() -> None:
    assert label_counts({"labels": torch.tensor([[1, -100], [1, 2]])}) == Counter({1: 2, 2: 1})
    assert label_counts({"labels": torch.tensor([0.5])}) == Counter()
    assert label_counts(transformers.BatchEncoding({"labels": torch.tensor([[1, -100]])})) == Counter({1: 1})
    encoded = little.preprocessor()(little.document(0))
    assert isinstance(encoded, EncodedDocument)
    assert label_counts([encoded]).total() == len(encoded.words)
    prepared = little.preprocessor()
    truncated = replace(prepared, windower=Windower(32, mode="truncate"))(little.document(0))
    assert label_counts([truncated]) == label_counts(collate([WindowRef(truncated, 0)], prepared.tokenizer))
    selected = replace(prepared, selection=Selection("lead", 20))(little.document(0))
    assert label_counts([selected]).total() == (selected.first_token >= 0).sum() < len(selected.words)
    results = [
        DocumentResult("a", "text", None, (Span(0, 1, "X", 0.91), Span(2, 3, "Y", 0.5))),
        DocumentResult("b", "text", None, ()),
        ClassificationResult("c", "text", None, ("Z",), {"Z": 0.7, "Q": 0.3}),
        ClassificationResult("d", "text", None, 3.5, {}),
    ]
    assert output_tally(results) == {
        "labels": Counter(X=1, Y=1, Z=1),
        "confidence": Counter({9: 1, 5: 1, 7: 1}),
        "empty": Counter({0: 2, 1: 1}),
    }


class WithTokenizer(EncoderModule):
    def __init__(self) -> None:
        super().__init__()
        self.tokenizer = tokenizer()


def unknown(loader: DataLoader) -> DataLoader:
    """A tenth of the tokens is unknown."""
    for batch in loader.dataset:
        batch["input_ids"][:, ::10] = batch["input_ids"][:, ::10].clamp(max=1)
    return loader


def pieces(loader: DataLoader) -> DataLoader:
    """Words fall apart."""
    for batch in loader.dataset:
        ids = batch["input_ids"]
        ids[:, ::3] = (ids[:, ::3] // 3 * 3 + 6).clamp(max=VOCAB - 1) * (ids[:, ::3] > 0)
    return loader


SHIFTS = {
    "tokens": lambda: texts(20, first=5, last=30, seed=1),
    "length": lambda: texts(20, size=10, seed=1),
    "labels": lambda: texts(20, num_labels=2, seed=1),
    "unknown": lambda: unknown(texts(20, seed=1)),
    "fertility": lambda: pieces(texts(20, seed=1)),
}


@pytest.mark.parametrize("name", SHIFTS)
def test_a_shift_of_inputs_is_named(name: str, caplog: Any) -> None:
    monitor = InputDrift()
    trainer(monitor, max_epochs=1).fit(WithTokenizer(), texts(NUM_BATCHES), SHIFTS[name]())
    assert f"dev/{name}" in monitor.alarms
    assert f"InputDrift: input {name} in dev are not those of the baseline" in caplog.text
    assert monitor.latest[f"dev/drift/input_{name}"] > 0.3


def test_the_baseline_is_the_first_epoch_and_travels_with_the_checkpoint(tmp_path: Path) -> None:
    monitor = InputDrift()
    run = trainer(monitor, max_epochs=2)
    run.fit(WithTokenizer(), texts(NUM_BATCHES), texts(3, seed=1))
    assert monitor.baseline["length"].total() == 2 * NUM_BATCHES
    run.save_checkpoint(tmp_path / "whole.ckpt")
    other = InputDrift()
    run = trainer(other)
    run.predict(WithTokenizer(), SHIFTS["tokens"](), ckpt_path=tmp_path / "whole.ckpt", weights_only=True)
    assert list(other.alarms) == ["predict/tokens"]
    assert other.baseline == monitor.baseline
    alone = InputDrift()
    alone.restore(tmp_path / "whole.ckpt")
    assert alone.state_dict() == monitor.state_dict()
    run.save_checkpoint(tmp_path / "weights.ckpt", weights_only=True)
    alone.restore(tmp_path / "weights.ckpt")
    assert alone.baseline


class Stop(L.Callback):
    """Saves after three steps, and ends the run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step == 3:
            trainer.save_checkpoint(self.path)
            raise InterruptedError


def test_a_baseline_that_was_stopped_in_the_middle_goes_on(tmp_path: Path) -> None:
    def fit(*callbacks: L.Callback, ckpt_path: Path | None = None) -> None:
        run = little.trainer(tmp_path, 1)
        run.callbacks += callbacks
        run.fit(little.module(), datamodule=little.data(tmp_path), ckpt_path=ckpt_path, weights_only=True)

    whole, stopped, resumed = InputDrift(), InputDrift(), InputDrift()
    fit(whole)
    with pytest.raises(InterruptedError):
        fit(stopped, Stop(tmp_path / "stop.ckpt"))
    fit(resumed, ckpt_path=tmp_path / "stop.ckpt")
    assert resumed.state_dict() == whole.state_dict()
    assert resumed.state_dict()["complete"]


def test_a_shift_of_outputs_is_named() -> None:
    class Says(EncoderModule):
        said: tuple[Span, ...] = (Span(0, 1, "X", 0.9), Span(2, 3, "Y", 0.9))

        def validation_step(self, batch: Any, batch_idx: int) -> list[DocumentResult]:  # type: ignore[override]  # noqa: ARG002
            return [DocumentResult(f"{batch_idx}-{i}", "text", None, self.said) for i in range(20)]

    monitor, module = OutputDrift(), Says()
    run = trainer(monitor, max_epochs=1)
    run.fit(module, texts(2), texts(2))
    run.test(module, texts(2), verbose=False)
    assert not monitor.alarms
    for said, name in (
        ((Span(0, 1, "X", 0.9),), "labels"),
        ((Span(0, 1, "X", 0.5), Span(2, 3, "Y", 0.5)), "confidence"),
        ((), "empty"),
    ):
        module.said, monitor.alarms = said, {}
        run.test(module, texts(2), verbose=False)
        assert list(monitor.alarms) == [f"test/{name}"]


def test_outputs_without_a_baseline_are_not_mute(caplog: Any) -> None:
    monitor = OutputDrift()
    trainer(monitor, max_epochs=2).fit(ForeignModule(), loader(), loader())
    assert caplog.text.count("validation steps return no results") == 1


@pytest.mark.parametrize("found", ["bert-base-cased", tokenizer().backend_tokenizer, int])
def test_what_is_no_tokenizer_of_transformers_is_passed_over_unless_it_is_named(found: Any) -> None:
    module = EncoderModule()
    module.tokenizer = found
    monitor = InputDrift()
    trainer(monitor, max_epochs=1).fit(module, texts(1), texts(1))
    assert set(monitor.baseline) == {"tokens", "length", "labels"}
    with pytest.raises(ConfigError, match="tokenizer='tokenizer': expected a tokenizer of transformers, got "):
        trainer(InputDrift(tokenizer="tokenizer")).fit(module, texts(1), texts(1))


def test_a_tokenizer_that_is_named_must_be_there() -> None:
    with pytest.raises(ConfigError, match="tokenizer='words': neither module nor datamodule has such an attribute"):
        trainer(InputDrift(tokenizer="words")).fit(EncoderModule(), texts(1), texts(1))


def test_our_own_modules_and_batches_are_counted(tmp_path: Path) -> None:
    monitor = InputDrift()
    run = little.trainer(tmp_path, 1)
    run.callbacks.append(monitor)
    module = little.module()
    run.fit(module, datamodule=little.data(tmp_path))
    assert not monitor.alarms
    assert set(monitor.baseline) == {"tokens", "length", "unknown", "fertility", "labels"}
    assert monitor.baseline["labels"].keys() <= set(range(len(module.tags)))
    assert {f"dev/drift/input_{name}" for name in monitor.baseline} == set(monitor.latest)
