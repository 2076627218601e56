"""``paceline simulate``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Optional, TypeVar

import typer

from paceline import api
from paceline.cli import flags
from paceline.cli.terminal import Terminal
from paceline.errors import ConfigError
from paceline.launchers.folder import RunFolder
from paceline.reporting import table
from paceline.schema.profile import Profile
from paceline.simulating.scenario import Kill, Scenario, Slow

Fault = TypeVar("Fault")
ProfileFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Argument(help="A profile that `paceline probe` wrote.", show_default=False),
]
ClusterFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--cluster", help="Instead of a profile, a cluster.yaml with known times.", show_default=False),
]
Updates = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--updates", min=1, help="Stop after this many updates of the first worker.", show_default=False),
]
Jitter = Annotated[float, typer.Option("--jitter", help="Spread of each compute's seconds over their mean.")]
Slowed = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--slow", metavar="RANK:SECONDS:FACTOR", help="From then on that worker is so much slower."),
]
Killed = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--kill", metavar="GROUP:SECONDS", help="Then that group dies."),
]
Out = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--out", help="Folder for plan, traces, summary.json and report.html.", show_default=False),
]


def command(
    profile: ProfileFile = None,
    cluster: ClusterFile = None,
    strategy: flags.Strategy = "allreduce",
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the data.")] = 1,
    updates: Updates = None,
    jitter: Jitter = 0.0,
    seed: Annotated[int, typer.Option("--seed", help="What jitter is drawn from.")] = 0,
    slow: Slowed = None,
    kill: Killed = None,
    out: Out = None,
    json: flags.Json = False,
) -> None:
    """Run a strategy's own program in virtual time and show what it would reach."""
    terminal = Terminal(sys.stderr if json else sys.stdout)
    scenario = Scenario(jitter, seed, _faults("--slow", slow, _slow), _faults("--kill", kill, _kill))
    measured = _profile(profile, cluster)
    made = api.plan(measured, strategy)
    trace = api.simulate(measured, made, epochs=epochs, updates=updates, scenario=scenario)
    folder = RunFolder(out) if out else None
    summary = api.foreseen(trace, made, folder, command=flags.typed(), scenario=scenario)
    if json:
        typer.echo(summary.model_dump_json(indent=2))
    terminal.table(table.devices(summary))
    terminal.table(table.comparison([summary]))
    if folder is not None:
        terminal.say(f"report: {folder.report}")
    source = "the profile" if profile else "times given in the cluster file"
    terminal.say(f"simulated in virtual time from {source}; nothing was trained")


def _profile(profile: Path | None, cluster: Path | None) -> Profile:
    if (profile is None) == (cluster is None):
        seen = "neither a profile nor a cluster" if profile is None else "both a profile and a cluster"
        raise ConfigError(seen, expected="one of them", remedy="Name a profile.json, or --cluster FILE.")
    return api.known(api.cluster(cluster)) if profile is None else Profile.read(profile)


def _faults(flag: str, texts: Sequence[str] | None, made: Callable[[list[str]], Fault]) -> tuple[Fault, ...]:
    """What each use of ``flag`` says. Raises ConfigError for one that is not of its form."""
    found = []
    for text in texts or ():
        try:
            found.append(made(text.split(":")))
        except ValueError:
            form = "RANK:SECONDS:FACTOR, such as 3:60:5" if flag == "--slow" else "GROUP:SECONDS, such as old:60"
            raise ConfigError(f"{flag} {text}", expected=form) from None
    return tuple(found)


def _slow(parts: list[str]) -> Slow:
    rank, at, factor = parts
    return Slow(int(rank), float(at), float(factor))


def _kill(parts: list[str]) -> Kill:
    group, at = parts
    return Kill(group, float(at))
