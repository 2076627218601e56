"""Runs a recipe once for each job of a plan, each in a thread of its own, in virtual time."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import CodeType, ModuleType

import torch

from paceline.errors import ConfigError, PacelineError, WorkerError
from paceline.launchers.failures import line
from paceline.launchers.recipe import Recipe
from paceline.running.run import Run
from paceline.running.virtual import seat
from paceline.running.virtual.belongings import Belongings
from paceline.running.virtual.hub import Hub
from paceline.running.virtual.loop import VirtualLoop
from paceline.running.virtual.schedule import Course
from paceline.running.virtual.turns import Ended, Turns
from paceline.running.virtual.worker import Job, VirtualWorker, as_one
from paceline.schema.plan import Plan
from paceline.schema.settings import Settings
from paceline.schema.trace import Trace
from paceline.server import rules
from paceline.strategies.base import get

LET_GO_SECONDS = 5.0


def train(plan: Plan, recipe: Recipe, course: Course) -> Trace:
    """Train ``recipe`` by ``plan`` on this host's CPU, one thread at a time, in the order of ``course``.

    Args:
        plan: of a strategy whose workers reduce together within a job.
        recipe: the script and its arguments; it runs as ``__main__``.
        course: what a run of the plan does and when.

    Returns:
        The course's trace of the epochs that were trained, and in it what the recipe logged.

    Raises:
        ConfigError: the recipe asks for what there is not in virtual time, or does not fit the plan.
        WorkerError: the recipe raised, ended early or trained nothing.
    """
    if not get(plan.strategy).layout.reduces and len(plan.workers) > 1:
        raise ConfigError(f"{plan.strategy} trains a model on each device", remedy="Choose another strategy.")
    script = recipe.script
    code = compile(script.read_bytes(), str(script), "exec")
    mains = [_main(script) for _ in plan.jobs]
    turns = Turns(len(mains), Belongings(script, mains))
    hub = Hub(rules.load(plan.rule), plan.global_batch or 1, turns)
    one = as_one(plan)
    jobs = [
        _Thread(Job(number, planned, one, course, turns, hub), code, main)
        for number, (planned, main) in enumerate(zip(plan.jobs, mains, strict=True))
    ]
    with _process(recipe):
        _run(jobs, turns)
    return _with_logs(course, jobs)


class _Thread(threading.Thread):
    """One job."""

    def __init__(self, job: Job, code: CodeType, main: ModuleType) -> None:
        super().__init__(name=f"job '{job.planned.name}'", daemon=True)
        self.job, self._code, self._main = job, code, main
        self.worker: VirtualWorker | None = None

    @property
    def epochs(self) -> int:
        """That were trained to their end."""
        return self.worker.executor.finished if self.worker is not None else 0

    def run(self) -> None:
        failure: BaseException | None = None
        try:
            self.job.turns.begin(self.job.number)
            seat.take(self._join)
            torch.set_num_threads(1)
            exec(self._code, self._main.__dict__)
            self._check_end()
        except Ended:
            pass
        except SystemExit as error:
            failure = self._exit(error)
        except BaseException as error:
            failure = self._explained(error)
        self.job.turns.leave(self.job.number, failure)

    def _join(self, settings: Settings) -> Run:
        self.worker = VirtualWorker(self.job, settings)
        return Run(self.worker, settings, VirtualLoop)

    def _check_end(self) -> None:
        if self.worker is not None and self.worker.executor.training:
            raise WorkerError("the recipe ended in the middle of an epoch", where=self.name)

    def _exit(self, error: SystemExit) -> BaseException | None:
        if error.code not in (None, 0):
            return WorkerError(f"the recipe ended with exit code {error.code}", where=self.name)
        try:
            self._check_end()
        except WorkerError as early:
            return early
        return None

    def _explained(self, error: BaseException) -> BaseException:
        if isinstance(error, PacelineError):
            return error
        own = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        traceback.print_exception(own)
        said = str(error).strip().partition("\n")[0].rstrip(".")
        failure = WorkerError(f"the recipe raised {type(error).__name__}: {said} ({line(error)})", where=self.name)
        failure.__cause__ = error
        return failure


def _main(script: Path) -> ModuleType:
    main = ModuleType("__main__")
    main.__file__ = str(script)
    return main


@contextmanager
def _process(recipe: Recipe) -> Iterator[None]:
    """This process looks to the recipe as one that was started with it."""
    argv, path, main, threads = sys.argv, list(sys.path), sys.modules["__main__"], torch.get_num_threads()
    sys.argv = [str(recipe.script), *recipe.arguments]
    sys.path.insert(0, str(recipe.script.absolute().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = argv, path, main
        torch.set_num_threads(threads)


def _run(jobs: Sequence[_Thread], turns: Turns) -> None:
    for job in jobs:
        job.start()
    turns.open()
    try:
        for job in jobs:
            job.join()
    except BaseException as stopped:
        turns.fail(stopped)
        for job in jobs:
            job.join(LET_GO_SECONDS)
        raise
    if turns.failure is not None:
        raise turns.failure


def _with_logs(course: Course, jobs: Sequence[_Thread]) -> Trace:
    epochs = jobs[0].epochs
    if any(job.epochs != epochs for job in jobs):
        raise WorkerError(f"the jobs ended after {[job.epochs for job in jobs]} epochs", expected="as many in each")
    if epochs == 0:
        raise WorkerError(
            "the recipe trained nothing", remedy="Does it call paceline.init and loop over run.loader to its end?"
        )
    trace, leader, logs = course.trace(epochs), 0, {}
    for job in jobs:
        logs[leader] = job.worker.recorder.marks if job.worker is not None else []
        leader += len(job.job.planned.workers)
    workers = [
        replace(one, marks=sorted([*one.marks, *logs.get(one.rank, [])], key=lambda mark: mark.at))
        for one in trace.workers
    ]
    return replace(trace, workers=workers)
