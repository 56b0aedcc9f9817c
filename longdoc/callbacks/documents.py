"""Callbacks that read what evaluation steps say of documents: a list of results."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import lightning as L
from torch import distributed

from longdoc.errors import ConfigError
from longdoc.text.results import ClassificationResult, Result


def document_results(outputs: Any, who: str) -> Sequence[Result]:
    """Check that a step returned results of documents."""
    if isinstance(outputs, (list, tuple)) and all(isinstance(output, Result) for output in outputs):
        return outputs
    raise ConfigError(
        f"{who}: expected test_step and predict_step to return a list of DocumentResult or ClassificationResult, got "
        f"{type(outputs).__name__}"
    )


def of_all_processes(results: Sequence[Result], trainer: L.Trainer) -> Sequence[Result]:
    """Bring together what all processes say in one step, in the order in which the documents were dealt out."""
    if trainer.world_size == 1:
        return results
    gathered: list[Any] = [None] * trainer.world_size
    distributed.all_gather_object(gathered, list(results))
    return [result for of_one in gathered for result in of_one]


def prediction_line(result: Result) -> str:
    """One line of ``predictions.jsonl``, without its end: id, and spans or classes with their scores."""
    row: dict[str, Any] = {"id": result.id}
    if isinstance(result, ClassificationResult):
        row |= _class_row(result)
    else:
        row["spans"] = [
            {"start": s.start, "end": s.end, "label": s.label, "score": None if s.score is None else round(s.score, 4)}
            for s in result.predicted
        ]
    if result.truncated:
        row["truncated"] = True
    return json.dumps(row, ensure_ascii=False)


def _class_row(result: ClassificationResult) -> dict[str, Any]:
    if not isinstance(result.predicted, tuple):
        row: dict[str, Any] = {"target": result.predicted}
    else:
        probs = sorted(result.probs.items(), key=lambda item: -item[1])
        row = {"labels": list(result.predicted), "probs": {label: round(p, 4) for label, p in probs}}
    if result.evidence:
        row["evidence"] = [{"start": e.start, "end": e.end, "weight": round(e.weight, 4)} for e in result.evidence]
    return row


class PredictionWriter(L.Callback):
    """Writes one JSON line for each document that is tested or predicted, as it comes; one process writes for all.

    Args:
        path: The file; it is written anew each time.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file: IO[str] | None = None

    def _open(self, trainer: L.Trainer) -> None:
        if not trainer.is_global_zero:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("w", encoding="utf-8")

    def _write(self, outputs: Any, trainer: L.Trainer) -> None:
        results = of_all_processes(document_results(outputs, "PredictionWriter"), trainer)
        if self._file is not None:
            self._file.writelines(prediction_line(result) + "\n" for result in results)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:  # noqa: ARG002
        """Begin the file."""
        self._open(trainer)

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:  # noqa: ARG002
        """Begin the file."""
        self._open(trainer)

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:  # noqa: ARG002
        """Write the documents of a batch."""
        self._write(outputs, trainer)

    def on_predict_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:  # noqa: ARG002
        """Write the documents of a batch."""
        self._write(outputs, trainer)

    def on_test_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:  # noqa: ARG002
        """Close the file."""
        self._close()

    def on_predict_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:  # noqa: ARG002
        """Close the file."""
        self._close()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:  # noqa: ARG002
        """Keep what was written so far."""
        self._close()


class ResultCollector(L.Callback):
    """Keeps the results of the latest test run in ``results``: those of all processes, each document once."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self._ids: set[str] = set()

    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:  # noqa: ARG002
        """Forget the run before."""
        self.results, self._ids = [], set()

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:  # noqa: ARG002
        """Keep the documents of a batch."""
        for result in of_all_processes(document_results(outputs, "ResultCollector"), trainer):
            if result.id not in self._ids:
                self._ids.add(result.id)
                self.results.append(result)
