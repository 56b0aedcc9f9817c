"""Terms of distillation: golden values, what must not change them, and what is refused."""

import math

import pytest
import torch
from torch.nn import functional as F

from longdoc.attention import alibi_slopes
from longdoc.attention.pattern import Pattern, first_tokens
from longdoc.errors import ConfigError
from longdoc.models.batch import Batch
from longdoc.models.distillation import (
    DistillConfig,
    LayerPass,
    answer_loss,
    attention_loss,
    hidden_loss,
    look_inside,
    map_layers,
    relation_loss,
    take_layers_,
)
from longdoc.models.encoder import AttentionConfig, Encoder, set_attention
from tests.models.tiny import PACKABLE, VOCAB, tiny_encoder

LENGTHS = (7, 30, 2)


def batch_of(lengths: tuple[int, ...]) -> Batch:
    ids = torch.randint(5, VOCAB, (sum(lengths),), generator=torch.Generator().manual_seed(0))
    return Batch.of_windows(ids, lengths)


def test_golden_answers():
    student, teacher = torch.tensor([[0.0, 0.0]]), torch.tensor([[math.log(3.0), 0.0]])
    # Shares 3/4 and 1/4 against 1/2 and 1/2.
    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert answer_loss(student, teacher, 1.0).item() == pytest.approx(expected, abs=1e-6)
    # At temperature 2 the teacher says sqrt(3) : 1.
    high = math.sqrt(3) / (math.sqrt(3) + 1)
    softer = high * math.log(2 * high) + (1 - high) * math.log(2 * (1 - high))
    assert answer_loss(student, teacher, 2.0).item() == pytest.approx(4 * softer, abs=1e-6)
    # Each label is a question of its own: one differs, the other does not.
    two = answer_loss(torch.zeros(1, 2), torch.tensor([[math.log(3.0), 0.0]]), 1.0, "multi_label")
    assert two.item() == pytest.approx(expected / 2, abs=1e-6)
    assert answer_loss(torch.tensor([[1.0]]), torch.tensor([[3.0]]), 2.0, "regression").item() == 4.0


def test_answers_do_not_feel_a_constant():
    student, teacher = torch.randn(5, 4), torch.randn(5, 4)
    moved = answer_loss(student, teacher.log_softmax(-1), 3.0)
    torch.testing.assert_close(moved, answer_loss(student, teacher, 3.0))
    torch.testing.assert_close(answer_loss(teacher, teacher, 3.0), torch.zeros(5))


def test_golden_hidden():
    one, other = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    assert hidden_loss(one, other, "mse").item() == pytest.approx(0.75)
    assert hidden_loss(one, other, "cosine").item() == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("mapping", "sizes", "expected"),
    [
        ("uniform", (6, 12), [1, 3, 5, 7, 9, 11]),
        ("uniform", (3, 12), [3, 7, 11]),
        ("uniform", (5, 12), [1, 3, 6, 8, 11]),
        ("first", (3, 12), [0, 1, 2]),
        ("last", (3, 12), [9, 10, 11]),
        ([0, 0, 11], (3, 12), [0, 0, 11]),
    ],
)
def test_mappings(mapping, sizes, expected):
    assert map_layers(mapping, *sizes) == expected


@pytest.mark.parametrize("mapping", ["middle", [0, 1], [0, 1, 12], [-1, 1, 2], [0, 1, True]])
def test_mappings_that_cannot_be_are_refused(mapping):
    with pytest.raises(ConfigError, match=r"distill\.mapping"):
        map_layers(mapping, 3, 12)


def test_a_deeper_student_needs_a_list():
    with pytest.raises(ConfigError, match="as a list"):
        map_layers("uniform", 4, 2)
    assert map_layers([0, 0, 1, 1], 4, 2) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "settings",
    [
        {"gold": -1.0},
        {"gold": 0.0, "answers": 0.0},
        {"temperature": 0.0},
        {"hidden": float("nan")},
        {"hidden_distance": "l1"},
        {"attention_distance": "l1"},
        {"student_layers": 2, "mapping": [0, 1]},
        {"student_layers": 0},
        {"relation_heads": 0},
        {"mapping": "middle"},
        {"mapping": 3},
    ],
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ConfigError, match="distill"):
        DistillConfig(**settings)


def passes(seed: int, pattern: Pattern, heads: int = 2, width: int = 4) -> LayerPass:
    torch.manual_seed(seed)
    return LayerPass(pattern, None, *(torch.randn(heads, pattern.num_tokens, width) for _ in "qkv"))


def dense_weights(side: LayerPass) -> list[torch.Tensor]:
    """Weights of each segment by the rules of the pattern, without blocks. *Shape of each:* (H, L, L)."""
    found = []
    pattern = side.pattern
    for start, length, marked in zip(pattern.bounds, pattern.lengths, pattern.global_positions, strict=False):
        q, k = (x[:, start : start + length] for x in (side.q, side.k))
        offset = torch.arange(length)[None] - torch.arange(length)[:, None]
        seen = torch.ones(length, length, dtype=torch.bool)
        if pattern.left is not None:
            seen = (offset >= -pattern.left) & (offset <= pattern.right)
        special = torch.zeros(length, dtype=torch.bool)
        special[list(marked)] = True
        either = special[None] | special[:, None]
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if pattern.slopes is not None:
            scores = scores - pattern.slopes[:, None, None] * offset.abs().masked_fill(either, 0)
        found.append(scores.masked_fill(~(seen | either), -torch.inf).softmax(-1))
    return found


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("distance", ["kl", "mse"])
@pytest.mark.parametrize("window", [None, 5])
def test_maps_by_blocks_equal_whole_maps(window, distance, average, monkeypatch):
    monkeypatch.setattr("longdoc.models.distillation._BLOCK_TOKENS", 8)
    marked = first_tokens(LENGTHS) if window else None
    pattern = Pattern.packed(LENGTHS, window, window, global_tokens=marked, slopes=alibi_slopes(2))
    student, teacher = passes(0, pattern), passes(1, pattern)
    student.q.requires_grad_()
    found = attention_loss([student], [teacher], distance, average)
    total, rows = torch.zeros(()), 0
    for ours, theirs in zip(dense_weights(student), dense_weights(teacher), strict=True):
        if average:
            ours, theirs = ours.mean(0, keepdim=True), theirs.mean(0, keepdim=True)
        if distance == "kl":
            total = total + F.kl_div(ours.clamp(min=1e-30).log(), theirs, reduction="sum")
        else:
            total = total + (((ours - theirs) ** 2).sum(-1) / (theirs > 0).sum(-1)).sum()
        rows += ours.shape[0] * ours.shape[1]
    torch.testing.assert_close(found, total / rows, rtol=1e-4, atol=1e-6)
    gradient = torch.autograd.grad(found, student.q)[0]
    torch.testing.assert_close(gradient, torch.autograd.grad(total / rows, student.q)[0], rtol=1e-3, atol=1e-6)
    assert gradient.abs().sum() > 0


