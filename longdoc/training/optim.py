"""Optimiser and schedule."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from lightning.pytorch.utilities.rank_zero import rank_zero_info
from torch import nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR
from transformers import get_scheduler

from longdoc.errors import ConfigError, check_choice, check_integer
from longdoc.training.layers import depth_parts

log = logging.getLogger(__name__)

Schedule = Literal["linear", "cosine", "inverse_sqrt", "constant"]


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with warm-up and decay.

    Args:
        lr: Highest learning rate; that of the head.
        weight_decay: Of matrices; biases and norms have none.
        layer_decay: Each layer of the encoder has this share of the rate of the one above it, in (0, 1].
        warmup_steps: Optimiser steps in which the rate grows from 0; None takes ``warmup_ratio``.
        warmup_ratio: The same as a share of all steps, in [0, 1].
        schedule: What follows the warm-up: ``linear`` or ``cosine`` down to 0 at the end of the run, ``inverse_sqrt``
            of the step, or ``constant``.

    **Source:** of ``inverse_sqrt``: Vaswani et al. (2017), equation 3, scaled so that its peak, at the end of the
    warm-up, is 1.
    """

    lr: float = 5e-5
    weight_decay: float = 0.01
    layer_decay: float = 1.0
    warmup_steps: int | None = None
    warmup_ratio: float = 0.1
    schedule: Schedule = "linear"

    def __post_init__(self) -> None:
        if not 0 < self.lr < math.inf:
            raise ConfigError(f"optim.lr={self.lr}: expected a number above 0")
        if not 0 <= self.weight_decay < math.inf:
            raise ConfigError(f"optim.weight_decay={self.weight_decay}: expected a number from 0")
        if not 0 < self.layer_decay <= 1:
            raise ConfigError(f"optim.layer_decay={self.layer_decay}: expected a number above 0, at most 1")
        if self.warmup_steps is not None:
            check_integer("optim.warmup_steps", self.warmup_steps, 0)
        if not 0 <= self.warmup_ratio <= 1:
            raise ConfigError(f"optim.warmup_ratio={self.warmup_ratio}: expected a share between 0 and 1")
        check_choice("optim.schedule", self.schedule, get_args(Schedule))

    def build(self, model: nn.Module, num_steps: float, fused: bool = False) -> tuple[Optimizer, LambdaLR]:
        """Build the optimiser of a model and its schedule.

        Args:
            model: All its parameters that are trained.
            num_steps: Optimiser steps of the run; may be infinite.
            fused: One pass over the memory of each parameter instead of a dozen: a tenth of a step of a small encoder
                on a CPU.
        """
        ratio = self.warmup_ratio if self.warmup_steps is None else 0.0
        if math.isinf(num_steps) and (ratio or self.schedule in ("linear", "cosine")):
            raise ConfigError(
                f"optim.schedule={self.schedule}, optim.warmup_ratio={ratio}: they need the number of steps, and "
                "trainer.max_epochs=-1 sets no end; set it, or trainer.max_steps, or take optim.schedule=constant and "
                "optim.warmup_steps=0"
            )
        groups = layerwise_groups(model, self.lr, self.layer_decay, self.weight_decay)
        if self.layer_decay < 1:
            rank_zero_info(rates_table(groups))
        optimizer = AdamW(groups, lr=self.lr, fused=fused)
        num_warmup = self.warmup_steps or (round(ratio * num_steps) if ratio else 0)
        if num_warmup > num_steps:
            log.warning("optim.warmup_steps=%d: the run ends after %d steps, in the warm-up", num_warmup, num_steps)
        name = "constant_with_warmup" if self.schedule == "constant" else self.schedule
        scale = {"timescale": max(1, num_warmup)} if self.schedule == "inverse_sqrt" else None
        num_training = None if math.isinf(num_steps) else int(num_steps)
        return optimizer, get_scheduler(name, optimizer, num_warmup, num_training, scale)


def layerwise_groups(
    model: nn.Module, lr: float, decay: float, weight_decay: float, encoder: str | None = None
) -> list[dict[str, Any]]:
    """Parameter groups for an optimiser, with a learning rate that falls from the head to the embeddings.

    The head, and all that stands outside the encoder, has ``lr``, the top layer ``lr * decay``, the next one
    ``lr * decay**2``, the embeddings one ``decay`` less than the lowest layer. Biases and norms have no weight decay.
    Frozen parameters are left out and change no other rate.

    **Source:** Howard and Ruder (2018), section 3.2; here the embeddings have a rate of their own.

    Args:
        model: Any module that holds a Hugging Face encoder; with ``decay=1`` any module at all.
        lr: Of the head.
        decay: In (0, 1].
        weight_decay: Of matrices.
        encoder: Dotted name of the encoder, where there are several that are trained.

    Returns:
        Groups with ``params``, ``lr``, ``weight_decay`` and a ``name``; none is empty.

    Raises:
        ConfigError: With ``decay`` below 1, no encoder or more than one; or nothing to train.
    """
    parts = depth_parts(model, encoder) if decay < 1 else [("all", list(model.parameters()))]
    norms = {id(p) for part in model.modules() if "Norm" in type(part).__name__ for p in part.parameters(recurse=False)}
    groups: list[dict[str, Any]] = []
    for depth, (name, parameters) in enumerate(parts):
        trained = [p for p in parameters if p.requires_grad]
        plain = [p for p in trained if getattr(p, "num_dims", p.ndim) <= 1 or id(p) in norms]
        of_plain = {id(p) for p in plain}
        decayed = [p for p in trained if id(p) not in of_plain]
        rate = lr * decay**depth
        groups.append({"params": decayed, "lr": rate, "weight_decay": weight_decay, "name": name})
        groups.append({"params": plain, "lr": rate, "weight_decay": 0.0, "name": f"{name} without weight decay"})
    groups = [group for group in groups if group["params"]]
    if not groups:
        raise ConfigError(f"{type(model).__name__}: expected parameters to train, got only frozen ones")
    return groups


def rates_table(groups: Sequence[dict[str, Any]]) -> str:
    """Show what each parameter group is trained with."""
    width = max(len(group["name"]) for group in groups)
    lines = [f"{'parameters':<{width}}  {'number':>11}  learning rate  weight decay"]
    for group in groups:
        number = sum(p.numel() for p in group["params"])
        lines.append(f"{group['name']:<{width}}  {number:>11,}  {group['lr']:>13.3g}  {group['weight_decay']:>12.3g}")
    return "\n".join(lines)
