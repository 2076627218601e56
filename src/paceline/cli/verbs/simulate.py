"""``paceline simulate``."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from paceline import api
from paceline.cli import flags
from paceline.cli.terminal import Terminal
from paceline.errors import ConfigError
from paceline.hardware import host
from paceline.reporting import table
from paceline.reporting.summary import summarise
from paceline.schema.profile import Profile


def command(
    profile: Annotated[Path, typer.Argument(help="A profile that `paceline probe` wrote.")],
    arguments: flags.Arguments = None,
    strategy: flags.Strategy = "allreduce",
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the data.")] = 1,
    updates: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--updates", min=1, help="Stop after this many updates of the first worker.", show_default=False),
    ] = None,
    train: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--train", help="Train this script meanwhile, with real tensors.", show_default=False),
    ] = None,
    json: flags.Json = False,
) -> None:
    """Run a strategy's own program in virtual time and show what it would reach."""
    terminal = Terminal(sys.stderr if json else sys.stdout)
    measured = Profile.read(profile)
    made = api.plan(measured, strategy)
    if train is not None:
        if epochs != 1 or updates is not None:
            raise ConfigError("--train goes with neither --epochs nor --updates", remedy="The script says how long.")
        with contextlib.redirect_stdout(sys.stderr if json else sys.stdout):
            trace = api.train_virtually(measured, made, api.Recipe(train, tuple(arguments or ())))
    else:
        trace = api.simulate(measured, made, epochs=epochs, updates=updates)
    summary = summarise(trace, made, flags.typed(), [], host.versions())
    if json:
        typer.echo(summary.model_dump_json(indent=2))
    terminal.table(table.devices(summary))
    terminal.table(table.comparison([summary]))
    what = f"trained {train.name}" if train is not None else "nothing was trained"
    terminal.say(f"simulated in virtual time from the profile; {what}")
