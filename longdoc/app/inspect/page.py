"""The report of a corpus as one page that needs neither script nor network. All that comes from the data is escaped."""

import html
from collections import Counter
from collections.abc import Iterable, Sequence

from longdoc.app.inspect.advice import advise
from longdoc.app.inspect.charts import Mark, histogram
from longdoc.app.inspect.console import finding_lists, rows_of
from longdoc.app.inspect.report import CorpusReport, clean, count, percent
from longdoc.app.inspect.statistics import Findings, PartStatistics, spread
from longdoc.app.inspect.style import STYLE

SHOWN_LABELS = 200
_TEXT_BINS, _ENTITY_BINS = 3, 1


def render_page(report: CorpusReport) -> str:
    """Write the page.

    Args:
        report: What was found.
    """
    whole = report.all
    sections = [_head(report, whole)]
    if whole.num_documents:
        sections += [_advice(report), _lengths(report, whole), _beyond(report)]
        sections += [_entities(report, whole)] if whole.entities else []
        sections += _labels(report, whole)
    sections += [_findings(title, findings) for title, findings in finding_lists(report, whole)]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{_escaped(report.path)} - longdoc inspect</title>'
        f"<style>{STYLE}</style></head><body><main>{''.join(sections)}</main></body></html>\n"
    )


def _escaped(text: str) -> str:
    return html.escape(clean(text))


def _data(text: str) -> str:
    """Text from the data: escaped, and kept from turning its neighbours around if it runs from right to left."""
    return f"<bdi>{_escaped(text)}</bdi>"


def _head(report: CorpusReport, whole: PartStatistics) -> str:
    limit = report.counter.limit
    takes = f" The encoder takes {limit:,} ({_escaped(report.counter.limit_source)})." if limit is not None else ""
    facts = [
        (f"{whole.num_documents:,}", "documents"),
        (_median(whole.tokens), "tokens in the median document"),
        (
            percent(sum(whole.tokens) - sum(whole.tokens_read), sum(whole.tokens)),
            f"of the text beyond {report.window:,} tokens",
        ),
    ]
    if whole.entities:
        facts.append(
            (
                percent(whole.entities_beyond.total(), whole.entities.total()),
                f"of {whole.entities.total():,} entities beyond",
            )
        )
    elif whole.classes:
        facts.append((f"{len(whole.classes):,}", "classes"))
    cards = "".join(f"<div class=card><b>{number}</b><span>{words}</span></div>" for number, words in facts)
    notes = "".join(f"<p class=note>{_escaped(note)}</p>" for note in report.notes)
    return (
        f"<header><h1>{_data(report.path)}</h1>"
        f"<p class=note>Read as {_escaped(', '.join(report.formats))}. Lengths: {_data(report.counter.description)}. "
        f"A window of {report.window:,} tokens holds {report.room:,} of text and {report.num_special} special ones; "
        f"neighbours share {report.overlap:,}.{takes}</p>{notes}</header><div class=cards>{cards}</div>"
    )


def _median(values: Sequence[int]) -> str:
    found = spread(values)
    return "-" if found is None else f"{found[0]:,}"


