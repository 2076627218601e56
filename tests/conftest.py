"""Makes ``harness`` importable from every test folder, keeps one crew of workers for all tests that need one, and
begins with the tests that take longest."""

import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from crew import Crew

hypothesis.settings.register_profile("unhurried", deadline=None)  # no test depends on how fast this machine is
hypothesis.settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def crew() -> Iterator[Crew]:
    made = Crew(4)
    yield made
    made.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where processes share the tests, a long one at the end would be waited for by all of them."""
    items.sort(key=lambda item: item.path.parent.name not in ("faults", "docs"))
