"""Read documents from a file or a folder of any known format, and report what cannot be used."""

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from longdoc.errors import DataError, check_choice
from longdoc.text.documents import Document
from longdoc.text.formats.base import BadRow, Place, RawRow, ReadOptions, Repair, check_rows, inside, numbered_lines
from longdoc.text.formats.brat import beside, rows_brat, rows_text
from longdoc.text.formats.conll import looks_like_conll, rows_conll
from longdoc.text.formats.json_rows import rows_doccano, rows_json, rows_jsonl
from longdoc.text.formats.label_studio import rows_label_studio
from longdoc.text.formats.tables import rows_table

log = logging.getLogger(__name__)

RowReader = Callable[[Path, ReadOptions], Iterator[RawRow]]

READERS: dict[str, RowReader] = {
    "jsonl": rows_jsonl,
    "json": rows_json,
    "csv": partial(rows_table, delimiter=","),
    "tsv": partial(rows_table, delimiter="\t"),
    "conll": rows_conll,
    "doccano": rows_doccano,
    "label_studio": rows_label_studio,
    "brat": rows_brat,
    "text": rows_text,
}
_SUFFIXES_OF = {
    "jsonl": ".jsonl .ndjson",
    "json": ".json",
    "csv": ".csv",
    "tsv": ".tsv .tab",
    "conll": ".conll .conll03 .conll2003 .iob .iob1 .iob2 .bio .bioes .bilou",
    "brat": ".ann",
    "text": ".txt",
}
SUFFIXES = {suffix: name for name, suffixes in _SUFFIXES_OF.items() for suffix in suffixes.split()}
_SHOWN_ROWS = 50
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar")
_DOCCANO = re.compile(r'"(Comments|annotation_approver|start_offset)"\s*:')
_PEEKED_LINES = 50
_PEEKED_CHARS = 1 << 16
_LABEL_STUDIO = re.compile(r'"data"\s*:\s*\{|"result"\s*:\s*\[')


@dataclass
class ReadReport:
    """What one pass over the data found: usable documents, rows that could not be used, repairs of rows that could."""

    num_documents: int = 0
    bad_rows: list[BadRow] = field(default_factory=list)
    repairs: list[Repair] = field(default_factory=list)

    def error(self) -> DataError:
        """The error that lists the bad rows, the first 50 of them by name."""
        shown = "\n".join(f"  {row}" for row in self.bad_rows[:_SHOWN_ROWS])
        more = len(self.bad_rows) - _SHOWN_ROWS
        tail = f"\n  ... and {more} more" if more > 0 else ""
        advice = "Correct them, or leave them out: data.on_error=skip in training, --on-error skip elsewhere."
        if not self.num_documents and all(row.reason.startswith("no ") for row in self.bad_rows):
            advice = (
                "Set what is wrong: the name of what is missing (data.fields in training, --field elsewhere), or the "
                "task that the data is for."
            )
        told = f"{len(self.bad_rows)} rows cannot be used ({self.num_documents} can)"
        return DataError(f"{told}:\n{shown}{tail}\n{advice}")

    def lines(self) -> list[str]:
        """Say how many rows were skipped or repaired, with the first of each; empty where all was well."""
        kinds = ((self.bad_rows, "cannot be used and were skipped"), (self.repairs, "were repaired"))
        return [f"{len(rows)} rows {what}; the first: {rows[0]}" for rows, what in kinds if rows]


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
        names = self.file_names()
        for path, rows in self.raw_rows():
            for place, item in check_rows(rows, path, names[path], self.options, seen):
                everything = self.keeps is None or (self.on_error == "raise" and type(item) is BadRow)
                if everything or self.keeps(str(item.id)):  # type: ignore[misc]
                    yield place, item

    def file_names(self) -> dict[Path, str]:
        """What ids of rows without one begin with: the name of the file, or its path where two files share that."""
        paths = [path for path, _ in self.files]
        if len({path.stem for path in paths}) == len(paths):
            return {path: path.stem for path in paths}
        root = os.path.commonpath([path.parent for path in paths])
        names = {path: path.relative_to(root).with_suffix("").as_posix() for path in paths}
        twice = len(set(names.values())) < len(names)  # then only their suffixes tell them apart
        return {path: path.relative_to(root).as_posix() for path in paths} if twice else names

    def raw_rows(self) -> Iterator[tuple[Path, Iterator[RawRow]]]:
        """Yield each file with its rows as they stand there."""
        for path, name in self.files:
            yield path, READERS[name](path, self.options)


def read(
    path: str | Path, format: str = "auto", on_error: str = "raise", options: ReadOptions | None = None
) -> DocumentSource:
    """Open documents of any known format.

    Args:
        path: A file; or a folder: of brat (``.txt`` with ``.ann``), of plain texts, or of files of other formats.
        format: ``auto`` or a name in :data:`READERS`.
        on_error: ``raise`` or ``skip``, see :class:`DocumentSource`.
        options: Names of fields, the task and more; None takes the usual ones.

    Returns:
        The source; ``list(read(path))`` gives the documents.

    Raises:
        DataError: If nothing can be read there; bad rows raise at the end of each pass.
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    check_choice("format", format, ("auto", *READERS))
    return DocumentSource(_files_of(Path(path), format), options or ReadOptions(), on_error)


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
        return "brat" if beside(path, ".ann") else "conll" if looks_like_conll(lines) else "text"
    if found == "json" or head == "[":  # the first task of Label Studio tells it from other JSON
        with path.open(encoding="utf-8", errors="replace") as file:
            return "label_studio" if _LABEL_STUDIO.search(file.read(_PEEKED_CHARS)) else "json"
    if head == "{" or found == "jsonl":
        return "doccano" if _DOCCANO.search("".join(lines[:1])) else "jsonl"
    if looks_like_conll(lines):
        return "conll"
    raise DataError(f"{path}: cannot tell its format; name it with format= one of {', '.join(READERS)}")


def _files_of(path: Path, format: str) -> tuple[tuple[Path, str], ...]:
    if not path.exists():
        parent = path.parent
        there = listed(parent.iterdir()) if parent.is_dir() else f"; {parent} does not exist either"
        raise DataError(f"{path}: no such file or folder{there}")
    if path.is_file():
        return ((path, detect_format(path) if format == "auto" else format),)
    entries = [entry for entry in inside(path, path.rglob("*")) if entry.is_file()]
    known = [entry for entry in entries if entry.suffix.lower() in SUFFIXES]
    suffixes = {entry.suffix.lower() for entry in known}
    if format == "auto" and suffixes <= {".txt", ".ann"}:
        format = "brat" if ".ann" in suffixes else "text"
    if suffixes & {"brat": {".txt", ".ann"}, "text": {".txt"}}.get(format, set()):
        return ((path, format),)
    if not known:
        raise DataError(f"{path}: holds no file of a known format ({', '.join(SUFFIXES)}){listed(entries)}")
    files = [(entry, detect_format(entry) if format == "auto" else format) for entry in known]
    kinds = sorted({name for _, name in files})
    if len(kinds) > 1:
        raise DataError(f"{path}: holds several formats ({', '.join(kinds)}); give one file or a folder of one format")
    return tuple(files)


def listed(entries: Iterable[Path]) -> str:
    """Name what there is, for the end of an error message."""
    names = sorted(entry.name for entry in entries)
    more = " ..." if len(names) > 20 else ""
    return f"; there is {', '.join(names[:20])}{more}" if names else "; the folder is empty"
