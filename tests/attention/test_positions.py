"""Longer tables, sinusoidal and rotary positions."""

import math

import pytest
import torch

from longdoc.attention.positions import interpolate, rope, rope_angles, sinusoidal, tile
from longdoc.errors import ConfigError


def test_tile_repeats_the_positions_and_not_the_special_rows():
    table = torch.arange(5.0)[:, None]
    assert tile(table, 7, num_special=2)[:, 0].tolist() == [0, 1, 2, 3, 4, 2, 3, 4, 2]
    assert torch.equal(tile(table, 5), table)


def test_interpolate_keeps_the_ends():
    table = torch.tensor([9.0, 0.0, 2.0])[:, None]
    assert interpolate(table, 5, num_special=1)[:, 0].tolist() == [9, 0, 0.5, 1, 1.5, 2]


@pytest.mark.parametrize("lengthen", [tile, interpolate])
def test_tables_cannot_be_shortened(lengthen):
    with pytest.raises(ConfigError, match="num_positions=2"):
        lengthen(torch.zeros(5, 3), 2, 2)
    with pytest.raises(ConfigError, match="num_special=5"):
        lengthen(torch.zeros(5, 3), 9, 5)


def test_sinusoidal_values():
    table = sinusoidal(3, 4)
    assert table.shape == (3, 4)
    expected = [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)]
    torch.testing.assert_close(table[2], torch.tensor(expected))
    assert sinusoidal(3, 5).shape == (3, 5)


def test_rope_depends_on_distance_alone():
    q, k = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(0)).double()

    def score(i, j):
        turned = [rope(x, rope_angles(torch.tensor([[p]]), 8)) for x, p in ((q, i), (k, j))]
        return (turned[0] * turned[1]).sum()

    torch.testing.assert_close(score(3, 5), score(103, 105), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(rope(q, rope_angles(torch.tensor([[0]]), 8)), q)
    assert (score(3, 5) - score(3, 9)).abs() > 1e-3


def test_rope_needs_pairs():
    with pytest.raises(ConfigError, match="head_width=7"):
        rope_angles(torch.tensor([[0]]), 7)
