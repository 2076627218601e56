"""``paceline simulate``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TypeVar

import typer

from paceline import api
from paceline.cli import flags
from paceline.cli.terminal import Terminal
from paceline.errors import ConfigError
from paceline.launchers.folder import RunFolder
from paceline.reporting import table
from paceline.reporting.text import story
from paceline.schema.summary import Summary
from paceline.simulating.scenario import Kill, Scenario, Slow

Fault = TypeVar("Fault")


def command(
    profile: flags.KnownProfile = None,
    arguments: flags.Arguments = None,
    cluster: flags.KnownCluster = None,
    strategy: flags.Strategy = None,
    plan: flags.PlanFile = None,
    epochs: flags.Epochs = 1,
    updates: flags.Updates = None,
    jitter: flags.Jitter = 0.0,
    seed: flags.Seed = 0,
    slow: flags.Slow = None,
    kill: flags.Kill = None,
    train: flags.Train = None,
    out: flags.SimulatedOut = None,
    json: flags.Json = False,
) -> None:
    """Run a strategy's own program in virtual time and show what it would reach."""
    terminal = Terminal(sys.stderr if json else sys.stdout)
    flags.check_strategy(strategy, plan, "--plan")
    scenario = Scenario(jitter, seed, _faults("--slow", slow, _slow), _faults("--kill", kill, _kill))
    words = [*([profile] if profile and cluster and train else []), *(arguments or ())]
    measured = flags.measured(None if cluster and train else profile, cluster)
    _check(words, train, (epochs, updates) != (1, None))
    recipe = api.Recipe(train, tuple(words)) if train else None
    made = flags.planned(measured, strategy, plan)
    folder = _claimed(recipe, out)
    if recipe is None:
        trace = api.simulate(measured, made, epochs=epochs, updates=updates, scenario=scenario)
    else:
        with redirect_stdout(sys.stderr if json else sys.stdout):
            trace = api.train_virtually(measured, made, recipe, scenario=scenario)
    summary = api.foreseen(trace, made, folder, command=flags.typed(), scenario=scenario)
    if json:
        typer.echo(summary.model_dump_json(indent=2))
    terminal.table(table.devices(summary))
    for line in [*story(summary), *_unmet(scenario, summary)]:
        terminal.say(line)
    if folder is not None:
        terminal.say(f"report: {folder.report}")
    source = "times given in the cluster file" if cluster else "the profile"
    terminal.say(f"simulated in virtual time from {source}; {f'{train.name} was' if train else 'nothing was'} trained")


def _check(words: list[str], train: Path | None, how_long: bool) -> None:
    """Raises ConfigError for what does not go together: a recipe says itself how long it trains."""
    if train is None and words:
        raise ConfigError(f"{words[0]} is for a recipe that is not there", remedy="Name it with --train.")
    if train is not None and how_long:
        raise ConfigError("--train with --epochs or --updates", remedy="Tell the recipe, after --, how long to train.")


def _claimed(recipe: api.Recipe | None, out: Path | None) -> RunFolder | None:
    """The folder to write to. Raises ConfigError before anything is computed if it or the recipe is no good."""
    if recipe is not None:
        recipe.check()
    if out is None:
        return None
    folder = flags.kept(RunFolder(out))
    folder.claim()
    return folder


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


def _unmet(scenario: Scenario, summary: Summary) -> list[str]:
    """What was asked for at a time after the end."""
    met = {(event.kind, event.at) for event in summary.events}
    asked = [("fault", slow.at, f"--slow {slow.rank}") for slow in scenario.slow]
    asked += [("lost", kill.at, f"--kill {kill.group}") for kill in scenario.kill]
    return [
        f"{flag}: {at:g} s is after the end, nothing came of it" for kind, at, flag in asked if (kind, at) not in met
    ]


def _slow(parts: list[str]) -> Slow:
    rank, at, factor = parts
    return Slow(int(rank), float(at), float(factor))


def _kill(parts: list[str]) -> Kill:
    group, at = parts
    return Kill(group, float(at))
