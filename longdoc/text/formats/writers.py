"""Write documents for training, or predictions into the format of an annotation tool.

What each format keeps: JSONL everything; Label Studio everything (as predictions to start from); brat and CoNLL
spans; doccano spans and classes. What a format has no place for and would silently be lost as gold
(classes in brat, a number in doccano ...) is refused; scores and slices are left out.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from longdoc.errors import DataError, check_choice
from longdoc.text.documents import Document, Span, span_problem
from longdoc.text.formats.base import character_problem
from longdoc.text.formats.conll import conll_lines
from longdoc.text.formats.offsets import utf16_offsets

_UNSAFE_NAME = re.compile(r"^[. ]|[^\w\-. ]| $")
_UNSAFE_LABEL = re.compile(r"[^\w\-]")
_LINE_BREAKS = re.compile(r"[\t\r\n]")
_MAX_NAME_BYTES = 240
_KINDS = ("spans", "labels", "target")
_HAS_PLACE = {"jsonl": _KINDS, "label_studio": _KINDS, "doccano": _KINDS[:2], "brat": _KINDS[:1], "conll": _KINDS[:1]}


def write(documents: Iterable[Document], path: str | Path, format: str) -> int:
    """Write documents to a file, or to a folder for brat; what stands there is replaced at once or not at all.

    Reading back gives equal documents, but for scores and slices in brat, doccano and CoNLL. CoNLL cuts words where a
    span begins or ends inside them and keeps id and text in comments; tools that read the columns alone get the tokens
    joined by blanks.

    Args:
        documents: May be a generator; one is held at a time.
        path: Target file. For brat a folder that does not exist yet or is empty.
        format: ``jsonl``, ``conll``, ``doccano``, ``label_studio`` or ``brat``.

    Returns:
        Number of documents written.

    Raises:
        DataError: If a document holds what the format cannot.
    """
    check_choice("format", format, tuple(_HAS_PLACE))
    path = Path(path)
    num_documents = 0

    def checked() -> Iterator[Document]:
        nonlocal num_documents
        for document in documents:
            _check(document, format)
            yield document
            num_documents += 1

    if format == "brat":
        _write_brat(checked(), path)
    elif format == "conll":
        _write_pieces(("\n".join([*conll_lines(document), "\n"]) for document in checked()), path)
    elif format == "label_studio":
        tasks = (_dumped(document, _label_studio_task) for document in checked())
        _write_pieces(chain(["["], (f"{',' if i else ''}\n{task}" for i, task in enumerate(tasks)), ["\n]\n"]), path)
    else:
        make_row = _jsonl_row if format == "jsonl" else _doccano_row
        _write_pieces((_dumped(document, make_row) + "\n" for document in checked()), path)
    return num_documents


def _jsonl_row(document: Document) -> dict[str, Any]:
    """A document as an object of our own JSONL: what is set of it, and of its spans."""
    row = asdict(document)
    spans = row.pop("spans")
    if spans is not None:
        row["entities"] = [_set_fields(span) for span in spans]
    return _set_fields({name: row.get(name) for name in ("id", "text", "entities", "labels", "target")})


def _set_fields(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _doccano_row(document: Document) -> dict[str, Any]:
    """A document as a row to import into doccano, with its offsets in UTF-16 units as doccano counts them.

    With both spans and classes it has the shape of doccano's joint projects.
    """
    row: dict[str, Any] = {"id": document.id, "text": document.text, "Comments": []}
    if document.spans is not None:
        starts = utf16_offsets(document.text, [span.start for span in document.spans])
        ends = utf16_offsets(document.text, [span.end for span in document.spans])
        labels = [span.label for span in document.spans]
        row["label" if document.labels is None else "entities"] = list(zip(starts, ends, labels, strict=True))
    elif document.labels:
        return row | {"label": document.labels}
    return row if document.labels is None else row | {"cats": document.labels}


def _label_studio_task(document: Document) -> dict[str, Any]:
    """A document as a Label Studio task, its spans, classes and number as a prediction to start from.

    The labelling interface is expected to name its tags ``label``, ``choice`` and ``number``, over the text ``text``.
    """

    def result(name: str, kind: str, value: dict[str, Any]) -> dict[str, Any]:
        return {"id": name, "from_name": name, "to_name": "text", "type": kind, "value": value}

    results = []
    for i, span in enumerate(document.spans or ()):
        surface = document.text[span.start : span.end]
        value = {"start": span.start, "end": span.end, "text": surface, "labels": [span.label]}
        meta = None if span.slice is None else {"slice": span.slice}
        more = _set_fields({"score": span.score, "meta": meta})
        results.append(result("label", "labels", value) | more | {"id": str(i)})
    if document.labels:
        results.append(result("choice", "choices", {"choices": document.labels}))
    if document.target is not None:
        results.append(result("number", "number", {"number": document.target}))
    kinds = [kind for kind in _KINDS if getattr(document, kind) is not None]
    task: dict[str, Any] = {"data": {"id": document.id, "text": document.text}, "meta": {"gold": kinds}}
    if kinds:
        scores = [span.score for span in document.spans or () if span.score is not None]
        mean = {"score": sum(scores) / len(scores)} if scores else {}
        task["predictions"] = [{"model_version": "longdoc", "result": results} | mean]
    return task


def _check(document: Document, format: str) -> None:
    where = f"document {document.id!r:.80}"
    for kind in _KINDS:
        if getattr(document, kind) is not None and kind not in _HAS_PLACE[format]:
            raise DataError(f"{where}: {format} has no place for {kind}; write jsonl or label_studio")
    for span in document.spans or ():
        problem = span_problem(document.text, span.start, span.end)
        if problem or document.text[span.start : span.end].isspace():
            raise DataError(f"{where} cannot be written: {problem or f'span {span.key} covers only white space'}")
    labels = [span.label for span in document.spans or ()] + list(document.labels or ())
    slices = [span.slice for span in document.spans or () if span.slice]
    for value in (document.id, document.text, *labels, *slices):
        problem = character_problem(value)
        if problem:
            raise DataError(f"{where} cannot be written: {problem}")


def _dumped(document: Document, make_row: Callable[[Document], dict[str, Any]]) -> str:
    try:
        return json.dumps(make_row(document), ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise DataError(f"document {document.id!r:.80} cannot be written: {error}") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a place beside ``path`` to write, and put it in its place at the end: others find it whole or not at all."""
    draft = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        yield draft
        os.replace(draft, path)
    finally:
        shutil.rmtree(draft) if draft.is_dir() else draft.unlink(missing_ok=True)


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path}: expected a place that can be written ({error})") from error
    with replacing(path) as draft:
        yield draft


