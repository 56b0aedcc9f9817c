"""Documents on disk: Arrow files that are memory-mapped, written once and found again by what they were made of.

Two tables a split: the documents as they were read, and what the preprocessor made of them. A table's name is a hash of
everything that determines its content, so a changed window, tokenizer or file never meets an old table.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset, Features, List, Value
from datasets.arrow_writer import ArrowWriter

from longdoc.errors import ConfigError, DataError
from longdoc.text.alignment import LostSpan
from longdoc.text.documents import Document, Span
from longdoc.text.formats import DocumentSource, ReadReport
from longdoc.text.formats.brat import beside
from longdoc.text.formats.writers import replacing
from longdoc.text.preprocess import EncodedDocument, Preprocessor
from longdoc.text.windows import Windows
from longdoc.training.hub import TableSource

log = logging.getLogger(__name__)

_WRITER_ROWS = 16
_SCANNED_ROWS = 1000
_UNREADABLE = (OSError, ValueError, TypeError)  # there is no such file, or a damaged one: both are written anew

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


def code_version(*folders: str) -> str:
    """A hash of the code, ours and of libraries, that turns rows into tokens and windows; of more folders if named."""
    root = Path(__file__).parents[1]
    files = [path for name in ("text", *folders) for path in sorted((root / name).rglob("*.py"))]
    digest = hashlib.blake2b(digest_size=8)
    for path in (*files, Path(__file__), Path(__file__).with_name("hub.py")):
        digest.update(path.read_bytes())
    digest.update(" ".join(map(version, ("tokenizers", "sentencex", "scikit-learn", "numpy"))).encode())
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
    path = cache_dir / f"documents-{key}.arrow"
    noted = path.with_suffix(".json")
    with suppress(*_UNREADABLE):
        lines, table = json.loads(noted.read_text(encoding="utf-8")), Dataset.from_file(str(path))
        for line in lines:
            log.warning(line)
        return DocumentTable(table, key)
    with cache_file(path) as beside:
        _write(beside, map(_document_row, documents), DOCUMENT_FEATURES)
        noted.write_text(json.dumps(notes()), encoding="utf-8")
    return DocumentTable(Dataset.from_file(str(path)), key)


def _document_row(document: Document) -> dict[str, Any]:
    row = asdict(document)
    for span in row["spans"] or ():
        del span["score"]
    return row


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
    path = cache_dir / f"encoded-{key}.arrow"
    with suppress(*_UNREADABLE):
        return EncodedTable(documents, Dataset.from_file(str(path)), key)
    with cache_file(path) as beside:
        _write(beside, _encoded_rows(documents, preprocessor, num_proc), ENCODED_FEATURES)
    return EncodedTable(documents, Dataset.from_file(str(path)), key)


@contextmanager
def cache_file(path: Path) -> Iterator[Path]:
    """Give a file of the cache to write; another process finds it whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"data.cache_dir={path.parent}: expected a folder that can be written ({error})") from error
    with replacing(path) as beside:
        yield beside


def _write(path: Path, rows: Iterable[dict[str, Any]], features: Features) -> None:
    with ArrowWriter(path=str(path), features=features, writer_batch_size=_WRITER_ROWS) as writer:
        for row in rows:
            writer.write(row)
        writer.finalize()


def _encoded_rows(documents: DocumentTable, preprocessor: Preprocessor, num_proc: int) -> Iterator[dict[str, Any]]:
    if num_proc == 1 or len(documents) < 2:
        yield from (_encoded_row(preprocessor(document)) for document in documents)
        return
    with ProcessPoolExecutor(num_proc, initializer=_take, initargs=(documents, preprocessor)) as pool:
        try:
            yield from pool.map(_encode, range(len(documents)), chunksize=4)
        finally:
            pool.shutdown(cancel_futures=True)


_taken: tuple[DocumentTable, Preprocessor]


def _take(documents: DocumentTable, preprocessor: Preprocessor) -> None:
    global _taken  # sent to a process once, not with each row
    _taken = documents, preprocessor


def _encode(index: int) -> dict[str, Any]:
    documents, preprocessor = _taken
    return _encoded_row(preprocessor(documents[index]))


def _encoded_row(encoded: EncodedDocument) -> dict[str, Any]:
    windows = encoded.windows
    position = {id(span): i for i, span in enumerate(encoded.document.spans or ())}
    numbers: list[Any] = [[windows.num_tokens], windows.start, windows.end, windows.own_start, windows.own_end]
    return {
        "words": encoded.words.ravel(),
        "token_ids": encoded.token_ids,
        "token_word": encoded.token_word,
        "first_token": encoded.first_token,
        "windows": np.concatenate(numbers).astype(np.int32),
        "tags": encoded.tags,
        "lost": [{"span": position[id(lost.span)], "reason": lost.reason} for lost in encoded.lost],
        "kept": None if encoded.kept is None else encoded.kept.ravel(),
        "num_unselected": encoded.num_unselected,
    }


def content_digest(content: Any) -> str:
    """A hash of plain containers and tensors."""
    text = json.dumps(content, sort_keys=True, default=lambda tensor: tensor.numpy().tobytes().hex())
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def content_key(documents: Iterable[Document]) -> str:
    """A hash of the ids, texts and gold of documents."""
    digest = hashlib.blake2b(digest_size=16)
    for document in documents:
        digest.update(json.dumps(asdict(document), sort_keys=True).encode())
    return digest.hexdigest()


def source_key(source: DocumentSource) -> str:
    """A hash of the bytes of a source's files and of how they are read."""
    digest = hashlib.blake2b(digest_size=16)
    reading = [asdict(source.options), source.on_error, repr(source.keeps), code_version()]
    digest.update(json.dumps(reading, sort_keys=True).encode())
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
