"""Seconds of computing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

from paceline.errors import ConfigError
from paceline.schema.plan import WorkerPlan

Seconds = Callable[[int], float]  # of that many samples; never falls


def seconds(worker: WorkerPlan, samples: int) -> float:
    """One update of ``samples`` samples on this worker; see ``curve``."""
    return curve(worker)(samples)


def curve(worker: WorkerPlan) -> Seconds:
    """The time of one update on this worker for any number of samples, which it reads itself; 0 for none.

    ``t(b) = ceil(b / m) a + (c + l) b`` with micro-batches of at most ``m`` samples and ``l`` for reading one. Between
    two measured batches of the worker's table a micro-batch takes what lies on the line between them instead of
    ``a + c b``; more samples never take less time.

    Raises:
        ConfigError: the worker was not measured.
    """
    if worker.solo_samples_per_second is None:
        raise ConfigError(
            f"group '{worker.group}', {worker.device} has no speed in the plan",
            remedy="Make the plan from a profile: paceline probe, then paceline plan.",
        )
    cap, fixed, loading = worker.micro_batch, worker.fixed_seconds, worker.loading_seconds
    if worker.table:
        piece = _tabled(worker)
        full = piece(cap) if cap else 0.0

        def pieces(samples: int) -> float:
            if not cap or samples <= cap:
                return piece(samples) + samples * loading
            return samples // cap * full + piece(samples % cap) + samples * loading

        return pieces
    each = sample_seconds(worker) + loading
    if not cap:
        return lambda samples: fixed + samples * each if samples else 0.0
    return lambda samples: -(-samples // cap) * fixed + samples * each


def last_micro_batch(worker: WorkerPlan, samples: int) -> int:
    """Samples of the last micro-batch in an update of ``samples``."""
    cap = worker.micro_batch
    return (samples - 1) % cap + 1 if cap and samples else samples


def sample_seconds(worker: WorkerPlan) -> float:
    """Seconds that one more sample of a micro-batch takes by the fitted line, without reading it."""
    return worker.sample_seconds or 1 / (worker.solo_samples_per_second or 1.0)


def _tabled(worker: WorkerPlan) -> Seconds:
    """One micro-batch by the measured batches where there are some around it, else by the fitted line.

    Batches over the cap were measured in several pieces, and say nothing of one.
    """
    fixed, each = worker.fixed_seconds, sample_seconds(worker)
    table = [point for point in worker.table if point.samples <= (worker.micro_batch or point.samples)]
    sizes = [point.samples for point in table]
    times = list(accumulate((point.seconds for point in table), max))

    def piece(samples: int) -> float:
        place = bisect_right(sizes, samples)
        line = fixed + samples * each if samples else 0.0
        if place == 0:
            return min(line, times[0]) if times else line
        low = times[place - 1]
        if place == len(sizes):
            return max(line, low)
        start = sizes[place - 1]
        return low + (samples - start) / (sizes[place] - start) * (times[place] - low)

    return piece
