"""A run small enough to be stopped and resumed hundreds of times: ten documents, a tiny encoder, two epochs."""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from longdoc.callbacks import LastCheckpoint, StepGuard
from longdoc.callbacks.last import last_checkpoints
from longdoc.models.scratch import scratch_encoder
from longdoc.training.checkpoint_io import SafeCheckpointIO
from longdoc.training.data import DocumentDataModule
from longdoc.training.ner import NERModule
from longdoc.training.optim import OptimizerConfig
from tests.training import little

NUM_EPOCHS = 2
NUM_STEPS = 24


def corpus(num_dev: int = 3) -> dict[str, list]:
    """Ten training documents, and as many as wanted to evaluate on."""
    evaluated = [little.document(100 + i, num_phrases=10) for i in range(num_dev)]
    train = [little.document(i, num_phrases=42) for i in range(10)]
    return {"train": train, "dev": evaluated, "test": evaluated}


def module(dropout: float = 0.1) -> NERModule:
    """A module with dropout, the same at every call."""
    torch.manual_seed(0)
    prepared = little.preprocessor()
    encoder = scratch_encoder(prepared.tokenizer, width=16, num_layers=1, num_heads=2, dropout=dropout)
    return NERModule(encoder, prepared, OptimizerConfig(lr=5e-3), dropout=dropout)


def data(
    folder: Path, accumulate: int = 1, num_workers: int = 0, seed: int = 0, num_dev: int = 3, num_proc: int = 1
) -> DocumentDataModule:
    """The corpus, in as many optimiser steps an epoch for every accumulation, the last of them smaller."""
    return DocumentDataModule(
        corpus(num_dev),
        little.preprocessor(),
        max_tokens_per_batch=32 if accumulate == 3 else 96,
        max_tokens_per_eval_batch=100,
        num_workers=num_workers,
        num_proc=num_proc,
        seed=seed,
        cache_dir=folder / "cache",
    )


class Watch(L.Callback):
    """Writes down what was trained, and asks the process to end after a step.

    Args:
        path: One line a batch: the epoch and the ids of its documents. Beside it, a file tells when the signal was sent.
        stop_after: Optimiser steps; None never stops.
        where: ``train``, or ``validate`` for the middle of the first validation after that step.
        signal: What it sends.
        rank: Which process sends it to itself; None sends it to the whole group.
    """

    def __init__(
        self,
        path: Path | str,
        stop_after: int | None = None,
        where: str = "train",
        signal: int = 15,
        rank: int | None = 0,
    ) -> None:
        self.path = Path(path)
        self.rank = rank
        self.stop_after = stop_after
        self.where = where
        self.signal = signal

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        if trainer.is_global_zero:
            with self.path.open("a") as file:
                print(trainer.current_epoch, *batch.document_ids, int(batch.input_ids.sum()), file=file)
        self._stop_in("train", trainer)

    def on_validation_batch_end(self, trainer: Any, *_: Any) -> None:
        self._stop_in("validate", trainer)

    def _stop_in(self, where: str, trainer: Any) -> None:
        if self.where == where and self.stop_after is not None and trainer.global_step >= self.stop_after:
            self.stop_after = None
            self.path.with_suffix(".signal").touch()
            if self.rank is None and trainer.is_global_zero:
                _kill_group_from_outside(self.signal)
            elif self.rank == trainer.global_rank:
                os.kill(os.getpid(), self.signal)


def _kill_group_from_outside(number: int) -> None:
    """Send a signal to the process group from a process that is not in it, as a shell or a scheduler does."""
    group = os.getpgid(0)
    if (child := os.fork()) == 0:
        os.setsid()
        os.killpg(group, number)
        os._exit(0)
    os.waitpid(child, 0)


def trainer(folder: Path, callbacks: Sequence[L.Callback], accumulate: int = 1, **settings: Any) -> L.Trainer:
    """A silent Trainer on the CPU that writes to a folder, with the callbacks of every run."""
    best = ModelCheckpoint(folder, "best", monitor="dev/loss", save_weights_only=True, enable_version_counter=False)
    defaults: dict[str, Any] = {"max_epochs": NUM_EPOCHS, "devices": 1, "accelerator": "cpu"}
    return L.Trainer(
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        accumulate_grad_batches=accumulate,
        plugins=[SafeCheckpointIO()],
        callbacks=[*callbacks, best],
        **{**defaults, **settings},
    )


def fit(
    folder: Path,
    cache: Path,
    accumulate: int = 1,
    num_workers: int = 0,
    resume: bool = False,
    every_n_train_steps: int = 1000,
    seed: int = 0,
    watch: Mapping[str, Any] | None = None,
    **settings: Any,
) -> NERModule:
    """One start of a run in a folder; it may end with a signal.

    Args:
        folder: Of the run.
        cache: Of the encoded documents.
        accumulate: Batches of an optimiser step.
        num_workers: Processes that build batches.
        resume: Whether to go on from the newest checkpoint in the folder, if there is one.
        every_n_train_steps: Steps between two checkpoints.
        seed: Of the order of the windows, and of dropout.
        watch: Arguments of ``Watch``.
        settings: Arguments of the Trainer.
    """
    warnings.filterwarnings("ignore", message=".*Checkpoint directory .* exists and is not empty")
    learner, checkpoints = module(), last_checkpoints(folder) if resume else []
    watching = Watch(folder / "order.txt", **(watch or {}))
    callbacks = [watching, StepGuard(), LastCheckpoint(folder, every_n_train_steps)]
    runner = trainer(folder, callbacks, accumulate, **settings)
    torch.manual_seed(1 + seed if not checkpoints else 999)
    runner.fit(learner, data(cache, accumulate, num_workers, seed), ckpt_path=checkpoints[0] if checkpoints else None)
    return learner


def largest_difference(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """Between two sets of weights."""
    return max(float((a[name] - b[name]).abs().max()) for name in a)
