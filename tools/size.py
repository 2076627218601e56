"""The size budgets of the source: what is over one is to be split.

python tools/size.py [FOLDER]      exits with 1 if anything is over its budget
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 300
FUNCTION_LINES = 40  # without its docstring
ARGUMENTS = 7  # self and cls not counted
FOLDER_FILES = 12

Function = ast.FunctionDef | ast.AsyncFunctionDef


def offenders(root: Path) -> Iterator[str]:
    """One ``path:line what is N, budget M`` for each thing under ``root`` that is over its budget."""
    for folder in sorted({path.parent for path in root.rglob("*.py")}):
        files = len(list(folder.glob("*.py")))
        if files > FOLDER_FILES:
            yield f"{folder}:1 files of the folder is {files}, budget {FOLDER_FILES}"
    for path in sorted(root.rglob("*.py")):
        text = path.read_text()
        lines = len(text.splitlines())
        if lines > FILE_LINES:
            yield f"{path}:1 lines of the file is {lines}, budget {FILE_LINES}"
        tree = ast.parse(text, str(path))
        methods = {id(item) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for item in node.body}
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield from _function(path, node, method=id(node) in methods)


def _function(path: Path, node: Function, method: bool) -> Iterator[str]:
    lines = _lines(node)
    if lines > FUNCTION_LINES:
        yield f"{path}:{node.lineno} lines of {node.name} is {lines}, budget {FUNCTION_LINES}"
    count = _arguments(node, method)
    verb = path.parent.name == "verbs" and node.name == "command"  # its arguments are a verb's flags
    if count > ARGUMENTS and not verb:
        yield f"{path}:{node.lineno} arguments of {node.name} is {count}, budget {ARGUMENTS}"


def _lines(node: Function) -> int:
    """Lines from ``def`` to the end, without the docstring's."""
    docstring = node.body[0] if ast.get_docstring(node, clean=False) is not None else None
    return _span(node) - (_span(docstring) if docstring else 0)


def _span(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _arguments(node: Function, method: bool) -> int:
    given = node.args
    count = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
    static = any(isinstance(name, ast.Name) and name.id == "staticmethod" for name in node.decorator_list)
    return count - 1 if method and not static else count


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "src"
    found = list(offenders(root))
    print("\n".join(found) if found else f"sizes of {root.name}: all within budget")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
