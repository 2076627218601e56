"""The only reader of the environment: what a process was told by whoever launched it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import ConfigError

RUN, JOB, TOKEN, ID = "PACELINE_RUN", "PACELINE_JOB", "PACELINE_TOKEN", "PACELINE_ID"
QUOTAS, LAUNCHER = "PACELINE_QUOTAS", "PACELINE_LAUNCHER"
RANK = "RANK"


@dataclass(frozen=True, slots=True)
class Launch:
    """One process's place in a run. ``folder`` is the run's, or None outside ``paceline run``.

    ``rank`` and ``world_size`` are within the job, ``local_rank`` and ``local_world_size`` among its workers on this
    host; ``job`` is the job's index in the plan. ``threads``: OMP_NUM_THREADS, if a person set it.
    ``launcher``: its process, if it runs on this host; ``run_id`` is in the environment of every process of the run.
    """

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    job: int
    folder: Path | None
    token: str
    quotas: Path | None
    launcher: int | None
    run_id: str
    threads: int | None

    @property
    def distributed(self) -> bool:
        return self.world_size > 1


def variables() -> Mapping[str, str]:
    """The environment of this process."""
    return os.environ


def read(environment: Mapping[str, str] | None = None) -> Launch:
    """This process's launch, from torchrun's variables and paceline's; one worker alone if there are none.

    Raises:
        ConfigError: a variable is not a number, or the ranks contradict each other.
    """
    given = variables() if environment is None else environment
    rank, size = _number(given, RANK, 0), _number(given, "WORLD_SIZE", 1)
    if not 0 <= rank < size:
        raise ConfigError(f"RANK is {rank} and WORLD_SIZE is {size}", remedy="Start with torchrun, or unset both.")
    folder, quotas, local = given.get(RUN), given.get(QUOTAS), _number(given, "LOCAL_WORLD_SIZE", size)
    return Launch(
        rank=rank,
        local_rank=_number(given, "LOCAL_RANK", rank),
        world_size=size,
        local_world_size=local,
        job=_number(given, JOB, 0),
        folder=Path(folder) if folder else None,
        token=given.get(TOKEN, ""),
        quotas=Path(quotas) if quotas else None,
        launcher=_launcher(given.get(LAUNCHER, "")),
        run_id=given.get(ID, ""),
        threads=_threads(given, local),
    )


def child_environment(
    run_id: str, folder: Path, token: str, job: int = -1, quotas: Path | None = None
) -> dict[str, str]:
    """The environment of a process of run ``run_id``: this one's, plus what ``read`` needs.

    ``job`` is -1 for a process of no job, as the server. The token is never on a command line, where other users could
    see it.
    """
    added = {
        RUN: str(folder.absolute()),
        JOB: str(job),
        TOKEN: token,
        ID: run_id,
        LAUNCHER: f"{os.getpid()}@{socket.gethostname()}",
    }
    if quotas is not None:
        added[QUOTAS] = str(quotas)
    inherited = {name: value for name, value in os.environ.items() if name != RANK}  # the launcher's is nobody else's
    return {**inherited, **added}


def _threads(given: Mapping[str, str], local_workers: int) -> int | None:
    """OMP_NUM_THREADS (of a list, the outermost level's), but not the 1 that torchrun sets for several workers."""
    name = "OMP_NUM_THREADS"
    text = given.get(name, "").partition(",")[0]
    if not text:
        return None
    count = _number({name: text}, name, 0)
    if count < 1:
        raise ConfigError(f"{name} is '{text}'", expected="1 or more", remedy=f"Unset {name}.")
    return None if count == 1 and local_workers > 1 else count


def _launcher(text: str) -> int | None:
    """The launcher's process, if it is one of this host."""
    number, _, host = text.partition("@")
    return int(number) if number.isdigit() and host == socket.gethostname() else None


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{name} is '{text}'", expected="a whole number", remedy=f"Unset {name}.") from None
