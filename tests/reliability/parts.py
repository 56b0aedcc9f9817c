"""A run small enough to be stopped and resumed hundreds of times: ten documents, a tiny encoder, two epochs."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from longdoc.callbacks import LastCheckpoint, StepGuard
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
    return {
        "train": [little.document(i, num_phrases=42) for i in range(10)],
        "dev": [little.document(100 + i, num_phrases=10) for i in range(num_dev)],
    }


def module(dropout: float = 0.1) -> NERModule:
    """A module with dropout, the same at every call."""
    torch.manual_seed(0)
    prepared = little.preprocessor()
    encoder = scratch_encoder(prepared.tokenizer, width=16, num_layers=1, num_heads=2, dropout=dropout)
    return NERModule(encoder, prepared, OptimizerConfig(lr=5e-3), dropout=dropout)


def data(
    folder: Path, accumulate: int = 1, num_workers: int = 0, seed: int = 0, num_dev: int = 3
) -> DocumentDataModule:
    """The corpus, in as many optimiser steps an epoch for every accumulation."""
    return DocumentDataModule(
        corpus(num_dev),
        little.preprocessor(),
        max_tokens_per_batch={1: 96, 3: 32}[accumulate],
        max_tokens_per_eval_batch=100,
        num_workers=num_workers,
        seed=seed,
        cache_dir=folder / "cache",
    )


class Watch(L.Callback):
    """Writes down what was trained, and asks the process to end after a step.

    Args:
        path: One line a batch: the epoch and the ids of its documents.
        stop_after: Optimiser steps; None never stops.
        where: ``train``, or ``validate`` for the middle of the first validation after that step.
        signal: What the process sends to itself.
    """

    def __init__(self, path: Path | str, stop_after: int | None = None, where: str = "train", signal: int = 15) -> None:
        self.path = Path(path)
        self.stop_after = stop_after
        self.where = where
        self.signal = signal

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        with self.path.open("a") as file:
            print(trainer.current_epoch, *batch.document_ids, int(batch.input_ids.sum()), file=file)
        self._stop_in("train", trainer)

    def on_validation_batch_end(self, trainer: Any, *_: Any) -> None:
        self._stop_in("validate", trainer)

    def _stop_in(self, where: str, trainer: Any) -> None:
        if self.where == where and self.stop_after is not None and trainer.global_step >= self.stop_after:
            self.stop_after = None
            os.kill(os.getpid(), self.signal)


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
    resume: Path | None = None,
    every_n_train_steps: int = 1000,
    stop_after: int | None = None,
    where: str = "train",
    **settings: Any,
) -> NERModule:
    """One start of a run in a folder; it may end with a signal."""
    warnings.filterwarnings("ignore", message=".*Checkpoint directory .* exists and is not empty")
    learner = module()
    callbacks = [
        Watch(folder / "order.txt", stop_after, where),
        StepGuard(),
        LastCheckpoint(folder, every_n_train_steps),
    ]
    runner = trainer(folder, callbacks, accumulate, **settings)
    torch.manual_seed(1 if resume is None else 999)
    runner.fit(learner, data(cache, accumulate, num_workers), ckpt_path=resume)
    return learner
