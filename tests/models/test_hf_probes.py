"""What is seen of encoders while they run as they are."""

import pytest
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from longdoc.attention import head_entropy
from longdoc.errors import ConfigError
from longdoc.models.hf_attention import AttentionConfig, apply_attention, packed_inputs, packed_pattern
from longdoc.models.hf_probes import run_segments, watch_inputs, watch_projections
from tests.models.tiny import PACKABLE, VOCAB, tiny_encoder

LENGTHS = (17, 40, 3)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.arange(max(LENGTHS))[None] < torch.tensor(LENGTHS)[:, None]
    ids = torch.randint(5, VOCAB, mask.shape, generator=torch.Generator().manual_seed(3))
    return ids.masked_fill(~mask, 1), mask


def entropies(model, **inputs):
    """Entropies of the heads in each layer, and the result."""
    seen = []
    with watch_projections(
        model, lambda layer, q, k, _, pattern, scale: seen.append((layer, head_entropy(q, k, pattern, scale)))
    ):
        out = model(**inputs)
    assert [layer for layer, _ in seen] == [0, 1]
    return torch.stack([entropy for _, entropy in seen]), out


@pytest.mark.parametrize("family", PACKABLE)
def test_any_attention_is_seen_and_stays_as_it_is(family):
    model = tiny_encoder(family)
    ids, mask = batch()
    inputs = {"input_ids": ids, "attention_mask": mask.long()}
    plain = model(**inputs).last_hidden_state
    native, out = entropies(model, **inputs)
    assert torch.equal(out.last_hidden_state, plain)
    if family == "Bert":
        weights = tiny_encoder(family, attn_implementation="eager")(**inputs, output_attentions=True).attentions
        dense = [torch.special.entr(w).sum(-1).transpose(0, 1)[:, mask].mean(1) for w in weights]
        torch.testing.assert_close(native, torch.stack(dense).double(), rtol=1e-4, atol=1e-4)
    model.set_attn_implementation("eager")
    torch.testing.assert_close(entropies(model, **inputs)[0], native, rtol=1e-4, atol=1e-4)
    apply_attention(model, AttentionConfig())
    torch.testing.assert_close(entropies(model, **inputs)[0], native, rtol=1e-4, atol=1e-4)
    packed = packed_inputs(model, ids[mask], packed_pattern(model, LENGTHS))
    torch.testing.assert_close(entropies(model, **packed)[0], native, rtol=1e-4, atol=1e-4)


def test_blocks_may_stand_in_each_other_and_leave_nothing_behind():
    one, other = tiny_encoder("Bert"), tiny_encoder("Bert")
    before = ALL_ATTENTION_FUNCTIONS["sdpa"]
    seen: list[str] = []
    with watch_projections(one, lambda *_: seen.append("one")):
        with watch_projections(other, lambda *_: seen.append("other")):
            one(torch.ones(1, 5, dtype=torch.long))
        other(torch.ones(1, 5, dtype=torch.long))
    one(torch.ones(1, 5, dtype=torch.long))
    assert seen == ["one", "one"]
    assert ALL_ATTENTION_FUNCTIONS["sdpa"] is before
    assert "sdpa" not in ALL_ATTENTION_FUNCTIONS._local_mapping
    assert not one._forward_pre_hooks


@pytest.mark.parametrize("family", ["DebertaV2", "MPNet"])
def test_attention_that_cannot_be_reached_is_refused(family):
    with (
        pytest.raises(ConfigError, match="does not go through AttentionInterface"),
        watch_projections(tiny_encoder(family), print),
    ):
        pass


def test_causal_attention_is_refused():
    """It would be measured as if each token saw what comes after it."""
    model = tiny_encoder("Bert", is_decoder=True)
    with pytest.raises(ConfigError, match="causal attention is not supported"), watch_projections(model, print):
        pass
    asked = tiny_encoder("EuroBert")
    with pytest.raises(ConfigError, match="causal attention is not supported"), watch_projections(asked, print):
        asked(torch.ones(1, 5, dtype=torch.long), is_causal=True)


def test_inputs_are_seen_padded_and_packed():
    model = tiny_encoder("Bert", "ForTokenClassification")
    ids, mask = batch()
    seen = []
    hook = watch_inputs(model, lambda tokens, pattern: seen.append((tokens, pattern.lengths)))
    model(ids, mask.long())
    model(ids[:1, :17])
    apply_attention(model, AttentionConfig(4, 4))
    model(**packed_inputs(model, ids[mask], packed_pattern(model, LENGTHS)))
    with pytest.raises(ConfigError, match="expected input_ids"):
        model(inputs_embeds=torch.zeros(1, 3, 24))
    hook.remove()
    model(ids, mask.long())
    assert [lengths for _, lengths in seen] == [LENGTHS, (17,), LENGTHS]
    assert torch.equal(seen[0][0], ids[mask])
    assert torch.equal(seen[2][0], ids[mask])


def test_segments_are_run_without_dropout_and_modes_come_back():
    model = tiny_encoder("Roberta", hidden_dropout_prob=0.5).train()
    model.encoder.layer[1].eval()
    modes = [module.training for module in model.modules()]
    seen = []
    hook = model.register_forward_hook(lambda *args: seen.append((args[2].last_hidden_state, model.training)))
    run_segments(model, [[5, 6, 7], [8, 9]])
    hook.remove()
    assert [module.training for module in model.modules()] == modes
    assert not seen[0][1]
    alone = model.eval()(torch.tensor([[8, 9]])).last_hidden_state
    torch.testing.assert_close(seen[0][0][1:, :2], alone, rtol=1e-5, atol=1e-5)
