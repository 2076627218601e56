"""Figures as people read them, the same in the terminal's tables and on the page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from paceline.schema.summary import Summary

NONE = "-"
COMPARISON = (
    "strategy",
    "samples/s",
    "limit",
    "fraction of the limit",
    "predicted",
    "accuracy",
    "seconds",
    "mean staleness",
)
MISSED = 0.15  # by this part two measurements may differ on a shared machine
EXPLAINS = ("lost", "fault", "replan", "pace")  # events after which nobody expects the prediction to hold
HEADLINE = COMPARISON.index("fraction of the limit")


def number(value: float | None) -> str:
    """A rate or a count: whole from 100 on, else three digits that mean something."""
    if value is None or not math.isfinite(value):
        return NONE
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def percent(part: float | None) -> str:
    """A part of 1 as whole percent."""
    return NONE if part is None or not math.isfinite(part) else f"{100 * part:.0f} %"


def seconds(value: float) -> str:
    """A stretch of time with one decimal."""
    return f"{value:,.1f}"


def duration(value: float) -> str:
    """A short stretch of time, in the unit that suits it."""
    if value >= 1:
        return f"{value:.2f} s"
    return f"{1000 * value:.0f} ms" if value >= 0.01 else f"{1000 * value:.1f} ms"


def some(values: Sequence[int], most: int = 8) -> str:
    """The first of several numbers."""
    return ", ".join(f"{value:,}" for value in values[:most]) + (", ..." if len(values) > most else "")


def accuracy(value: float | None) -> str:
    """Four decimals: neighbouring runs differ in the third."""
    return NONE if value is None or not math.isfinite(value) else f"{value:.4f}"


def staleness(summary: Summary) -> str:
    """The mean over all pushes; nothing where nobody pushed."""
    return f"{summary.staleness.mean:.2f}" if summary.staleness.histogram else NONE


def emulation(summaries: Sequence[Summary]) -> str:
    """``"emulated (pacing)"`` if any of the runs was, naming each method; else nothing."""
    methods = sorted({summary.emulation for summary in summaries if summary.emulated})
    return f"emulated ({', '.join(methods)})" if methods else ""


def labels(summaries: Sequence[Summary]) -> list[str]:
    """One name for each run: its strategy, numbered where several runs share it."""
    total, seen = Counter(summary.strategy for summary in summaries), Counter[str]()
    names = []
    for summary in summaries:
        seen[summary.strategy] += 1
        several = total[summary.strategy] > 1
        names.append(f"{summary.strategy} ({seen[summary.strategy]})" if several else summary.strategy)
    return names


def speed(summary: Summary) -> str:
    """What was reached, of how much, and what was foretold."""
    said = f"{number(summary.samples_per_second)} samples/s"
    if summary.limit_samples_per_second:
        limit, part = number(summary.limit_samples_per_second), percent(summary.fraction_of_limit)
        said += f", {part} of the limit of {limit}"
    return f"{said}; {forecast(summary)}"


def forecast(summary: Summary) -> str:
    """The prediction, and by how much it was off."""
    if summary.predicted_samples_per_second is None:
        return "no prediction"
    off = "" if summary.prediction_error is None else f", off by {percent(summary.prediction_error)}"
    return f"predicted {number(summary.predicted_samples_per_second)}{off}"


def gain(summary: Summary, summaries: Sequence[Summary] = ()) -> str:
    """What a split of the batch by speed can gain over an even one, and what it did where both have run."""
    if summary.most_gain is None:
        return ""
    most = f"R_max {summary.most_gain:.2f}: the most that a split by speed gains over an even one"
    even = [other.samples_per_second for other in summaries if is_even(other) and other.cluster == summary.cluster]
    if is_even(summary) or not even or not even[0]:
        return most
    times = summary.samples_per_second / even[0]
    beyond = ", and more than its shares held the even one up" if times > summary.most_gain * (1 + MISSED) else ""
    return f"{times:.2f} times the even split; {most}{beyond}"


def is_even(summary: Summary) -> bool:
    """Whether this run is what others are compared with."""
    return summary.strategy == "allreduce_even"


def story(summary: Summary) -> list[str]:
    """A run in a few lines: its figures, how its shares changed, whom it lost, and which devices were behind."""
    origin = f", {emulation([summary])}" if summary.emulated else ""
    figures = f"{summary.strategy}{origin}: {speed(summary)}; {seconds(summary.seconds)} s of training"
    if summary.accuracy is not None:
        figures += f"; accuracy {accuracy(summary.accuracy)}"
    changes = [event.what for event in summary.events if event.kind in ("replan", "pace")]
    lost = [f"lost after {seconds(event.at)} s: {event.what}" for event in summary.events if event.kind == "lost"]
    if lost and (missing := sum(epoch.missing for epoch in summary.epochs)):
        lost.append(f"training ended with that: {number(missing)} samples of the epoch were never trained")
    changes += lost
    told = filter(None, [doubt(summary), gain(summary)])
    return [f"{figures}.", *told, *changes, *(finding.what for finding in summary.findings)]


def doubt(summary: Summary) -> str:
    """Where limit and prediction cannot have been of what ran: what to do about it."""
    if (summary.fraction_of_limit or 0.0) > 1 + MISSED:
        return "Faster than the limit: that was measured on something else or on a busier machine. Probe again."
    explained = summary.simulated or summary.findings or any(event.kind in EXPLAINS for event in summary.events)
    if (summary.prediction_error or 0.0) > MISSED and not explained:
        return (
            "The prediction was off by more than measuring is: no device stands out, so these devices did other work "
            "meanwhile, or the probe did not see this script's usual work. Probe again, with nothing else running."
        )
    return ""


def comparison(summaries: Sequence[Summary]) -> list[list[str]]:
    """One row for each run, one cell for each name in ``COMPARISON``."""
    return [
        [
            label,
            number(summary.samples_per_second),
            number(summary.limit_samples_per_second),
            percent(summary.fraction_of_limit),
            number(summary.predicted_samples_per_second),
            accuracy(summary.accuracy),
            seconds(summary.seconds),
            staleness(summary),
        ]
        for label, summary in zip(labels(summaries), summaries, strict=True)
    ]
