"""Saving weights: one safetensors file with plain names and a small state file, whole or not there."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from safetensors.torch import save_model
from torch import nn

from paceline.schema.record import write_atomically


def save(path: Path, models: Sequence[nn.Module], samples_seen: int, epoch: int) -> None:
    """Write ``path/model.safetensors`` (``model_1`` and so on for further models) and ``path/state.json``.

    The folder is filled beside ``path`` and renamed into place; an older one of that name is replaced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    filling = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        for index, model in enumerate(models):
            save_model(model, str(filling / (f"model_{index}.safetensors" if index else "model.safetensors")))
        write_atomically(filling / "state.json", json.dumps({"samples_seen": samples_seen, "epoch": epoch}))
        os.chmod(filling, 0o755)
        if path.exists():
            shutil.rmtree(path)
        os.replace(filling, path)
    except BaseException:
        shutil.rmtree(filling, ignore_errors=True)
        raise
