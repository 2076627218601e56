"""Which device holds the run up, and by what: reading its data, computing, or its link."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.cost.compute import curve
from paceline.observation import metrics
from paceline.reporting.text import duration
from paceline.schema.plan import Plan, WorkerPlan
from paceline.schema.summary import Cause, Finding
from paceline.schema.trace import Span, Trace, WorkerTrace

PART = 0.1  # of an update's time that must be lost to be worth a word
SLOWER = 1.25  # times its planned seconds, from which a device computes slowly: measuring is not more exact
MOST = 3  # with thousands of devices the worst ones say enough
SAYINGS: dict[Cause, str] = {
    "data": "waits for its data: {took} of each update of {update}, expected {usual}. "
    "Next: read less for each sample, or keep decoded samples in memory or on a local disk.",
    "compute": "computes slowly: {took} of each update of {update}, planned {usual}. "
    "Next: see what else runs on that device, then measure it again with `paceline probe`.",
    "link": "is slow to send: {took} of each update of {update}, expected {usual}. "
    "Next: see what else uses that host's network, then measure it again with `paceline probe`.",
}


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of a worker in a mean update, and its samples. ``planned``: of computing as many, by its plan."""

    samples: float
    data: float
    compute: float
    link: float
    planned: float | None


def findings(trace: Trace, plan: Plan, together: bool) -> list[Finding]:
    """The devices that lose most time, worst first; none where all is as expected.

    A device is expected to compute and to read as its plan says; where that was not measured, and in handing gradients
    to its link, as the median of all does. A wire that is slow for all who share it delays all alike: it is in what
    they exchange, and blames nobody.

    Args:
        trace: of the whole run.
        plan: what was expected.
        together: all workers reduce together, update by update.
    """
    total, planned = metrics.training_seconds(trace), dict(enumerate(plan.workers))
    workers = metrics.training_only(trace, together).workers
    known: dict[int, Spent] = {}  # simulated workers that are alike share their spans
    for worker in workers:
        if id(worker.spans) not in known:
            known[id(worker.spans)] = _spent(worker.spans, planned.get(worker.rank))
    every = list(known.values())
    found = []
    for worker in workers:
        own, mine = known[id(worker.spans)], planned.get(worker.rank)
        update = total / max(1, _updates(worker.spans))
        for cause, took, usual in _late(own, every, mine.loading_seconds if mine else 0.0):
            least = usual * SLOWER if cause == "compute" else usual
            if took - usual >= PART * update > 0 and took >= least:
                found.append((took - usual, _finding(worker, cause, took, usual, update)))
    return [finding for _, finding in sorted(found, key=lambda one: -one[0])[:MOST]]


def _updates(spans: Sequence[Span]) -> int:
    """How many updates the spans are of, or batches of them: each ends with a span that counts its samples."""
    return sum(span.samples > 0 for span in spans)


def _spent(spans: Sequence[Span], planned: WorkerPlan | None) -> Spent:
    updates = max(1, _updates(spans))
    seconds = metrics.seconds_of(spans)
    by_plan = None
    if planned is not None and planned.solo_samples_per_second is not None:
        own = curve(planned)
        by_plan = sum(own(span.samples) - span.samples * planned.loading_seconds for span in spans) / updates
    samples = sum(span.samples for span in spans) / updates
    return Spent(samples, seconds["load"] / updates, seconds["compute"] / updates, seconds["send"] / updates, by_plan)


def _late(own: Spent, every: Sequence[Spent], loading: float) -> Iterator[tuple[Cause, float, float]]:
    """What might be slow: the cause, the seconds it took and those that were expected of it."""
    yield "link", own.link, statistics.median_low(spent.link for spent in every)
    trained = [spent for spent in every if spent.samples]
    if not own.samples:
        return
    reading = loading or statistics.median_low(spent.data / spent.samples for spent in trained)
    yield "data", own.data, own.samples * reading
    computing = statistics.median_low(spent.compute / spent.samples for spent in trained)
    yield "compute", own.compute, own.samples * computing if own.planned is None else own.planned


def _finding(worker: WorkerTrace, cause: Cause, took: float, usual: float, update: float) -> Finding:
    who = f"rank {worker.rank} ({worker.group}, {worker.name}) on {worker.host}"
    said = SAYINGS[cause].format(took=duration(took), usual=duration(usual), update=duration(update))
    return Finding(rank=worker.rank, cause=cause, what=f"{who} {said}")
