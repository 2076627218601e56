"""The figures read off a trace. Pure functions; times are seconds, rates are samples/s.

Only epochs that some worker finished count: an epoch's mark is written at its end.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import get_args

from paceline.schema.summary import EpochSummary, Staleness
from paceline.schema.trace import Mark, Span, SpanKind, Trace, WorkerTrace

Stretch = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Usage:
    """How one worker spent the run's training time. ``busy``, ``loading``, ``waiting`` and ``exchanging`` are parts of
    it; what no span covers (our own code) is in none of them.
    """

    samples: int
    busy: float
    waiting: float
    exchanging: float
    loading: float = 0.0


@dataclass(frozen=True, slots=True)
class Point:
    """One logged value, after ``seconds`` of training and ``samples`` samples."""

    seconds: float
    samples: int
    value: float


def stretches(trace: Trace) -> list[Stretch]:
    """When the run trained: for each epoch from the first worker's start to the last one's stop, in time order."""
    return _joined(_epoch_hulls(trace).values())


def training_seconds(trace: Trace) -> float:
    """Seconds of training over the whole run; evaluation and start-up are not in it."""
    return sum(stop - start for start, stop in stretches(trace))


def training_only(trace: Trace, together: bool) -> Trace:
    """The trace with each worker's spans cut to its training stretches.

    Args:
        trace: of the whole run.
        together: the workers reduce together in one job. Then an exchange span holds the wait for the peers as well
            as the transfer, and the k-th one of every worker belongs to the same update. The shortest of those is the
            transfer; what the others have above it becomes a wait span.
    """
    hulls = _epoch_hulls(trace)
    workers = _respanned(trace.workers, lambda worker: _inside(worker.spans, _own(worker, hulls)))
    if together:
        transfers = _transfer_seconds(workers)
        workers = _respanned(workers, lambda worker: _split(worker.spans, transfers))
    return replace(trace, workers=workers)


def usage(trace: Trace, together: bool) -> list[Usage]:
    """Each worker's samples and parts of the training time, in the order of ``trace.workers``.

    Args:
        trace: of the whole run.
        together: as for ``training_only``.
    """
    seconds = training_seconds(trace)
    workers = training_only(trace, together).workers
    used = {key: _usage(spans, seconds) for key, spans in _distinct(workers).items()}
    return [used[id(worker.spans)] for worker in workers]


def seconds_of(spans: Iterable[Span]) -> dict[SpanKind, float]:
    """Seconds of each kind."""
    seconds: dict[SpanKind, float] = dict.fromkeys(get_args(SpanKind), 0.0)
    for span in spans:
        seconds[span.kind] += span.stop - span.start
    return seconds


def epochs(trace: Trace) -> list[EpochSummary]:
    """How often each finished epoch's samples count, over all workers, in epoch order."""
    sizes: dict[int, int] = {}
    for mark in _marks(trace, "epoch"):
        sizes[mark.values["epoch"]] = max(mark.values["size"], sizes.get(mark.values["epoch"], 0))
    ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for kind in ("done", "before"):  # by this run, and by the one that it goes on from
        for mark in _marks(trace, kind):
            ranges[mark.values["epoch"]].append((mark.values["start"], mark.values["stop"]))
    return [_coverage(epoch, sizes[epoch], ranges[epoch]) for epoch in sorted(sizes)]


def samples_before(trace: Trace) -> int:
    """Samples of finished epochs that were trained before the checkpoint that this run goes on from."""
    finished = {mark.values["epoch"] for mark in _marks(trace, "epoch")}
    before = [mark.values for mark in _marks(trace, "before") if mark.values["epoch"] in finished]
    return sum(values["stop"] - values["start"] for values in before)


def staleness(trace: Trace) -> Staleness:
    """Mean, maximum and histogram over all pushes, and the mean of each group; all empty when there were none."""
    seen: dict[str, list[int]] = defaultdict(list)
    for worker in trace.workers:
        for mark in worker.marks:
            if mark.kind == "staleness":
                seen[worker.group].append(int(mark.values["versions"]))
    every = [versions for own in seen.values() for versions in own]
    return Staleness(
        mean=fmean(every) if every else 0.0,
        max=max(every, default=0),
        histogram=dict(sorted(Counter(every).items())),
        groups={group: fmean(own) for group, own in sorted(seen.items())},
    )


