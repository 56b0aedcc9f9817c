"""Callbacks that read what evaluation steps say of documents: a list of results."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import lightning as L
from torch import distributed

from longdoc.errors import ConfigError
from longdoc.text.results import ClassificationResult, DocumentResult, Result

T = TypeVar("T")

STAGES = {"validate": "dev", "test": "test"}
"""Stages in which callbacks may log, and how metric names begin there."""


def _stage(trainer: L.Trainer) -> str:
    """Give ``validate``, ``test`` or ``predict``; the check before a fit has a name of its own."""
    return "" if trainer.state.stage is None else trainer.state.stage.value


def document_results(outputs: Any, who: str, stage: str = "test") -> Sequence[Result]:
    """Give the results of documents that a step returned; none for a validation step that returned something else."""
    if isinstance(outputs, (list, tuple)) and all(isinstance(output, Result) for output in outputs):
        return outputs
    if stage == "validate":
        return ()
    raise ConfigError(
        f"{who}: expected test_step and predict_step to return a list of DocumentResult or ClassificationResult, got "
        f"{type(outputs).__name__}"
    )


def gather(value: T, trainer: L.Trainer) -> list[T]:
    """Bring together what each process has, on all of them, in the order of their ranks."""
    values = [value] * trainer.world_size
    if trainer.world_size > 1:
        distributed.all_gather_object(values, value)
    return values


def new_results(results: Sequence[Result], trainer: L.Trainer, ids: set[str]) -> Iterator[Result]:
    """Go through the results of a step of all processes, but for documents in ``ids``, where those that come are added.

    A sampler that deals unevenly repeats some.
    """
    for result in (result for of_one in gather(results, trainer) for result in of_one):
        if result.id not in ids:
            ids.add(result.id)
            yield result


def prediction_line(result: Result) -> str:
    """One line of ``predictions.jsonl``, without its end: id, and spans or classes with their scores."""
    row: dict[str, Any] = {"id": result.id}
    if not isinstance(result, ClassificationResult):
        row["spans"] = [
            {"start": s.start, "end": s.end, "label": s.label, "score": None if s.score is None else round(s.score, 4)}
            for s in result.predicted
        ]
    elif isinstance(result.predicted, tuple):
        probs = sorted(result.probs.items(), key=lambda item: -item[1])
        row |= {"labels": result.predicted, "probs": {label: round(p, 4) for label, p in probs}}
    else:
        row["target"] = result.predicted
    if isinstance(result, ClassificationResult) and result.evidence:
        row["evidence"] = [{"start": e.start, "end": e.end, "weight": round(e.weight, 4)} for e in result.evidence]
    if result.truncated:
        row["truncated"] = True
    return json.dumps(row, ensure_ascii=False)


class DocumentCallback(L.Callback):
    """Reads the results that evaluation steps return, with three hooks in place of Lightning's nine.

    A test or prediction step that returns none is refused. A validation step need not return any.
    """

    stages: tuple[str, ...] = ("validate", "test", "predict")

    def begin(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Prepare for a run over documents."""
        raise NotImplementedError

    def see(self, results: Sequence[Result], trainer: L.Trainer) -> None:
        """Take the results of a step."""
        raise NotImplementedError

    def end(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Make of them what there is to make, on all processes."""

    def take(self, trainer: L.Trainer, outputs: Any, batch: Any, stage: str) -> None:
        """Take what a step returned, and its batch."""
        self.see(document_results(outputs, type(self).__name__, stage), trainer)

    def on_validation_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if _stage(trainer) in self.stages:
            self.begin(trainer, pl_module)

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *_: Any, **__: Any
    ) -> None:
        if _stage(trainer) in self.stages:
            self.take(trainer, outputs, batch, _stage(trainer))

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if _stage(trainer) in self.stages:
            self.end(trainer, pl_module, _stage(trainer))

    on_test_epoch_start = on_predict_epoch_start = on_validation_epoch_start
    on_test_batch_end = on_predict_batch_end = on_validation_batch_end
    on_test_epoch_end = on_predict_epoch_end = on_validation_epoch_end


class PredictionWriter(DocumentCallback):
    """Writes one JSON line for each document that is tested or predicted, as it comes; one process writes for all.

    Args:
        path: The file; it is written anew each time.
    """

    stages = ("test", "predict")

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file: IO[str] | None = None
        self._ids: set[str] = set()

    def begin(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.end(trainer, pl_module, "")
        self._ids = set()
        if trainer.is_global_zero:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("w", encoding="utf-8")

    def see(self, results: Sequence[Result], trainer: L.Trainer) -> None:
        for result in new_results(results, trainer, self._ids):
            if self._file is not None:
                self._file.write(prediction_line(result) + "\n")

    def end(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self.end(trainer, pl_module, "")


class ResultCollector(DocumentCallback):
    """Keeps the results of the latest test run in ``results``: those of all processes, each document once."""

    stages = ("test",)

    def __init__(self) -> None:
        self.results: list[Any] = []
        self._ids: set[str] = set()

    def begin(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.results, self._ids = [], set()

    def see(self, results: Sequence[Result], trainer: L.Trainer) -> None:
        self.results.extend(new_results(results, trainer, self._ids))


class Coverage(DocumentCallback):
    """Counts what the model never saw: documents that were cut off, and gold that was lost, by reason.

    ``dev/coverage`` and ``test/coverage`` are the share of gold spans that could be found at all; ``summary()`` has the
    counts of the latest run.
    """

    def __init__(self) -> None:
        self._seen: dict[str, Counter[str]] = {}
        self._total: Counter[str] = Counter()

    def begin(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._seen = {}

    def see(self, results: Sequence[Result], trainer: L.Trainer) -> None:
        for result in results:
            counts = Counter(num_documents=1, num_truncated=int(result.truncated), num_tokens=result.num_tokens)
            if isinstance(result, DocumentResult):
                counts.update(num_gold=len(result.gold or ()), num_lost=len(result.lost))
                counts.update(f"lost_{item.reason}" for item in result.lost)
            self._seen[result.id] = counts

    def end(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        seen = {id: counts for of_one in gather(self._seen, trainer) for id, counts in of_one.items()}
        self._total = sum(seen.values(), Counter())
        if self._total["num_gold"] and stage in STAGES:
            share = 1 - self._total["num_lost"] / self._total["num_gold"]
            pl_module.log(f"{STAGES[stage]}/coverage", share, sync_dist=trainer.world_size > 1)

    def summary(self) -> dict[str, int]:
        """The counts of the latest run."""
        names = ("num_documents", "num_truncated", "num_tokens", "num_gold", "num_lost")
        return {**{name: self._total[name] for name in names}, **dict(sorted(self._total.items()))}
