"""``paceline plan``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from paceline import api
from paceline.cli import flags
from paceline.cli.terminal import Terminal
from paceline.reporting import plan_table


def command(
    profile: flags.KnownProfile = None,
    cluster: flags.KnownCluster = None,
    strategy: flags.Strategy = None,
    check: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--check", help="A plan.yaml that was changed by hand: can it run, how fast?", show_default=False),
    ] = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--out", help="File to write the plan to, as YAML.", show_default=False),
    ] = None,
    json: flags.Json = False,
) -> None:
    """From a profile to shares and local steps, with the reason, the speed it predicts and what it was chosen over."""
    terminal = Terminal(sys.stderr if json else sys.stdout)
    flags.check_strategy(strategy, check, "--check")
    measured = flags.measured(profile, cluster)
    made = flags.planned(measured, strategy, check)
    if out is not None:
        api.write_plan(out, made)
    if json:
        typer.echo(made.model_dump_json(indent=2))
    terminal.table(plan_table.plan(made, measured))
    terminal.say(made.reason)
    if (gain := plan_table.gain(made)) is not None:
        terminal.say(gain)
    terminal.say(plan_table.threads(made))
    for table in (plan_table.alternatives(made), plan_table.rates(measured)):
        if table is not None:
            terminal.table(table)
    if out is not None:
        terminal.say(f"plan: {out}")
