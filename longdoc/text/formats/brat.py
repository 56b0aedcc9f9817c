"""Folders: brat's standoff pairs of ``.txt`` and ``.ann``, and plain texts without gold."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import unquote

from longdoc.text.formats.base import RawRow, ReadOptions, character_problem, inside, numbered_lines
from longdoc.text.formats.offsets import RawSpan

_OTHER_LINES = "REAMN*#"
_OFFSETS = re.compile(r"(\d{1,18}) (\d{1,18})")


def rows_text(path: Path, options: ReadOptions) -> Iterator[RawRow]:  # noqa: ARG001
    """Read a text file, or all ``.txt`` files of a folder, as documents without gold."""
    for file, name in _named(path, ".txt"):
        yield _text_row(file, name)


def rows_brat(path: Path, options: ReadOptions) -> Iterator[RawRow]:  # noqa: ARG001
    """Read the pairs of a folder, or one pair. Spans in pieces are reported; relations and events are not read.

    A text without ``.ann`` has no gold; an empty ``.ann`` says that there is none to find.
    """
    for file, name in _named(path, ".txt", ".ann"):
        is_text = file.suffix.lower() != ".ann"
        text, annotations = (file, beside(file, ".ann")) if is_text else (beside(file, ".txt"), file)
        if text is None:
            yield RawRow(1, unquote(name), problems=[(1, f"no {file.stem}.txt beside it")], file=file)
        elif is_text or not path.is_dir():
            row = _text_row(text, unquote(name))
            if annotations is not None:
                inside(annotations.parent, [annotations])
                _take_annotations(row, annotations)
            yield row


def beside(file: Path, suffix: str) -> Path | None:
    """The file of the same name with another suffix, in small or capital letters, if there is one."""
    spellings = map("".join, product(*zip(suffix, suffix.upper(), strict=True)))
    return next((other for spelling in spellings if (other := file.with_suffix(spelling)).exists()), None)


def _named(path: Path, *suffixes: str) -> Iterator[tuple[Path, str]]:
    """A file, or those of a folder with such suffixes, each with its path below the folder and without the suffix."""
    if not path.is_dir():
        yield path, path.stem
        return
    for file in inside(path, path.rglob("*")):
        if file.suffix.lower() in suffixes and file.is_file():
            yield file, file.relative_to(path).with_suffix("").as_posix()


def _text_row(file: Path, name: str) -> RawRow:
    text = file.read_bytes().removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="surrogateescape")
    row = RawRow(1, name, text, file=file)
    if character_problem(text):
        lines = numbered_lines(file)
        row.problems = [(number, problem) for number, line in lines if (problem := character_problem(line))]
    return row


def _take_annotations(row: RawRow, file: Path) -> None:
    row.spans = []
    problems: list[tuple[int, str]] = []
    for number, line in numbered_lines(file):
        line = line.rstrip("\r\n")
        parts = line.split("\t", 2)
        problem = character_problem(line)
        if problem:
            problems.append((number, problem))
        elif line.startswith("T"):
            label, _, place = parts[1].partition(" ") if len(parts) > 1 else ("", "", "")
            offsets = _OFFSETS.fullmatch(place)
            if offsets:
                start, end, surface = int(offsets[1]), int(offsets[2]), parts[2] if len(parts) > 2 else None
                row.spans.append(RawSpan(start, end, unquote(label), surface=surface, line=number))
            else:
                what = "a span in pieces cannot be used" if ";" in place else "expected T1<tab>LABEL START END<tab>TEXT"
                problems.append((number, f"{what}: {line!r:.80}"))
        elif line.strip() and line[0] not in _OTHER_LINES:
            problems.append((number, f"not a line of brat's format: {line!r:.80}"))
    if not row.problems:
        row.file, row.problems = file, problems
