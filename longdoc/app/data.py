"""Settings of the data, and the documents they stand for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from longdoc.app.corpus import generate
from longdoc.errors import ConfigError, DataError, check_choice, check_integer, check_switch
from longdoc.text.alignment import OverlapPolicy
from longdoc.text.documents import Document
from longdoc.text.formats import ReadOptions
from longdoc.text.formats.splits import deal
from longdoc.text.preprocess import Preprocessor
from longdoc.training.data import DocumentDataModule
from longdoc.training.hub import open_parts
from longdoc.training.store import DocumentTable, content_key, default_cache_dir, store_documents, store_sources

Splits = dict[str, DocumentTable]


@dataclass(frozen=True)
class EmbeddedCorpus:
    """A corpus that longdoc writes itself.

    Args:
        language: ISO 639-1 code.
        num_train: Training documents.
        num_dev: Documents that choose the best checkpoint.
        num_test: Documents that are scored at the end.
    """

    language: str
    num_train: int
    num_dev: int
    num_test: int

    def splits(self, seed: int) -> dict[str, list[Document]]:
        """Write the documents; the same seed gives the same ones."""
        sizes = {"train": self.num_train, "dev": self.num_dev, "test": self.num_test}
        return {split: generate(self.language, split, size, seed) for split, size in sizes.items()}


@dataclass(frozen=True)
class DataSettings:
    """Everything in ``conf/data``.

    Args:
        path: File or folder to read; None takes the embedded corpus.
        format: Of the files; ``auto`` detects it, ``datasets`` takes ``path`` as a name of the ``datasets`` library.
        fields: Our field name -> the name in the files; None leaves the usual one.
        on_error: ``raise`` or ``skip`` bad rows.
        tag_scheme: Of CoNLL files; ``auto`` detects it.
        offset_unit: Of offsets in the files; ``auto`` detects it.
        overlapping: What happens to gold spans that share words.
        language: ISO 639-1 code for the sentence splitter.
        seed: Of the split of a single file, and of the embedded corpus.
        max_train_documents: Use only the first so many; None uses all.
        max_tokens_per_batch: Budget of a training batch.
        max_tokens_per_eval_batch: Budget of an evaluation batch.
        count_overlap: Whether a word in two windows is learned in both.
        num_workers: Processes that build batches.
        num_proc: Processes that encode documents.
        cache_dir: Folder for encoded documents; None takes ``LONGDOC_CACHE`` or ``longdoc`` in the user's cache.
        corpus: Used while ``path`` is None.
    """

    path: str | None = None
    format: str = "auto"
    fields: Mapping[str, str | int | None] = field(default_factory=dict)
    on_error: str = "raise"
    tag_scheme: str = "auto"
    offset_unit: str = "auto"
    overlapping: OverlapPolicy = "error"
    language: str = "en"
    seed: int = 0
    max_train_documents: int | None = None
    max_tokens_per_batch: int = 2048
    max_tokens_per_eval_batch: int = 16384
    count_overlap: bool = True
    num_workers: int = 0
    num_proc: int = 1
    cache_dir: str | None = None
    corpus: EmbeddedCorpus | None = None

    def __post_init__(self) -> None:
        check_choice("data.overlapping", self.overlapping, get_args(OverlapPolicy))
        if not isinstance(self.language, str):
            raise ConfigError(f"data.language={self.language!r}: expected an ISO 639-1 code, such as en")
        check_switch("data.count_overlap", self.count_overlap)
        for name in ("seed", "num_workers"):
            check_integer(f"data.{name}", getattr(self, name), 0)
        for name in ("max_tokens_per_batch", "max_tokens_per_eval_batch", "num_proc"):
            check_integer(f"data.{name}", getattr(self, name), 1)
        if self.max_train_documents is not None:
            check_integer("data.max_train_documents", self.max_train_documents, 1)

    @property
    def default_epochs(self) -> int:
        """Epochs where none are set: an embedded corpus is as large as one wants, labelled documents are few."""
        return 1 if self.path is None else 10

    def splits(self, task: str) -> Splits:
        """Read or write the documents of ``train``, ``dev`` and ``test``; rows without gold of the task are bad."""
        if self.path is not None:
            splits = self._read(self.path, task)
        elif self.corpus is not None:
            written = self.corpus.splits(self.seed)
            splits = {name: store_documents(d, self._cache, content_key(d)) for name, d in written.items()}
        else:
            raise ConfigError(
                "data.path: expected a file or folder, got null; or choose an embedded corpus, data=legal_en"
            )
        if self.max_train_documents is not None:
            splits["train"] = splits["train"].head(self.max_train_documents)
        for split in ("train", "dev"):
            if not splits.get(split):
                raise DataError(f"split {split}: expected at least one document, got none")
        return splits

    @property
    def _cache(self) -> Path:
        return default_cache_dir() if self.cache_dir is None else Path(self.cache_dir)

    def _read(self, path: str, task: str) -> Splits:
        named = {ours: theirs for ours, theirs in self.fields.items() if theirs is not None}
        options = ReadOptions(named, task=task, tag_scheme=self.tag_scheme, offset_unit=self.offset_unit)
        sources = deal(open_parts(path, self.format, self.on_error, options), path, self.seed)
        return store_sources(sources, self._cache)

    def datamodule(self, splits: Splits, preprocessor: Preprocessor, seed: int) -> DocumentDataModule:
        """Serve the documents to a Trainer; ``seed`` orders the training units."""
        return DocumentDataModule(
            splits,
            preprocessor,
            max_tokens_per_batch=self.max_tokens_per_batch,
            max_tokens_per_eval_batch=self.max_tokens_per_eval_batch,
            count_overlap=self.count_overlap,
            num_workers=self.num_workers,
            num_proc=self.num_proc,
            seed=seed,
            cache_dir=self._cache,
        )
