"""``paceline bench``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

from paceline.errors import ConfigError, nearest

FOLDER = Path(__file__).resolve().parents[4] / "bench"


def command(
    name: Annotated[str, typer.Argument(help="A script of bench/, without .py.")],
    quick: Annotated[bool, typer.Option("--quick", help="A short form, for a look.")] = False,
) -> None:
    """Run one of the project's own benchmarks: a table, then one line of figures; exit code 1 if its bar is missed."""
    known = sorted(path.stem for path in FOLDER.glob("*.py"))
    if name not in known:
        raise ConfigError(f"there is no benchmark '{name}' in {FOLDER}", remedy=nearest(name, known) if known else "")
    sys.path.insert(0, str(FOLDER))  # what benchmarks share lies in folders there
    sys.argv = [name, *(["--quick"] if quick else [])]
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
