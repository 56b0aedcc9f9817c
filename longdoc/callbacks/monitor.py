"""What monitors share: alarms, the time they take, and a probe that the encoder runs now and then."""

import copy
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import lightning as L
from torch import Tensor
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from longdoc.attention.pattern import Pattern
from longdoc.errors import check_integer
from longdoc.models.hf_layers import find_encoder
from longdoc.models.hf_probes import run_segments, watch_inputs, watch_projections

log = logging.getLogger(__name__)

_MIN_BEFORE = 3
_SUNK = 0.1


class Monitor(L.Callback):
    """Logs numbers, warns once of each thing that looks wrong, and measures the time this takes.

    ``alarms`` holds the warnings, ``latest`` the newest numbers, ``own_seconds`` the time since the fit began.
    ``kept`` names the attributes that checkpoints hold.
    """

    kept: tuple[str, ...] = ("alarms",)

    def __init__(self) -> None:
        self.alarms: dict[str, str] = {}
        self.latest: dict[str, float] = {}
        self.own_seconds = 0.0

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Begin anew with each fit; what a checkpoint holds comes after this."""
        if stage == "fit":
            self.alarms, self.latest, self.own_seconds = {}, {}, 0.0

    def state_dict(self) -> dict[str, Any]:
        return {name: copy.deepcopy(getattr(self, name)) for name in self.kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name in self.kept:
            setattr(self, name, copy.deepcopy(state_dict[name]))

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self.teardown(trainer, pl_module, "")

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Count what the block takes as own time."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.own_seconds += time.perf_counter() - start

    def alarm(self, keys: Sequence[str], message: str) -> None:
        """Warn, unless of all these it was warned before."""
        if any(key not in self.alarms for key in keys):
            self.alarms.update(dict.fromkeys(keys, message))
            log.warning("%s: %s", type(self).__name__, message)

    def note(self, trainer: L.Trainer, numbers: dict[str, float]) -> None:
        """Give numbers to the loggers at once, whatever their interval is."""
        self.latest.update(numbers)
        for logger in trainer.loggers:
            logger.log_metrics(numbers, trainer.global_step)


class ProbeMonitor(Monitor):
    """Runs the encoder over the same few texts every so many steps, without dropout, and looks at its attention.

    The texts are the first that the encoder reads, which are those of the first validation where one comes before the
    training. Their token ids are kept in checkpoints, so that a run that is resumed looks at the same.

    Args:
        every_n_steps: Optimiser steps between two looks; the first is after the first step.
        max_tokens: Size of the probe. The first text is always in it, as a whole.
        encoder: Dotted name of the encoder in the module; needed where it holds several.
    """

    kept = ("alarms", "probe", "next_step", "lowest")

    def __init__(self, every_n_steps: int = 100, max_tokens: int = 1024, encoder: str | None = None) -> None:
        super().__init__()
        check_integer("every_n_steps", every_n_steps, 1)
        check_integer("max_tokens", max_tokens, 1)
        self.every_n_steps = every_n_steps
        self.max_tokens = max_tokens
        self.encoder = encoder
        self.probe: list[list[int]] = []
        self.seen: dict[Any, Any] = {}
        self.next_step = 1
        self.lowest: dict[str, list[float]] = {}
        self._model: PreTrainedModel | None = None
        self._hooks: list[RemovableHandle] = []

    def see(self, layer: int, q: Tensor, k: Tensor, pattern: Pattern, scale: float | None) -> None:
        """Look at one layer, and put what there is to report into ``seen``."""
        raise NotImplementedError

    def report(self, trainer: L.Trainer) -> None:
        """Log what was seen in all layers, and warn."""
        raise NotImplementedError

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if stage == "fit":
            self.probe, self.next_step, self.lowest = [], 1, {}

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._model = find_encoder(pl_module, self.encoder)
        with watch_projections(self._model, self._see):
            pass  # one whose attention cannot be seen is refused now
        if not self.probe:
            self._hooks.append(watch_inputs(self._model, self._take))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Look when it is time; all processes do, as some strategies need them all to run the encoder."""
        if trainer.global_step < self.next_step or not self.probe:
            return
        self.next_step = (trainer.global_step // self.every_n_steps + 1) * self.every_n_steps
        assert self._model is not None
        with self.clock():
            self.seen = {}
            with trainer.precision_plugin.forward_context(), watch_projections(self._model, self._see):
                self.run(self._model)
            if trainer.is_global_zero:
                self.report(trainer)

    def _see(self, layer: int, q: Tensor, k: Tensor, _: Tensor, pattern: Pattern, scale: float | None) -> None:
        self.see(layer, q, k, pattern, scale)

    def run(self, model: PreTrainedModel) -> None:
        run_segments(model, self.probe)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        while self._hooks:
            self._hooks.pop().remove()
        self._model = None

    def sunk(self, values: dict[str, float], limit: float, floor: float) -> list[str]:
        """Find values below the floor, or below the limit and a tenth of all the values that they had before."""
        found = []
        for key, value in values.items():
            count, lowest = self.lowest.get(key, [0, float("inf")])
            self.lowest[key] = [count + 1, min(lowest, value)]
            if value < floor or (count >= _MIN_BEFORE and value < limit and value < _SUNK * lowest):
                found.append(key)
        return found

    def _take(self, ids: Tensor, pattern: Pattern) -> None:
        room = self.max_tokens
        for segment in ids.split(pattern.lengths):
            room -= len(segment)
            if self.probe and room < 0:
                break
            self.probe.append(segment.tolist())
        if self.probe:
            self._hooks.pop().remove()
