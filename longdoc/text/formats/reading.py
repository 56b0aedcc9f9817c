"""Read documents from a file or a folder of any known format, and report what cannot be used."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from longdoc.errors import ConfigError, DataError
from longdoc.text.documents import Document
from longdoc.text.formats.base import (
    BadRow,
    Place,
    RawRow,
    ReadOptions,
    ReadReport,
    Repair,
    check_rows,
    inside,
    numbered_lines,
)
from longdoc.text.formats.brat import rows_brat, rows_text
from longdoc.text.formats.conll import looks_like_conll, rows_conll
from longdoc.text.formats.json_rows import rows_doccano, rows_json, rows_jsonl
from longdoc.text.formats.label_studio import rows_label_studio
from longdoc.text.formats.tables import rows_csv, rows_tsv

log = logging.getLogger(__name__)

RowReader = Callable[[Path, ReadOptions], Iterator[RawRow]]

READERS: dict[str, RowReader] = {
    "jsonl": rows_jsonl,
    "json": rows_json,
    "csv": rows_csv,
    "tsv": rows_tsv,
    "conll": rows_conll,
    "doccano": rows_doccano,
    "label_studio": rows_label_studio,
    "brat": rows_brat,
    "text": rows_text,
}
_SUFFIXES_OF = {
    "jsonl": (".jsonl", ".ndjson"),
    "json": (".json",),
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "conll": (".conll", ".conll03", ".conll2003", ".iob", ".iob1", ".iob2", ".bio", ".bioes", ".bilou"),
    "brat": (".ann",),
    "text": (".txt",),
}
SUFFIXES = {suffix: name for name, suffixes in _SUFFIXES_OF.items() for suffix in suffixes}
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar")
_DOCCANO = re.compile(r'"(Comments|annotation_approver|start_offset)"\s*:')
_PEEKED_LINES = 50
_PEEKED_CHARS = 1 << 16
_LABEL_STUDIO = re.compile(r'"data"\s*:\s*\{|"result"\s*:\s*\[')


@dataclass
class DocumentSource:
    """Documents of one or more files, read anew each time it is iterated, one document in memory at a time.

    Args:
        files: Each file (or brat folder) with the name of its format.
        options: How rows are understood.
        on_error: ``raise``: after the last document, raise one DataError that lists all bad rows. ``skip``: log how
            many there were. Either way they stand in ``report``.
        keeps: Says by id whether a document belongs here; None keeps all.
        report: What the latest pass found.
    """

    files: tuple[tuple[Path, str], ...]
    options: ReadOptions = field(default_factory=ReadOptions)
    on_error: str = "raise"
    keeps: Callable[[str], bool] | None = None
    report: ReadReport = field(default_factory=ReadReport, compare=False)

    def __iter__(self) -> Iterator[Document]:
        self.report = report = ReadReport()
        for _, item in self.items():
            if isinstance(item, Document):
                report.num_documents += 1
                yield item
            elif isinstance(item, Repair):
                report.repairs.append(item)
            else:
                report.bad_rows.append(item)
        if report.bad_rows and self.on_error == "raise":
            raise report.error()
        for line in report.lines():
            log.warning("%s: %s", self.name, line)

    @property
    def name(self) -> str:
        """The file, or the first of several."""
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f"{self.files[0][0]}{more}"

    def items(self) -> Iterator[tuple[Place, Document | BadRow]]:
        """Yield documents, bad rows and repairs as they come, each with the file and line where it stands.

        A source that keeps a part of its files yields the bad rows and repairs of that part when it skips them, and
        all bad rows when it raises, so that one error names them all.
        """
        seen: set[str] = set()
        for path, rows in self.raw_rows():
            for place, item in check_rows(rows, path, self.options, seen):
                everything = self.keeps is None or (self.on_error == "raise" and type(item) is BadRow)
                if everything or self.keeps(str(item.id)):  # type: ignore[misc]
                    yield place, item

    def raw_rows(self) -> Iterator[tuple[Path, Iterator[RawRow]]]:
        """Yield each file with its rows as they stand there."""
        for path, name in self.files:
            yield path, READERS[name](path, self.options)


def read(
    path: str | Path,
    format: str = "auto",
    fields: Mapping[str, str | int] | None = None,
    on_error: str = "raise",
    task: str | None = None,
    options: ReadOptions | None = None,
) -> DocumentSource:
    """Open documents of any known format.

    Args:
        path: A file; or a folder: of brat (``.txt`` with ``.ann``), of plain texts, or of files of other formats.
        format: ``auto`` or a name in :data:`READERS`.
        fields: Our field name -> the file's name, such as ``{"text": "body", "spans": "ents"}``.
        on_error: ``raise`` or ``skip``, see :class:`DocumentSource`.
        task: ``ner``, ``classification``, ``regression`` or None; rows without that gold are bad.
        options: All of ``fields`` and ``task``, and more; give one or the other.

    Returns:
        The source; ``list(read(path))`` gives the documents.

    Raises:
        DataError: If nothing can be read there; bad rows raise at the end of each pass.
    """
    if options is not None and (fields or task):
        raise ConfigError("options: expected either options or fields and task, got both; put them into options")
    if on_error not in ("raise", "skip"):
        raise ConfigError(f"on_error: expected raise or skip, got {on_error!r}")
    options = ReadOptions(fields or {}, task) if options is None else options
    return DocumentSource(_files_of(Path(path), format), options, on_error)


def collect(sources: Mapping[str, DocumentSource]) -> dict[str, list[Document]]:
    """Read several sources into memory; raises one DataError for the bad rows of all those that raise."""
    documents: dict[str, list[Document]] = {}
    failed = ReadReport()
    bad_rows: dict[BadRow, None] = {}
    for name, source in sources.items():
        found = documents[name] = []
        try:
            found.extend(source)
        except DataError:
            if not source.report.bad_rows:
                raise
            bad_rows |= dict.fromkeys(source.report.bad_rows)
        failed.num_documents += source.report.num_documents
    if bad_rows:
        failed.bad_rows = list(bad_rows)
        raise failed.error()
    return documents


def detect_format(path: Path) -> str:
    """Name the format of a file by its suffix and its first lines."""
    suffix = path.suffix.lower()
    if suffix in _ARCHIVES:
        raise DataError(f"{path}: archives are not opened; unpack it and give the file or folder inside")
    found = SUFFIXES.get(suffix)
    if found not in (None, "json", "jsonl", "text"):
        return found
    lines = [
        line if len(line) <= 2 * _PEEKED_CHARS else line[:_PEEKED_CHARS] + line[-_PEEKED_CHARS:]
        for _, line in islice(numbered_lines(path), _PEEKED_LINES)
    ]
    head = "".join(lines).lstrip()[:1]
    if found == "text":
        return "brat" if path.with_suffix(".ann").exists() else "conll" if looks_like_conll(lines) else "text"
    if found == "json" or head == "[":
        return _json_kind(path)
    if head == "{" or found == "jsonl":
        return "doccano" if _DOCCANO.search("".join(lines[:1])) else "jsonl"
    if looks_like_conll(lines):
        return "conll"
    raise DataError(f"{path}: cannot tell its format; name it with format= one of {', '.join(READERS)}")


def _json_kind(path: Path) -> str:
    """Tell Label Studio's tasks from other JSON by the first one."""
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(_PEEKED_CHARS)
    return "label_studio" if _LABEL_STUDIO.search(head) else "json"


