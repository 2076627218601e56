"""Starts a job with torchrun on this host."""

from __future__ import annotations

import sys

from paceline.launchers.base import STOP_SECONDS, Job, Launcher


class Torchrun(Launcher):
    """``torchrun --standalone``: a free port, no restarts; the supervisor decides what a failure means."""

    def command(self, job: Job) -> list[str]:
        return [
            sys.executable, "-m", "paceline.launchers.agent",
            "--standalone",
            f"--nproc-per-node={job.processes}",
            "--max-restarts=0",
            "--monitor-interval=0.2",
            f"--shutdown-timeout={STOP_SECONDS}",
            "--",  # or torchrun takes a --log of the recipe for a --log-dir of its own
            str(job.recipe), *job.arguments,
        ]  # fmt: skip
