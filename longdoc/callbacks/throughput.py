"""Speed and memory of a run."""

import math
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.profilers import PassThroughProfiler
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from longdoc.callbacks.documents import document_results
from longdoc.callbacks.monitor import Monitor
from longdoc.errors import ConfigError
from longdoc.models.hf_layers import find_encoder
from longdoc.models.hf_probes import encoder_input

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_STATUS = Path("/proc/self/status")


def peak_memory_bytes(device: torch.device) -> int | None:
    """Most memory in use so far: what torch allocated on a CUDA device, else that of the process; None if not known."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if _STATUS.is_file():
        lines = [line.split() for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM")]
        if lines:  # some systems that look like Linux leave it out
            return int(lines[0][1]) * 1024
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def forget_peak_memory(device: torch.device) -> None:
    """Let ``peak_memory_bytes`` begin anew, where the system can: else a job has the peak of the one before it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif _STATUS.is_file():
        with suppress(OSError):
            (_STATUS.parent / "clear_refs").write_text("5")


def num_batch_tokens(batch: Any) -> tuple[int, int]:
    """Tokens in a batch, without and with padding.

    It is an object or a mapping with ``input_ids``, and ``attention_mask`` if it is padded.
    """
    get = batch.get if isinstance(batch, Mapping) else lambda name: getattr(batch, name, None)
    ids, mask = get("input_ids"), get("attention_mask")
    slots = ids if mask is None else mask
    if slots is None:
        raise ConfigError(f"Throughput: expected a batch with input_ids, got {type(batch).__name__}")
    return int(slots.numel() if mask is None else mask.sum()), int(slots.numel())


