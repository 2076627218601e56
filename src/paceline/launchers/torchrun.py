"""Starts a job with torchrun on this host."""

from __future__ import annotations

import sys

from paceline.launchers.base import Job, Launcher

SHUTDOWN_SECONDS = 5  # between torchrun's SIGTERM and its SIGKILL to a worker whose peer has failed


class Torchrun(Launcher):
    """``torchrun --standalone``: a free port, no restarts; the supervisor decides what a failure means."""

    def command(self, job: Job) -> list[str]:
        return [
            sys.executable, "-m", "paceline.launchers.agent",
            "--standalone",
            f"--nproc-per-node={job.processes}",
            "--max-restarts=0",
            "--monitor-interval=0.2",
            f"--shutdown-timeout={SHUTDOWN_SECONDS}",
            "--",  # or torchrun takes a --log of the recipe for a --log-dir of its own
            str(job.recipe), *job.arguments,
        ]  # fmt: skip
