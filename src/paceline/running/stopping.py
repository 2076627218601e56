"""A request to stop: noted by a signal handler that does nothing else, acted on between two updates."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType


class StopRequest:
    """SIGTERM from a launcher, a scheduler or a person. ``number`` is 0 until it comes.

    Before anything was trained the process just ends. A handler of the user's own stays in place.

    Args:
        trained: whether there is something to save.
    """

    def __init__(self, trained: Callable[[], bool]) -> None:
        self.number = 0
        self._trained = trained

    def listen(self) -> None:
        """Take SIGTERM from now on, from the system's default or an earlier run of this process."""
        before = signal.getsignal(signal.SIGTERM)
        ours = isinstance(getattr(before, "__self__", None), StopRequest)
        if threading.current_thread() is threading.main_thread() and (ours or before == signal.SIG_DFL):
            signal.signal(signal.SIGTERM, self._note)

    @property
    def exit_code(self) -> int:
        """As a shell has it for a process that ended by the signal, here or at a peer."""
        return 128 + (self.number or signal.SIGTERM)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        if not self._trained():
            raise SystemExit(self.exit_code)
