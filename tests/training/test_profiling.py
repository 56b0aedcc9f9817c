"""The table of a measured step: its parts add up, and each is what it says."""

import json
import logging
import time
from pathlib import Path

import lightning as L
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from longdoc.training.profiling import PARTS, StepProfiler
from tests.models.tiny import PACKABLE
from tests.training.test_layers import Tagger, encoder_of

pytestmark = pytest.mark.filterwarnings("ignore:.*smaller than the logging interval")


class Module(L.LightningModule):
    def __init__(self, family: str) -> None:
        super().__init__()
        self.model = Tagger(encoder_of(family)).train()

    def training_step(self, batch, batch_idx):  # noqa: ARG002
        return self.model(batch).square().mean()

    def validation_step(self, batch, batch_idx):  # noqa: ARG002
        time.sleep(0.2)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


def loader(num_batches: int = 4, wait: float = 0.0) -> DataLoader:
    class Rows(list):
        def __getitem__(self, index):
            time.sleep(wait)
            return super().__getitem__(index)

    return DataLoader(Rows([torch.arange(8, 40).reshape(2, 16)] * num_batches), batch_size=None)


def measure(module: L.LightningModule, profiler: StepProfiler, train: DataLoader, folder: Path) -> None:
    L.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, num_sanity_val_steps=0, val_check_interval=2, profiler=profiler,
        default_root_dir=folder,
    ).fit(module, train, loader(1))  # fmt: skip


@pytest.mark.parametrize("family", [*PACKABLE, "Scratch"])
def test_every_family_has_every_part_and_they_add_up(family: str, tmp_path: Path) -> None:
    profiler = StepProfiler(num_steps=2, skip_steps=1)
    functions = dict(ALL_ATTENTION_FUNCTIONS)
    module = Module(family)
    measure(module, profiler, loader(), tmp_path)
    assert set(profiler.seconds) == set(PARTS)
    assert all(profiler.seconds[part] > 0 for part in PARTS)
    assert sum(profiler.seconds.values()) == pytest.approx(profiler.step_seconds)
    assert profiler.num_measured == 2
    assert dict(ALL_ATTENTION_FUNCTIONS) == functions
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def test_the_table_adds_up_and_validation_is_not_in_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    profiler = StepProfiler(num_steps=50, skip_steps=1, trace_path=tmp_path / "trace.json")
    with caplog.at_level(logging.INFO):
        measure(Module("Bert"), profiler, loader(wait=0.05), tmp_path)
    table = next(message for message in caplog.messages if message.startswith("Share of a training step, mean of 7"))
    rows = {line[:13].strip(): float(line[13:23]) for line in table.splitlines()[2:]}
    assert list(rows) == [*PARTS, "step"]
    assert sum(rows[part] for part in PARTS) == pytest.approx(rows["step"], abs=0.04)
    assert 50 <= rows["data"] < 150
    profiler.setup("test")
    assert profiler.summary() == ""
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]  # fewer steps than wanted leave one too


def test_a_training_too_short_to_be_measured_is_said() -> None:
    profiler = StepProfiler(skip_steps=3)
    profiler.setup("fit")
    assert profiler.summary().startswith("No training step was measured: the first 3 are left out")


def test_a_slow_part_shows_in_its_row(tmp_path: Path) -> None:
    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # noqa: ARG004
            time.sleep(0.02)
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):  # noqa: ARG004
            time.sleep(0.03)
            return gradient

    class SlowLinear(nn.Linear):
        def forward(self, input):
            return super().forward(Slow.apply(input))

    module = Module("Bert")
    layer = module.model.holder["model"].encoder.layer[0]
    layer.output.dense = SlowLinear(32, 24)
    profiler = StepProfiler(num_steps=3, skip_steps=1, trace_path=tmp_path / "new" / "trace.json")
    measure(module, profiler, loader(), tmp_path)
    assert 0.05 <= profiler.seconds["feed-forward"] / 3 < 0.09
    assert profiler.seconds["projections"] / 3 < 0.04
    assert json.loads((tmp_path / "new" / "trace.json").read_text())["traceEvents"]


def test_a_model_without_an_encoder_is_measured_too(tmp_path: Path) -> None:
    class Plain(Module):
        def __init__(self) -> None:
            L.LightningModule.__init__(self)
            self.model = nn.Embedding(64, 8)

    profiler = StepProfiler(num_steps=2, skip_steps=0)
    measure(Plain(), profiler, loader(), tmp_path)
    assert {part for part in PARTS if profiler.seconds[part] > 0} == {"data", "optimiser", "rest"}
