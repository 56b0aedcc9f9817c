"""What the optimiser does, in numbers."""

from typing import Any

import lightning as L
import torch
from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy
from torch import Tensor
from torch.optim import Optimizer

_SHARDED = (DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy)


def gradient_norm(optimizer: Optimizer) -> Tensor:
    """The norm of all gradients that an optimiser is about to use. *Shape:* ()."""
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    return torch.nn.utils.get_total_norm(gradients)


class OptimizerMonitor(L.Callback):
    """Logs the highest learning rate as ``train/lr`` and the gradient norm before clipping as ``train/grad_norm``.

    It does so as often as the Trainer logs. The norm is left out where no process holds all gradients.
    """

    def on_before_optimizer_step(self, trainer: Any, pl_module: L.LightningModule, optimizer: Optimizer) -> None:
        if (trainer.global_step + 1) % trainer.log_every_n_steps == 0:
            rate = max(float(group["lr"]) for group in optimizer.param_groups)
            pl_module.log("train/lr", rate)
            if not isinstance(trainer.strategy, _SHARDED):
                pl_module.log("train/grad_norm", gradient_norm(optimizer))
