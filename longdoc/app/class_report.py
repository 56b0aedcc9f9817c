"""What a run tells of classes: the part of the report that classification has for itself."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from longdoc.text.classes import ClassScheme
from longdoc.text.results import ClassificationResult
from longdoc.training.class_metrics import class_scores

_95_PERCENT = 1.959964
SCORE_NAMES = {"single_label": "accuracy", "multi_label": "micro F1", "regression": "R2"}


def evaluate_classes(
    results: Sequence[ClassificationResult], scheme: ClassScheme, thresholds: np.ndarray
) -> dict[str, Any]:
    """Score documents; those without gold are left out.

    Args:
        results: What the model said of them.
        scheme: The classes.
        thresholds: Of each class, for ``multi_label``.
    """
    probs, gold = [], []
    for result in results:
        row = scheme.encode(result.gold)
        if row is not None:
            predicted = scheme.encode(result.predicted)
            probs.append(list(result.probs.values()) if result.probs or predicted is None else predicted[:1])
            gold.append(row)
    width = len(scheme.labels)
    scores = class_scores(scheme, np.array(probs).reshape(-1, width), np.array(gold).reshape(-1, width + 1), thresholds)
    if scheme.task == "single_label":
        scores["interval"] = wilson_interval(scores["num_correct"], scores["num_documents"])
    return scores


def wilson_interval(num_correct: int, num: int) -> tuple[float, float]:
    """95 % interval of a share.

    **Source:** Wilson (1927).
    """
    if num == 0:
        return 0.0, 1.0
    z2, share = _95_PERCENT**2, num_correct / num
    middle = (share + z2 / (2 * num)) / (1 + z2 / num)
    half = _95_PERCENT * math.sqrt(share * (1 - share) / num + z2 / (4 * num**2)) / (1 + z2 / num)
    return middle - half, middle + half


def score_table(title: str, first: str) -> Table:
    """A table to hold the scores of labels, with ``first`` over what they are of."""
    table = Table(title=Text(title), title_justify="left")
    table.add_column(first)
    for name in ("precision", "recall", "F1", "support"):
        table.add_column(name, justify="right")
    return table


def score_cells(row: Mapping[str, float]) -> list[str]:
    """The cells of one row of such a table."""
    return [f"{row['precision']:.4f}", f"{row['recall']:.4f}", f"{row['f1']:.4f}", str(int(row["num_gold"]))]


def print_class_report(report: Mapping[str, Any], title: str, console: Console) -> None:
    """Print the scores of ``evaluate_classes``."""
    if report["labels"]:
        table = score_table(f"{title}: {report['num_documents']} documents", "class")
        for label, row in report["labels"].items():
            table.add_row(Text(label), *score_cells(row))
        console.print(table)
    console.print(Text(score_line(report)), soft_wrap=True)
    for row in report["by_length"]:
        name = SCORE_NAMES[report["task"]]
        console.print(f"  {row['tokens']} tokens: {name} {row['score']:.4f} ({row['num_documents']} documents)")


def score_line(report: Mapping[str, Any]) -> str:
    """The scores of all documents in one line."""
    if report["task"] == "regression":
        return f"R2 {report['r2']:.4f}, root mean squared error {report['rmse']:.4f}, mean error {report['mae']:.4f}"
    line = f"accuracy {report['accuracy']:.4f}, macro F1 {report['macro_f1']:.4f}, micro F1 {report['f1']:.4f}"
    if "interval" in report:
        low, high = report["interval"]
        return f"{line}; 95 % interval of the accuracy {low:.3f} to {high:.3f}"
    return f"{line}; accuracy counts documents with all labels right"
