"""Callbacks on a foreign model: what they do."""

import csv
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import RichProgressBar
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import FSDPStrategy
from torch.utils.data import DataLoader

from longdoc.callbacks import (
    OptimizerMonitor,
    PlainProgress,
    PredictionWriter,
    ResultCollector,
    Throughput,
    peak_memory_bytes,
    progress_bar,
)
from longdoc.callbacks.monitor import Monitor
from longdoc.callbacks.throughput import flops_per_token, forget_peak_memory, matrix_rate, num_batch_tokens
from longdoc.errors import ConfigError
from tests.callbacks.models import NUM_BATCHES, TOKENS_PER_BATCH, EncoderModule, ForeignModule, loader, trainer

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*smaller than the logging interval"),
    pytest.mark.filterwarnings(r"ignore:.*isinstance\(treespec, LeafSpec\)"),
]


def test_prediction_writer_writes_a_line_a_document(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    writer = PredictionWriter(path)
    for run in (trainer(writer).test, trainer(writer).predict):
        run(ForeignModule(), loader())
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert [row["id"] for row in rows] == [f"../{i}" for i in range(NUM_BATCHES)]
        assert rows[0]["spans"] == [{"start": 0, "end": 3, "label": "PERSON", "score": 0.8765}]
        assert [row.get("truncated", False) for row in rows] == [False, True, False, False]
    assert sorted(tmp_path.iterdir()) == [path]


class ReturnsNothing(ForeignModule):
    def test_step(self, batch, batch_idx):  # noqa: ARG002
        return None


@pytest.mark.parametrize("make", [PredictionWriter, lambda _: ResultCollector()])
def test_a_step_without_results_is_refused(make: Callable, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="to return a list of DocumentResult or ClassificationResult, got NoneType"):
        trainer(make(tmp_path / "p")).test(ReturnsNothing(), loader())


def test_without_results_throughput_counts_the_batches_of_a_test() -> None:
    throughput = Throughput()
    trainer(throughput).test(ReturnsNothing(), loader())
    assert throughput.test_tokens == NUM_BATCHES * TOKENS_PER_BATCH


def test_throughput_counts_what_the_encoder_reads_and_pads() -> None:
    class Windows(EncoderModule):
        """Its batches say nothing of padding; the encoder reads windows of 500, 20, 20 and 20 tokens."""

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:  # noqa: ARG002
            mask = (torch.arange(500) < torch.tensor([[500], [20], [20], [20]])).long()
            return self.tagger(input_ids=mask * 7, attention_mask=mask).logits.square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.tagger.parameters(), lr=0.1)

    throughput = Throughput()
    data = DataLoader([0, 0], batch_size=None)
    trainer(throughput, max_epochs=1, limit_val_batches=0).fit(Windows(), data, data)
    assert (throughput.train_tokens, throughput.train_slots) == (2 * 560, 2 * 2000)


def test_peak_memory_without_a_high_water_mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "status").write_text("Name:\tVmHWM\nVmRSS:\t 5 kB\n")
    monkeypatch.setattr("longdoc.callbacks.throughput._STATUS", tmp_path / "status")
    assert peak_memory_bytes(torch.device("cpu")) > 2**20


def test_the_norm_of_a_shard_is_not_logged() -> None:
    class Module(ForeignModule):
        def log(self, name: str, value: Any, *_: Any, **__: Any) -> None:  # noqa: ARG002
            names.append(name)

    names: list[str] = []
    module = Module()
    run = SimpleNamespace(global_step=0, log_every_n_steps=1, strategy=FSDPStrategy())
    OptimizerMonitor().on_before_optimizer_step(run, module, module.configure_optimizers())
    assert names == ["train/lr"]


def test_collector_keeps_the_latest_run() -> None:
    collector = ResultCollector()
    for _ in range(2):
        trainer(collector).test(ForeignModule(), loader(), verbose=False)
    assert len(collector.results) == NUM_BATCHES


def test_throughput_counts_real_tokens_and_no_validation_time() -> None:
    class SlowValidation(ForeignModule):
        def validation_step(self, batch, batch_idx):
            torch.pow(torch.rand(300, 300), 2.0)
            for _ in range(200):
                torch.rand(100, 100) @ torch.rand(100, 100)
            return super().validation_step(batch, batch_idx)

    throughput = Throughput()
    run = trainer(throughput)
    run.fit(SlowValidation(), loader(), loader())
    assert throughput.train_tokens == 2 * NUM_BATCHES * TOKENS_PER_BATCH
    assert run.callback_metrics["train/tokens_per_second"] > 0
    run.test(ForeignModule(), loader(), verbose=False)
    assert throughput.test_tokens == 11 * NUM_BATCHES
    summary = throughput.summary()
    assert summary["train_tokens_per_second"] == pytest.approx(
        throughput.train_tokens / throughput.train_seconds, abs=0.1
    )
    assert summary["peak_memory_mb"] == pytest.approx(peak_memory_bytes(torch.device("cpu")) / 2**20, rel=0.2)
    assert summary["train_padding_share"] == 0.3
    assert 0 < summary["train_wait_share"] < 1
    assert Throughput().summary()["test_tokens_per_second"] is None


