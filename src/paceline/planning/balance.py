"""Whole-sample splits of a batch, and local steps in proportion to speed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from paceline.errors import ConfigError
from paceline.ops import Range

Seconds = Callable[[int], float]  # of one update with that many samples; never falls


def split(batch: int, seconds: Sequence[Seconds]) -> list[int]:
    """Shares that add up to ``batch`` and minimise the slowest worker's time.

    Each sample in turn goes to whoever would be done with it first; on a tie the lower index gets it. That is optimal
    for any times that never fall, so for fixed costs and the steps of accumulation too.

    Args:
        batch: samples to share out.
        seconds: for each worker, its time for a number of samples.

    Raises:
        ConfigError: no batch or no workers.
    """
    if batch < 1:
        raise ConfigError(f"a batch of {batch}", expected="1 or more samples", remedy="Raise the global batch.")
    if not seconds:
        raise ConfigError("no worker to give a share to", remedy="Give the cluster at least one device.")
    shares = [0] * len(seconds)
    ready = [(own(1), i) for i, own in enumerate(seconds)]
    heapq.heapify(ready)
    for _ in range(batch):
        _, i = ready[0]
        shares[i] += 1
        heapq.heapreplace(ready, (seconds[i](shares[i] + 1), i))
    return shares


def even(batch: int, workers: int) -> list[int]:
    """Equal shares of ``batch``; what is left over goes to the first workers, one sample each.

    Raises:
        ConfigError: fewer samples than workers.
    """
    if batch < workers:
        raise ConfigError(
            f"a share that cannot be met: a global batch of {batch} for {workers} workers",
            expected="at least one sample for each worker",
            remedy=f"Raise the global batch to {workers} or more, or start at most {max(batch, 1)} workers.",
        )
    return [len(part) for part in Range(0, batch).cut([1] * workers)]


def local_steps(speeds: Sequence[float], most: int = 8) -> list[int]:
    """Updates of each group between two exchanges, so that all exchange about equally often.

    Args:
        speeds: updates/s of each group.
        most: updates of the fastest group.
    """
    fastest = max(speeds)
    return [max(1, round(most * speed / fastest)) for speed in speeds]
