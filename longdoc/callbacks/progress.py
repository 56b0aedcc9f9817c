"""Progress: a rich bar on a terminal, plain lines where output goes to a file."""

import sys
import time
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import ProgressBar, RichProgressBar


def progress_bar(every_seconds: float = 5.0) -> ProgressBar:
    """Choose the progress display that suits where the output goes.

    Args:
        every_seconds: Time between two plain lines.
    """
    return RichProgressBar(leave=True) if sys.stdout.isatty() else PlainProgress(every_seconds)


class PlainProgress(ProgressBar):
    """Prints a line now and then, and one after each validation.

    Args:
        every_seconds: Time between two lines.
    """

    def __init__(self, every_seconds: float = 5.0) -> None:
        super().__init__()
        self.every_seconds = every_seconds
        self._enabled = True
        self._printed = 0.0

    def enable(self) -> None:
        """Print from now on."""
        self._enabled = True

    def disable(self) -> None:
        """Print nothing; Lightning does this on all processes but the first."""
        self._enabled = False

    def _line(self, text: str, always: bool = False) -> None:
        now = time.monotonic()
        if self._enabled and (always or now - self._printed >= self.every_seconds):
            self._printed = now
            print(text, flush=True)

    def _numbers(self, trainer: L.Trainer, pl_module: L.LightningModule) -> str:
        metrics = {name: value for name, value in self.get_metrics(trainer, pl_module).items() if name != "v_num"}
        return "  ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in metrics.items()
        )

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,  # noqa: ARG002
        batch: Any,  # noqa: ARG002
        batch_idx: int,
    ) -> None:
        """Say how far the epoch is."""
        epochs = "" if trainer.max_epochs in (None, -1) else f"/{trainer.max_epochs}"
        where = f"epoch {trainer.current_epoch + 1}{epochs}  batch {batch_idx + 1}/{self.total_train_batches}"
        self._line(f"{where}  {self._numbers(trainer, pl_module)}")

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Give the scores of a validation."""
        if not trainer.sanity_checking:
            self._line(f"epoch {trainer.current_epoch + 1} validated  {self._numbers(trainer, pl_module)}", always=True)

    def on_test_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,  # noqa: ARG002
        outputs: Any,  # noqa: ARG002
        batch: Any,  # noqa: ARG002
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Say how far the test is."""
        self._line(f"test  batch {batch_idx + 1}/{trainer.num_test_batches[dataloader_idx]}")
