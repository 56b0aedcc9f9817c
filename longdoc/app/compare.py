"""``longdoc compare``: finished runs in one table and one figure."""

import csv
import json
import math
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from textwrap import fill, shorten
from typing import Any

import numpy as np
import yaml
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table
from rich.text import Text

from longdoc.app.class_report import SCORE_NAMES
from longdoc.errors import ConfigError, MissingExtra

_NUM_DRAWS = 2000
_WIDTH = 120
_LABEL_CHARS = 40
_TITLE = "Score against speed; bubble: peak memory, bar: deviation over seeds"
_SPEED = ("tokens_per_second", "train_seconds", "memory_mb")
_COLUMNS = ("run", "seeds", "score", "sd", "difference", "low", "high", *_SPEED)
# What may differ between runs that are repetitions of each other.
_OF_ONE_RUN = ("seed", "output_dir", "callbacks", "logger", "resume")


@dataclass
class Group:
    """Runs that differ in nothing but their seed.

    Args:
        name: The settings in which it differs from the other groups.
        metrics: What ``metrics.json`` of each holds.
        documents: Counts of each test document, one mapping by id for each run.
        num_failed: Runs that did not come to their end, for an error or not yet.
        num_untested: Runs without a test split.
    """

    name: str
    metrics: list[dict[str, Any]] = field(default_factory=list)
    documents: list[dict[str, dict[str, Any]]] = field(default_factory=list)
    num_failed: int = 0
    num_untested: int = 0

    def mean(self, section: str, name: str) -> float | None:
        """Mean of a number over the runs; None where one of them lacks it."""
        values: list[Any] = [(metrics.get(section) or {}).get(name) for metrics in self.metrics]
        return None if not values or None in values else fmean(values)


def run_folders(paths: Sequence[str | Path]) -> list[Path]:
    """Find run folders: those given, or those inside a given folder of a sweep.

    Raises:
        ConfigError: A path that holds no run.
    """
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        jobs = sorted(path.glob("*"), key=lambda job: (len(job.name), job.name))
        inside = [path] if _is_run(path) else [job for job in jobs if _is_run(job)]
        if not inside:
            raise ConfigError(f"{path}: expected the output folder of a run, or of a multirun, with config.yaml inside")
        for folder in inside:
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def _is_run(path: Path) -> bool:
    return (path / "config.yaml").is_file() or (path / ".hydra" / "overrides.yaml").is_file()


def read_groups(folders: Sequence[Path]) -> list[Group]:
    """Read runs and put repetitions together, in the order given."""
    overrides = [_read(folder / ".hydra" / "overrides.yaml", yaml.safe_load) or [] for folder in folders]
    common = set.intersection(*map(set, overrides)) if len(folders) > 1 else set()
    groups: dict[str, Group] = {}
    for folder, of_one in zip(folders, overrides, strict=True):
        told = [item for item in of_one if item not in common and not item.startswith("seed=")]
        config = _read(folder / "config.yaml", yaml.safe_load) or {"told": told}
        same = {k: v for k, v in config.items() if k not in _OF_ONE_RUN}
        if "selection" in same:
            same["selection"] = {**same["selection"], "seed": None}  # follows that of the run
        key = json.dumps(same, sort_keys=True)
        group = groups.setdefault(key, Group(" ".join(told) or folder.name))
        metrics = _read(folder / "metrics.json", json.load)
        if metrics is None or "test" not in metrics:
            group.num_failed += metrics is None
            group.num_untested += metrics is not None
            continue
        group.metrics.append(metrics)
        rows = _read(folder / "test_documents.jsonl", lambda file: list(map(json.loads, file))) or []
        group.documents.append({row["id"]: row for row in rows})
    tasks = {metrics["test"]["task"] for group in groups.values() for metrics in group.metrics}
    if len(tasks) > 1:
        raise ConfigError(f"runs of different tasks cannot be compared: {', '.join(sorted(tasks))}")
    return list(groups.values())


def _read(path: Path, load: Any) -> Any:
    if not path.is_file():
        return None
    try:
        with path.open(encoding="utf-8") as file:
            return load(file)
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read, leave this run out ({error})") from error


