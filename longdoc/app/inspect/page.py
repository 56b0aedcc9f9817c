"""The tables of a report, and how they are shown: on the console, and with bars and all rows on a page of HTML."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from longdoc.app.inspect.advice import advise, findings
from longdoc.app.inspect.statistics import CorpusReport, Statistics, clean, histogram, percent, spread

SHOWN_ROWS, SHOWN_FINDINGS = 40, 5
PAGE_ROWS, PAGE_COLUMNS, BAR_COLUMNS = 200, 140, 40


@dataclass(frozen=True)
class Table:
    """What one table shows.

    Args:
        title: What it shows.
        columns: Heads; a line feed says where one may be broken.
        rows: A name, then numbers or text.
        bars: For the page, a bar for each row: its length from 0 to 1, and whether it has the second colour.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[int | str]]
    bars: Sequence[tuple[float, bool]] = ()


def tables(report: CorpusReport) -> list[Table]:
    """The figures of all parts, and of the whole where there are several."""
    whole = report.whole
    parts = [*report.parts.items(), *([("total", whole)] if len(report.parts) > 1 else [])]
    columns = ["part", "documents", *(f"{i}\n{k}" for i in ("words", "tokens") for k in ("median", "90 %", "max"))]
    rows = [(name, part.num_documents, *spread(part.words), *spread(part.tokens)) for name, part in parts]
    shown = [Table("Lengths", columns, rows)]
    columns = ["part", "documents", "text", "entities", "windows\nin all", "tokens read\nper token"]
    title = f"Beyond the first {report.window:,} tokens: what truncation loses"
    shown.append(Table(title, columns, [(name, *_beyond(part)) for name, part in parts]))
    if whole.entities:
        columns = ["part", "number", "median", "90 %", "max", "over\noverlap", "over\nwindow", "in no\nwindow"]
        rows = [(name, *_against_windows(part, report)) for name, part in parts]
        shown.append(
            Table("Entities in tokens, against the windows", [*columns, "not\naligned", "over-\nlapping"], rows)
        )
        shown.append(_labels("Entities by label", report, "entities"))
    return [*shown, _labels("Documents by label", report, "classes")] if whole.classes else shown


def _beyond(part: Statistics) -> tuple[int | str, ...]:
    text = sum(part.tokens)
    return (
        percent(part.num_cut, part.num_documents),
        percent(text - sum(part.tokens_read), text),
        percent(part.entities_beyond.total(), part.entities.total()),
        part.num_windows,
        f"{part.num_window_tokens / text:.2f}" if text else "-",
    )


def _against_windows(part: Statistics, report: CorpusReport) -> tuple[int | str, ...]:
    longer = [sum(n > size for n in part.entity_tokens) for size in (report.overlap, report.room)]
    lost = part.num_in_no_window, len(part.unalignable), len(part.overlapping)
    return part.entities.total(), *spread(part.entity_tokens), *longer, *lost


def _labels(title: str, report: CorpusReport, kind: Literal["entities", "classes"]) -> Table:
    columns, rows = ["label", *report.parts], []
    whole: list[tuple[str, int]] = getattr(report.whole, kind).most_common()
    for label, number in whole:
        rows.append([label, *(getattr(part, kind)[label] for part in report.parts.values())])
        if kind == "entities":
            rows[-1].append(percent(report.whole.entities_beyond[label], number))
    columns += [f"beyond {report.window:,}"] if kind == "entities" else []
    return Table(title, columns, rows, [(number / whole[0][1], False) for _, number in whole])


def histograms(report: CorpusReport) -> list[Table]:
    """Lengths of documents around the window, and of entities around the overlap."""
    shown = [_lengths("documents", report.whole.tokens, report.room, "a window")]
    if report.whole.entities:
        border, name = (report.overlap, "the overlap") if report.overlap else (report.room, "a window")
        shown.append(_lengths("entities", report.whole.entity_tokens, border, name))
    return shown