def _write_pieces(pieces: Iterable[str], path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path}: expected a file to write, got a folder; name a file in it")
    with _draft(path) as draft, draft.open("x", encoding="utf-8", newline="") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())


def _write_brat(documents: Iterable[Document], folder: Path) -> None:
    """Write pairs of files; ids become file names in which what is unsafe is percent-encoded."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: expected a new or empty folder for brat, so that no older document stays in it")
    with _draft(folder) as draft:
        draft.mkdir()
        for document in documents:
            name = _encoded(document.id, _UNSAFE_NAME)
            if not name or len(name.encode()) > _MAX_NAME_BYTES or (draft / f"{name}.txt").exists():
                raise DataError(f"document {document.id!r:.80}: its id is empty, repeated or too long for a file name")
            mark = "\ufeff" if document.text.startswith("\ufeff") else ""
            (draft / f"{name}.txt").write_text(mark + document.text, encoding="utf-8", newline="")
            if document.spans is not None:
                lines = "".join(_brat_lines(document.text, document.spans))
                (draft / f"{name}.ann").write_text(lines, encoding="utf-8", newline="")


def _brat_lines(text: str, spans: Iterable[Span]) -> Iterator[str]:
    for i, span in enumerate(spans, 1):
        surface = _LINE_BREAKS.sub(" ", text[span.start : span.end])
        yield f"T{i}\t{_encoded(span.label, _UNSAFE_LABEL)} {span.start} {span.end}\t{surface}\n"


def _encoded(name: str, unsafe: re.Pattern[str]) -> str:
    """Percent-encode what matches, so that it can be decoded again and no name climbs out of its folder."""
    return unsafe.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name)
