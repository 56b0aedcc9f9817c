"""``longdoc predict`` and ``longdoc evaluate``: a checkpoint at work on documents."""

import errno
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from longdoc.app.build import READ_TASKS
from longdoc.app.report import evaluate, print_report, write_json
from longdoc.callbacks.documents import prediction_line
from longdoc.errors import ConfigError, DataError
from longdoc.text.classes import check_one_label
from longdoc.text.documents import Document
from longdoc.text.formats import DocumentSource, ReadOptions, read, write
from longdoc.text.formats.base import RawRow, decoded_lines
from longdoc.text.formats.json_rows import rows_of_lines
from longdoc.text.formats.splits import deal
from longdoc.text.preprocess import EncodedDocument
from longdoc.text.results import DocumentResult, Result
from longdoc.training.checkpoint import load
from longdoc.training.hub import open_parts
from longdoc.training.module import DocumentModule

log = logging.getLogger(__name__)

_GROUP_TOKENS = 16384


def predict_command(options: Namespace) -> None:
    """Write one JSON line for each document, as soon as it is tagged, or a file for an annotator's tool."""
    if options.format != "predictions" and options.output == "-":
        raise ConfigError(f"--format={options.format}: expected --output as well, a file or for brat a folder")
    module = _module(options)
    if module.kind != "ner" and options.format in ("brat", "conll"):
        raise ConfigError(f"--format={options.format}: has a place for entities only; this checkpoint gives classes")
    results = (result for _, result in result_stream(module, _progress(_documents(options))))
    if options.format != "predictions":
        write(_as_annotated(results), options.output, options.format)
    else:
        with _writer(options.output) as write_line:
            for result in results:
                write_line(prediction_line(result))
    if options.output != "-":
        Console(stderr=True).print(f"Written to {options.output}", soft_wrap=True, highlight=False, markup=False)


def _as_annotated(results: Iterable[Result]) -> Iterator[Document]:
    for result in results:
        if isinstance(result, DocumentResult):
            yield Document(result.id, result.text, result.predicted)
        elif isinstance(result.predicted, tuple):
            yield Document(result.id, result.text, labels=result.predicted)
        else:
            yield Document(result.id, result.text, target=result.predicted)


def evaluate_command(options: Namespace) -> None:
    """Score annotated documents and print the tables of a training run."""
    module = _module(options)
    documents = list(annotated(options, READ_TASKS[module.kind]))  # a bad row is said before the work, not after it
    if module.kind == "single_label":
        for document in documents:
            check_one_label(document)
    with _writer(options.predictions) as write_line:
        report = score_documents(module, _progress(documents), lambda result: write_line(prediction_line(result)))
    print_report(report, Path(options.data).name, Console())
    if options.output is not None:
        write_json(Path(options.output), report)


def score_documents(
    module: DocumentModule, documents: Iterable[Document], see: Callable[[Result], None] = lambda _: None
) -> dict[str, Any]:
    """Predict annotated documents and score them; ``see`` is shown each result."""
    results, lengths = [], {}
    for encoded, result in result_stream(module, documents):
        see(result)
        results.append(result)
        lengths[result.id] = encoded.num_document_tokens
    return evaluate(module, results, lengths)


def result_stream(module: DocumentModule, documents: Iterable[Document]) -> Iterator[tuple[EncodedDocument, Any]]:
    """Predict documents in order, a few at a time; no more than that is held."""
    group: list[EncodedDocument] = []
    num_tokens = 0
    for document in documents:
        group.append(module.encode(document))
        num_tokens += len(group[-1].token_ids)
        if num_tokens >= _GROUP_TOKENS:
            yield from zip(group, module.results(group), strict=True)
            group, num_tokens = [], 0
    yield from zip(group, module.results(group), strict=True)


