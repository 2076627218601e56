"""Plans and what they would reach, without a device in sight."""

from __future__ import annotations

from paceline.planning import search
from paceline.schema.plan import Plan
from paceline.schema.profile import Profile
from paceline.schema.trace import Trace
from paceline.simulating import interpreter
from paceline.simulating.scenario import Scenario, Workload


def plan(profile: Profile, strategy: str) -> Plan:
    """Shares, local steps and jobs for ``strategy``, with the speed that simulating it predicts.

    Raises:
        ConfigError: unknown strategy, or one that these devices cannot run.
    """
    return search.plan(profile, strategy, price=lambda made: interpreter.rate(simulate(profile, made)))


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
