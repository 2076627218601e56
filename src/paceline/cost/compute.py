"""Seconds of computing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise

from paceline.errors import ConfigError
from paceline.schema.plan import WorkerPlan
from paceline.schema.profile import Point

Seconds = Callable[[int], float]  # of that many samples; never falls


def seconds(worker: WorkerPlan, samples: int) -> float:
    """One update of ``samples`` samples on this worker; see ``curve``."""
    return curve(worker)(samples)


def curve(worker: WorkerPlan) -> Seconds:
    """The time of one update on this worker for any number of samples, which it reads itself; 0 for none.

    Samples go in micro-batches of at most the worker's ``micro_batch``, each of which takes what ``corners`` say.

    Raises:
        ConfigError: the worker was not measured.
    """
    if worker.solo_samples_per_second is None:
        raise ConfigError(
            f"group '{worker.group}', {worker.device} has no speed in the plan",
            remedy="Make the plan from a profile: paceline probe, then paceline plan.",
        )
    return _curve(
        worker.micro_batch, worker.fixed_seconds, sample_seconds(worker), worker.loading_seconds, worker.table
    )


def last_micro_batch(worker: WorkerPlan, samples: int) -> int:
    """Samples of the last micro-batch in an update of ``samples``."""
    cap = worker.micro_batch
    return (samples - 1) % cap + 1 if cap and samples else samples


def sample_seconds(worker: WorkerPlan) -> float:
    """Seconds that one more sample of a micro-batch takes by the fitted line, without reading it."""
    return worker.sample_seconds or 1 / (worker.solo_samples_per_second or 1.0)


def corners(worker: WorkerPlan) -> list[tuple[int, float, float]]:
    """What one micro-batch takes, as straight lines from corner to corner.

    Returns:
        The corners, from 0 samples on: a number of samples, the seconds they take, and what each sample more adds up to
        the next corner. Without a measured table there is one, of ``a + (c + l) b`` with ``l`` for reading a sample.
        Batches over the cap were measured in several pieces, and say nothing of one.
    """
    each, loading = sample_seconds(worker), worker.loading_seconds
    return _corners(worker.micro_batch, worker.fixed_seconds, each, loading, worker.table)


def _corners(
    cap: int | None, fixed: float, each: float, loading: float, table: Sequence[Point]
) -> list[tuple[int, float, float]]:
    table = [point for point in table if point.samples <= (cap or point.samples)]
    times = list(accumulate((point.seconds for point in table), max))
    found = [(0, min([fixed, *times[:1]]))]
    found += [(point.samples, spent + point.samples * loading) for point, spent in zip(table, times, strict=True)]
    slopes = [(t1 - t0) / (s1 - s0) for (s0, t0), (s1, t1) in pairwise(found)] + [each + loading]
    return [(*corner, slope) for corner, slope in zip(found, slopes, strict=True)]


@lru_cache(maxsize=1024)  # of thousands of devices most are alike
def _curve(cap: int | None, fixed: float, each: float, loading: float, table: tuple[Point, ...]) -> Seconds:
    sizes, times, slopes = zip(*_corners(cap, fixed, each, loading, table), strict=True)

    def piece(samples: int) -> float:
        place = bisect_right(sizes, samples) - 1
        return times[place] + (samples - sizes[place]) * slopes[place] if samples else 0.0

    if not cap:
        return piece
    full = piece(cap)
    return lambda samples: samples // cap * full + piece(samples % cap)
