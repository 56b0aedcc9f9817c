"""SIGTERM and SIGINT: noted when they come, acted on between two steps."""

import os
import signal
import threading
from types import FrameType
from typing import Any


class StopSignals:
    """Notes the signals that ask a process to end.

    While ``at_once`` is set, a signal ends the process with 128 plus its number, as there is nothing to save. Else it
    is kept in ``number`` until training asks for it; only a second SIGINT ends the process then.
    """

    def __init__(self) -> None:
        self.number = 0
        self.at_once = False
        self._process = 0
        self._before: dict[int, Any] = {}

    @property
    def listening(self) -> bool:
        """Whether the signals come here."""
        return bool(self._before)

    def listen(self, at_once: bool = False) -> None:
        """Take over the signals, also from those who took them over since."""
        self.at_once = at_once
        if threading.current_thread() is not threading.main_thread():
            return
        self._process = os.getpid()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before.setdefault(number, signal.getsignal(number))
            signal.signal(number, self._note)

    def release(self) -> None:
        """Give the signals back, and forget."""
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()
        self.number = 0

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # forked off to help with preprocessing
            os._exit(128 + number)
        again = number == self.number == signal.SIGINT
        self.number = self.number or number
        if self.at_once or again:
            raise SystemExit(128 + number)


STOP = StopSignals()
