"""Corpora of the ``datasets`` library, by hub name or as a folder that it saved."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, DatasetDict, List, load_dataset, load_from_disk

from longdoc.errors import DataError
from longdoc.text.formats import DocumentSource, ReadOptions
from longdoc.text.formats.base import RawRow
from longdoc.text.formats.conll import detect_scheme, row_of_tokens
from longdoc.text.formats.json_rows import object_row
from longdoc.text.formats.splits import SPLIT_NAMES, complete_splits

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
        names = {name: _class_names(feature) for name, feature in self.table.features.items()}
        rows = (_named(row, names) for row in self.table)
        columns = self.table.column_names
        tokens = _present(columns, self.options.names("text", *_TOKEN_FIELDS))
        tags = _present(columns, self.options.names("spans", *_TAG_FIELDS))
        if tokens is None or tags is None or not isinstance(self.table.features[tokens], List):
            for number, row in enumerate(rows, 1):
                yield object_row(row, number, self.options)
            return
        scheme = self.options.tag_scheme if self.options.tag_scheme != "auto" else self._scheme(names[tags], tags)
        for number, row in enumerate(rows, 1):
            yield row_of_tokens(number, row.get("id"), row[tokens], row[tags], scheme)

    def _scheme(self, names: list[str] | None, field: str) -> str:
        tags: list[str] = []
        opens: list[bool] = []
        for row in islice(self.table, _SURVEYED_ROWS):
            found = [names[tag] if names and isinstance(tag, int) else tag for tag in row[field]]
            tags += found
            opens += [i == 0 for i in range(len(found))]
        return detect_scheme(tags, opens)


def hub_splits(
    name: str, options: ReadOptions, on_error: str = "raise", seed: int = 0, config_name: str | None = None
) -> dict[str, DocumentSource]:
    """Open a corpus of the ``datasets`` library as ``{"train": ..., "dev": ..., "test": ...}``.

    Args:
        name: Hub name, or a folder written by ``save_to_disk``.
        options: How rows are understood.
        on_error: ``raise`` or ``skip`` bad rows.
        seed: Of the hash that sets a missing dev split apart.
        config_name: Which of a hub corpus's configurations.
    """
    try:
        loaded = load_from_disk(name) if Path(name).is_dir() else load_dataset(name, config_name)
    except Exception as error:
        raise DataError(
            f"data.path={name!r}: expected a folder written by datasets' save_to_disk or a corpus on the hub ({error})"
        ) from error
    tables: dict[str, Dataset] = dict(loaded) if isinstance(loaded, DatasetDict) else {"train": loaded}
    found: dict[str, DocumentSource] = {}
    for split, spellings in SPLIT_NAMES.items():
        table = next((tables[spelling] for spelling in spellings if spelling in tables), None)
        if table is not None:
            found[split] = TableSource(((Path(f"{name}/{split}"), "datasets"),), options, on_error, table=table)
    if "train" not in found:
        raise DataError(f"data.path={name!r}: expected a split named train, got {', '.join(tables)}")
    return complete_splits(found, name, seed)


def is_saved_dataset(path: str | Path) -> bool:
    """Whether a folder was written by ``save_to_disk``."""
    return any((Path(path) / name).is_file() for name in ("dataset_dict.json", "dataset_info.json"))


def _present(columns: list[str], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in columns), None)


def _class_names(feature: Any) -> list[str] | None:
    inner = feature.feature if isinstance(feature, List) else feature
    return list(inner.names) if isinstance(inner, ClassLabel) else None


def _named(row: dict[str, Any], names: dict[str, list[str] | None]) -> dict[str, Any]:
    """Replace the numbers of class labels by their names."""
    return {column: value if names[column] is None else _name(value, names[column]) for column, value in row.items()}


def _name(value: Any, names: list[str] | None) -> Any:
    if isinstance(value, list):
        return [_name(item, names) for item in value]
    return names[value] if names is not None and isinstance(value, int) and 0 <= value < len(names) else value
