"""Encoders: any Hugging Face encoder, fed with a flat batch.

Shapes: T tokens of the batch, W windows, L tokens of the longest window, D width.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from longdoc.attention.engine import Backend
from longdoc.attention.pattern import Control
from longdoc.errors import ConfigError, check_choice
from longdoc.models.batch import Batch
from longdoc.models.hf_attention import (
    packed_inputs,
    packed_pattern,
    require_replaceable,
    self_check,
    settings_of,
    use_longdoc_attention,
)
from longdoc.models.hf_positions import Positions, learned_positions, num_positions, num_special_rows
from longdoc.text.tokens import WordTokenizer

log = logging.getLogger(__name__)

_NO_LIMIT = 10**9
_ATTENTION_DROPOUT_NAMES = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")


class Encoder(nn.Module):
    """Runs a Hugging Face encoder over the windows of a batch.

    Args:
        model: Encoder that returns ``last_hidden_state``.
        pad_id: Fills the windows that are shorter than the longest one, where windows are padded.
        packed: Whether the windows stand in one stream; the model then runs longdoc's attention.
    """

    def __init__(self, model: PreTrainedModel, pad_id: int, packed: bool = False) -> None:
        super().__init__()
        self.model = model
        self.pad_id = pad_id
        self.packed = packed

    @property
    def width(self) -> int:
        """D."""
        return int(self.model.config.hidden_size)

    def forward(self, batch: Batch) -> Tensor:
        """Encode all tokens. *Shape:* (T, D)."""
        return self._packed(batch) if self.packed else self._padded(batch)

    def _packed(self, batch: Batch) -> Tensor:
        pattern = packed_pattern(self.model, batch.lengths, batch.input_ids)
        return self.model(**packed_inputs(self.model, batch.input_ids, pattern)).last_hidden_state[0]

    def _padded(self, batch: Batch) -> Tensor:
        lengths = batch.lengths
        longest = int(lengths.max())
        real = torch.arange(longest, device=lengths.device)[None, :] < lengths[:, None]
        input_ids = torch.full(real.shape, self.pad_id, dtype=torch.long, device=lengths.device)
        input_ids[real] = batch.input_ids
        hidden = self.model(input_ids=input_ids, attention_mask=real.long()).last_hidden_state
        return hidden[real]


@dataclass(frozen=True)
class AttentionConfig:
    """Who sees whom inside a window, and how tokens know their place.

    Args:
        left: Neighbours seen before a token, itself not counted; None for all.
        right: Neighbours seen after a token, itself not counted; None for all.
        global_tokens: Positions in the window whose tokens see and are seen by all of it.
        alibi: Whether distances count against a key.
        positions: ``auto`` repeats a learned table that is too short; see ``set_positions_``.
        control: ``identity`` or ``uniform`` in place of attention; None for attention.
        backend: What computes it; ``auto`` chooses.
        packed: ``auto`` packs windows into one stream where the encoder allows it, ``never`` pads them.
    """

    left: int | None = None
    right: int | None = None
    global_tokens: Sequence[int] = ()
    alibi: bool = False
    positions: Positions = "auto"
    control: Control | None = None
    backend: Backend = "auto"
    packed: Literal["auto", "never"] = "auto"

    def __post_init__(self) -> None:
        check_choice("attention.packed", self.packed, ("auto", "never"))
        chosen = self.global_tokens
        if not isinstance(chosen, (list, tuple)) or any(type(p) is not int or p < 0 for p in chosen):
            raise ConfigError(f"attention.global_tokens={chosen!r}: expected a list of positions from 0, such as [0]")

    @property
    def is_plain(self) -> bool:
        """Whether the encoder's own attention computes the same."""
        chosen = (self.left, self.right, self.control)
        return chosen == (None, None, None) and not self.alibi and self.positions in ("auto", "native")


def set_attention(encoder: Encoder, attention: AttentionConfig, max_tokens: int | None) -> None:
    """Put longdoc's attention under an encoder and pack its windows where it keeps them apart.

    Args:
        encoder: Changed in place.
        attention: What to do.
        max_tokens: Longest window, special tokens included; None for what the position table serves.

    Raises:
        ConfigError: The encoder cannot do what is asked, with the reason.
    """
    beyond = [position for position in attention.global_tokens if max_tokens is not None and position >= max_tokens]
    if beyond:
        raise ConfigError(
            f"attention.global_tokens: {beyond} stand in no window; expected positions below "
            f"windows.size_tokens={max_tokens}"
        )
    if attention.is_plain:
        if attention.packed == "never" and not hasattr(encoder.model.config, "longdoc"):
            return
        try:
            require_replaceable(encoder.model)
        except ConfigError as error:
            log.info("windows are padded, not packed: %s", error)
            return
    use_longdoc_attention(
        encoder.model,
        attention.left,
        attention.right,
        global_tokens=attention.global_tokens,
        alibi=attention.alibi,
        positions=attention.positions,
        max_tokens=max_tokens,
        control=attention.control,
        backend=attention.backend,
    )
    encoder.packed = attention.packed == "auto" and self_check(encoder.model)


