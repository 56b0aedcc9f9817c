"""Steps that must not be taken, and memory that was not there."""

import logging
from collections.abc import Sequence
from typing import Any

import lightning as L
import torch
from torch import Tensor, distributed

from longdoc.callbacks.documents import gather
from longdoc.callbacks.optimizer import gradient_norm
from longdoc.errors import ConfigError
from longdoc.text.preprocess import EncodedDocument

log = logging.getLogger(__name__)

_SHOWN_IDS = 8
_OUT_OF_MEMORY = "Out of memory"


def batch_document_ids(batch: Any) -> tuple[str, ...]:
    """Ids of the documents in a batch: its ``document_ids``, or those of a list of ``EncodedDocument``."""
    if isinstance(batch, (list, tuple)):
        return tuple(encoded.document.id for encoded in batch if isinstance(encoded, EncodedDocument))
    return tuple(getattr(batch, "document_ids", ()))


def memory_advice(error: BaseException) -> str | None:
    """What ``StepGuard`` has noted on an error about memory; None for any other error."""
    notes = getattr(error, "__notes__", [])
    return next((note for note in notes if note.startswith(_OUT_OF_MEMORY)), None)


class StepGuard(L.Callback):
    """Skips optimiser steps whose loss or gradient is not finite, on all processes alike, and counts them.

    An error about memory gets a note that names the documents of the batch and the settings to lower.

    Args:
        max_skipped_in_a_row: So many skipped steps, one after the other, stop the run.
    """

    def __init__(self, max_skipped_in_a_row: int = 5) -> None:
        self.max_skipped_in_a_row = max_skipped_in_a_row
        self.num_skipped = 0
        self.num_in_a_row = 0
        self._batch: tuple[str, ...] = ()
        self._step: list[tuple[tuple[str, ...], Tensor]] = []

    def state_dict(self) -> dict[str, int]:
        return {"num_skipped": self.num_skipped, "num_in_a_row": self.num_in_a_row}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.num_skipped, self.num_in_a_row = state_dict["num_skipped"], state_dict["num_in_a_row"]

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Note the documents; a new optimiser step begins where no gradient is left of the one before."""
        self._batch = batch_document_ids(batch)
        if batch_idx % trainer.accumulate_grad_batches == 0:
            self._step = []

    def on_before_backward(self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor) -> None:
        """Note whether the loss is finite, without waiting for the device."""
        self._step.append((self._batch, loss.detach().isfinite().all()))

    def on_before_optimizer_step(self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Any) -> None:
        """Take the gradients away where they or the loss are not finite: then the optimiser changes nothing."""
        if not self._step:
            return
        fine = torch.stack([finite for _, finite in self._step]).all()
        if getattr(trainer.precision_plugin, "scaler", None) is None:  # a scaler of gradients skips steps by itself
            fine = fine & gradient_norm(optimizer).isfinite()
        number = fine.int()
        if trainer.world_size > 1:
            distributed.all_reduce(number, distributed.ReduceOp.MIN)
        if bool(number):
            self.num_in_a_row = 0
            return
        optimizer.zero_grad(set_to_none=True)
        self.num_skipped += 1
        self.num_in_a_row += 1
        # The documents whose loss is not finite, of all processes; where there are none, all of the step.
        mine = [(ids, bool(finite)) for ids, finite in self._step]
        batches = [batch for of_rank in gather(mine, trainer) for batch in of_rank]
        bad = [ids for ids, finite in batches if not finite]
        named = _shown(list(dict.fromkeys(name for ids in bad or [ids for ids, _ in batches] for name in ids)))
        what = f"its {'loss' if bad else 'gradient'} is not finite; documents: {named}"
        if self.num_in_a_row >= self.max_skipped_in_a_row:
            raise ConfigError(
                f"{self.num_in_a_row} optimiser steps in a row were skipped, the last one because {what}. "
                "Lower optim.lr, or set trainer.precision=32-true"
            )
        if trainer.is_global_zero:
            skipped = f"({self.num_skipped} skipped so far)"
            log.warning(f"step {trainer.global_step + 1} is skipped, {what} {skipped}")

    def on_validation_batch_start(self, trainer: Any, pl_module: Any, batch: Any, *_: Any, **__: Any) -> None:
        self._batch = batch_document_ids(batch)

    on_test_batch_start = on_predict_batch_start = on_validation_batch_start

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        if _is_about_memory(exception):
            where, settings, more = "evaluation", "model.max_tokens_per_forward", ""
            if trainer.training:
                where, settings = "training", f"data.max_tokens_per_batch or {settings}"
                more = "; model.gradient_checkpointing=true needs less too"
            reason = str(exception).partition("\n")[0] or type(exception).__name__
            exception.add_note(
                f"{_OUT_OF_MEMORY} in {where}, with documents {_shown(self._batch)}: lower {settings}, then "
                f"windows.size_tokens{more} ({reason})"
            )


def _is_about_memory(error: BaseException) -> bool:
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and ("DefaultCPUAllocator" in str(error) or "out of memory" in str(error))
    )


def _shown(ids: Sequence[str]) -> str:
    """Ids as data, whatever they are made of."""
    more = f" and {len(ids) - _SHOWN_IDS} more" if len(ids) > _SHOWN_IDS else ""
    return ", ".join(repr(name) for name in ids[:_SHOWN_IDS]) + more
