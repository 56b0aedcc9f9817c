"""longdoc's attention under any Hugging Face encoder that lets its attention be replaced.

`use_longdoc_attention` serves ordinary padded batches. A packed stream is fed as one row, with
``model(input_ids, position_ids=..., longdoc_pattern=packed_pattern(model, lengths))``.

Shapes: B rows, L slots of a row, T tokens of a packed stream, H heads, D width of a head.
"""

import inspect
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedConfig, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface

from longdoc.attention import Pattern, alibi_slopes, attend
from longdoc.attention.engine import BACKENDS, Backend
from longdoc.attention.pattern import Control
from longdoc.errors import ConfigError, check_choice, check_integer, check_switch
from longdoc.models.hf_positions import Positions, num_positions, position_ids, set_positions_
from longdoc.models.hf_probes import encoder_input, evaluation

log = logging.getLogger(__name__)

NAME = "longdoc"
"""The name under which transformers knows this attention."""
_KEYWORD = "longdoc_pattern"
_ADVICE = "use strategy=chunk, which leaves the attention of the encoder as it is"


@dataclass(frozen=True)
class AttentionConfig:
    """Who sees whom inside a segment, and how tokens know their place.

    Args:
        left: Neighbours seen before a token, itself not counted; None for all.
        right: Neighbours seen after a token, itself not counted; None for all.
        global_tokens: Positions in the segment whose tokens see and are seen by all of it.
        global_token_ids: Vocabulary ids whose tokens are global wherever they stand, such as a separator.
        alibi: Whether distances count against a key. An encoder that never saw this must be trained further.
        positions: ``auto`` repeats a learned table that is too short, ``alibi`` turns distances on as well; see
            ``set_positions_``.
        control: ``uniform`` in place of attention; None for attention. See ``Pattern``.
        backend: What computes it; see ``choose_backend``.
        packed: ``auto`` packs windows into one stream where the encoder allows it, ``never`` pads them.
    """

    left: int | None = None
    right: int | None = None
    global_tokens: Sequence[int] = ()
    global_token_ids: Sequence[int] = ()
    alibi: bool = False
    positions: Positions = "auto"
    control: Control | None = None
    backend: Backend = "auto"
    packed: Literal["auto", "never"] = "auto"

    def __post_init__(self) -> None:
        for name, value in (("left", self.left), ("right", self.right)):
            if value is not None:
                check_integer(f"attention.{name}", value, 0)
        check_switch("attention.alibi", self.alibi)
        for name, kind in (("global_tokens", "positions"), ("global_token_ids", "ids")):
            chosen = getattr(self, name)
            if not isinstance(chosen, (list, tuple)) or any(type(p) is not int or p < 0 for p in chosen):
                raise ConfigError(f"attention.{name}={chosen!r}: expected a list of {kind} from 0, such as [0]")
            object.__setattr__(self, name, tuple(chosen))
        for name, choices in (
            ("positions", get_args(Positions)),
            ("control", (None, *get_args(Control))),
            ("backend", BACKENDS),
            ("packed", ("auto", "never")),
        ):
            check_choice(f"attention.{name}", getattr(self, name), choices)

    @property
    def is_plain(self) -> bool:
        """Whether it asks for nothing that the encoder's own attention does not do."""
        return (
            self.positions in ("auto", "native") and replace(self, positions="auto", packed="auto") == AttentionConfig()
        )


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
        left: As all that is not told here, see `AttentionConfig`.
        right: See there.
        global_tokens: "first", positions within the segment, or None.
        global_token_ids: See there.
        alibi: See there.
        positions: See there.
        max_tokens: Longest segment that must fit the position table; None for what fits already.
        control: See there.
        backend: See there.

    Returns:
        The same model.

    Raises:
        ConfigError: An encoder whose attention cannot be replaced, or settings that cannot work.
    """
    chosen = (0,) if global_tokens == "first" else () if global_tokens is None else global_tokens
    config = AttentionConfig(left, right, chosen, global_token_ids, alibi, positions, control, backend)
    return apply_attention(model, config, max_tokens)


def apply_attention(
    model: PreTrainedModel, attention: AttentionConfig, max_tokens: int | None = None
) -> PreTrainedModel:
    """Do what ``use_longdoc_attention`` does, by a configuration."""
    require_replaceable(model)
    attention = replace(attention, alibi=attention.alibi or attention.positions == "alibi")
    before = getattr(model.config, "longdoc", None) or {}
    if before.get("positions") == "alibi" and attention.positions != "alibi":
        raise ConfigError(
            f"positions={attention.positions!r}: the position table of this {type(model).__name__} was silenced for "
            "positions='alibi', and without that it would not know the order of its tokens; expected 'alibi' again"
        )
    was_set = (before.get("positions"), before.get("max_tokens")) == (attention.positions, max_tokens)
    if attention.positions not in ("tile", "interpolate") or not was_set:
        set_positions_(model, attention.positions, max_tokens)
    model.set_attn_implementation(NAME)
    base: Any = model.base_model
    for config in {id(part.config): part.config for part in (model, base)}.values():
        plain = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(attention).items()}
        config.longdoc = {**plain, "max_tokens": max_tokens}
    if not any(isinstance(hook, _GivePattern) for hook in base._forward_pre_hooks.values()):
        base.register_forward_pre_hook(_GivePattern(), with_kwargs=True)
    return model


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


def settings_of(config: PreTrainedConfig) -> AttentionConfig | None:
    """Read the settings from a configuration; None where longdoc's attention is not used."""
    kept = getattr(config, "longdoc", None)
    return kept and AttentionConfig(**{name: value for name, value in kept.items() if name != "max_tokens"})


