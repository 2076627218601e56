"""Checkpoints: find, look into, export."""

from __future__ import annotations

from pathlib import Path

from paceline.errors import ConfigError
from paceline.launchers.folder import RunFolder
from paceline.schema.checkpoint import MARK, Contents


def find(path: Path) -> Path:
    """The checkpoint that ``path`` is, or that the run in it has left."""
    inside = RunFolder(path).checkpoint
    found = path if (path / MARK).exists() else inside
    if not (found / MARK).exists():
        raise ConfigError(
            f"{path} holds no checkpoint: no {MARK}",
            remedy="Name a folder that run.save has written, or that of a stopped run.",
        )
    return found


def inspect(checkpoint: Path) -> Contents:
    """What a checkpoint holds, read to its end.

    Raises:
        ConfigError: there is none, or it is damaged.
    """
    from paceline.state import disk

    return disk.contents(find(checkpoint))


def export(checkpoint: Path, out: Path, model: int | None) -> None:
    """One model of a checkpoint as a safetensors file that plain torch loads.

    Raises:
        ConfigError: there is no checkpoint or no such model, or ``out`` exists or cannot be written.
    """
    from paceline.state import disk

    disk.export(find(checkpoint), out, model)
