"""Batches by token budget, the same for every number of workers and ranks, and a loader that knows where it is."""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from longdoc.errors import ConfigError

_BUCKET_BATCHES = 16
_LENGTH_CLASSES = 64


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

    Shuffled units are sorted by length within stretches of a few batches, so that padded encoders waste little, and
    filled into batches once. In each epoch units of about one length change places, and the batches are shuffled: all
    epochs have the same number of batches, which Lightning takes for granted. Batches are dealt to ranks in turn; the
    largest are split until every rank gets the same number.

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
        self.start = 0
        # What is as long when rounded up can change places and the budget still holds.
        step = max(1, max_tokens // _LENGTH_CLASSES)
        rounded = -(-self.lengths // step) * step
        self._rounded = np.where(self.lengths <= max_tokens, np.minimum(rounded, max_tokens), self.lengths)
        self._batches = self._fill()

    def set_epoch(self, epoch: int) -> None:
        """Choose the order; Lightning calls this. Another epoch begins with its first batch."""
        if epoch != self.epoch:
            self.epoch, self.start = epoch, 0

    def plan(self) -> list[list[int]]:
        """All batches of the epoch, for all ranks: a rank takes every ``num_ranks``-th."""
        rng = np.random.default_rng((self.seed, self.epoch))
        unit = np.arange(len(self.lengths))
        for members in self._classes():
            unit[members] = rng.permutation(members)
        batches = [unit[batch].tolist() for batch in self._batches]
        rng.shuffle(batches)
        return batches

    def _fill(self) -> list[list[int]]:
        order = np.random.default_rng(self.seed).permutation(len(self.lengths))
        mean = max(float(self.lengths.mean()), 1.0) if len(order) else 1.0
        stretch = max(1, int(_BUCKET_BATCHES * self.max_tokens / mean))
        bucketed = [i for at in range(0, len(order), stretch) for i in self._by_length(order[at : at + stretch])]
        batches = fill_batches(bucketed, self._rounded, self.max_tokens)
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

    def _classes(self) -> list[np.ndarray]:
        by_length = np.argsort(self._rounded, kind="stable")
        return np.split(by_length, np.flatnonzero(np.diff(self._rounded[by_length])) + 1)

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of this rank, from number ``start`` on."""
        yield from self.plan()[self.rank :: self.num_ranks][self.start :]

    def __len__(self) -> int:
        """Batches of a whole epoch, wherever it starts, as Lightning expects."""
        return len(self._batches) // self.num_ranks


class TrainLoader(DataLoader):
    """Serves the batches of a ``TokenBudgetSampler`` and can go on in the middle of an epoch.

    Its position counts the batches that were handed out, not those that workers have built ahead. It draws nothing from
    the global random state.

    Args:
        dataset: An index is a list of units, the item is their batch. With an array ``num_labelled``, the labelled
            items of each unit, batches are told how many of them, and of tokens, share an optimiser step.
        sampler: Chooses the units.
        num_workers: Processes that build batches; 0 builds them in the training process.
        accumulate: Batches of each rank that make one optimiser step.
        num_batches: How many of an epoch each rank is asked for; None for all.
    """

    def __init__(
        self,
        dataset: Dataset,
        sampler: TokenBudgetSampler,
        num_workers: int = 0,
        accumulate: int = 1,
        num_batches: int | None = None,
    ) -> None:
        super().__init__(
            dataset,
            sampler=sampler,
            batch_size=None,
            num_workers=num_workers,
            generator=torch.Generator(),
            worker_init_fn=leave_signals_to_training,
        )
        self.order = sampler
        self.accumulate = accumulate
        self.num_batches = len(sampler) if num_batches is None else num_batches
        self._position = 0

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # Lightning takes any iterator
        """Lazily, so that workers start when the epoch is known."""
        self._position = self.order.start
        per_unit = getattr(self.dataset, "num_labelled", None)
        if per_unit is not None:
            labelled, tokens = self._of_steps(per_unit), self._of_steps(self.order.lengths)
        for batch in super().__iter__():
            if per_unit is not None:
                step = self._position // self.accumulate
                batch.num_labelled, batch.num_step_tokens = int(labelled[step]), int(tokens[step])
                batch.num_shares = self.order.num_ranks * self.accumulate
            self._position += 1
            yield batch

    def _of_steps(self, per_unit: np.ndarray) -> np.ndarray:
        """What the units of each optimiser step of the epoch have together, over all ranks."""
        plan = self.order.plan()
        per_batch = np.array([per_unit[batch].sum() for batch in plan])
        per_batch[self.num_batches * self.order.num_ranks :] = 0
        return np.add.reduceat(per_batch, range(0, len(plan), self.order.num_ranks * self.accumulate))

    def state_dict(self) -> dict[str, int]:
        """Epoch and position; Lightning keeps them in checkpoints."""
        return {"epoch": self.order.epoch, "position": self._position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on where the state was taken."""
        self.order.epoch, self.order.start = state["epoch"], state["position"]
        self._position = state["position"]


def leave_signals_to_training(worker: int) -> None:  # noqa: ARG001
    """Let a worker live on when a signal goes to the whole process group: its parent ends it, after saving."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "sigwaitinfo"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
        pass
    os._exit(0)
