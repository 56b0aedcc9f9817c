"""Label Studio's JSON export: tasks with annotations or predictions, labels and choices."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from longdoc.text.formats.base import RawRow, ReadOptions
from longdoc.text.formats.json_rows import rows_of_values
from longdoc.text.formats.offsets import RawSpan


def rows_label_studio(path: Path, options: ReadOptions) -> Iterator[RawRow]:
    """Read one task after the other.

    Of several annotations the one marked as ground truth counts, or else the first that was not cancelled. Predictions
    count where there is no annotation. Both are reported as repairs.
    """

    def make_row(value: object, line: int) -> RawRow:
        try:
            return _task_row(value, line, options)
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            return RawRow(line, problems=[(line, f"not a task of Label Studio ({type(error).__name__}: {error})")])

    return rows_of_values(path, make_row)


def _task_row(task: Any, line: int, options: ReadOptions) -> RawRow:
    data = task["data"]
    row = RawRow(line, task.get("id"))
    row.id = next((data[name] for name in options.names("id", "id") if data.get(name) is not None), row.id)
    row.text = next((data[name] for name in options.names("text", "text") if name in data), None)
    results = _chosen_results(task, row)
    if results is None:
        return row
    row.spans, row.labels = [], []
    unused: Counter[str] = Counter()
    for result in results:
        kind, value = result["type"], result.get("value", {})
        if kind in ("labels", "hypertextlabels"):
            offsets, part = value.get("globalOffsets") or value, (result.get("meta") or {}).get("slice")
            more = result.get("score"), part, value.get("text")
            start, end = offsets["start"], offsets["end"]
            labels = value.get("labels") or value.get("hypertextlabels")
            if not labels or not isinstance(labels, list):
                row.problems.append((line, f"region {start}-{end} has no list of labels"))
                continue
            row.spans += [RawSpan(start, end, label, *more) for label in labels]
        elif kind == "choices":
            chosen = value["choices"]
            row.labels += chosen if isinstance(chosen, list) else [chosen]
        elif kind in ("number", "rating"):
            row.target = value[kind]
        else:
            unused[kind] += 1
    if unused:
        counts = ", ".join(f"{number} {kind}" for kind, number in unused.items())
        row.repairs.append((line, f"results that are not used: {counts}"))
    kinds = (task.get("meta") or {}).get("gold")
    if kinds is None:
        has_class = bool(row.labels) or row.target is not None
        keep_spans = bool(row.spans) or options.task == "ner" or not (has_class or options.task)
        keep_labels = bool(row.labels) or options.task == "classification"
    else:
        keep_spans, keep_labels = "spans" in kinds, "labels" in kinds
    row.spans = row.spans if keep_spans else None
    row.labels = row.labels if keep_labels else None
    return row


def _chosen_results(task: Mapping[str, Any], row: RawRow) -> list[Any] | None:
    """The results of the annotation that counts, or None where the task has neither annotation nor prediction."""
    annotations = task.get("annotations") or task.get("completions") or []
    annotations = [annotation for annotation in annotations if not annotation.get("was_cancelled")]
    annotations.sort(key=lambda annotation: not annotation.get("ground_truth"))
    if len(annotations) > 1:
        row.repairs.append((row.line, f"{len(annotations)} annotations, the ground truth or the first of them used"))
    predictions = task.get("predictions") or []
    if not annotations and predictions:
        row.repairs.append((row.line, "no annotation, the prediction used"))
    chosen = next(iter(annotations or predictions), None)
    return None if chosen is None else chosen["result"]
