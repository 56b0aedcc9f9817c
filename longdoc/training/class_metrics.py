"""Scores of document classification, computed once on all documents."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from sklearn.metrics import precision_recall_curve
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from longdoc.text.classes import ClassScheme
from longdoc.training.metrics import precision_recall_f1

DEFAULT_THRESHOLD = 0.5


class ClassScores(Metric):
    """Keeps what the model said of every document, and scores it at the end, over all processes.

    Args:
        scheme: The classes.
    """

    full_state_update = False
    probs: list[Tensor]
    gold: list[Tensor]

    def __init__(self, scheme: ClassScheme) -> None:
        super().__init__()
        self.scheme = scheme
        self.add_state("probs", [], dist_reduce_fx="cat")
        self.add_state("gold", [], dist_reduce_fx="cat")

    def update(self, probs: np.ndarray, gold: Iterable[np.ndarray | None]) -> None:
        """Keep documents; those without gold are left out.

        Args:
            probs: Of each class, or the standardised prediction. *Shape:* (B, K).
            gold: As ``ClassScheme.encode`` gives it.
        """
        known = [(row, truth) for row, truth in zip(probs, gold, strict=True) if truth is not None]
        width = len(self.scheme.labels)
        # Rows of none too: processes gather what has the same number of dimensions.
        for state, side, columns in ((self.probs, 0, width), (self.gold, 1, width + 1)):
            rows = np.array([pair[side] for pair in known], dtype=np.float32).reshape(-1, columns)
            state.append(torch.from_numpy(rows).to(self.device))

    def compute(self) -> tuple[np.ndarray, np.ndarray]:
        """Everything kept: probabilities and gold. *Shapes:* (num_documents, K) and (num_documents, K + 1)."""
        if not len(self.probs):
            width = len(self.scheme.labels)
            return np.zeros((0, width)), np.zeros((0, width + 1))
        return dim_zero_cat(self.probs).cpu().double().numpy(), dim_zero_cat(self.gold).cpu().double().numpy()


def class_scores(scheme: ClassScheme, probs: np.ndarray, gold: np.ndarray, thresholds: np.ndarray) -> dict[str, Any]:
    """Score documents.

    Args:
        scheme: The classes.
        probs: *Shape:* (num_documents, K).
        gold: *Shape:* (num_documents, K + 1).
        thresholds: Of each class, for ``multi_label``. *Shape:* (K,).

    Returns:
        ``score``, by which runs are compared, is the accuracy of one label, the micro F1 of several, and R2 in
        regression. The other scores of the task stand beside it, and ``labels`` has those of each class. ``macro_f1``
        is the mean over classes that these documents have or were given, as in scikit-learn.
    """
    if scheme.task == "regression":
        return _regression_scores(scheme, probs[:, 0], gold[:, 0])
    chosen = np.zeros_like(gold)
    if scheme.task == "single_label":
        chosen[np.arange(len(probs)), probs.argmax(axis=1)] = 1
    else:
        chosen[:, :-1] = probs >= thresholds
    counts = np.stack([(chosen * gold).sum(axis=0), chosen.sum(axis=0), gold.sum(axis=0)], axis=1).astype(int)
    labels = {
        label: {**precision_recall_f1(*row), "num_gold": row[2]}
        for label, row in zip(scheme.labels, counts.tolist(), strict=False)
    }
    present = [row["f1"] for row, counted in zip(labels.values(), counts, strict=False) if counted.any()]
    micro = precision_recall_f1(*counts.sum(axis=0).tolist())
    num_correct = int((chosen == gold).all(axis=1).sum())
    accuracy = num_correct / len(gold) if len(gold) else 0.0
    return {
        "score": accuracy if scheme.task == "single_label" else micro["f1"],
        "accuracy": accuracy,
        "macro_f1": float(np.mean(present)) if present else 0.0,
        **micro,
        "num_correct": num_correct,
        "num_documents": len(gold),
        "labels": labels,
    }


def _regression_scores(scheme: ClassScheme, predicted: np.ndarray, gold: np.ndarray) -> dict[str, Any]:
    if len(gold) == 0:
        return {"score": 0.0, "r2": 0.0, "rmse": 0.0, "mae": 0.0, "num_documents": 0, "labels": {}}
    errors = (predicted - gold) * scheme.target_std
    spread = float(((gold - gold.mean()) ** 2).sum()) * scheme.target_std**2
    r2 = 1 - float((errors**2).sum()) / spread if spread else 0.0
    rmse, mae = float(np.sqrt((errors**2).mean())), float(np.abs(errors).mean())
    return {"score": r2, "r2": r2, "rmse": rmse, "mae": mae, "num_documents": len(gold), "labels": {}}


def tuned_thresholds(probs: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """For each class the threshold with the best F1 on these documents; 0.5 for one that none of them has.

    A threshold lies half-way between two neighbouring probabilities; of equally good ones the nearest to 0.5 is taken.

    Args:
        probs: *Shape:* (num_documents, K).
        gold: *Shape:* (num_documents, K + 1).
    """
    thresholds = np.full(probs.shape[1], DEFAULT_THRESHOLD)
    for k in np.flatnonzero(gold[:, :-1].any(axis=0)):
        precision, recall, values = precision_recall_curve(gold[:, k], probs[:, k])
        f1 = (2 * precision * recall / np.maximum(precision + recall, 1e-12))[:-1]
        halfway = (values + np.append(0.0, values[:-1])) / 2
        best = halfway[f1 >= f1.max() - 1e-12]
        thresholds[k] = best[np.abs(best - DEFAULT_THRESHOLD).argmin()]
    return thresholds


def log_loss(scheme: ClassScheme, probs: np.ndarray, gold: np.ndarray) -> float:
    """Mean negative log-likelihood of the gold, or squared error; a class that no model can predict is left out."""
    if len(gold) == 0:
        return 0.0
    if scheme.task == "regression":
        return float(((probs[:, 0] - gold[:, 0]) ** 2).mean())
    clipped, known = probs.clip(1e-12, 1 - 1e-12), gold[:, :-1]
    if scheme.task == "single_label":
        return float(-(known * np.log(clipped)).sum(axis=1).mean())
    return float(-(known * np.log(clipped) + (1 - known) * np.log(1 - clipped)).mean())
