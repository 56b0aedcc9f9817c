"""What the numbers of a corpus suggest, in plain words: rules of thumb, each with the figure it rests on."""

import shlex
from typing import NamedTuple

import numpy as np

from longdoc.app.inspect.statistics import CorpusReport, Finding, Statistics, clean, percent

LITTLE_LOST = 0.01
LITTLE_TEXT_LOST = 0.05
MANY_LONG = 0.01
FITTING_PERCENT = 99
FEW_EXAMPLES = 10
OVERLAP_STEP_TOKENS = 32
LARGE_WINDOW = 8192
SHOWN_LABELS = 12


# What to look at in the data: list in Statistics -> title, and what to do about it.
FINDINGS = {
    "bad_rows": ("Rows that cannot be used", "Correct them, or leave them out of training with data.on_error=skip."),
    "repairs": ("Rows that were repaired", "Look at what was changed."),
    "unalignable": ("Entities that cannot be aligned with words", "They count as missed: correct their offsets."),
    "overlapping": ("Entities that overlap", "Choose data.overlapping=outermost (loses these), or longest_first."),
    "copies_across": ("Texts that stand in an earlier part too", "Scores on them promise too much: keep one copy."),
    "copies_within": ("Texts that stand twice in a part", "They weigh double."),
    "repeated_ids": ("Ids that stand in an earlier part too", "Give each document an id of its own."),
}  # fmt: skip


class Advice(NamedTuple):
    """What to do about a corpus: the strategy to begin with, why, which window, and the command to begin with."""

    strategy: str
    headline: str
    notes: list[str]
    command: str | None


def advise(report: CorpusReport) -> Advice:
    """Read the numbers of a corpus."""
    strategy, headline = _strategy(report)
    notes = _about_strategy(report, strategy) + _about_parts(report)
    return Advice(strategy, headline, notes, _command(report, strategy))


def findings(whole: Statistics) -> list[tuple[str, str, list[Finding]]]:
    """What to look at in the data: titles, what to do, and where."""
    lists = ((title, to_do, getattr(whole, name)) for name, (title, to_do) in FINDINGS.items())
    return [(f"{title}: {len(found):,}", to_do, found) for title, to_do, found in lists if found]


def _strategy(report: CorpusReport) -> tuple[str, str]:
    whole = report.whole
    if not whole.num_cut:
        return "truncate", f"Nothing is needed: every document fits into one window of {report.window:,} tokens."
    cut = f"{percent(whole.num_cut, whole.num_documents)} of the documents are longer than {report.window:,} tokens"
    if not whole.entities:
        text = sum(whole.tokens)
        beyond = text - sum(whole.tokens_read)
        lost = f"truncation would drop {percent(beyond, text)} of the text"
        if beyond <= LITTLE_TEXT_LOST * text:
            return "truncate", f"Truncation is fine: {cut}, but {lost}."
        return "chunk", f"Try more than truncation: {cut}, and {lost}."
    entities, beyond = whole.entities.total(), whole.entities_beyond.total()
    too_long = sum(n > report.room for n in whole.entity_tokens)
    lost = f"truncation would lose {percent(beyond, entities)} of the entities"
    if beyond <= LITTLE_LOST * entities:
        return "truncate", f"Truncation is fine: {cut}, but {lost}."
    if too_long > MANY_LONG * entities:
        unseen = f"{percent(too_long, entities)} of them are longer than a window"
        return "sparse", f"Read the whole document in one stream: {lost}, and {unseen}."
    return "chunk", f"Read the whole document in windows: {lost}."


