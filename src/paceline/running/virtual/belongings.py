"""What a process has once, and each job must have for itself: random numbers, the script's modules."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from paceline.data.randomness import seed
from paceline.launchers.failures import INSTALLED


class Belongings:
    """Of each job, while another one runs.

    Args:
        script: its own module and those from its folder are each job's own; all others are shared.
        mains: each job's ``__main__``.
    """

    def __init__(self, script: Path, mains: Sequence[ModuleType]) -> None:
        self._folder = str(script.absolute().parent)
        self._shared = set(sys.modules) - {"__main__"}
        self._modules: list[dict[str, ModuleType]] = [{"__main__": main} for main in mains]
        self._random: list[Any] = [None] * len(mains)

    def put_on(self, job: int) -> None:
        """The job runs from here on."""
        sys.modules.update(self._modules[job])
        if self._random[job] is None:
            seed(0)  # a script that seeds nothing trains the same each time
            return
        ours, numpys, torchs = self._random[job]
        random.setstate(ours)
        np.random.set_state(numpys)
        torch.set_rng_state(torchs)

    def take_off(self, job: int) -> None:
        """Another one is about to run."""
        self._random[job] = random.getstate(), np.random.get_state(), torch.get_rng_state()
        self._modules[job] = {name: sys.modules[name] for name in sys.modules.keys() - self._shared if self._own(name)}
        for name in self._modules[job]:
            del sys.modules[name]

    def _own(self, name: str) -> bool:
        path = str(getattr(sys.modules[name], "__file__", None) or "")
        return name == "__main__" or (path.startswith(self._folder) and not path.startswith(INSTALLED))
