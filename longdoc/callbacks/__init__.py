"""Callbacks for any Lightning Trainer; they know no module of longdoc."""

from longdoc.callbacks.attention import AttentionEntropy, HeadSimilarity, ScoreRange
from longdoc.callbacks.documents import Coverage, PredictionWriter, ResultCollector
from longdoc.callbacks.drift import InputDrift, OutputDrift
from longdoc.callbacks.examples import ErrorExamples
from longdoc.callbacks.guard import StepGuard
from longdoc.callbacks.last import LastCheckpoint
from longdoc.callbacks.maps import AttentionMaps
from longdoc.callbacks.optimizer import OptimizerMonitor
from longdoc.callbacks.progress import PlainProgress, progress_bar
from longdoc.callbacks.throughput import Throughput, peak_memory_bytes

__all__ = [
    "AttentionEntropy",
    "AttentionMaps",
    "Coverage",
    "ErrorExamples",
    "HeadSimilarity",
    "InputDrift",
    "LastCheckpoint",
    "OptimizerMonitor",
    "OutputDrift",
    "PlainProgress",
    "PredictionWriter",
    "ResultCollector",
    "ScoreRange",
    "StepGuard",
    "Throughput",
    "peak_memory_bytes",
    "progress_bar",
]