def compare(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """One row a group; scores are compared with those of the first that has any.

    ``difference`` has a 95 % interval from ``low`` to ``high``: a paired bootstrap over the test documents, the same
    documents on both sides, all seeds of a group together.
    """
    first = next((group for group in groups if group.metrics), None)
    rows = []
    for group in groups:
        scores = [metrics["test"]["score"] for metrics in group.metrics]
        seconds = group.mean("speed", "test_seconds")
        num_tokens = group.mean("test", "num_tokens")
        row: dict[str, Any] = dict.fromkeys(_COLUMNS)
        row |= {
            "run": group.name,
            "seeds": len(scores),
            "failed": group.num_failed,
            "untested": group.num_untested,
            "score": fmean(scores) if scores else None,
            "sd": stdev(scores) if len(scores) > 1 else None,
            "tokens_per_second": num_tokens / seconds if num_tokens and seconds else None,
            "train_seconds": group.mean("speed", "train_seconds"),
            "memory_mb": group.mean("speed", "peak_memory_mb"),
        }
        if scores and first is not None and group is not first:
            row |= dict(zip(("difference", "low", "high"), paired_bootstrap(first, group), strict=True))
        rows.append(row)
    return rows


def paired_bootstrap(first: Group, other: Group) -> tuple[float, float, float]:
    """Difference of two scores and its 95 % interval; not a number where other documents were tested, or other gold.

    **Source:** Efron and Tibshirani (1993), percentile interval; paired as in Koehn (2004).
    """
    shared = sorted(set.intersection(*(set(run) for group in (first, other) for run in group.documents)))
    sides = [_columns(group, shared) for group in (first, other)]
    gold = np.concatenate([side[..., -1] for side in sides], axis=1) if shared else np.zeros((0, 1))
    if not shared or (gold != gold[:, :1]).any():
        return math.nan, math.nan, math.nan
    draws = np.random.default_rng(0).integers(len(shared), size=(_NUM_DRAWS, len(shared)))
    drawn = [_score(side[draws]) for side in sides]
    low, high = np.percentile(drawn[1] - drawn[0], (2.5, 97.5))
    told = [_score(side[None]) for side in sides]
    return float(told[1][0] - told[0][0]), float(low), float(high)


def _columns(group: Group, ids: Sequence[str]) -> np.ndarray:
    """What scores are made of, for each document, its gold last. *Shape:* (num_documents, num_seeds, 2 or 3)."""
    names = ("num_correct", "num_predicted", "num_gold")
    if ids and "num_gold" not in group.documents[0][ids[0]]:
        names = ("predicted", "gold")  # type: ignore[assignment]
    return np.array([[[run[one][name] for name in names] for run in group.documents] for one in ids], dtype=float)


def _score(rows: np.ndarray) -> np.ndarray:
    """F1, which is the accuracy of single labels, or R2: the mean over seeds. *Shape:* (..., N, S, C) to (...,)."""
    if rows.shape[-1] == 3:
        correct, predicted, gold = np.moveaxis(rows.sum(axis=-3), -1, 0)
        return (2 * correct / np.maximum(predicted + gold, 1)).mean(axis=-1)
    predicted, gold = rows[..., 0], rows[..., 1]
    spread = ((gold - gold.mean(axis=-2, keepdims=True)) ** 2).sum(axis=-2)
    r2 = 1 - ((predicted - gold) ** 2).sum(axis=-2) / np.where(spread > 0, spread, 1)
    return np.where(spread > 0, r2, 0).mean(axis=-1)  # documents of one number have no R2


def pareto_front(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Rows that no other beats in both score and speed."""
    points = [(row["score"], row["tokens_per_second"]) for row in rows]
    told = [point for point in points if None not in point]
    beaten = {
        (x, y) for x, y in told for score, speed in told if score >= x and speed >= y and (score, speed) != (x, y)
    }
    return [i for i, point in enumerate(points) if point in told and point not in beaten]


def score_name(groups: Sequence[Group]) -> str:
    """Name of the score of these runs."""
    task = next((metrics["test"]["task"] for group in groups for metrics in group.metrics), "ner")
    return SCORE_NAMES.get(task, "strict F1")


def _cells(row: Mapping[str, Any]) -> list[str]:
    score = f"{row['score']:.4f}" if row["score"] is not None else "not tested" if row["untested"] else "not finished"
    spread = "" if row["sd"] is None else f" ± {row['sd']:.4f}"
    change = "" if row["difference"] is None else f"{row['difference']:+.4f} ({row['low']:+.3f} to {row['high']:+.3f})"
    if row["difference"] is not None and math.isnan(row["difference"]):
        change = "other documents"
    seeds = str(row["seeds"]) + (f" ({row['failed']} failed)" if row["failed"] and row["seeds"] else "")
    numbers = ["" if row[name] is None else f"{row[name]:,.0f}" for name in _SPEED]
    return [row["run"], seeds, score + spread, change, *numbers]


def _headings(name: str) -> list[str]:
    return ["run", "seeds", name, "to the first (95 %)", "text tokens/s", "training s", "peak MB"]


def print_table(rows: Sequence[Mapping[str, Any]], name: str, console: Console) -> None:
    """Print the comparison."""
    table = Table(title=f"Test scores: {name}", title_justify="left")
    for heading in _headings(name):
        table.add_column(heading, justify="left" if heading == "run" else "right")
    for row in rows:
        table.add_row(*map(Text, _cells(row)))
    console.print(table)


def write_files(rows: Sequence[Mapping[str, Any]], name: str, folder: Path) -> Iterator[str]:
    """Write ``compare.csv``, ``compare.md`` and ``compare.png``, and say where."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "compare.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, (*_COLUMNS, "failed", "untested"))
        writer.writeheader()
        writer.writerows(rows)
    lines = [_headings(name), ["---"] * 7, *map(_cells, rows)]
    text = "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
    (folder / "compare.md").write_text(text, encoding="utf-8")
    yield f"The table is in {folder / 'compare.csv'} and {folder / 'compare.md'}"
    try:
        draw(rows, name, folder / "compare.png")
        yield f"The figure is {folder / 'compare.png'}"
    except MissingExtra as error:
        yield f"There is no figure: {error}"


def draw(rows: Sequence[Mapping[str, Any]], name: str, path: Path) -> None:
    """Draw score against speed; the size of a bubble is the peak of memory, the line the Pareto front."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "figures", "the figure") from error
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    told = [row for row in rows if row["score"] is not None and row["tokens_per_second"] is not None]
    middle = max((row["tokens_per_second"] for row in told), default=0) / 2
    largest = max((row["memory_mb"] or 0 for row in told), default=0) or 1
    for row in told:
        x, y = row["tokens_per_second"], row["score"]
        axes.scatter(x, y, s=40 + 900 * (row["memory_mb"] or 0) / largest, alpha=0.45)
        axes.errorbar(x, y, yerr=row["sd"] or 0, color="0.3", capsize=3, linewidth=1)
        memory = "" if row["memory_mb"] is None else f"\n{row['memory_mb']:,.0f} MB"
        shown = fill(shorten(row["run"], 5 * _LABEL_CHARS, placeholder=" …"), _LABEL_CHARS) + memory
        style: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8, "parse_math": False}
        aside, side = (-16, "right") if x > middle else (16, "left")
        axes.annotate(shown, (x, y), xytext=(aside, 0), ha=side, **style).set_in_layout(False)
    front = sorted((told[i]["tokens_per_second"], told[i]["score"]) for i in pareto_front(told))
    axes.plot(*zip(*front, strict=True), "--", color="0.4", linewidth=1, zorder=0) if front else None
    axes.set(xlabel="text tokens per second (test)", ylabel=name, title=_TITLE)
    axes.margins(0.25)
    axes.set_xlim(left=0)
    axes.set_ylim(top=min(axes.get_ylim()[1], 1.05))  # no score is above 1
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


def compare_command(options: Namespace) -> None:
    """Compare runs on the console, and in files where asked."""
    groups = read_groups(run_folders(options.runs))
    rows, name = compare(groups), score_name(groups)
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    print_table(rows, name, console)
    if options.output is not None:
        for line in write_files(rows, name, Path(options.output)):
            console.print(line, soft_wrap=True, highlight=False, markup=False)


class CompareRuns(Callback):
    """Ends a multirun with the comparison of its runs."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:  # noqa: ARG002
        """Compare what the sweep's folder holds."""
        folder = config.hydra.sweep.dir
        try:
            compare_command(Namespace(runs=[folder], output=folder))
        except ConfigError as error:
            Console().print(f"The runs cannot be compared: {error}", soft_wrap=True, highlight=False, markup=False)
        if not any(Path(folder).glob("*/metrics.json")):
            sys.exit(1)  # not one of the jobs has come to its end
