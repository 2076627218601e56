"""``paceline inspect``."""

from __future__ import annotations

import sys

import typer

from paceline import api
from paceline.cli import flags
from paceline.cli.terminal import Terminal
from paceline.reporting import checkpoint_table


def command(checkpoint: flags.Checkpoint, json: flags.Json = False) -> None:
    """Read a checkpoint to its end and show what is in it."""
    terminal = Terminal(sys.stderr if json else sys.stdout)
    found = api.inspect(checkpoint)
    if json:
        typer.echo(found.model_dump_json(indent=2))
    terminal.table(checkpoint_table.tensors(found, str(checkpoint)))
    terminal.table(checkpoint_table.state(found.state))
