"""Encoders: any Hugging Face encoder, fed with a flat batch.

Shapes: T tokens of the batch, W windows, L tokens of the longest window, D width.
"""

import logging
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from longdoc.errors import ConfigError
from longdoc.models.batch import Batch
from longdoc.text.tokens import WordTokenizer

log = logging.getLogger(__name__)

_NO_LIMIT = 10**9
_ATTENTION_DROPOUT_NAMES = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")


class Encoder(nn.Module):
    """Runs a Hugging Face encoder over the windows of a batch.

    Args:
        model: Encoder that returns ``last_hidden_state``.
        pad_id: Fills the windows that are shorter than the longest one.
    """

    def __init__(self, model: PreTrainedModel, pad_id: int) -> None:
        super().__init__()
        self.model = model
        self.pad_id = pad_id

    @property
    def width(self) -> int:
        """D."""
        return int(self.model.config.hidden_size)

    def forward(self, batch: Batch) -> Tensor:
        """Encode all tokens. *Shape:* (T, D)."""
        lengths = batch.lengths
        longest = int(lengths.max())
        real = torch.arange(longest, device=lengths.device)[None, :] < lengths[:, None]
        input_ids = torch.full(real.shape, self.pad_id, dtype=torch.long, device=lengths.device)
        input_ids[real] = batch.input_ids
        hidden = self.model(input_ids=input_ids, attention_mask=real.long()).last_hidden_state
        return hidden[real]


def load_tokenizer(name: str, trust_remote_code: bool = False) -> WordTokenizer:
    """Load the tokenizer of an encoder by hub name or folder."""
    tokenizer = _from_hub(AutoTokenizer, name, trust_remote_code=trust_remote_code)
    return word_tokenizer(tokenizer)


def word_tokenizer(tokenizer: PreTrainedTokenizerBase) -> WordTokenizer:
    """Wrap a Hugging Face tokenizer, so that its tokens never mix words."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ConfigError(
            f"tokenizer {type(tokenizer).__name__}: expected a fast tokenizer (with a tokenizer.json), which gives offsets"
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
    return Encoder(without_pooler(model), tokenizer.pad_id), tokenizer


def build_encoder(config: dict[str, Any], pad_id: int) -> Encoder:
    """Build an encoder with random weights from the configuration kept in a checkpoint."""
    kept = dict(config)
    model_type = kept.pop("model_type")
    return Encoder(without_pooler(AutoModel.from_config(AutoConfig.for_model(model_type, **kept))), pad_id)


def without_pooler(model: PreTrainedModel) -> PreTrainedModel:
    """Remove the pooler: nothing reads it, and a parameter without a gradient stops DDP."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


def set_attention_dropout(config: Any, attention_dropout: float) -> None:
    """Set the dropout of attention weights under whatever name the encoder gives it."""
    names = [name for name in _ATTENTION_DROPOUT_NAMES if hasattr(config, name)]
    if not names:
        raise ConfigError(f"model.attention_dropout: {config.model_type} has none of {_ATTENTION_DROPOUT_NAMES}; set it to null")
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
    table = position_table(model)
    if table is not None:
        reserved = 0 if table.padding_idx is None else table.padding_idx + 1
        limits.append((table.num_embeddings - reserved, f"the position table ({table.num_embeddings} rows, {reserved} reserved)"))
    elif getattr(model.config, "max_position_embeddings", None):
        limits.append((int(model.config.max_position_embeddings), "max_position_embeddings"))
    if tokenizer_limit is not None and tokenizer_limit < _NO_LIMIT:
        limits.append((tokenizer_limit, "the tokenizer's model_max_length"))
    return min(limits) if limits else (None, "no limit")


def position_table(model: nn.Module) -> nn.Embedding | None:
    """Return the learned position table of an encoder, None if it has none."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module
    return None


def _from_hub(factory: Any, name: str, **arguments: Any) -> Any:
    try:
        return factory.from_pretrained(name, **arguments)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"model.name={name!r} cannot be loaded: expected a folder with config.json, tokenizer.json and weights, or a "
            f"name on the hub ({error})"
        ) from error
