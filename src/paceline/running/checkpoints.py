"""Saving a run and going on with it, with as many other workers as there are then.

Training state is the same on all workers that reduce together, so one writes it without a word to the others, also when
they are gone. Nothing in it belongs to a rank: the place in the data is a set of ranges of the epoch's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from paceline.errors import ConfigError
from paceline.hardware.host import versions
from paceline.launchers.failures import lost_peer, out_of_memory
from paceline.running.handshake import plan_hash
from paceline.running.loop import Loop
from paceline.running.stopping import StopRequest
from paceline.running.worker import Worker
from paceline.schema.checkpoint import State
from paceline.schema.settings import Settings
from paceline.server.messages import Progress
from paceline.state import disk, snapshot
from paceline.state.things import Things


class Checkpoints:
    """One worker's part in saving, loading and stopping."""

    def __init__(self, worker: Worker, loop: Loop, settings: Settings, request: StopRequest) -> None:
        self._worker, self._loop, self._settings, self._request = worker, loop, settings, request
        self.place = worker.place.folder.checkpoint if worker.place.folder else None

    def save(self, path: Path) -> None:
        """Write a checkpoint; see ``Run.save``."""
        if self._worker.place.folder is None:
            self.place = path  # a stop saves there, too
        if self._worker.is_main and self._worker.keeps(path):
            self._write(path)

    def load(self, path: Path) -> None:
        """Take everything from a checkpoint; see ``Run.load``. What ``--resume`` asked for comes before it."""
        if (asked := self._worker.place.plan.resume) is None:
            self._take(path)
        elif self._worker.place.is_main:
            print(f"run.load({str(path)!r}) is left out: this run goes on from {asked}.", flush=True)

    def resume(self) -> None:
        """Go on from the checkpoint that the plan names, if it names one."""
        if (asked := self._worker.place.plan.resume) is not None:
            self._take(Path(asked))

    def _take(self, path: Path) -> None:
        self._loop.check_resume()
        state, saved = self._read(path)
        self._fits(state, path)
        given = self._things()
        snapshot.restore(saved, given.models, given.optimizers, given.schedulers, given.scalers)
        for counter in self._worker.executor.counters:
            counter.resume(state.updates)
        self._loop.resume(state)
        if self._worker.place.is_main:
            print(f"going on in epoch {self._loop.first}, after {state.samples_seen:,} samples", flush=True)
        if self._worker.place.is_main and state.plan_hash != plan_hash(self._worker.place):
            self._warn_of_dropout(given.models)

    def check_left(self, epochs: int) -> None:
        """Raises ConfigError if the person who asked for a resume gets nothing trained: likely a flag was forgotten."""
        resume = self._worker.place.plan.resume
        if resume is not None and epochs <= self._loop.first:
            raise ConfigError(
                f"{resume} has epochs 0 to {self._loop.first - 1} behind it, and run.epochs was given {epochs}",
                remedy="Type the whole command of the stopped run, with its script's arguments, and --resume.",
            )

    def stop(self, together: bool) -> None:
        """A signal asked for it: save what there is, and end this process.

        Args:
            together: all groups come here from their training loops.

        Raises:
            SystemExit: always.
        """
        if self._worker.place.layout.server and together:
            self._worker.sum_over_cluster(torch.zeros(2, dtype=torch.float64))  # until all groups have pushed
        if self._worker.is_main and self.place is not None:
            self._write(self.place)
            print(f"stopped after {self._loop.progress().samples:,} samples; saved to {self.place}", flush=True)
        if self._worker.reduces and together:
            dist.barrier()  # who leaves first gets torchrun to end the others, in the middle of a save
        self._worker.stopped = True
        raise SystemExit(self._request.exit_code)

    def rescue(self, error: BaseException) -> bool:
        """An exception ends this process. Save the state before the running update, if that is worth it and whole.

        Returns:
            Whether the exception is only what a stop looks like from here.
        """
        stopping = bool(self._request.number)
        wanted = (stopping and self._worker.is_main) or out_of_memory(error)
        if wanted and self.place is not None and self._worker.given.models and self._loop.undo_update():
            try:
                self._write(self.place)
            except Exception as failure:  # the first error is what people must see
                print(f"warning: no checkpoint was saved: {failure}", flush=True)
        return stopping and lost_peer(type(error).__name__, str(error))

    def _write(self, path: Path) -> None:
        given, worker = self._things(), self._worker
        progress = self._loop.progress()
        for counter in worker.executor.counters:
            counter.advance(progress.samples)
        with worker.newest_weights(progress) as known:
            state = self._state(given, known, -(-progress.samples // self._settings.global_batch))
            disk.save(path, snapshot.take(given.models, given.optimizers, given.schedulers, given.scalers), state)

    def _state(self, given: Things, progress: Progress, updates: int) -> State:
        epoch = max(progress.epoch, self._loop.first)
        return State(
            samples_seen=progress.samples,
            updates=updates,
            epoch=epoch,
            epoch_size=progress.size,
            left=[(part.start, part.stop) for part in progress.left],
            finished=self._loop.finished(epoch),
            settings=self._settings,
            strategy=self._worker.place.plan.strategy,
            plan_hash=plan_hash(self._worker.place),
            versions=versions(),
            saved_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            models=[type(getattr(model, "_orig_mod", model)).__name__ for model in given.models],
            optimizers=[type(optimizer).__name__ for optimizer in given.optimizers],
            parameters=sum(parameter.numel() for model in given.models for parameter in model.parameters()),
        )

    def _read(self, path: Path) -> tuple[State, snapshot.Snapshot]:
        """One worker of the job reads, the others get it from there: they may not see that folder."""
        if not self._worker.distributed:
            return disk.load(path)
        told: list[Any] = [None]
        if self._worker.place.leads:
            try:
                told = [disk.load(path)]
            except ConfigError as error:
                told = [error]
        dist.broadcast_object_list(told, src=0)
        if isinstance(told[0], ConfigError):
            raise told[0]
        state, saved = told[0]
        return state, saved

    def _fits(self, state: State, path: Path) -> None:
        for key in ("global_batch", "seed", "reduction"):
            was, now = getattr(state.settings, key), getattr(self._settings, key)
            if was != now:
                raise ConfigError(
                    f"the checkpoint was trained with {key}={was!r}", expected=f"{now!r}, as paceline.init was given",
                    where=str(path), remedy=f"Call paceline.init({key}={was!r}).",
                )  # fmt: skip

    def _things(self) -> Things:
        if not self._worker.given.models:
            raise ConfigError("a checkpoint was asked for before run.setup", remedy="Call run.setup(model, optimizer).")
        return self._worker.given

    def _warn_of_dropout(self, models: Sequence[nn.Module]) -> None:
        if any(isinstance(layer, _DropoutNd) and layer.p > 0 for model in models for layer in model.modules()):
            print(
                "warning: the work is split in another way than when the checkpoint was saved. What datasets draw at "
                "random is the same, dropout masks are not: they follow a worker's batch.",
                flush=True,
            )
