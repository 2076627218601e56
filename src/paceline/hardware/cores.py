"""How many CPU threads a worker computes on."""

from __future__ import annotations

import os


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads(available: int, workers: int, user_set: int | None) -> int:
    """CPU threads of each worker: what the user set, or an even part of the ``available`` cores of their host.

    Args:
        available: cores of one host.
        workers: on that host.
        user_set: the user's OMP_NUM_THREADS, which stands.
    """
    return user_set or max(1, available // workers)
