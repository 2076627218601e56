"""``paceline probe``."""

from __future__ import annotations

import sys

import typer

from paceline import api
from paceline.cli import flags
from paceline.cli.terminal import Terminal
from paceline.reporting import plan_table


def command(
    recipe: flags.Recipe,
    arguments: flags.Arguments = None,
    cluster: flags.ClusterFile = None,
    emulation: flags.Emulation = None,
    probe_seconds: flags.ProbeSeconds = api.PROBE_SECONDS,
    out: flags.Out = None,
    json: flags.Json = False,
) -> None:
    """Measure each device while all train at once and none talks: the limit of the hardware."""
    terminal = Terminal(sys.stderr if json else sys.stdout)
    machines = api.cluster(cluster, emulation)
    folder = flags.folder(out, f"{recipe.stem}-probe")
    script = api.Recipe(recipe, tuple(arguments or ()))
    profile = api.probe(machines, script, folder, seconds=probe_seconds, watcher=terminal.quiet)
    if json:
        typer.echo(profile.model_dump_json(indent=2))
    terminal.table(plan_table.profile(profile, api.limit(profile)))
    terminal.say(f"profile: {folder.profile}")
