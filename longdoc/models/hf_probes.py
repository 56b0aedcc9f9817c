"""Attention measured in every layer of a Hugging Face encoder, while it runs as it is.

Shapes: B rows, L slots of a row, H heads, D width of a head.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor, nn
from transformers import PreTrainedModel

from longdoc.attention.pattern import Pattern
from longdoc.attention.probes import AttentionRow, attention_rows, head_entropy

_active: ContextVar["AttentionRecord | None"] = ContextVar("longdoc_attention_record", default=None)


class AttentionRecord:
    """What `record_attention` collects.

    Args:
        model: The model that is measured; others that run meanwhile are not.
        tokens: Tokens whose weights are kept, counted along the real tokens of each batch.
    """

    def __init__(self, model: PreTrainedModel, tokens: Sequence[int] = ()) -> None:
        self.tokens = tuple(tokens)
        self.rows: list[list[AttentionRow]] = []
        self._modules = {id(module) for module in model.modules()}
        self._num_layers = int(model.config.num_hidden_layers)
        self._sums: list[Tensor] = []
        self._counts: list[int] = []
        self._calls = 0

    @property
    def entropy(self) -> list[Tensor]:
        """Mean entropy of each head in each layer, over all tokens seen, in nats. *Shape:* (H,) for each layer."""
        return [total / count for total, count in zip(self._sums, self._counts, strict=True)]

    def add(self, module: nn.Module, q: Tensor, k: Tensor, pattern: Pattern, scale: float | None) -> None:
        """Measure one call of one layer; layers are told apart by the order of their calls.

        Args:
            module: The attention of the layer.
            q: Queries. *Shape:* (B, H, L, D).
            k: Keys. *Shape:* (B, H, L, D).
            pattern: Who may see whom.
            scale: Factor of the scores.
        """
        if id(module) not in self._modules:
            return
        layer = self._calls % self._num_layers
        self._calls += 1
        total = head_entropy(q, k, pattern, scale) * pattern.num_tokens
        rows = attention_rows(q, k, pattern, self.tokens, scale)
        if layer == len(self._sums):
            self._sums.append(total)
            self._counts.append(pattern.num_tokens)
            self.rows.append(rows)
        else:
            self._sums[layer] += total
            self._counts[layer] += pattern.num_tokens
            self.rows[layer] = rows


@contextmanager
def record_attention(model: PreTrainedModel, tokens: Sequence[int] = ()) -> Iterator[AttentionRecord]:
    """Measure the attention of every forward pass inside the block; run no backward pass with checkpointing in it.

    Args:
        model: After `use_longdoc_attention`.
        tokens: Tokens whose weights are kept for the last batch, counted along its real tokens.
    """
    record = AttentionRecord(model, tokens)
    token = _active.set(record)
    try:
        yield record
    finally:
        _active.reset(token)


def active_record() -> AttentionRecord | None:
    """Give the record of the innermost `record_attention` block."""
    return _active.get()
