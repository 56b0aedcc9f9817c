"""Hugging Face encoders on longdoc's attention: parity, packing, positions, refusals, probes."""

import copy
import json
import logging

import pytest
import torch
from transformers import AutoModel

from longdoc.errors import ConfigError
from longdoc.models.hf_attention import (
    AttentionConfig,
    apply_attention,
    packed_inputs,
    packed_pattern,
    packing_error,
    self_check,
    use_longdoc_attention,
)
from longdoc.models.hf_positions import learned_positions, num_positions, set_positions_
from tests.models.tiny import LIMIT, PACKABLE, VOCAB, tiny_encoder

LEARNED = ("Bert", "Roberta", "DistilBert")


def padded_batch(model, lengths=(17, 40, 3), left_padding=False):
    longest = max(lengths)
    mask = torch.arange(longest)[None] < torch.tensor(lengths)[:, None]
    if left_padding:
        mask = mask.flip(1)
    ids = torch.randint(5, VOCAB, mask.shape, generator=torch.Generator().manual_seed(3))
    ids[~mask] = model.config.pad_token_id or 0
    return ids, mask


def outcome(model, mask, **inputs):
    """Give the hidden states of the real tokens, and the gradients of all parameters."""
    model.zero_grad()
    hidden = model(**inputs).last_hidden_state
    hidden = hidden[mask] if mask is not None else hidden[0]
    (hidden.sin().sum() / 10).backward()
    return hidden.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def assert_same(one, other, limit=1e-5):
    assert (one[0] - other[0]).abs().max() < limit
    assert one[1].keys() == other[1].keys()
    for name, gradient in one[1].items():
        assert (gradient - other[1][name]).abs().max() < 1e-4 * max(1.0, float(gradient.abs().max())), name


def test_keywords_and_a_configuration_say_the_same() -> None:
    by_words = use_longdoc_attention(tiny_encoder("Bert"), left=3, right=4, global_tokens="first", alibi=True)
    by_config = apply_attention(tiny_encoder("Bert"), AttentionConfig(3, 4, global_tokens=[0], alibi=True))
    assert by_words.config.longdoc == by_config.config.longdoc
    assert use_longdoc_attention(tiny_encoder("Bert")).config.longdoc["left"] == 256


@pytest.mark.parametrize("family", PACKABLE)
def test_equals_sdpa_where_the_window_covers_the_text(family):
    model = tiny_encoder(family)
    ids, mask = padded_batch(model)
    expected = outcome(model, mask, input_ids=ids, attention_mask=mask.long())
    apply_attention(model, AttentionConfig(512, 512))
    assert_same(outcome(model, mask, input_ids=ids, attention_mask=mask.long()), expected)
    packed = packed_inputs(model, ids[mask], packed_pattern(model, mask.sum(1)))
    assert_same(outcome(model, None, **packed), expected)
    assert packing_error(model) < 1e-6


@pytest.mark.parametrize("family", PACKABLE)
def test_long_segments_equal_sdpa(family):
    model = tiny_encoder(family)
    ids, mask = padded_batch(model, (590, 33))
    expected = outcome(model, mask, input_ids=ids, attention_mask=mask.long())
    apply_attention(model, AttentionConfig(589, 589, backend="blocked"))
    packed = packed_inputs(model, ids[mask], packed_pattern(model, mask.sum(1)))
    assert_same(outcome(model, None, **packed), expected)


@pytest.mark.parametrize("family", ["Bert", "ModernBert"])
def test_left_padding_and_no_mask(family):
    model = tiny_encoder(family)
    ids, mask = padded_batch(model, left_padding=True)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    expected = outcome(model, mask, input_ids=ids, attention_mask=mask.long(), position_ids=positions)
    whole = outcome(model, None, input_ids=ids[1:2])
    apply_attention(model, AttentionConfig())
    assert_same(outcome(model, mask, input_ids=ids, attention_mask=mask.long(), position_ids=positions), expected)
    assert_same(outcome(model, None, input_ids=ids[1:2]), whole)


def test_embeddings_instead_of_ids():
    model = apply_attention(tiny_encoder("Bert"), AttentionConfig(4, 4))
    ids, mask = padded_batch(model)
    embedded = model.get_input_embeddings()(ids)
    from_ids = model(ids, mask).last_hidden_state
    assert torch.equal(model(inputs_embeds=embedded, attention_mask=mask).last_hidden_state, from_ids)


@pytest.mark.parametrize("half_width", [7, 8, 9])
def test_modernbert_local_layers_keep_their_own_window(half_width):
    ours = tiny_encoder("ModernBert", local_attention=2 * half_width)
    theirs = copy.deepcopy(ours)
    ids, mask = padded_batch(ours, (60, 31))
    apply_attention(ours, AttentionConfig())
    expected = theirs(ids, mask.long()).last_hidden_state[mask]
    assert (ours(ids, mask.long()).last_hidden_state[mask] - expected).abs().max() < 1e-5
    apply_attention(ours, AttentionConfig(half_width - 1, None))
    assert (ours(ids, mask.long()).last_hidden_state[mask] - expected).abs().max() > 1e-4


