"""Classes of documents: gold in numbers, and numbers back in classes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from longdoc.errors import DataError, check_choice
from longdoc.text.documents import Document

ClassTask = Literal["single_label", "multi_label", "regression"]
Gold = tuple[str, ...] | float


@dataclass(frozen=True)
class ClassScheme:
    """What a document can be.

    Args:
        task: ``single_label`` (one class), ``multi_label`` (any number of them) or ``regression`` (a number).
        labels: The classes, K of them; ``("target",)`` in regression.
        counts: Training documents of each class, for class weights. *Shape:* (K,).
        num_documents: Training documents with gold.
        target_mean: Of the training targets, in regression.
        target_std: Of the training targets, in regression; models learn ``(target - mean) / std``.
    """

    task: ClassTask
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    num_documents: int
    target_mean: float = 0.0
    target_std: float = 1.0

    def __post_init__(self) -> None:
        check_choice("task", self.task, get_args(ClassTask))

    @classmethod
    def of(cls, documents: Iterable[Document], task: ClassTask) -> "ClassScheme":
        """Read the classes off training documents.

        Raises:
            DataError: Without gold; with several labels a document, or one label in all, where one is to be told.
        """
        if task == "regression":
            targets = np.array([document.target for document in documents if document.target is not None])
            if len(targets) == 0:
                raise DataError("split train: expected documents with a target, got none; set data.fields.target=NAME")
            # Equal targets may have a mean that differs in the last bit, and so a spread of next to nothing.
            mean, std = float(targets.mean()), float(targets.std()) if targets.max() > targets.min() else 1.0
            return cls(task, ("target",), (len(targets),), len(targets), mean, std)
        counts: dict[str, int] = {}
        num_documents = most = 0
        for document in documents:
            if task == "single_label":
                check_one_label(document)
            num_documents += document.labels is not None
            most = max(most, len(document.labels or ()))
            for label in set(document.labels or ()):
                counts[label] = counts.get(label, 0) + 1
        least = "2 classes" if task == "single_label" else "1 class"
        if len(counts) < int(least[0]):
            raise DataError(
                f"split train: expected documents of at least {least}, got {sorted(counts)}; which field holds them? "
                "set data.fields.labels=NAME"
            )
        labels = tuple(sorted(counts))
        joined = next((label for label in labels if "|" in label), None)
        if task == "multi_label" and most == 1 and joined is not None:
            raise DataError(
                f"split train: class {joined!r} seems to be several; call the column of a CSV file 'labels', where | "
                "stands between them, or write a list in JSONL"
            )
        return cls(task, labels, tuple(counts[label] for label in labels), num_documents)

    def gold(self, document: Document) -> Gold | None:
        """Gold of a document as it stands in the data; None where it is not annotated."""
        return document.target if self.task == "regression" else document.labels

    def encode(self, gold: Gold | None) -> np.ndarray | None:
        """Gold in numbers: a 1 for each class, or the standardised target; None without gold.

        The last column counts classes that are not in ``labels``, which no model predicts. *Shape:* (K + 1,), float32.
        """
        row = np.zeros(len(self.labels) + 1, dtype=np.float32)
        if gold is None:
            return None
        if not isinstance(gold, tuple):
            row[0] = (gold - self.target_mean) / self.target_std
            return row
        place = {label: i for i, label in enumerate(self.labels)}
        for label in set(gold):
            row[place.get(label, -1)] += 1
        return row

    def decode(self, probs: np.ndarray, thresholds: Sequence[float] | np.ndarray) -> tuple[str, ...]:
        """Classes of one document, the likeliest first; those above their threshold where there can be several."""
        if self.task == "single_label":
            return (self.labels[int(probs.argmax())],)
        return tuple(self.labels[i] for i in np.argsort(-probs, kind="stable") if probs[i] >= thresholds[i])

    def target(self, value: float) -> float:
        """A prediction in the units of the data."""
        return float(value) * self.target_std + self.target_mean


def check_one_label(document: Document) -> None:
    """Refuse an annotated document that has not exactly one label."""
    if document.labels is not None and len(document.labels) != 1:
        raise DataError(
            f"document {document.id!r}: expected one label, got {len(document.labels)}; "
            "for any number of labels set task=multi_label"
        )
