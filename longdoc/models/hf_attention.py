"""longdoc's attention under any Hugging Face encoder that lets its attention be replaced.

`use_longdoc_attention` serves ordinary padded batches. A packed stream is fed as one row, with
``model(input_ids, position_ids=..., longdoc_pattern=packed_pattern(model, lengths))``.

Shapes: B rows, L slots of a row, T tokens of a packed stream, H heads, D width of a head.
"""

import inspect
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedConfig, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface

from longdoc.attention import Pattern, alibi_slopes, attend
from longdoc.attention.engine import BACKENDS, Backend
from longdoc.attention.pattern import Control
from longdoc.errors import ConfigError
from longdoc.models.hf_positions import Positions, num_positions, position_ids, set_positions_

log = logging.getLogger(__name__)

NAME = "longdoc"
"""The name under which transformers knows this attention."""
_KEYWORD = "longdoc_pattern"
_ADVICE = "use strategy=chunk, which leaves the attention of the encoder as it is"


@dataclass(frozen=True)
class AttentionSettings:
    """What is kept in ``config.longdoc``, as plain values.

    Args:
        left: Neighbours seen before a token, itself not counted; None for all.
        right: Neighbours seen after a token, itself not counted; None for all.
        global_tokens: Positions of the global tokens within each segment.
        global_token_ids: Vocabulary ids whose tokens are global, wherever they stand.
        alibi: Whether distances count against a key.
        control: See `Pattern`.
        backend: See `choose_backend`.
        positions: How the position table was changed; see `set_positions_`.
        max_tokens: Longest segment that had to fit then.
    """

    left: int | None = 256
    right: int | None = 256
    global_tokens: tuple[int, ...] = ()
    global_token_ids: tuple[int, ...] = ()
    alibi: bool = False
    control: Control | None = None
    backend: Backend = "auto"
    positions: Positions = "auto"
    max_tokens: int | None = None


def use_longdoc_attention(
    model: PreTrainedModel,
    left: int | None = 256,
    right: int | None = 256,
    global_tokens: Literal["first"] | Sequence[int] | None = None,
    global_token_ids: Sequence[int] = (),
    alibi: bool = False,
    positions: Positions = "auto",
    max_tokens: int | None = None,
    control: Control | None = None,
    backend: Backend = "auto",
) -> PreTrainedModel:
    """Put longdoc's attention under an encoder, alone or under a head; call it again to change a setting.

    The settings are saved with the configuration. transformers does not save which attention a model runs, so after
    `from_pretrained` call this again.

    Args:
        model: The encoder. It is changed in place.
        left: Neighbours seen before a token, itself not counted; None for all.
        right: Neighbours seen after a token, itself not counted; None for all.
        global_tokens: Tokens that see and are seen by all of their segment: "first", positions within the segment, or
            None.
        global_token_ids: Vocabulary ids whose tokens are global, such as a separator.
        alibi: Whether to add a distance bias. An encoder that never saw one must be trained further.
        positions: See `set_positions_`. "alibi" turns the distance bias on as well.
        max_tokens: Longest segment that must fit the position table; None for what fits already.
        control: None for attention; see `Pattern`.
        backend: See `choose_backend`.

    Returns:
        The same model.

    Raises:
        ConfigError: An encoder whose attention cannot be replaced, or settings that cannot work.
    """
    require_replaceable(model)
    if backend not in BACKENDS:
        raise ConfigError(f"backend={backend!r}: expected one of {BACKENDS}")
    chosen = (0,) if global_tokens == "first" else tuple(int(p) for p in global_tokens or ())
    if any(position < 0 for position in chosen):
        raise ConfigError(f"global_tokens={global_tokens!r}: expected 'first' or positions from 0")
    settings = AttentionSettings(
        left,
        right,
        chosen,
        tuple(global_token_ids),
        alibi or positions == "alibi",
        control,
        backend,
        positions,
        max_tokens,
    )
    Pattern.packed((1,), left, right, control=control)
    if positions not in ("tile", "interpolate") or not _positions_were_set(model, settings):
        set_positions_(model, positions, max_tokens)
    model.set_attn_implementation(NAME)
    base: Any = model.base_model
    for config in {id(part.config): part.config for part in (model, base)}.values():
        config.longdoc = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(settings).items()}
    if not any(isinstance(hook, _GivePattern) for hook in base._forward_pre_hooks.values()):
        base.register_forward_pre_hook(_GivePattern(), with_kwargs=True)
    return model


def _positions_were_set(model: PreTrainedModel, settings: AttentionSettings) -> bool:
    if getattr(model.config, "longdoc", None) is None:
        return False
    before = settings_of(model.config)
    return (before.positions, before.max_tokens) == (settings.positions, settings.max_tokens)


