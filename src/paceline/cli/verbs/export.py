"""``paceline export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from paceline import api
from paceline.cli import flags


def command(
    checkpoint: flags.Checkpoint,
    out: Annotated[Path, typer.Option("--out", help="The file to write; one that is there is refused.")] = Path(
        "model.safetensors"
    ),
    model: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--model", min=0, help="Which model, from 0, if there are several.", show_default=False),
    ] = None,
) -> None:
    """Write a model's weights as one safetensors file that plain torch loads."""
    api.export(checkpoint, out, model)
    typer.echo(out)
