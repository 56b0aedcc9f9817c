"""The encoder for when nothing can be downloaded: small, trained from scratch, with a tokenizer trained on the corpus.

It is an ordinary Hugging Face model, so everything else treats it like any other encoder.

Shapes: B rows, L tokens of a row, H heads, D width, E width of a head.
"""

from collections.abc import Iterable
from typing import Any, Literal, get_args

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from longdoc.attention.positions import rope, rope_angles, sinusoidal
from longdoc.errors import ConfigError, check_choice, check_integer, check_share, check_switch
from longdoc.models.encoder import Encoder
from longdoc.text.tokens import WordTokenizer

_SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
_PAD_ID, _UNK_ID, _START_ID, _END_ID = range(4)

ScratchPositions = Literal["rope", "learned", "sinusoidal", "none", "alibi"]


class ScratchConfig(PreTrainedConfig):
    """Configuration of the from-scratch encoder; the names are those of Hugging Face encoders."""

    model_type = "longdoc_scratch"

    vocab_size: int = 8000
    hidden_size: int = 192
    num_hidden_layers: int = 4
    num_attention_heads: int = 6
    intermediate_size: int = 768
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.0
    initializer_range: float = 0.02
    positions: str = "rope"
    max_position_embeddings: int | None = None
    rope_base: float = 10000.0
    scale_scores: bool = True
    pad_token_id: int | None = _PAD_ID


