"""Parts of a model that do not learn: from the start, or until their turn comes."""

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase

import lightning as L
from lightning.pytorch.utilities.rank_zero import rank_zero_info
from torch import nn
from torch.optim import Optimizer

from longdoc.errors import ConfigError
from longdoc.training.layers import depth_parts


def freeze_(
    model: nn.Module,
    layers: int = 0,
    embeddings: bool = False,
    patterns: Sequence[str] = (),
    encoder: str | None = None,
) -> None:
    """Freeze parameters in place, before the optimiser is built.

    Args:
        model: Any module; for ``layers`` and ``embeddings`` one that holds a Hugging Face encoder.
        layers: How many layers, counted from the lowest.
        embeddings: Whether the embeddings are frozen.
        patterns: Shell patterns of parameter names, such as ``*.bias``.
        encoder: Dotted name of the encoder, where there are several.

    Raises:
        ConfigError: A pattern matches nothing, there are not so many layers, or nothing is left to train.
    """
    if isinstance(patterns, str):
        raise ConfigError(f"freeze: patterns={patterns!r}: expected a list, such as [{patterns!r}]")
    frozen: list[nn.Parameter] = []
    if layers or embeddings:
        lowest_first = [parameters for _, parameters in reversed(depth_parts(model, encoder))]
        num_layers = len(lowest_first) - 2
        if not 0 <= layers <= num_layers:
            raise ConfigError(f"freeze: layers={layers}: expected a number from 0 to {num_layers}")
        frozen += [p for part in lowest_first[1 : 1 + layers] for p in part]
        frozen += lowest_first[0] if embeddings else []
    named = dict(model.named_parameters())
    for pattern in patterns:
        matched = [p for name, p in named.items() if fnmatchcase(name, pattern)]
        if not matched:
            raise ConfigError(f"freeze: pattern {pattern!r} matches no parameter; there is {', '.join(named)}")
        frozen += matched
    for parameter in frozen:
        parameter.requires_grad_(False)
    if frozen and not any(p.requires_grad for p in named.values()):
        raise ConfigError("freeze: nothing is left to train; expected fewer layers or narrower patterns")


class GradualUnfreezing(L.Callback):
    """Trains the head alone at first, then more layers each epoch, from the top down, the embeddings last.

    The optimiser holds all parameters from the start, and leaves those alone that have no gradient. What learns follows
    from the epoch, so a resumed run goes on as it would have. What was frozen before the fit stays frozen.

    **Source:** Howard and Ruder (2018), section 3.3; here the head has epochs of its own.

    Args:
        head_epochs: Epochs in which the head learns alone.
        layers_per_epoch: Layers that join in each later epoch.
        encoder: Dotted name of the encoder, where there are several.
    """

    def __init__(self, head_epochs: int = 1, layers_per_epoch: int = 1, encoder: str | None = None) -> None:
        if head_epochs < 0 or layers_per_epoch < 1:
            raise ConfigError(
                "GradualUnfreezing: expected head_epochs from 0 and layers_per_epoch from 1, got "
                f"head_epochs={head_epochs}, layers_per_epoch={layers_per_epoch}"
            )
        self.head_epochs = head_epochs
        self.layers_per_epoch = layers_per_epoch
        self.encoder = encoder
        self._parts: list[list[nn.Parameter]] = []

    def _waiting(self, epoch: int) -> list[nn.Parameter]:
        num_learning = 1 + max(0, epoch - self.head_epochs + 1) * self.layers_per_epoch
        return [p for part in self._parts[num_learning:] for p in part]

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Freeze what has to wait, also in a run that is resumed within an epoch."""
        self._parts = [[p for p in part if p.requires_grad] for _, part in depth_parts(pl_module, self.encoder)]
        needed = self.head_epochs + math.ceil((len(self._parts) - 1) / self.layers_per_epoch)
        if trainer.max_epochs is not None and 0 <= trainer.max_epochs < needed:
            rank_zero_info(f"GradualUnfreezing: {needed} epochs until all learns, the run has {trainer.max_epochs}")
        self.on_train_epoch_start(trainer, pl_module)

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Let more parts learn."""
        if trainer.world_size > 1:
            return  # Data-parallel wrappers wait for the gradient of every parameter that had one when they were made.
        waiting = {id(p) for p in self._waiting(trainer.current_epoch)}
        for parameter in (p for part in self._parts for p in part):
            parameter.requires_grad_(id(parameter) not in waiting)

    def on_before_optimizer_step(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        optimizer: Optimizer,
    ) -> None:
        """Drop the gradients of what has to wait."""
        for parameter in self._waiting(trainer.current_epoch):
            parameter.grad = None

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Leave the module as it was."""
        self._release()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """Leave the module as it was."""
        self._release()

    def _release(self) -> None:
        for parameter in (p for part in self._parts for p in part):
            parameter.requires_grad_(True)
        self._parts = []
