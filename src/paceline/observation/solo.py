"""What a probe's trace says of one worker: how long its updates took, by their size."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass

from paceline.errors import WorkerError
from paceline.schema.profile import Point
from paceline.schema.trace import Span, WorkerTrace

LEAST_PART = 0.25  # of the most frequent size's updates: sizes seen less often, as at an epoch's end, are left out
OUTLIER = 2.0  # times the median: another program's turn on the machine, not this device's speed


@dataclass(frozen=True, slots=True)
class Timing:
    """Updates of one worker by itself: a point for each size, smallest first, and seconds of reading one sample.

    ``spread``: standard deviation of an update's time, relative to its mean.
    """

    points: tuple[Point, ...]
    loading_seconds: float
    spread: float


def timing(worker: WorkerTrace) -> Timing:
    """How long ``worker`` took after its ``measure`` mark. An update lasts until the next one starts; the time of
    reading data in between is not in it.

    Raises:
        WorkerError: it measured too little.
    """
    since = next((mark.at for mark in worker.marks if mark.kind == "measure"), None)
    measured = [span for span in worker.spans if since is not None and span.start >= since]
    times, loading = _updates(measured)
    if not times:
        raise WorkerError(
            "the probe was too short to measure this worker",
            expected="at least two whole updates after the warm-up",
            remedy="Use a longer --probe-seconds.",
            where=f"rank {worker.rank} ({worker.group}, {worker.name}) on {worker.host}",
        )
    often = LEAST_PART * max(map(len, times.values()))
    kept = {samples: _usual(seconds) for samples, seconds in times.items() if len(seconds) >= often}
    points = [Point(samples=n, seconds=statistics.fmean(s), count=len(s)) for n, s in sorted(kept.items())]
    relative = [one / statistics.fmean(seconds) for seconds in kept.values() for one in seconds if len(seconds) > 2]
    trained = sum(samples * len(seconds) for samples, seconds in times.items())
    return Timing(tuple(points), loading / trained, statistics.pstdev(relative) if relative else 0.0)


def _updates(spans: list[Span]) -> tuple[dict[int, list[float]], float]:
    """Seconds of each update by its samples, and of all reading."""
    times: dict[int, list[float]] = defaultdict(list)
    running, reading, all_reading = None, 0.0, 0.0
    for span in spans:
        if span.kind == "load":
            reading += span.stop - span.start
        elif span.kind == "compute":
            if running is not None and running.samples:
                times[running.samples].append(span.start - running.start - reading)
                all_reading += reading
            running, reading = span, 0.0
    return times, all_reading


def _usual(seconds: list[float]) -> list[float]:
    """Without outliers."""
    most = OUTLIER * statistics.median(seconds)
    return [one for one in seconds if one <= most]
