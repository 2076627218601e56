"""Plans and what they would reach, without a device in sight."""

from __future__ import annotations

from paceline.planning import search
from paceline.schema.plan import Plan
from paceline.schema.profile import Profile
from paceline.schema.trace import Trace
from paceline.simulating import interpreter


def plan(profile: Profile, strategy: str) -> Plan:
    """Shares, local steps and jobs for ``strategy``, with the speed that simulating it predicts.

    Raises:
        ConfigError: unknown strategy, or one that these devices cannot run.
    """
    return search.plan(profile, strategy, price=lambda made: interpreter.rate(simulate(profile, made)))


def simulate(profile: Profile, made: Plan, *, epochs: int = 1, updates: int | None = None) -> Trace:
    """The plan's programs in virtual time."""
    return interpreter.simulate(made, profile.epoch_samples, epochs, model_bytes=profile.model_bytes, updates=updates)
