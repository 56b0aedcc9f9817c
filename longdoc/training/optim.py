"""Optimiser and schedule."""

import math
from dataclasses import dataclass
from typing import Literal

from torch import nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from longdoc.errors import ConfigError

Schedule = Literal["linear", "cosine", "constant"]


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with warm-up and decay.

    Args:
        lr: Highest learning rate.
        weight_decay: Of matrices; biases and norms have none.
        warmup_ratio: Share of the steps in which the rate grows from 0, in [0, 1].
        schedule: What follows the warm-up: ``linear`` or ``cosine`` to 0, or ``constant``.
    """

    lr: float = 5e-5
    weight_decay: float = 0.01
    warmup_ratio: float = 0.1
    schedule: Schedule = "linear"

    def __post_init__(self) -> None:
        if self.lr <= 0:
            raise ConfigError(f"optim.lr={self.lr}: expected a number above 0")
        if not 0 <= self.warmup_ratio <= 1:
            raise ConfigError(f"optim.warmup_ratio={self.warmup_ratio}: expected a share between 0 and 1")
        if self.schedule not in ("linear", "cosine", "constant"):
            raise ConfigError(f"optim.schedule={self.schedule!r}: expected 'linear', 'cosine' or 'constant'")

    def build(self, model: nn.Module, num_steps: int) -> tuple[Optimizer, LambdaLR]:
        """Build the optimiser of a model and its schedule over ``num_steps`` optimiser steps."""
        # One pass over the memory of each parameter instead of a dozen: a tenth of a step of a small encoder.
        on_cpu = all(p.device.type == "cpu" for p in model.parameters())
        optimizer = AdamW(parameter_groups(model, self.weight_decay), lr=self.lr, fused=on_cpu)
        num_warmup = round(self.warmup_ratio * num_steps)
        return optimizer, LambdaLR(optimizer, lambda step: lr_factor(self.schedule, step, num_warmup, num_steps))


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Two groups of trainable parameters: matrices with weight decay, biases and norms without."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def lr_factor(schedule: Schedule, step: int, num_warmup: int, num_steps: int) -> float:
    """Share of the highest learning rate at a step, in [0, 1]."""
    if step < num_warmup:
        return step / num_warmup
    if schedule == "constant":
        return 1.0
    left = min(1.0, max(0.0, (num_steps - step) / max(1, num_steps - num_warmup)))
    return left if schedule == "linear" else 0.5 * (1 - math.cos(math.pi * left))
