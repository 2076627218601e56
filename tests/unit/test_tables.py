"""Tables: every entry leads to a class, an unknown name is answered with the nearest, and listing imports no torch."""

import inspect
import subprocess
import sys

import pytest

from paceline import launchers, strategies, tables, transports
from paceline.errors import ConfigError
from paceline.server import rules

DOORS = {"strategy": strategies, "rule": rules, "transport": transports, "launcher": launchers}
ENTRIES = [(kind, name) for kind, door in DOORS.items() for name in door.TABLE]


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_every_entry_loads_a_class_of_its_own_file_that_can_be_used(kind, name):
    found = tables.load(kind, DOORS[kind].TABLE, name)
    assert inspect.isclass(found)
    assert not inspect.isabstract(found)
    assert f"{found.__module__}:{found.__name__}" == DOORS[kind].TABLE[name]


def test_an_unknown_name_is_refused_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match=r"unknown strategy 'hybird'\. Did you mean 'hybrid'\?"):
        tables.load("strategy", strategies.TABLE, "hybird")


@pytest.mark.parametrize("door", [door.__name__ for door in DOORS.values()])
def test_listing_a_table_works_where_torch_cannot_be_imported(door):
    listing = f"import sys; sys.modules['torch'] = None; import {door} as door; print(*door.TABLE)"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()
