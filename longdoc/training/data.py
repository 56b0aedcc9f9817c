"""The datamodule: documents in, batches of windows for training and whole documents for evaluation."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from longdoc.errors import ConfigError, DataError
from longdoc.models.batch import Batch, WindowRef, collate
from longdoc.text.documents import Document, Unmoved, check_unique_ids
from longdoc.text.preprocess import EncodedDocument, Preprocessor
from longdoc.training.sampler import TokenBudgetSampler, TrainLoader, fill_batches, leave_signals_to_training
from longdoc.training.store import (
    DocumentTable,
    EncodedTable,
    content_digest,
    content_key,
    default_cache_dir,
    store_documents,
    store_encoded,
)


def refuse_changes(changed: Iterable[str]) -> None:
    """Refuse to go on with a run if anything is named."""
    if named := "; ".join(changed):
        raise ConfigError(f"the run cannot go on, this has changed since it was started: {named}; start a new one")


class WindowDataset(Dataset[Batch]):
    """All windows of a corpus; an index is a list of windows, the item is their batch.

    Args:
        documents: Encoded documents.
        preprocessor: What encoded them.
        count_overlap: Whether a word in two windows is learned in both.
    """

    def __init__(self, documents: EncodedTable, preprocessor: Preprocessor, count_overlap: bool) -> None:
        self.documents = documents
        self.preprocessor = preprocessor
        self.count_overlap = count_overlap
        lengths = documents.window_lengths()
        self.document = np.repeat(np.arange(len(lengths)), [len(of_one) for of_one in lengths])
        self.window = np.concatenate([np.arange(len(of_one)) for of_one in lengths] or [np.zeros(0, dtype=np.int64)])
        self.lengths = np.concatenate(lengths or [self.window]) + preprocessor.tokenizer.num_special
        self.num_labelled = np.concatenate(documents.num_labelled(not count_overlap) or [self.window])

    def __len__(self) -> int:
        return len(self.window)

    def __getitem__(self, indices: list[int]) -> Batch:
        needed = {int(d): self.documents[int(d)] for d in np.unique(self.document[indices])}
        refs = [WindowRef(needed[int(self.document[i])], int(self.window[i])) for i in indices]
        return collate(refs, self.preprocessor.tokenizer, self.count_overlap)


class DocumentBatch(list[EncodedDocument], Unmoved):
    """Whole documents; in training with what ``Batch`` tells of the optimiser step that they are a part of."""

    num_labelled: int | None = None
    num_shares: int = 1
    num_step_tokens: int | None = None


class DocumentDataset(Dataset[DocumentBatch]):
    """Whole documents; an index is a list of documents.

    Args:
        documents: Encoded documents.
        preprocessor: What encoded them.
        gold: What is learned of them: ``labels``, ``target``, or either.
    """

    def __init__(
        self, documents: EncodedTable, preprocessor: Preprocessor, gold: Sequence[str] = ("labels", "target")
    ) -> None:
        self.documents = documents
        self.gold = gold
        num_special = preprocessor.tokenizer.num_special
        lengths = [int((of_one + num_special).sum()) for of_one in documents.window_lengths()]
        self.lengths = np.array(lengths, dtype=np.int64)

    @cached_property
    def num_labelled(self) -> np.ndarray:
        """1 for each document with gold to learn, else 0. *Shape:* (num_documents,)."""
        columns = (self.documents.documents.column(name) for name in self.gold)
        return np.array([any(x is not None for x in gold) for gold in zip(*columns, strict=True)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, indices: list[int]) -> DocumentBatch:
        return DocumentBatch(self.documents[i] for i in indices)


class DocumentDataModule(L.LightningDataModule):
    """Serves a corpus to a Trainer.

    Documents are encoded into memory-mapped tables in a cache folder. A training batch is a ``Batch`` of shuffled
    windows where the preprocessor has tags, else a list of shuffled ``EncodedDocument``; an evaluation batch is a list
    of whole documents, so that a document is stitched where it was read.

    Args:
        splits: Documents under ``train``, ``dev`` and ``test``; any of them may be missing.
        preprocessor: Encodes them; the module must hold the same.
        max_tokens_per_batch: Budget of a training batch, special tokens included; a longer window is its own batch.
        max_tokens_per_eval_batch: Budget of an evaluation batch; a longer document is a batch of its own.
        count_overlap: Whether a word in two windows is learned in both, or only where it has the most context.
        num_workers: Processes that build batches; 0 builds them in the training process.
        num_proc: Processes that encode documents.
        seed: Of the order of the training windows.
        cache_dir: Folder of the tables; by default ``LONGDOC_CACHE`` or ``longdoc`` in the user's cache.
    """

    def __init__(
        self,
        splits: Mapping[str, Sequence[Document]],
        preprocessor: Preprocessor,
        max_tokens_per_batch: int = 2048,
        max_tokens_per_eval_batch: int = 16384,
        count_overlap: bool = True,
        num_workers: int = 0,
        num_proc: int = 1,
        seed: int = 0,
        cache_dir: str | Path | None = None,
    ) -> None:
        super().__init__()
        unknown = sorted(set(splits) - {"train", "dev", "test"})
        if unknown:
            raise ConfigError(f"splits: expected train, dev and test, got {unknown}")
        for name, documents in splits.items():
            ids = documents.column("id") if isinstance(documents, DocumentTable) else (d.id for d in documents)
            check_unique_ids(ids, f"split {name}")
        self.splits = splits
        self.preprocessor = preprocessor
        self.max_tokens_per_batch = max_tokens_per_batch
        self.max_tokens_per_eval_batch = max_tokens_per_eval_batch
        self.count_overlap = count_overlap
        self.num_workers = num_workers
        self.num_proc = num_proc
        self.seed = seed
        self.cache_dir = default_cache_dir() if cache_dir is None else Path(cache_dir)
        self._encoded: dict[str, EncodedTable] = {}
        self._train_loader: TrainLoader | None = None
        self._resumed: dict[str, int] | None = None

    def encoded_by(self, preprocessor: Preprocessor) -> "DocumentDataModule":
        """The same documents and settings with another preprocessor, which takes over what happens to overlap."""
        other = copy(self)
        other.preprocessor = replace(preprocessor, overlapping=self.preprocessor.overlapping)
        other._encoded, other.trainer = {}, None
        return other

    def prepare_data(self) -> None:
        """Encode all splits into the cache; Lightning calls this on one process."""
        for split in self.splits:
            self.encoded(split)

    def setup(self, stage: str) -> None:  # noqa: ARG002
        """Refuse a module, or a student, that means other tags by the same numbers."""
        module = getattr(self.trainer, "lightning_module", None)
        other = getattr(getattr(module, "student", module), "preprocessor", None)
        if isinstance(other, Preprocessor) and other.tags != self.preprocessor.tags:
            raise ConfigError(
                f"DocumentDataModule(preprocessor): expected that of the module, got other tags: "
                f"{self.preprocessor.tags}, in the module {other.tags}"
            )

    def encoded(self, split: str) -> EncodedTable:
        """The encoded documents of a split."""
        if split not in self._encoded:
            documents = self.splits.get(split, [])
            if not isinstance(documents, DocumentTable):
                documents = store_documents(documents, self.cache_dir, content_key(documents))
            self._encoded[split] = store_encoded(documents, self.preprocessor, self.cache_dir, self.num_proc)
        return self._encoded[split]

    def tag_counts(self) -> list[int]:
        """Training words of each tag that some window reads, for class weights."""
        assert self.preprocessor.tags is not None
        counts = np.zeros(len(self.preprocessor.tags), dtype=np.int64)
        for encoded in self.encoded("train"):
            if encoded.tags is not None:
                counts += np.bincount(encoded.tags[encoded.seen_words], minlength=len(counts))
        return counts.tolist()

    def train_dataloader(self) -> DataLoader:
        """Batches of shuffled windows or documents."""
        dataset: WindowDataset | DocumentDataset
        if self.preprocessor.tags is not None:
            dataset = WindowDataset(self.encoded("train"), self.preprocessor, self.count_overlap)
        else:
            kind = getattr(getattr(self.trainer, "lightning_module", None), "kind", None)
            gold = {None: ("labels", "target"), "regression": ("target",)}.get(kind, ("labels",))
            dataset = DocumentDataset(self.encoded("train"), self.preprocessor, gold)
        if not dataset.lengths.any():
            raise DataError("split train: expected at least one document with text, got none")
        sampler = TokenBudgetSampler(dataset.lengths, self.max_tokens_per_batch, self.seed, *self._world())
        accumulate = 1 if self.trainer is None else self.trainer.accumulate_grad_batches
        limit = 1.0 if self.trainer is None else self.trainer.limit_train_batches
        num_batches = min(limit, len(sampler)) if isinstance(limit, int) else int(limit * len(sampler))
        self._train_loader = TrainLoader(dataset, sampler, self.num_workers, accumulate, num_batches)
        if self._resumed is not None:
            self._train_loader.load_state_dict(self._resumed)
            self._resumed = None
        return self._train_loader

    def fingerprint(self, num_ranks: int, accumulate: int) -> dict[str, Any]:
        """All that decides which batches are trained, by the name to call it when it has changed."""
        prepared = self.preprocessor.state()
        return {
            "training documents": self.encoded("train").documents.key,
            "dev documents": self.encoded("dev").documents.key,
            "labels": prepared["tags"],
            "windows": prepared["windower"],
            "selection": prepared["selection"],
            "tokenizer": content_digest(prepared["tokenizer"]),
            "encoded documents": self.encoded("train").key,
            "data.max_tokens_per_batch": self.max_tokens_per_batch,
            "data.count_overlap": self.count_overlap,
            "seed": self.seed,
            "number of processes": num_ranks,
            "trainer.accumulate_grad_batches": accumulate,
        }

    def check_unchanged(self, then: dict[str, Any], num_ranks: int, accumulate: int) -> None:
        """Refuse to go on with other batches than those of the ``fingerprint`` that a run was started with."""
        now = self.fingerprint(num_ranks, accumulate)
        changed = [name for name in now if now[name] != then.get(name)]
        refuse_changes(n if isinstance(now[n], str) else f"{n}: {then.get(n)}, now {now[n]}" for n in changed)

    def state_dict(self) -> dict[str, Any]:
        """Where training stands, and in what."""
        if self.trainer is None or self._train_loader is None:
            return {}
        fingerprint = self.fingerprint(self.trainer.world_size, self.trainer.accumulate_grad_batches)
        return {"train": self._train_loader.state_dict(), "fingerprint": fingerprint}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on there. Lightning asks loaders itself, but not those that it made to count the steps."""
        if self.trainer is not None and self.trainer.state.fn == "fit":
            self.check_unchanged(
                state_dict["fingerprint"], self.trainer.world_size, self.trainer.accumulate_grad_batches
            )
            self._resumed = state_dict["train"]

    def val_dataloader(self) -> DataLoader:
        """Whole documents of the dev split."""
        return self._documents("dev")

    def test_dataloader(self) -> DataLoader:
        """Whole documents of the test split."""
        return self._documents("test")

    def predict_dataloader(self) -> DataLoader:
        """Whole documents of the test split."""
        return self._documents("test")

    def _documents(self, split: str) -> DataLoader:
        dataset = DocumentDataset(self.encoded(split), self.preprocessor)
        batches = fill_batches(range(len(dataset)), dataset.lengths, self.max_tokens_per_eval_batch)
        num_ranks, rank = self._world()
        # Ranks talk to each other in every step, so all need as many batches; the added ones hold no document.
        batches += [[]] * (-len(batches) % num_ranks)
        return DataLoader(
            dataset,
            sampler=batches[rank::num_ranks],
            batch_size=None,
            num_workers=self.num_workers,
            generator=torch.Generator(),
            worker_init_fn=leave_signals_to_training,
        )

    def _world(self) -> tuple[int, int]:
        if self.trainer is None:
            return 1, 0
        if self.trainer.world_size > 1 and self.trainer._accelerator_connector.use_distributed_sampler:
            raise ConfigError(
                "Trainer(use_distributed_sampler=True) would deal out what this datamodule has dealt out already; "
                "set Trainer(use_distributed_sampler=False)"
            )
        return self.trainer.world_size, self.trainer.global_rank
