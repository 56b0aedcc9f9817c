"""Batches by token budget, the same for every number of workers and ranks."""

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

from longdoc.errors import ConfigError

_BUCKET_BATCHES = 16


def fill_batches(order: Sequence[int], lengths: np.ndarray, max_tokens: int) -> list[list[int]]:
    """Fill batches up to a token budget, in the given order. A unit longer than the budget gets a batch of its own."""
    batches: list[list[int]] = []
    room = 0
    for i in order:
        if not batches or lengths[i] > room:
            batches.append([])
            room = max_tokens
        batches[-1].append(int(i))
        room -= int(lengths[i])
    return batches


class TokenBudgetSampler(Sampler[list[int]]):
    """Yields lists of unit indices; every unit once an epoch, the order a function of (seed, epoch).

    Shuffled units are sorted by length within stretches of a few batches, so that padded encoders waste little. Batches
    are dealt to ranks in turn; the largest are split until every rank gets the same number.

    Args:
        lengths: Tokens of each unit. *Shape:* (num_units,).
        max_tokens: Budget of a batch.
        seed: Of the order.
        num_ranks: Processes that share the batches.
        rank: Which of them this is.
    """

    def __init__(self, lengths: np.ndarray, max_tokens: int, seed: int = 0, num_ranks: int = 1, rank: int = 0) -> None:
        if max_tokens < 1:
            raise ConfigError(f"max_tokens_per_batch={max_tokens}: expected at least 1")
        self.lengths = np.asarray(lengths)
        self.max_tokens = max_tokens
        self.seed = seed
        self.num_ranks = num_ranks
        self.rank = rank
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order; Lightning calls this."""
        self.epoch = epoch

    def plan(self) -> list[list[int]]:
        """All batches of the epoch, for all ranks."""
        rng = np.random.default_rng((self.seed, self.epoch))
        order = rng.permutation(len(self.lengths))
        mean = max(float(self.lengths.mean()), 1.0) if len(order) else 1.0
        stretch = max(1, int(_BUCKET_BATCHES * self.max_tokens / mean))
        bucketed = [i for at in range(0, len(order), stretch) for i in self._by_length(order[at : at + stretch])]
        batches = fill_batches(bucketed, self.lengths, self.max_tokens)
        rng.shuffle(batches)
        while len(batches) % self.num_ranks:
            largest = max(range(len(batches)), key=lambda b: len(batches[b]))
            if len(batches[largest]) == 1:
                raise ConfigError(
                    f"{len(self.lengths)} training units cannot be dealt evenly to {self.num_ranks} processes; "
                    "use fewer"
                )
            half = len(batches[largest]) // 2
            batches.append(batches[largest][half:])
            batches[largest] = batches[largest][:half]
        return batches

    def _by_length(self, units: np.ndarray) -> list[int]:
        return units[np.argsort(-self.lengths[units], kind="stable")].tolist()

    def __iter__(self) -> Iterator[list[int]]:
        yield from self.plan()[self.rank :: self.num_ranks]

    def __len__(self) -> int:
        return len(self.plan()) // self.num_ranks
