"""The report of a corpus as tables on a console."""

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from longdoc.app.inspect.advice import advise
from longdoc.app.inspect.report import CorpusReport, clean, count, percent
from longdoc.app.inspect.statistics import Findings, PartStatistics, spread

SHOWN_LABELS = 40
SHOWN_FINDINGS = 5


def print_report(report: CorpusReport, console: Console) -> None:
    """Print all tables, then what they suggest.

    Args:
        report: What was found.
        console: Of at least 80 columns, to look well.
    """
    console.print(Text(f"{clean(report.path)}  ({', '.join(report.formats)})", style="bold"))
    console.print(Text(clean(report.counter.description)))
    limit = report.counter.limit
    takes = f"; the encoder takes {limit:,}" if limit is not None else ""
    console.print(
        Text(f"window {report.window:,} tokens ({report.num_special} of them special), overlap {report.overlap}{takes}")
    )
    for note in report.notes:
        console.print(Text(note))
    console.print()
    whole = report.all
    for table in (_lengths(report), _beyond(report), *_entities(report, whole), *_labels(report, whole)):
        console.print(table)
        console.print()
    for title, findings in finding_lists(report, whole):
        _print_findings(title, findings, console)
    _print_advice(report, console)


def finding_lists(report: CorpusReport, whole: PartStatistics) -> list[tuple[str, Findings]]:
    """The lists of findings that are not empty, with their titles."""
    lists = [
        ("Rows that cannot be used", whole.bad_rows),
        ("Rows that were repaired", whole.repairs),
        ("Entities that cannot be aligned with words", whole.unalignable),
        ("Entities that overlap others", whole.overlapping),
        ("Duplicates", report.duplicates.found),
    ]
    return [(title, findings) for title, findings in lists if findings.count]


def rows_of(report: CorpusReport) -> list[tuple[str, PartStatistics]]:
    """The parts, and a row for all of them where there are several."""
    rows = list(report.parts.items())
    return [*rows, ("total", report.all)] if len(rows) > 1 else rows


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False
    )
    table.padding = (0, 0, 0, 1)
    table.min_width = len(title)
    table.add_column(columns[0], overflow="fold")
    for column in columns[1:]:
        table.add_column(column, justify="right", overflow="fold")
    return table


def _add(table: Table, name: str, *cells: str) -> None:
    table.add_row(Text(clean(name)), *cells, style="dim" if name == "total" else "")


def _narrow(number: int) -> str:
    """Six characters at most, so that the tables fit into 80 columns."""
    if number < 100_000:
        return f"{number:,}"
    return f"{number / 1e3:.0f}k" if number < 999_500 else f"{number / 1e6:.1f}M"


def _three(values: tuple[int, int, int] | None) -> tuple[str, str, str]:
    return ("-", "-", "-") if values is None else tuple(_narrow(value) for value in values)  # type: ignore[return-value]


def _lengths(report: CorpusReport) -> Table:
    columns = ("documents", "words\nmedian", "\n90 %", "\nmax", "tokens\nmedian", "\n90 %", "\nmax")
    table = _table("Lengths", "part", *columns)
    for name, part in rows_of(report):
        _add(table, name, _narrow(part.num_documents), *_three(spread(part.words)), *_three(spread(part.tokens)))
    return table


def _beyond(report: CorpusReport) -> Table:
    tagged = bool(report.all.entities)
    columns = ["documents", "text", *(["entities"] if tagged else []), "windows\nin all", "tokens read\nper token"]
    table = _table(f"Beyond the first {report.window:,} tokens: what truncation loses", "part", *columns)
    for name, part in rows_of(report):
        text = sum(part.tokens)
        _add(
            table,
            name,
            percent(part.num_cut_documents, part.num_documents),
            percent(text - sum(part.tokens_read), text),
            *([percent(part.entities_beyond.total(), part.entities.total())] if tagged else []),
            _narrow(part.num_windows),
            f"{part.num_window_tokens / text:.2f}" if text else "-",
        )
    return table


def _entities(report: CorpusReport, whole: PartStatistics) -> list[Table]:
    if not whole.entities:
        return []
    columns = (
        "number",
        "median",
        "90 %",
        "max",
        "over\noverlap",
        "over\nwindow",
        "in no\nwindow",
        "not\naligned",
        "over-\nlaps",
    )
    table = _table("Entities in tokens, against the windows", "part", *columns)
    for name, part in rows_of(report):
        numbers = (
            sum(n > report.overlap for n in part.entity_tokens),
            sum(n > report.room for n in part.entity_tokens),
            part.num_in_no_window,
            part.unalignable.count,
            part.num_lost_outermost,
        )
        lengths = _three(spread(part.entity_tokens))
        _add(table, name, _narrow(part.entities.total()), *lengths, *(_narrow(n) for n in numbers))
    return [table]


def _labels(report: CorpusReport, whole: PartStatistics) -> list[Table]:
    tables = []
    names = list(report.parts)
    if whole.entities:
        table = _table("Entities by label", "label", *names, f"beyond {report.window:,}")
        for label, number in whole.entities.most_common(SHOWN_LABELS):
            _add(
                table,
                label,
                *_counts([p.entities[label] for p in report.parts.values()]),
                percent(whole.entities_beyond[label], number),
            )
        tables.append(_with_rest(table, len(whole.entities)))
    if whole.classes:
        table = _table("Documents by label", "label", *names)
        for label, _ in whole.classes.most_common(SHOWN_LABELS):
            _add(table, label, *_counts([p.classes[label] for p in report.parts.values()]))
        tables.append(_with_rest(table, len(whole.classes)))
    return tables


def _counts(numbers: list[int]) -> list[str]:
    return [_narrow(number) for number in numbers]


def _with_rest(table: Table, num_labels: int) -> Table:
    if num_labels > SHOWN_LABELS:
        table.caption = f"and {count(num_labels - SHOWN_LABELS, 'rarer label')}"
        table.caption_justify = "left"
    return table


def _print_findings(title: str, findings: Findings, console: Console) -> None:
    console.print(Text(f"{title}: {findings.count:,}", style="bold"))
    for finding in findings.first[:SHOWN_FINDINGS]:
        line = Text(f"{clean(finding.where)}: ", style="cyan").append(clean(finding.reason), style="default")
        console.print(Padding(line, (0, 0, 0, 2)))
    if findings.count > SHOWN_FINDINGS:
        console.print(
            Text(f"  and {findings.count - SHOWN_FINDINGS:,} more; the page of --html lists them", style="dim")
        )
    console.print()


def _print_advice(report: CorpusReport, console: Console) -> None:
    if not report.all.num_documents:
        console.print(Text("No document can be used.", style="bold red"))
        return
    advice = advise(report)
    console.print(Text("What this suggests", style="bold"))
    console.print(Padding(Text(advice.headline, style="bold green"), (0, 0, 0, 2)))
    for mark, style, lines in (("-", "", advice.reasons), ("!", "yellow", advice.faults)):
        for line in lines:
            bullet = Table.grid(padding=(0, 1))
            bullet.add_row(Text(f"  {mark}", style=style), Text(line))
            console.print(bullet)
    if advice.command is not None:
        console.print()
        console.print(Text(f"  {advice.command}", style="bold"), soft_wrap=True)
