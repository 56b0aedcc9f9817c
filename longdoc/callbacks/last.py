"""The checkpoint to go on from: written now and then, and when the process is asked to end."""

import logging
import random
import re
import signal
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Checkpoint
from torch import distributed

from longdoc.callbacks.documents import gather
from longdoc.callbacks.signals import STOP
from longdoc.errors import ConfigError

log = logging.getLogger(__name__)

_RNG = "rng_states"
_SECONDS_TO_END = 10.0


def last_checkpoints(folder: str | Path) -> list[Path]:
    """The files that ``LastCheckpoint`` left in a folder, the newest first."""
    found = [path for path in Path(folder).glob("last-*.ckpt") if re.fullmatch(r"last-\d+", path.stem)]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)


class LastCheckpoint(Checkpoint):
    """Saves everything that a run needs to go on, as ``last-STEP.ckpt``, and ends the run on SIGTERM and SIGINT.

    A run that is resumed from such a file, with ``Trainer.fit(ckpt_path=...)``, ends with the same weights as one that
    was never stopped: the states of the random generators of each process are in it, and it is only written between two
    optimiser steps. A signal to any process is heard by all. It is acted on after the running optimiser step or
    validation batch, with exit code 143 or 130.

    Args:
        dirpath: Folder of the files.
        every_n_train_steps: Optimiser steps between two files.
        keep: How many of the newest files stay.
    """

    def __init__(self, dirpath: str | Path, every_n_train_steps: int = 200, keep: int = 2) -> None:
        if every_n_train_steps < 1 or keep < 1:
            raise ConfigError(
                f"LastCheckpoint(every_n_train_steps={every_n_train_steps}, keep={keep}): expected numbers from 1"
            )
        if "://" in str(dirpath):
            raise ConfigError(f"LastCheckpoint(dirpath={str(dirpath)!r}): expected a folder of this machine")
        self.dirpath = Path(dirpath)
        self.every_n_train_steps = every_n_train_steps
        self.keep = keep
        self._signal = 0
        self._saved_step = 0
        self._before_validation = False
        self._rng: dict[str, Any] | None = None
        self._polled_batches = 0.0
        self._releases = False

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Listen to signals from here on."""
        self._releases = not STOP.listening
        STOP.listen()

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Give the signals back."""
        if self._releases:
            STOP.release()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """Leave no process behind that Lightning has started."""
        children = getattr(trainer.strategy.launcher, "procs", [])
        running = [child for child in children if isinstance(child, Popen)]
        children.clear()  # else Lightning's observer kills this process when it sees the first child end
        for child in running:
            try:
                child.wait(_SECONDS_TO_END)
            except TimeoutExpired:
                child.kill()
        self.teardown(trainer, pl_module, "")

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Begin to count; remove what a crash left half written."""
        STOP.listen()  # Lightning has a handler of its own by now
        self._signal, self._saved_step = 0, trainer.global_step
        if trainer.is_global_zero:
            for path in self.dirpath.glob(".*.part"):
                path.unlink()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Put the random generators where they stood; only now, as Lightning draws numbers on its way here."""
        if self._rng is not None:
            _set_rng(self._rng)
            self._rng = None

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Save between two optimiser steps; around a validation that is left to its hooks."""
        self._poll(trainer)
        loop = trainer.fit_loop.epoch_loop
        if (batch_idx + 1) % trainer.accumulate_grad_batches == 0 and not (
            loop.batch_progress.is_last_batch or loop._should_check_val_fx(trainer.fit_loop._data_fetcher)
        ):
            self._save_if_due(trainer)

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save before the validation, which may be long; a run that is resumed from here repeats it."""
        self._begin_evaluation(trainer, trainer.num_val_batches)
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._save_if_due(trainer, before_validation=True)

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *at: Any) -> None:
        """Hear signals in a validation too."""
        self._poll(trainer, at[0])
        if self._signal and trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._save(trainer, before_validation=True)
        self._leave(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save after the last step of an epoch."""
        self._save_if_due(trainer)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save the end, so that a test that is interrupted can be repeated without training."""
        if trainer.global_step > self._saved_step:
            self._save(trainer)

    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Begin to listen."""
        self._begin_evaluation(trainer, trainer.num_test_batches)

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *at: Any) -> None:
        """Hear signals in a test or a prediction too."""
        self._poll(trainer, at[0])
        self._leave(trainer)

    on_predict_batch_end = on_test_batch_end  # type: ignore[assignment]

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Begin to listen."""
        self._begin_evaluation(trainer, trainer.num_predict_batches)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Keep the random generators of all processes."""
        checkpoint[_RNG] = gather(_get_rng(trainer.strategy.root_device), trainer)
        if self._before_validation:
            # Lightning skips a validation that had not begun, and repeats in part one that had: say that it has begun.
            begun = {"ready": 1, "started": 1, "processed": 0, "completed": 0}
            progress = {"total": begun, "current": dict(begun), "is_last_batch": False}
            checkpoint["loops"]["fit_loop"]["epoch_loop.val_loop.batch_progress"] = progress

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Take the random generators of this process."""
        states = checkpoint.get(_RNG, [])
        self._rng = states[trainer.global_rank] if len(states) == trainer.world_size else None

    def _begin_evaluation(self, trainer: L.Trainer, num_batches: list[int | float]) -> None:
        STOP.listen()
        number = torch.tensor(sum(num_batches), dtype=torch.float32, device=trainer.strategy.root_device)
        if trainer.world_size > 1:  # beyond that, some process has no batch to be asked after
            distributed.all_reduce(number, distributed.ReduceOp.MIN)
        self._polled_batches = float(number)

    def _poll(self, trainer: L.Trainer, batch_idx: int = -1) -> None:
        if batch_idx >= self._polled_batches:
            return
        number = torch.tensor(STOP.number, device=trainer.strategy.root_device)
        if trainer.world_size > 1:
            distributed.all_reduce(number, distributed.ReduceOp.MAX)
        self._signal = max(self._signal, int(number))

    def _save_if_due(self, trainer: L.Trainer, before_validation: bool = False) -> None:
        if self._signal or trainer.global_step - self._saved_step >= self.every_n_train_steps:
            self._save(trainer, before_validation)
        self._leave(trainer)

    def _save(self, trainer: L.Trainer, before_validation: bool = False) -> None:
        self._before_validation = before_validation
        try:
            trainer.save_checkpoint(self.dirpath / f"last-{trainer.global_step}.ckpt", weights_only=False)
        finally:
            self._before_validation = False
        self._saved_step = trainer.global_step
        if trainer.is_global_zero:
            for path in last_checkpoints(self.dirpath)[self.keep :]:
                trainer.strategy.remove_checkpoint(path)

    def _leave(self, trainer: L.Trainer) -> None:
        if not self._signal:
            return
        if trainer.is_global_zero:
            name, saved = signal.Signals(self._signal).name, last_checkpoints(self.dirpath)[:1]
            kept = f"saved as {saved[0]}" if saved else "nothing was trained yet, so nothing is saved"
            log.warning(f"{name}: the run ends here; {kept}")
        raise SystemExit(128 + self._signal)


def _get_rng(device: torch.device) -> dict[str, Any]:
    """States of all random generators, in what ``torch.load(weights_only=True)`` reads."""
    name, keys, *rest = np.random.get_state()
    state = {
        "python": random.getstate(),
        "numpy": (name, torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest),
        "torch": torch.get_rng_state(),
    }
    return {**state, "cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else state


def _set_rng(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
