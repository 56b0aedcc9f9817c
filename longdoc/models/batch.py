"""The batch: the tokens of all its windows in one stream, without padding.

Shapes: T tokens of the batch, W windows, B documents, N items (words to label).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longdoc.text.preprocess import EncodedDocument, window_items
from longdoc.text.tokens import WordTokenizer


@dataclass
class Batch:
    """Windows of documents as one stream of tokens.

    Args:
        input_ids: Vocabulary ids, special tokens included. *Shape:* (T,).
        bounds: Where each window begins, and the end of the last. *Shape:* (W + 1,).
        document_bounds: Where each document begins, counted in windows, and the end of the last. *Shape:* (B + 1,).
        item_token: First token of each word to label. *Shape:* (N,).
        token_item: Item each token belongs to, -1 for none. *Shape:* (T,).
        item_tags: Gold tag of each item, -100 where there is none to learn. *Shape:* (N,).
        num_labelled: Labelled items that share one optimiser step with this batch, over all ranks and accumulated
            batches; the loss is divided by it. None for those of this batch alone.
        num_shares: Batches whose gradients are averaged into that step; the loss is multiplied by it.
        num_step_tokens: Tokens that share it.
        document_ids: Documents the windows come from.
        item_place: Document of each item, counted in ``document_ids``, and its word. *Shape:* (N, 2).
    """

    input_ids: Tensor
    bounds: Tensor
    document_bounds: Tensor
    item_token: Tensor
    token_item: Tensor
    item_tags: Tensor
    num_labelled: int | None = None
    num_shares: int = 1
    num_step_tokens: int | None = None
    document_ids: tuple[str, ...] = ()
    item_place: Tensor | None = None

    @classmethod
    def of_windows(cls, input_ids: Tensor, lengths: Sequence[int]) -> "Batch":
        """Make a batch of windows, each a document of its own, without words to label."""
        none = torch.zeros(0, dtype=torch.long)
        documents = torch.arange(len(lengths) + 1)
        bounds = torch.tensor([0, *lengths]).cumsum(0)
        return cls(input_ids, bounds, documents, none, torch.full_like(input_ids, -1), none)

    @property
    def num_windows(self) -> int:
        """W."""
        return len(self.bounds) - 1

    @property
    def lengths(self) -> Tensor:
        """Tokens in each window. *Shape:* (W,)."""
        return self.bounds[1:] - self.bounds[:-1]

    def to(self, device: torch.device) -> "Batch":
        """Move the tensors."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: dict[str, Any] = {name: v.to(device) for name, v in values.items() if isinstance(v, Tensor)}
        return replace(self, **moved)

    def windows(self, start: int, stop: int) -> "Batch":
        """Cut out the windows from ``start`` up to ``stop``; the other documents stay, without windows."""
        edges = self.bounds[[start, stop]]
        first, last = torch.searchsorted(self.item_token, edges).tolist()
        at, end = edges.tolist()
        token_item = self.token_item[at:end]
        return replace(
            self,
            input_ids=self.input_ids[at:end],
            bounds=self.bounds[start : stop + 1] - at,
            document_bounds=self.document_bounds.clamp(start, stop) - start,
            item_token=self.item_token[first:last] - at,
            token_item=torch.where(token_item < 0, token_item, token_item - first),
            item_tags=self.item_tags[first:last],
            item_place=None if self.item_place is None else self.item_place[first:last],
        )


@dataclass(frozen=True, slots=True)
class WindowRef:
    """One window of one document."""

    document: EncodedDocument
    window: int


def collate(refs: Sequence[WindowRef], tokenizer: WordTokenizer, count_overlap: bool = True) -> Batch:
    """Put windows into one stream; neighbouring windows of one document belong together.

    Args:
        refs: The windows, in the order of the stream.
        tokenizer: Gives the special tokens.
        count_overlap: Whether a word in two windows is learned in both, or only in the one that owns it.
    """
    prefix = np.array(tokenizer.prefix_ids, dtype=np.int64)
    suffix = np.array(tokenizer.suffix_ids, dtype=np.int64)
    no_window = np.zeros(0, dtype=np.int64)
    ids, item_token, token_item, tags, places, bounds, num_items = [], [], [], [], [], [0], 0
    document_ids = list(dict.fromkeys(ref.document.document.id for ref in refs))
    number = {name: at for at, name in enumerate(document_ids)}
    for ref in refs:
        encoded, cut = ref.document, ref.document.windows
        start, end = int(cut.start[ref.window]), int(cut.end[ref.window])
        items = window_items(encoded, ref.window)
        item_of_word = np.full(len(encoded.words) + 1, -1, dtype=np.int64)
        item_of_word[items.word] = num_items + np.arange(len(items.word))
        no_item = np.full(1, -1, dtype=np.int64)
        ids += [prefix, encoded.token_ids[start:end], suffix]
        token_item += [
            no_item.repeat(len(prefix)),
            item_of_word[encoded.token_word[start:end]],
            no_item.repeat(len(suffix)),
        ]
        item_token.append(bounds[-1] + len(prefix) + items.token)
        gold = np.full(len(items.word), -100) if encoded.tags is None else encoded.tags[items.word]
        tags.append(gold if count_overlap else np.where(items.owned, gold, -100))
        places.append(np.stack((np.full(len(items.word), number[encoded.document.id]), items.word), 1).ravel())
        num_items += len(items.word)
        bounds.append(bounds[-1] + len(prefix) + end - start + len(suffix))

    def join(parts: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate([no_window, *parts]).astype(np.int64))

    begins = [w for w, ref in enumerate(refs) if w == 0 or ref.document is not refs[w - 1].document]
    return Batch(
        input_ids=join(ids),
        bounds=torch.tensor(bounds),
        document_bounds=torch.tensor([*begins, len(refs)]),
        item_token=join(item_token),
        token_item=join(token_item),
        item_tags=join(tags),
        document_ids=tuple(document_ids),
        item_place=join(places).view(-1, 2),
    )


def collate_documents(documents: Sequence[EncodedDocument], tokenizer: WordTokenizer) -> Batch:
    """Put all windows of whole documents into one stream; one without text has no window and keeps its place."""
    refs = [WindowRef(encoded, w) for encoded in documents for w in range(len(encoded.windows))]
    ends = np.cumsum([0, *(len(encoded.windows) for encoded in documents)])
    return replace(
        collate(refs, tokenizer),
        document_bounds=torch.from_numpy(ends),
        document_ids=tuple(encoded.document.id for encoded in documents),
    )
