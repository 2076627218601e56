"""Workers that stay: real gloo processes that train one small job after another, so that a test can try many.

Each job is a plan (shares, micro-batches) and a function of a run, given by name with an example; it comes back as one
result a worker. Shares stay unless a test says otherwise, so that no clock decides what it finds.
"""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from hypothesis import Phase

import harness
import paceline.ports
from paceline.schema.plan import WorkerPlan

Job = Callable[..., Any]
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # with real processes, shrinking takes minutes


class Crew:
    """``size`` processes. Use as a fixture of a module; ``close`` ends them."""

    def __init__(self, size: int) -> None:
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(["jobs"])  # torch is imported once
        self._folder = tempfile.TemporaryDirectory()
        self._pipes, self._processes = [], []
        for rank in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(rank, theirs), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)
        self._count = 0

    def run(
        self,
        job: Job,
        workers: Sequence[WorkerPlan],
        *example: Any,
        strategy: str = "allreduce",
        emulation: str = "none",
        fixed: bool = True,
    ) -> list[Any]:
        """One result a worker; raises what a worker raised."""
        results = self.outcomes(job, workers, *example, strategy=strategy, emulation=emulation, fixed=fixed)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    def outcomes(
        self,
        job: Job,
        workers: Sequence[WorkerPlan],
        *example: Any,
        strategy: str = "allreduce",
        emulation: str = "none",
        fixed: bool = True,
    ) -> list[Any]:
        """One result a worker, or the exception it raised."""
        self._count += 1
        folder = self.folder
        harness.plan(strategy, workers, emulation=emulation, fixed=fixed).write(folder / "plan.json")
        with paceline.ports.listen("127.0.0.1", 0) as free:
            port = free.getsockname()[1]
        told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(len(workers))}
        for pipe in self._pipes[: len(workers)]:
            pipe.send((job, example, {**told, "PACELINE_RUN": str(folder)}))
        return [pipe.recv() for pipe in self._pipes[: len(workers)]]

    @property
    def folder(self) -> Path:
        """Of the latest run."""
        return Path(self._folder.name) / str(self._count)

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join()
        self._folder.cleanup()


@contextmanager
def launched(**told: str) -> Iterator[None]:
    """The environment that a launcher gives."""
    before = dict(os.environ)
    os.environ.update(told)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _work(rank: int, pipe: Any) -> None:
    torch.set_num_threads(1)
    while (order := pipe.recv()) is not None:
        job, example, told = order
        with launched(RANK=str(rank), LOCAL_RANK=str(rank), **told):
            try:
                pipe.send(job(*example))
            except (Exception, SystemExit) as error:
                traceback.print_exc()
                if dist.is_initialized():
                    dist.destroy_process_group()
                pipe.send(error)
    os._exit(0)  # torch takes its time to leave
