"""What reaches a Hugging Face encoder and its attention, seen while it runs as it is.

Shapes: B rows, L slots of a row, T real tokens, H heads, J heads of the keys, D width of a head.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from longdoc.attention.pattern import Pattern
from longdoc.errors import ConfigError

SeeProjections = Callable[[int, Tensor, Tensor, Tensor, Pattern, float | None], None]
"""Takes the layer, queries (B, H, L, D), keys and values (B, J, L, D), who may see whom, and a factor of the scores."""


@contextmanager
def watch_projections(model: PreTrainedModel, see: SeeProjections) -> Iterator[None]:
    """Show the attention of each layer of a model, whatever computes it, in all forward passes inside the block.

    Other models that run meanwhile are not shown. ``eager`` attention gives its result, but no weights, in the block.

    Args:
        model: Encoder, alone or under a head.
        see: Called before each layer attends.

    Raises:
        ConfigError: The attention of this encoder cannot be reached.
    """
    base: Any = model.base_model
    if not base._can_set_attn_implementation():
        raise ConfigError(f"{type(base).__name__}: its attention does not go through AttentionInterface, so not seen")
    if any(getattr(module, "is_causal", False) for module in base.modules()):
        raise ConfigError(f"{type(base).__name__}: causal attention is not supported; expected an encoder")
    mine = {id(module) for module in base.modules()}
    name = base.config._attn_implementation
    usual: Any = ALL_ATTENTION_FUNCTIONS["sdpa" if name == "eager" else name]
    patterns: list[Pattern] = []
    layer = 0

    def begin(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal layer
        patterns[:], layer = [encoder_input(base, args, kwargs)[1]], 0

    def attend(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal layer
        if id(module) in mine and patterns:
            if kwargs.get("position_bias") is not None:
                raise ConfigError(f"{type(module).__name__}: attention with a learned position bias is not seen")
            if kwargs.get("is_causal"):
                raise ConfigError(f"{type(module).__name__}: causal attention is not supported; expected an encoder")
            width = kwargs.get("sliding_window")
            pattern = patterns[0] if width is None else patterns[0].narrowed(width - 1)
            see(layer, q, k, v, pattern, kwargs.get("scaling"))
            layer += 1
        return usual(module, q, k, v, mask, *args, **kwargs)

    hook = base.register_forward_pre_hook(begin, with_kwargs=True)
    try:
        with attention_function(name, attend):
            yield
    finally:
        hook.remove()


@contextmanager
def attention_function(name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Let a function compute the attention of models that run the one of that name, in the block."""
    replaced = ALL_ATTENTION_FUNCTIONS._local_mapping.get(name)
    ALL_ATTENTION_FUNCTIONS[name] = function
    try:
        yield
    finally:
        if replaced is None:
            del ALL_ATTENTION_FUNCTIONS[name]
        else:
            ALL_ATTENTION_FUNCTIONS[name] = replaced


def watch_inputs(model: PreTrainedModel, see: Callable[[Tensor, Pattern], None]) -> RemovableHandle:
    """Show the token ids that an encoder reads, (T,), and their segments, before each forward pass.

    Args:
        model: Encoder, alone or under a head.
        see: Called before the encoder runs.

    Returns:
        Its ``remove`` ends it.
    """
    base: Any = model.base_model

    def begin(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids, pattern = encoder_input(base, args, kwargs)
        if ids is None:
            raise ConfigError(f"{type(base).__name__}: expected input_ids, got {sorted(kwargs)}")
        flat = ids.flatten()
        see(flat if pattern.slots is None else flat[pattern.slots.to(flat.device)], pattern)

    return base.register_forward_pre_hook(begin, with_kwargs=True)


def encoder_input(
    model: PreTrainedModel, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Tensor | None, Pattern]:
    """Read token ids, None where there are none, and segments off the arguments of an encoder's forward pass."""
    given = {**inspect.signature(model.forward).bind_partial(*args).arguments, **kwargs}
    ids, pattern = given.get("input_ids"), given.get("longdoc_pattern")
    if pattern is None:
        mask = given.get("attention_mask")
        if mask is None:
            slots: Any = ids if ids is not None else given["inputs_embeds"]
            mask = torch.ones(slots.shape[:2], dtype=torch.bool, device=slots.device)
        pattern = Pattern.padded(mask)
    return ids, pattern


@contextmanager
def evaluation(module: nn.Module) -> Iterator[None]:
    """Switch dropout and gradients off in the block; each part of the module then has its own mode again."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True


def run_segments(model: PreTrainedModel, segments: Sequence[Sequence[int]]) -> None:
    """Run an encoder over segments of token ids, without dropout."""
    base: Any = model.base_model
    rows = [torch.as_tensor(segment) for segment in segments]
    pad = getattr(base.config, "pad_token_id", None) or 0
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
    mask = nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    device = next(base.parameters()).device
    with evaluation(base):
        base(input_ids=ids.to(device), attention_mask=mask.to(device))
