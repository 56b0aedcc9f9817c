"""Scores on documents: character spans against the raw gold spans, as sums of integer counts."""

from collections.abc import Iterable, Sequence

import torch
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2
from torch import Tensor
from torchmetrics import Metric

from longdoc.errors import ConfigError
from longdoc.text.alignment import align, without_overlap, word_spans
from longdoc.text.documents import Document, Span
from longdoc.text.results import DocumentResult
from longdoc.text.tags import TagScheme
from longdoc.text.words import split_words


def precision_recall_f1(num_correct: int, num_predicted: int, num_gold: int) -> dict[str, float]:
    """The three scores from counts; 0 where a denominator is 0."""
    return {
        "precision": num_correct / num_predicted if num_predicted else 0.0,
        "recall": num_correct / num_gold if num_gold else 0.0,
        "f1": 2 * num_correct / (num_predicted + num_gold) if num_predicted + num_gold else 0.0,
    }


class SpanF1(Metric):
    """Strict entity F1: a predicted span counts if start, end and label all equal those of a gold span.

    Counts are integers and summed over processes, so the score depends neither on batches nor on ranks. Gold spans of
    a named slice are counted apart as well: there a prediction belongs to the slice of the gold span that it overlaps,
    and to ``"rest"`` if it overlaps none of a slice.

    Args:
        labels: Entity types to report.
        slices: Names of gold slices to report.
        sync: Whether ``compute`` adds up the counts of all processes.
    """

    full_state_update = False
    counts: Tensor
    slice_counts: Tensor

    def __init__(self, labels: Sequence[str], slices: Sequence[str] = (), sync: bool = True) -> None:
        super().__init__(sync_on_compute=sync)
        if "rest" in slices:
            raise ConfigError("slices: the name 'rest' stands for the spans of no slice; give that slice another name")
        self.labels = tuple(labels)
        self.slices = ("rest", *slices)
        # Columns: correct, predicted, gold. The last row of counts holds labels that are not in the list.
        self.add_state("counts", torch.zeros(len(self.labels) + 1, 3, dtype=torch.long), dist_reduce_fx="sum")
        self.add_state("slice_counts", torch.zeros(len(self.slices), 3, dtype=torch.long), dist_reduce_fx="sum")
        self._row = {label: i for i, label in enumerate(self.labels)}

    def update(self, results: Iterable[DocumentResult]) -> None:
        """Count documents; those without gold are left out."""
        for result in results:
            if result.gold is None:
                continue
            gold = {span.key: span for span in result.gold}
            predicted = {span.key: span for span in result.predicted}
            for column, spans in enumerate((gold.keys() & predicted.keys(), predicted, gold)):
                for _, _, label in spans:
                    self.counts[self._row.get(label, -1), column] += 1
            self._count_slices(gold, predicted)

    def _count_slices(self, gold: dict, predicted: dict) -> None:
        if len(self.slices) == 1:
            return
        sliced = sorted(span for span in gold.values() if span.slice in self.slices)
        for key, span in gold.items():
            row = self.slices.index(span.slice) if span.slice in self.slices else 0
            self.slice_counts[row, 2] += 1
            if key in predicted:
                self.slice_counts[row, :2] += 1
        for key, span in predicted.items():
            if key not in gold:
                over = next((g for g in sliced if g.start < span.end and span.start < g.end), None)
                self.slice_counts[self.slices.index(over.slice) if over and over.slice else 0, 1] += 1

    def compute(self) -> dict[str, float]:
        """Micro scores, then those of each label and slice: ``f1``, ``label/NAME/f1``, ``slice/NAME/f1`` and so on."""
        correct, predicted, gold = self.counts.sum(0).tolist()
        scores = {**precision_recall_f1(correct, predicted, gold), "num_gold": gold, "num_predicted": predicted}
        rows = [(f"label/{name}", row) for name, row in zip(self.labels, self.counts.tolist(), strict=False)]
        if len(self.slices) > 1:
            rows += [(f"slice/{name}", row) for name, row in zip(self.slices, self.slice_counts.tolist(), strict=True)]
        for name, row in rows:
            scores |= {f"{name}/{key}": value for key, value in precision_recall_f1(*row).items()}
            scores[f"{name}/num_gold"] = row[2]
        return scores


def seqeval_f1(results: Iterable[DocumentResult]) -> float:
    """The number that papers quote: seqeval's micro F1 on words, mode strict, scheme IOB2.

    Gold that cannot be written as tags (unaligned, or overlapped by a longer span) is missing from it, so it can be
    higher than ``SpanF1``.
    """
    gold_tags, predicted_tags = [], []
    for result in results:
        if result.gold is None:
            continue
        words = split_words(result.text)
        gold_tags.append(_iob2(result, result.gold, words))
        predicted_tags.append(_iob2(result, result.predicted, words))
    return float(f1_score(gold_tags, predicted_tags, mode="strict", scheme=IOB2, zero_division=0)) if gold_tags else 0.0


def _iob2(result: DocumentResult, spans: tuple[Span, ...], words) -> list[str]:
    aligned, _ = align(Document(result.id, result.text, spans), words)
    kept, _ = without_overlap(aligned, "longest_first", result.id)
    labels = sorted({span.label for span, _, _ in kept})
    if not labels:
        return ["O"] * len(words)
    scheme = TagScheme(tuple(labels), "IOB2")
    return [scheme.tags[i] for i in scheme.encode(word_spans(kept), len(words))]
