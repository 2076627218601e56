"""Whole-sample splits of a batch, and local steps in proportion to speed (algorithms 3.2 and 3.5)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from itertools import accumulate

from paceline.errors import ConfigError


def split(batch: int, speeds: Sequence[float], caps: Sequence[int] | None = None) -> list[int]:
    """Shares that add up to ``batch`` and minimise the slowest worker's time, ``max(share / speed)``.

    Start at the floor of the best real-valued shares, then give each unit that is left to whoever would be done with
    it first; on a tie the lower index gets it (algorithms 3.2 with no fixed cost).

    Args:
        batch: samples to share out.
        speeds: samples/s of each worker.
        caps: the most samples each worker may take; no limit if not given.

    Raises:
        ConfigError: no batch, no workers, a speed that is not positive, or caps that cannot hold the batch.
    """
    limits = [batch] * len(speeds) if caps is None else list(caps)
    _check(batch, speeds, limits)
    shares = _floors(batch, speeds, limits)
    ready = [((shares[i] + 1) / speeds[i], i) for i in range(len(speeds)) if shares[i] < limits[i]]
    heapq.heapify(ready)
    for _ in range(batch - sum(shares)):
        _, i = heapq.heappop(ready)
        shares[i] += 1
        if shares[i] < limits[i]:
            heapq.heappush(ready, ((shares[i] + 1) / speeds[i], i))
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
    base, over = divmod(batch, workers)
    return [base + (i < over) for i in range(workers)]


def local_steps(speeds: Sequence[float], most: int = 8) -> list[int]:
    """Updates of each group between two exchanges, so that all exchange about equally often.

    Args:
        speeds: updates/s of each group.
        most: updates of the fastest group.
    """
    fastest = max(speeds)
    return [max(1, round(most * speed / fastest)) for speed in speeds]


def _check(batch: int, speeds: Sequence[float], limits: Sequence[int]) -> None:
    if batch < 1:
        raise ConfigError(f"a batch of {batch}", expected="1 or more samples", remedy="Raise the global batch.")
    if not speeds:
        raise ConfigError("no worker to give a share to", remedy="Give the cluster at least one device.")
    for i, speed in enumerate(speeds):
        if not 0 < speed < math.inf:
            raise ConfigError(
                f"worker {i} has a speed of {speed} samples/s", expected="a positive number",
                remedy="Probe again, or leave that device out.",
            )  # fmt: skip
    if sum(limits) < batch:
        raise ConfigError(
            f"{len(limits)} workers hold {sum(limits)} samples at once", expected=f"the global batch of {batch}",
            remedy="Lower the global batch.",
        )  # fmt: skip


def _floors(batch: int, speeds: Sequence[float], limits: Sequence[int]) -> list[int]:
    """Floors of the real-valued optimum ``min(T * speed, limit)``, where the shared time T makes the sum ``batch``.

    Walk the workers in the order of the time at which they reach their limit, those before being full:

        full at   t0    t1    t2    t3          T is the first time at which what is left over, done by all who are
                  |-----|--T--|-----|           not full yet, ends before the next of them is full
    """
    order = sorted(range(len(speeds)), key=lambda i: limits[i] / speeds[i])
    rates = list(accumulate(speeds[i] for i in reversed(order)))[::-1]
    left, time = batch, 0.0
    for i, rate in zip(order, rates, strict=True):
        time = left / rate
        if time < limits[i] / speeds[i]:
            break
        left -= limits[i]
    return [min(limit, math.floor(time * speed)) for limit, speed in zip(limits, speeds, strict=True)]
