import logging

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    BigBirdConfig,
    BigBirdModel,
    FNetConfig,
    LayoutLMConfig,
    LayoutLMModel,
    PreTrainedTokenizerFast,
)

from longdoc.errors import ConfigError
from longdoc.models.batch import Batch
from longdoc.models.encoder import (
    AttentionConfig,
    Encoder,
    build_encoder,
    encoder_state,
    freeze_unread_,
    input_limit,
    load_encoder,
    load_tokenizer,
    require_rebuildable,
    set_attention,
    set_attention_dropout,
    without_pooler,
)
from longdoc.models.hf_attention import settings_of
from tests.models.tiny import LIMIT, VOCAB, tiny_encoder
from tests.text.worlds import tokenizer_of

FAMILIES = ["Bert", "Roberta", "DistilBert", "ModernBert", "Electra", "XLMRoberta", "Albert"]
LENGTHS = [5, 17, 1, 17, 9]
BERT = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 3,
    "intermediate_size": 8,
}


def flat_batch(seed: int = 0) -> Batch:
    ids = torch.randint(5, VOCAB, (sum(LENGTHS),), generator=torch.Generator().manual_seed(seed))
    return Batch.of_windows(ids, LENGTHS)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_flat_batch_equals_row_by_row(family):
    model = without_pooler(tiny_encoder(family))
    batch = flat_batch()
    pad_id = model.config.pad_token_id or 0
    hidden = Encoder(model, pad_id)(batch)
    rows = [model(input_ids=row[None]).last_hidden_state[0] for row in batch.input_ids.split(LENGTHS)]
    torch.testing.assert_close(hidden, torch.cat(rows), atol=1e-5, rtol=1e-4)

    direction = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(1))
    together = torch.autograd.grad((hidden * direction).sum(), list(model.parameters()), allow_unused=True)
    alone = torch.autograd.grad((torch.cat(rows) * direction).sum(), list(model.parameters()), allow_unused=True)
    for (name, _), a, b in zip(model.named_parameters(), together, alone, strict=True):
        assert a is not None, f"{name} gets no gradient"
        assert b is not None
        torch.testing.assert_close(a, b, atol=2e-4, rtol=1e-3, msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_state_builds_the_same_encoder(family):
    model = without_pooler(tiny_encoder(family))
    encoder = Encoder(model, model.config.pad_token_id or 0)
    copy = build_encoder(encoder_state(encoder)).eval()
    copy.load_state_dict(encoder.state_dict())
    assert copy.width == encoder.width
    assert copy.pad_id == encoder.pad_id
    assert torch.equal(copy(flat_batch()), encoder(flat_batch()))


@pytest.mark.parametrize(
    ("family", "overrides", "limit", "source"),
    [
        ("Bert", {}, LIMIT, f"the position table ({LIMIT} rows, 0 reserved)"),
        ("Electra", {}, LIMIT, f"the position table ({LIMIT} rows, 0 reserved)"),
        ("DistilBert", {}, LIMIT, f"the position table ({LIMIT} rows, 0 reserved)"),
        ("Albert", {}, LIMIT, f"the position table ({LIMIT} rows, 0 reserved)"),
        ("Roberta", {"max_position_embeddings": 514}, 512, "the position table (514 rows, 2 reserved)"),
        ("XLMRoberta", {"max_position_embeddings": 514}, 512, "the position table (514 rows, 2 reserved)"),
        (
            "Roberta",
            {"max_position_embeddings": 514, "pad_token_id": 3},
            510,
            "the position table (514 rows, 4 reserved)",
        ),
        ("Nystromformer", {}, LIMIT, f"the position table ({LIMIT + 2} rows, 2 reserved)"),
        ("ModernBert", {"max_position_embeddings": 8192}, 8192, "max_position_embeddings"),
    ],
)
def test_input_limit_and_that_it_is_real(family, overrides, limit, source):
    model = tiny_encoder(family, **overrides)
    assert input_limit(model) == (limit, source)
    if limit <= LIMIT:
        model(input_ids=torch.full((1, limit), 7))
        with pytest.raises((IndexError, RuntimeError)):
            model(input_ids=torch.full((1, limit + 1), 7))


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_dropout_is_set(family):
    config = tiny_encoder(family).config
    set_attention_dropout(config, 0.25)
    values = [getattr(config, name, None) for name in ("attention_probs_dropout_prob", "attention_dropout")]
    assert 0.25 in values


def test_an_encoder_without_attention_dropout_is_refused():
    with pytest.raises(ConfigError, match="fnet has none of"):
        set_attention_dropout(FNetConfig(), 0.0)


@pytest.fixture
def saved(tmp_path):
    """A folder with a tiny BERT in float16 and a WordPiece tokenizer."""
    tokenizer = tokenizer_of("wordpiece")
    tiny_encoder("Bert", vocab_size=tokenizer.vocab_size).half().save_pretrained(tmp_path)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(tmp_path)
    return tmp_path


def test_a_float16_folder_is_loaded_as_float32_and_says_so(saved, caplog):
    with caplog.at_level(logging.INFO, "longdoc"):
        encoder, tokenizer = load_encoder(str(saved), attention_dropout=0.0)
    assert {p.dtype for p in encoder.parameters()} == {torch.float32}
    assert "float16" in caplog.text
    assert all(part.training for part in encoder.modules()), "it would be trained without dropout"
    assert not list(encoder.model.pooler.parameters())
    assert encoder.model.config.attention_probs_dropout_prob == 0.0
    assert (tokenizer.pad_id, tokenizer.unk_id) == (0, 1)
    rebuilt = build_encoder(encoder_state(encoder))
    assert {p.dtype for p in rebuilt.parameters()} == {torch.float32}
    encoder(flat_batch()).sum().backward()
    assert [name for name, p in encoder.named_parameters() if p.grad is None] == []


class Elsewhere(BertConfig):
    model_type = "elsewhere"


class WiderBert(BertModel):
    """Code of a type that transformers knows, with other weights."""

    def __init__(self, config):
        super().__init__(config)
        self.more = torch.nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (BertModel(Elsewhere(**BERT)), "an encoder of type 'elsewhere' cannot be built again"),
        (WiderBert(BertConfig(**BERT)), "model.name='x': WiderBert is not the model that transformers builds for"),
    ],
)
def test_what_could_not_be_loaded_from_its_checkpoint_is_refused_before_it_is_trained(model, message):
    encoder = Encoder(without_pooler(model), 0)
    with pytest.raises(ConfigError, match=message):
        require_rebuildable(encoder, "x")


