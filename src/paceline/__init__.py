"""Train one model on devices of different speed at close to the sum of their speeds, without losing accuracy.

``paceline.init`` is all a training script needs; see ``Run`` for what it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.reduction.normalisation import to_group_norm as to_group_norm
    from paceline.running.run import Run as Run
    from paceline.running.run import init as init

__version__ = "0.1.0"
__all__ = ["Run", "__version__", "init", "to_group_norm"]

_PLACES = {
    "init": "paceline.running.run",
    "Run": "paceline.running.run",
    "to_group_norm": "paceline.reduction.normalisation",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import torch only when a run is asked for, so that planning works without it."""
    if name not in _PLACES:
        raise AttributeError(f"module 'paceline' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_PLACES[name]), name)