def _module(options: Namespace) -> DocumentModule:
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"--device={options.device}: cannot be used here ({' '.join(str(error).split())})") from error
    module = load(options.checkpoint, device)
    if options.max_tokens_per_forward < 1:
        raise ConfigError(f"--max-tokens-per-forward={options.max_tokens_per_forward}: expected at least 1")
    module.max_tokens_per_forward = options.max_tokens_per_forward
    return module


def _documents(options: Namespace) -> Iterator[Document]:
    """Read the inputs one after the other; results of two documents with the same id could not be told apart."""
    places: dict[str, tuple[int, str]] = {}
    for place in enumerate(options.inputs):
        for document in _input(place[1], options):
            first = places.setdefault(document.id, place)
            if first == place:
                yield document
                continue
            told = f"document {document.id!r:.80} of {place[1]}: there is one of that id in {first[1]}"
            if options.on_error == "raise":
                raise DataError(f"{told}; predict them one by one, or leave out the second with --on-error=skip")
            log.warning("%s; this one is skipped", told)


def _input(name: str, options: Namespace) -> Iterable[Document]:
    read_options = ReadOptions(dict(options.field))
    if name == "-":
        return StandardInput(((Path("<stdin>"), options.input_format),), read_options, options.on_error)
    return read(name, options.input_format, options.on_error, read_options)


class StandardInput(DocumentSource):
    """Standard input, held to the same checks as files.

    It is JSON lines where the first visible character is a brace, else one text, unless the format is named.
    """

    def raw_rows(self) -> Iterator[tuple[Path, Iterator[RawRow]]]:
        """Yield the rows as they come."""
        path, name = self.files[0]
        if name not in ("auto", "text", "jsonl"):
            raise ConfigError(f"--input-format={name}: standard input is text or jsonl; give a file for other formats")
        lines = decoded_lines(sys.stdin.buffer, path)
        first: list[tuple[int, str]] = []
        for numbered in lines:
            first.append(numbered)
            if numbered[1].strip():
                break
        is_text = name == "text" or (name == "auto" and not (first and first[-1][1].lstrip().startswith("{")))
        if is_text:
            text = "".join(line for _, line in chain(first, lines))
            yield path, iter([RawRow(1, "stdin", text)])
        else:
            yield path, rows_of_lines(chain(first, lines), self.options)


def annotated(options: Namespace, task: str) -> Iterable[Document]:
    """Read the documents that the options of a command name: a part, or all where none is asked for or named."""
    arguments = (options.data, options.input_format, options.on_error, ReadOptions(dict(options.field), task=task))
    parts, split = open_parts(*arguments), options.split or "test"
    if options.split is None and "all" in parts:
        return parts["all"]
    if split not in parts:
        parts = deal(parts, options.data, seed=0)
    if split not in parts:
        raise DataError(f"{options.data}: has no split {split!r}; there is {', '.join(parts)}; choose with --split")
    return parts[split]


def _progress(documents: Iterable[Document]) -> Iterator[Document]:
    """Count on standard error: a live line on a terminal, one line at the end elsewhere."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("documents", total=None)
        number = 0
        for number, document in enumerate(documents, 1):  # noqa: B007
            yield document
            progress.advance(task)
    if not console.is_terminal:
        console.print(f"{number} documents")


@contextmanager
def _writer(path: str | None):
    """Give a function that writes a line to a file, to standard output (``-``) or nowhere (None)."""
    if path is None:
        yield lambda line: None  # noqa: ARG005
    elif path == "-":
        yield lambda line: print(line, flush=True)
    else:
        # What stood there is replaced when all is written; if that fails, what was done so far stays beside it.
        target = Path(path)
        part = target.with_name(f"{target.name}.part")
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "expected a file, not a folder", str(target))
        with part.open("w", encoding="utf-8") as file:
            try:
                yield lambda line: file.write(line + "\n")
            except BaseException:
                log.warning("This was not finished; what was done so far is in %s", part)
                raise
        os.replace(part, target)
