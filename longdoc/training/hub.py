"""Corpora of the ``datasets`` library, by hub name or as a folder that it saved."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, DatasetDict, List, load_dataset, load_from_disk

from longdoc.errors import DataError
from longdoc.text.formats import DocumentSource, ReadOptions, read, read_splits
from longdoc.text.formats.base import RawRow
from longdoc.text.formats.conll import detect_scheme, row_of_tokens
from longdoc.text.formats.json_rows import object_row
from longdoc.text.formats.splits import SPLIT_NAMES, complete_splits, named_parts

log = logging.getLogger(__name__)

_TOKEN_FIELDS = ("tokens", "words")
_TAG_FIELDS = ("ner_tags", "tags", "labels")
_SURVEYED_ROWS = 1000


@dataclass
class TableSource(DocumentSource):
    """Rows of a ``datasets`` table, held to the same checks as rows of files; a row is a document.

    Args:
        table: With ``tokens`` and ``ner_tags``, or ``text`` and ``entities``, ``label`` or ``labels``; ``fields``
            renames them.
    """

    table: Any = None

    def raw_rows(self) -> Iterator[tuple[Path, Iterator[RawRow]]]:
        """Yield the table with its rows."""
        yield self.files[0][0], self._rows()

    @property
    def key(self) -> str:
        """Names the content of the table."""
        return str(self.table._fingerprint)

    def _rows(self) -> Iterator[RawRow]:
        features, columns = self.table.features, self.table.column_names
        tokens = _present(columns, self.options.names("text", *_TOKEN_FIELDS))
        tags = _present(columns, self.options.names("spans", *_TAG_FIELDS))
        if tokens is None or tags is None or not all(isinstance(features[name], List) for name in (tokens, tags)):
            for number, row in enumerate(self.table, 1):
                yield object_row(_named(row, features), number, self.options)
            return
        (identifier,) = self.options.names("id", "id")
        scheme = self.options.tag_scheme
        if scheme == "auto":
            surveyed = [_named(row[tags], features[tags]) or [] for row in islice(self.table, _SURVEYED_ROWS)]
            opens = [i == 0 for row in surveyed for i in range(len(row))]
            scheme = detect_scheme(list(chain.from_iterable(surveyed)), opens)
        for number, row in enumerate(self.table, 1):
            found = {column: _named(row[column], features[column]) for column in (tokens, tags)}
            yield row_of_tokens(number, row.get(identifier), found, scheme)


def open_parts(path: str, format: str, on_error: str, options: ReadOptions) -> dict[str, DocumentSource]:
    """Open the parts that a corpus names, or ``{"all": ...}`` where it names none; all is as in ``read_splits``."""
    if format == "datasets" or is_saved_dataset(path):
        return hub_splits(path, options, on_error)
    if Path(path).is_dir() and named_parts(Path(path), format):
        return read_splits(path, format, on_error, options)
    return {"all": read(path, format, on_error, options)}


def hub_splits(name: str, options: ReadOptions, on_error: str = "raise", seed: int = 0) -> dict[str, DocumentSource]:
    """Open a corpus of the ``datasets`` library as ``{"train": ..., "dev": ..., "test": ...}``.

    Args:
        name: Hub name, or a folder written by ``save_to_disk``.
        options: How rows are understood.
        on_error: ``raise`` or ``skip`` bad rows.
        seed: Of the hash that sets a missing dev split apart.
    """
    try:
        loaded = load_from_disk(name) if Path(name).is_dir() else load_dataset(name)
    except Exception as error:
        raise DataError(
            f"data.path={name!r}: expected a folder written by datasets' save_to_disk or a corpus on the hub ({error})"
        ) from error
    tables: dict[str, Dataset] = dict(loaded) if isinstance(loaded, DatasetDict) else {"train": loaded}
    found: dict[str, DocumentSource] = {}
    unread = set(tables)
    for split, spellings in SPLIT_NAMES.items():
        spelling = next((spelling for spelling in spellings if spelling in tables), None)
        if spelling is not None:
            files = ((Path(f"{name}/{split}"), "datasets"),)
            found[split] = TableSource(files, options, on_error, table=tables[spelling])
            unread.remove(spelling)
    if "train" not in found:
        raise DataError(f"data.path={name!r}: expected a split named train, got {', '.join(tables)}")
    if unread:
        log.warning("%s: splits that are not read: %s", name, ", ".join(sorted(unread)))
    return complete_splits(found, name, seed)


def is_saved_dataset(path: str | Path) -> bool:
    """Whether a folder was written by ``save_to_disk``."""
    return any((Path(path) / name).is_file() for name in ("dataset_dict.json", "dataset_info.json"))


def _present(columns: list[str], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in columns), None)


def _named(value: Any, feature: Any) -> Any:
    """Replace the numbers of class labels by their names, and -1, which stands for no label, by None."""
    if isinstance(feature, ClassLabel):
        return feature.names[value] if value in range(feature.num_classes) else None
    if isinstance(feature, List) and value is not None:
        return [_named(item, feature.feature) for item in value]
    if isinstance(feature, dict) and value is not None:
        return {name: _named(value[name], feature[name]) for name in value}
    return value
