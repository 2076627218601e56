"""``paceline report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline import api
from paceline.launchers.folder import RunFolder


def command(run: Annotated[Path, typer.Argument(help="A run's folder.")]) -> None:
    """Draw a finished run's page again: one HTML file that opens without a network."""
    typer.echo(api.report(RunFolder(run)))
