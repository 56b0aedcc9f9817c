"""What all readers share: raw rows, the checks that turn a row into a document, and the report of what was not usable.

A reader of one format yields :class:`RawRow` objects, one a document, as they stand in the file. :func:`check_rows`
holds all of them to the same rules, so that a fault is named the same way in every format.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from longdoc.errors import ConfigError, DataError, check_choice
from longdoc.text.documents import Document, Span, span_problem
from longdoc.text.formats.offsets import RawSpan, convert_offsets

Problem = tuple[int, str]
Place = tuple[Path, int]
FIELDS = ("id", "text", "spans", "labels", "target")
# Task -> the field that its gold stands in, and what that is called.
_GOLD = {"ner": ("spans", "entities"), "classification": ("labels", "label"), "regression": ("target", "target")}
SHOWN_REASONS = 3
_SURROGATE = re.compile("[\ud800-\udfff]")
_VISIBLE = re.compile(r"\S")


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used; ``line`` is its first, counted from 1, but in CoNLL that of the fault."""

    file: str
    line: int
    reason: str
    id: str | None = None

    def __str__(self) -> str:
        where = "" if self.id is None else f" (document {self.id!r:.80})"
        return f"{self.file}:{self.line}: {self.reason}{where}"


class Repair(BadRow):
    """A row that is used after a repair, such as offsets converted from UTF-16 units."""


@dataclass(slots=True)
class RawRow:
    """One document as it stands in a file, before any check.

    Args:
        line: Line to report, counted from 1.
        id: Anything; None gives the name of the file and the number of the row in it, as in ``train:17``; the
            path below the folder where two files have one name.
        text: Anything; must turn out to be a string.
        spans: Raw spans; None where the row has none.
        labels: Raw class labels; None where the row has none.
        target: Raw number; None where the row has none.
        problems: Lines and reasons found while parsing; any of them makes the row bad.
        repairs: Lines and reasons of what was repaired while parsing.
        offset_unit: Overrides the unit given by the user where the reader knows it.
        file: Where the row stands, if not in the file that was asked for.
    """

    line: int
    id: object = None
    text: object = None
    spans: list[RawSpan] | None = None
    labels: list[object] | None = None
    target: object = None
    problems: list[Problem] = field(default_factory=list)
    repairs: list[Problem] = field(default_factory=list)
    offset_unit: str | None = None
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How rows are to be understood.

    Args:
        fields: Our field name (id, text, spans, labels, target) -> the file's name for it; column numbers in CoNLL.
        task: ``ner``, ``classification`` or ``regression``: rows without gold of that kind are bad. None takes
            all rows.
        tag_scheme: ``auto``, ``iob1``, ``iob2``, ``bioes`` or ``bilou``; CoNLL only.
        offset_unit: ``auto`` (code points, unless the exported surfaces prove another unit), ``codepoint`` or
            ``utf16``.
        label_separator: Stands between the labels of one row in CSV and TSV.
    """

    fields: Mapping[str, str | int] = field(default_factory=dict)
    task: str | None = None
    tag_scheme: str = "auto"
    offset_unit: str = "auto"
    label_separator: str = "|"

    def __post_init__(self) -> None:
        unknown = sorted(set(self.fields) - set(FIELDS))
        if unknown:
            raise ConfigError(f"fields: expected names among {', '.join(FIELDS)}, got {', '.join(unknown)}")
        check_choice("task", self.task, (None, *_GOLD))
        check_choice("tag_scheme", self.tag_scheme, ("auto", "iob1", "iob2", "bioes", "bilou"))
        check_choice("offset_unit", self.offset_unit, ("auto", "codepoint", "utf16"))
        if not self.label_separator:
            raise ConfigError("label_separator: expected at least one character, got an empty string")

    def names(self, name: str, *defaults: str) -> tuple[str, ...]:
        """Names under which a field may stand in a row: the one the user gave, or else the usual ones that are free."""
        if name in self.fields:
            return (str(self.fields[name]),)
        taken = {self.fields.get(gold) for gold in ("spans", "labels", "target")}
        return tuple(usual for usual in defaults if usual not in taken)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, line ends kept.

    Lines end at a line feed only, never at U+2028 and the like. A byte order mark is dropped. Bytes that are not UTF-8
    come as lone surrogates, which :func:`character_problem` then names on the row that holds them.
    """
    with path.open("rb") as file:
        yield from decoded_lines(file, path)


def decoded_lines(file: Iterable[bytes], path: Path) -> Iterator[tuple[int, str]]:
    """Number and decode lines that are read already, as :func:`numbered_lines` does; ``path`` is for messages."""
    for number, line in enumerate(file, 1):
        if number == 1:
            if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise DataError(f"{path}: expected UTF-8, got UTF-16; save the file as UTF-8")
            line = line.removeprefix(b"\xef\xbb\xbf")
        yield number, line.decode("utf-8", errors="surrogateescape")


def character_problem(text: str) -> str | None:
    """Say which character of a string cannot be used, or None if all can."""
    if "\0" in text:
        return f"NUL character at {text.index(chr(0))}"
    if not text.isascii() and (found := _SURROGATE.search(text)):
        code = ord(found[0])
        if 0xDC80 <= code <= 0xDCFF:
            return f"not UTF-8 (byte 0x{code - 0xDC00:02x} at character {found.start()})"
        return f"lone surrogate U+{code:04X} at character {found.start()}"
    return None