def _lengths(what: str, values: Sequence[int], border: int, name: str) -> Table:
    bins = histogram(values, border)
    most = max(number for _, _, number in bins)
    rows = [(f"{low:,} to {high:,}" if low < high else f"{low:,}", number) for low, high, number in bins]
    bars = [(number / most, high > border) for _, high, number in bins]
    return Table(f"Lengths of {what}; in the second colour, longer than {name} holds", ("tokens", what), rows, bars)


def print_report(report: CorpusReport, console: Console, is_page: bool = False) -> None:
    """Print all tables, then what they suggest, to a console of 80 columns or more.

    Args:
        report: What was counted.
        console: Where to.
        is_page: Whether to add histograms and to list far more of what was found.
    """
    say = partial(console.print, markup=False, highlight=False)
    say(clean(report.path), style="bold")
    say("\n".join(map(clean, report.notes)), "")
    for table in [*tables(report), *(histograms(report) if is_page and report.whole.tokens else [])]:
        say(_rich(table, is_page), "")
    num_shown = PAGE_ROWS if is_page else SHOWN_FINDINGS
    for title, to_do, found in findings(report.whole):
        say(title, style="bold")
        say(to_do)
        for where, reason in found[:num_shown]:
            say(Padding(Text(f"{clean(where)}: {clean(reason)}"), (0, 0, 0, 2)))
        if len(found) > num_shown:
            say(
                f"  and {len(found) - num_shown:,} more{'' if is_page else '; the page of --html lists them'}",
                style="dim",
            )
        say()
    if not report.whole.num_documents:
        say("No document can be used.", style="bold red")
        return
    advice = advise(report)
    say("What this suggests", style="bold")
    say(Padding(Text(advice.headline, style="bold green"), (0, 0, 0, 2)))
    for note in advice.notes:
        say(Padding(Text(f"- {note}"), (0, 0, 0, 2)))
    if advice.command is not None:
        say(f"\n  {clean(advice.command)}", style="bold", soft_wrap=True)


def render_page(report: CorpusReport) -> str:
    """The same as HTML that needs neither script nor network; all data are escaped."""
    console = Console(record=True, width=PAGE_COLUMNS, file=io.StringIO())
    print_report(report, console, is_page=True)
    return console.export_html(code_format=_PAGE)


def _rich(table: Table, is_page: bool) -> RichTable:
    shown = RichTable(title=table.title, title_justify="left", title_style="bold", min_width=len(table.title))
    shown.box, shown.pad_edge, shown.show_edge, shown.padding = box.SIMPLE_HEAD, False, False, (0, 0, 0, 1)
    for i, column in enumerate(table.columns):
        shown.add_column(column, justify="right" if i else "left", overflow="fold")
    if is_page and table.bars:
        shown.add_column(width=BAR_COLUMNS)
    num_shown = PAGE_ROWS if is_page else SHOWN_ROWS
    for i, (name, *cells) in enumerate(table.rows[:num_shown]):
        drawn: list[Text | str] = [Text(clean(str(name)), style="bold"), *map(_narrow, cells)]
        if is_page and table.bars:
            length, is_second = table.bars[i]
            drawn.append(Text("█" * round(BAR_COLUMNS * length) or "▏", style="dark_orange3" if is_second else "blue"))
        shown.add_row(*drawn, style="dim" if name == "total" else "")
    if len(table.rows) > num_shown:
        shown.caption = f"and {len(table.rows) - num_shown:,} more"
    return shown


def _narrow(cell: int | str) -> str:
    """A number in six characters at most, so that the tables fit into 80 columns."""
    if isinstance(cell, str) or cell < 100_000:
        return cell if isinstance(cell, str) else f"{cell:,}"
    return f"{cell / 1e3:.0f}k" if cell < 999_500 else f"{cell / 1e6:.1f}M"


# A span that is isolated cannot turn its neighbours around where it runs from right to left.
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>longdoc inspect</title><style>
body {{ color: {foreground}; background: {background}; font-family: monospace; }} span {{ unicode-bidi: isolate; }}
{stylesheet}
</style></head><body><pre>{code}</pre></body></html>
"""
