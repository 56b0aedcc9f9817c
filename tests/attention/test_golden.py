"""Values worked out by hand or published."""

import pytest
import torch

from longdoc.attention import Pattern, alibi_slopes, attend
from longdoc.attention.reference import distance_bias, reference_weights
from longdoc.errors import ConfigError

EIGHT = [2.0**-i for i in range(1, 9)]
TWELVE = [
    0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625,
    0.70710678, 0.35355339, 0.17677670, 0.08838835,
]  # fmt: skip


@pytest.mark.parametrize(("num_heads", "expected"), [(1, [2.0**-8]), (2, [2.0**-4, 2.0**-8]), (8, EIGHT), (12, TWELVE)])
def test_slopes(num_heads, expected):
    torch.testing.assert_close(alibi_slopes(num_heads), torch.tensor(expected))


def test_no_heads_are_refused():
    with pytest.raises(ConfigError, match="num_heads=0"):
        alibi_slopes(0)


@pytest.mark.parametrize("num_heads", [8, 12])
def test_bias_counts_distance_in_both_directions(num_heads):
    bias = distance_bias(Pattern.packed([4], slopes=alibi_slopes(num_heads)))
    distance = torch.tensor([[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]])
    slopes = EIGHT if num_heads == 8 else TWELVE
    for head, slope in enumerate(slopes):
        torch.testing.assert_close(bias[head], -slope * distance.double(), rtol=1e-6, atol=1e-6)


def test_pairs_with_a_global_token_have_no_bias():
    marked = torch.tensor([True, False, False, False])
    bias = distance_bias(Pattern.packed([4], global_tokens=marked, slopes=torch.tensor([0.5])))
    expected = -0.5 * torch.tensor([[0, 0, 0, 0], [0, 0, 1, 2], [0, 1, 0, 1], [0, 2, 1, 0]]).double()
    torch.testing.assert_close(bias[0], expected)


def test_distance_is_counted_within_the_segment():
    bias = distance_bias(Pattern.packed([2, 2], slopes=torch.tensor([1.0])))
    assert bias[0, 2, 3] == bias[0, 0, 1] == -1


@pytest.mark.parametrize(("scale", "expected"), [(None, (0.584, 0.416)), (1.0, (0.618, 0.382))])
def test_two_keys_by_hand(scale, expected):
    q = torch.tensor([[0.8, 0.2], [0.8, 0.2]])[None, None]
    k = torch.tensor([[0.9, 0.1], [0.1, 0.9]])[None, None]
    v = torch.eye(2)[None, None]
    for backend in ("reference", "blocked"):
        out = attend(q, k, v, Pattern.packed([2]), scale=scale, backend=backend)
        torch.testing.assert_close(out[0, 0, 0], torch.tensor(expected), rtol=0, atol=5e-4)


def test_four_scores_by_hand():
    q = torch.tensor([[1.0, 0.0]] * 4)[None, None]
    k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])[None, None]
    weights = reference_weights(q, k, Pattern.packed([4]), 2**-0.5)
    torch.testing.assert_close(weights[0, 0], torch.tensor([0.335, 0.165, 0.335, 0.165]), rtol=0, atol=5e-4)
    out = attend(q, k, torch.eye(4)[None, None], Pattern.packed([4]))
    torch.testing.assert_close(out[0, 0], weights[0])