def require_replaceable(model: PreTrainedModel) -> None:
    """Refuse an encoder whose attention cannot be replaced, or that is no encoder.

    Raises:
        ConfigError: With the advice what to use instead.
    """
    name = type(model).__name__
    base: Any = model.base_model
    if not (model._can_set_attn_implementation() and base._can_set_attn_implementation()):
        raise ConfigError(
            f"{name}: its attention does not go through AttentionInterface and cannot be replaced; {_ADVICE}"
        )
    if getattr(model.config, "is_encoder_decoder", False) or getattr(model.config, "is_decoder", False):
        raise ConfigError(f"{name}: expected an encoder, got a model with a decoder; {_ADVICE}")


def settings_of(config: PreTrainedConfig) -> AttentionSettings:
    """Read the settings from a configuration.

    Raises:
        ConfigError: There are none.
    """
    kept = getattr(config, "longdoc", None)
    if kept is None:
        raise ConfigError("the configuration holds no longdoc settings: call use_longdoc_attention(model, ...) first")
    plain: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in kept.items()}
    return AttentionSettings(**plain)


def packed_pattern(model: PreTrainedModel, lengths: Sequence[int] | Tensor, input_ids: Tensor | None = None) -> Pattern:
    """Describe a packed stream with the settings of a model.

    Args:
        model: After `use_longdoc_attention`.
        lengths: Tokens of each segment.
        input_ids: Of the stream; needed where token ids are global. *Shape:* (T,) or (1, T).
    """
    bare = Pattern.packed(lengths)
    ids = None if input_ids is None else input_ids.reshape(1, -1)
    marked = _global_mask(settings_of(model.config), bare.position_ids, ids)
    return _apply(model.config, bare, None if marked is None else marked[0])


def packed_inputs(model: PreTrainedModel, input_ids: Tensor, pattern: Pattern) -> dict[str, Any]:
    """Give all keyword arguments that an encoder needs for a packed stream.

    Args:
        model: After `use_longdoc_attention`.
        input_ids: *Shape:* (T,) or (1, T).
        pattern: From `packed_pattern`.
    """
    ids = input_ids.reshape(1, -1)
    inputs: dict[str, Any] = {"input_ids": ids, _KEYWORD: pattern}
    taken = inspect.signature(model.forward).parameters
    if "position_ids" in taken:
        inputs["position_ids"] = position_ids(model, pattern).to(ids.device)
    if "token_type_ids" in taken:
        # Models without a second type may still take the argument; zeros change nothing there.
        inputs["token_type_ids"] = torch.zeros_like(ids)
    return inputs


@torch.no_grad()
def packing_error(model: PreTrainedModel) -> float:
    """Run two segments packed and each alone, and give the largest difference, relative to the largest hidden state.

    An encoder that mixes neighbouring tokens outside its attention (MobileBERT), or counts over the row (ESM), shows
    here.

    Args:
        model: After `use_longdoc_attention`.
    """
    base: Any = model.base_model
    was_training = base.training
    table = base.get_input_embeddings()
    lengths = (9, 6)
    generator = torch.Generator().manual_seed(0)
    first, last = table.num_embeddings // 4, 3 * table.num_embeddings // 4
    ids = torch.randint(first, max(first + 1, last), (sum(lengths),), generator=generator)
    mask_id = getattr(model.config, "mask_token_id", None)
    if mask_id is not None and mask_id < table.num_embeddings:
        ids[1] = mask_id
    ids = ids.to(table.weight.device)
    base.eval()
    try:
        packed = base(**packed_inputs(base, ids, packed_pattern(base, lengths, ids))).last_hidden_state[0]
        alone = [base(input_ids=part[None], attention_mask=torch.ones_like(part[None])) for part in ids.split(lengths)]
    finally:
        base.train(was_training)
    expected = torch.cat([out.last_hidden_state[0] for out in alone])
    return float((packed - expected).abs().max() / expected.abs().max())


def self_check(model: PreTrainedModel) -> bool:
    """Say whether packed segments stay apart; if not, feed the encoder padded batches."""
    error = packing_error(model)
    limit = 1e-4 if model.dtype in (torch.float32, torch.float64) else 3e-2
    if not error <= limit:
        log.warning(
            "%s mixes neighbouring segments of a packed batch (relative difference %.1e): it gets padded batches",
            type(model).__name__,
            error,
        )
    return error <= limit


def attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001 - the pattern says it
    dropout: float = 0.0,
    scaling: float | None = None,
    longdoc_pattern: Pattern | None = None,
    sliding_window: int | None = None,
    position_bias: Tensor | None = None,
    is_causal: bool | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Compute the attention of one layer, as `AttentionInterface` calls it.

    Args:
        module: The attention of the layer.
        query: *Shape:* (B, H, L, D).
        key: *Shape:* (B, J, L, D).
        value: *Shape:* (B, J, L, D).
        attention_mask: Unused; what it says is in the pattern.
        dropout: Share of the attention weights set to zero.
        scaling: Factor of the scores.
        longdoc_pattern: Who may see whom.
        sliding_window: The layer's own window, as ModernBERT gives it: neighbours on each side plus one.
        position_bias: A learned bias, which is refused.
        is_causal: Whether later tokens are hidden, which is refused.

    Returns:
        The result, and None for the weights. *Shape:* (B, L, H, D).
    """
    if longdoc_pattern is None:
        raise ConfigError(
            f"{type(module).__name__}: no pattern reached the attention; call use_longdoc_attention(model, ...) and "
            f"run the model itself, not a part of it, or pass {_KEYWORD}="
        )
    if is_causal or getattr(module, "is_causal", False):
        raise ConfigError(f"{type(module).__name__}: causal attention is not supported; {_ADVICE}")
    if position_bias is not None:
        raise ConfigError(f"{type(module).__name__}: a learned position bias is not supported; {_ADVICE}")
    pattern = longdoc_pattern if sliding_window is None else longdoc_pattern.narrowed(sliding_window - 1)
    config: Any = getattr(module, "config", None)
    backend = "auto" if getattr(config, "longdoc", None) is None else settings_of(config).backend
    out = attend(query, key, value, pattern, scale=scaling, dropout=dropout, backend=backend)
    return out.transpose(1, 2), None


def mask_forward(attention_mask: Tensor | None = None, **_: Any) -> Tensor | None:
    """Keep the mask at one boolean a token, as `AttentionMaskInterface` calls it. *Shape:* (B, L)."""
    return attention_mask


class _GivePattern:
    """Builds the pattern of a padded batch once per forward, before the encoder runs."""

    def __call__(self, model: PreTrainedModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        given = inspect.signature(model.forward).bind_partial(*args).arguments
        mask = kwargs.get("attention_mask", given.get("attention_mask"))
        ids = kwargs.get("input_ids", given.get("input_ids"))
        pattern = kwargs.get(_KEYWORD)
        if pattern is None:
            if mask is None:
                slots: Any = ids if ids is not None else kwargs.get("inputs_embeds", given.get("inputs_embeds"))
                mask = torch.ones(slots.shape[:2], dtype=torch.bool, device=slots.device)
            pattern = padded_pattern(model.config, mask, ids)
        elif mask is not None and int(mask.sum()) != pattern.num_tokens:
            raise ConfigError(
                f"attention_mask has {int(mask.sum())} real tokens, {_KEYWORD} {pattern.num_tokens}: pass one of them"
            )
        served, longest = num_positions(model), max(pattern.lengths, default=0)
        if served is not None and longest > served:
            raise ConfigError(
                f"a segment has {longest} tokens, the position table of {type(model).__name__} serves {served}: call "
                f"use_longdoc_attention(model, max_tokens={longest}, positions='tile')"
            )
        return args, {**kwargs, _KEYWORD: pattern}


def padded_pattern(config: PreTrainedConfig, mask_BL: Tensor, input_ids: Tensor | None = None) -> Pattern:
    """Describe a padded batch with the settings of a configuration.

    Args:
        config: After `use_longdoc_attention`.
        mask_BL: True or 1 where there is a token. *Shape:* (B, L).
        input_ids: Needed where token ids are global. *Shape:* (B, L).
    """
    if mask_BL.dim() != 2:
        raise ConfigError(f"attention_mask: expected one value a token (rows, slots), got shape {tuple(mask_BL.shape)}")
    real = mask_BL.bool()
    bare = Pattern.padded(real)
    marked = _global_mask(settings_of(config), real.cumsum(1) - 1, input_ids)
    return _apply(config, bare, None if marked is None else marked[real])


def _apply(config: PreTrainedConfig, bare: Pattern, global_tokens: Tensor | None) -> Pattern:
    settings = settings_of(config)
    slopes = alibi_slopes(config.num_attention_heads) if settings.alibi else None
    return Pattern(
        bare.lengths,
        bare.batch_shape,
        settings.left,
        settings.right,
        global_tokens,
        slopes,
        settings.control,
        bare.slots,
    )


def _global_mask(settings: AttentionSettings, position_BL: Tensor, input_ids: Tensor | None) -> Tensor | None:
    if not settings.global_tokens and not settings.global_token_ids:
        return None
    marked = torch.isin(position_BL, torch.tensor(settings.global_tokens or (-2,), device=position_BL.device))
    if settings.global_token_ids:
        if input_ids is None:
            raise ConfigError("global_token_ids: the ids of the batch are needed to find them, got embeddings only")
        wanted = torch.tensor(settings.global_token_ids, device=input_ids.device)
        marked = marked | torch.isin(input_ids, wanted).to(marked.device)
    return marked


AttentionInterface.register(NAME, attention_forward)
AttentionMaskInterface.register(NAME, mask_forward)
