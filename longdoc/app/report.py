"""What a run or an evaluation tells: one plain structure for ``metrics.json`` and the console."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from longdoc.text.alignment import LostSpan
from longdoc.text.results import DocumentResult
from longdoc.training.metrics import SpanF1, seqeval_f1

_BUCKETS = (("to 512", 512), ("to 1k", 1024), ("to 2k", 2048), ("to 4k", 4096), ("to 8k", 8192), ("above 8k", None))
_NUMBERS = ("precision", "recall", "f1", "num_gold")
_WHY = {
    "unalignable": "begin or end inside a word",
    "overlapping": "overlap another that was kept",
    "unknown_label": "have a label that the model does not know",
    "truncated": "stand beyond what was read",
    "not_selected": "stand in sentences that were not selected",
}


def evaluate(
    results: Sequence[DocumentResult], num_tokens: Mapping[str, int], labels: Sequence[str], slices: Sequence[str] = ()
) -> dict[str, Any]:
    """Score documents.

    Args:
        results: What the model said of them; those without gold are left out.
        num_tokens: Length of each document by its id, without special tokens and overlap.
        labels: Entity types to report.
        slices: Gold slices to report.
    """
    scored = [result for result in results if result.gold is not None]
    scores = _span_scores(scored, labels, slices)
    return {
        **{name: scores[name] for name in (*_NUMBERS, "num_predicted")},
        "num_documents": len(scored),
        "labels": {label: _row(scores, f"label/{label}") for label in labels},
        "slices": {name: _row(scores, f"slice/{name}") for name in ("rest", *slices)} if slices else {},
        "seqeval": {"f1": seqeval_f1(scored), "mode": "strict", "scheme": "IOB2"},
        "by_length": _by_length(scored, num_tokens, labels),
        "lost": count_lost(item for result in scored for item in result.lost),
        "num_truncated_documents": sum(result.truncated for result in scored),
    }


def count_lost(lost: Iterable[LostSpan]) -> dict[str, int]:
    """How many gold entities were lost before the model saw them, by reason."""
    return dict(sorted(Counter(item.reason for item in lost).items()))


def _span_scores(
    results: Iterable[DocumentResult], labels: Sequence[str], slices: Sequence[str] = ()
) -> dict[str, float]:
    metric = SpanF1(labels, slices)
    metric.update(results)
    return metric.compute()


def _row(scores: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {name: scores[f"{prefix}/{name}"] for name in _NUMBERS}


def _by_length(
    results: Sequence[DocumentResult], num_tokens: Mapping[str, int], labels: Sequence[str]
) -> list[dict[str, Any]]:
    rows, above = [], -1
    for name, most in _BUCKETS:
        inside = [r for r in results if num_tokens[r.id] > above and (most is None or num_tokens[r.id] <= most)]
        if inside:
            scores = _span_scores(inside, labels)
            rows.append({"tokens": name, "num_documents": len(inside), **{key: scores[key] for key in _NUMBERS}})
        above = above if most is None else most
    return rows


def print_report(report: Mapping[str, Any], title: str, console: Console) -> None:
    """Print the scores of ``evaluate`` as tables."""
    heading = Text(f"{title}: strict entity scores, character spans against raw gold")
    table = Table(title=heading, title_justify="left")
    table.add_column("label")
    for name in ("precision", "recall", "F1", "support"):
        table.add_column(name, justify="right")
    for label, row in report["labels"].items():
        table.add_row(Text(label), *_cells(row))
    table.add_section()
    table.add_row("all (micro)", *_cells(report), style="bold")
    if report["slices"]:
        table.add_section()
        for name, row in report["slices"].items():
            table.add_row(Text(f"slice {name}"), *_cells(row))
    table.add_section()
    for row in report["by_length"]:
        documents = "document" if row["num_documents"] == 1 else "documents"
        table.add_row(f"{row['tokens']} tokens ({row['num_documents']} {documents})", *_cells(row))
    console.print(table)
    seqeval = report["seqeval"]
    console.print(f"seqeval F1 {seqeval['f1']:.4f} (mode {seqeval['mode']}, scheme {seqeval['scheme']})")
    console.print(lost_line(report["lost"], report["num_gold"], title), soft_wrap=True, markup=False)
    if report["num_truncated_documents"]:
        console.print(
            f"{report['num_truncated_documents']} of {report['num_documents']} documents were not read to their end"
        )


def lost_line(lost: Mapping[str, int], num_gold: int, where: str) -> str:
    """Say in one line how many gold entities the model never saw, and why."""
    reasons = "; ".join(f"{number} {_WHY.get(reason, reason)}" for reason, number in lost.items())
    counted = f"{where}: {sum(lost.values())} of {num_gold} gold entities lost before the model saw them"
    return f"{counted}: {reasons}" if reasons else counted


def speed_line(speed: Mapping[str, Any]) -> str:
    """Say in one line how fast it went and what it took."""
    parts = [
        f"{name} {speed[f'{name}_tokens_per_second']:,.0f} tokens/s ({speed[f'{name}_seconds']:.0f} s)"
        for name in ("train", "test")
        if speed.get(f"{name}_tokens_per_second") is not None
    ]
    if speed.get("peak_memory_mb") is not None:
        parts.append(f"peak memory {speed['peak_memory_mb']:,} MB")
    return ", ".join(parts)


def _cells(row: Mapping[str, float]) -> list[str]:
    return [f"{row['precision']:.4f}", f"{row['recall']:.4f}", f"{row['f1']:.4f}", str(int(row["num_gold"]))]
