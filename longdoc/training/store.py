"""Documents on disk: Arrow files that are memory-mapped, written once and found again by what they were made of.

Two tables a split: the documents as they were read, and what the preprocessor made of them. A table's name is a hash of
everything that determines its content, so a changed window, tokenizer or file never meets an old table.
"""

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import (
    Dataset,
    Features,
    List,
    Value,
    disable_progress_bars,
    enable_progress_bars,
    is_progress_bar_enabled,
)
from datasets.exceptions import DatasetGenerationError

from longdoc.errors import DataError
from longdoc.text.alignment import LostSpan
from longdoc.text.documents import Document, Span
from longdoc.text.formats import DocumentSource, ReadReport
from longdoc.text.formats.brat import beside
from longdoc.text.preprocess import EncodedDocument, Preprocessor
from longdoc.text.windows import Windows
from longdoc.training.hub import TableSource

log = logging.getLogger(__name__)

_TEXT_ROOT = Path(__file__).parents[1] / "text"
_WRITER_ROWS = 16
_SCANNED_ROWS = 1000
_NOTES = "notes.json"

_SPAN = {"start": Value("int64"), "end": Value("int64"), "label": Value("string"), "slice": Value("string")}
DOCUMENT_FEATURES = Features(
    {
        "id": Value("string"),
        "text": Value("large_string"),
        "spans": List(_SPAN),
        "labels": List(Value("string")),
        "target": Value("float64"),
    }
)
_NUMBERS = List(Value("int32"))
ENCODED_FEATURES = Features(
    {
        "words": _NUMBERS,
        "token_ids": _NUMBERS,
        "token_word": _NUMBERS,
        "first_token": _NUMBERS,
        "windows": _NUMBERS,
        "tags": _NUMBERS,
        "lost": List({"span": Value("int64"), "reason": Value("string")}),
        "kept": _NUMBERS,
        "num_unselected": Value("int64"),
    }
)


def default_cache_dir() -> Path:
    """``LONGDOC_CACHE``, or ``longdoc`` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("LONGDOC_CACHE") or Path(base) / "longdoc")


def code_version() -> str:
    """A hash of the code that turns text into tokens and windows."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(_TEXT_ROOT.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class DocumentTable(Sequence[Document]):
    """Documents in a memory-mapped table; one is built when it is asked for.

    Args:
        table: With ``DOCUMENT_FEATURES``.
        key: Names the content.
    """

    def __init__(self, table: Dataset, key: str) -> None:
        self._table = table
        self.key = key

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = self._table[index]
        spans, labels = row["spans"], row["labels"]
        return Document(
            id=row["id"],
            text=row["text"],
            spans=None
            if spans is None
            else tuple(Span(s["start"], s["end"], s["label"], slice=s["slice"]) for s in spans),
            labels=None if labels is None else tuple(labels),
            target=row["target"],
        )

    def column(self, name: str) -> Iterator[Any]:
        """Go through one column without building the documents."""
        for rows in self._table.select_columns(name).iter(_SCANNED_ROWS):
            yield from rows[name]

    def span_values(self, name: str) -> set[str]:
        """Distinct values of a field of all gold spans, such as their labels; None is left out."""
        found: set[str] = set()
        for rows in self._table.select_columns("spans").with_format("arrow").iter(_SCANNED_ROWS):
            found.update(rows["spans"].combine_chunks().flatten().field(name).unique().to_pylist())
        return found - {None}

    def head(self, num_documents: int) -> "DocumentTable":
        """The first so many documents."""
        num_documents = min(num_documents, len(self))
        return DocumentTable(self._table.select(range(num_documents)), f"{self.key}-{num_documents}")


