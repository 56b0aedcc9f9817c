"""What the training loop costs over a bare PyTorch loop with the same model, optimiser, schedule and batches.

    python -m tests.bench.loop [--documents 40] [--repeats 5] [SETTING=VALUE ...]

Both sides train on the same corpus for one epoch at a time, in turn, in one process; validation is not measured. Settings
are those of `python train.py`. The last column marks what is more than 5 % slower than the bare loop.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import lightning as L
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table

from longdoc.app.build import Run, build, complete, make
from longdoc.app.quiet import quieten
from longdoc.app.recipes import config_folder, register_recipes
from longdoc.models.losses import tagging_loss

LIMIT = 1.05


class Clock(L.Callback):
    """Seconds from the first batch of an epoch to its validation."""

    def __init__(self) -> None:
        self.seconds = self._start = 0.0

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:  # noqa: ARG002
        self._start = time.perf_counter()

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:  # noqa: ARG002
        self.seconds = time.perf_counter() - self._start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("settings", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    OmegaConf.register_new_resolver("longdoc_recipe", lambda name: name or "defaults", replace=True)
    register_recipes()
    with tempfile.TemporaryDirectory() as folder, quieten():
        sizes = [f"data.corpus.num_train={arguments.documents}", "data.corpus.num_dev=1", "data.corpus.num_test=0"]
        where = [f"output_dir={folder}", f"data.cache_dir={folder}/cache", "trainer.accelerator=cpu"]
        with initialize_config_dir(str(config_folder("conf")), version_base="1.3"):
            composed = compose("config", [*sizes, *where, "trainer.max_epochs=1", *arguments.settings])
        config = complete(OmegaConf.to_container(composed, resolve=True))
        L.seed_everything(config["seed"], verbose=False)
        parts = build(config)
        parts.datamodule.prepare_data()
        seconds: dict[str, list[float]] = {"bare loop": [], "longdoc": []}
        for repeat in range(arguments.repeats + 1):
            for name, epoch in (("bare loop", bare_epoch), ("longdoc", longdoc_epoch)):
                taken = epoch(config, parts)
                if repeat:  # the first round warms up
                    seconds[name].append(taken)
    Console().print(table(seconds, len(parts.datamodule.train_dataloader())))


def bare_epoch(config: dict[str, Any], parts: Run) -> float:
    """Train one epoch without Lightning; gives its seconds."""
    module, loader = parts.module.train(), parts.datamodule.train_dataloader()
    optimizer, schedule = make(config["optim"]).build(module, len(loader), fused=True)
    start = time.perf_counter()
    for batch in loader:
        optimizer.zero_grad()
        tagging_loss(module(batch), batch.item_tags, batch.num_labelled).backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), config["trainer"]["gradient_clip_val"])
        optimizer.step()
        schedule.step()
    return time.perf_counter() - start


def longdoc_epoch(config: dict[str, Any], parts: Run) -> float:
    """Train one epoch as `python train.py` does; gives its seconds."""
    callbacks = [make(node) for node in config["callbacks"].values()]
    loggers = [make(node) for node in config["logger"].values()]
    clock = Clock()
    trainer = instantiate(
        config["trainer"], callbacks=[*callbacks, clock], logger=loggers or False, default_root_dir=config["output_dir"]
    )
    trainer.fit(parts.module, datamodule=parts.datamodule)
    for path in Path(config["output_dir"]).glob("logs/metrics.csv"):
        path.unlink()
    return clock.seconds


def table(seconds: dict[str, list[float]], num_steps: int) -> Table:
    """Medians, and the ratio to the bare loop."""
    shown = Table(title=f"One epoch of {num_steps} steps, median of {len(seconds['longdoc'])}")
    for column in ("", "seconds", "ms a step", "ratio", f"at most {LIMIT}"):
        shown.add_column(column, justify="right" if column else "left")
    bare = statistics.median(seconds["bare loop"])
    for name, taken in seconds.items():
        median = statistics.median(taken)
        ratio = median / bare
        shown.add_row(
            name, f"{median:.2f}", f"{1000 * median / num_steps:.1f}", f"{ratio:.3f}", "yes" if ratio <= LIMIT else "NO"
        )
    return shown


if __name__ == "__main__":
    main()
