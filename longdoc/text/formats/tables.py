"""CSV and TSV with a header: a text, its label or labels, an id, a number."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from longdoc.errors import DataError
from longdoc.text.formats.base import RawRow, ReadOptions, numbered_lines
from longdoc.text.formats.json_rows import take_spans

_LARGEST_CELL = 2**31 - 1
_COLUMNS = {
    "id": ("id",),
    "text": ("text",),
    "spans": ("entities", "spans"),
    "labels": ("labels", "label"),
    "target": ("target",),
}


def rows_table(path: Path, options: ReadOptions, delimiter: str) -> Iterator[RawRow]:
    """Read rows of cells, which may be quoted and hold line ends."""
    csv.field_size_limit(_LARGEST_CELL)
    reader = csv.reader((line for _, line in numbered_lines(path)), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
    except csv.Error as error:
        raise DataError(f"{path}:1: expected a header line: {error}") from None
    columns = {
        name: next((header.index(known) for known in options.names(name, *known_as) if known in header), None)
        for name, known_as in _COLUMNS.items()
    }
    absent = [name for name in {"text", *options.fields} if columns[name] is None]
    if absent:
        wanted = ", ".join(options.names(name, *_COLUMNS[name])[0] for name in sorted(absent))
        raise DataError(
            f"{path}: no column {wanted}; there is {', '.join(header)[:200]}; name it with "
            f"data.fields.{min(absent)}=COLUMN, or --field {min(absent)}=COLUMN"
        )
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            until = f" (up to line {reader.line_num})" if reader.line_num > line else ""
            yield RawRow(line, problems=[(line, f"broken row{until}: {error}")])
            continue
        if cells is None:
            return
        if len(cells) == len(header):
            yield _row(cells, columns, header, line, options)
        elif cells:
            yield RawRow(line, problems=[(line, f"expected {len(header)} cells, got {len(cells)}")])


def _row(
    cells: list[str], columns: dict[str, int | None], header: list[str], line: int, options: ReadOptions
) -> RawRow:
    found = {name: None if column is None else cells[column] for name, column in columns.items()}
    row = RawRow(line, found["id"], found["text"])
    labels, target = found["labels"], found["target"]
    if labels is not None and header[columns["labels"] or 0] == "label":
        row.labels = [labels] if labels else None
    elif labels is not None:
        row.labels = [label.strip() for label in labels.split(options.label_separator) if label.strip()]
    if target:
        try:
            row.target = float(target)
        except ValueError:
            row.target = target
    if found["spans"]:
        try:
            take_spans(row, json.loads(found["spans"]), options)
        except (ValueError, RecursionError) as error:
            row.problems.append((line, f"{header[columns['spans'] or 0]} must be a JSON list of spans: {error}"))
    return row
