"""``paceline plan``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from paceline import api
from paceline.cli import flags
from paceline.cli.terminal import Terminal
from paceline.reporting import plan_table
from paceline.schema.profile import Profile


def command(
    profile: Annotated[Path, typer.Argument(help="A profile that `paceline probe` wrote.")],
    strategy: flags.Strategy = "allreduce",
    json: flags.Json = False,
) -> None:
    """From a profile to shares and local steps, with the reason and the speed it predicts."""
    terminal = Terminal(sys.stderr if json else sys.stdout)
    made = api.plan(Profile.read(profile), strategy)
    if json:
        typer.echo(made.model_dump_json(indent=2))
    terminal.table(plan_table.plan(made))
    terminal.say(made.reason)
