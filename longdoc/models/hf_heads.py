"""longdoc's heads as those of Hugging Face's own model classes, and its tokenizer as one of theirs.

Shapes: T tokens of the batch, W windows, D width, K labels.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from longdoc.errors import ConfigError
from longdoc.models.batch import Batch
from longdoc.models.classification import WindowPool
from longdoc.models.encoder import Encoder, encoder_state
from longdoc.models.hf_attention import settings_of
from longdoc.text.classes import ClassTask
from longdoc.text.tokens import WordTokenizer

LIMIT = 1e-4
"""By how much a score may differ."""
_ADVICE = "use --onnx, which writes what the checkpoint computes"

# A power of two changes no digit, and tanh(x) = x below it, in float32.
_SMALL = 2.0**-12
_LINEAR_FROM = 6.0  # where gelu(x) = x

HeadTask = Literal["ner"] | ClassTask


def headed_model(
    encoder: Encoder,
    linear: nn.Linear,
    labels: Sequence[str],
    task: HeadTask,
    batch: Batch,
    expected: Tensor,
    pool: WindowPool = "first",
    size_tokens: int | None = None,
) -> tuple[PreTrainedModel, float]:
    """Build the model of Hugging Face that gives the scores of an encoder and the linear layer over its vectors.

    Where that class has a hidden layer before the last one, it is set to let vectors through unchanged. What was built
    is run, and given back only if its scores are those that were expected.

    Args:
        encoder: Encoder of token vectors.
        linear: D to K.
        labels: Of the K scores.
        task: ``ner`` scores tokens, all others windows.
        batch: Windows to compare on.
        expected: Their logits. *Shape:* (T, K) for ``ner``, else (W, K).
        pool: How a window became a vector.
        size_tokens: Longest window; decides whether an attention window covers it.

    Returns:
        The model and the largest difference.

    Raises:
        ConfigError: There is none that gives the same scores, with the reason.
    """
    name = type(encoder.model).__name__
    _check_plain(encoder, size_tokens)
    kept = encoder_state(encoder)["config"]
    kept.pop("longdoc", None)
    kept |= {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    if task != "ner":
        kept["problem_type"] = task if task == "regression" else f"{task}_classification"
    if "classifier_activation" in kept:  # MobileBERT's is a switch
        kept["classifier_activation"] = False if isinstance(kept["classifier_activation"], bool) else "linear"
    if "classifier_pooling" in kept:
        first = "bos" if kept["classifier_pooling"] == "late" else "cls"
        kept["classifier_pooling"] = "mean" if pool == "mean" else first
    factory = AutoModelForTokenClassification if task == "ner" else AutoModelForSequenceClassification
    try:
        model = factory.from_config(AutoConfig.for_model(kept.pop("model_type"), **kept)).eval()
    except ValueError as error:
        raise ConfigError(f"{name}: transformers has no {factory.__name__} of it; {_ADVICE}") from error
    known = encoder.model.state_dict()
    model.base_model.load_state_dict(known, strict=False)
    prefix = f"{model.base_model_prefix}."
    new = [
        p for n, p in model.named_modules() if hasattr(p, "weight") and f"{n.removeprefix(prefix)}.weight" not in known
    ]
    *hidden, last = [part for part in new if isinstance(part, nn.Linear)]
    if len(hidden) > 1 or last.weight.shape != linear.weight.shape:
        raise ConfigError(f"{name}: the head of {type(model).__name__} has no place for a linear layer; {_ADVICE}")
    norms = [_last_norm(encoder.model.modules()), _last_norm(new)]
    expected = expected.log_softmax(-1) if task == "single_label" else expected
    for activation in ("tanh", "relu", "norm") if hidden else ("none",):
        _fill_(activation, linear, last, hidden, *norms)
        difference = float((_scores(model, batch, task) - expected).abs().max())
        if difference <= LIMIT * max(1.0, float(expected.abs().max())):
            return model, difference
    over, more = "the first token", ""
    if pool == "mean":
        over, more = "the mean of the tokens", "; or train with model.pool=first"
    raise ConfigError(
        f"{name}: the head of {type(model).__name__} cannot give the scores of longdoc's, a linear layer over {over} "
        f"of a window; {_ADVICE}{more}"
    )


def _check_plain(encoder: Encoder, size_tokens: int | None) -> None:
    """Refuse attention that Hugging Face's own would not compute."""
    settings = settings_of(encoder.model.config)
    if settings is None:
        return
    reach = float("inf") if size_tokens is None else size_tokens - 1
    if settings.control is not None:
        raise ConfigError(f"attention={settings.control} is not what transformers would compute; {_ADVICE}")
    if settings.alibi:
        raise ConfigError(
            "attention.alibi: transformers would leave the distance bias out (model.scratch.positions=alibi gives it, "
            f"too); {_ADVICE}"
        )
    if any(side is not None and side < reach for side in (settings.left, settings.right)):
        raise ConfigError(
            f"attention.left={settings.left}, attention.right={settings.right}: transformers would let each token see "
            f"its whole window; {_ADVICE}"
        )