def test_under_a_profiler_the_share_of_waiting_is_left_out() -> None:
    throughput = Throughput()
    trainer(throughput, profiler="simple").fit(ForeignModule(), loader(), loader())
    assert throughput.summary()["train_wait_share"] is None
    assert throughput.summary()["train_tokens_per_second"] > 0


def test_throughput_estimates_the_share_of_what_the_device_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("longdoc.callbacks.throughput.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("longdoc.callbacks.throughput.matrix_rate", lambda *_: 1000.0)

    class Timed(ForeignModule):
        def __init__(self) -> None:
            super().__init__()
            self.top = torch.nn.Linear(3, 5)
            self.frozen = torch.nn.Linear(2, 2).requires_grad_(False)

        def training_step(self, batch, batch_idx):
            now[0] += 2.0
            return super().training_step(batch, batch_idx) + 0 * self.top.weight.sum() + 0 * self.top.bias.sum()

    class Data(list):
        def __getitem__(self, i):
            now[0] += 1.0
            return super().__getitem__(i)

    class Slow(Monitor):
        def on_train_batch_end(self, *_):
            with self.clock():
                now[0] += 1.0

    throughput = Throughput()
    assert flops_per_token(Timed()) == 6 * 15 + 2 * 4
    trainer(throughput, Slow()).fit(Timed(), DataLoader(Data(loader().dataset), batch_size=None), loader())
    summary = throughput.summary()
    assert summary["train_wait_share"] == pytest.approx(4 / 16, abs=1e-4)  # two epochs of two batches, 1 + 2 + 1 s each
    assert summary["train_hardware_share"] == pytest.approx(98 * 7 * 4 / 16 / 1000, abs=1e-4)


def test_matrix_rate_is_that_of_a_product() -> None:
    a = torch.ones(512, 512)
    start = time.perf_counter()
    a @ a
    assert matrix_rate(torch.device("cpu"), torch.float32) > 0.2 * 2 * 512**3 / (time.perf_counter() - start)


def test_throughput_stops_its_clock_in_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("longdoc.callbacks.throughput.time.perf_counter", lambda: now[0])

    class Timed(ForeignModule):
        def training_step(self, batch, batch_idx):
            now[0] += 1.0
            return super().training_step(batch, batch_idx)

        def validation_step(self, batch, batch_idx):
            now[0] += 100.0
            return super().validation_step(batch, batch_idx)

    throughput = Throughput()
    trainer(throughput, val_check_interval=2).fit(Timed(), loader(), loader())
    assert throughput.train_seconds == 2 * NUM_BATCHES


def test_throughput_refuses_a_batch_without_tokens() -> None:
    with pytest.raises(ConfigError, match="expected a batch with input_ids, got Tensor"):
        num_batch_tokens(torch.zeros(3))


def test_plain_progress_prints_progress_and_scores(capsys: pytest.CaptureFixture) -> None:
    run = trainer(PlainProgress(every_seconds=0.0), max_epochs=1)
    run.fit(ForeignModule(), loader(), loader())
    run.test(ForeignModule(), loader(), verbose=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("epoch 1/1  batch 1/4  train/loss ")
    assert lines[4].startswith("epoch 1 validated  train/loss ")
    assert lines[4].endswith("dev/f1 0.5")
    assert lines[-1] == "test  batch 4/4"


def test_plain_progress_is_silent_where_told_and_between_lines(capsys: pytest.CaptureFixture) -> None:
    progress = PlainProgress(every_seconds=1000.0)
    trainer(progress, max_epochs=1).fit(ForeignModule(), loader(), loader())
    assert capsys.readouterr().out.count("epoch 1/1") == 1
    progress.disable()
    progress._line("nothing", always=True)
    assert capsys.readouterr().out == ""


def test_progress_bar_suits_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: False)
    assert isinstance(progress_bar(), PlainProgress)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert isinstance(progress_bar(), RichProgressBar)


def test_optimizer_monitor_logs_rate_and_norm_of_the_step(tmp_path: Path) -> None:
    class Steep(ForeignModule):
        def configure_optimizers(self):
            return torch.optim.SGD([{"params": self.parameters(), "lr": 0.25}], lr=0.1)

    class Check(L.Callback):
        def __init__(self) -> None:
            self.norms: list[float] = []

        def on_before_optimizer_step(self, trainer, pl_module, optimizer):  # noqa: ARG002
            self.norms.append(float(pl_module.embedding.weight.grad.norm()))

    check, logger = Check(), CSVLogger(tmp_path, name="", version="")
    trainer(check, OptimizerMonitor(), logger=logger, log_every_n_steps=2, gradient_clip_val=1e-3).fit(
        Steep(), loader(), loader()
    )
    with (tmp_path / "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["train/lr"]]
    assert [float(row["train/lr"]) for row in rows] == [0.25] * 4
    assert [float(row["train/grad_norm"]) for row in rows] == pytest.approx(check.norms[1::2], rel=1e-5)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux, which can forget the peak")
def test_a_peak_can_be_forgotten() -> None:
    device = torch.device("cpu")
    held = np.ones(2**25)  # 256 MB
    high = peak_memory_bytes(device)
    del held
    forget_peak_memory(device)
    assert peak_memory_bytes(device) < high - 2**27
