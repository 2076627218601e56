"""Saving weights: safetensors with plain names and a small state file, each whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from safetensors.torch import save_model
from torch import nn

from paceline.schema.record import write_atomically


def save(path: Path, models: Sequence[nn.Module], samples_seen: int, epoch: int) -> None:
    """Write ``path/model.safetensors`` (``model_1`` and so on for further models), then ``path/state.json``.

    Each file is written beside its place and renamed into it, so an older one of that name stays whole until then.
    """
    path.mkdir(parents=True, exist_ok=True)
    for index, model in enumerate(models):
        name = f"model_{index}.safetensors" if index else "model.safetensors"
        filling = path / f".{name}.{os.getpid()}"
        try:
            save_model(model, str(filling))
            os.replace(filling, path / name)
        finally:
            filling.unlink(missing_ok=True)
    write_atomically(path / "state.json", json.dumps({"samples_seen": samples_seen, "epoch": epoch}))
