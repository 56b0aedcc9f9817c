"""Callbacks for any Lightning Trainer; they know no module or model of longdoc."""

from longdoc.callbacks.documents import PredictionWriter, ResultCollector
from longdoc.callbacks.guard import StepGuard
from longdoc.callbacks.last import LastCheckpoint
from longdoc.callbacks.optimizer import OptimizerMonitor
from longdoc.callbacks.progress import PlainProgress, progress_bar
from longdoc.callbacks.throughput import Throughput, peak_memory_bytes

__all__ = [
    "LastCheckpoint",
    "OptimizerMonitor",
    "PlainProgress",
    "PredictionWriter",
    "ResultCollector",
    "StepGuard",
    "Throughput",
    "peak_memory_bytes",
    "progress_bar",
]