def packed_pattern(model: PreTrainedModel, lengths: Sequence[int] | Tensor, input_ids: Tensor | None = None) -> Pattern:
    """Describe a packed stream with the settings of a model.

    Args:
        model: After `use_longdoc_attention`.
        lengths: Tokens of each segment.
        input_ids: Of the stream; needed where token ids are global. *Shape:* (T,) or (1, T).
    """
    return _with_settings(model.config, Pattern.packed(lengths), input_ids)


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


def packing_error(model: PreTrainedModel) -> float:
    """Run two segments packed and each alone, and give the largest difference, relative to the largest hidden state.

    An encoder that mixes neighbouring tokens outside its attention (MobileBERT), or counts over the row (ESM), shows
    here.

    Args:
        model: After `use_longdoc_attention`.
    """
    base: Any = model.base_model
    table = base.get_input_embeddings()
    lengths = (9, 6)
    generator = torch.Generator().manual_seed(0)
    first, last = table.num_embeddings // 4, 3 * table.num_embeddings // 4
    ids = torch.randint(first, max(first + 1, last), (sum(lengths),), generator=generator)
    mask_id = getattr(model.config, "mask_token_id", None)
    if mask_id is not None and mask_id < table.num_embeddings:
        ids[1] = mask_id
    ids = ids.to(table.weight.device)
    with evaluation(base):
        packed = base(**packed_inputs(base, ids, packed_pattern(base, lengths, ids))).last_hidden_state[0]
        alone = [base(input_ids=part[None], attention_mask=torch.ones_like(part[None])) for part in ids.split(lengths)]
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
    kept = getattr(getattr(module, "config", None), "longdoc", None)
    backend: Backend = "auto" if kept is None else kept["backend"]
    out = attend(query, key, value, pattern, scale=scaling, dropout=dropout, backend=backend)
    return out.transpose(1, 2), None


def mask_forward(attention_mask: Tensor | None = None, **_: Any) -> Tensor | None:
    """Keep the mask at one boolean a token, as `AttentionMaskInterface` calls it. *Shape:* (B, L)."""
    return attention_mask


class _GivePattern:
    """Builds the pattern of a padded batch once per forward, before the encoder runs."""

    def __call__(self, model: PreTrainedModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        ids, pattern = encoder_input(model, args, kwargs)
        mask = kwargs.get("attention_mask")
        if kwargs.get(_KEYWORD) is None:
            pattern = _with_settings(model.config, pattern, ids)
        elif mask is not None and int(mask.sum()) != pattern.num_tokens:
            raise ConfigError(
                f"attention_mask has {int(mask.sum())} real tokens, {_KEYWORD} {pattern.num_tokens}: pass one of them"
            )
        served, longest = num_positions(model), max(pattern.lengths, default=0)
        if served is not None and longest > served:
            raise ConfigError(
                f"a segment has {longest} tokens, the position table of {type(model).__name__} serves {served}: call "
                f"use_longdoc_attention(model, ..., max_tokens={longest})"
            )
        return args, {**kwargs, _KEYWORD: pattern}


def _with_settings(config: PreTrainedConfig, bare: Pattern, input_ids: Tensor | None) -> Pattern:
    """Give segments the settings of a configuration. *Shape of the ids:* that of the batch, or (T,)."""
    settings = settings_of(config)
    if settings is None:
        raise ConfigError("the configuration holds no longdoc settings: call use_longdoc_attention(model, ...) first")
    marked = torch.isin(bare.positions, torch.tensor(settings.global_tokens or (-1,)))
    if settings.global_token_ids:
        if input_ids is None:
            raise ConfigError("global_token_ids: the ids of the batch are needed to find them, got embeddings only")
        ids = input_ids.flatten().cpu()
        ids = ids if bare.slots is None else ids[bare.slots.cpu()]
        marked = marked | torch.isin(ids, torch.tensor(settings.global_token_ids))
    return replace(
        bare,
        left=settings.left,
        right=settings.right,
        global_tokens=marked if marked.any() else None,
        slopes=alibi_slopes(config.num_attention_heads) if settings.alibi else None,
        control=settings.control,
    )


AttentionInterface.register(NAME, attention_forward)
AttentionMaskInterface.register(NAME, mask_forward)
