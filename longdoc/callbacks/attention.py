"""Monitors of attention: entropy, heads that have become alike, and the size of what is computed."""

import functools
import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import lightning as L
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from longdoc.attention.pattern import Pattern
from longdoc.attention.probes import attention_rows, head_entropy, head_overlap, largest_score, uniform_entropy
from longdoc.callbacks.monitor import ProbeMonitor
from longdoc.models.hf_probes import evaluation

_NUM_ROWS = 32
_FP16 = "fp16 ends at 65,504"


class AttentionEntropy(ProbeMonitor):
    """Logs the entropy of each layer's attention, and warns of heads that collapse or become uniform.

    It counts as a share of what equal weights on all visible keys would give, ``attention/entropy/layer_N`` for the
    mean of the heads. A head has collapsed if its share falls below 0.002, or below 0.1 and a tenth of all that it had
    before. It is uniform if what is missing to 1 falls below 1e-6, or below 0.05 and a tenth of all that was missing.
    """

    def see(self, layer: int, q: Tensor, k: Tensor, pattern: Pattern, scale: float | None) -> None:
        """Measure the heads of a layer; where attention cannot choose there is nothing to see."""
        most = uniform_entropy(pattern)
        if pattern.control is None and most > 0:
            self.seen[layer] = (head_entropy(q, k, pattern, scale) / most).tolist()

    def report(self, trainer: L.Trainer) -> None:
        self.note(trainer, {f"attention/entropy/layer_{n}": sum(row) / len(row) for n, row in self.seen.items()})
        for layer, row in self.seen.items():
            for kind, floor, limit in (("collapsed", 0.002, 0.1), ("uniform", 1e-6, 0.05)):
                missing = row if kind == "collapsed" else [1 - share for share in row]
                sunk = self.sunk({f"{kind}/{layer}/{h}": value for h, value in enumerate(missing)}, limit, floor)
                heads = [int(key.rpartition("/")[2]) for key in sunk]
                told = ", ".join(f"{h} ({row[h]:.2%})" for h in heads)
                self.alarm(sunk, f"layer {layer}: attention is {kind} in heads {told} of the entropy")


class HeadSimilarity(ProbeMonitor):
    """Logs how alike the heads of each layer are, and warns of those that have become the same.

    Alike is the share of their attention that two heads spend on the same keys, mean over tokens and pairs of heads:
    ``attention/similarity/layer_N``. Two heads are the same if what is missing to 1 falls below 1e-6, or below 0.05 and
    a tenth of what was missing before.
    """

    def see(self, layer: int, q: Tensor, k: Tensor, pattern: Pattern, scale: float | None) -> None:
        if q.shape[1] > 1 and pattern.control is None and uniform_entropy(pattern) > 0:
            tokens = torch.linspace(0, pattern.num_tokens - 1, _NUM_ROWS).long().unique().tolist()
            self.seen[layer] = head_overlap(attention_rows(q, k, pattern, tokens, scale)).cpu()

    def report(self, trainer: L.Trainer) -> None:
        numbers = {}
        for layer, overlap in self.seen.items():
            shares = {(a, b): float(overlap[a, b]) for a, b in combinations(range(len(overlap)), 2)}
            numbers[f"attention/similarity/layer_{layer}"] = sum(shares.values()) / len(shares)
            sunk = self.sunk({f"same/{layer}/{a}-{b}": 1 - value for (a, b), value in shares.items()}, 0.05, 1e-6)
            pairs = ", ".join(key.rpartition("/")[2] for key in sunk)
            self.alarm(sunk, f"layer {layer}: same heads {pairs}")
        self.note(trainer, numbers)


def output_sizes(root: nn.Module, part: nn.Module, run: Callable[[], object]) -> dict[str, float]:
    """Run a part of a module and give the largest absolute value that each module in it puts out.

    They stand by their names in the root and in the order in which they end; not finite where an output is not.
    """
    names = {id(module): name for name, module in root.named_modules()}
    sizes: dict[str, Tensor] = {}

    def see(module: nn.Module, _: Any, output: Any) -> None:
        first = output[0] if isinstance(output, (tuple, list)) and output else output
        first = next(iter(output.values()), None) if isinstance(output, dict) else first
        if isinstance(first, Tensor) and first.is_floating_point() and first.numel():
            name, size = names[id(module)], first.detach().abs().amax()
            sizes[name] = torch.maximum(sizes[name], size) if name in sizes else size

    hooks = [module.register_forward_hook(see) for module in part.modules()]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return {name: float(size) for name, size in sizes.items()}


