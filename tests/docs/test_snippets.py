"""Every snippet of the documentation runs: Python in plain python and under torchrun, YAML through the schema,
commands through the command line (those that take long: their flags only)."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from paceline.schema.cluster import Cluster
from paceline.schema.summary import DeviceSummary, EpochSummary, Event, Staleness, Summary

HOME = Path(__file__).resolve().parents[2]
PAGES = [HOME / "README.md", HOME / "ARCHITECTURE.md", HOME / "CONTRIBUTING.md", *sorted((HOME / "docs").glob("*.md"))]


def snippets(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for text in re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL):
            found.append((page.name, text))
    return found


def commands() -> list[str]:
    lines = [line[2:] for _, text in snippets("console") for line in text.splitlines() if line.startswith("$ ")]
    return [line.split("   #")[0].strip() for line in lines]


@pytest.mark.parametrize(("page", "samples"), [("README.md", 1536), ("loop.md", 768)])
def test_the_loop_runs_in_plain_python_and_under_a_bare_torchrun(tmp_path: Path, page: str, samples: int) -> None:
    (loop,) = [text for name, text in snippets("python") if name == page]
    script = tmp_path / "train.py"
    script.write_text(loop + "print('samples', run.samples_seen)\n")
    for launch in (
        [sys.executable],
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"],
    ):
        done = subprocess.run([*launch, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=100)
        assert done.returncode == 0, done.stderr
        assert f"samples {samples}" in done.stdout


def test_the_page_on_checkpoints_works_from_top_to_bottom(tmp_path: Path) -> None:
    page = (HOME / "docs" / "checkpoints.md").read_text()
    for language, text in re.findall(r"```(python|console)\n(.*?)```", page, re.DOTALL):
        lines = [line.partition("#")[0] for line in text.splitlines()]
        programs = [["-c", text]] if language == "python" else [["-m", *shlex.split(line[2:])] for line in lines]
        for program in programs:
            done = subprocess.run([sys.executable, *program], capture_output=True, text=True, cwd=tmp_path, timeout=100)
            assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors", "trained"]


@pytest.mark.parametrize(("page", "text"), snippets("yaml"))
def test_every_cluster_file_parses(page: str, text: str) -> None:
    Cluster.parse(yaml.safe_load(text), page)


@pytest.mark.parametrize("line", commands())
def test_every_command_exists(line: str) -> None:
    program, verb, *rest = shlex.split(line)
    if program == "make":
        done = subprocess.run(["make", "-n", verb], cwd=HOME, capture_output=True, text=True)
    else:
        flags = [word for word in rest if word.startswith("--") and word != "--"]
        done = subprocess.run([sys.executable, "-m", program, verb, "--help"], capture_output=True, text=True)
        assert [flag for flag in flags if flag not in done.stdout] == []
    assert done.returncode == 0, done.stderr


def test_every_file_that_is_linked_exists() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_summary_page_names_every_field() -> None:
    page = (HOME / "docs" / "summary.md").read_text()
    for record in (Summary, DeviceSummary, EpochSummary, Event, Staleness):
        assert [name for name in record.model_fields if f"`{name}`" not in page] == []