class ScratchEmbeddings(nn.Module):
    """Token vectors, and the position vectors of ``learned`` and ``sinusoidal`` positions."""

    def __init__(self, config: ScratchConfig) -> None:
        super().__init__()
        self.config = config
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position_embeddings = None
        if config.positions == "learned":
            if config.max_position_embeddings is None:
                raise ConfigError("positions='learned': expected max_position_embeddings; set the longest window")
            self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Embed tokens. *Shape:* (B, L, D)."""
        x_BLD = self.word_embeddings(input_ids)
        if self.position_embeddings is not None:
            x_BLD = x_BLD + self.position_embeddings(position_ids)
        elif self.config.positions == "sinusoidal":
            # A tracer cannot read a number off a tensor; what it traces is counted along the row.
            traced = torch.compiler.is_compiling()
            num_positions = position_ids.shape[1] if traced else int(position_ids.max()) + 1
            table = sinusoidal(num_positions, self.config.hidden_size).to(x_BLD)
            # Token vectors start at initializer_range; the table is brought to their size.
            x_BLD = x_BLD + self.config.initializer_range * table[position_ids]
        return self.dropout(x_BLD)


class ScratchLayer(GradientCheckpointingLayer):
    """One pre-norm transformer layer. **Source:** Xiong et al. (2020), figure 1 (b)."""

    def __init__(self, config: ScratchConfig, layer_idx: int) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_width = config.hidden_size // config.num_attention_heads
        self.attention_norm = nn.LayerNorm(config.hidden_size)
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.out = nn.Linear(config.hidden_size, config.hidden_size)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x_BLD: Tensor, mask: Any, angles: tuple[Tensor, Tensor] | None, extra: dict[str, Any]) -> Tensor:
        """Apply attention, then the feed-forward network. *Shape:* (B, L, D)."""
        B, L, D = x_BLD.shape
        qkv = self.qkv(self.attention_norm(x_BLD)).view(B, L, 3, -1, self.head_width).permute(2, 0, 3, 1, 4)
        q_BHLE, k_BHLE, v_BHLE = qkv.unbind(0)
        if angles is not None:
            q_BHLE, k_BHLE = rope(q_BHLE, angles), rope(k_BHLE, angles)
        attend = ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
        dropout = self.config.attention_probs_dropout_prob if self.training else 0.0
        scale = self.head_width**-0.5 if self.config.scale_scores else 1.0
        seen_BLHE, _ = attend(
            self, q_BHLE, k_BHLE, v_BHLE, mask, dropout=dropout, scaling=scale, is_causal=False, **extra
        )
        x_BLD = x_BLD + self.dropout(self.out(seen_BLHE.reshape(B, L, D)))
        return x_BLD + self.dropout(self.down(F.gelu(self.up(self.feed_forward_norm(x_BLD)))))


class ScratchModel(PreTrainedModel):
    """A pre-norm transformer encoder."""

    config_class = ScratchConfig
    config: ScratchConfig
    base_model_prefix = "scratch"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_attention_backend = True
    _no_split_modules = ["ScratchLayer"]  # noqa: RUF012
    _input_embed_layer = "word_embeddings"

    def __init__(self, config: ScratchConfig) -> None:
        super().__init__(config)
        if config.hidden_size % config.num_attention_heads:
            raise ConfigError(
                f"model.scratch.width={config.hidden_size}: not a multiple of num_heads={config.num_attention_heads}"
            )
        check_choice("model.scratch.positions", config.positions, get_args(ScratchPositions))
        self.embeddings = ScratchEmbeddings(config)
        self.layers = nn.ModuleList(ScratchLayer(config, i) for i in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size)
        self.post_init()

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        return True

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None, **extra: Any
    ) -> BaseModelOutput:
        """Encode rows of tokens; other keywords reach the attention function, as in every Hugging Face encoder.

        Args:
            input_ids: *Shape:* (B, L).
            attention_mask: True or 1 where there is a token. *Shape:* (B, L).
            position_ids: Position of each token; counted along the row by default. *Shape:* (B, L).
            extra: For the attention function.
        """
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1], device=input_ids.device)[None, :]
        x_BLD = self.embeddings(input_ids, position_ids)
        angles = None
        if self.config.positions == "rope":
            head_width = self.config.hidden_size // self.config.num_attention_heads
            angles = rope_angles(position_ids, head_width, self.config.rope_base)
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=x_BLD, attention_mask=attention_mask)
        for layer in self.layers:
            x_BLD = layer(x_BLD, mask, angles, extra)
        return BaseModelOutput(last_hidden_state=self.norm(x_BLD))


def train_tokenizer(texts: Iterable[str], vocab_size: int = 8000) -> WordTokenizer:
    """Train a BPE tokenizer that keeps line breaks, isolates punctuation and ideographs, and reads numbers by digit.

    Other blanks are dropped: a word has the same tokens wherever it stands.

    Args:
        texts: The training split.
        vocab_size: Entries, special tokens included.
    """
    check_integer("model.scratch.vocab_size", vocab_size, 1)
    tokenizer = Tokenizer(models.BPE(unk_token=_SPECIAL_TOKENS[_UNK_ID]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\n"), "isolated"),
            pre_tokenizers.Split(Regex(r"[^\S\n]+"), "removed"),
            pre_tokenizers.Split(Regex(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{P}\p{S}]"), "isolated"),
            pre_tokenizers.Digits(individual_digits=True),
            # Marks where each piece begins, and so what is inside a word.
            pre_tokenizers.Metaspace(prepend_scheme="always", split=False),
        ]
    )
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=list(_SPECIAL_TOKENS), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", _START_ID), ("</s>", _END_ID)]
    )
    return WordTokenizer(tokenizer, unk_id=_UNK_ID, pad_id=_PAD_ID)


def scratch_encoder(
    tokenizer: WordTokenizer,
    width: int = 192,
    num_layers: int = 4,
    num_heads: int = 6,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
    positions: ScratchPositions = "rope",
    max_tokens: int | None = None,
    scale_scores: bool = True,
) -> Encoder:
    """Build the from-scratch encoder for a tokenizer, with random weights.

    Args:
        tokenizer: Of the corpus.
        width: D.
        num_layers: Transformer layers.
        num_heads: Attention heads a layer; divides the width.
        dropout: Of token vectors and of what layers add.
        attention_dropout: Of attention weights; 0 keeps the fast kernel on a CPU.
        positions: How tokens know their place; ``alibi`` and ``none`` add nothing to the token vectors.
        max_tokens: Longest segment, needed for ``learned``.
        scale_scores: Whether scores are divided by the square root of the head's width.
    """
    for name, value in (("width", width), ("num_layers", num_layers), ("num_heads", num_heads)):
        check_integer(f"model.scratch.{name}", value, 1)
    check_share("model.scratch.dropout", dropout)
    check_switch("model.scratch.scale_scores", scale_scores)
    config = ScratchConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=width,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        intermediate_size=4 * width,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=attention_dropout,
        positions=positions,
        max_position_embeddings=max_tokens,
        scale_scores=scale_scores,
        pad_token_id=tokenizer.pad_id,
    )
    return Encoder(ScratchModel(config), tokenizer.pad_id)


AutoConfig.register(ScratchConfig.model_type, ScratchConfig)
AutoModel.register(ScratchConfig, ScratchModel)
