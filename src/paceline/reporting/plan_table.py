"""The terminal's tables of what was measured and what is planned."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from paceline.schema.plan import Plan
from paceline.schema.profile import Profile


def profile(measured: Profile) -> Table:
    """One row for each device, and the limit: all of them at once, not talking."""
    table = _table(f"Devices of {measured.cluster}", measured.emulation)
    for name in ("group", "device", "batch", "samples/s"):
        table.add_column(name, justify="left" if name in ("group", "device") else "right")
    for device in measured.devices:
        table.add_row(*map(Text, (device.group, device.device, f"{device.batch}", f"{device.samples_per_second:,.0f}")))
    table.add_section()
    table.add_row("limit", "", "", f"{measured.limit:,.0f}")
    return table


def plan(made: Plan) -> Table:
    """One row for each worker: its share, its group's local steps, its solo speed."""
    table = _table(f"{made.strategy} on {made.cluster}, global batch {made.global_batch}", made.emulation)
    for name in ("job", "group", "device", "share", "local steps", "solo samples/s"):
        table.add_column(name, justify="left" if name in ("job", "group", "device") else "right")
    for job in made.jobs:
        for worker in job.workers:
            solo = f"{worker.solo_samples_per_second or 0:,.0f}"
            row = (job.name, worker.group, worker.device, f"{worker.share}", f"{job.local_steps}", solo)
            table.add_row(*map(Text, row))
    predicted, limit = made.predicted_samples_per_second, made.limit_samples_per_second
    if predicted and limit:
        table.caption = f"predicted {predicted:,.0f} of {limit:,.0f} samples/s: {predicted / limit:.0%} of the limit"
    return table


def _table(title: str, emulation: str) -> Table:
    how = "" if emulation == "none" else f" (emulated: {emulation})"
    return Table(title=Text(title + how), box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
