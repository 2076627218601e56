"""Pacing: computing takes as long as on a slower device. Needs no root; communication is not slowed, as on a GPU.

handed over                             last bucket    backward ends    next batch
|- layer - rest - layer - rest - ... - layer - rest -|--- waited ---|- step - rest -|
                each rest ends at handed over + waited + what a device of that pace would have taken so far
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from paceline.schema.profile import Pace

KEPT = 0.9  # of what is known of the work up to a place in a micro-batch, when another one has passed there


@dataclass(frozen=True)
class Clocks:
    """What a pacer goes by: seconds, seconds of this thread on a CPU, and a way to rest."""

    now: Callable[[], float] = time.monotonic
    cpu: Callable[[], float] = time.thread_time
    rest: Callable[[float], None] = time.sleep


class Pacer:
    """Makes one worker as slow as a device that is not there.

    With a ``speed``, work of d CPU seconds takes d / speed. With a ``pace``, a micro-batch takes what is known of the
    device, however fast this host is at the moment, as long as it is faster than that; each place within it (the end of
    a layer, a gradient) is reached after the share of that time which the work up to there usually is of the whole.
    One compute thread a worker is assumed (``threads: 1`` in the plan).

    Work is read off the thread's CPU clock and rest ends at the moment the device would be done. So waiting for peers
    inside backward is not slowed, and a delay by another emulated device on the same core comes out of the rest.
    """

    def __init__(self, speed: float | None, pace: Pace | None = None, clocks: Clocks = Clocks()) -> None:
        self._speed, self._pace, self._clocks = speed, pace, clocks
        self._computing = False
        self._start = self._cpu_start = 0.0
        self._samples, self._passed = 0, list[float]()  # CPU seconds up to each place of this micro-batch
        self._usual = dict[int, list[float]]()  # the same of those before, by their samples; the last place is the end

    @property
    def slows(self) -> bool:
        """There is anything to do."""
        return self._speed is not None or self._pace is not None

    def begin(self, samples: int) -> None:
        """Computing a micro-batch of ``samples`` starts here; what the thread did before is not paced."""
        self._computing, self._samples, self._passed = True, samples, []
        self._start, self._cpu_start = self._clocks.now(), self._clocks.cpu()

    def left_out(self, seconds: float, worked: float) -> None:
        """So long the worker did not compute but sent, or waited for others; the thread ``worked`` so long for that."""
        self._start += seconds
        self._cpu_start += worked

    def worked(self) -> float:
        """CPU seconds of this thread."""
        return self._clocks.cpu()

    def settle(self) -> None:
        """Rest until such a device would be done with what was computed since ``begin``."""
        if self._computing and self.slows:
            self._rest(self._due(self._clocks.cpu() - self._cpu_start))

    def end(self) -> None:
        """Computing ends here; what the thread does from now on is not paced."""
        if self._computing and self._pace is not None:
            self._passed.append(self._clocks.cpu() - self._cpu_start)
            self._learn()
            self._rest(self._pace.seconds(self._samples))
        else:
            self.settle()
        self._computing = False

    def _learn(self) -> None:
        """How this micro-batch went on is part of what is usual."""
        usual = self._usual.get(self._samples, [])
        if len(usual) != len(self._passed):  # another way through the model than before
            usual = self._passed
        self._usual[self._samples] = [
            KEPT * before + (1 - KEPT) * now for before, now in zip(usual, self._passed, strict=True)
        ]

    def _due(self, worked: float) -> float:
        """Seconds after the start at which the device would be where this one is."""
        if self._pace is None:
            return worked / (self._speed or 1.0)
        *usual, whole = self._usual.get(self._samples, [0.0])
        place = len(self._passed)
        self._passed.append(worked)
        return self._pace.seconds(self._samples) * usual[place] / whole if place < len(usual) else 0.0

    def _rest(self, due: float) -> None:
        left = self._start + due - self._clocks.now()
        if left > 0.0:
            self._clocks.rest(left)
