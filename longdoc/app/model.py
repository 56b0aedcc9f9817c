"""Settings of the model, and the encoder they stand for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from longdoc.errors import ConfigError, check_choice, check_integer, check_share, check_switch
from longdoc.models.classification import WindowPool
from longdoc.models.encoder import AttentionConfig, Encoder, input_limit, load_encoder, set_attention
from longdoc.models.scratch import scratch_encoder, train_tokenizer
from longdoc.models.tagging import Subword
from longdoc.text.tags import Scheme
from longdoc.text.tokens import WordTokenizer
from longdoc.text.windows import Windower


@dataclass(frozen=True)
class ModelSettings:
    """Everything in ``conf/model``.

    Args:
        name: Hub name or folder of a pretrained encoder; None trains one from scratch.
        trust_remote_code: Whether code that comes with the weights may run.
        attention_dropout: Of the encoder; 0 keeps the fast kernel on a CPU, None leaves a pretrained encoder's own.
        subword: How the tokens of a word become its vector, in tagging.
        pool: How the tokens of a window become its vector, in classification.
        dropout: Before the last layer.
        tag_scheme: ``BIOES`` or ``IOB2``.
        max_tokens_per_forward: Budget of one forward pass in evaluation, and in training of a classifier.
        gradient_checkpointing: Whether layers are computed again in the backward pass instead of kept.
        freeze_layers: How many layers of the encoder do not learn, counted from the lowest.
        freeze_embeddings: Whether its embeddings do not learn.
        freeze_patterns: Shell patterns of the names of more parameters that do not learn.
        scratch: Arguments of ``scratch_encoder``, and ``vocab_size`` of its tokenizer; used while ``name`` is None.
    """

    name: str | None = None
    trust_remote_code: bool = False
    attention_dropout: float | None = 0.0
    subword: Subword = "first"
    pool: WindowPool = "first"
    dropout: float = 0.1
    tag_scheme: Scheme = "BIOES"
    max_tokens_per_forward: int = 8192
    gradient_checkpointing: bool = False
    freeze_layers: int = 0
    freeze_embeddings: bool = False
    freeze_patterns: Sequence[str] = ()
    scratch: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_choice("model.subword", self.subword, get_args(Subword))
        check_choice("model.pool", self.pool, get_args(WindowPool))
        check_choice("model.tag_scheme", self.tag_scheme, get_args(Scheme))
        check_share("model.dropout", self.dropout)
        if self.attention_dropout is not None:
            check_share("model.attention_dropout", self.attention_dropout)
        check_integer("model.max_tokens_per_forward", self.max_tokens_per_forward, 1)
        for name in ("trust_remote_code", "gradient_checkpointing", "freeze_embeddings"):
            check_switch(f"model.{name}", getattr(self, name))

    @property
    def default_lr(self) -> float:
        """Learning rate where none is set: weights from nowhere take larger steps than pretrained ones."""
        return 3e-3 if self.name is None else 5e-5

    def encoder(
        self,
        training_texts: Iterable[str],
        attention: AttentionConfig,
        windower: Windower,
        taken: tuple[Encoder, WordTokenizer] | None = None,
    ) -> tuple[Encoder, WordTokenizer]:
        """Load the pretrained encoder, build one and train its tokenizer, or take one; put the attention under it."""
        if taken is not None:
            if self.name is not None:
                raise ConfigError(
                    f"model.name={self.name!r}: distill.student_layers cuts the student out of the teacher; set one of "
                    "the two to null"
                )
            encoder, tokenizer = taken
            of_teacher = getattr(encoder.model.config, "longdoc", None) or {}
            attention = replace(attention, alibi=attention.alibi or of_teacher.get("alibi", False))
            if of_teacher.get("positions") == "alibi":
                attention = replace(attention, positions="alibi")
        elif self.name is not None:
            encoder, tokenizer = load_encoder(self.name, self.attention_dropout, self.trust_remote_code)
        elif self.scratch is not None:
            chosen = dict(self.scratch)
            tokenizer = train_tokenizer(training_texts, chosen.pop("vocab_size", 8000))
            max_tokens = windower.size_tokens if chosen.get("positions") == "learned" else None
            try:
                encoder = scratch_encoder(
                    tokenizer, **chosen, attention_dropout=self.attention_dropout or 0.0, max_tokens=max_tokens
                )
            except TypeError as error:
                raise ConfigError(f"model.scratch: {error}; it was given {', '.join(chosen)}") from error
            attention = replace(attention, alibi=attention.alibi or chosen.get("positions") == "alibi")
        else:
            raise ConfigError("model.name: expected a hub name or a folder, got null; or choose model=scratch")
        set_attention(encoder, attention, windower.size_tokens)
        check_windows(windower, encoder, tokenizer)
        if self.gradient_checkpointing:
            model = encoder.model
            # The older name warns where there is the newer one.
            newer = hasattr(model, "activation_checkpointing_enable")
            enable = model.activation_checkpointing_enable if newer else model.gradient_checkpointing_enable
            enable({"use_reentrant": False})
        return encoder, tokenizer


def check_windows(windower: Windower, encoder: Encoder, tokenizer: WordTokenizer) -> None:
    """Refuse windows that the encoder cannot take."""
    limit, source = input_limit(encoder.model)
    if windower.size_tokens is None and limit is not None:
        raise ConfigError(
            f"windows.size_tokens=null: {source} allows {limit} tokens; set windows.size_tokens={limit} or less"
        )
    windower.check(tokenizer.num_special, limit, source)
