import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longdoc.errors import ConfigError
from longdoc.training.sampler import TokenBudgetSampler, fill_batches

lengths_and_budget = st.tuples(st.lists(st.integers(1, 40), min_size=1, max_size=80), st.integers(8, 100))


def test_golden_filling():
    lengths = np.array([3, 3, 3, 9, 1, 8, 1])
    assert fill_batches(range(7), lengths, 6) == [[0, 1], [2], [3], [4], [5], [6]]
    assert fill_batches([6, 4, 0], lengths, 6) == [[6, 4, 0]]
    assert fill_batches([], lengths, 6) == []


@given(lengths_and_budget, st.integers(0, 3), st.integers(0, 5))
def test_every_unit_once_an_epoch_and_within_the_budget(case, seed, epoch):
    lengths, budget = np.array(case[0]), case[1]
    sampler = TokenBudgetSampler(lengths, budget, seed)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert len(sampler) == len(batches)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or lengths[batch].sum() <= budget for batch in batches)


@given(lengths_and_budget, st.integers(1, 4))
def test_ranks_take_equally_many_steps_and_share_the_units(case, num_ranks):
    lengths, budget = np.array(case[0]), case[1]
    if len(lengths) < num_ranks:
        return
    try:
        samplers = [TokenBudgetSampler(lengths, budget, 7, num_ranks, rank) for rank in range(num_ranks)]
    except ConfigError:
        # Every batch holds one unit already, and their number is no multiple.
        assert len(TokenBudgetSampler(lengths, budget, 7)) % num_ranks
        return
    dealt = [list(sampler) for sampler in samplers]
    assert len({len(batches) for batches in dealt}) == 1
    assert [len(sampler) for sampler in samplers] == [len(batches) for batches in dealt]
    assert sorted(i for batches in dealt for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(batch for batches in dealt for batch in batches)


def test_twenty_four_units_on_one_to_four_ranks():
    lengths = np.full(24, 10)
    for num_ranks in (1, 2, 3, 4):
        dealt = [list(TokenBudgetSampler(lengths, 50, 0, num_ranks, rank)) for rank in range(num_ranks)]
        assert len({len(batches) for batches in dealt}) == 1
        assert sorted(i for batches in dealt for batch in batches for i in batch) == list(range(24))


def test_the_order_is_a_function_of_seed_and_epoch():
    lengths = np.random.default_rng(0).integers(1, 40, 200)

    def order(seed: int, epoch: int) -> list[list[int]]:
        sampler = TokenBudgetSampler(lengths, 100, seed)
        sampler.set_epoch(epoch)
        assert list(sampler) == list(sampler)
        return list(sampler)

    assert order(0, 3) == order(0, 3)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)
    np.random.seed(5)
    assert order(0, 0) == order(0, 0)


def test_neighbours_in_a_batch_are_of_like_length():
    lengths = np.random.default_rng(0).integers(10, 500, 2000)
    batches = list(TokenBudgetSampler(lengths, 2000))
    padded = sum(len(batch) * lengths[batch].max() for batch in batches)
    assert lengths.sum() > 0.75 * padded


def test_batches_of_short_and_long_units_are_mixed_over_the_epoch():
    lengths = np.concatenate([np.full(500, 10), np.full(500, 100)])
    longest = [lengths[batch].max() for batch in TokenBudgetSampler(lengths, 400)]
    assert 0.2 < np.mean(np.array(longest[: len(longest) // 4]) == 100) < 1.0


def test_refusals():
    with pytest.raises(ConfigError, match="max_tokens_per_batch=0"):
        TokenBudgetSampler(np.array([1]), 0)
    with pytest.raises(ConfigError, match="use fewer"):
        TokenBudgetSampler(np.array([5, 5, 5]), 5, num_ranks=2)
