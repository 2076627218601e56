"""The main job on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from paceline.api.foreseeing import plan
from paceline.api.machines import cluster
from paceline.api.training import Watcher, probe, run, write_report
from paceline.launchers.folder import RunFolder
from paceline.launchers.recipe import Recipe
from paceline.observation.merge import merge
from paceline.schema.cluster import Emulation
from paceline.schema.summary import Summary

DEMO = ("alone", "allreduce_even", "allreduce", "hybrid")


def demo(out: Path, emulation: Emulation | None, say: Callable[[str], None], watcher: Watcher) -> list[Summary]:
    """The main job on this machine: mixed4, digits, each strategy in turn on one probe; one page for all.

    Raises:
        ConfigError: not in a clone of the repository, where clusters and recipes are.
        PacelineError: a run failed.
    """
    home = Path(__file__).resolve().parents[3]
    recipe = Recipe(home / "recipes" / "classify.py")
    machines = cluster(home / "clusters" / "mixed4.yaml", emulation)
    say(f"{machines.name}: measuring each of {len(machines.groups)} devices, all at once")
    profile = probe(machines, recipe, RunFolder(out), watcher=Watcher(show=lambda line: None))
    runs = []
    for strategy in DEMO:
        made = plan(profile, strategy)
        folder = RunFolder(out / strategy)
        say(f"{strategy}: {made.reason}")
        summary = run(made, recipe, folder, command="paceline demo", watcher=watcher)
        runs.append((summary, merge(folder.traces)))
    write_report(out / "report.html", runs, f"demo: {machines.name}")
    return [summary for summary, _ in runs]
