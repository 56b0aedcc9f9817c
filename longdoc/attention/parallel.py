"""Independent pieces of work on the cores of a CPU.

PyTorch spreads each operation over the cores and waits for the slowest after each. Hundreds of small operations in a
row lose most of their time there, above all on a machine that does something else as well. Here each thread takes
pieces of its own and waits once, at the end.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import torch

_Piece = TypeVar("_Piece")
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def for_each(work: Callable[[_Piece], None], pieces: Sequence[_Piece], device: torch.device) -> None:
    """Do work on all pieces, in place and without gradients; on a CPU with several threads, each on one core."""
    num_threads = min(len(pieces), torch.get_num_threads()) if device.type == "cpu" else 1
    if num_threads < 2:
        for piece in pieces:
            work(piece)
        return
    inference = torch.is_inference_mode_enabled()

    def run(piece: _Piece) -> None:
        with torch.inference_mode() if inference else torch.no_grad():
            work(piece)

    list(_pool(num_threads).map(run, pieces))


def _pool(num_threads: int) -> ThreadPoolExecutor:
    key = (os.getpid(), num_threads)
    if key not in _pools:
        used = torch.get_num_threads()
        pool = ThreadPoolExecutor(num_threads, "longdoc-attention")
        all_started = Barrier(num_threads)

        def start(_: int) -> None:
            # A thread reads the common setting when first asked, which would undo its own.
            torch.get_num_threads()
            torch.set_num_threads(1)
            all_started.wait()

        list(pool.map(start, range(num_threads)))
        # The setting holds for the thread that makes it, but it is also what threads to come begin with.
        torch.set_num_threads(used)
        _pools[key] = pool
    return _pools[key]
