"""The ``paceline`` command: one file a verb; an error becomes one sentence and its exit code."""

from __future__ import annotations

import sys
from typing import Any

import typer

from paceline import __version__
from paceline.cli.verbs import bench, demo, doctor, export, inspect, plan, probe, report, run, serve, simulate
from paceline.errors import LaunchError, PacelineError

# Newer versions of typer hold their own copy of click, older ones import it; this is what a wrong flag raises in both.
WrongUsage: type[Exception] = typer.BadParameter.__mro__[1]

RECIPES = ("run", "probe", "simulate")  # they hand arguments on
STOPPED = 130  # exit code after Ctrl-C

app = typer.Typer(
    help="Train one model on devices of different speed at close to the sum of their speeds.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for verb in (demo, doctor, run, probe, plan, simulate, serve, report, inspect, export, bench):
    app.command(name=verb.__name__.rpartition(".")[2])(verb.command)


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version and exit.")
) -> None:
    """Train one model on devices of different speed at close to the sum of their speeds."""
    if version:
        typer.echo(__version__)
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line; ends the process with the documented exit code."""
    try:
        code = app(standalone_mode=False)
        if code == STOPPED:  # typer has caught Ctrl-C
            print("error: stopped.", file=sys.stderr)
    except PacelineError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    except OSError as error:
        print(f"error: {error.filename or 'output'}: {error.strerror or error}.", file=sys.stderr)
        code = LaunchError.exit_code
    except WrongUsage as error:
        print(f"error: {_wrong(error)}", file=sys.stderr)
        code = 2
    except (typer.Abort, KeyboardInterrupt):
        print("error: stopped.", file=sys.stderr)
        code = STOPPED
    sys.exit(code if isinstance(code, int) else 0)


def _wrong(error: Any) -> str:
    said = error.format_message().rstrip(".").replace("Value error, ", "")
    verb = error.ctx.command_path if error.ctx else "paceline"
    misplaced = said.startswith("No such option") and verb.endswith(RECIPES)
    script = " What is for the script comes after --." if misplaced else ""
    return f"{said}{'' if said.endswith('?') else '.'}{script} See `{verb} --help`."
