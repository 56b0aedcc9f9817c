"""Monitors of attention: planted faults are named, clean runs are silent."""

import re
from collections.abc import Callable
from typing import Any

import lightning as L
import pytest
import torch
from torch import nn

from longdoc.callbacks import AttentionEntropy, HeadSimilarity, InputDrift, OutputDrift, ScoreRange
from longdoc.callbacks.attention import output_sizes
from longdoc.errors import ConfigError
from longdoc.models.hf_attention import AttentionConfig, apply_attention
from tests.callbacks.models import EncoderModule, texts, tokenizer, trainer
from tests.models.tiny import tiny_encoder

NUM_STEPS = 30
HEAD = 8  # width of a head


class Plant(L.Callback):
    """Does something to the attention of a layer after a step."""

    def __init__(self, step: int, fault: Callable[[nn.Module], None], layer: int = 1) -> None:
        self.step, self.fault, self.layer = step, fault, layer

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            with torch.no_grad():
                self.fault(pl_module.tagger.bert.encoder.layer[self.layer])


def one_token(layer: Any) -> None:
    """Head 1 reads the same token from everywhere."""
    layer.attention.self.query.weight[HEAD : 2 * HEAD] = 0
    layer.attention.self.query.bias[HEAD : 2 * HEAD] = 100
    layer.attention.self.key.weight[HEAD : 2 * HEAD] *= 100


def uniform(layer: Any) -> None:
    layer.attention.self.query.weight.zero_()
    layer.attention.self.query.bias.zero_()


def nearly_uniform(layer: Any) -> None:
    layer.attention.self.query.weight.mul_(1e-2)
    layer.attention.self.query.bias.mul_(1e-2)


def twins(layer: Any) -> None:
    """Head 2 becomes head 0."""
    for part in (layer.attention.self.query, layer.attention.self.key):
        part.weight[2 * HEAD :] = part.weight[:HEAD]
        part.bias[2 * HEAD :] = part.bias[:HEAD]


def large(layer: Any) -> None:
    layer.attention.self.query.bias.fill_(3e3)
    layer.attention.self.key.bias.fill_(3e3)


def not_a_number(layer: Any) -> None:
    layer.intermediate.dense.weight[0, 0] = torch.nan


def fit(*callbacks: L.Callback, module: L.LightningModule | None = None, **settings: Any) -> None:
    module = EncoderModule(num_layers=4) if module is None else module
    trainer(*callbacks, max_epochs=1, **settings).fit(module, texts(NUM_STEPS), texts(2, seed=1))


FAULTS = [
    (AttentionEntropy, one_token, r"layer 1: attention is collapsed in heads 1 \("),
    (AttentionEntropy, uniform, r"layer 1: attention is uniform in heads 0 \(100.00%\), 1 \(100.00%\), 2 \("),
    (AttentionEntropy, nearly_uniform, "layer 1: attention is uniform in heads 0 "),
    (HeadSimilarity, twins, "layer 1: same heads 0-2$"),
    (ScoreRange, large, r"layer 1: products of queries and keys reach 7\d,\d{3},\d{3}; fp16 ends at 65,504"),
]


@pytest.mark.parametrize(("make", "fault", "told"), FAULTS)
def test_a_fault_that_comes_in_the_run_is_named_once(make: Any, fault: Callable, told: str, caplog: Any) -> None:
    monitor = make(every_n_steps=5)
    fit(Plant(20, fault), monitor, module=EncoderModule(num_layers=4, initializer_range=0.2))
    (message,) = set(monitor.alarms.values())
    assert re.search(told, message)
    assert caplog.text.count(f"{make.__name__}: layer 1") == 1


@pytest.mark.parametrize(("make", "fault", "told"), [fault for fault in FAULTS if fault[1] is not nearly_uniform])
def test_a_fault_that_is_there_from_the_start_is_named(make: Any, fault: Callable, told: str) -> None:
    module, monitor = EncoderModule(num_layers=4, initializer_range=0.2), make()
    layer = module.tagger.bert.encoder.layer[1]
    with torch.no_grad():
        fault(layer.requires_grad_(False))
    fit(monitor, module=module)
    assert any(re.search(told, message) for message in monitor.alarms.values())


def test_the_first_module_that_is_not_finite_is_named(caplog: Any) -> None:
    monitor = ScoreRange()
    fit(Plant(7, not_a_number, layer=3), monitor)
    assert monitor.alarms == {
        "loss": "step 8: the loss is not finite; the first such output is tagger.bert.encoder.layer.3.intermediate.dense"
    }
    assert "ScoreRange: step 8: the loss is not finite" in caplog.text


def test_a_loss_that_breaks_behind_the_encoder_is_told_apart() -> None:
    class Broken(EncoderModule):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return super().training_step(batch, batch_idx) * (torch.nan if batch_idx == 3 else 1)

    monitor = ScoreRange()
    fit(monitor, module=Broken(), accumulate_grad_batches=2)
    assert monitor.alarms == {"loss": "step 2: the loss is not finite; the encoder is fine, look at head and loss"}


