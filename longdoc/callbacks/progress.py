"""Progress: a rich bar on a terminal, plain lines where output goes to a file."""

import sys
import time
from typing import Any

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
        self._enabled = True

    def disable(self) -> None:
        """Print nothing; Lightning asks for this on all processes but the first."""
        self._enabled = False

    def _line(self, text: str, *of: Any, always: bool = False) -> None:
        now = time.monotonic()
        if self._enabled and (always or now - self._printed >= self.every_seconds):
            self._printed = now
            numbers = {name: n for name, n in self.get_metrics(*of).items() if name != "v_num"} if of else {}
            told = [f"{name} {n:.4g}" if isinstance(n, float) else f"{name} {n}" for name, n in numbers.items()]
            print(text, *told, sep="  ", flush=True)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        epochs = "" if trainer.max_epochs in (None, -1) else f"/{trainer.max_epochs}"
        where = f"epoch {trainer.current_epoch + 1}{epochs}  batch {batch_idx + 1}/{self.total_train_batches}"
        self._line(where, trainer, pl_module)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self._line(f"epoch {trainer.current_epoch + 1} validated", trainer, pl_module, always=True)

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *at: int) -> None:
        number, loader = (*at, 0)[:2]
        self._line(f"test  batch {number + 1}/{trainer.num_test_batches[loader]}")