class ScoreRange(ProbeMonitor):
    """Logs the size of attention scores and activations; names the first module whose output is not finite.

    The probe gives ``attention/score/layer_N``, the largest product of a query and a key times its factor, and
    ``activation/largest``. It warns where a product, before the factor, or an activation is larger than ``max_size``,
    as half precision (fp16) ends at 65,504. Where the loss of a step is not finite, the encoder is run again on what it
    read in that step, to find the first module. All other settings are those of ``ProbeMonitor``.
    """

    def __init__(
        self, max_size: float = 32768.0, every_n_steps: int = 100, max_tokens: int = 1024, encoder: str | None = None
    ) -> None:
        super().__init__(every_n_steps, max_tokens, encoder)
        self.max_size = max_size
        self._root: L.LightningModule | None = None
        self._inputs: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._finite: list[Tensor] = []
        self._sizes: dict[str, float] = {}

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        super().on_fit_start(trainer, pl_module)
        assert self._model is not None
        self._root = pl_module

        def remember(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if pl_module.training:
                self._inputs.append((args, kwargs))

        base: Any = self._model.base_model
        self._hooks.insert(0, base.register_forward_pre_hook(remember, with_kwargs=True))

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx % trainer.accumulate_grad_batches == 0:
            self._inputs, self._finite = [], []

    def on_before_backward(self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor) -> None:
        """Note whether the loss is finite, without waiting for the device."""
        self._finite.append(loss.detach().isfinite().all())

    def on_before_optimizer_step(self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Any) -> None:
        """Look for the cause of a loss that is not finite, before the weights change."""
        if not self._finite or self._model is None or bool(torch.stack(self._finite).all()):
            return
        with self.clock():
            inputs, self._inputs = self._inputs, []
            base: Any = self._model.base_model
            with evaluation(base), trainer.precision_plugin.forward_context():
                runs = [functools.partial(base, *args, **kwargs) for args, kwargs in inputs]
                found = [_first_not_finite(output_sizes(pl_module, base, run)) for run in runs]
            names = [f"the first such output is {name}" for name in found if name is not None]
            where = next(iter(names), "the encoder is fine, look at head and loss")
            self.alarm(["loss"], f"step {trainer.global_step + 1}: the loss is not finite; {where}")

    def see(self, layer: int, q: Tensor, k: Tensor, pattern: Pattern, scale: float | None) -> None:
        product = largest_score(q, k, pattern)
        self.seen[layer] = product, product * (q.shape[-1] ** -0.5 if scale is None else scale)

    def run(self, model: PreTrainedModel) -> None:
        assert self._root is not None
        self._sizes = output_sizes(self._root, model.base_model, lambda: super(ScoreRange, self).run(model))

    def report(self, trainer: L.Trainer) -> None:
        """Log sizes, and warn of what does not fit half precision or is not finite."""
        largest = max(self._sizes, key=lambda name: self._sizes[name])
        size = self._sizes[largest]
        scores = {f"attention/score/layer_{layer}": score for layer, (_, score) in self.seen.items()}
        self.note(trainer, {**scores, "activation/largest": size})
        first = _first_not_finite(self._sizes)
        if first is not None:
            self.alarm(["probe"], f"step {trainer.global_step}: the output of {first} is not finite")
            return
        for layer, (product, _) in self.seen.items():
            if product > self.max_size:
                told = f"layer {layer}: products of queries and keys reach {product:,.0f}; {_FP16}"
                self.alarm([f"score/{layer}"], told)
        if size > self.max_size:
            self.alarm(["activation"], f"the output of {largest} reaches {size:,.0f}; {_FP16}")

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        super().teardown(trainer, pl_module, stage)
        self._root, self._inputs, self._finite = None, [], []


def _first_not_finite(sizes: dict[str, float]) -> str | None:
    return next((name for name, size in sizes.items() if not math.isfinite(size)), None)
