"""One number format for all devices of a run: what each can do, and what they agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.errors import ConfigError
from paceline.schema.settings import Precision

AUTO: Precision = "auto"


@dataclass(frozen=True, slots=True)
class Ability:
    """What one device computes natively, at speed. ``name`` is for people: ``"Tesla V100 (cuda:1)"``."""

    name: str
    bfloat16: bool
    float16: bool


@dataclass(frozen=True, slots=True)
class Agreement:
    """The torch name of the format that all devices train in, and why."""

    dtype: str
    reason: str


def agree(requested: Precision, abilities: Sequence[Ability], scaler: bool) -> Agreement:
    """The format of the whole run, the same on every worker that asks with the same arguments.

    ``auto`` takes bfloat16 where every device has it, else float16 where every device has it and there is a scaler,
    else float32.

    Args:
        requested: as ``paceline.init`` was told.
        abilities: of all devices of the run.
        scaler: a GradScaler is at hand, without which small float16 gradients become 0.

    Raises:
        ConfigError: a device lacks the one that was asked for.
    """
    if requested == AUTO:
        return _best(abilities, scaler)
    lacking = _lacking(abilities, requested)
    if lacking:
        raise ConfigError(
            f"precision is '{requested}', which {_named(lacking)} cannot compute",
            remedy=f"Use precision='{AUTO}', which takes the best that all devices have.",
        )
    return Agreement(requested, f"{requested}, as asked for.")


def _best(abilities: Sequence[Ability], scaler: bool) -> Agreement:
    count, brain, half = len(abilities), _lacking(abilities, "bfloat16"), _lacking(abilities, "float16")
    if not brain:
        return Agreement("bfloat16", f"bfloat16: all devices ({count}) have it.")
    why = f"{_named(brain)}, {len(brain)} of {count} devices, cannot compute bfloat16"
    if not half and scaler:
        return Agreement("float16", f"float16 with the GradScaler: {why}.")
    if half:
        return Agreement("float32", f"float32: {why}, and {_named(half)} not float16.")
    return Agreement("float32", f"float32: {why}, and float16 needs a GradScaler given to run.setup.")


def _lacking(abilities: Sequence[Ability], dtype: str) -> list[Ability]:
    return [ability for ability in abilities if dtype != "float32" and not getattr(ability, dtype)]


def _named(abilities: Sequence[Ability]) -> str:
    return ", ".join(dict.fromkeys(ability.name for ability in abilities))