def _files_of(path: Path, format: str) -> tuple[tuple[Path, str], ...]:
    if format != "auto" and format not in READERS:
        raise ConfigError(f"format: expected auto or one of {', '.join(READERS)}, got {format!r}")
    if not path.exists():
        raise DataError(f"{path}: no such file or folder{_neighbours(path)}")
    if path.is_file():
        return ((path, detect_format(path) if format == "auto" else format),)
    entries = [entry for entry in inside(path, path.rglob("*")) if entry.is_file()]
    suffixes = {entry.suffix.lower() for entry in entries}
    if format in ("auto", "brat") and ".ann" in suffixes:
        return ((path, "brat"),)
    if format == "text" or (format == "auto" and suffixes & {".txt"} and not suffixes & (SUFFIXES.keys() - {".txt"})):
        return ((path, "text"),)
    known = [entry for entry in entries if entry.suffix.lower() in SUFFIXES]
    if not known:
        raise DataError(f"{path}: holds no file of a known format ({', '.join(SUFFIXES)}){listed(entries)}")
    files = [(entry, detect_format(entry) if format == "auto" else format) for entry in known]
    kinds = sorted({name for _, name in files})
    if len(kinds) > 1:
        raise DataError(f"{path}: holds several formats ({', '.join(kinds)}); give one file or a folder of one format")
    return tuple(files)


def _neighbours(path: Path) -> str:
    return listed(path.parent.iterdir()) if path.parent.is_dir() else f"; {path.parent} does not exist either"


def listed(entries: Iterable[Path]) -> str:
    """Name what there is, for the end of an error message."""
    names = sorted(entry.name for entry in entries)
    more = " ..." if len(names) > 20 else ""
    return f"; there is {', '.join(names[:20])}{more}" if names else "; the folder is empty"
