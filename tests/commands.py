"""``paceline run`` as a person starts it, in a session of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from paceline.schema.profile import DeviceProfile, Profile

ENDLESS = """
import os, sys, torch, paceline
from torch.utils.data import TensorDataset

data = TensorDataset(torch.randn(100_000, 4))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
run = paceline.init(global_batch=8)
model, optimizer = run.setup(model, optimizer)
for epoch in run.epochs(1000):
    for number, (x,) in enumerate(run.loader(data)):
        loss = model(x).mean()
        run.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if number == 3:
            print("training", run.place.rank, os.getpid(), flush=True)
        if number == 5 and sys.argv[1:] == ["raise"] and run.place.rank == 1:
            raise ValueError("no such label")
        if number == 5 and sys.argv[1:] == ["leave"] and run.place.rank == 1:
            sys.exit(3)
        if sys.argv[1:] == ["reduce"]:
            run.reduce(1.0, 1.0)
"""


class Command:
    """A running ``paceline run`` in its own session."""

    def __init__(
        self, folder: Path, strategy: str, *arguments: str, recipe: str = ENDLESS, flags: tuple[str, ...] = ()
    ) -> None:
        self.folder = folder
        (folder / "endless.py").write_text(recipe)
        devices = [
            DeviceProfile(
                group=name,
                device="cpu",
                speed=None,
                threads=1,
                micro_batch=None,
                batch=4,
                samples_per_second=100.0,
            )
            for name in "ab"
        ]
        batch = 16 if "global_batch=16" in recipe else 8
        profile = Profile(
            cluster="two",
            emulation="none",
            global_batch=batch,
            model_bytes=20,
            epoch_samples=100,
            devices=devices,
        )
        profile.write(folder / "profile.json")
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "paceline", "run", "--strategy", strategy, "--profile", "profile.json",
                "--out", "out", *flags, "endless.py", "--", *arguments,
            ],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip

    def workers(self) -> dict[int, int]:
        """rank -> process id, once both train."""
        found: dict[int, int] = {}
        while len(found) < 2:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            if line.startswith("training"):
                _, rank, pid = line.split()
                found[int(rank)] = int(pid)
        return found

    def end(self) -> tuple[int, str]:
        """Exit code and standard error; afterwards nothing of the run lives and no summary stands."""
        _, errors = self.process.communicate(timeout=100)
        assert self.leftovers() == []
        assert not (self.folder / "out" / "summary.json").exists()
        return self.process.returncode, errors

    def leftovers(self) -> list[str]:
        left = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("PACELINE_RUN", "").startswith(str(self.folder)) or (
                    process.cwd() == str(self.folder) and process.pid != self.process.pid
                ):
                    left.append(" ".join(process.cmdline()))
            except psutil.Error:
                continue
        return left
