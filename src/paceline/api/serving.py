"""The parameter server as a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from paceline.errors import ConfigError
from paceline.launchers.folder import RunFolder
from paceline.schema.record import write_atomically


@dataclass(frozen=True, slots=True)
class Service:
    """One run's parameters: for so many groups, by which rule, with which grace; see ``ParameterServer``."""

    groups: int
    global_batch: int
    rule: str = "merge"
    grace: float = 0.0
    timeout: float = 300.0
    fixed: bool = False
    most_ahead: int = 0


def serve(service: Service, *, host: str, port: int, ready_file: Path | None) -> None:
    """Serve until all groups have come and gone.

    Raises:
        ConfigError: no token in the environment, or an unknown rule.
        LaunchError: the port is taken.
    """
    import json

    from paceline import ports, tables
    from paceline.launchers import bootstrap, orphans
    from paceline.observation.merge import SERVER
    from paceline.observation.recorder import Recorder
    from paceline.ops import Range
    from paceline.server import app, rules
    from paceline.server.paces import Paces
    from paceline.server.program import ParameterServer
    from paceline.transports import TABLE
    from paceline.transports.base import Transport

    launch = bootstrap.read()
    if not launch.token:
        raise ConfigError("PACELINE_TOKEN is not set", remedy="Set it to a long random string, the same on all hosts.")
    orphans.end_with_launcher(launch)
    recorder = Recorder(RunFolder(launch.folder).traces / SERVER if launch.folder is not None else None, {})

    def settled(epoch: int, trained: Range) -> None:
        recorder.mark("done", epoch=epoch, start=trained.start, stop=trained.stop)
        recorder.flush()

    rule = rules.load(service.rule)
    paces = Paces(service.fixed, service.most_ahead)
    server = ParameterServer(
        rule, service.groups, service.global_batch, service.timeout, service.grace, paces, settled
    )  # fmt: skip
    door = ports.listen(host, port)
    kind: type[Transport] = tables.load("transport", TABLE, "pair")
    meeting = kind.listen(host, 0, service.timeout)
    url = f"http://{host}:{door.getsockname()[1]}"
    if ready_file is not None:
        write_atomically(ready_file, json.dumps({"url": url, "host": host}))
    print(f"serving on {url}", flush=True)
    app.run(app.app(server, launch.token, meeting.open, meeting.port), door, server)
    recorder.close(complete=False)
    if launch.folder is not None:
        write_atomically(RunFolder(launch.folder).events, json.dumps(server.status()["events"]))
