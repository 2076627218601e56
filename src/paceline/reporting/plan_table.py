"""The terminal's tables of what was found, measured and planned."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from paceline.hardware.facts import Card
from paceline.schema.plan import Plan
from paceline.schema.profile import Profile

UUID_CHARACTERS = 12  # "GPU-" and 8 digits: enough to name a card in a cluster file


def cards(found: Sequence[Card], host: str) -> Table:
    """One row for each accelerator, in torch's order."""
    table = _table(f"Accelerators of {host}", "none")
    for name in ("device", "name", "UUID", "capability", "memory"):
        table.add_column(name, justify="right" if name == "memory" else "left", overflow="fold")
    for card in found:
        capability = ".".join(map(str, card.capability)) if card.capability else card.vendor
        memory = f"{card.total_bytes / 2**30:.1f} GiB"
        table.add_row(*map(Text, (card.device, card.name, card.uuid or "", capability, memory)))
    return table


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
    named = ("name", "UUID") if any(worker.uuid for worker in made.workers) else ()
    for name in ("job", "group", "device", *named):
        table.add_column(name)
    for name in ("share", "local steps", "solo samples/s"):
        table.add_column(name, justify="right")
    for job in made.jobs:
        for worker in job.workers:
            solo = f"{worker.solo_samples_per_second or 0:,.0f}"
            card = (worker.name or "", (worker.uuid or "")[:UUID_CHARACTERS]) if named else ()
            row = (job.name, worker.group, worker.device, *card, f"{worker.share}", f"{job.local_steps}", solo)
            table.add_row(*map(Text, row))
    predicted, limit = made.predicted_samples_per_second, made.limit_samples_per_second
    if predicted and limit:
        table.caption = f"predicted {predicted:,.0f} of {limit:,.0f} samples/s: {predicted / limit:.0%} of the limit"
    return table


def threads(made: Plan) -> str:
    """One line: how many CPU threads each worker computes on."""
    counts = {f"{worker.group} ({worker.device})": worker.threads for worker in made.workers}
    if len(set(counts.values())) == 1:
        return f"CPU threads of each worker: {made.workers[0].threads}."
    return f"CPU threads: {', '.join(f'{name} {count}' for name, count in counts.items())}."


def _table(title: str, emulation: str) -> Table:
    how = "" if emulation == "none" else f" (emulated: {emulation})"
    return Table(title=Text(title + how), box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