def flops_per_token(module: nn.Module) -> int:
    """Operations that a training step spends on a token in linear layers: two a weight, and four more if it is trained.

    Attention scores are not counted, nor what is computed twice to save memory.
    """
    weights = [part.weight for part in module.modules() if isinstance(part, nn.Linear)]
    return sum((6 if weight.requires_grad else 2) * weight.numel() for weight in weights)


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of a device that multiplies two matrices, the best of twenty."""
    size = 4096 if device.type == "cuda" else 512
    a = torch.ones(size, size, device=device, dtype=dtype)
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        (a @ a)[0, 0].item()
        seconds.append(time.perf_counter() - start)
    return 2 * size**3 / max(min(seconds), 1e-9)


class Throughput(L.Callback):
    """Counts tokens a second in training and test, waiting for data included, and the peak of memory.

    Tokens of training are those that the Hugging Face encoder reads; without one, those of the batches. Tokens of a
    test are those of its results, or of the batches where its steps return none.

    The training rate is logged each epoch as ``train/tokens_per_second``; everything is in ``summary()``: also the
    share of padding in training batches, the share of time that was spent waiting for them, and an estimate of how much
    of the device's rate at matrix products was used.
    """

    def __init__(self) -> None:
        self.train_tokens = self.test_tokens = 0
        self.train_seconds = self.test_seconds = 0.0
        self.peak_memory_bytes: int | None = None
        self._since = 0.0
        self._epoch_start = (0, 0.0)
        self.train_slots = 0
        self.wait_seconds = 0.0
        self.hardware_share: float | None = None
        self._idle_since = self._own_seconds = 0.0
        self._profiled = False
        self._read = (0, 0)
        self._counting = False
        self._hook: RemovableHandle | None = None

    def summary(self) -> dict[str, float | int | None]:
        """Seconds, tokens a second and peak memory; None for what did not happen."""
        return {
            "train_seconds": round(self.train_seconds, 2),
            "train_tokens_per_second": _ratio(self.train_tokens, self.train_seconds, 1),
            "train_padding_share": _ratio(self.train_slots - self.train_tokens, self.train_slots),
            "train_wait_share": None if self._profiled else _ratio(self.wait_seconds, self.train_seconds),
            "train_hardware_share": None if self.hardware_share is None else round(self.hardware_share, 4),
            "test_seconds": round(self.test_seconds, 2),
            "test_tokens_per_second": _ratio(self.test_tokens, self.test_seconds, 1),
            "peak_memory_mb": None if self.peak_memory_bytes is None else round(self.peak_memory_bytes / 2**20),
        }

    def _start(self, trainer: L.Trainer) -> None:
        self._idle(trainer)
        self._since = self._idle_since

    def _idle(self, trainer: L.Trainer) -> None:
        self._idle_since, self._own_seconds = time.perf_counter(), _own_seconds(trainer)

    def _stop(self) -> float:
        return time.perf_counter() - self._since

    def on_train_start(self, trainer: Any, pl_module: L.LightningModule) -> None:
        """Begin anew; a run that goes on in the middle of an epoch does not start it."""
        self.train_tokens, self.train_slots, self.train_seconds, self.wait_seconds = 0, 0, 0.0, 0.0
        self._epoch_start = (0, 0.0)
        profiler = trainer.profiler
        self._profiled = not isinstance(profiler, PassThroughProfiler)  # one that measures begins its work in our waits
        forget_peak_memory(pl_module.device)
        with suppress(ConfigError):  # there is none, or there are several
            base: Any = find_encoder(pl_module).base_model
            self._hook = base.register_forward_pre_hook(self._see, with_kwargs=True)
        self._start(trainer)

    def _see(self, base: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self._counting:
            return
        try:
            pattern = encoder_input(base, args, kwargs)[1]
        except (ConfigError, KeyError):  # it reads other things than rows of tokens
            self._let_go()
        else:
            self._read = self._read[0] + pattern.num_tokens, self._read[1] + math.prod(pattern.batch_shape)

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._epoch_start = (self.train_tokens, self.train_seconds)
        self._start(trainer)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """The batch has come; what monitors did since the last one is no waiting."""
        self.wait_seconds += time.perf_counter() - self._idle_since - (_own_seconds(trainer) - self._own_seconds)
        self._read, self._counting = (0, 0), True

    def on_before_backward(self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor) -> None:
        """Count no more: what runs now is run again, or by other callbacks."""
        self._counting = False

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._counting = False
        tokens, slots = num_batch_tokens(batch) if self._hook is None else self._read
        self.train_tokens, self.train_slots = self.train_tokens + tokens, self.train_slots + slots
        self._idle(trainer)

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.training or trainer.state.fn == "fit":
            self.train_seconds += 0.0 if trainer.sanity_checking else self._stop()

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._start(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.train_seconds += self._stop()
        tokens, seconds = self.train_tokens - self._epoch_start[0], self.train_seconds - self._epoch_start[1]
        pl_module.log(
            "train/tokens_per_second", tokens / max(seconds, 1e-9), reduce_fx="sum", sync_dist=trainer.world_size > 1
        )

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Count what all processes have trained, and compare it with what their devices can do."""
        self.train_tokens = _of_all_processes(self.train_tokens, trainer)
        self.train_slots = _of_all_processes(self.train_slots, trainer)
        precision = str(trainer.precision)
        half = torch.bfloat16 if precision.startswith("bf16") else torch.float16
        rate = matrix_rate(pl_module.device, half if "16" in precision else torch.float32)
        share = (
            self.train_tokens * flops_per_token(pl_module) / max(self.train_seconds, 1e-9) / rate / trainer.world_size
        )
        self.hardware_share = share if share <= 1 else None  # other work has slowed the rate that it is compared with

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Note the peak of memory, which includes that of a fit before."""
        self.peak_memory_bytes = peak_memory_bytes(pl_module.device)

    on_test_end = on_fit_end

    def on_test_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.test_tokens, self.test_seconds = 0, 0.0
        self._start(trainer)

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *_: Any) -> None:
        if isinstance(outputs, (list, tuple)):
            self.test_tokens += sum(result.num_tokens for result in document_results(outputs, "Throughput"))
        else:
            self.test_tokens += num_batch_tokens(batch)[0]

    def on_test_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.test_seconds = self._stop()
        self.test_tokens = _of_all_processes(self.test_tokens, trainer)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._let_go()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._let_go()

    def _let_go(self) -> None:
        if self._hook is not None:
            self._hook.remove()
        self._hook, self._counting = None, False


def _of_all_processes(tokens: int, trainer: L.Trainer) -> int:
    return int(trainer.strategy.reduce(torch.tensor(tokens, device=trainer.strategy.root_device), reduce_op="sum"))


def _own_seconds(trainer: L.Trainer) -> float:
    callbacks: list[L.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return sum(callback.own_seconds for callback in callbacks if isinstance(callback, Monitor))


def _ratio(part: float, whole: float, digits: int = 4) -> float | None:
    return round(part / whole, digits) if whole > 0 else None
