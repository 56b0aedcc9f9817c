"""What a run or an evaluation tells: one plain structure for ``metrics.json`` and the console."""

import json
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from longdoc.app.class_report import evaluate_classes, print_class_report, score_cells, score_table
from longdoc.text.alignment import LostSpan
from longdoc.text.results import DocumentResult
from longdoc.training.classification import DocumentClassificationModule
from longdoc.training.metrics import SpanF1, seqeval_f1
from longdoc.training.module import DocumentModule

_BUCKETS = (("to 512", 512), ("to 1k", 1024), ("to 2k", 2048), ("to 4k", 4096), ("to 8k", 8192), ("above 8k", math.inf))
_NUMBERS = ("precision", "recall", "f1", "num_gold")
_WHY = {
    "unalignable": "begin or end inside a word",
    "overlapping": "overlap another that was kept",
    "unknown_label": "have a label that the model does not know",
    "truncated": "stand beyond what was read",
    "not_selected": "stand in sentences that were not selected",
}
_SHARES = {
    "train_padding_share": "padding",
    "train_wait_share": "waiting for data",
    "train_hardware_share": "of the device's rate at matrix products",
}


def evaluate(module: DocumentModule, results: Sequence[Any], num_tokens: Mapping[str, int]) -> dict[str, Any]:
    """Score documents.

    Args:
        module: The model.
        results: What it said of them; those without gold are left out.
        num_tokens: Length of each document by its id, without special tokens and overlap.

    Returns:
        Scores; ``score`` is the one by which runs are compared, ``task`` says which that is.
    """
    if not isinstance(module, DocumentClassificationModule):
        return evaluate_spans(results, num_tokens, module.labels)
    scored = [result for result in results if result.gold is not None]
    score = partial(evaluate_classes, scheme=module.scheme, thresholds=module.thresholds)
    rows = [{"tokens": name, **score(inside)} for name, inside in _buckets(scored, num_tokens)]
    by_length = [{key: row[key] for key in ("tokens", "num_documents", "score")} for row in rows]
    more = {"by_length": by_length, "num_truncated_documents": sum(result.truncated for result in scored)}
    return {"task": module.scheme.task, **score(scored), **more}


def evaluate_spans(
    results: Sequence[DocumentResult], num_tokens: Mapping[str, int], labels: Sequence[str]
) -> dict[str, Any]:
    """Score the entities of annotated documents, those of each slice of the gold apart."""
    scored = [result for result in results if result.gold is not None]
    slices = sorted({span.slice for result in scored for span in result.gold or () if span.slice is not None})
    scores = _span_scores(scored, labels, slices)
    by_length = [
        {"tokens": name, "num_documents": len(inside), **_numbers(_span_scores(inside, labels))}
        for name, inside in _buckets(scored, num_tokens)
    ]
    return {
        "task": "ner",
        "score": scores["f1"],
        **{name: scores[name] for name in (*_NUMBERS, "num_predicted")},
        "num_documents": len(scored),
        "labels": {label: _numbers(scores, f"label/{label}/") for label in labels},
        "slices": {name: _numbers(scores, f"slice/{name}/") for name in ("rest", *slices)} if slices else {},
        "seqeval": {"f1": seqeval_f1(scored), "mode": "strict", "scheme": "IOB2"},
        "by_length": by_length,
        "lost": count_lost(item for result in scored for item in result.lost),
        "num_truncated_documents": sum(result.truncated for result in scored),
    }


def document_counts(results: Sequence[Any]) -> list[dict[str, Any]]:
    """What is right in each annotated document: the counts that a comparison of runs draws again and again."""
    rows = []
    for result in results:
        if isinstance(result.gold, (int, float)):
            rows.append({"id": result.id, "gold": result.gold, "predicted": result.predicted})
        elif result.gold is not None:
            spans = isinstance(result, DocumentResult)
            gold, predicted = ({x.key if spans else x for x in side} for side in (result.gold, result.predicted))
            counts = {"num_correct": len(gold & predicted), "num_predicted": len(predicted), "num_gold": len(gold)}
            rows.append({"id": result.id, **counts})
    return rows


