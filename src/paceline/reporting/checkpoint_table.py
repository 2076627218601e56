"""The terminal's tables of a checkpoint."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from paceline.schema.checkpoint import Contents, State


def tensors(found: Contents, title: str) -> Table:
    """One row for each model and optimizer."""
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, title_justify="left")
    for name in ("part", "class", "tensors", "values", "bytes", "dtypes"):
        table.add_column(name, justify="right" if name in ("tensors", "values", "bytes") else "left")
    for kind, parts in (("model", found.models), ("optimizer", found.optimizers)):
        for index, part in enumerate(parts):
            counts = (f"{part.tensors:,}", f"{part.values:,}", f"{part.bytes:,}")
            table.add_row(*map(Text, (f"{kind} {index}", part.name, *counts, ", ".join(part.dtypes))))
    return table


def state(saved: State) -> Table:
    """One row for each thing that is known of the training."""
    table = Table(box=None, show_header=False)
    rows = {
        "samples seen": f"{saved.samples_seen:,}",
        "epoch": _epoch(saved),
        "seed": f"{saved.settings.seed}",
        "global batch": f"{saved.settings.global_batch:,}, loss reduced by {saved.settings.reduction}",
        "strategy": saved.strategy,
        "parameters": f"{saved.parameters:,}",
        "saved": saved.saved_at,
        "with": ", ".join(f"{name} {number}" for name, number in saved.versions.items()),
    }
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table


def _epoch(saved: State) -> str:
    if saved.finished:
        return f"{saved.epoch}, over"
    if not saved.epoch_size:
        return f"{saved.epoch}, from its beginning"
    return f"{saved.epoch}, {saved.samples_left:,} of {saved.epoch_size:,} samples left"
