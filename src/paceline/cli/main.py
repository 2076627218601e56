"""The ``paceline`` command: one file a verb; an error becomes one sentence and its exit code."""

from __future__ import annotations

import sys

import click
import typer

from paceline import __version__
from paceline.cli import bench, demo, plan, probe, report, run, serve, simulate
from paceline.errors import PacelineError

app = typer.Typer(
    help="Train one model on devices of different speed at close to the sum of their speeds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for verb in (demo, run, probe, plan, simulate, serve, report, bench):
    app.command(name=verb.__name__.rpartition(".")[2])(verb.command)


@app.callback(invoke_without_command=True)
def options(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    """Train one model on devices of different speed at close to the sum of their speeds."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; ends the process with the documented exit code."""
    try:
        code = app(standalone_mode=False)
    except PacelineError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("error: stopped.", file=sys.stderr)
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
