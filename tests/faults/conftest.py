"""A run that is ended whatever a test does to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import Command


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def begin(strategy: str, *arguments: str, **more: Any) -> Command:
        started.append(Command(tmp_path, strategy, *arguments, **more))
        return started[-1]

    yield begin
    for command in started:
        if command.process.poll() is None:
            command.process.kill()
            command.process.communicate()
