"""From a measured device to a worker of a plan."""

from __future__ import annotations

from paceline.cost import memory
from paceline.schema.plan import WorkerPlan
from paceline.schema.profile import DeviceProfile


def worker(device: DeviceProfile) -> WorkerPlan:
    """The worker on this device, with no share yet."""
    return WorkerPlan(
        group=device.group,
        device=device.device,
        speed=device.speed,
        pace=device.pace,
        threads=device.threads,
        share=0,
        micro_batch=most(device),
        solo_samples_per_second=device.samples_per_second,
        fixed_seconds=device.fixed_seconds,
        sample_seconds=device.sample_seconds,
        table=device.table,
        loading_seconds=device.loading_seconds,
        handling_seconds=device.handling_seconds,
        spread=device.spread,
        uuid=device.uuid,
        name=device.name,
    )


def most(device: DeviceProfile) -> int | None:
    """Samples that a device takes at once, by its memory where that was measured and by the cluster file."""
    limits = [device.micro_batch] if device.micro_batch is not None else []
    if device.memory_bytes is not None and device.fixed_bytes is not None and device.sample_bytes is not None:
        limits.append(memory.cap(device.memory_bytes, device.fixed_bytes, device.sample_bytes))
    return min(limits, default=None)
