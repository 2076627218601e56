"""The size budgets: what is just within them passes, what is planted just over them is named with its line."""

import subprocess
import sys
from pathlib import Path

import pytest

SIZE = Path(__file__).parents[2] / "tools" / "size.py"


def function(lines: int, docstring: int = 0, arguments: str = "") -> str:
    """A function of so many lines without its docstring of so many."""
    said = '    """Says\n' + "    and says\n" * (docstring - 2) + '    so."""\n' if docstring else ""
    return f"def f({arguments}):\n{said}" + "    x = 1\n" * (lines - 1)


def names(count: int) -> str:
    return ", ".join(f"a{i}" for i in range(count))


def checked(folder: Path, **files: str) -> tuple[int, list[str]]:
    """Exit code and printed lines for a folder of these modules."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    done = subprocess.run([sys.executable, SIZE, folder], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1\n" * 300,
        function(40),
        function(40, docstring=30),
        function(2, arguments=names(7)),
        "class A:\n    def f(self, a, b, c, d, e, *, g, h): ...\n",
        "class A:\n    @classmethod\n    def f(cls, a, b, c, d, e, g, h): ...\n",
    ],
    ids=["empty", "file", "function", "docstring", "arguments", "method", "classmethod"],
)
def test_what_fills_its_budget_passes(tmp_path, text):
    code, lines = checked(tmp_path, a=text)
    assert (code, lines) == (0, [f"sizes of {tmp_path.name}: all within budget"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n" * 301, "1 lines of the file is 301, budget 300"),
        ("import os\n\n" + function(41, docstring=5), "3 lines of f is 41, budget 40"),
        ("async " + function(41), "1 lines of f is 41, budget 40"),
        ("if True:\n    def g():\n" + "        x = 1\n" * 40, "2 lines of g is 41, budget 40"),
        (function(2, arguments=names(8)), "1 arguments of f is 8, budget 7"),
        (function(2, arguments=names(4) + ", /, b0, *, b1, b2, b3"), "1 arguments of f is 8, budget 7"),
        ("class A:\n    def f(self, a, b, c, d, e, g, h, i): ...\n", "2 arguments of f is 8, budget 7"),
        ("class A:\n    @staticmethod\n    def f(a, b, c, d, e, g, h, i): ...\n", "3 arguments of f is 8, budget 7"),
    ],
    ids=["file", "function", "async", "nested", "arguments", "kinds", "method", "staticmethod"],
)
def test_what_is_one_over_its_budget_is_named_with_its_line(tmp_path, text, said):
    assert checked(tmp_path, a=text) == (1, [f"{tmp_path / 'a.py'}:{said}"])


def test_a_folder_of_thirteen_files_is_one_too_many(tmp_path):
    twelve = {f"m{i}": "" for i in range(12)}
    assert checked(tmp_path, **twelve)[0] == 0
    assert checked(tmp_path, one_more="") == (1, [f"{tmp_path}:1 files of the folder is 13, budget 12"])


def test_files_in_deeper_folders_are_seen_too(tmp_path):
    (tmp_path / "deep").mkdir()
    code, lines = checked(tmp_path / "deep", a=function(41))
    assert code == 1
    assert checked(tmp_path) == (code, lines)
