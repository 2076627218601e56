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
