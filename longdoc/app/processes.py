"""The processes that train together: which of them writes, how they are started, and how they end."""

import ctypes
import gc
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lightning as L
import yaml
from hydra.core.hydra_config import HydraConfig
from lightning.pytorch.utilities import rank_zero_only
from torch import distributed

from longdoc.app.resume import quoted
from longdoc.callbacks.guard import memory_advice
from longdoc.callbacks.last import last_checkpoints
from longdoc.callbacks.signals import STOP
from longdoc.errors import ConfigError
from longdoc.training.checkpoint_io import read_checkpoint
from longdoc.training.data import DocumentDataModule, refuse_changes

log = logging.getLogger(__name__)

# What Lightning leaves in the environment for the processes of one job, and the next job must not find.
_OF_ONE_JOB = {"LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PL_GLOBAL_SEED"}


# What a run goes on with as it was started, and what of it changes no result. Data is compared by its content.
_FIXED = {"task", "model", "selection", "windows", "attention", "aggregation", "loss", "distill", "optim", "seed"}
_FREE = {"model.max_tokens_per_forward", "model.gradient_checkpointing", "attention.backend", "distill.cache"}

_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h


def is_first() -> bool:
    """Whether this is the process that writes and prints for all."""
    return getattr(rank_zero_only, "rank", 0) == 0


def return_freed_memory() -> None:
    """Have the C library of Linux give freed tensors back to the system, whatever their size.

    By default it raises the size from which it does with each large tensor that is freed, up to 32 MB, and memory
    grows with the number of different sizes. What the job before has left goes back at once.
    """
    gc.collect()
    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, 2**20)
        library.malloc_trim(0)


@contextmanager
def command_of_processes() -> Iterator[None]:
    """Let the processes that Lightning starts run this job, in its folder, and not a whole sweep again."""
    hydra, argv, environment = HydraConfig.instance(), sys.argv, set(os.environ)
    kept, of_job = hydra.cfg, HydraConfig.get()
    folder = f"hydra.run.dir={quoted(of_job.runtime.output_dir)}"
    command = argv[:1] if Path(argv[0]).stem not in ("longdoc", "cli") else [argv[0], "train"]
    sys.argv = [*command, *of_job.overrides.task, folder, "hydra.output_subdir=null", "hydra.job.name=train_process"]
    sys.argv.append("hydra.mode=RUN")  # a search sets the other one
    hydra.cfg = None  # else Lightning adds words of its own
    try:
        yield
    finally:
        hydra.cfg, sys.argv = kept, argv
        if distributed.is_initialized():
            distributed.destroy_process_group()
        for name in _OF_ONE_JOB - environment:
            os.environ.pop(name, None)


@contextmanager
def orderly_end() -> Iterator[None]:
    """End on SIGTERM and SIGINT: at once while nothing is trained, else when training says so; explain lack of memory.

    A process that another one has started does not end alone.
    """
    STOP.listen(at_once=is_first())
    try:
        yield
        if STOP.number:
            raise SystemExit(128 + STOP.number)
    except Exception as error:
        if STOP.number and STOP.at_once:  # what was going on may have failed of it
            raise SystemExit(128 + STOP.number) from error
        advice = memory_advice(error)
        if advice is None:
            raise
        raise ConfigError(advice) from error
    finally:
        STOP.release()


def check_settings(run: Path, config: Mapping[str, Any]) -> None:
    """Refuse settings that a run was not started with, where the states of its checkpoint would win over them."""
    kept = run / "config.yaml"
    if kept.is_file():
        then = dict(_fixed(yaml.safe_load(kept.read_text(encoding="utf-8"))))
        now = dict(_fixed(config))
        refuse_changes(f"{name}: {then.get(name)}, now {now[name]}" for name in now if now[name] != then.get(name))


def _fixed(config: Mapping[str, Any], inside: str = "") -> Iterator[tuple[str, Any]]:
    if not inside:
        yield "teacher", config.get("teacher") and "one"  # what it says is compared, not where it lies
    for key, value in config.items():
        if isinstance(value, Mapping) and (inside or key in _FIXED):
            yield from _fixed(value, f"{inside}{key}.")
        elif (inside or key in _FIXED) and inside + key not in _FREE:
            yield inside + key, value


def checkpoint_to_go_on(
    run: Path, trainer: L.Trainer, module: L.LightningModule, datamodule: DocumentDataModule
) -> Path:
    """Find the newest checkpoint of a run that is whole, and see that it fits what is trained now."""
    for path in last_checkpoints(run):
        try:
            content = read_checkpoint(path)
        except ConfigError as error:
            log.warning("%s; the one before it is used", error)
            continue
        then = content[type(datamodule).__qualname__]["fingerprint"]
        datamodule.check_unchanged(then, trainer.world_size, trainer.accumulate_grad_batches)
        module.on_load_checkpoint(content)  # another teacher is refused
        epochs = content["loops"]["fit_loop"]["epoch_progress"]["current"]
        for name, most, now in (
            ("max_epochs", trainer.max_epochs, epochs["ready"]),
            ("max_steps", trainer.max_steps, content["global_step"]),
        ):
            if most is not None and 0 <= most < now:
                raise ConfigError(f"trainer.{name}={most}: the run is at {now} already; expected at least that")
        if (run / "metrics.json").exists() and epochs["completed"] == trainer.max_epochs:
            raise ConfigError(f"resume={run}: the run has come to its end; to go on, set a larger trainer.max_epochs")
        if is_first():
            for table in run.glob("*/metrics.csv"):  # else the logger deletes it
                table.rename(table.with_name(f"metrics-to-step-{content['global_step']}.csv"))
        return path
    raise ConfigError(f"resume={run}: expected a whole checkpoint to go on from in it, last-STEP.ckpt")
