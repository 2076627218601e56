"""The architecture is a contract that can break: the tree keeps it, and an import planted the wrong way is caught."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
WITHOUT_TORCH = [
    "paceline.planning.search",
    "paceline.simulating.interpreter",
    "paceline.reporting.summary",
    "paceline.strategies.base",
    "paceline.launchers",
]


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path):
    """The contracts and the source, to plant faults in."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return tmp_path


def test_the_tree_keeps_its_contracts():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("importer", "imported", "contract"),
    [
        ("simulating", "paceline.planning", "Imports go down only"),
        ("schema", "paceline.emulation", "Imports go down only"),
        ("reporting", "torch", "work without torch"),
        ("strategies", "paceline.transports", "No strategy opens a wire"),
    ],
    ids=["stage imports stage", "import goes up", "torch in the report", "strategy opens a wire"],
)
def test_a_planted_fault_is_caught(copy, importer, imported, contract):
    (copy / "src" / "paceline" / importer / "planted.py").write_text(f"import {imported}\n")
    done = lint(copy)
    assert done.returncode != 0
    broken = done.stdout.partition("Broken contracts")[2]
    assert contract in broken
    assert f"paceline.{importer}.planted -> {imported}" in broken


def test_a_folder_that_no_layer_names_is_caught(copy):
    (copy / "src" / "paceline" / "unlisted.py").write_text("")
    done = lint(copy)
    assert done.returncode != 0
    assert "unlisted" in done.stdout + done.stderr


@pytest.mark.parametrize("module", WITHOUT_TORCH)
def test_a_module_that_needs_no_torch_imports_where_torch_cannot_be(module):
    program = f"import sys; sys.modules['torch'] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
