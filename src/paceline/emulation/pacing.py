"""Pacing: work of d CPU seconds takes d / speed seconds. Needs no root; communication is not slowed, as on a GPU.

handed over                             last bucket    backward ends    next batch
|- layer - rest - layer - rest - ... - layer - rest -|--- waited ---|- step - rest -|
                each rest ends at handed over + waited + d / speed
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Pacer:
    """Makes one worker as slow as ``speed`` of a core.

    Work is read off the thread's CPU clock and rest ends at the moment a device of that speed would be done. So waiting
    for peers inside backward is not slowed, and a delay by another emulated device on the same core comes out of the
    rest. One compute thread a worker is assumed (``threads: 1`` in the plan).
    """

    def __init__(
        self,
        speed: float | None,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self.speed = speed
        self._clock, self._cpu_clock, self._rest = clock, cpu_clock, rest
        self._computing = False
        self._start = self._cpu_start = 0.0

    def begin(self) -> None:
        """Computing starts here; what the thread did before is not paced."""
        self._computing = True
        self._start, self._cpu_start = self._clock(), self._cpu_clock()

    def left_out(self, seconds: float, worked: float) -> None:
        """So long the worker did not compute but sent, or waited for others; the thread ``worked`` so long for that."""
        self._start += seconds
        self._cpu_start += worked

    def worked(self) -> float:
        """CPU seconds of this thread."""
        return self._cpu_clock()

    def end(self) -> None:
        """Computing ends here; what the thread does from now on is not paced."""
        self.settle()
        self._computing = False

    def settle(self) -> None:
        """Rest until a device of this speed would be done with what was computed since ``begin``."""
        if self.speed is None or not self._computing:
            return
        due = self._start + (self._cpu_clock() - self._cpu_start) / self.speed
        left = due - self._clock()
        if left > 0.0:
            self._rest(left)
