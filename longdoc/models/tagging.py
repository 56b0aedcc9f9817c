"""Tagging: from token vectors to the tags of words.

Shapes: T tokens of the batch, N items (words to label), D width, K tags.
"""

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from longdoc.errors import check_choice
from longdoc.models.batch import Batch

Subword = Literal["first", "mean", "max"]


def pool_words(hidden_TD: Tensor, batch: Batch, subword: Subword = "first") -> Tensor:
    """One vector a word from the vectors of its tokens; the same for training and prediction.

    Args:
        hidden_TD: *Shape:* (T, D).
        batch: Says which token belongs to which word.
        subword: ``first`` token, or ``mean`` or ``max`` over the tokens in the window.

    Returns:
        *Shape:* (N, D).
    """
    if subword == "first":
        return hidden_TD[batch.item_token]
    check_choice("subword", subword, get_args(Subword))
    inside = batch.token_item >= 0
    index = batch.token_item[inside][:, None].expand(-1, hidden_TD.shape[1])
    pooled = hidden_TD.new_zeros(len(batch.item_token), hidden_TD.shape[1])
    reduction = "mean" if subword == "mean" else "amax"
    return pooled.scatter_reduce(0, index, hidden_TD[inside], reduction, include_self=False)


class TaggingHead(nn.Module):
    """Dropout and a linear layer over word vectors.

    Args:
        width: D.
        num_tags: K.
        subword: How the tokens of a word become its vector.
        dropout: Probability in [0, 1).
    """

    def __init__(self, width: int, num_tags: int, subword: Subword = "first", dropout: float = 0.1) -> None:
        super().__init__()
        self.subword = subword
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, num_tags)

    def forward(self, hidden_TD: Tensor, batch: Batch) -> Tensor:
        """Score the tags of every word. *Shape:* (N, K)."""
        return self.linear(self.dropout(pool_words(hidden_TD, batch, self.subword)))


def tag_probs(logits_NK: Tensor) -> Tensor:
    """Probabilities in float32. *Shape:* (N, K)."""
    return torch.softmax(logits_NK.float(), dim=-1)
