"""Pacing: after computing for d seconds a worker rests d * (1/speed - 1). No root; communication is not slowed."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pacer:
    """Makes one worker as slow as ``speed`` of a core.

    Work is taken from the thread's CPU clock, so waiting for peers inside backward, or for a core that another emulated
    device holds, is not slowed a second time. One compute thread a worker is assumed (``threads: 1`` in the plan).
    """

    def __init__(
        self,
        speed: float | None,
        cpu_clock: Callable[[], float] = time.thread_time,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._slowdown = 0.0 if speed is None else 1.0 / speed - 1.0
        self._cpu_clock, self._rest = cpu_clock, rest
        self._started = cpu_clock()

    def begin(self) -> None:
        """Computing starts here; what the thread did before is not paced."""
        self._started = self._cpu_clock()

    def settle(self) -> None:
        """Rest for what was computed since ``begin`` or the last ``settle``."""
        worked = self._cpu_clock() - self._started
        if self._slowdown > 0.0 and worked > 0.0:
            self._rest(worked * self._slowdown)
        self._started = self._cpu_clock()
