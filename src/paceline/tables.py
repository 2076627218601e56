"""Tables of names: how strategies, rules, transports and launchers are found without importing them all.

A table maps a name to ``"package.module:attribute"``. Listing it imports nothing, so it is safe without torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from paceline.errors import ConfigError, nearest


def load(kind: str, table: Mapping[str, str], name: str) -> Any:
    """Import and return what ``name`` stands for in ``table``.

    Args:
        kind: what the table holds, for the error sentence ("strategy", "rule", ...).
        table: name -> ``"module:attribute"``.
        name: the entry wanted.

    Raises:
        ConfigError: the table has no such name; the nearest one is offered.
    """
    check(kind, table, name)
    module, _, attribute = table[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def check(kind: str, table: Mapping[str, str], name: str) -> None:
    """Raise ConfigError, with the nearest name, if ``table`` has no ``name``; imports nothing."""
    if name not in table:
        raise ConfigError(f"unknown {kind} '{name}'", remedy=nearest(name, table))
