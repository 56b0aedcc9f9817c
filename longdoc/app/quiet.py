"""Hints of Lightning, and bars of transformers, that say nothing about a longdoc run."""

import logging
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils.logging import disable_progress_bar, enable_progress_bar, is_progress_bar_enabled

_LOG_LINES = re.compile(
    r"GPU available|TPU available|HPU available|Tip: |Trainer.fit. stopped|LOCAL_RANK|Loading .train_dataloader."
    r"|`weights_only` was not set"
)
_LOGGERS = (
    "lightning.pytorch.utilities.rank_zero",
    "lightning.pytorch.accelerators.cuda",
    "lightning.pytorch.trainer.connectors.checkpoint_connector",
)
_WARNINGS = (
    r".*does not have many workers which may be a bottleneck.*",
    r".*Checkpoint directory .* exists and is not empty.*",
    r".*number of training batches .* is smaller than the logging interval.*",
    r".*Experiment logs directory .* exists and is not empty.*",
    r".*recommended to use .self.log\(.*sync_dist=True.*",
    r".*isinstance\(treespec, LeafSpec\). is deprecated.*",
)


def _wanted(record: logging.LogRecord) -> bool:
    return not _LOG_LINES.search(record.getMessage())


@contextmanager
def quieten() -> Iterator[None]:
    """Leave out a few named log lines and warnings, and bars that end up in a file; all else comes through, once."""
    bars = is_progress_bar_enabled() and not sys.stderr.isatty()
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    lightning_logger = logging.getLogger("lightning")
    own_handlers = list(lightning_logger.handlers) if logging.getLogger().hasHandlers() else []
    for handler in own_handlers:
        lightning_logger.removeHandler(handler)
    for logger in loggers:
        logger.addFilter(_wanted)
    if bars:
        disable_progress_bar()
    try:
        with warnings.catch_warnings():
            for message in _WARNINGS:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        for handler in own_handlers:
            lightning_logger.addHandler(handler)
        for logger in loggers:
            logger.removeFilter(_wanted)
        if bars:
            enable_progress_bar()
