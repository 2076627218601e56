"""Profiles that nobody measured, for tests of what is made of them."""

from __future__ import annotations

import math

from paceline.cost.memory import HEADROOM
from paceline.schema.network import Link, Network
from paceline.schema.profile import DeviceProfile, Profile

MIXED = {"a": [400.0], "b": [200.0], "c": [100.0, 100.0]}


def profile(speeds: dict[str, list[float]], batch: int, *, epoch: int = 100, size: int = 400, **keys) -> Profile:
    """Groups of devices with these samples/s; ``keys`` are of every device, ``wire`` of the network."""
    wire = keys.pop("wire", None)
    devices = [
        DeviceProfile(
            group=group, device=f"cuda:{i}", speed=None, threads=2, batch=8, samples_per_second=speed,
            **{"micro_batch": 16, **keys},
        )
        for group, members in speeds.items()
        for i, speed in enumerate(members)
    ]  # fmt: skip
    network = Network() if wire is None else Network(default=Link(bytes_per_second=wire[0], latency=wire[1]))
    return Profile(
        cluster="lab", emulation="none", global_batch=batch, model_bytes=size, epoch_samples=epoch, devices=devices,
        network=network,
    )  # fmt: skip


def memory_profile(batch: int, fixed_seconds: float = 0.0, spare: float = HEADROOM, **keys) -> Profile:
    """C013: cards of 32 and 24 GB, equally fast; 4 GB and 1 GB a sample. They have a part ``spare`` more than that."""
    devices = [
        DeviceProfile(
            group="a", device=f"cuda:{index}", speed=None, threads=1, batch=16, samples_per_second=100.0,
            fixed_seconds=fixed_seconds, sample_seconds=0.01, uuid=f"GPU-{gigabytes}", name=f"{gigabytes} GB",
            memory_bytes=math.ceil(gigabytes * 10**9 / (1 - spare)), fixed_bytes=4 * 10**9, sample_bytes=1e9,
            **{"micro_batch": None, **keys},
        )
        for index, gigabytes in enumerate((32, 24))
    ]  # fmt: skip
    return Profile(
        cluster="lab", emulation="none", global_batch=batch, model_bytes=400, epoch_samples=100, devices=devices
    )
