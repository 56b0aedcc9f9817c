"""The datamodule: documents in, batches of windows for training and whole documents for evaluation."""

from collections.abc import Mapping, Sequence

import lightning as L
import numpy as np
from torch.utils.data import DataLoader, Dataset

from longdoc.errors import ConfigError, DataError
from longdoc.models.batch import Batch, WindowRef, collate
from longdoc.text.documents import Document, check_unique_ids
from longdoc.text.preprocess import EncodedDocument, Preprocessor
from longdoc.training.sampler import TokenBudgetSampler, fill_batches


class WindowDataset(Dataset[Batch]):
    """All windows of a corpus; an index is a list of windows, the item is their batch.

    Args:
        documents: Encoded documents.
        preprocessor: What encoded them.
        count_overlap: Whether a word in two windows is learned in both.
    """

    def __init__(self, documents: Sequence[EncodedDocument], preprocessor: Preprocessor, count_overlap: bool) -> None:
        self.refs = [WindowRef(document, w) for document in documents for w in range(len(document.windows))]
        self.preprocessor = preprocessor
        self.count_overlap = count_overlap
        num_special = preprocessor.tokenizer.num_special
        self.lengths = np.array([ref.num_tokens(num_special) for ref in self.refs], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.refs)

    def __getitem__(self, indices: list[int]) -> Batch:
        return collate([self.refs[i] for i in indices], self.preprocessor.tokenizer, self.count_overlap)


class DocumentDataset(Dataset[list[EncodedDocument]]):
    """Whole documents; an index is a list of documents."""

    def __init__(self, documents: Sequence[EncodedDocument]) -> None:
        self.documents = documents

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, indices: list[int]) -> list[EncodedDocument]:
        return [self.documents[i] for i in indices]


class DocumentDataModule(L.LightningDataModule):
    """Serves a corpus to a Trainer.

    A training batch is a ``Batch`` of shuffled windows; an evaluation batch is a list of whole ``EncodedDocument``, so
    that a document is stitched where it was read.

    Args:
        splits: Documents under ``train``, ``dev`` and ``test``; any of them may be missing.
        preprocessor: Encodes them; the module must hold the same.
        max_tokens_per_batch: Budget of a training batch, special tokens included.
        max_tokens_per_eval_batch: Budget of an evaluation batch; a longer document is a batch of its own.
        count_overlap: Whether a word in two windows is learned in both, or only where it has the most context.
        num_workers: Processes that build batches; 0 builds them in the training process.
        seed: Of the order of the training windows.
    """

    def __init__(
        self,
        splits: Mapping[str, Sequence[Document]],
        preprocessor: Preprocessor,
        max_tokens_per_batch: int = 2048,
        max_tokens_per_eval_batch: int = 16384,
        count_overlap: bool = True,
        num_workers: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        unknown = sorted(set(splits) - {"train", "dev", "test"})
        if unknown:
            raise ConfigError(f"splits: expected train, dev and test, got {unknown}")
        for name, documents in splits.items():
            check_unique_ids(documents, f"split {name}")
        size = preprocessor.windower.size_tokens
        if size is not None and max_tokens_per_batch < size:
            raise ConfigError(
                f"max_tokens_per_batch={max_tokens_per_batch}: expected at least one window, windows.size_tokens={size}"
            )
        self.splits = splits
        self.preprocessor = preprocessor
        self.max_tokens_per_batch = max_tokens_per_batch
        self.max_tokens_per_eval_batch = max_tokens_per_eval_batch
        self.count_overlap = count_overlap
        self.num_workers = num_workers
        self.seed = seed
        self._encoded: dict[str, list[EncodedDocument]] = {}

    def encoded(self, split: str) -> list[EncodedDocument]:
        """The encoded documents of a split; encoded once."""
        if split not in self._encoded:
            self._encoded[split] = [self.preprocessor(document) for document in self.splits.get(split, ())]
        return self._encoded[split]

    def train_dataloader(self) -> DataLoader:
        """Batches of shuffled windows."""
        dataset = WindowDataset(self.encoded("train"), self.preprocessor, self.count_overlap)
        if len(dataset) == 0:
            raise DataError("split train: expected at least one document with text, got none")
        ranks, rank = self._world()
        sampler = TokenBudgetSampler(dataset.lengths, self.max_tokens_per_batch, self.seed, ranks, rank)
        return self._loader(dataset, sampler)

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
        documents = self.encoded(split)
        lengths = np.array([len(d.token_ids) for d in documents], dtype=np.int64)
        batches = fill_batches(range(len(documents)), lengths, self.max_tokens_per_eval_batch)
        ranks, rank = self._world()
        return self._loader(DocumentDataset(documents), batches[rank::ranks])

    def _loader(self, dataset: Dataset, batches) -> DataLoader:
        return DataLoader(
            dataset,
            sampler=batches,
            batch_size=None,
            num_workers=self.num_workers,
            collate_fn=_as_is,
            persistent_workers=False,
        )

    def _world(self) -> tuple[int, int]:
        return (1, 0) if self.trainer is None else (self.trainer.world_size, self.trainer.global_rank)


def _as_is(batch):
    return batch
