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

from paceline.schema.cluster import Cluster, GroupSpec
from paceline.schema.summary import DeviceSummary, EpochSummary, Event, Finding, Staleness, Summary

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


def test_the_five_lines_run_in_plain_python_and_under_a_bare_torchrun(tmp_path: Path) -> None:
    (loop,) = [text for name, text in snippets("python") if name == "README.md"]
    script = tmp_path / "train.py"
    script.write_text(loop + "print(f'samples {run.samples_seen}\\n', end='')\n")  # one write: two workers share a pipe
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    for launch in ([], torchrun):
        assert "samples 1536" in _run([*launch, str(script)], tmp_path)


def test_the_page_on_the_loop_runs(tmp_path: Path) -> None:
    pieces = [text for name, text in snippets("python") if name == "loop.md"]
    seen = [_run(["-c", text + "print('samples', run.samples_seen)\n"], tmp_path) for text in pieces]
    assert [text.split("samples ")[-1] for text in seen] == ["768\n", "256\n", "100\n"]


def _run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=folder, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_on_checkpoints_works_from_top_to_bottom(tmp_path: Path) -> None:
    page = (HOME / "docs" / "checkpoints.md").read_text()
    for language, text in re.findall(r"```(python|console)\n(.*?)```", page, re.DOTALL):
        lines = [line.partition("#")[0] for line in text.splitlines() if not line.startswith("$ paceline run")]
        programs = [["-c", text]] if language == "python" else [["-m", *shlex.split(line[2:])] for line in lines]
        for program in programs:
            _run(program, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors", "trained"]


def test_the_page_on_clusters_names_every_key_and_its_script_runs(tmp_path: Path) -> None:
    page = (HOME / "docs" / "cluster.md").read_text()
    assert [key for record in (Cluster, GroupSpec) for key in record.model_fields if f"| `{key}` |" not in page] == []
    (text,) = [text for name, text in snippets("python") if name == "cluster.md"]
    assert "here a tracker begins" in _run(["-c", text], tmp_path)


def test_the_page_on_plans_works_from_top_to_bottom(tmp_path: Path) -> None:
    (cluster,) = [text for name, text in snippets("yaml") if name == "plan.md"]
    (lines,) = [text for name, text in snippets("console") if name == "plan.md"]
    (tmp_path / "cluster.yaml").write_text(cluster)
    said = [_run(["-m", *shlex.split(line[2:])], tmp_path) for line in lines.splitlines()]
    assert "Instead of allreduce" in said[0]
    assert "hybrid promises most" in said[1]
    assert "As the planner has it" in said[3]


def test_the_page_on_virtual_time_trains_on_its_cluster(tmp_path: Path) -> None:
    (cluster,) = [text for name, text in snippets("yaml") if name == "virtual.md"]
    (tmp_path / "lab.yaml").write_text(cluster)
    line, _ = [line for line in commands() if "--train" in line]
    arguments = shlex.split(line.replace("recipes/", f"{HOME}/recipes/").replace("--epochs 5", "--epochs 1"))
    said = _run(["-m", *arguments, "--global-batch", "128"], tmp_path)
    assert "epoch 1/1  test loss" in said
    assert "simulated in virtual time from times given in the cluster file; classify.py was trained" in said


@pytest.mark.parametrize(("page", "text"), snippets("yaml"))
def test_every_cluster_file_parses(page: str, text: str) -> None:
    Cluster.parse(yaml.safe_load(text), page)


@pytest.mark.parametrize("line", commands())
def test_every_command_exists(line: str) -> None:
    program, verb, *rest = shlex.split(line)
    if program == "make":
        done = subprocess.run(["make", "-n", verb], cwd=HOME, capture_output=True, text=True)
    else:
        own = rest[: rest.index("--")] if "--" in rest else rest
        flags = [word for word in own if word.startswith("--")]
        done = subprocess.run([sys.executable, "-m", program, verb, "--help"], capture_output=True, text=True)
        assert [flag for flag in flags if flag not in done.stdout] == []
    assert done.returncode == 0, done.stderr


def test_every_file_that_is_linked_exists() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_summary_page_names_every_field() -> None:
    page = (HOME / "docs" / "summary.md").read_text()
    for record in (Summary, DeviceSummary, EpochSummary, Event, Finding, Staleness):
        assert [name for name in record.model_fields if f"`{name}`" not in page] == []
