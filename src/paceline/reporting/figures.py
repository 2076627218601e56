"""The page's plots as plain plotly JSON. A colour is the name of a CSS variable; the page's script looks it up.

Plotly reads a little HTML in its labels, so every name that comes from a run is escaped here.
"""

from __future__ import annotations

import html
import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, TypeVar

from paceline.observation import metrics
from paceline.schema.summary import DeviceSummary, Summary
from paceline.schema.trace import Span, Trace, WorkerTrace

Figure = dict[str, Any]
Item = TypeVar("Item")

ROWS = 32  # devices in one plot or table; more are picked evenly
BARS = 1000  # in all timelines of a page together
WINDOW_SECONDS = 4.0
LONGEST_SPANS = 6  # a window holds at least so many of the longest span, when a device is slow
LABEL_LETTERS = 22
LINES = 6  # colours the stylesheet has for curves
ROW_PIXELS = 30
FRAME_PIXELS = 38
PARTS = {"busy": ("compute",), "loading": ("load",), "exchanging": ("send", "exchange"), "waiting": ("wait",)}


def picked(items: Sequence[Item], most: int = ROWS) -> Sequence[Item]:
    """At most ``most`` of the items, evenly spread, the first among them."""
    return items[:: max(1, math.ceil(len(items) / most))]


def line_colour(run: int) -> str:
    """The CSS variable that draws the curve of the page's run number ``run``."""
    return f"--line-{run % LINES}"


def time_use(summary: Summary) -> Figure:
    """One stacked bar for each device: busy, loading, exchanging, waiting, as percent of the training time."""
    shown = picked(summary.devices)
    names = [_label(device) for device in shown]
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": part,
            "y": names,
            "x": [round(100 * getattr(device, part), 2) for device in shown],
            "marker": {"color": f"--{part}"},
            "hovertemplate": f"%{{y}}<br>{part} %{{x:.1f}} %<extra></extra>",
        }
        for part in PARTS
    ]
    return _rows(data, len(shown), {"range": [0, 100], "ticksuffix": " %", "fixedrange": True, "dtick": 25})


def curve(names: Sequence[str], traces: Sequence[Trace], axis: str) -> Figure:
    """Logged accuracy of each run over ``axis``: ``"seconds"`` of training or ``"samples"``."""
    data = []
    for run, (name, trace) in enumerate(zip(names, traces, strict=True)):
        points = [point for point in metrics.curve(trace) if math.isfinite(point.value)]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": html.escape(name),
                "x": [round(getattr(point, axis), 3) for point in points],
                "y": [point.value for point in points],
                "line": {"color": line_colour(run), "width": 2},
                "marker": {"color": line_colour(run), "size": 6},
                "hovertemplate": f"{html.escape(name)}<br>%{{y:.4f}} after %{{x:,}} {axis}<extra></extra>",
            }
        )
    title = "seconds of training" if axis == "seconds" else "samples trained"
    layout = {
        "height": 300,
        "margin": {"l": 8, "r": 12, "t": 8, "b": 44},
        "xaxis": {"title": {"text": title}, "rangemode": "tozero", "fixedrange": True, "nticks": 6},
        "yaxis": {"automargin": True, "fixedrange": True, "nticks": 6},
    }
    return {"data": data, "layout": layout}


def windows(traces: Sequence[Trace]) -> list[metrics.Stretch]:
    """For each trace the stretch around the middle of its training to draw: equally long, few enough bars."""
    spans = [span for trace in traces for worker in picked(trace.workers) for span in worker.spans]
    longest = max((span.stop - span.start for span in spans if span.kind == "compute"), default=0.0)
    shortest = min((stop - start for trace in traces for start, stop in metrics.stretches(trace)), default=0.0)
    width = min(max(WINDOW_SECONDS, LONGEST_SPANS * longest), shortest)
    while True:
        around = [_around_middle(trace, width) for trace in traces]
        bars = sum(len(_seen(worker, at)) for trace, at in zip(traces, around, strict=True) for worker in _drawn(trace))
        if bars <= BARS or width < WINDOW_SECONDS / 1e6:
            return around
        width /= 2


def timeline(trace: Trace, window: metrics.Stretch) -> Figure:
    """The spans of each worker inside ``window``, on an axis of seconds since training started."""
    run = metrics.stretches(trace)
    zero = run[0][0] if run else 0.0
    seen = [(_label(worker), span) for worker in _drawn(trace) for span in _seen(worker, window)]
    data = []
    for part, kinds in PARTS.items():
        bars = [(name, span) for name, span in seen if span.kind in kinds]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": part,
                "y": [name for name, _ in bars],
                "base": [round(span.start - zero, 5) for _, span in bars],
                "x": [round(span.stop - span.start, 5) for _, span in bars],
                "marker": {"color": f"--{part}", "line": {"width": 0}},
                "hovertemplate": f"%{{y}}<br>{part} %{{x:.4f}} s<extra></extra>",
            }
        )
    names = [_label(worker) for worker in _drawn(trace)]
    figure = _rows(data, len(names), {"range": [at - zero for at in window], "ticksuffix": " s", "nticks": 6})
    figure["layout"]["yaxis"].update(categoryorder="array", categoryarray=names)
    figure["layout"]["barmode"] = "overlay"
    return figure


def _rows(data: list[dict[str, Any]], rows: int, xaxis: dict[str, Any]) -> Figure:
    layout = {
        "barmode": "stack",
        "bargap": 0.35,
        "height": FRAME_PIXELS + ROW_PIXELS * max(rows, 1),
        "margin": {"l": 8, "r": 26, "t": 4, "b": 30},
        "xaxis": xaxis,
        "yaxis": {
            "type": "category",
            "autorange": "reversed",
            "automargin": True,
            "fixedrange": True,
            "ticksuffix": "  ",
        },
    }
    return {"data": data, "layout": layout}


def _label(device: DeviceSummary | WorkerTrace) -> str:
    full = f"{device.rank} {device.group} {device.name}"
    short = full if len(full) <= LABEL_LETTERS else f"{full[: LABEL_LETTERS - 1]}…"
    return html.escape(short)


def _drawn(trace: Trace) -> Sequence[WorkerTrace]:
    return picked(trace.workers)


def _seen(worker: WorkerTrace, window: metrics.Stretch) -> list[Span]:
    """The worker's spans that reach into the window. Spans are in time order and do not overlap."""
    first = max(0, bisect_right(worker.spans, window[0], key=lambda span: span.start) - 1)
    last = bisect_right(worker.spans, window[1], key=lambda span: span.start)
    return [span for span in worker.spans[first:last] if span.stop > window[0]]


def _around_middle(trace: Trace, width: float) -> metrics.Stretch:
    left = metrics.training_seconds(trace) / 2
    for start, stop in metrics.stretches(trace):
        if left <= stop - start:
            begin = max(start, min(start + left - width / 2, stop - width))
            return begin, min(stop, begin + width)
        left -= stop - start
    return 0.0, 0.0
