"""What the optimiser does, in numbers, and an end to runs that have come to nothing."""

from typing import Any

import lightning as L
import torch
from torch.optim import Optimizer

from longdoc.errors import ConfigError


class OptimizerMonitor(L.Callback):
    """Logs the highest learning rate as ``train/lr`` and the gradient norm before clipping as ``train/grad_norm``.

    It does so as often as the Trainer logs, and stops a run whose loss is no number.
    """

    def on_before_optimizer_step(self, trainer: Any, pl_module: L.LightningModule, optimizer: Optimizer) -> None:
        """Log the rate and the norm of the step to come."""
        if (trainer.global_step + 1) % trainer.log_every_n_steps == 0:
            gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
            rate = max(float(group["lr"]) for group in optimizer.param_groups)
            pl_module.log_dict({"train/lr": rate, "train/grad_norm": torch.nn.utils.get_total_norm(gradients)})

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """Stop on all processes where the loss of one is not a number."""
        if trainer.global_step % trainer.log_every_n_steps and batch_idx + 1 < trainer.num_training_batches:
            return
        if trainer.strategy.reduce_boolean_decision(bool(torch.isnan(outputs["loss"])), all=False):
            raise ConfigError(
                f"the loss is not a number after {trainer.global_step} steps: lower optim.lr, set "
                "trainer.gradient_clip_val, or train with trainer.precision=32-true"
            )