def test_gradient_checkpointing_gives_the_same():
    for family in ("Bert", "ModernBert"):
        model = apply_attention(tiny_encoder(family), AttentionConfig(8, 8, global_tokens=[0]))
        ids, mask = padded_batch(model)
        plain = outcome(model.train(), mask, input_ids=ids, attention_mask=mask.long())
        model.activation_checkpointing_enable({"use_reentrant": False})
        assert_same(outcome(model, mask, input_ids=ids, attention_mask=mask.long()), plain, limit=1e-7)


def test_under_a_head():
    model = tiny_encoder("Bert", "ForTokenClassification")
    ids, mask = padded_batch(model)
    labels = torch.where(mask, ids % 3, -100)
    expected = model(input_ids=ids, attention_mask=mask.long(), labels=labels)
    apply_attention(model, AttentionConfig(64, 64))
    actual = model(input_ids=ids, attention_mask=mask.long(), labels=labels)
    torch.testing.assert_close(actual.loss, expected.loss)
    torch.testing.assert_close(actual.logits[mask], expected.logits[mask], rtol=1e-5, atol=1e-5)
    packed = packed_inputs(model, ids[mask], packed_pattern(model, mask.sum(1)))
    torch.testing.assert_close(model(**packed).logits[0], expected.logits[mask], rtol=1e-5, atol=1e-5)


def test_global_tokens_carry_far_news():
    model = apply_attention(tiny_encoder("Bert", num_hidden_layers=1), AttentionConfig(2, 2))
    ids, _ = padded_batch(model, (40,))
    changed = ids.clone()
    changed[0, 0] = 5 if ids[0, 0] != 5 else 6
    far = slice(20, None)

    def difference():
        return (model(ids).last_hidden_state - model(changed).last_hidden_state)[0, far].abs().max()

    assert difference() == 0
    apply_attention(model, AttentionConfig(2, 2, global_tokens=[0]))
    assert difference() > 1e-4
    apply_attention(model, AttentionConfig(2, 2, global_tokens=[3]))
    assert difference() == 0
    apply_attention(model, AttentionConfig(2, 2, global_token_ids=[int(ids[0, 0]), int(changed[0, 0])]))
    assert difference() > 1e-4


def test_global_tokens_mean_the_same_packed_and_padded():
    model = apply_attention(
        tiny_encoder("Bert"), AttentionConfig(2, 3, global_tokens=[0, 5], global_token_ids=[7, 8], alibi=True)
    )
    ids, mask = padded_batch(model)
    expected = model(ids, mask).last_hidden_state[mask]
    pattern = packed_pattern(model, mask.sum(1), ids[mask])
    assert set(pattern.global_positions[0]) >= {0, 5}
    actual = model(**packed_inputs(model, ids[mask], pattern)).last_hidden_state[0]
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["DebertaV2", "MPNet", "Longformer"])
def test_attention_that_cannot_be_replaced_is_refused(family):
    with pytest.raises(ConfigError, match="strategy=chunk"):
        apply_attention(tiny_encoder(family), AttentionConfig(256, 256))


def test_decoders_are_refused():
    with pytest.raises(ConfigError, match="expected an encoder"):
        apply_attention(tiny_encoder("Bert", is_decoder=True), AttentionConfig(256, 256))


@pytest.mark.parametrize("family", ["MobileBert", "Esm"])
def test_encoders_that_mix_neighbours_are_found(family, caplog):
    model = apply_attention(tiny_encoder(family), AttentionConfig(256, 256))
    with caplog.at_level(logging.WARNING, "longdoc"):
        assert not self_check(model)
    assert "padded batches" in caplog.text
    assert packing_error(model) > 1e-3


def test_self_check_leaves_the_model_as_it_was():
    model = apply_attention(tiny_encoder("Bert"), AttentionConfig(256, 256)).train()
    assert self_check(model)
    assert model.training


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"left": -2}, "left=-2"),
        ({"backend": "fast"}, "backend='fast'"),
        ({"backend": "flex"}, "CUDA"),
        ({"global_tokens": [-1]}, "global_tokens"),
        ({"left": "abc"}, "attention.left='abc': expected an integer from 0"),
        ({"left": True}, "attention.left=True"),
        ({"right": 2.5}, "attention.right=2.5"),
        ({"packed": "always"}, "attention.packed='always'"),
        ({"control": "none"}, "control"),
        ({"positions": "rope"}, "positions='rope'"),
        ({"positions": "tile"}, "change nothing"),
        ({"positions": "interpolate", "max_tokens": LIMIT}, "change nothing"),
        ({"positions": "native", "max_tokens": LIMIT + 1}, "does not fit"),
        ({"max_tokens": 0}, "max_tokens=0"),
    ],
)
def test_impossible_settings_are_refused(arguments, message):
    max_tokens = arguments.pop("max_tokens", None)
    with pytest.raises(ConfigError, match=message):
        apply_attention(tiny_encoder("Bert"), AttentionConfig(**arguments), max_tokens)(torch.ones(1, 4).long())


