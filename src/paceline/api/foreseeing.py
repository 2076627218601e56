"""Plans and what they would reach, without a device in sight."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from paceline.errors import ConfigError
from paceline.planning import review, search
from paceline.schema.cluster import Cluster, GroupSpec
from paceline.schema.network import Network
from paceline.schema.plan import Plan
from paceline.schema.profile import DeviceProfile, Profile
from paceline.schema.record import write_atomically
from paceline.schema.trace import Trace
from paceline.simulating import interpreter
from paceline.simulating.scenario import Scenario, Workload

PRICED = 400  # updates of the first worker that a prediction simulates, if an epoch has more
PRICED_IN_ALL = 100_000  # updates of all workers together, if that is fewer


def plan(profile: Profile, strategy: str) -> Plan:
    """Shares, local steps and jobs for ``strategy``, with the speed that simulating it predicts and what it was chosen
    over; ``"auto"`` takes whichever strategy promises most.

    Raises:
        ConfigError: unknown strategy, or one that these devices cannot run.
    """
    return search.choose(profile, strategy, price=partial(_price, profile))


def check(profile: Profile, made: Plan) -> Plan:
    """A plan that a person changed, if it can run on the devices of ``profile``, with what it would reach beside what
    the planner's own would.

    Raises:
        ConfigError: it cannot.
    """
    price = partial(_price, profile)
    checked = search.priced(review.check(made, profile), price)
    return review.compared(checked, search.choose(profile, made.strategy, price))


def write_plan(path: Path, made: Plan) -> None:
    """The plan as YAML, to be read and changed."""
    write_atomically(path, review.document(made))


def known(cluster: Cluster) -> Profile:
    """The profile of a cluster whose file says how fast its devices are.

    Raises:
        ConfigError: it does not say so.
    """
    work = cluster.work
    if work is None:
        raise ConfigError(
            f"cluster '{cluster.name}' says nothing of its devices' times",
            remedy="Give it work and sample_seconds, or measure it: paceline probe.",
        )
    return Profile(
        cluster=cluster.name,
        emulation=cluster.emulation,
        global_batch=work.global_batch,
        model_bytes=work.model_bytes,
        epoch_samples=work.epoch_samples,
        network=cluster.network or Network(),
        devices=[
            device
            for group in cluster.groups
            for device in _devices(group, -(-work.global_batch // sum(one.size for one in cluster.groups)))
        ],
    )


def _devices(group: GroupSpec, batch: int) -> list[DeviceProfile]:
    each = group.sample_seconds or 1.0
    names = group.devices if isinstance(group.devices, list) else [f"{place}" for place in range(group.devices)]
    return [
        DeviceProfile(
            group=group.name,
            device=name,
            speed=group.speed,
            threads=1,
            micro_batch=group.micro_batch,
            batch=batch,
            samples_per_second=batch / (group.fixed_seconds + batch * each),
            fixed_seconds=group.fixed_seconds,
            sample_seconds=each,
        )
        for name in names
    ]


def simulate(
    profile: Profile,
    made: Plan,
    *,
    epochs: int = 1,
    updates: int | None = None,
    scenario: Scenario = Scenario(),  # noqa: B008  frozen
) -> Trace:
    """The plan's programs in virtual time, on the wires of ``profile``.

    Raises:
        ConfigError: ``scenario`` names a worker or a group that the plan does not have.
    """
    workload = Workload(profile.epoch_samples, epochs, updates, profile.model_bytes, profile.network)
    return interpreter.simulate(made, workload, scenario)


def _price(profile: Profile, made: Plan) -> Sequence[float]:
    """Samples/s of each worker of the plan, simulated."""
    count = len(made.workers)
    trace = simulate(profile, made, updates=max(10, min(PRICED, PRICED_IN_ALL // count)))
    samples = [sum(span.samples for span in worker.spans) for worker in trace.workers]
    return [interpreter.rate(trace) * own / max(1, sum(samples)) for own in samples]
