"""The tables of a report, and the page that shows them. It needs neither script nor network, and escapes all data."""

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from string import Template
from typing import Literal

from longdoc.app.inspect.advice import advise, findings
from longdoc.app.inspect.statistics import CorpusReport, Statistics, clean, histogram, percent, spread

SHOWN_ROWS, SHOWN_OPEN = 200, 20


@dataclass(frozen=True)
class Table:
    """A table for the console and the page.

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


def render_page(report: CorpusReport) -> str:
    """Write the page."""
    sections = [f"<p class=note>{_data(note)}</p>" for note in report.notes]
    if report.whole.num_documents:
        sections += [_advice(report), *map(_table, histograms(report) + tables(report))]
    sections += _findings(report)
    return _PAGE.substitute(path=html.escape(clean(report.path)), body="\n".join(sections))


def _data(text: object) -> str:
    """Text from the data: escaped, and kept from turning its neighbours around if it runs from right to left."""
    return f"<bdi>{html.escape(clean(str(text)))}</bdi>"


def _advice(report: CorpusReport) -> str:
    advice = advise(report)
    command = "" if advice.command is None else f"<p>Where to begin:</p><pre>{_data(advice.command)}</pre>"
    return (
        f"<section class=verdict><h2>What this suggests</h2><p><b>{_data(advice.headline)}</b></p>"
        f"{_list(map(_data, advice.notes))}{command}</section>"
    )


def _findings(report: CorpusReport) -> Iterator[str]:
    for title, to_do, found in findings(report.whole):
        items = _list(f"<code>{_data(where)}</code> {_data(reason)}" for where, reason in found[:SHOWN_ROWS])
        opened = " open" if len(found) <= SHOWN_OPEN else ""
        head = f"<summary>{title}</summary><p>{to_do}</p>"
        yield f"<section><details{opened}>{head}{items}{_more(found)}</details></section>"


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _more(rows: Sequence[object]) -> str:
    return f"<p class=note>and {len(rows) - SHOWN_ROWS:,} more</p>" if len(rows) > SHOWN_ROWS else ""


def _table(table: Table) -> str:
    heads = [column.replace("-\n", "").replace("\n", " ") for column in table.columns]
    heads[1:1] = [""] if table.bars else []
    body = []
    for i, (name, *cells) in enumerate(table.rows[:SHOWN_ROWS]):
        bar = _bar(*table.bars[i]) if table.bars else ""
        numbers = "".join(f"<td>{cell:,}</td>" if isinstance(cell, int) else f"<td>{cell}</td>" for cell in cells)
        body.append(f"<tr><th scope=row>{_data(name)}</th>{bar}{numbers}</tr>")
    head = "".join(f"<th scope=col>{head}</th>" for head in heads)
    return (
        f"<section><h2>{table.title}</h2><div class=scroll><table><thead><tr>{head}</tr>"
        f"</thead><tbody>{''.join(body)}</tbody></table></div>{_more(table.rows)}</section>"
    )


def _bar(length: float, is_second: bool) -> str:
    kind = "bar second" if is_second else "bar"
    return f'<td class=chart><div class="{kind}" style="width:{100 * length:.1f}%"></div></td>'


_PAGE = Template("""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>$path - longdoc inspect</title>
<style>
:root { color-scheme: light dark; --paper: #fbfbfa; --ink: #1c1f23; --soft: #5d646d; --line: #dfe2e6; --bar: #5b7fa6;
  --second: #d0743c; }
@media (prefers-color-scheme: dark) { :root { --paper: #16181b; --ink: #e6e8ea; --soft: #a0a7b0; --line: #34393f;
  --bar: #6f9ac9; --second: #e28a52; } }
body { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; -webkit-text-size-adjust: 100%; }
section { margin-top: 2.5rem; }
h1 { font-size: 1.6rem; line-height: 1.25; }
h2, summary { font-size: 1.15rem; font-weight: 600; margin: 0 0 .5rem; }
.note, thead th, code { color: var(--soft); font-size: .875rem; }
.verdict, pre { border: 1px solid var(--line); border-radius: 8px; padding: 1rem 1.25rem; }
pre { white-space: pre-wrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; border-bottom: 1px solid var(--line); vertical-align: bottom;
  font-weight: 500; overflow-wrap: normal; }
th:first-child { text-align: left; padding-left: 0; min-width: 6rem; max-width: 16rem; overflow-wrap: anywhere; }
.chart { width: 45%; min-width: 5rem; vertical-align: middle; }
.bar { height: .75rem; min-width: 1px; background: var(--bar); }
.second { background: var(--second); }
</style></head><body><h1><bdi>$path</bdi></h1>
$body
</body></html>
""")
