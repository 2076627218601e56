"""Door 2: update rules, what the server does with a push. One file and one line here for each.

A rule is written as its name, or with its options: ``delayed_nesterov:rate=0.7,momentum=0.9``.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from paceline import tables
from paceline.errors import ConfigError, nearest

if TYPE_CHECKING:
    from paceline.server.rules.base import Rule

TABLE = {
    "adam": "paceline.server.rules.adam:Adam",
    "adamw": "paceline.server.rules.adam:AdamW",
    "delayed_nesterov": "paceline.server.rules.delayed_nesterov:DelayedNesterov",
    "merge": "paceline.server.rules.merge:Merge",
    "momentum": "paceline.server.rules.sgd:Momentum",
    "sgd": "paceline.server.rules.sgd:Sgd",
}


def load(text: str) -> Rule:
    """The rule that ``text`` names, with its options.

    Raises:
        ConfigError: no such rule or option, or a value that cannot be.
    """
    name, _, told = text.partition(":")
    kind: type[Rule] = tables.load("rule", TABLE, name)
    known = [field.name for field in dataclasses.fields(kind)]
    options: dict[str, float] = {}
    for part in filter(None, told.split(",")):
        option, _, value = part.partition("=")
        if option not in known:
            raise ConfigError(f"unknown option '{option}' of rule {name}", remedy=nearest(option, known))
        options[option] = _number(part, value)
    return kind(**options)


def check(text: str, gradients: bool) -> None:
    """Raise ConfigError if there is no rule like that, or it needs ``gradients`` where pushes are something else."""
    if load(text).gradients and not gradients:
        raise ConfigError(
            f"rule {text} is for gradients", expected="one for what local steps have changed, as this strategy pushes",
            remedy="Use merge or delayed_nesterov, or --strategy server_async.",
        )  # fmt: skip


def _number(part: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"'{part}' of a rule", expected="NAME=NUMBER", remedy="Write it as in momentum=0.9.")
    return number
