"""Classification of documents: window vectors within bounded memory, and the head over them.

Shapes: T tokens of the batch, W windows, B documents, D width, K labels.
"""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from longdoc.errors import ConfigError
from longdoc.models.aggregation import Aggregator, Vote, split_documents, vote
from longdoc.models.batch import Batch
from longdoc.models.encoder import Encoder
from longdoc.text.classes import ClassTask

WindowPool = Literal["first", "mean"]


def pool_windows(hidden_TD: Tensor, bounds: Tensor, pool: WindowPool = "first") -> Tensor:
    """One vector a window: that of its ``first`` token, or the ``mean`` of its tokens. *Shape:* (W, D)."""
    if pool == "first":
        return hidden_TD[bounds[:-1]]
    if pool == "mean":
        # In float32: half precision loses digits in a sum over many tokens.
        return torch.segment_reduce(hidden_TD.float(), "mean", lengths=bounds.diff()).to(hidden_TD.dtype)
    raise ConfigError(f"pool={pool!r}: expected 'first' or 'mean'")


def encode_windows(
    encoder: Encoder,
    batch: Batch,
    pool: WindowPool = "first",
    max_tokens_per_forward: int | None = None,
    padded: bool | None = None,
) -> Tensor:
    """Encode windows in groups, so that memory depends on the group and not on the documents.

    Where gradients are wanted and there are several groups, the activations of a group are not kept: the backward pass
    computes them again, with the same dropout masks.

    Args:
        encoder: Encoder of token vectors.
        batch: The windows.
        pool: See ``pool_windows``.
        max_tokens_per_forward: Budget of a group, padding included; a longer window is a group of its own. None for no
            limit.
        padded: Whether padding counts in a group; None for what the encoder does.

    Returns:
        Window vectors, in the order of the batch. *Shape:* (W, D).
    """

    def encode(input_ids: Tensor, group: Batch) -> Tensor:
        return pool_windows(encoder(replace(group, input_ids=input_ids)), group.bounds, pool)

    if batch.num_windows == 0:
        return torch.zeros(0, encoder.width, device=batch.input_ids.device)
    groups = _groups(batch.lengths.tolist(), max_tokens_per_forward, not encoder.packed if padded is None else padded)
    if len(groups) == 1:
        return encode(batch.input_ids, batch)
    parts = [batch.windows(start, stop) for start, stop in groups]
    if not torch.is_grad_enabled():
        return torch.cat([encode(part.input_ids, part) for part in parts])
    # The ids are an argument of their own, because checkpoint keeps the random state of the devices of bare tensors.
    return torch.cat([checkpoint(encode, part.input_ids, part, use_reentrant=False) for part in parts])


def _groups(lengths: list[int], max_tokens: int | None, padded: bool) -> list[tuple[int, int]]:
    """Neighbouring windows whose tokens, padded to the longest or not, stay within the budget, as (start, stop)."""
    starts, total, longest = [0], 0, 0
    for w, length in enumerate(lengths):
        total, longest = total + length, max(longest, length)
        cost = (w + 1 - starts[-1]) * longest if padded else total
        if max_tokens is not None and cost > max_tokens and w > starts[-1]:
            starts.append(w)
            total = longest = length
    return list(zip(starts, [*starts[1:], len(lengths)], strict=True))


class ClassificationHead(nn.Module):
    """Aggregates window vectors and scores the labels of documents.

    A document without windows is scored as a single zero vector.

    Args:
        width: D.
        num_labels: K; 1 in regression.
        task: What is told of a document.
        aggregator: Makes the vectors of documents; ``Vote`` has every window scored by itself.
        dropout: Before the last layer, in [0, 1).
    """

    def __init__(
        self, width: int, num_labels: int, task: ClassTask, aggregator: Aggregator, dropout: float = 0.1
    ) -> None:
        super().__init__()
        if task == "regression" and num_labels != 1:
            raise ConfigError(f"task 'regression': expected num_labels=1, got {num_labels}")
        self.task = task
        self.aggregator = aggregator
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, num_labels)

    def forward(self, vectors_WD: Tensor, document_bounds: Tensor) -> tuple[Tensor, Tensor | None]:
        """Score documents.

        Args:
            vectors_WD: Window vectors. *Shape:* (W, D).
            document_bounds: Where each document begins, in windows, and the end of the last. *Shape:* (B + 1,).

        Returns:
            Logits, and the weights of the windows where the aggregator has some. *Shape:* (B, K), and (W,) or (W, K).
        """
        vectors, weights = self.aggregator(vectors_WD, document_bounds)
        if not isinstance(self.aggregator, Vote):
            return self._score(vectors), weights
        parts = split_documents(vectors_WD, document_bounds)
        return torch.stack([vote(self._score(part), self.task) for part in parts]), weights

    def _score(self, vectors: Tensor) -> Tensor:
        """Score vectors, or one vector a label. *Shape:* (..., D) or (B, K, D) to (..., K)."""
        vectors = self.dropout(vectors)
        if vectors.dim() == 2:
            return self.linear(vectors)
        return (vectors * self.linear.weight).sum(-1) + self.linear.bias


def class_probs(logits_BK: Tensor, task: ClassTask) -> Tensor:
    """Probabilities in float32; in regression the answers as they are. *Shape:* (B, K)."""
    logits_BK = logits_BK.float()
    if task == "single_label":
        return torch.softmax(logits_BK, -1)
    return torch.sigmoid(logits_BK) if task == "multi_label" else logits_BK
