"""What the numbers of a corpus suggest, in plain words: rules of thumb, each with the figure it rests on."""

import shlex
from dataclasses import dataclass
from typing import Literal

import numpy as np

from longdoc.app.inspect.report import CorpusReport, clean, count, percent
from longdoc.app.inspect.statistics import PartStatistics, share

LITTLE_LOST = 0.01
LITTLE_TEXT_LOST = 0.05
MANY_LONG = 0.01
FITTING_SHARE = 0.99
FEW_EXAMPLES = 10
OVERLAP_STEP_TOKENS = 32
LARGE_WINDOW = 8192

Strategy = Literal["none", "truncate", "chunk", "sparse"]


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about a corpus.

    Args:
        strategy: The one to begin with; ``none`` if every document fits into one window.
        headline: The answer to "do I need this at all?", in one sentence.
        reasons: Why, and which window and overlap.
        faults: What is wrong with the data and what to do about it.
        command: Where to begin, for a corpus with entities.
    """

    strategy: Strategy
    headline: str
    reasons: tuple[str, ...]
    faults: tuple[str, ...]
    command: str | None


def advise(report: CorpusReport) -> Advice:
    """Read the numbers of a corpus."""
    whole = report.all
    strategy, headline = _strategy(report, whole)
    overlap = suggested_overlap(report, whole)
    reasons, faults = _reasons(report, whole, strategy, overlap), _faults(report, whole)
    return Advice(strategy, headline, tuple(reasons), tuple(faults), _command(report, whole, strategy, overlap))


def _strategy(report: CorpusReport, whole: PartStatistics) -> tuple[Strategy, str]:
    window, documents = report.window, whole.num_documents
    lost_text = share(sum(whole.tokens) - sum(whole.tokens_read), sum(whole.tokens))
    if whole.num_cut_documents == 0:
        return "none", f"Nothing is needed: every document fits into one window of {window:,} tokens."
    cut = f"{percent(whole.num_cut_documents, documents)} of the documents are longer than {window:,} tokens"
    if whole.entities:
        entities = whole.entities.total()
        beyond, long = whole.entities_beyond.total(), sum(n > report.room for n in whole.entity_tokens)
        lost = f"truncation would lose {percent(beyond, entities)} of the entities"
        if share(beyond, entities) <= LITTLE_LOST:
            return "truncate", f"Truncation is fine: {cut}, but {lost}."
        if share(long, entities) > MANY_LONG:
            unseen = f"{percent(long, entities)} of them are longer than a window"
            return "sparse", f"Read the whole document in one stream: {lost}, and {unseen}."
        return "chunk", f"Read the whole document in windows: {lost}."
    lost = f"truncation would drop {percent(lost_text, 1)} of the text"
    if lost_text <= LITTLE_TEXT_LOST:
        return "truncate", f"Truncation is fine: {cut}, but {lost}."
    if not whole.num_classified:
        return "chunk", f"Do not truncate: {cut}, and {lost}."
    return "chunk", f"Try more than truncation: {cut}, and {lost}."


def suggested_overlap(report: CorpusReport, whole: PartStatistics) -> int:
    """The overlap asked for, or a larger one in which nearly all entities fit, half a window at most."""
    if not whole.entity_tokens:
        return report.overlap
    needed = int(np.quantile(np.asarray(whole.entity_tokens), FITTING_SHARE, method="inverted_cdf"))
    if needed <= report.overlap:
        return report.overlap
    half = report.room // 2 // OVERLAP_STEP_TOKENS * OVERLAP_STEP_TOKENS
    return max(report.overlap, min(half, -(-needed // OVERLAP_STEP_TOKENS) * OVERLAP_STEP_TOKENS))


def _reasons(report: CorpusReport, whole: PartStatistics, strategy: Strategy, overlap: int) -> list[str]:
    reasons = []
    if strategy == "none":
        reasons.append(
            "One window holds each document: all strategies read the same, strategy=truncate at the least cost."
        )
    if strategy == "chunk" and whole.entities:
        reasons.append(
            "strategy=chunk labels every word. Lengths cannot tell whether a label is decided by a passage far away: "
            "if it may be, compare with strategy=sparse."
        )
    if strategy == "chunk" and whole.num_classified and not whole.entities:
        reasons.append(
            "strategy=chunk reads all of it. Where the opening tells the class, truncation can still win: compare both "
            "on the dev part before you pay for more."
        )
    if strategy == "sparse":
        reasons.append(
            "No window can show such an entity whole; strategy=sparse can. strategy=chunk pieces it together from "
            "several windows."
        )
    if whole.num_cut_documents and strategy != "truncate":
        windows, cost = whole.num_windows / whole.num_documents, share(whole.num_window_tokens, sum(whole.tokens))
        reasons.append(
            f"With overlap {report.overlap} there are {windows:.1f} windows a document, and {cost:.2f} tokens are read "
            "for each token of text."
        )
    if whole.num_cut_documents and strategy != "truncate":
        reasons += _about_overlap(report, whole, overlap)
    if whole.num_cut_documents:
        reasons += _about_limit(report, whole)
    return reasons


def _about_overlap(report: CorpusReport, whole: PartStatistics, overlap: int) -> list[str]:
    if not whole.entities:
        return []
    entities = whole.entities.total()
    longer = sum(n > report.overlap for n in whole.entity_tokens)
    if overlap == report.overlap:
        fits = percent(entities - longer, entities)
        return [
            f"windows.overlap_tokens={overlap} is enough: {fits} of the entities fit into the overlap, so that some "
            "window shows them whole."
        ]
    still = sum(n > overlap for n in whole.entity_tokens)
    cost = report.room / (report.room - overlap)
    sparse = share(whole.num_in_no_window, entities) > MANY_LONG
    return [
        f"{count(longer, 'entity is', 'entities are')} longer than the overlap of {report.overlap} tokens "
        f"({percent(longer, entities)}), and {count(whole.num_in_no_window, 'stands', 'stand')} whole in no window. "
        f"windows.overlap_tokens={overlap} leaves {still:,} longer than the overlap, and reads {cost:.2f} tokens for "
        "each token of text." + (" strategy=sparse has no such borders." if sparse else "")
    ]


def _about_limit(report: CorpusReport, whole: PartStatistics) -> list[str]:
    limit = report.counter.limit
    larger = limit if limit is not None and limit > report.window else LARGE_WINDOW
    if larger <= report.window:
        return []
    fitting = percent(sum(n <= larger - report.num_special for n in whole.tokens), whole.num_documents)
    if limit is None or limit > report.window:
        return [
            f"windows.size_tokens={larger} would hold {fitting} of the documents whole, at a higher cost in memory."
        ]
    return [
        f"windows.size_tokens={report.window} is all that this encoder takes. One that takes {larger:,} would "
        f"hold {fitting} of the documents whole."
    ]


def _faults(report: CorpusReport, whole: PartStatistics) -> list[str]:
    faults = []
    if whole.bad_rows.count:
        faults.append(
            f"{count(whole.bad_rows.count, 'row')} cannot be used, and nothing of them is counted here: correct them, "
            "or leave them out of training with data.on_error=skip."
        )
    if whole.repairs.count:
        faults.append(f"{count(whole.repairs.count, 'row')} could be repaired; look at what was changed.")
    if whole.num_lost_outermost:
        outermost, longest_first = whole.num_lost_outermost, whole.num_lost_longest_first
        faults.append(
            f"Entities overlap or are nested, and a word can carry one label: choose data.overlapping=outermost "
            f"(loses {outermost:,}) or data.overlapping=longest_first (loses {longest_first:,}). What is lost "
            "counts as missed."
        )
    if whole.unalignable.count:
        of_all = percent(whole.unalignable.count, whole.entities.total())
        faults.append(
            f"{count(whole.unalignable.count, 'entity', 'entities')} ({of_all}) cannot be aligned with words. Training "
            "cannot use them and scores count them as missed: correct their offsets."
        )
    faults += _about_labels(report, whole) + _about_duplicates(report) + _about_parts(report, whole)
    return faults


def _about_labels(report: CorpusReport, whole: PartStatistics) -> list[str]:
    train = report.parts.get("train")
    if train is None:
        return []
    faults = []
    for seen, everywhere in ((train.entities, whole.entities), (train.classes, whole.classes)):
        if not everywhere:
            continue
        missing = sorted(label for label in everywhere if not seen[label])
        few = sorted(label for label in everywhere if 0 < seen[label] < FEW_EXAMPLES)
        if missing:
            faults.append(f"No example in train, so never predicted: {_listed(missing)}.")
        if few:
            faults.append(f"Fewer than {FEW_EXAMPLES} examples in train: {_listed(few)}.")
        test = report.parts.get("test")
        counted = None if test is None else test.entities if everywhere is whole.entities else test.classes
        unmeasured = sorted(label for label in everywhere if counted and not counted[label])
        if unmeasured:
            faults.append(f"No example in test, so not measured: {_listed(unmeasured)}.")
    return faults


def _listed(labels: list[str], most: int = 12) -> str:
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return ", ".join(clean(label) for label in labels[:most]) + more


def _about_duplicates(report: CorpusReport) -> list[str]:
    found, faults = report.duplicates, []
    if found.num_texts_across:
        faults.append(
            f"{count(found.num_texts_across, 'document')} with a text that stands in an earlier part too: scores on "
            "them promise too much. Keep each text in one part."
        )
    if found.num_texts_within:
        faults.append(
            f"{count(found.num_texts_within, 'document')} with the text of another in the same part: it weighs double."
        )
    if found.num_contradicting:
        faults.append(f"{count(found.num_contradicting, 'repeated text')} with other labels than the first copy.")
    if found.ids:
        faults.append(f"{count(found.ids.total(), 'id')} in more than one part: give each document an id of its own.")
    return faults


def _about_parts(report: CorpusReport, whole: PartStatistics) -> list[str]:
    empty = [name for name, part in report.parts.items() if not part.num_documents]
    faults = [f"The {name} part holds no usable document." for name in empty]
    if whole.num_blank:
        faults.append(f"{count(whole.num_blank, 'document')} without a single word.")
    annotated = max(whole.num_tagged, whole.num_classified, whole.num_targets)
    if not annotated:
        faults.append("Nothing is annotated: entities and labels could not be looked at.")
    elif annotated < whole.num_documents:
        missing = whole.num_documents - annotated
        faults.append(f"{count(missing, 'document')} without annotation: training and scores need it.")
    return faults


def _command(report: CorpusReport, whole: PartStatistics, strategy: Strategy, overlap: int) -> str | None:
    if not whole.entities:
        return None
    words = ["python", "train.py", f"data.path={report.path}"]
    words += [] if report.counter.model is None else [f"model.name={report.counter.model}"]
    words.append(f"strategy={'truncate' if strategy == 'none' else strategy}")
    if strategy in ("none", "truncate", "chunk") and report.window != 512:
        words.append(f"windows.size_tokens={report.window}")
    if strategy == "chunk" and overlap != 128:
        words.append(f"windows.overlap_tokens={overlap}")
    if whole.num_lost_outermost:
        words.append("data.overlapping=outermost")
    if whole.bad_rows.count:
        words.append("data.on_error=skip")
    return shlex.join(words)