class EncodedTable(Sequence[EncodedDocument]):
    """Encoded documents in a memory-mapped table.

    Args:
        documents: What they were made of, in the same order.
        table: With ``ENCODED_FEATURES``.
        key: Names the content.
    """

    def __init__(self, documents: DocumentTable, table: Dataset, key: str) -> None:
        self.documents = documents
        self.key = key
        self._table = table.with_format("arrow")

    def __len__(self) -> int:
        return len(self._table)

    def window_lengths(self) -> list[np.ndarray]:
        """Tokens of each window of each document, special tokens not included; reads no other column."""
        lengths = []
        for rows in self._table.select_columns("windows").iter(_SCANNED_ROWS):
            for windows in rows["windows"].to_numpy():
                start, end = windows[1:].reshape(4, -1)[:2]
                lengths.append(end - start)
        return lengths

    def num_labelled(self, owned_only: bool) -> list[np.ndarray]:
        """Words to learn in each window of each document; ``owned_only`` counts a word in two windows once."""
        counts = []
        for rows in self._table.select_columns(["windows", "first_token", "tags"]).iter(_SCANNED_ROWS):
            columns = (rows[name].to_numpy() for name in ("windows", "first_token", "tags"))
            for windows, first_token, tags in zip(*columns, strict=True):
                start, end = windows[1:].reshape(4, -1)[2 if owned_only else 0 :][:2]
                known = first_token[:0] if tags is None else first_token[(first_token >= 0) & (tags != -100)]
                counts.append(np.searchsorted(known, end) - np.searchsorted(known, start))
        return counts

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        document, row = self.documents[index], self._table[index]
        windows = _numbers(row["windows"])
        start, end, own_start, own_end = windows[1:].reshape(4, -1)
        tags, kept = (row[name].combine_chunks() for name in ("tags", "kept"))
        lost = row["lost"].to_pylist()[0]
        return EncodedDocument(
            document=document,
            words=_numbers(row["words"]).reshape(-1, 2),
            token_ids=_numbers(row["token_ids"]),
            token_word=_numbers(row["token_word"]),
            first_token=_numbers(row["first_token"]),
            windows=Windows(start, end, own_start, own_end, int(windows[0])),
            tags=None if tags.null_count else _numbers(row["tags"]),
            kept=None if kept.null_count else _numbers(row["kept"]).reshape(-1, 2),
            num_unselected=row["num_unselected"][0].as_py(),
            lost=tuple(LostSpan((document.spans or ())[item["span"]], item["reason"]) for item in lost),
        )


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    return column.combine_chunks().flatten().to_numpy(zero_copy_only=False)


def store_documents(
    documents: Iterable[Document], cache_dir: Path, key: str, notes: Callable[[], list[str]] = list
) -> DocumentTable:
    """Write documents to the cache, one at a time, unless they stand there already.

    Args:
        documents: Any iterable; gone through once.
        cache_dir: Folder of the cache.
        key: Names the content.
        notes: Called after the last document: lines that are kept with the table and logged when it is opened again.
    """
    folder = cache_dir / f"documents-{key}"
    if (folder / _NOTES).is_file():
        for line in json.loads((folder / _NOTES).read_text(encoding="utf-8")):
            log.warning(line)
    return DocumentTable(_cached(folder, lambda beside: _write_documents(documents, beside), notes), key)


def _write_documents(documents: Iterable[Document], folder: Path) -> Dataset:
    num_rows = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal num_rows
        for document in documents:
            num_rows += 1
            spans = None if document.spans is None else [_span_row(span) for span in document.spans]
            labels = None if document.labels is None else list(document.labels)
            yield {
                "id": document.id,
                "text": document.text,
                "spans": spans,
                "labels": labels,
                "target": document.target,
            }

    try:
        return Dataset.from_generator(
            rows,
            features=DOCUMENT_FEATURES,
            cache_dir=str(folder),
            fingerprint=folder.parent.name,
            writer_batch_size=_WRITER_ROWS,
        )
    except DatasetGenerationError as error:
        raise error.__cause__ or error from None
    except ValueError:
        if num_rows:
            raise
        return _empty(DOCUMENT_FEATURES)


def _empty(features: Features) -> Dataset:
    return Dataset.from_dict({name: [] for name in features}, features=features)


def _span_row(span: Span) -> dict[str, Any]:
    return {"start": span.start, "end": span.end, "label": span.label, "slice": span.slice}


def store_encoded(
    documents: DocumentTable, preprocessor: Preprocessor, cache_dir: Path, num_proc: int = 1
) -> EncodedTable:
    """Encode documents into the cache, unless they stand there already.

    Args:
        documents: The stored documents.
        preprocessor: Encodes them.
        cache_dir: Folder of the cache.
        num_proc: Processes that encode.
    """
    key = content_digest([documents.key, preprocessor.state(), code_version()])

    def write(folder: Path) -> Dataset:
        if len(documents) == 0:
            return _empty(ENCODED_FEATURES)
        return documents._table.map(
            _EncodeRow(documents, preprocessor),
            with_indices=True,
            input_columns=[],
            remove_columns=list(DOCUMENT_FEATURES),
            features=ENCODED_FEATURES,
            cache_file_name=str(folder / "encoded.arrow"),
            new_fingerprint=key,
            writer_batch_size=_WRITER_ROWS,
            num_proc=num_proc if num_proc > 1 and len(documents) > 1 else None,
            desc="encode",
        )

    return EncodedTable(documents, _cached(cache_dir / f"encoded-{key}", write), key)


