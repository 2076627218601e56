"""Equal shares, shares by speed, and local steps in proportion to speed."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.cost.compute import Seconds
from paceline.cost.split import split
from paceline.errors import ConfigError
from paceline.ops import Range
from paceline.schema.plan import WorkerPlan

# Samples go to a device that need not accumulate unless that makes an update this much slower: accumulation rules out
# several optimizers, and BatchNorm sees less of a batch.
ACCUMULATE = 1.2
LOCAL_STEPS = 8  # of the fastest group, at least


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


def by_speed(batch: int, workers: Sequence[WorkerPlan], ends: Sequence[Seconds]) -> list[int]:
    """The fastest split; where all devices together hold the batch at once, one without accumulation if that is not
    much slower.

    Args:
        batch: samples to share out.
        workers: who shares them, with their caps.
        ends: for each worker, when its update of so many samples ends.
    """
    shares = split(batch, ends)
    caps = [worker.micro_batch or batch for worker in workers]
    if sum(caps) < batch or all(share <= cap for share, cap in zip(shares, caps, strict=True)):
        return shares
    whole = split(batch, ends, caps)
    slowest, wholes = (max(end(n) for end, n in zip(ends, part, strict=True)) for part in (shares, whole))
    return whole if wholes <= ACCUMULATE * slowest else shares


def local_steps(speeds: Sequence[float], most: int = LOCAL_STEPS) -> list[int]:
    """Updates of each group between two exchanges, so that all exchange about equally often.

    Args:
        speeds: updates/s of each group.
        most: updates of the fastest group.
    """
    fastest = max(speeds)
    return [max(1, round(most * speed / fastest)) for speed in speeds]