def suggested_overlap(report: CorpusReport) -> int:
    """The overlap asked for, or a larger one in which nearly all entities fit, half a window at most."""
    needed = int(np.percentile(report.whole.entity_tokens or [0], FITTING_PERCENT, method="inverted_cdf"))
    steps = min(report.room // 2 // OVERLAP_STEP_TOKENS, -(-needed // OVERLAP_STEP_TOKENS))
    return report.overlap if needed <= report.overlap else max(report.overlap, steps * OVERLAP_STEP_TOKENS)


def _about_strategy(report: CorpusReport, strategy: str) -> list[str]:
    whole, notes = report.whole, []
    if not whole.num_cut:
        return ["One window holds each document: all strategies read the same, strategy=truncate at the least cost."]
    if strategy == "sparse":
        notes.append("No window shows such an entity whole; strategy=chunk would piece it together from several.")
    elif strategy == "chunk" and whole.entities:
        fits = percent(sum(n <= suggested_overlap(report) for n in whole.entity_tokens), whole.entities.total())
        notes += [
            "If a label may be decided by a passage far away, compare with strategy=sparse.",
            f"windows.overlap_tokens={suggested_overlap(report)} is enough for {fits} of the entities: what fits into "
            "the overlap stands whole in some window.",
        ]
    elif strategy == "chunk":
        notes.append("Where the opening tells the class, truncation can still win: compare both on the dev part.")
    at_limit = report.limit is not None and report.limit <= report.window
    larger = LARGE_WINDOW if report.limit is None or at_limit else report.limit
    if larger > report.window:
        fitting = sum(n + report.window - report.room <= larger for n in whole.tokens)
        holds = f"would hold {percent(fitting, whole.num_documents)} of the documents whole"
        other = f"An encoder that takes {larger:,} tokens" if at_limit else f"windows.size_tokens={larger}"
        notes.append(f"{other} {holds}, at a higher cost in memory.")
    return notes


def _about_parts(report: CorpusReport) -> list[str]:
    """Name parts without documents, documents without gold, and labels that cannot be learned or are not measured."""
    parts, whole = report.parts, report.whole
    notes = [f"The {name} part holds no usable document." for name, part in parts.items() if not part.num_documents]
    num_blank, num_bare = whole.words.count(0), whole.num_documents - whole.num_annotated
    if num_blank:
        notes.append(f"Documents without a single word: {num_blank:,}.")
    if num_bare:
        notes.append(f"Documents without annotation, which training and scores need: {num_bare:,}.")
    for kind in ("entities", "classes"):
        labels = sorted(getattr(whole, kind))
        train, test = (getattr(parts[name], kind) if name in parts else None for name in ("train", "test"))
        few = [i for i in labels if train and 0 < train[i] < FEW_EXAMPLES]
        lists = {
            "No example in train, so never predicted": [i for i in labels if train is not None and not train[i]],
            f"Fewer than {FEW_EXAMPLES} examples in train": few,
            "No example in test, so not measured": [i for i in labels if test and not test[i]],
        }
        for problem, found in lists.items():
            more = f" and {len(found) - SHOWN_LABELS} more" if len(found) > SHOWN_LABELS else ""
            if found:
                notes.append(f"{problem}: {', '.join(map(clean, found[:SHOWN_LABELS]))}{more}.")
    return notes


def _command(report: CorpusReport, strategy: str) -> str | None:
    whole = report.whole
    if not whole.entities and not whole.classes and not whole.num_targets:
        return None
    task = "multi_label" if whole.num_not_of_one_class else "single_label" if whole.classes else "regression"
    overlap = suggested_overlap(report)
    settings = {
        f"task={task}": not whole.entities,
        **dict.fromkeys(report.settings, True),
        f"model.name={report.model}": report.model is not None,
        f"strategy={strategy}": True,
        f"windows.size_tokens={report.window}": strategy != "sparse" and report.window != 512,
        f"windows.overlap_tokens={overlap}": strategy == "chunk" and overlap != 128,
        "data.overlapping=outermost": whole.overlapping,
        "data.on_error=skip": whole.bad_rows,
    }
    return shlex.join(["python", "train.py", *(setting for setting, is_needed in settings.items() if is_needed)])
