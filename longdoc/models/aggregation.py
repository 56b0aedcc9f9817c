"""Aggregation: from the vectors of windows to one vector a document, or one a label.

Documents are read one at a time: nothing is padded, and no document can touch another.

Shapes: W windows of the batch, B documents, N windows of one document, D width, K labels.
"""

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longdoc.attention.positions import sinusoidal
from longdoc.errors import ConfigError, check_choice
from longdoc.text.classes import ClassTask

Method = Literal["mean", "max", "attention", "lstm", "transformer", "vote", "label_attention"]


def split_documents(vectors_WD: Tensor, document_bounds: Tensor) -> list[Tensor]:
    """Cut window vectors up by document; one without windows gets a single zero vector. *Shape of each:* (N, D)."""
    parts = vectors_WD.split(document_bounds.diff().tolist())
    return [part if len(part) else part.new_zeros(1, part.shape[1]) for part in parts]


class Aggregator(nn.Module):
    """Makes the vector of a document from those of its windows; a document without windows reads one zero vector."""

    def forward(self, vectors_WD: Tensor, document_bounds: Tensor) -> tuple[Tensor, Tensor | None]:
        """Aggregate all documents of a batch.

        Args:
            vectors_WD: *Shape:* (W, D).
            document_bounds: Where each document begins, in windows, and the end of the last. *Shape:* (B + 1,).

        Returns:
            Document vectors, and what share each window has in those of its document, None where there is no telling.
            *Shape:* (B, D) and (W,); with one vector a label (B, K, D) and (W, K).
        """
        read = [self.aggregate(part) for part in split_documents(vectors_WD, document_bounds)]
        weights = [w[:n] for (_, w), n in zip(read, document_bounds.diff().tolist(), strict=True) if w is not None]
        return torch.stack([vector for vector, _ in read]), torch.cat(weights) if weights else None

    def aggregate(self, vectors_ND: Tensor) -> tuple[Tensor, Tensor | None]:
        """Aggregate one document of at least one window. *Shape:* (D,) and (N,), or (K, D) and (N, K)."""
        raise NotImplementedError


class Mean(Aggregator):
    """The mean of the windows."""

    def aggregate(self, vectors_ND: Tensor) -> tuple[Tensor, Tensor | None]:
        """Aggregate one document."""
        return vectors_ND.mean(0), torch.ones_like(vectors_ND[:, 0]) / vectors_ND.shape[0]


class Vote(Mean):
    """Makes a head score every window by itself; see ``vote``. The vector of the document is the mean."""


class Max(Aggregator):
    """The largest value of each feature."""

    def aggregate(self, vectors_ND: Tensor) -> tuple[Tensor, Tensor | None]:
        """Aggregate one document."""
        return vectors_ND.amax(0), None


class Attention(Aggregator):
    """A weighted mean whose weights are learned, once or for every label.

    Args:
        width: D.
        num_labels: K, for one vector a label; None for one vector.

    **Source:** Yang et al. (2016), equations 5 to 7, over windows; with labels Vu et al. (2020), equations 6 to 8.
    """

    def __init__(self, width: int, num_labels: int | None = None) -> None:
        super().__init__()
        self.per_label = num_labels is not None
        self.hidden = nn.Linear(width, width)
        self.query = nn.Linear(width, num_labels or 1, bias=False)

    def aggregate(self, vectors_ND: Tensor) -> tuple[Tensor, Tensor | None]:
        """Aggregate one document."""
        scores_NK = self.query(torch.tanh(self.hidden(vectors_ND)))
        weights_NK = torch.softmax(scores_NK.float(), 0).to(vectors_ND.dtype)
        vectors_KD = weights_NK.T @ vectors_ND
        return (vectors_KD, weights_NK) if self.per_label else (vectors_KD[0], weights_NK[:, 0])


class LSTM(Aggregator):
    """The last states of a bidirectional LSTM over the windows.

    Args:
        width: D, even: each direction gives a half.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 2:
            raise ConfigError(f"aggregation 'lstm': expected an even width, got {width}; use 'transformer'")
        self.lstm = nn.LSTM(width, width // 2, bidirectional=True)

    def aggregate(self, vectors_ND: Tensor) -> tuple[Tensor, Tensor | None]:
        """Aggregate one document."""
        _, (last_2D, _) = self.lstm(vectors_ND)
        return last_2D.flatten(), None


class Transformer(Aggregator):
    """The mean of what a transformer layer makes of the windows; sinusoidal positions, so any number of windows.

    It has four heads, or as many below as divide the width.

    Args:
        width: D.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        num_heads = next(n for n in (4, 3, 2, 1) if width % n == 0)
        self.layer = nn.TransformerEncoderLayer(width, num_heads, 4 * width, activation=F.gelu, batch_first=True)

    def aggregate(self, vectors_ND: Tensor) -> tuple[Tensor, Tensor | None]:
        """Aggregate one document."""
        placed_ND = vectors_ND + sinusoidal(*vectors_ND.shape).to(vectors_ND)
        return self.layer(placed_ND[None])[0].mean(0), None


def build_aggregator(method: Method, width: int, num_labels: int | None = None) -> Aggregator:
    """Build an aggregator by name; K is for ``label_attention``."""
    check_choice("aggregation", method, get_args(Method))
    if method == "transformer":
        return Transformer(width)
    if method == "lstm":
        return LSTM(width)
    if method == "attention":
        return Attention(width)
    if method == "label_attention":
        if num_labels is None:
            raise ConfigError("aggregation 'label_attention': expected num_labels, got None")
        return Attention(width, num_labels)
    return {"mean": Mean, "max": Max, "vote": Vote}[method]()


def vote(logits_NK: Tensor, task: ClassTask) -> Tensor:
    """Logits of the mean of the windows' probabilities; in regression the mean of their answers. *Shape:* (K,).

    Of probabilities, not of their logarithms: the mean of those would be what a linear head makes of the mean vector.
    """
    logits_NK = logits_NK.float()
    if task == "single_label":
        return torch.log_softmax(logits_NK, -1).logsumexp(0) - torch.zeros_like(logits_NK).logsumexp(0)  # log(N)
    if task == "multi_label":
        return F.logsigmoid(logits_NK).logsumexp(0) - F.logsigmoid(-logits_NK).logsumexp(0)
    return logits_NK.mean(0)