def write_json(path: Path, content: Any) -> None:
    """Write a file for people and programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def count_lost(lost: Iterable[LostSpan]) -> dict[str, int]:
    """How many gold entities were lost before the model saw them, by reason."""
    return dict(sorted(Counter(item.reason for item in lost).items()))


def _span_scores(
    results: Iterable[DocumentResult], labels: Sequence[str], slices: Sequence[str] = ()
) -> dict[str, float]:
    metric = SpanF1(labels, slices, sync=False)  # the results of all processes are here already
    metric.update(results)
    return metric.compute()


def _numbers(scores: Mapping[str, float], prefix: str = "") -> dict[str, float]:
    return {name: scores[f"{prefix}{name}"] for name in _NUMBERS}


def _buckets(results: Sequence[Any], num_tokens: Mapping[str, int]) -> Iterator[tuple[str, list[Any]]]:
    """Results by length of the document; empty classes are left out."""
    places = [bisect_left(_BUCKETS, num_tokens[result.id], key=itemgetter(1)) for result in results]
    for place in sorted(set(places)):
        yield _BUCKETS[place][0], [result for result, at in zip(results, places, strict=True) if at == place]


def print_report(report: Mapping[str, Any], title: str, console: Console) -> None:
    """Print the scores of ``evaluate`` as tables."""
    if report["task"] == "ner":
        _print_spans(report, title, console)
    else:
        print_class_report(report, title, console)
    if num_truncated := report["num_truncated_documents"]:
        console.print(f"{num_truncated} of {report['num_documents']} documents were not read whole")


def _print_spans(report: Mapping[str, Any], title: str, console: Console) -> None:
    table = score_table(f"{title}: strict entity scores, character spans against raw gold", "label")
    for label, row in report["labels"].items():
        table.add_row(Text(label), *score_cells(row))
    table.add_section()
    table.add_row("all (micro)", *score_cells(report), style="bold")
    table.add_section()
    for name, row in report["slices"].items():
        table.add_row(Text(f"slice {name}"), *score_cells(row))
    table.add_section()
    for row in report["by_length"]:
        documents = "document" if row["num_documents"] == 1 else "documents"
        table.add_row(f"{row['tokens']} tokens ({row['num_documents']} {documents})", *score_cells(row))
    console.print(table)
    seqeval = report["seqeval"]
    console.print(f"seqeval F1 {seqeval['f1']:.4f} (mode {seqeval['mode']}, scheme {seqeval['scheme']})")
    console.print(lost_line(report["lost"], report["num_gold"], title), soft_wrap=True, markup=False)


def lost_line(lost: Mapping[str, int], num_gold: int, where: str) -> str:
    """Say in one line how many gold entities the model never saw, and why."""
    reasons = "; ".join(f"{number} {_WHY.get(reason, reason)}" for reason, number in lost.items())
    counted = f"{where}: {sum(lost.values())} of {num_gold} gold entities lost before the model saw them"
    return f"{counted}: {reasons}" if reasons else counted


def speed_line(speed: Mapping[str, Any]) -> str:
    """Say in one line how fast it went and what it took; what was not measured is left out."""
    told = {key: value for key, value in speed.items() if value is not None}
    parts = [
        f"{name} {told[f'{name}_tokens_per_second']:,.0f} tokens/s ({told[f'{name}_seconds']:.0f} s)"
        for name in ("train", "test")
        if f"{name}_tokens_per_second" in told
    ]
    parts += [f"{told[key]:.0%} {words}" for key, words in _SHARES.items() if key in told]
    if "peak_memory_mb" in told:
        parts.append(f"peak memory {told['peak_memory_mb']:,} MB")
    return ", ".join(parts)
