"""Real processes for runs, alone or together, forked off a server that has imported everything."""

import multiprocessing
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_only

from tests.reliability import parts

_SECONDS_TO_FOLLOW = 30.0  # from the end of one process with an error to that of the others

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, "tests.reliability.parts"])


class Processes:
    """Processes of one run, in a process group of their own; a function of this module runs in each.

    Args:
        function: Called with ``arguments``.
        num_ranks: Processes; above 1 they train together.
        arguments: Of the function.
        environment: Variables to set in each.
    """

    def __init__(
        self, function: Callable, num_ranks: int, *arguments: Any, environment: dict[str, str] | None = None
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.ranks: list[BaseProcess] = []
        self.group = 0
        together = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(num_ranks)}
        for rank in range(num_ranks):
            variables = {**(environment or {}), **({**together, "LOCAL_RANK": str(rank)} if num_ranks > 1 else {})}
            process = _context.Process(target=_start, args=(function, rank, self.group, variables, arguments))
            process.start()
            self.ranks.append(process)
            if rank == 0:
                self.group = process.pid or 0

    def codes(self, seconds: float = 300.0) -> list[int | None]:
        """Wait for the end; exit codes, None for a process that had to be killed. Nothing may be left of the group."""
        until = time.monotonic() + seconds
        while any(process.exitcode is None for process in self.ranks) and time.monotonic() < until:
            if any(process.exitcode for process in self.ranks):
                until = min(until, time.monotonic() + _SECONDS_TO_FOLLOW)
            time.sleep(0.02)
        codes = [process.exitcode for process in self.ranks]
        left = True
        for _ in range(100):  # workers notice within five seconds that their parent has gone
            try:
                os.killpg(self.group, 0)
            except ProcessLookupError:
                left = False
                break
            time.sleep(0.1)
        with suppress(ProcessLookupError):
            os.killpg(self.group, signal.SIGKILL)
        assert not left, f"a process was left behind; exit codes {codes}"
        return codes


def _start(function: Callable, rank: int, group: int, variables: dict[str, str], arguments: tuple) -> None:
    while True:
        with suppress(PermissionError):  # the first process has not made the group yet
            os.setpgid(0, group)
            break
        time.sleep(0.01)
    multiprocessing.set_start_method("fork", force=True)  # of workers: that of a program on its own
    os.environ.update(variables)
    rank_zero_only.rank = rank
    torch.set_num_threads(1)
    try:
        function(*arguments)
    except Exception:
        traceback.print_exc()
        os._exit(1)


def settings_of(num_ranks: int) -> dict[str, Any]:
    """Arguments of a Trainer for so many processes."""
    return {"devices": num_ranks, "strategy": "ddp"} if num_ranks > 1 else {}


def fit(folder: Path, cache: Path, num_ranks: int, **settings: Any) -> None:
    """Train, and leave the weights of each process in the folder."""
    module = parts.fit(folder, cache, **settings_of(num_ranks), **settings)
    torch.save(module.state_dict(), folder / f"weights-{os.environ.get('LOCAL_RANK', 0)}.pt")


def weights(folder: Path, rank: int = 0) -> dict[str, torch.Tensor]:
    """What ``fit`` has left."""
    return torch.load(folder / f"weights-{rank}.pt", weights_only=True)
