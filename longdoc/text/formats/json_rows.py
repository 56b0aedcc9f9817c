"""JSON Lines and JSON arrays, in the shape of our own files and of doccano's exports.

A row is an object: ``{"id", "text", "entities": [{"start", "end", "label"}], "label": str, "labels": [str], "target"}``
with what there is of these. Spans may also be ``[start, end, label]`` lists, stand under ``spans``, ``label`` or
``annotations``, and name their ends ``start_offset`` and ``end_offset``, as in doccano's exports and in
Label Studio's short JSON.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from longdoc.text.formats.base import RawRow, ReadOptions, character_problem, numbered_lines
from longdoc.text.formats.offsets import RawSpan

_CHUNK_CHARS = 1 << 20
_NEAR_END_CHARS = 16
_BETWEEN = re.compile(r"[ \t\r\n,\]]*")
_SPAN_FIELDS = ("entities", "spans", "label", "labels", "annotations")
_LABEL_FIELDS = ("labels", "label", "cats", "annotations")


def rows_jsonl(path: Path, options: ReadOptions) -> Iterator[RawRow]:
    """Read one object a line; blank lines are passed over."""
    return rows_of_lines(numbered_lines(path), options)


def rows_of_lines(lines: Iterable[tuple[int, str]], options: ReadOptions) -> Iterator[RawRow]:
    """The same for numbered lines."""
    for number, line in lines:
        if not line.strip():
            continue
        try:
            value = json.loads(line.rstrip("\r\n"))
        except (ValueError, RecursionError) as error:
            yield RawRow(number, problems=[(number, character_problem(line) or broken_json(error))])
        else:
            yield object_row(value, number, options)


def rows_doccano(path: Path, options: ReadOptions) -> Iterator[RawRow]:
    """Read one object a line; offsets count UTF-16 units, as doccano's do, unless the options name a unit."""
    for row in rows_jsonl(path, options):
        row.offset_unit = "utf16" if options.offset_unit == "auto" else None
        yield row


def rows_json(path: Path, options: ReadOptions) -> Iterator[RawRow]:
    """Read an array of objects, or objects one after the other, without holding the whole file."""
    return rows_of_values(path, lambda value, line: object_row(value, line, options))


def rows_of_values(path: Path, make_row: Callable[[object, int], RawRow]) -> Iterator[RawRow]:
    """Yield a row for each element of a JSON array (or of a sequence of values) as it is parsed.

    What follows a syntax error cannot be told apart, so the error is the last row.
    """
    decoder = json.JSONDecoder()
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        buffer, position, line, wanted = file.read(_CHUNK_CHARS), 0, 1, _CHUNK_CHARS
        at_end = len(buffer) < wanted
        in_array = closed = False
        first = True
        while True:
            start = _BETWEEN.match(buffer, position).end()  # type: ignore[union-attr]
            between = buffer[position:start]
            line += between.count("\n")
            closed |= "]" in between
            position = start
            if position == len(buffer):
                if at_end:
                    break
                buffer, position = file.read(_CHUNK_CHARS), 0
                at_end = not buffer
                continue
            if first and buffer[position] == "[":
                in_array, first, position = True, False, position + 1
                continue
            first = False
            try:
                value, end = decoder.raw_decode(buffer, position)
            except (ValueError, RecursionError) as error:
                if at_end or not _is_incomplete(error, buffer):
                    reason = character_problem(buffer[position:]) or broken_json(error)
                    line += buffer.count("\n", position, getattr(error, "pos", position))
                    yield RawRow(line, problems=[(line, f"{reason}; nothing after it could be read")])
                    return
                end = len(buffer)
            if end == len(buffer) and not at_end:
                buffer, position = buffer[position:] + file.read(wanted), 0
                at_end, wanted = len(buffer) < wanted, 2 * wanted
                continue
            yield make_row(value, line)
            line += buffer.count("\n", position, end)
            position, wanted = end, _CHUNK_CHARS
        if in_array and not closed:
            yield RawRow(line, problems=[(line, "the array never closes: the file seems to be cut off")])


def _is_incomplete(error: Exception, buffer: str) -> bool:
    """Whether a syntax error may be due to the end of what was read so far."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated string") or error.pos >= len(buffer) - _NEAR_END_CHARS


def broken_json(error: Exception) -> str:
    """The reason to report for a value that does not parse."""
    if isinstance(error, json.JSONDecodeError):
        return f"broken JSON: {error.msg} at column {error.colno}"
    return f"broken JSON: {'nested too deeply' if isinstance(error, RecursionError) else error}"


def object_row(value: object, line: int, options: ReadOptions) -> RawRow:
    """Read one object into a raw row."""
    if not isinstance(value, dict):
        return RawRow(line, problems=[(line, f"expected an object, got {type(value).__name__}")])
    row = RawRow(line, _first(value, options.names("id", "id")), _first(value, options.names("text", "text", "data")))
    row.target = _first(value, options.names("target", "target"))
    for name in options.names("spans", *_SPAN_FIELDS):
        found = value.get(name)
        if found is None or not _holds_spans(found, name, options):
            continue
        take_spans(row, found, options, is_doccano=name in ("label", "labels"))
        break
    for name in options.names("labels", *_LABEL_FIELDS):
        found = value.get(name)
        if found is not None and ("labels" in options.fields or not _holds_spans(found, name, options)):
            row.labels = [_class_label(item) for item in (found if isinstance(found, list) else [found])]
            break
    return row


def take_spans(row: RawRow, found: object, options: ReadOptions, *, is_doccano: bool = False) -> None:
    """Give a row the spans of a field, a list or one alone; what is no span is a problem of the row."""
    row.spans = []
    for item in found if isinstance(found, list) else [found]:
        spans = raw_spans(item)
        row.spans += spans
        if options.offset_unit == "auto" and (is_doccano or (isinstance(item, dict) and "start_offset" in item)):
            row.offset_unit = "unsure"
        if not spans:
            row.problems.append((row.line, f"expected a span with start, end and label, got {item!r:.80}"))


def _first(value: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((value[name] for name in names if value.get(name) is not None), None)


def _holds_spans(found: object, name: str, options: ReadOptions) -> bool:
    """Whether a field holds spans and not class labels; an empty list does by its name, or as the task wants."""
    if "spans" in options.fields or name in ("entities", "spans"):
        return True
    if name == "labels" or not isinstance(found, list):
        return isinstance(found, list) and any(map(raw_spans, found))
    return any(map(raw_spans, found)) if found else options.task != "classification" and name != "cats"


def _class_label(item: object) -> object:
    """The label in doccano's older ``{"label": ..., "user": ...}``; anything else stays as it is."""
    return item["label"] if isinstance(item, dict) and "label" in item else item


def raw_spans(item: object) -> list[RawSpan]:
    """Read what stands for a span; several labels give several spans, something that is no span gives none."""
    if isinstance(item, list):
        return [RawSpan(*item[:3])] if len(item) >= 3 else []
    if not isinstance(item, dict):
        return []
    start, end = (_first(item, (name, f"{name}_offset")) for name in ("start", "end"))
    if start is None and end is None:
        return []
    labels = item.get("labels", item.get("label"))
    return [
        RawSpan(start, end, label, item.get("score"), item.get("slice"), item.get("text"))
        for label in (labels if isinstance(labels, list) and labels else [labels])
    ]
