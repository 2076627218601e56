"""What a launcher is: it turns a job into a command; ``supervisor`` starts, watches and ends it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

STOP_SECONDS = 25  # between asking a worker to end and ending it; Slurm and Kubernetes give a job 30 by default


@dataclass(frozen=True, slots=True)
class Job:
    """Workers that start together: ``processes`` times ``recipe`` with ``arguments``."""

    name: str
    processes: int
    recipe: Path
    arguments: tuple[str, ...]


class Launcher(ABC):
    """One way to start a job's processes with ranks."""

    @abstractmethod
    def command(self, job: Job) -> list[str]:
        """The command line that runs the whole job in the foreground and ends with its exit code.

        Raises:
            LaunchError: what the launcher needs is not installed.
        """
