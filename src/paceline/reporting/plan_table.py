"""The terminal's tables of what was found, measured and planned."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from paceline.cost import memory
from paceline.hardware.facts import Card
from paceline.reporting import text
from paceline.reporting.figures import picked
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.profile import DeviceProfile, Profile

MOST = 128  # rows of a table; of more devices some are picked
LEFT_OUT = "left out"
UUID_CHARACTERS = 12  # "GPU-" and 8 digits: enough to name a card in a cluster file


def cards(found: Sequence[Card], host: str) -> Table:
    """One row for each accelerator, in torch's order."""
    table = _table(f"Accelerators of {host}", "none")
    for name in ("device", "name", "UUID", "capability", "memory"):
        table.add_column(name, justify="right" if name == "memory" else "left", overflow="fold")
    for card in found:
        capability = ".".join(map(str, card.capability)) if card.capability else card.vendor
        size = f"{card.total_bytes / 2**30:.1f} GiB"
        table.add_row(*map(Text, (card.device, card.name, card.uuid or "", capability, size)))
    return table


def profile(measured: Profile, limit: float) -> Table:
    """One row for each device, and the limit: all of them at once, not talking."""
    table = _table(f"Devices of {measured.cluster}", measured.emulation)
    for name in ("group", "device", "batch", "samples/s"):
        table.add_column(name, justify="left" if name in ("group", "device") else "right")
    shown = picked(measured.devices, MOST)
    for device in shown:
        table.add_row(*map(Text, (device.group, device.device, f"{device.batch}", f"{device.samples_per_second:,.0f}")))
    table.add_section()
    table.add_row("limit", "", "", f"{limit:,.0f}")
    table.caption = _picked(len(shown), len(measured.devices))
    return table


def plan(made: Plan, measured: Profile | None = None) -> Table:
    """One row for each worker: its share, its group's local steps, its solo speed and the part of the prediction that
    it trains; with the profile also its memory, and the devices that are left out."""
    table = _table(f"{made.strategy} on {made.cluster}, global batch {made.global_batch}", made.emulation)
    devices = _by_device(measured) if measured else {}
    named = ("name", "UUID") if any(worker.uuid for worker in made.workers) else ()
    kept = ("memory",) if any(_memory(device) for own in devices.values() for device in own) else ()
    for name in ("job", "group", "device", *named):
        table.add_column(name)
    for name in ("share", "local steps", "solo samples/s", "predicted", *kept):
        table.add_column(name, justify="right")
    rows: list[tuple[str, ...]] = []
    for job in made.jobs:
        for worker in job.workers:
            own = devices.get(worker.which)
            device = own.pop(0) if own else None
            taken = min(worker.share, worker.micro_batch or worker.share)
            numbers = [f"{worker.share}", _steps(job), text.number(worker.solo_samples_per_second)]
            numbers += [text.number(worker.predicted_samples_per_second), *(_memory(device, taken) for _ in kept)]
            rows.append((job.name, worker.group, worker.device, *_card(worker, named), *numbers))
    for device in (device for own in devices.values() for device in own):
        numbers = ["0", "", text.number(device.samples_per_second), "", *("" for _ in kept)]
        rows.append((LEFT_OUT, device.group, device.device, *_card(device, named), *numbers))
    shown = picked(rows, MOST)
    for row in shown:
        table.add_row(*map(Text, row), style="dim" if row[0] == LEFT_OUT else None)
    table.caption = "\n".join(filter(None, (_picked(len(shown), len(rows)), _caption(made)))) or None
    return table


def _picked(shown: int, total: int) -> str | None:
    return f"{shown} of {total:,} devices shown, evenly picked" if shown < total else None


def _steps(job: JobPlan) -> str:
    return f"{job.local_steps}, {job.overlap} beside" if job.overlap else f"{job.local_steps}"


def alternatives(made: Plan) -> Table | None:
    """What the plan was chosen over, the fastest first."""
    if not made.alternatives:
        return None
    table = _table(f"Instead of {made.strategy}", made.emulation)
    for name in ("alternative", "samples/s", "why not"):
        table.add_column(name, justify="right" if name == "samples/s" else "left", overflow="fold")
    for other in sorted(made.alternatives, key=lambda other: -(other.predicted_samples_per_second or 0.0)):
        table.add_row(*map(Text, (other.strategy, text.number(other.predicted_samples_per_second), other.why)))
    return table


def rates(measured: Profile) -> Table | None:
    """Learning rates over samples, one column for each of the optimizer's groups."""
    if not measured.rates:
        return None
    table = _table(f"Learning rate over samples, {measured.cluster}", measured.emulation)
    count = max(len(point.rates) for point in measured.rates)
    for name in ("samples", "epoch", *(["rate"] if count == 1 else [f"group {place}" for place in range(count)])):
        table.add_column(name, justify="right")
    for point in measured.rates:
        epoch = f"{point.samples / measured.epoch_samples:.2f}"
        table.add_row(f"{point.samples:,}", epoch, *(f"{rate:.4g}" for rate in point.rates))
    return table


def gain(made: Plan) -> str | None:
    """One line: what uneven shares gain here over even ones, and the most that any split can."""
    known = {other.strategy: other.predicted_samples_per_second for other in made.alternatives}
    even, mine = known.get("allreduce_even"), made.predicted_samples_per_second
    if not even or not mine or made.most_gain is None:
        return None
    return (
        f"Equal shares would reach {text.number(even)} samples/s; this is {mine / even:.2f} times that. "
        f"By their speeds alone, a split gains at most {made.most_gain:.2f} times on these devices."
    )


def threads(made: Plan) -> str:
    """One line: how many CPU threads each worker computes on."""
    counts = {f"{worker.group} ({worker.device})": worker.threads for worker in made.workers}
    if len(set(counts.values())) == 1:
        return f"CPU threads of each worker: {made.workers[0].threads}."
    return f"CPU threads: {', '.join(f'{name} {count}' for name, count in counts.items())}."


def _table(title: str, emulation: str) -> Table:
    how = "" if emulation == "none" else f" (emulated: {emulation})"
    return Table(title=Text(title + how), box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")


def _caption(made: Plan) -> str | None:
    predicted, limit = made.predicted_samples_per_second, made.limit_samples_per_second
    if not predicted or not limit:
        return None
    of = f"predicted {text.number(predicted)} of {text.number(limit)} samples/s: {predicted / limit:.0%} of the limit"
    stale = made.predicted_staleness
    return of if stale is None else f"{of}, mean staleness {stale:.3g}"


def _by_device(measured: Profile) -> dict[tuple[str, str, str | None], list[DeviceProfile]]:
    found: dict[tuple[str, str, str | None], list[DeviceProfile]] = {}
    for device in measured.devices:
        found.setdefault(device.which, []).append(device)
    return found


def _card(device: WorkerPlan | DeviceProfile, named: Sequence[str]) -> tuple[str, ...]:
    return (device.name or "", (device.uuid or "")[:UUID_CHARACTERS]) if named else ()


def _memory(device: DeviceProfile | None, samples: int = 0) -> str:
    """``"18.0 of 24.0 GiB"``: what a micro-batch needs of the device; empty where that was not measured."""
    if device is None or None in (device.memory_bytes, device.fixed_bytes, device.sample_bytes):
        return ""
    need = memory.needed(device.fixed_bytes or 0, device.sample_bytes or 0.0, samples)
    return f"{need / 2**30:.1f} of {(device.memory_bytes or 0) / 2**30:.1f} GiB"
