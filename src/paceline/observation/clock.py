"""The one clock of a process. A clock is an argument everywhere else, so tests and the simulator bring their own."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]

monotonic: Clock = time.monotonic


def wall_origin() -> float:
    """Wall time at monotonic zero: what places the spans of several hosts on one axis."""
    return time.time() - time.monotonic()
