"""The split of a batch over unlike workers, for planning before a run and for planning again in mid-run."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from paceline.errors import ConfigError

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
