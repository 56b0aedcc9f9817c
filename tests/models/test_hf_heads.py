"""longdoc's heads in the model classes of Hugging Face."""

from string import ascii_letters

import pytest
import torch
from torch import nn

from longdoc.errors import ConfigError
from longdoc.models.classification import pool_windows
from longdoc.models.encoder import AttentionConfig, Encoder, set_attention, without_pooler
from longdoc.models.hf_heads import headed_model, hf_tokenizer
from longdoc.models.scratch import scratch_encoder, train_tokenizer
from tests.models.test_onnx import windows
from tests.models.tiny import tiny_encoder

FAMILIES = ("Bert", "Roberta", "Electra", "DistilBert", "Albert", "ModernBert", "NomicBert", "EuroBert", "MobileBert", "DebertaV2", "MPNet")  # fmt: skip


def headed(encoder: Encoder, task="ner", pool="first", size=64):
    torch.manual_seed(1)
    linear, batch = nn.Linear(encoder.width, 5), windows(40, 64, 5)
    with torch.inference_mode():
        hidden = encoder.eval()(batch)
        expected = linear(hidden) if task == "ner" else linear(pool_windows(hidden, batch.bounds, pool))
        expected = expected.log_softmax(-1) if task == "single_label" else expected
    return headed_model(encoder, linear, list("abcde"), task, batch, expected, pool, size)


def encoder_of(family: str, attention: AttentionConfig | None = None, max_tokens: int = 64) -> Encoder:
    encoder = Encoder(without_pooler(tiny_encoder(family)), 0).eval()
    with torch.no_grad():
        for parameter in encoder.parameters():  # norms of a trained encoder are not all one and zero
            parameter.add_(0.3 * torch.randn_like(parameter) if parameter.dim() == 1 else 0)
    set_attention(encoder, attention or AttentionConfig(), max_tokens)
    return encoder


@pytest.mark.filterwarnings("ignore:.*mask_token_id")
@pytest.mark.parametrize("task", ["ner", "single_label", "multi_label"])
@pytest.mark.parametrize("family", FAMILIES)
def test_heads_fit_exactly(family: str, task: str) -> None:
    model, difference = headed(encoder_of(family), task)
    assert type(model).__name__ == f"{family}For{'Token' if task == 'ner' else 'Sequence'}Classification"
    assert difference < 1e-5
    assert model.config.id2label == dict(enumerate("abcde"))
    assert not hasattr(model.config, "longdoc")


def test_a_mean_over_tokens_fits_where_the_architecture_has_one() -> None:
    assert headed(encoder_of("EuroBert"), "single_label", "mean")[1] < 1e-5
    for family in ("Bert", "ModernBert"):
        with pytest.raises(
            ConfigError, match=r"the mean of the tokens of a window; use --onnx.*train with model.pool=first"
        ):
            headed(encoder_of(family), "single_label", "mean")


@pytest.mark.parametrize(
    ("attention", "message"),
    [
        (AttentionConfig(left=62, right=70), "attention.left=62, attention.right=70.*use --onnx"),
        (AttentionConfig(alibi=True), "attention.alibi: .*use --onnx"),
        (AttentionConfig(control="uniform"), "attention=uniform"),
    ],
)
def test_other_attention_is_refused(attention: AttentionConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        headed(encoder_of("Bert", attention))


def test_a_window_that_covers_the_text_and_a_longer_table_are_exact() -> None:
    assert headed(encoder_of("Bert", AttentionConfig(left=63, right=63, global_tokens=(0,))))[1] < 1e-5
    model, difference = headed(encoder_of("Roberta", AttentionConfig(positions="tile"), max_tokens=900))
    assert (model.config.max_position_embeddings, difference < 1e-5) == (902, True)


def test_the_encoder_from_scratch_is_refused() -> None:
    encoder = scratch_encoder(train_tokenizer([" ".join(ascii_letters)], 200), 16, 1, 2)
    with pytest.raises(
        ConfigError, match="ScratchModel: transformers has no AutoModelForTokenClassification of it; use"
    ):
        headed(encoder)


def test_the_tokenizer_reads_the_same_ids() -> None:
    tokenizer = train_tokenizer(["Ada met Ben in Rome."] * 9, 100)
    theirs = hf_tokenizer(tokenizer, 512)
    text = "Ben met </s> Ada"
    assert theirs(text)["input_ids"] == tokenizer.backend.encode(text).ids
    assert (theirs.pad_token, theirs.model_max_length) == ("<pad>", 512)
    assert set(theirs(text)) == {"input_ids", "attention_mask"}
