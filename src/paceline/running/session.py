"""One plan, from its first process to its trace."""

from __future__ import annotations

from paceline.launchers.supervisor import Supervisor
from paceline.observation.merge import merge
from paceline.schema.summary import Event
from paceline.schema.trace import Trace


def run(supervisor: Supervisor) -> tuple[Trace, list[Event]]:
    """Run to the end; what happened, and the faults on the way.

    Raises:
        PacelineError: as ``Supervisor.run`` does.
    """
    events = supervisor.run()
    return merge(supervisor.folder.traces), events
