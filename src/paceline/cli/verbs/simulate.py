"""``paceline simulate``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
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
KnownCluster = Annotated[
    Optional[Path],  # noqa: UP045  typer reads it at run time
    typer.Option("--cluster", help="Instead of a profile, a cluster.yaml with known times.", show_default=False),
]
Updates = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--updates", min=1, help="Stop after this many updates of the first worker.", show_default=False),
]
Jitter = Annotated[
    float, typer.Option("--jitter", help="Standard deviation of each compute over its mean, such as 0.05.")
]
SlowWorkers = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--slow", metavar="RANK:SECONDS:FACTOR", help="From then on that worker is so much slower."),
]
DeadGroups = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--kill", metavar="GROUP:SECONDS", help="Then that group dies."),
]
Train = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--train", help="A recipe to train meanwhile, here and with real tensors.", show_default=False),
]
Out = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--out", help="Folder for plan, traces, summary.json and report.html.", show_default=False),
]


def command(
    profile: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="A profile that `paceline probe` wrote.", show_default=False),
    ] = None,
    arguments: flags.Arguments = None,
    cluster: KnownCluster = None,
    strategy: flags.Strategy = "allreduce",
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the data.")] = 1,
    updates: Updates = None,
    jitter: Jitter = 0.0,
    seed: Annotated[int, typer.Option("--seed", help="What jitter is drawn from.")] = 0,
    slow: SlowWorkers = None,
    kill: DeadGroups = None,
    train: Train = None,
    out: Out = None,
    json: flags.Json = False,
) -> None:
    """Run a strategy's own program in virtual time and show what it would reach."""
    terminal = Terminal(sys.stderr if json else sys.stdout)
    scenario = Scenario(jitter, seed, _faults("--slow", slow, _slow), _faults("--kill", kill, _kill))
    words = [word for word in (profile, *(arguments or ())) if word is not None]
    measured = _profile(words, cluster)
    _check(words, train, (epochs, updates) != (1, None))
    made = api.plan(measured, strategy)
    if train is None:
        trace = api.simulate(measured, made, epochs=epochs, updates=updates, scenario=scenario)
    else:
        with redirect_stdout(sys.stderr if json else sys.stdout):
            trace = api.train_virtually(measured, made, api.Recipe(train, tuple(words)), scenario=scenario)
    folder = RunFolder(out) if out else None
    summary = api.foreseen(trace, made, folder, command=flags.typed(), scenario=scenario)
    if json:
        typer.echo(summary.model_dump_json(indent=2))
    terminal.table(table.devices(summary))
    terminal.table(table.comparison([summary]))
    if folder is not None:
        terminal.say(f"report: {folder.report}")
    source = "times given in the cluster file" if cluster else "the profile"
    terminal.say(f"simulated in virtual time from {source}; {f'{train.name} was' if train else 'nothing was'} trained")


def _profile(words: list[str], cluster: Path | None) -> Profile:
    """Of the cluster, or that which the first of ``words`` names, which is then taken from them."""
    if cluster is not None:
        return api.known(api.cluster(cluster))
    if not words:
        raise ConfigError("neither a profile nor a cluster", remedy="Name a profile.json, or --cluster FILE.")
    return Profile.read(Path(words.pop(0)))


def _check(words: list[str], train: Path | None, how_long: bool) -> None:
    """Raises ConfigError for what does not go together: a recipe says itself how long it trains."""
    if train is None and words:
        raise ConfigError(f"{words[0]} is for a recipe that is not there", remedy="Name it with --train.")
    if train is not None and how_long:
        raise ConfigError("--train with --epochs or --updates", remedy="Tell the recipe, after --, how long to train.")


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
