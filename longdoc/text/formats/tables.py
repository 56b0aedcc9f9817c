"""CSV and TSV with a header: a text, its label or labels, an id, a number."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from longdoc.errors import DataError
from longdoc.text.formats.base import RawRow, ReadOptions, numbered_lines
from longdoc.text.formats.json_rows import raw_spans

_LARGEST_CELL = 2**31 - 1
_COLUMNS = {
    "id": ("id",),
    "text": ("text",),
    "spans": ("entities", "spans"),
    "labels": ("labels", "label"),
    "target": ("target",),
}


def rows_csv(path: Path, options: ReadOptions) -> Iterator[RawRow]:
    """Read comma-separated rows; cells may be quoted and hold line ends."""
    return _rows(path, options, ",")


def rows_tsv(path: Path, options: ReadOptions) -> Iterator[RawRow]:
    """Read tab-separated rows; cells may be quoted and hold line ends."""
    return _rows(path, options, "\t")


def _rows(path: Path, options: ReadOptions, delimiter: str) -> Iterator[RawRow]:
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
        raise DataError(f"{path}: no column {wanted}; there is {', '.join(header)[:200]}; name it in fields")
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
    if found["labels"] is not None and columns["labels"] is not None:
        if header[columns["labels"]] == "label":
            row.labels = [found["labels"]] if found["labels"] else None
        else:
            row.labels = [label.strip() for label in found["labels"].split(options.label_separator) if label.strip()]
    if found["target"]:
        try:
            row.target = float(found["target"])
        except ValueError:
            row.target = found["target"]
    if found["spans"]:
        try:
            items = json.loads(found["spans"])
            row.spans = [span for item in items for span in raw_spans(item)]
        except (ValueError, TypeError, RecursionError) as error:
            row.problems.append((line, f"{header[columns['spans'] or 0]} must be a JSON list of spans: {error}"))
    return row
