"""The verbs as functions: the only file that joins stages, and hands ``price`` to planning."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from paceline import __version__
from paceline.errors import ConfigError
from paceline.launchers.folder import RunFolder
from paceline.launchers.supervisor import Supervisor
from paceline.observation.merge import merge
from paceline.planning import search
from paceline.reporting import html
from paceline.reporting.summary import summarise
from paceline.schema.checkpoint import Contents
from paceline.schema.cluster import Cluster, Emulation, GroupSpec
from paceline.schema.plan import Plan
from paceline.schema.profile import Profile
from paceline.schema.record import write_atomically
from paceline.schema.summary import Summary
from paceline.schema.trace import Trace
from paceline.simulating import interpreter
from paceline.strategies.base import get

PROBE_SECONDS = 10.0


@dataclass(frozen=True)
class Recipe:
    """The user's script and its arguments."""

    script: Path
    arguments: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises ConfigError if there is no such file, or it is not Python."""
        if not self.script.is_file():
            raise ConfigError(f"there is no recipe {self.script}", remedy="Check the path; see recipes/ for examples.")
        try:
            compile(self.script.read_bytes(), self.script, "exec")
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            where = f"{self.script}:{line}" if line else str(self.script)
            raise ConfigError(f"the recipe is not Python: {error.args[0]}", where=where, remedy="Mend it.") from error


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
    if path is None:
        from paceline.probing.device import accelerators

        found = Cluster(name="here", groups=[GroupSpec(name="here", devices=accelerators() or 1)])
    else:
        found = Cluster.read(path)
    if emulation is None or emulation == found.emulation:
        return found
    return Cluster.parse({**found.model_dump(), "emulation": emulation}, str(path or "--emulation"))


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
    from paceline.probing.device import accelerators

    recipe.check()
    folder.claim()
    folder.probe.clear()
    found = accelerators() if machines.emulation == "none" else []
    plan = search.probe_plan(machines, seconds, os.cpu_count() or 1, found)
    profile = measure(plan, _supervisor(plan, folder.probe, recipe, watcher))
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
    made: Plan, recipe: Recipe, folder: RunFolder, *, command: str, port: int = 0, watcher: Watcher = Watcher()
) -> Summary:
    """Train by the plan; writes traces, ``summary.json`` and ``report.html`` to ``folder``.

    Raises:
        PacelineError: as ``Supervisor.run`` does. Then there is no ``summary.json``.
    """
    recipe.check()
    folder.claim()
    events = _supervisor(made, folder, recipe, watcher, port).run()
    trace = merge(folder.traces)
    summary = summarise(trace, made, command, events, versions())
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


def versions() -> dict[str, str]:
    """What a run was made with."""
    return {"paceline": __version__, "python": platform.python_version(), "torch": version("torch")}


def _supervisor(made: Plan, folder: RunFolder, recipe: Recipe, watcher: Watcher, port: int = 0) -> Supervisor:
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
    from paceline.checkpoint.disk import contents

    return contents(checkpoint)


def export(checkpoint: Path, out: Path, model: int | None) -> None:
    """One model of a checkpoint as a safetensors file that plain torch loads.

    Raises:
        ConfigError: there is no checkpoint or no such model, or ``out`` exists or cannot be written.
    """
    from paceline.checkpoint.disk import export as write

    write(checkpoint, out, model)