def inside(folder: Path, entries: Iterable[Path]) -> list[Path]:
    """Sort the entries of a folder, without the hidden ones, and refuse those that lead out of it, as links may."""
    root = folder.resolve()
    found = sorted(e for e in entries if not any(part.startswith(".") for part in e.relative_to(folder).parts))
    for entry in found:
        if not entry.resolve().is_relative_to(root):
            raise DataError(f"{entry}: leads out of its folder {folder}; give the file itself or a copy")
    return found


def check_rows(
    rows: Iterable[RawRow], path: Path, name: str, options: ReadOptions, seen: set[str]
) -> Iterator[tuple[Place, Document | BadRow]]:
    """Turn raw rows into documents, bad rows and repairs, each with its file and line.

    Rows without an id get ``name`` and their number. ``seen`` collects the ids and refuses the second of each.
    """
    for number, row in enumerate(rows, 1):
        file = row.file or path
        document, problems = _check_row(row, f"{name}:{number}", options)
        if not problems and document.id in seen:
            problems = [(row.line, f"duplicate id {document.id!r:.80}")]
        reasons: dict[int, list[str]] = {}
        for line, reason in problems:
            reasons.setdefault(line, []).append(reason)
        for line, found in reasons.items():
            more = [f"and {len(found) - SHOWN_REASONS} more faults"] if len(found) > SHOWN_REASONS else []
            yield (file, line), BadRow(str(file), line, "; ".join(found[:SHOWN_REASONS] + more), document.id)
        if not problems:
            seen.add(document.id)
            for line, reason in row.repairs:
                yield (file, line), Repair(str(file), line, reason, document.id)
            yield (file, row.line), document


def _check_row(row: RawRow, default_id: str, options: ReadOptions) -> tuple[Document, list[Problem]]:
    """Turn one raw row into a document, with the reasons that forbid its use; repairs are added to the row."""
    identifier = str(row.id) if type(row.id) in (str, int) and row.id != "" else default_id
    problem = None if row.id is None else _name_problem(row.id, "id", "a string or an integer")
    problems = row.problems + ([(row.line, problem)] if problem else [])
    text = row.text
    if row.problems:
        return Document(identifier, ""), problems
    if not isinstance(text, str):
        problem = "no text" if text is None else f"text must be a string, got {type(text).__name__}"
        return Document(identifier, ""), [*problems, (row.line, problem)]
    if problem := character_problem(text):
        return Document(identifier, ""), [*problems, (row.line, f"text: {problem}")]
    spans, found = _checked_spans(row, text, options)
    problems += [(row.line if line is None else line, reason) for line, reason in found]
    reasons = [problem for label in row.labels or () if (problem := _name_problem(label, "label", "a string"))]
    target = row.target
    if target is not None and (type(target) not in (int, float) or not abs(target) <= sys.float_info.max):  # type: ignore[arg-type]
        reasons.append(f"target must be a finite number, got {target!r:.80}")
        target = None
    if options.task is not None:
        wanted, name = _GOLD[options.task]
        reasons += [f"no {name} (task {options.task})"] if getattr(row, wanted) is None else []
    if not text.strip() and (options.task is not None or row.spans or row.labels or target is not None):
        problems, reasons = [(line, reason) for line, reason in problems if line != row.line], ["empty text"]
    problems += [(row.line, reason) for reason in reasons]
    if problems:
        return Document(identifier, ""), problems
    labels = None if row.labels is None else tuple(dict.fromkeys(map(str, row.labels)))
    return Document(identifier, text, spans, labels, None if target is None else float(target)), []  # type: ignore[arg-type]


def _name_problem(value: object, what: str, expected: str) -> str | None:
    if type(value) not in (str, int) or value == "":
        return f"{what} must be {expected}, got {value!r:.80}"
    problem = character_problem(str(value))
    return problem and f"{what}: {problem}"


def _checked_spans(
    row: RawRow, text: str, options: ReadOptions
) -> tuple[tuple[Span, ...] | None, list[tuple[int | None, str]]]:
    if row.spans is None:
        return None, []
    raw, repair, problems = convert_offsets(text, row.spans, row.offset_unit or options.offset_unit)
    if repair:
        row.repairs.append((row.line, repair))
    spans: dict[Span, None] = {}
    for start, end, label, score, part, _, line in raw:
        problem = span_problem(text, start, end) or _name_problem(label, "label", "a string")
        if problem is None and not _VISIBLE.search(text, start, end):  # type: ignore[call-overload]
            problem = f"span {start}-{end} covers only white space"
        if problem is None and score is not None and (type(score) not in (int, float) or not 0 <= score <= 1):  # type: ignore[operator]
            problem = f"score of span {start}-{end} must be within 0 and 1, got {score!r:.80}"
        if problem is None and not (part is None or (isinstance(part, str) and character_problem(part) is None)):
            problem = f"slice of span {start}-{end} must be a string that can be used, got {part!r:.80}"
        if problem is None:
            span = Span(start, end, str(label), None if score is None else float(score), part)  # type: ignore[arg-type]
            problem = f"span {start}-{end} {label} stands there twice" if span in spans else None
            spans[span] = None
        if problem:
            problems.append((line, problem))
    return tuple(spans), problems
