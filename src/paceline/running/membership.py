"""Which worker this process is: its plan, its place, its device."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import torch

from paceline.errors import ConfigError
from paceline.hardware.cores import cores, threads
from paceline.launchers.bootstrap import Launch
from paceline.launchers.folder import RunFolder
from paceline.ops import Range
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.strategies.base import Layout, Member, get


@dataclass(frozen=True)
class Place:
    """One worker in its plan. ``rank`` counts over all jobs."""

    plan: Plan
    job: JobPlan
    worker: WorkerPlan
    rank: int
    member: Member
    layout: Layout
    device: torch.device
    host: str
    folder: RunFolder | None

    @property
    def leads(self) -> bool:
        """First of its job."""
        return self.worker is self.job.workers[0]

    @property
    def is_main(self) -> bool:
        """First of the run: the one that prints, logs and saves."""
        return self.rank == 0

    @property
    def probing(self) -> bool:
        """This worker only measures its device."""
        return self.plan.probe_seconds is not None

    @property
    def header(self) -> dict[str, str | int]:
        """What a trace says of its worker."""
        worker = self.worker
        return {"rank": self.rank, "group": worker.group, "name": str(self.device), "host": self.host,
                "share": worker.share}  # fmt: skip

    def __str__(self) -> str:
        return f"rank {self.rank} on {self.host} ({self.device}, group {self.worker.group})"


def take_place(launch: Launch, global_batch: int) -> Place:
    """This worker's place, from the run's plan or, outside ``paceline run``, from an even split.

    Raises:
        ConfigError: plan, launch and ``global_batch`` do not fit together.
    """
    folder = RunFolder(launch.folder) if launch.folder else None
    plan = Plan.read(folder.plan) if folder else _default_plan(launch, global_batch)
    return place_in(_filled(plan, global_batch), launch, global_batch, folder)


def place_in(plan: Plan, launch: Launch, global_batch: int, folder: RunFolder | None) -> Place:
    """The place in ``plan`` of the worker that was launched like this.

    Raises:
        ConfigError: plan, launch and ``global_batch`` do not fit together.
    """
    if plan.global_batch != global_batch:
        raise ConfigError(
            f"paceline.init was given global_batch={global_batch}", expected=f"{plan.global_batch}, as in the plan",
            remedy="Give it that, or plan anew from a profile or a cluster file with yours.",
        )  # fmt: skip
    job = plan.jobs[launch.job]
    if launch.world_size != len(job.workers):
        raise ConfigError(
            f"job '{job.name}' has {launch.world_size} processes", expected=f"{len(job.workers)}, as in the plan",
            remedy="Start it with `paceline run`.",
        )  # fmt: skip
    worker = job.workers[launch.rank]
    layout = get(plan.strategy).layout
    shares = job.shares if layout.reduces else (worker.share,)
    member = Member(shares, launch.rank if layout.reduces else 0, job.local_steps, job.overlap)
    rank = sum(len(before.workers) for before in plan.jobs[: launch.job]) + launch.rank
    device = torch.device(worker.device)
    return Place(plan, job, worker, rank, member, layout, device, socket.gethostname(), folder)


def _default_plan(launch: Launch, global_batch: int) -> Plan:
    """Plain ``python`` or a bare torchrun: equal shares over the processes there are."""
    if global_batch < launch.world_size:
        raise ConfigError(
            f"global_batch is {global_batch} for {launch.world_size} workers", expected="a sample for each at least",
            remedy="Raise global_batch or start fewer workers.",
        )  # fmt: skip
    shares = [len(part) for part in Range(0, global_batch).cut([1] * launch.world_size)]
    cuda = torch.cuda.is_available()
    local = [rank % launch.local_world_size for rank in range(launch.world_size)]
    local[launch.rank] = launch.local_rank
    workers = [
        WorkerPlan(
            group="here",
            device=f"cuda:{local[rank]}" if cuda else "cpu",
            threads=threads(cores(), launch.local_world_size, launch.threads),
            share=share,
        )
        for rank, share in enumerate(shares)
    ]
    return Plan(
        strategy="allreduce_even" if launch.distributed else "alone",
        cluster="here",
        emulation="none",
        global_batch=global_batch,
        jobs=[JobPlan(name="here", workers=workers)],
    )


def _filled(plan: Plan, global_batch: int) -> Plan:
    """A probe's plan learns the global batch here: every device is measured up to twice its even share of it."""
    if plan.global_batch is not None:
        return plan
    share = max(1, min(global_batch, 2 * global_batch // len(plan.workers)))
    jobs = [
        job.model_copy(update={"workers": [worker.model_copy(update={"share": share}) for worker in job.workers]})
        for job in plan.jobs
    ]
    return plan.model_copy(update={"global_batch": global_batch, "jobs": jobs})
