"""Corpora of the ``datasets`` library, by hub name or as a folder that it saved."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from datasets import ClassLabel, DatasetDict, List, load_dataset, load_from_disk

from longdoc.errors import DataError
from longdoc.text.formats import DocumentSource, ReadOptions
from longdoc.text.formats.base import RawRow
from longdoc.text.formats.conll import detect_scheme, row_of_tokens
from longdoc.text.formats.json_rows import object_row
from longdoc.text.formats.splits import SPLIT_NAMES, read_parts

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
    """Open the parts that a corpus names, or ``{"all": ...}`` where it names none; all is as in ``read_parts``.

    Besides files, ``path`` may be a folder that ``save_to_disk`` of the ``datasets`` library wrote; with
    ``format="datasets"``, a name on its hub too.
    """
    if format != "datasets" and not is_saved_dataset(path):
        return read_parts(path, format, on_error, options)
    try:
        loaded = load_from_disk(path) if Path(path).is_dir() else load_dataset(path)
    except Exception as error:
        raise DataError(
            f"data.path={path!r}: expected a folder written by datasets' save_to_disk or a corpus on the hub ({error})"
        ) from error
    if not isinstance(loaded, DatasetDict):
        return {"all": TableSource(((Path(path), "datasets"),), options, on_error, table=loaded)}
    spelled = {split: [name for name in names if name in loaded][:1] for split, names in SPLIT_NAMES.items()}
    found: dict[str, DocumentSource] = {
        split: TableSource(((Path(path, split), "datasets"),), options, on_error, table=loaded[name])
        for split, names in spelled.items()
        for name in names
    }
    unread = sorted(set(loaded) - {name for names in spelled.values() for name in names})
    if not found:
        raise DataError(f"data.path={path!r}: expected splits named {', '.join(SPLIT_NAMES)}, got {', '.join(unread)}")
    if unread:
        log.warning("%s: splits that are not read: %s", path, ", ".join(unread))
    return found


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