def content_digest(content: Any) -> str:
    """A hash of plain containers and tensors."""
    text = json.dumps(content, sort_keys=True, default=lambda tensor: tensor.numpy().tobytes().hex())
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class _EncodeRow:
    """Encodes the document of a row; a class, so that it can be sent to other processes."""

    def __init__(self, documents: DocumentTable, preprocessor: Preprocessor) -> None:
        self.documents = documents
        self.preprocessor = preprocessor

    def __call__(self, index: int) -> dict[str, Any]:
        encoded = self.preprocessor(self.documents[index])
        windows = encoded.windows
        position = {id(span): i for i, span in enumerate(encoded.document.spans or ())}
        return {
            "words": encoded.words.ravel(),
            "token_ids": encoded.token_ids,
            "token_word": encoded.token_word,
            "first_token": encoded.first_token,
            "windows": np.concatenate(
                [[windows.num_tokens], windows.start, windows.end, windows.own_start, windows.own_end]
            ).astype(np.int32),
            "tags": encoded.tags,
            "lost": [{"span": position[id(lost.span)], "reason": lost.reason} for lost in encoded.lost],
            "kept": None if encoded.kept is None else encoded.kept.ravel(),
            "num_unselected": encoded.num_unselected,
        }


def _cached(folder: Path, write: Callable[[Path], Dataset], notes: Callable[[], list[str]] = list) -> Dataset:
    """Open the table of a folder; write it beside and rename it into place if it is missing."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            with _quiet():
                table = write(beside / "work")
                if len(table) == 0:
                    return table  # datasets writes an empty table that it cannot open
                table.save_to_disk(beside / "table")
            (beside / "table" / _NOTES).write_text(json.dumps(notes()), encoding="utf-8")
            try:
                (beside / "table").rename(folder)
            except OSError:
                if not folder.is_dir():  # another process may have been quicker: its table holds the same
                    raise
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    return Dataset.load_from_disk(str(folder))


@contextmanager
def _quiet() -> Iterator[None]:
    enabled = is_progress_bar_enabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if enabled:
            enable_progress_bars()


def content_key(documents: Iterable[Document]) -> str:
    """A hash of the ids, texts and gold of documents."""
    digest = hashlib.blake2b(digest_size=16)
    for document in documents:
        digest.update(json.dumps(asdict(document), sort_keys=True).encode())
    return digest.hexdigest()


def source_key(source: DocumentSource) -> str:
    """A hash of the bytes of a source's files and of how they are read."""
    digest = hashlib.blake2b(digest_size=16)
    options = {**asdict(source.options), "labels": sorted(source.options.labels or ())}
    digest.update(json.dumps([options, source.on_error, repr(source.keeps), code_version()], sort_keys=True).encode())
    if isinstance(source, TableSource):
        digest.update(source.key.encode())
        return digest.hexdigest()
    names = source.file_names()
    for path, name in source.files:
        pair = [beside(path, ".txt"), beside(path, ".ann")] if name == "brat" and path.is_file() else []
        for file in sorted(path.rglob("*")) if path.is_dir() else [path, *pair]:
            if file is not None and file.is_file():
                # Ids come from names: of a file, or of what lies in a folder.
                inside = file.relative_to(path) if path.is_dir() else file.name
                digest.update(f"{name}\0{names[path]}\0{inside}\0".encode())
                with file.open("rb") as content:
                    digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


def store_sources(sources: Mapping[str, DocumentSource], cache_dir: Path) -> dict[str, DocumentTable]:
    """Read files into the cache, one document in memory at a time, unless they stand there already.

    Raises:
        DataError: For the bad rows of all sources at once, where a source raises.
    """
    tables: dict[str, DocumentTable] = {}
    failed = ReadReport()
    for name, source in sources.items():
        try:
            tables[name] = store_documents(source, cache_dir, source_key(source), partial(_notes_of, source))
        except DataError:
            if not source.report.bad_rows:
                raise
            failed.bad_rows += [row for row in source.report.bad_rows if row not in failed.bad_rows]
            failed.num_documents += source.report.num_documents
    if failed.bad_rows:
        raise failed.error()
    return tables


def _notes_of(source: DocumentSource) -> list[str]:
    return [f"{source.name}: {line}" for line in source.report.lines()]
