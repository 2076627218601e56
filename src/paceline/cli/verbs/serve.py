"""``paceline serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from paceline import api


def command(
    groups: Annotated[int, typer.Option("--groups", min=1, help="Groups that must join before training starts.")],
    global_batch: Annotated[int, typer.Option("--global-batch", min=1, help="Samples of one update of the cluster.")],
    rule: Annotated[str, typer.Option("--rule", help="What to do with a push.")] = "merge",
    grace: Annotated[
        float, typer.Option("--grace", min=0, help="Seconds in which pushes become one version; 0: each is one.")
    ] = 0.0,
    fixed: Annotated[bool, typer.Option("--fixed", help="Give groups what they ask for, also slow ones.")] = False,
    most_ahead: Annotated[
        int, typer.Option("--most-ahead", min=0, help="Pushes that a group may be ahead of another; 0: any number.")
    ] = 0,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 0,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds that any one wait may last.")] = 300.0,
    ready_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--ready-file", help="Written once the server listens: where to find it.", show_default=False),
    ] = None,
) -> None:
    """A parameter server. Needs PACELINE_TOKEN, the secret that groups and status requests must show."""
    service = api.Service(groups, global_batch, rule, grace, timeout, fixed, most_ahead)
    api.serve(service, host=host, port=port, ready_file=ready_file)
