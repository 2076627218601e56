"""The verbs as functions: the only file that joins stages, and hands ``price`` to planning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from paceline.errors import ConfigError
from paceline.hardware import checks, host
from paceline.hardware.checks import Finding
from paceline.hardware.facts import CPU, Card, Facts
from paceline.launchers import bootstrap
from paceline.launchers.fitting import attempt_until_it_fits
from paceline.launchers.folder import RunFolder
from paceline.launchers.recipe import Recipe as Recipe
from paceline.launchers.supervisor import Supervisor
from paceline.observation.merge import merge
from paceline.planning import search
from paceline.reporting import html
from paceline.reporting.summary import summarise
from paceline.schema.checkpoint import MARK, Contents
from paceline.schema.cluster import Cluster, Emulation, GroupSpec
from paceline.schema.plan import Plan, WorkerPlan
from paceline.schema.profile import Profile
from paceline.schema.record import write_atomically
from paceline.schema.summary import Event, Summary
from paceline.schema.trace import Trace
from paceline.simulating import interpreter
from paceline.strategies.base import get

PROBE_SECONDS = 10.0


@dataclass(frozen=True)
class Watcher:
    """Who sees a run go by: ``show`` gets lines, ``tick`` the progress file ten times a second."""

    show: Callable[[str], None] = print
    tick: Callable[[Path], None] = field(default=lambda path: None)


def cluster(path: Path | None, emulation: Emulation | None = None) -> Cluster:
    """The cluster of a file, or this host as it is; ``emulation`` overrides the file's way of emulating.

    Raises:
        ConfigError: the file is missing or wrong, or nothing is emulated there.
    """
    found = _here(host.cards()) if path is None else Cluster.read(path)
    if emulation is None or emulation == found.emulation:
        return found
    return Cluster.parse({**found.model_dump(), "emulation": emulation}, str(path or "--emulation"))


def _here(cards: Sequence[Card]) -> Cluster:
    names = [card.device for card in cards]
    return Cluster(name="here", groups=[GroupSpec(name="here", devices=names or 1)])


@dataclass(frozen=True)
class Diagnosis:
    """What ``doctor`` saw: the host, the workers that a run would start there, and what is to be said of them."""

    facts: Facts
    workers: list[WorkerPlan]
    findings: list[Finding]


def doctor(path: Path | None, known: Facts | None = None) -> Diagnosis:
    """Look at this host, or at one that is ``known``, as a run on the cluster of ``path`` would find it.

    Raises:
        ConfigError: the cluster file is missing or wrong in itself.
    """
    known = known or host.facts(bootstrap.variables(), accelerators=True)
    machines = _here(known.cards) if path is None else Cluster.read(path)
    try:
        workers = _probe_plan(machines, known, PROBE_SECONDS).workers
    except ConfigError as error:
        what = f"{error.seen}; expected {error.expected}" if error.expected else error.seen
        return Diagnosis(known, [], [Finding("error", what, error.remedy), *checks.check(known, [])])
    return Diagnosis(known, workers, checks.check(known, workers))


def probe(
    machines: Cluster,
    recipe: Recipe,
    folder: RunFolder,
    *,
    seconds: float = PROBE_SECONDS,
    watcher: Watcher = Watcher(),
) -> Profile:
    """Measure every device of ``machines``, all at once and not talking, on ``recipe``; written to ``folder``.

    Raises:
        PacelineError: the recipe is missing or fails, or a device cannot be had.
    """
    from paceline.probing.collect import probe as measure

    recipe.check()
    known = host.facts(bootstrap.variables(), accelerators=machines.emulation == "none")
    plan = _probe_plan(machines, known, seconds)
    _supervisor(plan, folder.probe, recipe, watcher)
    folder.claim()

    def attempt(made: Plan) -> Profile:
        folder.probe.clear()
        return measure(made, _supervisor(made, folder.probe, recipe, watcher))

    profile = attempt_until_it_fits(attempt, plan, folder.probe, watcher.show)
    profile.write(folder.profile)
    return profile


def plan(profile: Profile, strategy: str) -> Plan:
    """Shares, local steps and jobs for ``strategy``, with the speed that simulating it predicts.

    Raises:
        ConfigError: unknown strategy, or one that these devices cannot run.
    """
    return search.plan(profile, strategy, price=lambda made: interpreter.rate(simulate(profile, made)))


def simulate(profile: Profile, made: Plan, *, epochs: int = 1, updates: int | None = None) -> Trace:
    """The plan's programs in virtual time."""
    return interpreter.simulate(made, profile.epoch_samples, epochs, model_bytes=profile.model_bytes, updates=updates)


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
    if resume is not None:
        made = made.model_copy(update={"resume": str(_checkpoint(resume).absolute())})
    _supervisor(made, folder, recipe, watcher, port)
    folder.claim()

    def attempt(made: Plan) -> tuple[Plan, list[Event]]:
        folder.clear()
        return made, _supervisor(made, folder, recipe, watcher, port).run()

    made, events = attempt_until_it_fits(attempt, made, folder, watcher.show)
    trace = merge(folder.traces)
    summary = summarise(trace, made, command, events, host.versions())
    summary.write(folder.summary)
    write_report(folder.report, [(summary, trace)], f"{recipe.script.name}: {made.strategy} on {made.cluster}")
    return summary


