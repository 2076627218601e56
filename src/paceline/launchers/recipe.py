"""What a person wants trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from paceline.errors import ConfigError


@dataclass(frozen=True)
class Recipe:
    """The user's script and its arguments."""

    script: Path
    arguments: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises ConfigError if there is no such file, or it is not Python."""
        if not self.script.is_file():
            raise ConfigError(f"there is no recipe {self.script}", remedy="Check the path; see recipes/ for examples.")
        try:
            compile(self.script.read_bytes(), self.script, "exec")
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            where = f"{self.script}:{line}" if line else str(self.script)
            raise ConfigError(f"the recipe is not Python: {error.args[0]}", where=where, remedy="Mend it.") from error
