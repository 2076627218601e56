"""Runs the recipe on all devices at once, nobody talking, and reads a profile off the trace."""

from __future__ import annotations

from typing import Any

from paceline.errors import WorkerError
from paceline.launchers.supervisor import Supervisor
from paceline.observation.merge import merge
from paceline.observation.metrics import solo_timings
from paceline.schema.plan import Plan
from paceline.schema.profile import DeviceProfile, Profile
from paceline.schema.trace import Trace


def probe(plan: Plan, supervisor: Supervisor) -> Profile:
    """Run the solo ``plan`` under ``supervisor`` and measure each device.

    Raises:
        WorkerError: the recipe failed, or trained too little to be measured.
    """
    supervisor.run()
    trace = merge(supervisor.folder.traces)
    data, setup = _first(trace, "data"), _first(trace, "setup")
    devices = [
        DeviceProfile(
            group=worker.group,
            device=worker.device,
            speed=worker.speed,
            threads=worker.threads,
            micro_batch=worker.micro_batch,
            batch=timing.batch,
            samples_per_second=timing.samples_per_second,
            fixed_seconds=timing.fixed_seconds,
            sample_seconds=timing.sample_seconds,
        )
        for worker, timing in zip(plan.workers, solo_timings(trace), strict=True)
    ]
    return Profile(
        cluster=plan.cluster,
        emulation=plan.emulation,
        global_batch=data["global_batch"],
        model_bytes=setup["bytes"],
        epoch_samples=data["size"],
        devices=devices,
    )


def _first(trace: Trace, kind: str) -> dict[str, Any]:
    for worker in trace.workers:
        for mark in worker.marks:
            if mark.kind == kind:
                return mark.values
    raise WorkerError(
        "the recipe ended without training", expected="a loop over run.loader", remedy="See README for the five lines."
    )
