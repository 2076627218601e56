"""What the page says, section by section, in records the template only has to lay out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.observation import metrics
from paceline.reporting import figures, text
from paceline.reporting.figures import Figure
from paceline.reporting.summary import reduces_together
from paceline.schema.summary import EpochSummary, Summary
from paceline.schema.trace import Trace

DEVICE_COLUMNS = (
    *("device", "share", "samples", "samples/s", "predicted", "solo", "busy", "loading", "exchanging", "waiting"),
)


@dataclass(frozen=True)
class Run:
    """One run on the page. ``trace`` holds training only; ``origin`` says how far its figures are from real ones."""

    label: str
    colour: str
    origin: str
    summary: Summary
    trace: Trace


@dataclass(frozen=True)
class Headline:
    """A run's fraction of the limit. ``reached`` and ``predicted`` are percent of the bar's width; ``gain`` is that of
    its split over an even one."""

    label: str
    fraction: str
    reached: float
    predicted: float | None
    speed: str
    forecast: str
    gain: str


@dataclass(frozen=True)
class Devices:
    """A run's devices: the plot named ``figure``, and the rows of its table."""

    run: Run
    figure: str
    rows: list[list[str]]
    note: str


@dataclass(frozen=True)
class Timeline:
    """A run's spans within ``window`` in the plot named ``figure``; ``said`` tells which seconds of training."""

    run: Run
    figure: str
    window: metrics.Stretch
    said: str


@dataclass(frozen=True)
class Epochs:
    """How often a run trained each sample. ``clean``: once each, in every epoch."""

    run: Run
    rows: list[EpochSummary]
    clean: bool
    verdict: str


def runs(pairs: Sequence[tuple[Summary, Trace]]) -> list[Run]:
    """The runs in the order given, each with a label of its own."""
    labels = text.labels([summary for summary, _ in pairs])
    return [
        Run(
            label,
            figures.line_colour(place),
            ", ".join(filter(None, ["simulated" if trace.simulated else "", text.emulation([summary])])),
            summary,
            metrics.training_only(trace, reduces_together(summary.strategy)),
        )
        for place, (label, (summary, trace)) in enumerate(zip(labels, pairs, strict=True))
    ]


def origin(shown: Sequence[Run]) -> str:
    """How the runs' figures came about where not on real devices, each way once; else nothing."""
    return ", ".join(dict.fromkeys(run.origin for run in shown if run.origin))


def headlines(shown: Sequence[Run]) -> list[Headline]:
    """One for each run."""
    return [_headline(run, [other.summary for other in shown]) for run in shown]


def devices(shown: Sequence[Run]) -> list[Devices]:
    """One for each run."""
    return [
        Devices(run, f"devices-{place}", _device_rows(run.summary), _device_note(run))
        for place, run in enumerate(shown)
    ]


def timelines(shown: Sequence[Run]) -> list[Timeline]:
    """One for each run that trained, over windows of one length."""
    trained = [(place, run) for place, run in enumerate(shown) if metrics.stretches(run.trace)]
    windows = figures.windows([run.trace for _, run in trained])
    return [
        Timeline(run, f"timeline-{place}", window, _seconds_of(run, window))
        for (place, run), window in zip(trained, windows, strict=True)
    ]


def epochs(shown: Sequence[Run]) -> list[Epochs]:
    """One for each run."""
    return [_epochs(run) for run in shown]


def has_accuracy(shown: Sequence[Run]) -> bool:
    """Whether any recipe logged an accuracy."""
    return any(metrics.curve(run.trace) for run in shown)


def plots(shown: Sequence[Run], spans: Sequence[Timeline]) -> dict[str, Figure]:
    """All plots of the page by the name their place on it has."""
    drawn = {item.figure: figures.time_use(item.run.summary) for item in devices(shown)}
    drawn |= {item.figure: figures.timeline(item.run.trace, item.window) for item in spans}
    if has_accuracy(shown):
        labels, traces = [run.label for run in shown], [run.trace for run in shown]
        drawn |= {f"accuracy-{axis}": figures.curve(labels, traces, axis) for axis in ("seconds", "samples")}
    return drawn


def _headline(run: Run, summaries: Sequence[Summary]) -> Headline:
    summary = run.summary
    limit, predicted = summary.limit_samples_per_second, summary.predicted_samples_per_second
    speed = f"{text.number(summary.samples_per_second)} samples/s"
    if limit:
        speed += f" of {text.number(limit)}"
    return Headline(
        run.label,
        text.percent(summary.fraction_of_limit),
        min(100.0, 100 * (summary.fraction_of_limit or 0.0)),
        min(100.0, 100 * predicted / limit) if predicted is not None and limit else None,
        speed,
        text.forecast(summary),
        text.gain(summary, summaries),
    )


def _device_rows(summary: Summary) -> list[list[str]]:
    return [
        [
            f"{device.rank} {device.group} {device.name}",
            text.number(device.share),
            text.number(device.samples),
            text.number(device.samples_per_second),
            text.number(device.predicted_samples_per_second),
            text.number(device.solo_samples_per_second),
            text.percent(device.busy),
            text.percent(device.loading),
            text.percent(device.exchanging),
            text.percent(device.waiting),
        ]
        for device in figures.picked(summary.devices)
    ]


def _device_note(run: Run) -> str:
    total, drawn = len(run.summary.devices), len(figures.picked(run.summary.devices))
    notes = [f"{drawn} of {total:,} devices shown, evenly picked."] if drawn < total else []
    lost = [str(worker.rank) for worker in run.trace.workers if not worker.complete]
    if lost:
        notes.append(f"Ended early: rank {', '.join(lost[: figures.ROWS])}.")
    return " ".join(notes)


def _seconds_of(run: Run, window: metrics.Stretch) -> str:
    trained = metrics.stretches(run.trace)
    start, stop, end = (at - trained[0][0] for at in (*window, trained[-1][1]))
    return f"second {start:,.2f} to {stop:,.2f} of {end:,.1f}"


def _epochs(run: Run) -> Epochs:
    rows = run.summary.epochs
    duplicates, missing = sum(row.duplicates for row in rows), sum(row.missing for row in rows)
    if not rows:
        return Epochs(run, rows, False, "No epoch was finished.")
    if duplicates or missing:
        return Epochs(run, rows, False, f"{duplicates:,} trained twice or more, {missing:,} never.")
    return Epochs(run, rows, True, f"Each sample exactly once in {len(rows):,} epoch{'s' if len(rows) > 1 else ''}.")
