"""Starts a plan's server and jobs, watches them, and ends them all: well, in error, or because a person said so.

start quotas, server, jobs -> watch -> all jobs ended        -> events
                                    -> a job failed          -> end the rest, raise why
                                    -> a group was killed and others live (server strategies) -> note it, go on
                                    -> signal: once SIGTERM and STOP_SECONDS of grace, twice SIGKILL
"""

from __future__ import annotations

import json
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from paceline import tables
from paceline.emulation.cgroups import Quotas
from paceline.errors import LaunchError, LinkError, StoppedError
from paceline.launchers import TABLE, bootstrap, failures
from paceline.launchers.base import STOP_SECONDS, Job, Launcher
from paceline.launchers.folder import RunFolder
from paceline.launchers.processes import Child, end_members
from paceline.schema.plan import Plan
from paceline.schema.summary import Event

SERVER_SECONDS = 60.0
TICK_SECONDS = 0.1
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class Supervisor:
    """Runs one plan to its end.

    Args:
        plan: what to run; written to ``folder`` for the workers.
        folder: the run's folder.
        recipe: the user's script, and its arguments.
        server: a parameter server is needed.
        show: takes each line that workers print.
        tick: called ten times a second while the run goes on.
        port: the server's port, 0 for a free one.
    """

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        recipe: tuple[Path, tuple[str, ...]],
        *,
        server: bool,
        show: Callable[[str], None] = print,
        tick: Callable[[], None] = lambda: None,
        port: int = 0,
    ) -> None:
        self._plan, self.folder, self._recipe = plan, folder, recipe
        self._wants_server, self._show, self._tick, self._port = server, show, tick, port
        self._id, self._token = secrets.token_hex(8), secrets.token_urlsafe(24)
        self._signals: list[int] = []
        self._events: list[Event] = []
        self._started = time.time()
        self._saved_before = folder.saved

    def run(self) -> list[Event]:
        """Run to the end. Returns what happened on the way.

        Raises:
            WorkerError: the recipe raised, or workers were killed and nothing could go on.
            LaunchError: server, workers or quotas did not start.
            StoppedError: a signal stopped the run.
        """
        self.folder.path.mkdir(parents=True, exist_ok=True)
        self._plan.write(self.folder.plan)
        with self._listening():  # also while ending, so that an impatient Ctrl-C leaves nothing behind
            quotas = self._quotas()
            try:
                children = self._start(quotas)
                self._watch(children)
                self._part(children.get("server"))
            finally:
                end_members(self._id)
                if quotas is not None:
                    quotas.remove()
        return [*self._events, *self._told_by_server()]

    def _quotas(self) -> Quotas | None:
        if self._plan.emulation != "cgroups":
            return None
        return Quotas([worker.speed or 1.0 for worker in self._plan.workers])

    def _start(self, quotas: Quotas | None) -> dict[str, Child]:
        children = {}
        if self._wants_server:
            children["server"] = self._start_server()
        launcher: Launcher = tables.load("launcher", TABLE, "torchrun")()
        recipe, arguments = self._recipe
        for index, plan in enumerate(self._plan.jobs):
            top = quotas.folders[0].parent if quotas is not None else None
            environment = bootstrap.child_environment(self._id, self.folder.path, self._token, index, top)
            command = launcher.command(Job(plan.name, len(plan.workers), recipe, arguments))
            children[f"job-{plan.name}"] = self._child(f"job-{plan.name}", command, environment)
        return children

    def _start_server(self) -> Child:
        ready = self.folder.server
        ready.unlink(missing_ok=True)
        command = [
            sys.executable, "-m", "paceline", "serve",
            f"--groups={len(self._plan.jobs)}", f"--global-batch={self._plan.global_batch}",
            f"--rule={self._plan.rule}", f"--grace={self._plan.grace_seconds}",
            f"--most-ahead={self._plan.most_ahead}",
            f"--timeout={self._plan.timeout_seconds}", f"--port={self._port}", f"--ready-file={ready}",
            *([] if self._plan.rebalance else ["--fixed"]),
        ]  # fmt: skip
        environment = bootstrap.child_environment(self._id, self.folder.path, self._token)
        server = Child("server", command, environment, self.folder.logs, show=lambda line: None)
        deadline = time.monotonic() + SERVER_SECONDS
        while not ready.exists():
            if server.code is not None or time.monotonic() > deadline:
                server.drained()
                said = server.errors.read_text().strip().splitlines()
                reason = said[-1].removeprefix("error: ") if said else f"exit code {server.code}"
                raise LaunchError(f"the parameter server did not start: {reason.rstrip('.')}")
            self._pause()
        return server

    def _child(self, name: str, command: list[str], environment: dict[str, str]) -> Child:
        return Child(name, command, environment, self.folder.logs, self._show)

    def _watch(self, children: dict[str, Child]) -> None:
        jobs = {name: child for name, child in children.items() if name != "server"}
        server = children.get("server")
        while jobs:
            self._pause()
            if server is not None and server.code:  # it ends well, with 0, once all groups have left
                raise LinkError(f"the parameter server ended with code {server.code}", remedy=f"See {server.errors}.")
            for name, child in list(jobs.items()):
                if child.code is None:
                    continue
                child.drained()
                del jobs[name]
                if child.code != 0 or self._early(child):
                    self._failed(child, others=bool(jobs))

    def _early(self, child: Child) -> bool:
        """A worker of the job ended in the middle of its training, though not in error."""
        before, job = 0, child.name.removeprefix("job-")
        for plan in self._plan.jobs:
            if plan.name == job:
                return failures.unfinished(self.folder.traces, range(before, before + len(plan.workers))) is not None
            before += len(plan.workers)
        return False

    def _failed(self, child: Child, others: bool) -> None:
        error = failures.explain(self.folder, child.name.removeprefix("job-"), child.code or 0, child.errors)
        job = [plan.name for plan in self._plan.jobs].index(child.name.removeprefix("job-"))
        training = self.folder.progress.exists()  # all groups had joined; before that the others would wait for it
        killed = (child.code is not None and child.code < 0) or failures.killed(child.errors)
        if not (self._wants_server and others and training and killed):
            raise error
        end_members(self._id, job=job)  # where its torchrun was killed, its workers are left
        failures.forget(self.folder.errors, job)
        self._show(f"{error} The other groups go on; its open samples return to the ledger.")
        self._events.append(Event(at=time.time() - self._started, kind="fault", what=str(error)))

    def _part(self, server: Child | None) -> None:
        """Let the server end by itself once all groups have left, so that it can write down what it saw."""
        deadline = time.monotonic() + STOP_SECONDS
        while server is not None and server.code is None and time.monotonic() < deadline:
            self._pause()

    def _told_by_server(self) -> list[Event]:
        if not self.folder.events.exists():
            return []
        told = json.loads(self.folder.events.read_text())
        return [Event(at=event["at"] - self._started, kind=event["kind"], what=event["what"]) for event in told]

    def _pause(self) -> None:
        time.sleep(TICK_SECONDS)
        if self._signals:
            self._stop()
        self._tick()

    def _stop(self) -> None:
        name = signal.Signals(self._signals[0]).name
        self._show(f"{name}: stopping; once more to stop at once")
        end_members(self._id, STOP_SECONDS, hurry=lambda: len(self._signals) > 1)
        remedy = f"Its logs are in {self.folder.logs}."
        if self.folder.saved != self._saved_before:
            remedy = f"Go on with the same command and --resume {self.folder.path}."
        raise StoppedError(f"the run was stopped by {name}", remedy=remedy)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Collect stop signals instead of dying of them; the watch loop acts on them."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            self._signals.append(number)

        before = {number: signal.signal(number, note) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
