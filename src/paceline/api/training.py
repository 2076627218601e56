"""Real runs: probe, run, report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from paceline.api.checkpoints import find
from paceline.api.machines import PROBE_SECONDS, probe_plan
from paceline.errors import ConfigError
from paceline.hardware import checks, host
from paceline.hardware.facts import CPU
from paceline.launchers import bootstrap
from paceline.launchers.fitting import attempt_until_it_fits
from paceline.launchers.folder import RunFolder
from paceline.launchers.recipe import Recipe
from paceline.launchers.supervisor import Supervisor
from paceline.observation.merge import merge
from paceline.planning import places
from paceline.reporting import html
from paceline.reporting.summary import summarise
from paceline.schema.cluster import Cluster
from paceline.schema.plan import Plan
from paceline.schema.profile import Profile
from paceline.schema.record import write_atomically
from paceline.schema.summary import Event, Summary
from paceline.schema.trace import Trace
from paceline.strategies.base import get


@dataclass(frozen=True)
class Watcher:
    """Who sees a run go by: ``show`` gets lines, ``tick`` the progress file ten times a second."""

    show: Callable[[str], None] = print
    tick: Callable[[Path], None] = field(default=lambda path: None)


def probe(
    machines: Cluster,
    recipe: Recipe,
    folder: RunFolder,
    *,
    seconds: float = PROBE_SECONDS,
    resume: Path | None = None,
    watcher: Watcher = Watcher(),
) -> Profile:
    """Measure every device of ``machines``, all at once and not talking, on ``recipe``; written to ``folder``.

    Args:
        resume: what the run that this probe is for goes on from.

    Raises:
        PacelineError: the recipe is missing or fails, or a device cannot be had.
    """
    from paceline.probing.collect import probe as measure

    recipe.check()
    known = host.facts(bootstrap.variables(), accelerators=machines.emulation == "none")
    plan = probe_plan(machines, known, seconds)
    _supervisor(plan, folder.probe, recipe, watcher)
    folder.claim(resume and find(resume))

    def attempt(made: Plan) -> Profile:
        folder.probe.clear()
        return measure(made, _supervisor(made, folder.probe, recipe, watcher))

    profile = attempt_until_it_fits(attempt, plan, folder.probe, watcher.show)
    network = machines.network.over(profile.network) if machines.network else profile.network
    profile = profile.model_copy(update={"network": network, "recipe": (str(recipe.script), *recipe.arguments)})
    profile.write(folder.profile)
    return profile


def keep(profile: Profile, folder: RunFolder, resume: Path | None = None) -> None:
    """Leave in ``folder`` what a run's plan was made from; arguments as of ``run``.

    Raises:
        ConfigError: the folder is not free.
    """
    folder.claim(resume and find(resume))
    profile.write(folder.profile)


def run(
    made: Plan, recipe: Recipe, folder: RunFolder, *,
    command: str, port: int = 0, resume: Path | None = None, watcher: Watcher = Watcher(),
) -> Summary:  # fmt: skip
    """Train by the plan; writes traces, ``summary.json`` and ``report.html`` to ``folder``.

    A worker that runs out of memory gets micro-batches of half the size, and the run goes on from where it was.

    Args:
        resume: a checkpoint, or the folder of a run that was stopped, to go on from.

    Raises:
        PacelineError: as ``Supervisor.run`` does. Then there is no ``summary.json``.
    """
    recipe.check()
    checkpoint = resume and find(resume)
    if checkpoint is not None:
        made = made.model_copy(update={"resume": str(checkpoint.absolute())})
    _supervisor(made, folder, recipe, watcher, port)
    folder.claim(checkpoint)

    def attempt(made: Plan) -> tuple[Plan, list[Event]]:
        folder.clear()
        return made, _supervisor(made, folder, recipe, watcher, port).run()

    made, events = attempt_until_it_fits(attempt, made, folder, watcher.show)
    trace = merge(folder.traces)
    summary = summarise(trace, made, command, events, host.versions())
    summary.write(folder.summary)
    write_report(folder.report, [(summary, trace)], f"{recipe.script.name}: {made.strategy} on {made.cluster}")
    return summary


def report(folder: RunFolder) -> Path:
    """Draw the page of a finished run again; returns its path.

    Raises:
        ConfigError: the folder holds no finished run.
    """
    if not folder.summary.exists():
        raise ConfigError(f"{folder.path} holds no finished run", remedy="Name a folder with a summary.json.")
    summary = Summary.read(folder.summary)
    write_report(folder.report, [(summary, merge(folder.traces))], f"{summary.strategy} on {summary.cluster}")
    return folder.report


def write_report(path: Path, runs: Sequence[tuple[Summary, Trace]], title: str) -> None:
    """One page for one run or several side by side."""
    write_atomically(path, html.page(list(runs), title))


def _supervisor(made: Plan, folder: RunFolder, recipe: Recipe, watcher: Watcher, port: int = 0) -> Supervisor:
    """Of the plan with its cards found again. Raises ConfigError for what ``doctor`` calls an error."""
    known = host.facts(bootstrap.variables(), accelerators=any(worker.device != CPU for worker in made.workers))
    made = places.located(made, known.cards)
    checks.refuse(known, made.workers)
    return Supervisor(
        made,
        folder,
        (recipe.script, recipe.arguments),
        server=get(made.strategy).layout.server,
        show=watcher.show,
        tick=lambda: watcher.tick(folder.progress),
        port=port,
    )