def load_tokenizer(name: str, trust_remote_code: bool = False) -> WordTokenizer:
    """Load the tokenizer of an encoder by hub name or folder."""
    tokenizer = _from_hub(AutoTokenizer, name, trust_remote_code=trust_remote_code)
    return word_tokenizer(tokenizer)


def word_tokenizer(tokenizer: PreTrainedTokenizerBase) -> WordTokenizer:
    """Wrap a Hugging Face tokenizer, so that its tokens never mix words."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ConfigError(
            f"tokenizer {type(tokenizer).__name__}: expected a fast one (with a tokenizer.json), which gives offsets"
        )
    stand_in = [tokenizer.unk_token_id, tokenizer.mask_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id]
    unk = next((i for i in stand_in if i is not None), 0)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else unk
    return WordTokenizer(backend, unk_id=unk, pad_id=pad)


def load_encoder(
    name: str,
    attention_dropout: float | None = None,
    trust_remote_code: bool = False,
) -> tuple[Encoder, WordTokenizer]:
    """Load an encoder and its tokenizer by hub name or folder, with float32 weights.

    Args:
        name: Hub name or folder.
        attention_dropout: Replaces the encoder's own; 0 keeps the fast kernel on a CPU. None leaves it.
        trust_remote_code: Whether code that comes with the weights may run.
    """
    config = _from_hub(AutoConfig, name, trust_remote_code=trust_remote_code)
    if attention_dropout is not None:
        set_attention_dropout(config, attention_dropout)
    stored = config.dtype
    model = _from_hub(AutoModel, name, config=config, dtype=torch.float32, trust_remote_code=trust_remote_code)
    if stored not in (None, torch.float32):
        log.info("%s is stored in %s; its master weights are loaded as float32", name, stored)
    tokenizer = load_tokenizer(name, trust_remote_code)
    if tokenizer.vocab_size > model.get_input_embeddings().num_embeddings:
        raise ConfigError(
            f"model.name={name!r}: the tokenizer has {tokenizer.vocab_size} entries, the embedding table "
            f"{model.get_input_embeddings().num_embeddings}; they do not belong together"
        )
    # Hugging Face hands it over in evaluation mode, in which it would be trained without dropout.
    return Encoder(without_pooler(model).train(), tokenizer.pad_id), tokenizer


def encoder_state(encoder: Encoder) -> dict[str, Any]:
    """Everything ``build_encoder`` needs beside the weights, in plain containers."""
    config = json.loads(encoder.model.config.to_json_string(use_diff=False))
    return {"config": config, "pad_id": encoder.pad_id, "packed": encoder.packed}


def build_encoder(state: dict[str, Any]) -> Encoder:
    """Build an encoder with random weights from what ``encoder_state`` kept."""
    kept = dict(state["config"])
    config = AutoConfig.for_model(kept.pop("model_type"), **kept)
    model = without_pooler(AutoModel.from_config(config))
    if hasattr(config, "longdoc"):
        use_longdoc_attention(model, **asdict(settings_of(config)))
    return Encoder(model, state["pad_id"], state["packed"])


def without_pooler(model: PreTrainedModel) -> PreTrainedModel:
    """Remove the pooler: nothing reads it, and a parameter without a gradient stops DDP."""
    if getattr(model, "pooler", None) is not None:
        model.register_module("pooler", None)
    return model


def set_attention_dropout(config: Any, attention_dropout: float) -> None:
    """Set the dropout of attention weights under whatever name the encoder gives it."""
    names = [name for name in _ATTENTION_DROPOUT_NAMES if hasattr(config, name)]
    if not names:
        raise ConfigError(
            f"model.attention_dropout: {config.model_type} has none of {_ATTENTION_DROPOUT_NAMES}; set it to null"
        )
    for name in names:
        setattr(config, name, attention_dropout)


def input_limit(model: PreTrainedModel, tokenizer_limit: int | None = None) -> tuple[int | None, str]:
    """Find the longest input of an encoder, in tokens with the special ones, and where that limit comes from.

    A learned position table bounds it; RoBERTa's family begins to count after the padding id, so that of 514 rows 512
    serve. A tokenizer's own limit counts if it is a real one (some hold 1e30).

    Returns:
        The limit, None if there is none, and its source in words.
    """
    limits: list[tuple[int, str]] = []
    table, served = learned_positions(model), num_positions(model)
    if table is not None and served is not None:
        reserved = num_special_rows(model)
        limits.append((served, f"the position table ({table.num_embeddings} rows, {reserved} reserved)"))
    elif getattr(model.config, "max_position_embeddings", None):
        limits.append((int(model.config.max_position_embeddings), "max_position_embeddings"))
    if tokenizer_limit is not None and tokenizer_limit < _NO_LIMIT:
        limits.append((tokenizer_limit, "the tokenizer's model_max_length"))
    return min(limits) if limits else (None, "no limit")


def _from_hub(factory: Any, name: str, **arguments: Any) -> Any:
    try:
        return factory.from_pretrained(name, **arguments)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"model.name={name!r} cannot be loaded: expected a folder with config.json, tokenizer.json and weights, or "
            f"a name on the hub ({error})"
        ) from error
