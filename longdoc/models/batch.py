"""The batch: the tokens of all its windows in one stream, without padding.

Shapes: T tokens of the batch, W windows, N items (words to label), L tokens of the longest window, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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
        item_token: First token of each word to label. *Shape:* (N,).
        token_item: Item each token belongs to, -1 for none. *Shape:* (T,).
        item_tags: Gold tag of each item, -100 where there is none to learn. *Shape:* (N,).
        num_labelled: Labelled items that share one optimiser step with this batch, over all ranks and accumulated
            batches; the loss is divided by it. None for those of this batch alone.
        document_ids: Documents the windows come from, for messages.
    """

    input_ids: Tensor
    bounds: Tensor
    item_token: Tensor
    token_item: Tensor
    item_tags: Tensor
    num_labelled: int | None = None
    document_ids: tuple[str, ...] = ()

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
        return Batch(
            self.input_ids.to(device),
            self.bounds.to(device),
            self.item_token.to(device),
            self.token_item.to(device),
            self.item_tags.to(device),
            self.num_labelled,
            self.document_ids,
        )


@dataclass(frozen=True, slots=True)
class WindowRef:
    """One window of one document."""

    document: EncodedDocument
    window: int

    def num_tokens(self, num_special: int) -> int:
        """Tokens it takes in a batch."""
        cut = self.document.windows
        return int(cut.end[self.window] - cut.start[self.window]) + num_special


def collate(refs: Sequence[WindowRef], tokenizer: WordTokenizer, count_overlap: bool = True) -> Batch:
    """Put windows into one stream.

    Args:
        refs: The windows, in the order of the stream.
        tokenizer: Gives the special tokens.
        count_overlap: Whether a word in two windows is learned in both, or only in the one that owns it.
    """
    prefix = np.array(tokenizer.prefix_ids, dtype=np.int64)
    suffix = np.array(tokenizer.suffix_ids, dtype=np.int64)
    ids, item_token, token_item, tags, bounds, num_items = [], [], [], [], [0], 0
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
        num_items += len(items.word)
        bounds.append(bounds[-1] + len(prefix) + end - start + len(suffix))

    def join(parts: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts).astype(np.int64))

    return Batch(
        input_ids=join(ids),
        bounds=torch.tensor(bounds),
        item_token=join(item_token),
        token_item=join(token_item),
        item_tags=join(tags),
        document_ids=tuple(dict.fromkeys(ref.document.document.id for ref in refs)),
    )
