"""Encoders: any Hugging Face encoder, fed with a flat batch.

Shapes: T tokens of the batch, W windows, L tokens of the longest window, D width.
"""

import copy
import json
import logging
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from longdoc.errors import ConfigError
from longdoc.models.batch import Batch
from longdoc.models.hf_attention import (
    AttentionConfig,
    apply_attention,
    packed_inputs,
    packed_pattern,
    require_replaceable,
    self_check,
    settings_of,
)
from longdoc.models.hf_positions import learned_positions, num_positions, num_special_rows
from longdoc.text.tokens import WordTokenizer

log = logging.getLogger(__name__)

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
    config: Any = encoder.model.config
    if attention.is_plain and attention.packed == "never" and settings_of(config) is None:
        return
    try:
        require_replaceable(encoder.model)
    except ConfigError as error:
        if not attention.is_plain:
            values = [(field, getattr(attention, field.name)) for field in fields(attention)]
            asked = ", ".join(f"attention.{field.name}={value}" for field, value in values if value != field.default)
            raise ConfigError(f"{asked}: {error}") from error
        log.info("windows are padded, not packed: %s", error)
        return
    bounded = "sliding_attention" in (getattr(config, "layer_types", None) or ())  # by layers with windows of their own
    bounded = bounded or attention.left is not None or attention.right is not None
    marked = [name for name in ("global_tokens", "global_token_ids") if getattr(attention, name)]
    if marked and not bounded and not attention.alibi and attention.positions != "alibi":
        raise ConfigError(
            f"attention.{marked[0]} would change nothing: every token sees its whole window; set attention.left and "
            f"attention.right, or attention.{marked[0]}=[]"
        )
    apply_attention(encoder.model, attention, max_tokens)
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
    encoder = Encoder(without_pooler(model), tokenizer.pad_id)
    require_rebuildable(encoder, name)
    freeze_unread_(encoder)
    # Hugging Face hands it over in evaluation mode, in which it would be trained without dropout.
    return encoder.train(), tokenizer


def require_rebuildable(encoder: Encoder, name: str) -> None:
    """Refuse an encoder that could be trained, but not be loaded from its checkpoint, where no code of its own runs."""
    state = encoder_state(encoder)
    state["config"].pop("longdoc", None)
    with torch.device("meta"):
        again = build_encoder(state).state_dict()
    ours = encoder.state_dict()
    if {n: value.shape for n, value in ours.items()} != {n: value.shape for n, value in again.items()}:
        raise ConfigError(
            f"model.name={name!r}: {type(encoder.model).__name__} is not the model that transformers builds for type "
            f"{encoder.model.config.model_type!r}, so its checkpoint could not be loaded; set "
            "model.trust_remote_code=false, or choose another encoder"
        )


def freeze_unread_(encoder: Encoder) -> None:
    """Freeze the parameters that the output does not depend on: without a gradient, they would stop DDP.

    Such are Longformer's weights of global attention, and LUKE's of entities. Experts stay, as the text decides which
    are asked, and so does all of MRA, which gives zeros where its CUDA kernel is missing.
    """
    if encoder.model.config.model_type == "mra":
        return
    probe = copy.deepcopy(encoder).eval()  # BigBird changes its attention for good where a text is short
    with torch.enable_grad(), torch.random.fork_rng():
        nodes: list[Any] = [probe(Batch.of_windows(torch.full((15,), 7), (9, 6)).to(probe.model.device)).grad_fn]
    seen, read = set(nodes), set()
    while nodes:
        node = nodes.pop()
        read.add(id(getattr(node, "variable", None)))
        more = {earlier for earlier, _ in node.next_functions if earlier is not None} - seen
        nodes += more
        seen |= more
    unread = [name for name, p in probe.model.named_parameters() if p.requires_grad and id(p) not in read]
    unread = [name for name in unread if "expert" not in name]
    for name in unread:
        encoder.model.get_parameter(name).requires_grad_(False)
    if unread:
        named = ", ".join(unread[:3]) + (f" and {len(unread) - 3} more" if len(unread) > 3 else "")
        log.info("%s: nothing reads %s; they are frozen", type(encoder.model).__name__, named)


def encoder_state(encoder: Encoder) -> dict[str, Any]:
    """Everything ``build_encoder`` needs beside the weights, in plain containers."""
    config = json.loads(encoder.model.config.to_json_string(use_diff=False))
    return {"config": config, "pad_id": encoder.pad_id, "packed": encoder.packed}


def build_encoder(state: dict[str, Any]) -> Encoder:
    """Build an encoder with random weights from what ``encoder_state`` kept."""
    kept = dict(state["config"])
    kind = kept.pop("model_type")
    try:
        config = AutoConfig.for_model(kind, **kept)
        model = without_pooler(AutoModel.from_config(config))
    except ValueError as error:
        raise ConfigError(
            f"an encoder of type {kind!r} cannot be built again: this version of transformers does not know it, and "
            "code that comes with weights is not kept; choose an encoder that transformers knows, or the version of "
            f"transformers that trained it ({str(error).partition('. ')[0]})"
        ) from error
    settings = settings_of(config)
    if settings is not None:
        apply_attention(model, settings, config.longdoc["max_tokens"])
    return Encoder(model, state["pad_id"], state["packed"])


def without_pooler(model: PreTrainedModel) -> PreTrainedModel:
    """Remove the pooler: nothing reads it, and a parameter without a gradient stops DDP."""
    if getattr(model, "pooler", None) is not None:
        model.register_module("pooler", nn.Identity())  # some models call it in any case
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


def input_limit(model: PreTrainedModel) -> tuple[int | None, str]:
    """Find the longest input of an encoder, in tokens with the special ones, and where that limit comes from.

    A learned position table bounds it; RoBERTa's family begins to count after the padding id, so that of 514 rows 512
    serve. What a tokenizer says is no bound: it is often wrong, and less than the encoder takes.

    Returns:
        The limit, None if there is none, and its source in words.
    """
    table, served = learned_positions(model), num_positions(model)
    if table is not None:
        return served, f"the position table ({table.num_embeddings} rows, {num_special_rows(model)} reserved)"
    limit = getattr(model.config, "max_position_embeddings", None)
    return (limit, "max_position_embeddings") if limit else (None, "no limit")


def _from_hub(factory: Any, name: str, **arguments: Any) -> Any:
    try:
        return factory.from_pretrained(name, **arguments)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"model.name={name!r} cannot be loaded: expected a folder with config.json, tokenizer.json and weights, or "
            f"a name on the hub ({error})"
        ) from error
