"""Plans and what they would reach, without a device in sight."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from paceline.api.training import write_report
from paceline.errors import ConfigError
from paceline.hardware import host
from paceline.launchers.folder import RunFolder
from paceline.observation import merge
from paceline.planning import review, search
from paceline.reporting.summary import summarise
from paceline.schema.cluster import Cluster, GroupSpec
from paceline.schema.network import Network
from paceline.schema.plan import Plan
from paceline.schema.profile import DeviceProfile, Profile
from paceline.schema.record import write_atomically
from paceline.schema.summary import Event, Summary
from paceline.schema.trace import Trace
from paceline.simulating import interpreter
from paceline.simulating.scenario import Scenario, Workload

PRICED = 400  # updates of the first worker that a prediction simulates of a long epoch
PRICED_IN_ALL = 100_000  # updates of all workers together, if that is fewer
LUCKLESS = 50  # updates that short epochs are repeated for: the spread's draws are exact in their mean over so many


def known(machines: Cluster) -> Profile:
    """The profile of a cluster whose times its file gives, as if it had been measured; nothing of it need be here.

    A device's solo speed is that on its even part of the global batch.

    Raises:
        ConfigError: the file gives no times.
    """
    if machines.work is None:
        raise ConfigError(
            f"cluster '{machines.name}' does not say how fast its devices are",
            expected="sample_seconds for each group, and work",
            remedy="Add them, or measure: paceline probe --cluster FILE RECIPE.",
        )
    batch = max(1, machines.work.global_batch // sum(group.size for group in machines.groups))
    return Profile(
        cluster=machines.name,
        emulation=machines.emulation,
        global_batch=machines.work.global_batch,
        model_bytes=machines.work.model_bytes,
        epoch_samples=machines.work.epoch_samples,
        network=machines.network or Network(),
        devices=[device for group in machines.groups for device in _devices(group, batch)],
    )


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
    checked = review.check(made, profile)
    own = search.choose(profile, made.strategy, price)
    return review.compared(search.priced(review.kept(checked, own), price), own)


def write_plan(path: Path, made: Plan) -> None:
    """The plan as YAML, to be read and changed.

    Raises:
        ConfigError: there is something else at ``path``.
    """
    if path.is_file():
        try:
            Plan.read(path)
        except ConfigError:
            raise ConfigError(f"{path} exists and is no plan", remedy="Choose another --out.") from None
    write_atomically(path, review.document(made))


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


def foreseen(
    trace: Trace,
    made: Plan,
    folder: RunFolder | None,
    *,
    command: str,
    scenario: Scenario = Scenario(),  # noqa: B008
) -> Summary:
    """A simulated run in figures; with a ``folder``, what a run would leave there: traces, summary and page.

    Raises:
        ConfigError: the folder holds something else.
    """
    summary = summarise(trace, made, command, _events(scenario, trace), host.versions())
    if folder is not None:
        folder.claim()
        made.write(folder.plan)
        merge.write(trace, folder.traces)
        summary.write(folder.summary)
        write_report(folder.report, [(summary, trace)], f"{made.strategy} on {made.cluster}")
    return summary


def _devices(group: GroupSpec, batch: int) -> list[DeviceProfile]:
    names = [str(place) for place in range(group.devices)] if isinstance(group.devices, int) else group.devices
    sample_seconds = group.sample_seconds or 0.0  # a cluster with work has it in every group
    pieces = -(-batch // (group.micro_batch or batch))
    seconds = pieces * group.fixed_seconds + batch * sample_seconds
    like = DeviceProfile(
        group=group.name,
        device="",
        speed=group.speed,
        threads=1,
        micro_batch=group.micro_batch,
        batch=batch,
        samples_per_second=batch / seconds,
        fixed_seconds=group.fixed_seconds,
        sample_seconds=sample_seconds,
    )
    return [like.model_copy(update={"device": name}) for name in names]


def _events(scenario: Scenario, trace: Trace) -> list[Event]:
    """The faults that came while the run went on."""
    end = max((span.stop for worker in trace.workers for span in worker.spans), default=0.0)
    faults = [
        Event(at=slow.at, kind="fault", what=f"rank {slow.rank} computes {slow.factor:g} times as long from here on")
        for slow in scenario.slow
    ]
    seen = [fault for fault in faults if fault.at <= end]
    dead = {worker.group for worker in trace.workers if not worker.complete}
    died = [kill for kill in scenario.kill if kill.at <= end or kill.group in dead]
    return seen + [Event(at=kill.at, kind="lost", what=f"group '{kill.group}' died") for kill in died]


def _price(profile: Profile, made: Plan) -> Sequence[float]:
    """Samples/s of each worker of the plan, simulated."""
    updates = max(10, min(PRICED, PRICED_IN_ALL // len(made.workers)))
    of_an_epoch = -(-profile.epoch_samples // profile.global_batch)
    epochs = -(-min(updates, LUCKLESS) // of_an_epoch)
    trace = simulate(profile, made, epochs=epochs, updates=updates)
    samples = [sum(span.samples for span in worker.spans) for worker in trace.workers]
    each = interpreter.rate(trace) / max(1, sum(samples))
    return [each * own for own in samples]
