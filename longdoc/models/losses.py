"""Losses: a sum over labelled items divided by their number, so that it depends on neither ranks nor accumulation.

Shapes: N items (words or documents), B documents, K tags or labels, C classes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from longdoc.errors import ConfigError, check_choice, check_share
from longdoc.text.classes import ClassTask

ClassWeighting = Literal["none", "inverse", "inverse_sqrt", "effective"]


@dataclass(frozen=True)
class LossConfig:
    """What is done about rare classes and sure answers.

    Args:
        weight: ``none``, ``inverse`` or ``inverse_sqrt`` of a class's count, or ``effective``; see ``class_weights``.
        focal_gamma: How much easy items count less; 0 for cross-entropy.
        label_smoothing: Share of the gold that is spread over all classes, in [0, 1).
        beta: Of ``effective``, in [0, 1).
    """

    weight: ClassWeighting = "none"
    focal_gamma: float = 0.0
    label_smoothing: float = 0.0
    beta: float = 0.999

    def __post_init__(self) -> None:
        check_choice("loss.weight", self.weight, get_args(ClassWeighting))
        if type(self.focal_gamma) not in (int, float) or not 0 <= self.focal_gamma < math.inf:
            raise ConfigError(f"loss.focal_gamma={self.focal_gamma!r}: expected 0 or more")
        check_share("loss.label_smoothing", self.label_smoothing)
        check_share("loss.beta", self.beta)


_CROSS_ENTROPY = LossConfig()


def class_weights(counts: Sequence[int] | Tensor, method: ClassWeighting, beta: float = 0.999) -> Tensor | None:
    """Weights of classes from how often they occur; their mean over the training items is 1.

    Args:
        counts: Training items of each class: ``(K,)`` where one is told, and in multi-label ``(K, 2)``, the documents
            without and with each label, for each label is a question of its own. A class without items counts one.
        method: ``inverse`` of the count, of its square root (``inverse_sqrt``), or of the ``effective`` number of items
            ``(1 - beta^n) / (1 - beta)``; ``none`` for no weights.
        beta: Of ``effective``, in [0, 1): at 0 all classes weigh the same, near 1 it is ``inverse``.

    Returns:
        *Shape:* that of the counts; None for ``none``.

    **Source:** ``effective``: Cui et al. (2019), equation 2.
    """
    LossConfig(method, beta=beta)
    if method == "none":
        return None
    counts = torch.as_tensor(counts, dtype=torch.float64).clamp(min=1)
    size = {"inverse": counts, "inverse_sqrt": counts.sqrt(), "effective": (1 - beta**counts) / (1 - beta)}[method]
    return (counts.sum(-1, keepdim=True) / (counts / size).sum(-1, keepdim=True) / size).float()


def tagging_loss(
    logits_NK: Tensor,
    tags_N: Tensor,
    num_labelled: int | None = None,
    weight_K: Tensor | None = None,
    loss: LossConfig = _CROSS_ENTROPY,
) -> Tensor:
    """Cross-entropy or focal loss of items of one class each: the sum over labelled items divided by their number.

    Args:
        logits_NK: *Shape:* (N, K).
        tags_N: Gold, -100 where there is nothing to learn. *Shape:* (N,).
        num_labelled: Number to divide by; by default the labelled items given.
        weight_K: Factor of the items of each class; the sum is still divided by the number of items. *Shape:* (K,).
        loss: How sure answers count: an item of probability p ``(1 - p) ** focal_gamma``.

    **Source:** Lin et al. (2017), equation 5.
    """
    if num_labelled is None:
        num_labelled = int((tags_N != -100).sum())
    if loss.focal_gamma == 0:
        smoothing = loss.label_smoothing
        total = F.cross_entropy(logits_NK.float(), tags_N, weight_K, reduction="sum", label_smoothing=smoothing)
    else:
        total = _focal(torch.log_softmax(logits_NK.float(), -1), tags_N, weight_K, loss).sum()
    return total / max(num_labelled, 1)


def classification_loss(
    logits_BK: Tensor,
    targets: Tensor,
    task: ClassTask,
    num_labelled: int | None = None,
    weight: Tensor | None = None,
    loss: LossConfig = _CROSS_ENTROPY,
) -> Tensor:
    """Loss of documents: the sum over labelled documents divided by their number.

    Args:
        logits_BK: *Shape:* (B, K), in regression (B, 1).
        targets: Class of each document, -100 for none, *Shape:* (B,); in multi-label 1, 0 or -100 for each label,
            *Shape:* (B, K); in regression the target, NaN for none, *Shape:* (B,).
        task: ``single_label``, ``multi_label`` (the mean of the labels' binary losses) or ``regression`` (squared
            error).
        num_labelled: Number to divide by; by default the labelled documents given.
        weight: What ``class_weights`` gives. *Shape:* (K,), in multi-label (K, 2).
        loss: See ``tagging_loss``; in multi-label the gold is spread over a label's yes and no.
    """
    if task == "single_label":
        return tagging_loss(logits_BK, targets, num_labelled, weight, loss)
    if task == "regression":
        if weight is not None or loss.focal_gamma or loss.label_smoothing:
            raise ConfigError("loss.weight, loss.focal_gamma and loss.label_smoothing need classes, not a regression")
        known = ~targets.isnan()
        errors = (logits_BK[:, 0].float() - targets.nan_to_num()) ** 2 * known
    else:
        if weight is not None and weight.shape != (logits_BK.shape[1], 2):
            raise ConfigError(
                f"multi-label weight: expected shape {(logits_BK.shape[1], 2)}, got {tuple(weight.shape)}; give "
                "class_weights the documents without and with each label"
            )
        answers_BK = targets.long()
        known = (answers_BK != -100).any(-1)
        log_probs_BKC = torch.stack((F.logsigmoid(-logits_BK.float()), F.logsigmoid(logits_BK.float())), -1)
        errors = _focal(log_probs_BKC, answers_BK, weight, loss).mean(-1)
    return errors.sum() / max(int(known.sum()) if num_labelled is None else num_labelled, 1)


def _focal(log_probs: Tensor, gold: Tensor, weight: Tensor | None, how: LossConfig) -> Tensor:
    """Loss of each item, 0 where there is no gold. *Shapes:* (..., C) and (...) to (...)."""
    # The floor keeps the slope of a power below 1 finite where the model is sure.
    doubt = (-log_probs.expm1()).clamp(min=torch.finfo(log_probs.dtype).tiny)
    terms = -(doubt**how.focal_gamma) * log_probs
    if weight is not None:
        terms = terms * weight
    told = terms.gather(-1, gold.clamp(min=0)[..., None]).squeeze(-1)
    spread = how.label_smoothing
    return torch.where(gold == -100, 0.0, (1 - spread) * told + spread * terms.mean(-1))