def curve(trace: Trace, name: str = "accuracy") -> list[Point]:
    """The values logged as ``name``, in time order; empty if nobody logged it.

    Several workers may log the same reduced value, so the points are those of the one that logged it most often.
    """
    run = stretches(trace)
    curves = [
        [
            Point(_elapsed(run, mark.at), int(mark.values["samples"]), float(mark.values[name]))
            for mark in worker.marks
            if mark.kind == "log" and name in mark.values
        ]
        for worker in trace.workers
    ]
    return max(curves, key=len, default=[])


def _marks(trace: Trace, kind: str) -> Iterator[Mark]:
    every = (trace.server, *(worker.marks for worker in trace.workers))
    return (mark for marks in every for mark in marks if mark.kind == kind)


def _distinct(workers: Iterable[WorkerTrace]) -> dict[int, list[Span]]:
    """Each list of spans once, by its identity: simulated workers that are alike share theirs."""
    return {id(worker.spans): worker.spans for worker in workers}


def _respanned(workers: Sequence[WorkerTrace], spans: Callable[[WorkerTrace], Iterable[Span]]) -> list[WorkerTrace]:
    """The workers with other spans; those that shared theirs share the new ones, for they share their epochs too."""
    one_each = {id(worker.spans): worker for worker in workers}
    new = {key: list(spans(worker)) for key, worker in one_each.items()}
    return [replace(worker, spans=new[id(worker.spans)]) for worker in workers]


def _epoch_hulls(trace: Trace) -> dict[int, Stretch]:
    hulls: dict[int, Stretch] = {}
    for mark in _marks(trace, "epoch"):
        epoch, start, stop = mark.values["epoch"], mark.values["start"], mark.values["stop"]
        first, last = hulls.get(epoch, (start, stop))
        hulls[epoch] = (min(first, start), max(last, stop))
    return hulls


def _own(worker: WorkerTrace, hulls: dict[int, Stretch]) -> list[Stretch]:
    """The worker's own stretches; the run's for epochs it did not live to finish."""
    marked = [mark.values for mark in worker.marks if mark.kind == "epoch"]
    own = {values["epoch"]: (values["start"], values["stop"]) for values in marked}
    return _joined({**hulls, **own}.values())


def _joined(parts: Iterable[Stretch]) -> list[Stretch]:
    joined: list[Stretch] = []
    for start, stop in sorted(parts):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


def _inside(spans: Iterable[Span], parts: Sequence[Stretch]) -> Iterator[Span]:
    starts = [start for start, _ in parts]
    for span in spans:
        place = bisect_right(starts, span.start) - 1
        if place >= 0 and span.start < parts[place][1]:
            stop = parts[place][1]
            yield span if span.stop <= stop else replace(span, stop=stop)


def _transfer_seconds(workers: Iterable[WorkerTrace]) -> list[float]:
    """The shortest k-th exchange over the workers that lived to have one, for each k."""
    rounds = itertools.zip_longest(
        *(
            [span.stop - span.start for span in spans if span.kind == "exchange"]
            for spans in _distinct(workers).values()
        )
    )
    return [min(seconds for seconds in update if seconds is not None) for update in rounds]


def _split(spans: Iterable[Span], transfers: Iterable[float]) -> Iterator[Span]:
    following = iter(transfers)
    for span in spans:
        if span.kind != "exchange":
            yield span
            continue
        arrived = span.stop - next(following)
        if arrived > span.start:
            yield Span("wait", span.start, arrived)
        yield Span("exchange", max(arrived, span.start), span.stop)


def _usage(spans: Sequence[Span], training: float) -> Usage:
    part = {kind: value / training if training > 0 else 0.0 for kind, value in seconds_of(spans).items()}
    samples = sum(span.samples for span in spans)
    return Usage(samples, part["compute"], part["wait"], part["send"] + part["exchange"], part["load"])


def _coverage(epoch: int, size: int, ranges: Iterable[tuple[int, int]]) -> EpochSummary:
    """Sweep the ranges by start; ``reach`` is the end of what is covered so far."""
    counted = distinct = reach = 0
    for start, stop in sorted(ranges):
        counted += stop - start
        distinct += max(0, stop - max(start, reach))
        reach = max(reach, stop)
    return EpochSummary(epoch=epoch, samples=counted, duplicates=counted - distinct, missing=size - distinct)


def _elapsed(run: Iterable[Stretch], at: float) -> float:
    """Seconds of training before the moment ``at``."""
    return sum(min(stop, at) - start for start, stop in run if start < at)