def test_relations_are_maps_of_a_side_with_itself():
    pattern = Pattern.packed((5,))
    student, teacher = passes(0, pattern, heads=2, width=6), passes(1, pattern, heads=4, width=4)
    total = torch.zeros(())
    for name in "qkv":
        ours, theirs = (getattr(side, name).transpose(0, 1).reshape(5, 4, -1) for side in (student, teacher))
        ours, theirs = (torch.einsum("ihe,jhe->hij", x, x) / math.sqrt(x.shape[-1]) for x in (ours, theirs))
        total = total + F.kl_div(ours.log_softmax(-1), theirs.softmax(-1), reduction="sum")
    torch.testing.assert_close(relation_loss([student], [teacher], None), total / (3 * 4 * 5))
    assert relation_loss([teacher], [teacher], 2).abs() < 1e-6
    with pytest.raises(ConfigError, match="relation_heads=5"):
        relation_loss([student], [teacher], 5)


def test_other_patterns_and_heads_are_refused():
    wide, narrow = Pattern.packed((9,)), Pattern.packed((9,), 2, 2)
    with pytest.raises(ConfigError, match="see the same tokens"):
        attention_loss([passes(0, wide)], [passes(1, narrow)], "kl", False)
    with pytest.raises(ConfigError, match="average_heads=true"):
        attention_loss([passes(0, wide)], [passes(1, wide, heads=4)], "kl", False)
    assert attention_loss([passes(0, wide)], [passes(1, wide, heads=4)], "kl", True) > 0
    # Windows that reach over all of it are no windows, and then global tokens change nothing.
    marked = Pattern.packed((9,), global_tokens=torch.arange(9) == 0)
    assert attention_loss([passes(0, wide)], [passes(1, marked)], "kl", False) > 0
    assert relation_loss([passes(0, marked)], [passes(1, wide)], None) > 0
    assert attention_loss([passes(0, wide)], [passes(1, Pattern.packed((9,), 8, 8))], "kl", False) > 0


@pytest.mark.parametrize("family", PACKABLE)
def test_the_inside_is_the_same_packed_and_padded(family):
    batch = batch_of(LENGTHS)
    padded, packed = (Encoder(tiny_encoder(family).eval(), 1) for _ in range(2))
    set_attention(packed, AttentionConfig(), 64)
    if family == "Albert":
        with pytest.raises(ConfigError, match="times"), look_inside(padded, attention=True):
            pass
        return
    sides = []
    for encoder in (padded, packed):
        with look_inside(encoder, attention=True) as seen, torch.no_grad():
            out = encoder(batch)
        assert len(seen.states) == 3
        assert [len(layer) for layer in seen.passes] == [1, 1]
        sides.append((seen, out))
    for state in range(3):
        torch.testing.assert_close(sides[0][0].hidden(state), sides[1][0].hidden(state), rtol=1e-4, atol=1e-4)
    for layer in range(2):
        one, other = (seen.passes[layer] for seen, _ in sides)
        assert attention_loss(one, other, "kl", False) < 1e-6
        assert relation_loss(one, other, None) < 1e-6
    if family == "Bert":
        torch.testing.assert_close(sides[0][0].hidden(2), sides[0][1])
        embedded = padded.model.embeddings(input_ids=batch.input_ids[None, :7])[0]
        torch.testing.assert_close(sides[0][0].hidden(0)[:7], embedded)


@pytest.mark.parametrize("family", [name for name in PACKABLE if name != "Albert"])
def test_layers_are_taken_in_their_order(family):
    teacher, student = Encoder(tiny_encoder(family).eval(), 1), Encoder(tiny_encoder(family).eval(), 1)
    if family == "ModernBert":
        with pytest.raises(ConfigError, match=r"mapping=first"):
            take_layers_(student, [1])
        student = Encoder(tiny_encoder(family).eval(), 1)
    chosen = 0 if family == "ModernBert" else 1
    take_layers_(student, [chosen])
    batch = batch_of((12,))
    with look_inside(student, attention=False) as ours, torch.no_grad():
        student(batch)
    with look_inside(teacher, attention=False) as theirs, torch.no_grad():
        teacher(batch)
    assert len(ours.states) == 2
    assert student.model.config.num_hidden_layers == 1
    torch.testing.assert_close(ours.hidden(0), theirs.hidden(0))
    assert torch.allclose(ours.hidden(1), theirs.hidden(1)) == (chosen == 0)
    rebuilt = type(student.model)(student.model.config)
    rebuilt.load_state_dict(student.model.state_dict())
