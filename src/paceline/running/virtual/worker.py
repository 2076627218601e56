"""A job in virtual time as the one worker it is: the real worker and executor without a process of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from paceline.cost.rebalance import Balancer
from paceline.errors import ConfigError
from paceline.launchers.bootstrap import Launch
from paceline.observation.recorder import Recorder
from paceline.ops import Adopt, Compute, Range
from paceline.reduction.normalisation import CrossBatchNorm
from paceline.reduction.window import Window
from paceline.running.executor import Executor
from paceline.running.membership import Place, place_in
from paceline.running.virtual.hub import Hub, VirtualClient
from paceline.running.virtual.schedule import Course, Schedule
from paceline.running.virtual.turns import Turns
from paceline.running.worker import Worker
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.settings import Settings
from paceline.schema.trace import Mark
from paceline.server.client import Client
from paceline.strategies.base import get


def as_one(plan: Plan) -> Plan:
    """The same plan with one worker a job, on this host's CPU, that takes the whole job's share."""
    jobs = [job.model_copy(update={"workers": [_whole(job.workers)]}) for job in plan.jobs]
    return plan.model_copy(update={"jobs": jobs, "emulation": "none", "resume": None})


def _whole(workers: Sequence[WorkerPlan]) -> WorkerPlan:
    speeds = [worker.solo_samples_per_second for worker in workers]
    return WorkerPlan(
        group=workers[0].group,
        device="cpu",
        threads=1,
        share=sum(worker.share for worker in workers),
        solo_samples_per_second=sum(filter(None, speeds)) if all(speeds) else None,
    )


@dataclass(frozen=True)
class Job:
    """One job of the run: its number, its workers as planned, and what it shares with the other jobs."""

    number: int
    planned: JobPlan
    plan: Plan  # as_one
    course: Course
    turns: Turns
    hub: Hub


class LogBook(Recorder):
    """Keeps what the user logs, at the virtual time. All else is in the trace already."""

    def __init__(self) -> None:
        self.now = 0.0
        self.marks: list[Mark] = []
        super().__init__(None, {}, lambda: self.now)

    def mark(self, kind: str, **values: Any) -> None:
        if kind == "log":
            self.marks.append(Mark(kind, self.now, values))


class VirtualExecutor(Executor):
    """The strategy's program with tensors; time goes by as the schedule has it."""

    def __init__(self, worker: VirtualWorker, place: Place, source: Any) -> None:
        program = get(place.plan.strategy).program(place.member)
        super().__init__(program, place.member, source, worker.recorder, False, Balancer(place.job.workers))
        self._worker, self._schedule = worker, Schedule(0, (), (), (), {})
        self._starts = iter(self._schedule.starts)
        self._begun = 0  # updates
        self.parts: Sequence[int] = [each.share for each in worker.job.planned.workers]
        self.finished = 0  # epochs
        self.alike = True  # since the last update all workers of the job have got the same buffers

    def begin_epoch(self, epoch: int, size: int, left: Sequence[Range] | None = None) -> None:
        schedule = self._worker.schedule(epoch, size)
        if schedule is not self._schedule:
            self._schedule, self._starts = schedule, iter(schedule.starts)
        self.alike = True
        super().begin_epoch(epoch, size, left)

    def next_compute(self) -> Compute | None:
        compute = super().next_compute()
        book = self._worker.recorder
        self.parts = self._schedule.shares.get(self._begun, self.parts)
        if compute is not None:
            book.now = next(self._starts, book.now)
            self._begun += 1
        else:
            book.now = self._schedule.stops[self.epoch]
            self.finished = self.epoch + 1
        return compute

    def _adopt(self, adopt: Adopt) -> None:
        super()._adopt(adopt)
        self.alike = True


class VirtualWorker(Worker):
    """One job. ``by_parts``: its workers' parts of an update are trained one after another, as micro-batches.

    That is where a layer sees how an update is split; elsewhere the job takes the whole update at once, which is the
    same.
    """

    recorder: LogBook
    executor: VirtualExecutor

    def __init__(self, job: Job, settings: Settings) -> None:
        self.job, self.by_parts, self._told = job, False, False
        self._client = VirtualClient(job.number, job.hub, job.course.first_pushes(job.number), job.plan.wire)
        launch = Launch(
            rank=0, local_rank=0, world_size=1, local_world_size=1, job=job.number, folder=None, token="", quotas=None,
            launcher=None, run_id="", threads=1,
        )  # fmt: skip
        super().__init__(launch, settings)

    def keeps(self, path: Path) -> bool:
        if not self._told:
            self._told = True
            print(f"run.save({str(path)!r}) is left out: a simulation replaces no checkpoint.", flush=True)
        return False

    @property
    def accumulates(self) -> bool:
        return self.by_parts

    def schedule(self, epoch: int, size: int) -> Schedule:
        """That of this job, which begins an epoch."""
        self.job.turns.check()
        schedule = self.job.course.begin(self.job.number, epoch, size, self.epochs())
        if epoch == 0:
            self._client.follow(schedule.exchanges)
        return schedule

    @property
    def shares_updates(self) -> bool:
        return len(self.job.planned.workers) > 1

    def normalise(self, models: list[nn.Module], window: Window) -> None:
        super().normalise(models, window)
        layers = [layer for model in models for layer in model.modules()]
        own = [layer for layer in layers if isinstance(layer, _BatchNorm) and not isinstance(layer, CrossBatchNorm)]
        drops = [layer for layer in layers if isinstance(layer, _DropoutNd) and layer.p > 0]
        split = self.shares_updates or self._pieces
        if not any(isinstance(layer, CrossBatchNorm) for layer in layers):
            self.by_parts = split and bool(own or drops)
        elif split and (own or self._pieces):
            raise ConfigError(
                f"a SyncBatchNorm {'in micro-batches' if self._pieces else 'beside a BatchNorm'}, in virtual time",
                expected="one that sees all samples of an update at once",
                remedy="Leave micro_batch out of the cluster file, or convert all layers.",
            )

    @property
    def _pieces(self) -> bool:
        return any(worker.micro_batch is not None for worker in self.job.planned.workers)

    def check_in_step(self) -> None:
        if self.by_parts:
            raise ConfigError(
                "run.reduce was called inside the training loop in virtual time, where the workers' parts come one "
                "after another",
                remedy="Call it after the loop.",
            )
        super().check_in_step()

    def _watch_for_errors(self) -> None:
        """Whoever started the thread does."""

    def _end_well(self) -> None:
        """So does it end it."""

    def _take_place(self) -> Place:
        return place_in(self.job.plan, self._launch, self._settings.global_batch, None)

    def _recorder(self) -> LogBook:
        return LogBook()

    def _make_executor(self) -> VirtualExecutor:
        return VirtualExecutor(self, self.place, self._source)

    def _join(self, size: int) -> tuple[Client, bool]:
        self.job.hub.join(size)
        return self._client, self.job.number == 0
