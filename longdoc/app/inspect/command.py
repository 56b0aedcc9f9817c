"""The command ``longdoc inspect``: read a corpus, count it, and show what it holds."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import torch
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text
from transformers import AutoConfig, AutoModel

from longdoc.app.inspect.advice import advise, findings
from longdoc.app.inspect.page import Table, render_page, tables
from longdoc.app.inspect.statistics import CorpusReport, Finding, Statistics, clean, find_copies_, measure
from longdoc.app.resume import quoted
from longdoc.errors import ConfigError
from longdoc.models.encoder import input_limit, load_tokenizer
from longdoc.models.scratch import train_tokenizer
from longdoc.text.documents import Document
from longdoc.text.formats import DocumentSource, ReadOptions, Repair
from longdoc.text.formats.splits import deal
from longdoc.text.preprocess import Preprocessor
from longdoc.text.windows import Windower
from longdoc.training.hub import open_parts

WINDOW_TOKENS = 512
OVERLAP_TOKENS = 128
TOKENIZER_CHARS = 4_000_000
SHOWN_ROWS = 40
SHOWN_FINDINGS = 5


def run(args: argparse.Namespace) -> int:
    """Inspect a corpus; returns 0, or 1 if not one document can be used."""
    if args.html is not None and not args.html.absolute().parent.is_dir():
        raise ConfigError(f"--html {args.html}: the folder {args.html.absolute().parent} does not exist")
    with Console(stderr=True).status("") as status:
        report = inspect_corpus(
            args.data, args.model, args.input_format, dict(args.field), args.window, args.overlap, status.update
        )
    print_report(report, Console())
    if args.html is not None:
        args.html.write_text(render_page(report), encoding="utf-8")
        Console(stderr=True, soft_wrap=True).print(f"page: {args.html}", markup=False, highlight=False)
    return 0 if report.whole.num_documents else 1


def inspect_corpus(
    path: str,
    model: str | None = None,
    format: str = "auto",
    fields: Mapping[str, str | int] | None = None,
    window: int | None = None,
    overlap: int | None = None,
    tell: Callable[[str], object] = str,
) -> CorpusReport:
    """Read a corpus and count it, one document in memory at a time.

    Args:
        path: Folder or file.
        model: Hub name or folder of an encoder; None counts with a tokenizer trained on the corpus.
        format: Of the files.
        fields: Our field name -> the file's name.
        window: Tokens in a window, special ones included; None takes 512, or less where the encoder takes less.
        overlap: Tokens that windows share; None takes 128, or a quarter of a window under 512.
        tell: Called with what is being done.
    """
    sources = open_parts(path, format, "skip", ReadOptions(fields or {}))
    if "all" not in sources:
        sources = deal(sources, path, seed=0)
    limit, limit_source = None, "no limit"
    tell("tokenizer ...")
    if model is None:
        tokenizer = train_tokenizer(_sample(next(iter(sources.values())), TOKENIZER_CHARS))
        counted = (
            f"no --model given: tokens of a tokenizer trained on the first {TOKENIZER_CHARS // 1_000_000} million "
            f"characters ({tokenizer.vocab_size:,} pieces), as model=scratch would use; another tokenizer may well "
            "count some 20 % more or fewer"
        )
    else:
        tokenizer, counted = load_tokenizer(model), f"tokens of {model}"
        limit, limit_source = encoder_limit(model)
    size = min(WINDOW_TOKENS, limit or WINDOW_TOKENS) if window is None else window
    windower = Windower(size, min(OVERLAP_TOKENS, size // 4) if overlap is None else overlap)
    windower.check(tokenizer.num_special, limit, limit_source)
    preprocessor = Preprocessor(tokenizer, windower)
    parts: dict[str, Statistics] = {}
    seen: dict[str | bytes, tuple[str, str]] = {}
    for name, source in sources.items():
        part = parts[name] = Statistics()
        for (file, line), item in source.items():
            where = f"{file.relative_to(path) if Path(path).is_dir() else file.name}:{line}"
            if isinstance(item, Document):
                part.add_(measure(item, preprocessor, where))
                find_copies_(part, item, name, where, seen)
                tell(f"{name}: {part.num_documents:,} documents")
            else:
                (part.repairs if isinstance(item, Repair) else part.bad_rows).append(Finding(where, item.reason))
    formats = dict.fromkeys(kind for source in sources.values() for _, kind in source.files)
    room = size - tokenizer.num_special
    notes = [
        f"Read as {', '.join(formats)}. Lengths: {counted}.",
        f"A window of {size:,} tokens holds {room:,} of text; neighbours share {windower.overlap_tokens:,}."
        + (f" The encoder takes {limit:,} ({limit_source})." if limit is not None else ""),
    ]
    if "all" in parts:
        notes.append("No parts named train, dev and test: training sets a tenth apart for each of dev and test.")
    settings = [f"data.path={quoted(path)}", *([] if format == "auto" else [f"data.format={format}"])]
    settings += [f"data.fields.{ours}={quoted(theirs)}" for ours, theirs in (fields or {}).items()]
    return CorpusReport(path, model, limit, size, room, windower.overlap_tokens, parts, notes, settings)


def encoder_limit(name: str) -> tuple[int | None, str]:
    """Find the longest input of an encoder and where that limit comes from; no weights are read."""
    try:
        config = AutoConfig.from_pretrained(name)
        with torch.device("meta"):
            return input_limit(AutoModel.from_config(config))
    except (OSError, ValueError) as error:
        message = f"--model {name!r}: expected a folder with config.json, or a name on the hub ({error})"
        raise ConfigError(message) from error


def _sample(source: DocumentSource, num_chars: int) -> Iterator[str]:
    for _, item in source.items():
        if isinstance(item, Document):
            yield item.text[:num_chars]
            num_chars -= len(item.text)
        if num_chars <= 0:
            return


def print_report(report: CorpusReport, console: Console) -> None:
    """Print all tables, then what they suggest, to a console of 80 columns or more."""
    say = partial(console.print, markup=False, highlight=False)
    say(clean(report.path), style="bold")
    say("\n".join(map(clean, report.notes)), "")
    for table in tables(report):
        say(_rich(table), "")
    for title, to_do, found in findings(report.whole):
        say(title, style="bold")
        say(to_do)
        for where, reason in found[:SHOWN_FINDINGS]:
            say(Padding(Text(f"{clean(where)}: {clean(reason)}"), (0, 0, 0, 2)))
        if len(found) > SHOWN_FINDINGS:
            say(f"  and {len(found) - SHOWN_FINDINGS:,} more; the page of --html lists them", style="dim")
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


def _rich(table: Table) -> RichTable:
    shown = RichTable(title=table.title, title_justify="left", title_style="bold", min_width=len(table.title))
    shown.box, shown.pad_edge, shown.show_edge, shown.padding = box.SIMPLE_HEAD, False, False, (0, 0, 0, 1)
    for i, column in enumerate(table.columns):
        shown.add_column(column, justify="right" if i else "left", overflow="fold")
    for name, *cells in table.rows[:SHOWN_ROWS]:
        shown.add_row(Text(clean(str(name))), *map(_narrow, cells), style="dim" if name == "total" else "")
    if len(table.rows) > SHOWN_ROWS:
        shown.caption = f"and {len(table.rows) - SHOWN_ROWS:,} more"
    return shown


def _narrow(cell: int | str) -> str:
    """A number in six characters at most, so that the tables fit into 80 columns."""
    if isinstance(cell, str) or cell < 100_000:
        return cell if isinstance(cell, str) else f"{cell:,}"
    return f"{cell / 1e3:.0f}k" if cell < 999_500 else f"{cell / 1e6:.1f}M"