def test_alibi_instead_of_a_table_needs_a_table():
    with pytest.raises(ConfigError, match="alibi=True"):
        apply_attention(tiny_encoder("ModernBert"), AttentionConfig(positions="alibi"))


def test_mask_and_pattern_must_agree():
    model = apply_attention(tiny_encoder("Bert"), AttentionConfig(256, 256))
    ids, mask = padded_batch(model)
    with pytest.raises(ConfigError, match="pass one of them"):
        model(**packed_inputs(model, ids[mask], packed_pattern(model, [59, 1])), attention_mask=torch.zeros(1, 60))
    with pytest.raises(ConfigError, match="expected two dimensions"):
        model(ids, mask[:, None, None].expand(-1, 1, 40, -1))


def test_a_part_of_the_model_is_refused():
    model = apply_attention(tiny_encoder("Bert"), AttentionConfig(256, 256))
    with pytest.raises(ConfigError, match="no pattern"):
        model.encoder(torch.zeros(1, 4, 24))


def test_too_long_a_segment_is_refused_with_the_cure():
    model = apply_attention(tiny_encoder("Bert"), AttentionConfig(256, 256))
    with pytest.raises(ConfigError, match=f"max_tokens={LIMIT + 1}"):
        model(torch.ones(1, LIMIT + 1, dtype=torch.long))


@pytest.mark.parametrize("positions", ["auto", "tile", "interpolate", "alibi"])
@pytest.mark.parametrize("family", LEARNED)
def test_longer_tables_survive_saving(family, positions, tmp_path):
    model = tiny_encoder(family)
    ids, mask = padded_batch(model)
    before = model(ids, attention_mask=mask.long()).last_hidden_state[mask]
    apply_attention(model, AttentionConfig(64, 64, positions=positions), max_tokens=1500)
    assert num_positions(model) == 1500
    short = model(ids, attention_mask=mask.long()).last_hidden_state[mask]
    if positions in ("auto", "tile"):
        torch.testing.assert_close(short, before, rtol=1e-5, atol=1e-5)
    else:
        assert (short - before).abs().max() > 1e-3
    long_ids = torch.randint(5, VOCAB, (1, 1400), generator=torch.Generator().manual_seed(0))
    expected = model(long_ids).last_hidden_state
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["longdoc"]["left"] == 64
    again = AutoModel.from_pretrained(tmp_path)
    apply_attention(again, AttentionConfig(64, 64, positions=positions), max_tokens=1500)
    assert torch.equal(again(long_ids).last_hidden_state, expected)


@pytest.mark.parametrize("family", LEARNED)
def test_tiled_rows_are_copies_behind_the_special_ones(family):
    model = tiny_encoder(family)
    table = learned_positions(model).weight.detach().clone()
    special = 2 if family == "Roberta" else 0
    set_positions_(model, "tile", 2 * LIMIT)
    longer = learned_positions(model).weight.detach()
    assert torch.equal(longer[: len(table)], table)
    assert torch.equal(longer[len(table) :], table[special:])
    assert longer.data_ptr() != table.data_ptr()


def test_a_table_that_begins_at_two_stays_so():
    model = tiny_encoder("Nystromformer", num_landmarks=LIMIT)
    ids = torch.randint(5, VOCAB, (1, 30), generator=torch.Generator().manual_seed(0))
    before = model(ids).last_hidden_state
    set_positions_(model, "tile", 2 * LIMIT)
    assert num_positions(model) == model.config.max_position_embeddings == 2 * LIMIT
    torch.testing.assert_close(model(ids).last_hidden_state, before, rtol=1e-5, atol=1e-5)
    again = type(model)(model.config).eval()
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(ids).last_hidden_state, model(ids).last_hidden_state)


def test_silenced_positions_tell_nothing_apart():
    model = apply_attention(tiny_encoder("Bert"), AttentionConfig(positions="alibi"))
    table = learned_positions(model).weight
    assert (table == 0).all()
    assert not table.requires_grad
    with pytest.raises(ConfigError, match="was silenced for positions='alibi'"):
        apply_attention(model, AttentionConfig(left=8, right=8))
    apply_attention(model, AttentionConfig(positions="alibi", control="uniform"))
    hidden = model(torch.full((1, 9), 7)).last_hidden_state[0]
    torch.testing.assert_close(hidden, hidden[:1].expand_as(hidden), rtol=1e-5, atol=1e-5)
