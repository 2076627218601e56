"""The most samples/s that devices reach at once without ever talking, in batches that add up to the global batch.

The maximum of  sum_i b_i / t_i(b_i)  where  sum_i b_i = B  is, for any price l >= 0 of a sample, at most

    l B + sum_i max_b (b / t_i(b) - l b)                                        (Lagrange; convex in l)

The limit is the least of these: no split can pass it, and where each t_i is a straight line one reaches it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, pairwise

import numpy as np

from paceline.cost.compute import corners
from paceline.planning import devices
from paceline.schema.plan import WorkerPlan
from paceline.schema.profile import Profile

GOLDEN = (math.sqrt(5) - 1) / 2
SEARCHES = 60  # golden sections, to 1e-12 of the highest price
LEAST = 1e-9  # samples: of a device without a fixed cost any batch, however small, will do


def limit(profile: Profile) -> float:
    """The limit of a profile's devices, by the times that plans go by."""
    each = [list(_pieces(devices.worker(device), profile.global_batch)) for device in profile.devices]
    firsts = np.cumsum([0, *map(len, each[:-1])])
    start, stop, fixed, slope = np.array(list(chain(*each))).T

    def bound(price: float) -> float:
        inside = (np.sqrt(np.maximum(fixed, 0.0) / price) - fixed) / np.maximum(slope, 1e-100)
        batches = np.stack([start, np.clip(inside, start, stop), stop])
        gains = (batches / (fixed + slope * batches) - price * batches).max(axis=0)
        return price * profile.global_batch + float(np.maximum.reduceat(gains, firsts).sum())

    low, high = 0.0, float((stop / (fixed + slope * stop)).sum()) / profile.global_batch
    for _ in range(SEARCHES):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        low, high = (low, right) if bound(left) < bound(right) else (left, high)
    return bound(high)


def _pieces(worker: WorkerPlan, batch: int) -> Iterator[tuple[float, float, float, float]]:
    """Each straight piece of one micro-batch's time: from and to so many samples, and a, c of a + c b along it."""
    most = min(worker.micro_batch or batch, batch)
    found = [corner for corner in corners(worker) if corner[0] < most]
    for (samples, seconds, slope), (following, *_) in pairwise([*found, (most, 0.0, 0.0)]):
        yield max(samples, LEAST), following, seconds - slope * samples, slope
