"""From a trace and its plan to the figures of ``summary.json``."""

from __future__ import annotations

from collections.abc import Iterator

from paceline import strategies
from paceline.observation import metrics
from paceline.reporting import text
from paceline.reporting.findings import findings
from paceline.schema.plan import Plan, WorkerPlan
from paceline.schema.summary import DeviceSummary, Event, Summary
from paceline.schema.trace import Trace, WorkerTrace
from paceline.strategies import base


def reduces_together(strategy: str) -> bool:
    """Whether all workers of ``strategy`` take part in each exchange, so that one waits for the others inside it.

    A strategy this version does not know counts as one whose waits are recorded apart.
    """
    if strategy not in strategies.TABLE:
        return False
    layout = base.get(strategy).layout
    return layout.reduces and layout.jobs == "one"


def summarise(trace: Trace, plan: Plan, command: str, events: list[Event], versions: dict[str, str]) -> Summary:
    """One run in figures.

    ``samples`` counts what was trained here of each finished epoch, each sample once, so work that was lost or done
    twice lifts no rate.

    Args:
        trace: what happened.
        plan: what was planned, with the limit and the prediction.
        command: what was typed.
        events: joins, leaves and faults, in any order.
        versions: name -> version of what the run was made with.
    """
    seconds = metrics.training_seconds(trace)
    epochs = metrics.epochs(trace)
    samples = sum(epoch.samples - epoch.duplicates for epoch in epochs) - metrics.samples_before(trace)
    rate = samples / seconds if seconds > 0 else 0.0
    limit, predicted = plan.limit_samples_per_second, plan.predicted_samples_per_second
    accuracy = metrics.curve(trace, "accuracy")
    return Summary(
        strategy=plan.strategy,
        cluster=plan.cluster,
        emulation=plan.emulation,
        emulated=plan.emulated,
        simulated=trace.simulated,
        samples=samples,
        seconds=seconds,
        samples_per_second=rate,
        limit_samples_per_second=limit,
        fraction_of_limit=rate / limit if limit else None,
        predicted_samples_per_second=predicted,
        prediction_error=abs(predicted / rate - 1) if predicted is not None and rate > 0 else None,
        most_gain=plan.most_gain,
        accuracy=accuracy[-1].value if accuracy else None,
        staleness=metrics.staleness(trace),
        devices=_devices(trace, plan, seconds),
        epochs=epochs,
        events=sorted([*events, *_changes(trace)], key=lambda event: event.at),
        findings=() if trace.simulated else tuple(findings(trace, plan, reduces_together(plan.strategy))),
        versions=versions,
        command=command,
    )


def _changes(trace: Trace) -> Iterator[Event]:
    """Changes of the shares in mid-run: which ones, why, and what for."""
    for mark in (mark for worker in trace.workers for mark in worker.marks if mark.kind == "shares"):
        before, shares, slowness = (mark.values[name] for name in ("before", "shares", "slowness"))
        factors = [max(new / old, old / new) if old else 0.0 for old, new in zip(before, shares, strict=True)]
        moved = factors.index(max(factors))
        yield Event(
            at=mark.at,
            kind="replan",
            what=f"update {mark.values['update']}: shares {text.some(before)} -> {text.some(shares)}, as rank {moved} "
            f"takes {slowness[moved]:.2g} times its planned seconds; an update's computing is to be "
            f"{text.percent(mark.values['gain'])} faster",
        )


def _devices(trace: Trace, plan: Plan, seconds: float) -> list[DeviceSummary]:
    used = metrics.usage(trace, reduces_together(plan.strategy))
    planned = dict(enumerate(plan.workers))
    return [
        _device(worker, own, planned.get(worker.rank), own.samples / seconds if seconds > 0 else 0.0)
        for worker, own in zip(trace.workers, used, strict=True)
    ]


def _device(worker: WorkerTrace, used: metrics.Usage, planned: WorkerPlan | None, rate: float) -> DeviceSummary:
    return DeviceSummary(
        rank=worker.rank,
        group=worker.group,
        name=worker.name,
        share=worker.share,
        samples=used.samples,
        samples_per_second=rate,
        solo_samples_per_second=planned.solo_samples_per_second if planned else None,
        busy=used.busy,
        waiting=used.waiting,
        exchanging=used.exchanging,
        loading=used.loading,
        predicted_samples_per_second=planned.predicted_samples_per_second if planned else None,
    )
