"""What a worker says of itself before the first collective, and what may not differ between two of them."""

from __future__ import annotations

from typing import Any

from paceline.schema.record import Record
from paceline.schema.settings import Settings


class Hello(Record):
    """One worker as it comes to ``run.setup``.

    ``parameters`` holds ``[name, shape, dtype or frozen dtype]`` of each parameter and buffer of each model, in order.
    ``ability``: the device's name, and whether it computes bfloat16 and float16 at speed. ``scalers`` are the states of
    loss scalers; the first worker's hold for all.
    """

    rank: int
    host: str
    versions: dict[str, str]
    settings: Settings
    plan: str
    parameters: list[tuple[str, list[int], str]]
    optimizers: list[str]
    scalers: list[dict[str, float | int]]
    ability: tuple[str, bool, bool] = ("", True, True)

    def __str__(self) -> str:
        return f"rank {self.rank} on {self.host}"

    def difference(self, other: Hello) -> str | None:
        """The first thing that differs and may not, as ``"<other> has ..., <self> has ..."``; None if they agree."""
        for name, version in self.versions.items():
            if version != other.versions.get(name):
                return self._both(other, f"{name} {{}}", version, other.versions.get(name))
        for key, value in self.settings:
            if value != getattr(other.settings, key):
                return self._both(other, f"{key}={{!r}} in paceline.init", value, getattr(other.settings, key))
        if self.plan != other.plan:
            return self._both(other, "a plan with hash {}", self.plan, other.plan)
        if self.optimizers != other.optimizers:
            return self._both(other, "the optimizers {}", self.optimizers, other.optimizers)
        for mine, others in zip(self.parameters, other.parameters, strict=False):
            if mine != others:
                return self._both(other, "parameter {}", _shown(mine), _shown(others))
        if len(self.scalers) != len(other.scalers):
            return self._both(other, "{} loss scalers", len(self.scalers), len(other.scalers))
        if len(self.parameters) != len(other.parameters):
            more, fewer = (self, other) if len(self.parameters) > len(other.parameters) else (other, self)
            return f"{more} has parameter {_shown(more.parameters[len(fewer.parameters)])}, {fewer} has not"
        return None

    def _both(self, other: Hello, what: str, mine: Any, others: Any) -> str:
        return f"{other} has {what.format(others)}, {self} has {what.format(mine)}"


def _shown(parameter: tuple[str, list[int], str]) -> str:
    name, shape, dtype = parameter
    return f"'{name}' of shape {shape} and {dtype}"
