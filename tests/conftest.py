"""Makes ``harness`` importable from every test folder, and keeps one crew of workers for all tests that need one."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from crew import Crew


@pytest.fixture(scope="session")
def crew() -> Iterator[Crew]:
    made = Crew(4)
    yield made
    made.close()
