"""Shares that follow what workers are measured to take, without running after noise.

Every worker of a job keeps one and tells it the same numbers, so that all come to the same shares without a further
message. Only operations are used that IEEE 754 rounds alike on every host: no logarithms, no sums over workers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.cost.compute import curve
from paceline.cost.split import split
from paceline.schema.plan import WorkerPlan

GAIN = 0.03  # predicted, for which shares are changed
SIGNIFICANT = 4.0  # standard errors that the gain must be above, too
WEIGHT = 0.05  # of a measurement in the mean: an exponential one of 0.95
NOISE = 0.1  # relative standard deviation of a measurement where the plan has none
FAR, LEAST_FAR = 4.0, 0.25  # standard deviations, and the part, from which a measurement is a stray
STRAYS = 3  # in a row are a change of speed, which came inside the first one; fewer are cut down to what is not far
EARLIEST = 5  # updates before the first look
APART = 10  # updates between two looks, and between two changes; doubled while changes take back one another
LONGEST = 32 * APART

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Change:
    """New shares. ``gain``: seconds of an update's computing before over those after, less 1. ``slowness``: of each
    worker, what it takes over what the plan says."""

    before: tuple[int, ...]
    shares: tuple[int, ...]
    gain: float
    slowness: tuple[float, ...]


class Balancer:
    """The present shares of workers that reduce together.

    A worker takes ``s t(b)`` for b samples, with t from its plan. s is the exponential mean of its measured slowness;
    it starts anew when several measurements in a row are far off. Shares change to the exact optimum for these times
    (see ``cost.split``), if that gains enough, and more than noise explains. Where all take their shares at once, they
    go on to. A worker that has a share keeps one sample at least, so that it can be seen to recover.

    Args:
        workers: of one job, in rank order. If one was not measured, the shares stay.
        fixed: the shares stay in any case.
    """

    def __init__(self, workers: Sequence[WorkerPlan], fixed: bool = False) -> None:
        self.shares = tuple(worker.share for worker in workers)
        self._taking = [i for i, share in enumerate(self.shares) if share]
        measured = not fixed and all(worker.solo_samples_per_second is not None for worker in workers)
        batch = sum(self.shares)
        caps = [workers[i].micro_batch or batch for i in self._taking]
        whole = all(self.shares[i] <= cap for i, cap in zip(self._taking, caps, strict=True))
        self._caps = caps if whole else [batch] * len(caps)
        self._curves = [curve(workers[i]) for i in self._taking] if measured else []
        count = len(self._taking)
        self._slowness = np.ones(count)
        self._variance = np.array([workers[i].spread or NOISE for i in self._taking]) ** 2
        self._calm = self._variance  # as it was before the latest strays
        self._seen, self._strays, self._strayed = np.zeros(count), np.zeros(count), np.zeros(count)
        self._update, self._look, self._changed = 0, EARLIEST, -LONGEST
        self._apart, self._last = APART, np.zeros(len(self.shares), dtype=np.int64)

    def observe(self, slowness: Sequence[float] | Numbers) -> Change | None:
        """An update was made.

        Args:
            slowness: of each worker in its latest measured update, seconds over those of the plan for as many samples,
                waits and exchanges not counted; 0 where there is none.

        Returns:
            The change of shares, if there is to be one.
        """
        self._update += 1
        if len(self._curves) < 2:
            return None
        new = np.asarray(slowness, dtype=np.float64)[self._taking]
        if new.min() <= 0:
            return None
        changed = self._take(new)
        if self._update < (self._changed + self._apart if changed else self._look) or self._seen.min() < STRAYS - 1:
            return None
        self._look = self._update + min(APART, int(self._seen.min()))
        return self._better()

    def _take(self, new: Numbers) -> bool:
        """Account for the measurements; True if they show that some worker's speed has changed."""
        mean = np.where(self._seen == 0, new, self._slowness)
        far = 1 + np.maximum(FAR * np.sqrt(self._variance), LEAST_FAR)
        side = np.where(new > mean * far, 1.0, np.where(new * far < mean, -1.0, 0.0))
        goes_on = side * self._strays > 0
        self._strays = side + np.where(goes_on, self._strays, 0.0)
        self._strayed = np.where(goes_on, self._strayed + new, 0.0)
        cut = np.minimum(np.maximum(new, mean / far), mean * far)
        self._seen += 1
        self._variance += WEIGHT * ((cut / mean - 1) ** 2 - self._variance)
        self._slowness = mean + np.maximum(1 / self._seen, WEIGHT) * (cut - mean)
        count = np.abs(self._strays)
        changed: Flags = count >= STRAYS * self._apart // APART
        self._slowness = np.where(changed, self._strayed / np.maximum(count - 1, 1), self._slowness)
        self._seen = np.where(changed, count - 1, self._seen)
        self._strays = np.where(changed, 0.0, self._strays)
        self._variance = np.where(changed, self._calm, self._variance)
        self._calm = np.where(self._strays == 0, self._variance, self._calm)
        return bool(changed.any())

    def _better(self) -> Change | None:
        """The best shares for the present times, if they are worth it."""
        scales: list[float] = self._slowness.tolist()
        shares = [self.shares[i] for i in self._taking]
        now = [scale * own(share) for scale, own, share in zip(scales, self._curves, shares, strict=True)]
        slowest = now.index(max(now))
        error = math.sqrt(self._variance[slowest] * max(WEIGHT / (2 - WEIGHT), 1 / self._seen[slowest]))
        least = max(GAIN, SIGNIFICANT * error)
        spare = sum(shares) - len(shares)
        if max(now) <= (1 + least) * min(now) or not spare or self._update < self._changed + self._apart:
            return None  # some worker keeps its share or gets more, so none is better than the fastest one now
        above_one = [
            lambda more, scale=scale, own=own: scale * own(1 + more)
            for scale, own in zip(scales, self._curves, strict=True)
        ]
        best = [1 + more for more in split(spare, above_one, [cap - 1 for cap in self._caps])]
        gain = max(now) / max(scale * own(b) for scale, own, b in zip(scales, self._curves, best, strict=True)) - 1
        return self._change(best, gain) if gain > least else None

    def _change(self, best: Sequence[int], gain: float) -> Change:
        before, shares, slowness = self.shares, [0] * len(self.shares), [1.0] * len(self.shares)
        for i, share, scale in zip(self._taking, best, self._slowness.tolist(), strict=True):
            shares[i], slowness[i] = share, scale
        self.shares = tuple(shares)
        step = np.array(self.shares) - np.array(before)
        back = int(step @ self._last) < 0
        soon = self._update - self._changed < 4 * self._apart
        self._apart = min(2 * self._apart, LONGEST) if back and soon else APART
        self._last, self._changed = step, self._update
        self._seen = np.minimum(self._seen, STRAYS)  # at other shares: the plan's times may be off in another way
        return Change(before, self.shares, gain, tuple(slowness))