def _scores(model: PreTrainedModel, batch: Batch, task: HeadTask) -> Tensor:
    parts = batch.input_ids.split(batch.lengths.tolist())
    with torch.inference_mode():
        logits = [model(input_ids=ids[None], attention_mask=torch.ones_like(ids[None])).logits[0] for ids in parts]
    scores = torch.cat(logits) if task == "ner" else torch.stack(logits)
    return scores.log_softmax(-1) if task == "single_label" else scores


@torch.no_grad()
def _fill_(
    activation: str, linear: nn.Linear, last: nn.Linear, hidden: list[nn.Linear], before: Any, after: Any
) -> None:
    """Put a linear layer into the last one, and let vectors through the hidden one where its activation is linear.

    ``tanh`` is the identity near zero, ``relu`` and gelu are far above it. ``norm`` undoes the norm that the vectors
    come from (``before``), which is repeated behind the hidden layer (``after``).
    """
    last.weight.copy_(linear.weight)
    last.bias.copy_(linear.bias)
    for layer in hidden:
        through, shift = torch.eye(len(layer.weight)), 0.0
        if activation == "tanh":
            through *= _SMALL
            last.weight.div_(_SMALL)
        elif activation == "relu" and before is not None:
            most = before.weight.abs() * len(through) ** 0.5
            bias = getattr(before, "bias", None)
            shift = float((most if bias is None else most + bias.abs()).max()) + _LINEAR_FROM
            last.bias.sub_(shift * linear.weight.sum(1))
        elif activation == "norm" and before is not None and after is not None:
            through = torch.diag(1 / before.weight)
            after.weight.copy_(before.weight)
        layer.weight.copy_(through)
        if layer.bias is not None:
            layer.bias.fill_(shift)


def _last_norm(modules: Iterable[nn.Module]) -> nn.Module | None:
    return next((part for part in reversed(list(modules)) if type(part).__name__.endswith("Norm")), None)


def probe_batch(tokenizer: WordTokenizer, lengths: Sequence[int]) -> Batch:
    """Make windows of random tokens, of these lengths with the special ones, to compare models on.

    Each is a document of its own.
    """
    low = tokenizer.vocab_size // 4
    ids, generator = [], torch.Generator().manual_seed(0)
    for length in lengths:
        middle = torch.randint(low, max(3 * low, low + 1), (length - tokenizer.num_special,), generator=generator)
        ids += [torch.tensor(tokenizer.prefix_ids), middle, torch.tensor(tokenizer.suffix_ids)]
    return Batch.of_windows(torch.cat(ids).long(), lengths)


def hf_tokenizer(tokenizer: WordTokenizer, max_tokens: int | None) -> PreTrainedTokenizerFast:
    """Give the tokenizer as one of Hugging Face, for windows up to ``max_tokens``; a token may then mix words."""
    state = json.loads(tokenizer.backend.to_str())
    before = state["pre_tokenizer"]
    if before is not None and before["type"] == "ByteLevel":
        before["add_prefix_space"] = True  # as longdoc does for the first word of a text
    ids: dict[str, tuple[int, ...]] = {"unk": (tokenizer.unk_id,), "pad": (tokenizer.pad_id,)}
    ids |= {"cls": tokenizer.prefix_ids[:1], "sep": tokenizer.suffix_ids[-1:]}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        **{f"{name}_token": tokenizer.backend.id_to_token(i) for name, found in ids.items() for i in found},
        model_max_length=max_tokens or int(1e30),
        model_input_names=["input_ids", "attention_mask"],
        split_special_tokens=True,
    )
