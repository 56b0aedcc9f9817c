"""CoNLL columns: one token a line, the tag last, a blank line after each sentence, ``-DOCSTART-`` before each document.

The text is the tokens of a sentence joined by one space and the sentences joined by a line feed, unless the file holds
the text itself in the comment ``# text = "..."`` (a JSON string) that :mod:`longdoc.text.formats.writers` puts directly
behind ``-DOCSTART-``. Other comments, such as those of single sentences, are passed over.
A file without ``-DOCSTART-`` is one document.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from longdoc.errors import ConfigError, DataError
from longdoc.text.documents import Document, Span
from longdoc.text.formats.base import RawRow, ReadOptions, character_problem, numbered_lines
from longdoc.text.formats.offsets import RawSpan
from longdoc.text.words import split_words

DOCUMENT_START = "-DOCSTART-"
PREFIXES = {"iob1": "BI", "iob2": "BI", "bioes": "BIES", "bilou": "BILU"}
_BLANK = " \t\r\n"
_BLANKS = re.compile(r"\s+")
_COMMENT = re.compile(r"# (?:new(?:doc|par)\b|([\w.]+) = ?(.*))")
_COLUMN_GAP = re.compile(r"[ \t]+")
_TAG = re.compile(r"(?:O|([BIESLU])-(.+))", re.DOTALL)
_ANYTHING = re.compile(".*", re.DOTALL)
_SURVEYED_LINES = 500_000


@dataclass
class _Layout:
    """What the lines of one file have in common; ``num_columns`` is 0 for a file without tokens."""

    token_column: int
    tag_column: int
    separator: str = ""
    num_columns: int = 0
    scheme: str = "iob2"

    def columns(self, line: str) -> list[str]:
        return line.rstrip("\r\n").split("\t") if self.separator == "\t" else _COLUMN_GAP.split(line.strip(_BLANK))


class _Token(NamedTuple):
    text: str
    tag: str
    line: int
    opens: bool  # a sentence


def rows_conll(path: Path, options: ReadOptions) -> Iterator[RawRow]:
    """Read the documents of a CoNLL file; every faulty line of a document is reported and forbids its use."""
    layout = _survey(path, options)
    row, opens, started, in_head = RawRow(1), True, False, False
    tokens: list[_Token] = []
    for number, line in numbered_lines(path):
        if not line.strip(_BLANK):
            opens, in_head = True, False
        elif line.startswith(DOCUMENT_START):
            if started:
                yield _finished(row, tokens, layout.scheme)
            row, tokens, opens, started, in_head = RawRow(number), [], True, True, True
        elif opens and (comment := _COMMENT.match(line)):
            if in_head and comment[1]:
                _take_comment(row, comment[1], comment[2], number)
        else:
            if not started:
                row.line, started = number, True
            found = layout.columns(line)
            if problem := _line_problem(line, found, layout):
                row.problems.append((number, problem))
            else:
                tokens.append(_Token(found[layout.token_column], found[layout.tag_column], number, opens))
            opens = in_head = False
    if started:
        yield _finished(row, tokens, layout.scheme)


def decode_tags(tags: list[str], opens: list[bool], scheme: str) -> tuple[list[tuple[int, int, str]], list[int]]:
    """Turn tags into chunks as conlleval does, whatever their scheme.

    Args:
        tags: ``O`` or ``PREFIX-LABEL``, already held to be of that form.
        opens: Whether a token opens a sentence; no chunk goes on from one sentence to the next.
        scheme: Says only what counts as ill-formed.

    Returns:
        Chunks as (first token, one past the last token, label), and the tokens whose tags the scheme forbids there.
    """
    chunks: list[tuple[int, int, str]] = []
    ill_formed: list[int] = []
    needs_end = scheme in ("bioes", "bilou")
    first, label = 0, None

    def close(end: int, *, complete: bool) -> None:
        if label is not None:
            chunks.append((first, end, label))
            if needs_end and not complete:
                ill_formed.append(end - 1)

    for i, tag in enumerate(tags):
        prefix, name = (tag[0], tag[2:]) if tag != "O" else ("O", None)
        goes_on = prefix in "IEL" and name == label and not opens[i]
        if not goes_on:
            close(i, complete=False)
            first, label = i, name
            if prefix in "IEL" and scheme != "iob1":
                ill_formed.append(i)
        if prefix in "ELSU":
            close(i + 1, complete=True)
            label = None
    close(len(tags), complete=False)
    return chunks, sorted(set(ill_formed))


def detect_scheme(tags: Sequence[object], opens: Sequence[bool]) -> str:
    """Name the scheme that tags follow: by prefix, and IOB1 if some chunk opens with I and none needlessly with B.

    What is no tag counts as ``O``.
    """
    known = [tag if isinstance(tag, str) and _TAG.fullmatch(tag) else "O" for tag in tags]
    prefixes = {tag[0] for tag in known}
    if prefixes & set("LU"):
        return "bilou"
    if prefixes & set("ES"):
        return "bioes"
    opened_by_i = False
    for before, tag, new in zip(["O", *known], known, opens, strict=False):
        follows = not new and before[2:] == tag[2:]
        if tag[0] == "B" and not follows:
            return "iob2"
        opened_by_i |= tag[0] == "I" and not follows
    return "iob1" if opened_by_i else "iob2"


def looks_like_conll(lines: list[str]) -> bool:
    """Whether lines are columns with a tag in the last one."""
    rows = [_COLUMN_GAP.split(line.strip(_BLANK)) for line in lines if line.strip(_BLANK)]
    rows = [row for row in rows if row[0] not in (DOCUMENT_START, "#")]
    return bool(rows) and all(len(row) >= 2 and _TAG.fullmatch(row[-1]) for row in rows)


def _survey(path: Path, options: ReadOptions) -> _Layout:
    """Find separator, number of columns and scheme in the first half million lines."""
    columns = [str(options.fields.get("text", 0)), str(options.fields.get("spans", -1))]
    if not all(re.fullmatch(r"-?\d+", column) for column in columns):
        raise ConfigError(f"fields: text and spans are column numbers in CoNLL (from 0), got {columns}")
    layout = _Layout(int(columns[0]), int(columns[1]))
    tags: list[str] = []
    opens: list[bool] = []
    new = True
    for _, line in islice(numbered_lines(path), _SURVEYED_LINES):
        if not line.strip(_BLANK) or line.startswith(DOCUMENT_START) or (new and _COMMENT.match(line)):
            new = True
            continue
        if not layout.num_columns:
            layout.separator = "\t" if "\t" in line else " "
            layout.num_columns = len(layout.columns(line))
            token, tag = layout.token_column, layout.tag_column
            if max(2, token + 1, tag + 1, -token, -tag) > layout.num_columns:
                message = f"expected a token and a tag on each line, got {layout.num_columns} columns"
                raise DataError(f"{path}: {message}")
        tags += layout.columns(line)[layout.tag_column :][:1] or [""]
        opens.append(new)
        new = False
    layout.scheme = detect_scheme(tags, opens) if options.tag_scheme == "auto" else options.tag_scheme
    return layout


def _take_comment(row: RawRow, name: str, value: str, number: int) -> None:
    """Keep the id and the text that a comment gives."""
    value = value.strip(_BLANK)
    if not value.startswith('"') or name not in ("id", "text"):
        return
    try:
        setattr(row, name, json.loads(value))
    except ValueError as error:
        row.problems.append((number, f"# {name} is not a JSON string: {error}"))


def _line_problem(line: str, found: list[str], layout: _Layout) -> str | None:
    """Say why a line is no token, or None if it is one."""
    if problem := character_problem(line):
        return problem
    if len(found) != layout.num_columns:
        return f"expected {layout.num_columns} columns, got {len(found)}"
    tag = found[layout.tag_column]
    match = _TAG.fullmatch(tag)
    if match is None:
        return f"expected a tag such as O or B-LABEL, got {tag!r:.80}"
    is_known = not match[1] or match[1] in PREFIXES[layout.scheme]
    return None if is_known else f"tag {tag!r:.80} does not belong to {layout.scheme}"


def row_of_tokens(line: int, identifier: object, columns: Mapping[str, Any], scheme: str) -> RawRow:
    """Make the row of a document that is given as tokens and tags instead of as lines.

    Args:
        line: To report.
        identifier: Of the document, None if it has none.
        columns: The tokens, which are joined by one space each, and as many tags, each under the name of the column.
        scheme: Of the tags.
    """
    row, (tokens, tags) = RawRow(line, identifier), columns.values()
    wanted = (_ANYTHING, "strings"), (_TAG, "names such as B-PER, or a ClassLabel")
    for (column, values), (pattern, expected) in zip(columns.items(), wanted, strict=True):
        found = values if isinstance(values, list) else [values]
        bad = [value for value in found if not (isinstance(value, str) and pattern.fullmatch(value))]
        row.problems += [(line, f"{column}: expected {expected}, got {value!r:.60}") for value in bad[:1]]
    if not row.problems and len(tokens) != len(tags):
        row.problems.append((line, f"{len(tokens)} tokens but {len(tags)} tags"))
    pairs = () if row.problems else zip(tokens, tags, strict=True)
    return _finished(row, [_Token(token, tag, line, i == 0) for i, (token, tag) in enumerate(pairs)], scheme)


def _finished(row: RawRow, tokens: list[_Token], scheme: str) -> RawRow:
    """Put the text together, give the tokens their offsets and the chunks their spans."""
    row.offset_unit = "codepoint"
    if row.problems:
        return row
    if row.text is None:
        pieces = [("" if i == 0 else "\n" if token.opens else " ") + token.text for i, token in enumerate(tokens)]
        row.text, ends = "".join(pieces), list(accumulate(map(len, pieces)))
    else:
        ends = _ends_in_text(row, str(row.text), tokens)
        if row.problems:
            return row
    chunks, ill_formed = decode_tags([token.tag for token in tokens], [token.opens for token in tokens], scheme)
    if ill_formed:
        bad = tokens[ill_formed[0]]
        reason = f"{len(ill_formed)} tags are ill-formed in {scheme}, read as conlleval does; first {bad.tag}"
        row.repairs.append((bad.line, reason))
    row.spans = [RawSpan(ends[i] - len(tokens[i].text), ends[stop - 1], label) for i, stop, label in chunks]
    return row


def _ends_in_text(row: RawRow, text: str, tokens: list[_Token]) -> list[int]:
    """Find the tokens one after the other in the text that the file gives, with only white space between them."""
    ends: list[int] = []
    end = 0
    for token in tokens:
        start = text.find(token.text, end)
        if start < 0 or text[end:start].strip():
            told = f"token {token.text!r:.60} does not come next in the # text of its document"
            row.problems.append((token.line, told))
            return ends
        end = start + len(token.text)
        ends.append(end)
    if text[end:].strip():
        row.problems.append((row.line, "the # text of the document goes on after its last token"))
    return ends


def conll_lines(document: Document) -> Iterator[str]:
    """Yield the lines of one document: its start, its id and text as comments, then token, tab and IOB2 tag.

    Words are cut where a span begins or ends inside them. A blank line stands for a line feed in the text, but never
    inside a span.
    """
    text, spans = document.text, sorted(document.spans or (), key=lambda span: span.key)
    where = f"document {document.id!r:.80} cannot be written as CoNLL"
    if document.spans is None:
        raise DataError(f"{where}: it has no spans, and CoNLL cannot tell that from having found none")
    for before, after in pairwise(spans):
        if after.start < before.end:
            raise DataError(f"{where}: spans {before.key} and {after.key} overlap; write jsonl")
    yield f"{DOCUMENT_START}\tO"
    yield f"# id = {json.dumps(document.id, ensure_ascii=False)}"
    yield f"# text = {json.dumps(text, ensure_ascii=False)}"
    position, last = 0, None
    for start, end, span in _tokens(text, spans):
        new = text.find("\n", position, start) >= 0 and (span is None or span is not last)
        if new:
            yield ""
        tag = "O" if span is None else f"{'B' if start == span.start else 'I'}-{span.label}"
        token = text[start:end]
        if any(blank in token + tag for blank in "\t\r\n"):
            raise DataError(f"{where}: the edge or label of {span and span.key} holds a tab or line end")
        yield f"{token}\t{tag}"
        position, last = end, span


def _tokens(text: str, spans: list[Span]) -> list[tuple[int, int, Span | None]]:
    """Cut a text at the borders of words, blanks and spans; each visible character is in exactly one token.

    Blanks belong to no token, but for those on the inner edge of a span.
    """
    cuts = {0, len(text), *split_words(text).ravel().tolist()}
    cuts.update(border for blanks in _BLANKS.finditer(text) for border in blanks.span())
    cuts.update(border for span in spans for border in (span.start, span.end))
    pieces = [(start, end) for start, end in pairwise(sorted(cuts)) if not text[start].isspace()]
    tokens: list[tuple[int, int, Span | None]] = [(start, end, None) for start, end in pieces]
    for span in spans:
        first, stop = bisect_left(pieces, (span.start,)), bisect_left(pieces, (span.end,))
        for i in range(first, stop):
            start, end = pieces[i]
            tokens[i] = (span.start if i == first else start, span.end if i == stop - 1 else end, span)
    return tokens
