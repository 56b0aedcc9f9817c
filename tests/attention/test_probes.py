"""Entropies and chosen rows against the dense weights."""

import math

import pytest
import torch

from longdoc.attention import Pattern, alibi_slopes, attention_rows, head_entropy
from longdoc.attention.probes import AttentionRow, head_overlap, largest_score, uniform_entropy
from longdoc.attention.reference import reference_weights
from longdoc.errors import ConfigError
from tests.attention.cases import random_case


def dense_entropy(q, k, pattern):
    weights = reference_weights(q.double(), k.double(), pattern, q.shape[-1] ** -0.5)
    return torch.special.entr(weights).sum((1, 2)) / pattern.num_tokens


@pytest.mark.parametrize("seed", range(12))
def test_entropy_equals_dense(seed):
    case = random_case(seed, most_tokens=600)
    q, k = case.inputs[:2]
    torch.testing.assert_close(
        head_entropy(q, k, case.pattern), dense_entropy(q, k, case.pattern), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("seed", range(6))
def test_rows_equal_dense(seed):
    case = random_case(seed, most_tokens=400)
    q, k = case.inputs[:2]
    pattern = case.pattern
    weights = reference_weights(q.double(), k.double(), pattern, q.shape[-1] ** -0.5)
    if pattern.slots is not None:
        weights = weights[:, pattern.slots][:, :, pattern.slots]
    marked = [] if pattern.global_tokens is None else pattern.global_tokens.nonzero()[:, 0].tolist()
    for row in attention_rows(q, k, pattern, [0, pattern.num_tokens - 1, *marked]):
        full = torch.zeros(weights.shape[0], pattern.num_tokens, dtype=torch.float64)
        full[:, row.keys] = row.weights.double()
        torch.testing.assert_close(full, weights[:, row.token], rtol=1e-5, atol=1e-6)


def test_controls_have_the_entropy_they_must():
    q, k = torch.randn(2, 1, 3, 20, 8, generator=torch.Generator().manual_seed(0))
    uniform = head_entropy(q, k, Pattern.packed([20], slopes=alibi_slopes(3), control="uniform"))
    torch.testing.assert_close(uniform, torch.full((3,), math.log(20), dtype=torch.float64), rtol=1e-6, atol=1e-6)
    rows = attention_rows(q, k, Pattern.packed([20], slopes=alibi_slopes(3), control="uniform"), [4])
    torch.testing.assert_close(rows[0].weights, torch.full((3, 20), 1 / 20))
    identity = Pattern.packed([20], left=0, right=0)
    assert (head_entropy(q, k, identity) == 0).all()
    assert attention_rows(q, k, identity, [4])[0].keys.tolist() == [4]


def test_a_token_that_is_not_there_is_refused():
    q, k = torch.zeros(2, 1, 1, 4, 8)
    with pytest.raises(ConfigError, match="tokens: 4"):
        attention_rows(q, k, Pattern.packed([4]), [4])


@pytest.mark.parametrize("seed", range(12))
def test_uniform_entropy_is_that_of_equal_weights(seed):
    pattern = random_case(seed, most_tokens=300).pattern
    bare = Pattern(
        pattern.lengths,
        pattern.batch_shape,
        pattern.left,
        pattern.right,
        pattern.global_tokens,
        None,
        "uniform",
        pattern.slots,
    )
    q = torch.zeros(pattern.batch_shape[0], 1, pattern.batch_shape[1], 4, dtype=torch.float64)
    assert uniform_entropy(pattern) == pytest.approx(float(head_entropy(q, q, bare)), abs=1e-6)


def test_overlap_of_heads():
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    other = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    rows = [AttentionRow(0, torch.arange(3), weights), AttentionRow(1, torch.arange(2), other)]
    expected = torch.tensor([[1.0, 0.75, 0.5], [0.75, 1.0, 0.5], [0.5, 0.5, 1.0]])
    torch.testing.assert_close(head_overlap(rows), expected)


def test_largest_score_is_found_within_the_window_and_with_global_tokens():
    q = k = torch.zeros(1, 2, 400, 1)
    q, k = q.clone(), k.clone()
    q[0, 1, 10], k[0, 1, 20], k[0, 1, 390] = -3.0, 5.0, 100.0
    assert largest_score(q, k, Pattern.packed([400], 16, 16)) == 15.0
    assert largest_score(q, k, Pattern.packed([400])) == 300.0
    marked = torch.arange(400) == 390
    assert largest_score(q, k, Pattern.packed([400], 16, 16, marked)) == 300.0
    assert largest_score(q, k, Pattern.packed([200, 200])) == 15.0
    k[0, 0, 3] = torch.nan
    assert math.isnan(largest_score(q, k, Pattern.packed([400], 16, 16)))