def test_activations_that_do_not_fit_half_precision_are_named() -> None:
    def loud(layer: Any) -> None:
        layer.output.dense.bias[0] = 5e4

    monitor = ScoreRange(every_n_steps=1)
    fit(Plant(4, loud), monitor)
    assert monitor.alarms == {
        "activation": "the output of tagger.bert.encoder.layer.1.output.dense reaches 50,000; fp16 ends at 65,504"
    }


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))])
def test_clean_runs_raise_no_alarm(seed: int) -> None:
    module = EncoderModule(num_layers=2, initializer_range=0.1 if seed % 2 else 0.2)
    torch.manual_seed(seed)
    for parameter in module.tagger.parameters():
        parameter.data += 0.02 * torch.randn_like(parameter)
    module.tokenizer = tokenizer()
    probes = [make(every_n_steps=3) for make in (AttentionEntropy, HeadSimilarity, ScoreRange)]
    monitors = *probes, InputDrift(), OutputDrift()
    run = trainer(*monitors, max_epochs=1, val_check_interval=10)
    run.fit(module, texts(NUM_STEPS, seed=seed), texts(3, seed=100 + seed))
    for more in (texts(1, seed=200 + seed), texts(5, seed=300 + seed)):
        run.test(module, more, verbose=False)
        run.predict(module, more, return_predictions=False)
    assert [monitor.alarms for monitor in monitors] == [{}] * 5
    assert [len(monitor.latest) for monitor in monitors] == [2, 2, 3, 3 * 5, 2 * 3]


def test_the_attention_engine_gives_the_same_numbers_and_a_model_is_left_as_it_was() -> None:
    latest = []
    for ours in (False, True):
        module, monitor = EncoderModule(), AttentionEntropy()
        if ours:
            apply_attention(module.tagger, AttentionConfig())
        hooks = len(module.tagger.bert._forward_pre_hooks)
        fit(monitor, module=module)
        assert len(module.tagger.bert._forward_pre_hooks) == hooks
        latest.append(monitor.latest)
    assert latest[0] == pytest.approx(latest[1], abs=1e-4)
    assert list(latest[0]) == ["attention/entropy/layer_0", "attention/entropy/layer_1"]
    assert 0.9 < latest[0]["attention/entropy/layer_0"] < 1


def test_the_probe_is_what_is_read_first_and_bounded() -> None:
    monitor = AttentionEntropy(every_n_steps=7, max_tokens=70)
    first = next(iter(texts(2, rows=5, seed=1)))
    data = texts(NUM_STEPS), texts(2, rows=5, seed=1)
    trainer(monitor, max_epochs=1).fit(EncoderModule(), *data)
    assert (
        monitor.probe[0] == next(iter(data[0]))["input_ids"][0][next(iter(data[0]))["attention_mask"][0] > 0].tolist()
    )
    run = L.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        callbacks=[monitor],
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    run.fit(EncoderModule(), *data)
    rows = [ids[mask > 0].tolist() for ids, mask in zip(first["input_ids"], first["attention_mask"], strict=True)]
    assert monitor.probe == rows[: len(monitor.probe)]
    assert sum(map(len, monitor.probe)) <= 70 < sum(map(len, rows[: len(monitor.probe) + 1]))


def test_an_encoder_is_found_named_or_refused() -> None:
    class Two(EncoderModule):
        def __init__(self) -> None:
            super().__init__()
            self.other = tiny_encoder("Bert").train()

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return super().training_step(batch, batch_idx) + 0 * sum(p.sum() for p in self.other.parameters())

    with pytest.raises(ConfigError, match="expected one Hugging Face encoder, got 'tagger', 'other'; name the one"):
        fit(AttentionEntropy(), module=Two())
    monitor = AttentionEntropy(encoder="tagger")
    fit(monitor, module=Two())
    assert monitor.latest
    deberta = EncoderModule()
    deberta.tagger = tiny_encoder("DebertaV2", "ForTokenClassification").train()
    with pytest.raises(ConfigError, match="DebertaV2Model: its attention does not go through AttentionInterface"):
        fit(AttentionEntropy(), module=deberta)
    with pytest.raises(ConfigError, match="every_n_steps=0: expected an integer from 1"):
        AttentionEntropy(every_n_steps=0)


def test_output_sizes_in_the_order_in_which_modules_end() -> None:
    root = nn.ModuleDict({"body": nn.Sequential(nn.Linear(2, 2), nn.ReLU())})
    root["body"][0].weight.data = torch.tensor([[3.0, 0.0], [0.0, -4.0]])
    root["body"][0].bias.data.zero_()
    sizes = output_sizes(root, root["body"], lambda: [root["body"](torch.ones(1, 2)), root["body"](-torch.ones(1, 2))])
    assert list(sizes.items()) == [("body.0", 4.0), ("body.1", 4.0), ("body", 4.0)]
    assert not root["body"][0]._forward_hooks