@pytest.mark.parametrize(
    "family", [*FAMILIES, "Camembert", "NomicBert", "EuroBert", "MobileBert", "Esm", "DebertaV2", "MPNet", "Longformer"]
)
def test_every_family_can_be_built_again_and_what_nothing_reads_is_frozen(family):
    encoder = Encoder(without_pooler(tiny_encoder(family)), 0).train()
    require_rebuildable(encoder, family)
    freeze_unread_(encoder)
    assert all(part.training for part in encoder.modules())
    encoder(flat_batch()).sum().backward()
    assert [name for name, p in encoder.named_parameters() if p.requires_grad and p.grad is None] == []
    frozen = {name.rpartition("layer.")[2] for name, p in encoder.named_parameters() if not p.requires_grad}
    if family == "Longformer":
        assert "0.attention.self.query_global.weight" in frozen
    elif family != "DebertaV2":  # its positions are not read as the tiny one is set
        assert all("contact_head" in name for name in frozen)


def test_looking_for_what_is_read_changes_no_encoder():
    """BigBird gives up its sparse attention for good once it reads a short text."""
    encoder = Encoder(without_pooler(BigBirdModel(BigBirdConfig(**BERT, max_position_embeddings=LIMIT))), 0)
    freeze_unread_(encoder)
    assert encoder.model.attention_type == "block_sparse"


def test_a_pooler_that_is_always_called_may_be_removed():
    config = LayoutLMConfig(**BERT, max_position_embeddings=LIMIT)
    assert Encoder(without_pooler(LayoutLMModel(config)), 0)(flat_batch()).shape == (sum(LENGTHS), 24)


@pytest.mark.parametrize(
    ("family", "attention", "message"),
    [
        (
            "Longformer",
            AttentionConfig(global_tokens=[0]),
            r"attention.global_tokens=\(0,\): Longformer.* cannot be replaced",
        ),
        ("DebertaV2", AttentionConfig(backend="flex"), r"attention.backend=flex: DebertaV2.* cannot be replaced"),
        ("Bert", AttentionConfig(global_tokens=[0]), "attention.global_tokens would change nothing"),
        ("Bert", AttentionConfig(global_token_ids=[3]), "attention.global_token_ids would change nothing"),
    ],
)
def test_settings_without_effect_are_refused(family, attention, message):
    with pytest.raises(ConfigError, match=message):
        set_attention(Encoder(tiny_encoder(family), 0), attention, None)


@pytest.mark.parametrize("attention", [{}, {"left": 4}, {"alibi": True}, {"positions": "alibi"}])
def test_global_tokens_with_an_effect_are_not(attention):
    family = "Bert" if attention else "ModernBert"
    encoder = Encoder(tiny_encoder(family), 0)
    set_attention(encoder, AttentionConfig(global_tokens=[0], **attention), None)
    assert settings_of(encoder.model.config).global_tokens == (0,)


def test_a_tokenizer_that_does_not_belong_is_refused(saved):
    tiny_encoder("Bert", vocab_size=20).save_pretrained(saved)
    with pytest.raises(ConfigError, match="they do not belong together"):
        load_encoder(str(saved))


@pytest.mark.parametrize("name", ["no/such-encoder", "/no/such/folder"])
def test_a_wrong_name_is_refused_by_name(name):
    with pytest.raises(ConfigError, match=rf"model.name='{name}' cannot be loaded: expected a folder with config.json"):
        load_encoder(name)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load_tokenizer(name)


def test_a_folder_without_weights_is_refused(tmp_path):
    tiny_encoder("Bert").config.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load_encoder(str(tmp_path))
