"""``paceline demo``."""

from __future__ import annotations

import sys
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from paceline import api
from paceline.cli import flags
from paceline.cli.terminal import Terminal
from paceline.reporting import table


def command(
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")] = Path("runs/demo"),
    emulation: flags.Emulation = None,
    json: flags.Json = False,
) -> None:
    """An emulated 4:2:1:1 cluster on this machine, real data, each strategy in turn, one table, one page."""
    terminal = Terminal(sys.stderr if json else sys.stdout)
    summaries = api.demo(out, emulation, terminal.say, terminal.watcher)
    terminal.done()
    if json:
        typer.echo(dumps([summary.model_dump() for summary in summaries], indent=2))
    terminal.table(table.comparison(summaries))
    terminal.say(f"report: {out / 'report.html'}")
