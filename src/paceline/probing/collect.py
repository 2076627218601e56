"""Runs the recipe on all devices at once, nobody talking, and reads a profile off the trace."""

from __future__ import annotations

from typing import Any

from paceline.errors import WorkerError
from paceline.launchers.supervisor import Supervisor
from paceline.observation.merge import merge
from paceline.observation.solo import Timing, timing
from paceline.probing.fit import line
from paceline.probing.network import network, pairs
from paceline.schema.plan import Plan, WorkerPlan
from paceline.schema.profile import DeviceProfile, Profile
from paceline.schema.trace import Trace, WorkerTrace

STREAM_UPDATES = 1000  # of an epoch whose length nobody knows


def probe(plan: Plan, supervisor: Supervisor) -> Profile:
    """Run the solo ``plan`` under ``supervisor`` and measure each device.

    Raises:
        WorkerError: the recipe failed, or trained too little to be measured.
    """
    supervisor.run()
    trace = merge(supervisor.folder.traces)
    data, setup = _first(trace, "data"), _first(trace, "setup")
    even = max(1, data["global_batch"] // len(plan.workers))
    devices = [
        device(worker, timing(told), told, even) for worker, told in zip(plan.workers, trace.workers, strict=True)
    ]
    return Profile(
        cluster=plan.cluster,
        emulation=plan.emulation,
        global_batch=data["global_batch"],
        model_bytes=setup["bytes"],
        epoch_samples=data["size"] or STREAM_UPDATES * data["global_batch"],
        learning_rate=next((m.values["line"] for w in trace.workers for m in w.marks if m.kind == "rates"), ""),
        rates=next((m.values["points"] for w in trace.workers for m in w.marks if m.kind == "schedule"), ()),
        network=network(trace, plan.workers),
        pairs=pairs(trace),
        devices=devices,
    )


def device(worker: WorkerPlan, timing: Timing, trace: WorkerTrace, even: int) -> DeviceProfile:
    """What was measured in one worker, of time and, where it told of it, of memory. ``even``: samples of an even share,
    whose speed is the device's solo speed.

    Raises:
        WorkerError: it trained on another card than the plan names.
    """
    told = next((mark.values for mark in trace.marks if mark.kind == "memory"), {})
    if worker.uuid is not None and told.get("uuid", worker.uuid) != worker.uuid:
        raise WorkerError(
            f"{worker.device} is {told['uuid']} there", expected=f"{worker.uuid}, as in the plan",
            remedy="Do not set CUDA_VISIBLE_DEVICES or CUDA_DEVICE_ORDER in the recipe.",
            where=f"rank {trace.rank} ({trace.group}, {trace.name}) on {trace.host}",
        )  # fmt: skip
    samples = min(timing.points[-1].samples, worker.micro_batch or timing.points[-1].samples)
    usual = min(timing.points, key=lambda point: abs(point.samples - even))
    fixed, per_sample = line(timing.points)
    added = (told["peak_bytes"] - told["fixed_bytes"]) / samples if told else 0.0
    return DeviceProfile(
        group=worker.group,
        device=worker.device,
        speed=worker.speed,
        pace=worker.pace,
        threads=worker.threads,
        micro_batch=worker.micro_batch,
        batch=usual.samples,
        samples_per_second=usual.samples / (usual.seconds + usual.samples * timing.loading_seconds),
        fixed_seconds=fixed,
        sample_seconds=per_sample,
        table=timing.points,
        loading_seconds=timing.loading_seconds,
        handling_seconds=next((mark.values["handling"] for mark in trace.marks if mark.kind == "wires"), 0.0),
        spread=timing.spread,
        uuid=worker.uuid,
        name=worker.name,
        memory_bytes=told.get("memory_bytes"),
        fixed_bytes=told.get("fixed_bytes"),
        sample_bytes=added if added > 0 else None,
    )


def _first(trace: Trace, kind: str) -> dict[str, Any]:
    for worker in trace.workers:
        for mark in worker.marks:
            if mark.kind == kind:
                return mark.values
    raise WorkerError(
        "the recipe ended without training", expected="a loop over run.loader", remedy="See README for the five lines."
    )
