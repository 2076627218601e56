"""Flags that several verbs share."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from paceline import strategies
from paceline.launchers.folder import RunFolder
from paceline.strategies.base import get


def _strategies() -> str:
    known = [f"{name}: {get(name).about}" for name in strategies.TABLE if name != "solo"]
    return "; ".join([*known, f"{strategies.AUTO}: whichever promises most samples/s"])


Recipe = Annotated[Path, typer.Argument(help="The training script.", show_default=False)]
Arguments = Annotated[
    Optional[list[str]],  # noqa: UP045  typer reads it at run time
    typer.Argument(help="Arguments of the recipe, after --.", show_default=False),
]
ClusterFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--cluster", help="cluster.yaml; without it, this host as it is.", show_default=False),
]
Strategy = Annotated[str, typer.Option("--strategy", help=_strategies())]
Emulation = Annotated[
    Optional[Literal["pacing", "cgroups"]],  # noqa: UP045
    typer.Option(
        "--emulation", help="Emulate the cluster's speeds this way instead of the file's.", show_default=False
    ),
]
Out = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--out", help="Folder to write to; a new one under runs/ by default.", show_default=False),
]
ProfileFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--profile", help="A profile that `paceline probe` wrote; without it, probe first.", show_default=False
    ),
]
Checkpoint = Annotated[Path, typer.Argument(help="A folder that `run.save` wrote.", show_default=False)]
ProbeSeconds = Annotated[float, typer.Option("--probe-seconds", help="How long to measure.", min=0.1)]
Json = Annotated[bool, typer.Option("--json", help="Figures as JSON on standard output, everything else elsewhere.")]


def typed() -> str:
    """What the user typed, to be typed again."""
    return shlex.join(["paceline", *sys.argv[1:]])


def folder(out: Path | None, name: str) -> RunFolder:
    """``--out``, or a fresh folder under ``runs/``."""
    return RunFolder(out or Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}")
