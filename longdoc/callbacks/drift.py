"""Whether what comes in and goes out is still what it was in training."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from longdoc.attention.pattern import Pattern
from longdoc.callbacks.documents import STAGES, DocumentCallback, gather
from longdoc.callbacks.monitor import Monitor
from longdoc.callbacks.vocabulary import Vocabulary, find_vocabulary
from longdoc.models.hf_layers import find_encoder
from longdoc.models.hf_probes import watch_inputs
from longdoc.text.preprocess import EncodedDocument
from longdoc.text.results import ClassificationResult, DocumentResult, Result

Tally = dict[str, Counter]
"""For each thing that is watched, how often each of its values came: of an order where they are numbers."""

_NUM_TOKEN_CLASSES = 256
_ORDERED = ("length", "unknown", "fertility", "confidence")
_SURE = 3.0


def psi(before: Counter, now: Counter) -> float:
    """Population stability index of two counts of classes, less twice what chance gives; 0 for no more than that.

    Each class has half an observation more than were counted. Chance gives (C - 1) (1 / n + 1 / m) for C classes.
    """
    classes = sorted(before.keys() | now.keys(), key=str)
    p, q = (np.array([count[c] for c in classes]) + 0.5 for count in (before, now))
    p, q = p / p.sum(), q / q.sum()
    return max(0.0, float(((q - p) * np.log(q / p)).sum()) - 2 * max(len(classes) - 1, 1) * _chance(before, now))


def ks(before: Counter, now: Counter) -> float:
    """Largest difference of two cumulative distributions (Kolmogorov-Smirnov); 0 where it may be chance."""
    values = sorted(before.keys() | now.keys())
    p, q = (np.cumsum([count[v] for v in values]) / max(count.total(), 1) for count in (before, now))
    distance = float(np.abs(p - q).max(initial=0.0))
    return distance if distance > _SURE * math.sqrt(_chance(before, now)) else 0.0


def _chance(before: Counter, now: Counter) -> float:
    """How far two samples of these sizes may differ by chance, squared; all is chance where one is empty."""
    return 1 / before.total() + 1 / now.total() if before and now else math.inf


def drift(before: Tally, now: Tally) -> dict[str, float]:
    """The distance of everything that both have: KS where values have an order, PSI where they have none."""
    return {name: (ks if name in _ORDERED else psi)(before[name], now[name]) for name in before if now.get(name)}


def add_(total: Tally, more: Tally) -> None:
    """Add counts to others."""
    for name, counts in more.items():
        total.setdefault(name, Counter()).update(counts)


def input_tally(ids: np.ndarray, lengths: Sequence[int], vocabulary: Vocabulary | None) -> Tally:
    """Count what an encoder reads: the ids of all segments, (T,), and how many tokens each segment has.

    These are ``tokens`` in 256 classes by id, and for each segment ``length`` in quarters of a doubling. Where the
    vocabulary is known, special tokens are left out, and there are the share of ``unknown`` tokens in doublings of 1 %,
    and ``fertility``, tokens of a word in tenths.
    """
    segment = np.repeat(np.arange(len(lengths)), lengths)
    if vocabulary is not None:
        real = ~np.isin(ids, sorted(vocabulary.special_ids))
        ids, segment = ids[real], segment[real]
    sizes = np.bincount(segment, minlength=len(lengths))
    full = sizes > 0
    tally: Tally = {"tokens": _counts(ids % _NUM_TOKEN_CLASSES), "length": _counts(np.rint(4 * np.log2(sizes[full])))}
    if vocabulary is not None:
        unknown = np.bincount(segment[ids == vocabulary.unk_id], minlength=len(lengths))[full] / sizes[full]
        words = np.bincount(segment[vocabulary.starts_word[ids]], minlength=len(lengths))[full]
        tally["unknown"] = _counts(np.rint(np.log2(1 + 100 * unknown)))
        tally["fertility"] = _counts(np.rint(10 * sizes[full] / np.maximum(words, 1)))
    return tally


def label_counts(batch: Any) -> Counter:
    """Count ``labels`` or ``item_tags`` of a batch that are not -100, or the gold of a list of ``EncodedDocument``."""
    if isinstance(batch, (list, tuple)):
        counts: Counter = Counter()
        for encoded in batch:
            if isinstance(encoded, EncodedDocument):
                tags = encoded.tags  # only words that are read are learned from
                counts.update(encoded.document.labels or () if tags is None else tags[encoded.seen_words].tolist())
        return counts
    labels = batch.get("labels") if isinstance(batch, Mapping) else getattr(batch, "item_tags", None)
    if not isinstance(labels, Tensor) or labels.is_floating_point():
        return Counter()
    return Counter(labels[labels != -100].flatten().tolist())


def output_tally(results: Iterable[Result]) -> Tally:
    """Count what a model says of documents: ``labels``, ``confidence`` in tenths, and ``empty`` predictions."""
    tally: Tally = {"labels": Counter(), "confidence": Counter(), "empty": Counter()}
    for result in results:
        if isinstance(result, DocumentResult):
            tally["labels"].update(span.label for span in result.predicted)
            scores = [span.score for span in result.predicted if span.score is not None]
        elif isinstance(result, ClassificationResult) and isinstance(result.predicted, tuple):
            tally["labels"].update(result.predicted)
            scores = [max(result.probs.values())] if result.probs else []
        else:
            continue
        tally["confidence"].update(round(10 * score) for score in scores)
        tally["empty"][int(not result.predicted)] += 1
    return tally


def _counts(values: np.ndarray) -> Counter:
    return Counter(values.astype(np.int64).tolist())


class Drift(Monitor):
    """Keeps counts of a time that was good, which travel with the checkpoint, and compares others with them.

    Args:
        max_psi: Largest population stability index that raises no alarm.
        max_ks: Largest distance of distributions that raises no alarm.
    """

    kept: tuple[str, ...] = ("alarms", "baseline")
    what = ""

    def __init__(self, max_psi: float = 0.3, max_ks: float = 0.3) -> None:
        super().__init__()
        self.max_psi = max_psi
        self.max_ks = max_ks
        self.baseline: Tally = {}

    def restore(self, checkpoint: str | Path) -> None:
        """Take the baseline that a checkpoint holds, as ``ckpt_path`` of a Trainer does; none if it has but weights."""
        kept = torch.load(checkpoint, map_location="cpu", weights_only=True).get("callbacks", {})
        if self.state_key in kept:
            self.load_state_dict(kept[self.state_key])

    def compare(self, trainer: L.Trainer, before: Tally, now: Tally, stage: str) -> None:
        """Log the distances, and warn of those that are too large."""
        found = drift(before, now)
        where = STAGES.get(stage, stage)
        self.note(trainer, {f"{where}/drift/{self.what}_{name}": value for name, value in found.items()})
        for name, value in found.items():
            kind, most = ("KS", self.max_ks) if name in _ORDERED else ("PSI", self.max_psi)
            if value > most and trainer.is_global_zero:
                told = f"{self.what} {name} in {where} are not those of the baseline ({kind} {value:.2f}, limit {most})"
                self.alarm([f"{where}/{name}"], told)


class InputDrift(DocumentCallback, Drift):
    """Warns where texts to validate, test or predict are not like those of the training.

    The baseline is what the encoder reads in the first epoch, and the labels of its batches; see ``input_tally`` and
    ``label_counts``. ``Trainer.predict(ckpt_path=...)`` brings it along, if the checkpoint has more than weights.

    Args:
        max_psi: See ``Drift``; for ``tokens`` and ``labels``.
        max_ks: See ``Drift``; for ``length``, ``unknown`` and ``fertility``.
        tokenizer: See ``find_vocabulary``. Without one, ids are all there is.
        encoder: Dotted name of the encoder in the module; needed where it holds several.
    """

    kept = ("alarms", "baseline", "complete")
    what = "input"

    def __init__(
        self, max_psi: float = 0.3, max_ks: float = 0.3, tokenizer: str | None = None, encoder: str | None = None
    ) -> None:
        super().__init__(max_psi, max_ks)
        self.tokenizer = tokenizer
        self.encoder = encoder
        self.complete = False
        self._now: Tally = {}
        self._vocabulary: Vocabulary | None = None
        self._hook: RemovableHandle | None = None

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        self._vocabulary = find_vocabulary(trainer, pl_module, self.tokenizer)
        if stage == "fit":
            self.baseline, self.complete = {}, False

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        if not self.complete:
            checkpoint["callbacks"][self.state_key]["baseline"] = _total(trainer, self.baseline)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Let one process go on with what a checkpoint holds of the first epoch."""
        if trainer.global_rank and not self.complete:
            self.baseline = {}

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if not self.complete:
            self._count(self.baseline, pl_module)
            self._labels(self.baseline, batch)

    def on_before_backward(self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor) -> None:
        """Count no more: what runs now is run again, or by other callbacks."""
        self._stop()

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Close the baseline; further epochs read the same."""
        if not self.complete:
            self.baseline, self.complete = _total(trainer, self.baseline), True

    def begin(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._now = {}
        self._count(self._now, pl_module)

    def take(self, trainer: L.Trainer, outputs: Any, batch: Any, stage: str) -> None:
        self._labels(self._now, batch)

    def end(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._stop()
        with self.clock():
            before = self.baseline if self.complete else _total(trainer, self.baseline)
            self.compare(trainer, before, _total(trainer, self._now), stage)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._stop()
        self._vocabulary = None

    def _count(self, tally: Tally, pl_module: L.LightningModule) -> None:
        def see(ids: Tensor, pattern: Pattern) -> None:
            with self.clock():
                add_(tally, input_tally(ids.cpu().numpy(), pattern.lengths, self._vocabulary))

        self._stop()
        self._hook = watch_inputs(find_encoder(pl_module, self.encoder), see)

    def _labels(self, tally: Tally, batch: Any) -> None:
        with self.clock():
            add_(tally, {"labels": label_counts(batch)})

    def _stop(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None


class OutputDrift(DocumentCallback, Drift):
    """Warns where a model says other things in test or prediction than it did in its last validation.

    The baseline is the last validation of a fit, whose steps must return results: labels, confidence, and documents
    without a prediction. Confidence is compared by KS, the rest by PSI; see ``Drift``.
    """

    what = "output"

    def __init__(self, max_psi: float = 0.3, max_ks: float = 0.3) -> None:
        super().__init__(max_psi, max_ks)
        self._now: Tally = {}

    def begin(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._now = {}

    def see(self, results: Sequence[Result], trainer: L.Trainer) -> None:
        with self.clock():
            add_(self._now, output_tally(results))

    def end(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        with self.clock():
            now = _total(trainer, self._now)
            if trainer.state.fn == "fit":
                self.baseline = now
                if not any(now.values()) and trainer.is_global_zero:
                    self.alarm(["results"], "validation steps return no results, so there is nothing to compare with")
            else:
                self.compare(trainer, self.baseline, now, stage)


def _total(trainer: L.Trainer, tally: Tally) -> Tally:
    total: Tally = {}
    for part in gather(tally, trainer):
        add_(total, part)
    return total