def _advice(report: CorpusReport) -> str:
    advice = advise(report)
    reasons = "".join(f"<li>{_escaped(reason)}</li>" for reason in advice.reasons)
    faults = "".join(f"<li>{_escaped(fault)}</li>" for fault in advice.faults)
    command = (
        "" if advice.command is None else f"<p>Where to begin:</p><pre><code>{_escaped(advice.command)}</code></pre>"
    )
    return (
        f"<section class=verdict><h2>What this suggests</h2><p class=headline>{_escaped(advice.headline)}</p>"
        + (f"<ul>{reasons}</ul>" if reasons else "")
        + command
        + (f"<h3>To look at in the data</h3><ul class=faults>{faults}</ul>" if faults else "")
        + "</section>"
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already; the first of a row is its head, the class of the row goes by the name ``total``."""
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    body = "".join(
        f'<tr{" class=total" if row[0] == "total" else ""}><th scope="row">{row[0]}</th>'
        + "".join(f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _three(values: Sequence[int]) -> list[str]:
    found = spread(values)
    return ["-"] * 3 if found is None else [f"{value:,}" for value in found]


def _lengths(report: CorpusReport, whole: PartStatistics) -> str:
    mark = Mark(report.room, f"window {report.window:,}")
    cut = f"{whole.num_cut_documents:,} of {whole.num_documents:,}"
    title = f"Histogram of document lengths in tokens; {cut} are longer than the window"
    chart = histogram(whole.tokens, [mark], report.room, _TEXT_BINS, "documents", title)
    columns = ("part", "documents", "words, median", "90 %", "max", "tokens, median", "90 %", "max")
    rows = [
        [name, f"{part.num_documents:,}", *_three(part.words), *_three(part.tokens)] for name, part in rows_of(report)
    ]
    caption = _key("Documents that fit into one window", "longer ones, which truncation cuts")
    return f"<section><h2>Lengths</h2>{_figure(chart, caption)}{_table(columns, rows)}</section>"


def _figure(chart: str, caption: str) -> str:
    return f"<figure>{chart}<figcaption>{caption}</figcaption></figure>"


def _key(first: str, second: str) -> str:
    return f"<span><i class=bar></i>{first}</span> <span><i class=lost></i>{second}</span>"


def _beyond(report: CorpusReport) -> str:
    tagged = bool(report.all.entities)
    entities = ["entities"] if tagged else []
    columns = ["part", "documents", "text", *entities, "windows in all", "tokens read per token"]
    rows = []
    for name, part in rows_of(report):
        text = sum(part.tokens)
        rows.append(
            [
                name,
                percent(part.num_cut_documents, part.num_documents),
                percent(text - sum(part.tokens_read), text),
                *([percent(part.entities_beyond.total(), part.entities.total())] if tagged else []),
                f"{part.num_windows:,}",
                f"{part.num_window_tokens / text:.2f}" if text else "-",
            ]
        )
    lead = (
        f"<p class=note>Share that lies beyond the first {report.window:,} tokens of its document, and what "
        "overlapping windows cost instead.</p>"
    )
    return f"<section><h2>What truncation loses</h2>{lead}{_table(columns, rows)}</section>"


def _entities(report: CorpusReport, whole: PartStatistics) -> str:
    marks = [Mark(report.overlap, f"overlap {report.overlap:,}")] if report.overlap else []
    marks.append(Mark(report.room, f"window {report.window:,}"))
    chart = histogram(
        whole.entity_tokens, marks, marks[0].value, _ENTITY_BINS, "entities", "Histogram of entity lengths in tokens"
    )
    columns = (
        "part",
        "entities",
        "tokens, median",
        "90 %",
        "max",
        "over the overlap",
        "over a window",
        "whole in no window",
        "not aligned",
        "overlapping",
    )
    rows = []
    for name, part in rows_of(report):
        numbers = (
            sum(n > report.overlap for n in part.entity_tokens),
            sum(n > report.room for n in part.entity_tokens),
            part.num_in_no_window,
            part.unalignable.count,
            part.num_lost_outermost,
        )
        rows.append([name, f"{part.entities.total():,}", *_three(part.entity_tokens), *(f"{n:,}" for n in numbers)])
    fits = "overlap, and so are whole in some window wherever they stand" if report.overlap else "window"
    caption = _key(f"Entities that fit into the {fits}", "longer ones")
    return f"<section><h2>Entities against the windows</h2>{_figure(chart, caption)}{_table(columns, rows)}</section>"


def _labels(report: CorpusReport, whole: PartStatistics) -> list[str]:
    sections = []
    parts = report.parts.values()
    if whole.entities:
        beyond = {label: percent(whole.entities_beyond[label], number) for label, number in whole.entities.items()}
        sections.append(
            _label_section("Entities by label", report, whole.entities, [part.entities for part in parts], beyond)
        )
    if whole.classes:
        sections.append(
            _label_section("Documents by label", report, whole.classes, [part.classes for part in parts], {})
        )
    return sections


def _label_section(
    title: str, report: CorpusReport, everywhere: Counter[str], parts: list[Counter[str]], beyond: dict[str, str]
) -> str:
    most = max(everywhere.values())
    columns = ["label", "", *report.parts, *([f"beyond {report.window:,}"] if beyond else [])]
    rows = []
    for label, number in everywhere.most_common(SHOWN_LABELS):
        counts = [f"{part[label]:,}" if part[label] else '<b class=none title="none">0</b>' for part in parts]
        bar = _bar([part[label] / most for part in parts], number)
        rows.append([_data(label), bar, *counts, *([beyond[label]] if beyond else [])])
    names = list(report.parts)
    legend = (
        "".join(f"<span><i class=part{i}></i>{name}</span>" for i, name in enumerate(names)) if len(names) > 1 else ""
    )
    rest = len(everywhere) - SHOWN_LABELS
    more = f"<p class=note>and {count(rest, 'rarer label')}</p>" if rest > 0 else ""
    return f"<section><h2>{title}</h2><p class=legend>{legend}</p>{_table(columns, rows)}{more}</section>"


def _bar(shares: Sequence[float], number: int) -> str:
    """A bar of stacked parts, in hundredths of the longest one."""
    rects, at = [], 0.0
    for i, length in enumerate(shares):
        rects.append(f'<rect class="part{i}" x="{at:.2f}" y="0" width="{100 * length:.2f}" height="10"/>')
        at += 100 * length
    opening = f'<svg class=row viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{number:,}">'
    return f"{opening}{''.join(rects)}</svg>"


def _findings(title: str, findings: Findings) -> str:
    items = "".join(f"<li><code>{_data(found.where)}</code> {_data(found.reason)}</li>" for found in findings.first)
    more = findings.count - len(findings.first)
    rest = f"<p class=note>and {more:,} more</p>" if more else ""
    opened = " open" if findings.count <= 20 else ""
    head = f"<summary>{title}: {findings.count:,}</summary>"
    return f"<section><details{opened}>{head}<ul class=findings>{items}</ul>{rest}</details></section>"
