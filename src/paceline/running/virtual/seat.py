"""Where ``paceline.init`` finds that its thread is a job in virtual time, and not a process of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from paceline.schema.settings import Settings

Join = Callable[[Settings], Any]  # gives the job's Run

_thread = threading.local()


def take(join: Join) -> None:
    """From here on this thread is the job that ``join`` makes the run of."""
    _thread.join = join


def here() -> Join | None:
    """What makes this thread's run; None in a process of its own."""
    join: Join | None = getattr(_thread, "join", None)
    return join
