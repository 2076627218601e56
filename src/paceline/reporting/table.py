"""The terminal's two tables: strategies side by side, and the devices of one run. Both fit 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from paceline.reporting import text
from paceline.reporting.figures import picked
from paceline.schema.summary import DeviceSummary, Summary

BAR_CELLS = 8
HEADING_CELLS = 9
# Plain characters: they differ without colours too, and print on any terminal.
FILLS = (
    *(("busy", "#", "green"), ("loading", "+", "magenta"), ("exchanging", "=", "blue"), ("waiting", ".", "yellow")),
)


def comparison(summaries: list[Summary]) -> Table:
    """One row for each run, the fraction of the limit in bold."""
    clusters = ", ".join(dict.fromkeys(summary.cluster for summary in summaries))
    table = _table(f"Strategies on {clusters}", summaries)
    for place, name in enumerate(text.COMPARISON):
        # Long headings in several lines leave the columns as wide as their numbers.
        _number_column(table, textwrap.fill(name, HEADING_CELLS)) if place else _name_column(table, name)
    table.columns[text.HEADLINE].style = "bold"
    for row in text.comparison(summaries):
        table.add_row(*map(Text, row))
    return table


def devices(summary: Summary) -> Table:
    """One row for each device: its share, its speed beside the predicted one, and how it spent the training time."""
    table = _table(f"Devices under {summary.strategy} on {summary.cluster}", [summary])
    legend = "  ".join(f"{fill} {name}" for name, fill, _ in FILLS)
    _name_column(table, "group")
    _name_column(table, "name")
    for name in ("share", "samples\n/s", "pre-\ndicted", "solo", "busy", "loading", "waiting", "ex-\nchanging"):
        _number_column(table, name)
    table.add_column("", no_wrap=True, min_width=BAR_CELLS)
    shown = picked(summary.devices)
    if len(shown) < len(summary.devices):
        legend += f"  ({len(shown)} of {len(summary.devices):,} devices)"
    table.caption = Text(legend, justify="left")
    for device in shown:
        table.add_row(*map(Text, _device_cells(device)), _bar(device))
    return table


def _bar(device: DeviceSummary) -> Text:
    """A device's training time as a few filled cells."""
    bar, reached = Text(), 0.0
    for name, fill, colour in FILLS:
        reached += getattr(device, name)
        bar.append(fill * (min(BAR_CELLS, round(reached * BAR_CELLS)) - len(bar)), colour)
    return bar


def _device_cells(device: DeviceSummary) -> list[str]:
    return [
        device.group,
        device.name,
        text.number(device.share),
        text.number(device.samples_per_second),
        text.number(device.predicted_samples_per_second),
        text.number(device.solo_samples_per_second),
        text.percent(device.busy),
        text.percent(device.loading),
        text.percent(device.waiting),
        text.percent(device.exchanging),
    ]


def _table(title: str, summaries: Sequence[Summary]) -> Table:
    emulated = text.emulation(summaries)
    full = Text(f"{title}, {emulated}" if emulated else title, style="bold")
    return Table(title=full, title_justify="left", box=box.SIMPLE_HEAD, padding=0, show_edge=False)


def _name_column(table: Table, name: str) -> None:
    table.add_column(name, overflow="fold", vertical="bottom")


def _number_column(table: Table, name: str) -> None:
    table.add_column(name, justify="right", no_wrap=True)