def _checkpoint(path: Path) -> Path:
    """The checkpoint that ``path`` is, or that the run in it has left."""
    inside = RunFolder(path).checkpoint
    found = path if (path / MARK).exists() else inside
    if not (found / MARK).exists():
        raise ConfigError(
            f"{path} holds no checkpoint: no {MARK}",
            remedy="Name a folder that run.save has written, or that of a stopped run.",
        )
    return found


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


def _probe_plan(machines: Cluster, known: Facts, seconds: float) -> Plan:
    cards = known.cards if machines.emulation == "none" else ()
    return search.probe_plan(machines, seconds, known.cores, cards, bootstrap.read(known.environment).threads)


def _supervisor(made: Plan, folder: RunFolder, recipe: Recipe, watcher: Watcher, port: int = 0) -> Supervisor:
    """Of the plan with its cards found again. Raises ConfigError for what ``doctor`` calls an error."""
    known = host.facts(bootstrap.variables(), accelerators=any(worker.device != CPU for worker in made.workers))
    made = search.located(made, known.cards)
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


def serve(
    groups: int, global_batch: int, *, rule: str, host: str, port: int, timeout: float, ready_file: Path | None
) -> None:
    """Serve one run's parameters until all groups have come and gone.

    Raises:
        ConfigError: no token in the environment, or an unknown rule.
        LaunchError: the port is taken.
    """
    import json

    from paceline import ports, tables
    from paceline.launchers import bootstrap, orphans
    from paceline.server import app, rules
    from paceline.server.program import ParameterServer
    from paceline.transports import TABLE
    from paceline.transports.base import Transport

    launch = bootstrap.read()
    if not launch.token:
        raise ConfigError("PACELINE_TOKEN is not set", remedy="Set it to a long random string, the same on all hosts.")
    orphans.end_with_launcher(launch)
    server = ParameterServer(tables.load("rule", rules.TABLE, rule)(), groups, global_batch, timeout)
    door = ports.listen(host, port)
    kind: type[Transport] = tables.load("transport", TABLE, "pair")
    meeting = kind.listen(host, 0, timeout)
    url = f"http://{host}:{door.getsockname()[1]}"
    if ready_file is not None:
        write_atomically(ready_file, json.dumps({"url": url, "host": host}))
    print(f"serving on {url}", flush=True)
    app.run(app.app(server, launch.token, meeting.open, meeting.port), door, server)
    if launch.folder is not None:
        write_atomically(RunFolder(launch.folder).events, json.dumps(server.status()["events"]))


DEMO = ("alone", "allreduce_even", "allreduce", "hybrid")


def demo(out: Path, emulation: Emulation | None, say: Callable[[str], None], watcher: Watcher) -> list[Summary]:
    """The main job on this machine: mixed4, digits, each strategy in turn on one probe; one page for all.

    Raises:
        ConfigError: not in a clone of the repository, where clusters and recipes are.
        PacelineError: a run failed.
    """
    home = Path(__file__).resolve().parents[2]
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


def inspect(checkpoint: Path) -> Contents:
    """What a checkpoint holds, read to its end.

    Raises:
        ConfigError: there is none, or it is damaged.
    """
    from paceline.state import disk

    return disk.contents(_checkpoint(checkpoint))


def export(checkpoint: Path, out: Path, model: int | None) -> None:
    """One model of a checkpoint as a safetensors file that plain torch loads.

    Raises:
        ConfigError: there is no checkpoint or no such model, or ``out`` exists or cannot be written.
    """
    from paceline.state import disk

    disk.export(_checkpoint(checkpoint), out, model)
