"""This process as a worker: its quota, threads, process group, recorder and executor; and a clean end."""

from __future__ import annotations

import atexit
import contextlib
import datetime
import io
import json
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous
from torch.optim import LBFGS

from paceline.cost.rebalance import Balancer
from paceline.emulation import cgroups
from paceline.errors import ConfigError, LaunchError, LinkError, WorkerError
from paceline.launchers import failures, orphans
from paceline.launchers.bootstrap import Launch
from paceline.launchers.folder import RunFolder
from paceline.observation.recorder import Recorder
from paceline.reduction.normalisation import cross_batch_norm
from paceline.reduction.window import UpdateCounter, Window
from paceline.running import handshake
from paceline.running.executor import Executor
from paceline.running.membership import Place, take_place
from paceline.running.sources import Newcomer, ServerSource, join
from paceline.schema.precision import Ability, Agreement, agree
from paceline.schema.settings import Settings
from paceline.server.client import Client
from paceline.server.ledger import Replica
from paceline.server.messages import MOST_VALUES, Progress
from paceline.state import handling
from paceline.state.flat import FlatState
from paceline.state.plain import PlainSteps
from paceline.state.things import Things
from paceline.strategies.base import get
from paceline.transports import wires


class Worker:
    """Owns what must be let go of when the process ends."""

    def __init__(self, launch: Launch, settings: Settings) -> None:
        self._launch, self._settings = launch, settings
        self._where = f"rank {launch.rank} of job {launch.job} on {socket.gethostname()}"
        self._failed = self.stopped = False
        self.rescue: Callable[[BaseException], bool] = lambda error: False
        self._watch_for_errors()
        self.place = self._take_place()
        self._where, self.distributed = str(self.place), launch.distributed
        self.reduces = launch.distributed and self.place.layout.reduces
        self.peers = len(self.place.member.shares) if self.reduces else 1
        self.models: list[nn.Module] = []
        self.samples_at_once: Callable[[], int] = lambda: 0
        self.progress = Progress(0, -1, 0, ())  # where the run begins
        self.started = self._initialises = self.probed = False
        self.given = Things([], [], [], [])
        self.stop_wanted: Callable[[], bool] = lambda: False
        self.epochs: Callable[[], int] = lambda: 1  # that the loop is to go through
        self.aligned = False  # all peers make the same number of forwards an update
        self.limit = datetime.timedelta(seconds=self.place.plan.timeout_seconds)
        orphans.end_with_launcher(launch)
        if launch.folder is not None and isinstance(sys.stdout, io.TextIOWrapper):
            # Whole lines at once, also under PYTHONUNBUFFERED: workers share one pipe.
            sys.stdout.reconfigure(line_buffering=True, write_through=False)
        if launch.quotas is not None:
            cgroups.enter(launch.quotas / f"w{self.place.rank}")
        self._source = ServerSource(None, len(self.place.job.workers)) if self.place.layout.server else Replica()
        self.recorder = self._recorder()
        self.executor = self._make_executor()
        self._store = _prepare(self.place, launch)
        self._end_well()

    @property
    def accumulates(self) -> bool:
        """This worker may take its part of an update in several micro-batches."""
        workers = self.place.job.workers if self.aligned else [self.place.worker]
        return any(worker.micro_batch is not None for worker in workers)

    @property
    def shares_updates(self) -> bool:
        """An update's samples are shared with others."""
        return self.reduces

    def meet(self, given: Things) -> None:
        """Look whether all workers of the job are about to do the same; the first one's loss scale holds for all.

        Raises:
            ConfigError: they differ; LBFGS is to step where workers reduce together; an optimizer holds a parameter of
                no model.
            LinkError: one did not come.
        """
        if self.shares_updates and any(isinstance(optimizer, LBFGS) for optimizer in given.optimizers):
            raise ConfigError(
                "LBFGS looks at its loss in mid-step, and each of the workers that reduce together has another",
                remedy="Use an optimizer without a closure, or --strategy alone.",
            )
        known = {parameter for model in given.models for parameter in model.parameters()}
        groups = [group for optimizer in given.optimizers for group in optimizer.param_groups]
        if (self.reduces or self.place.layout.server) and not known.issuperset(p for g in groups for p in g["params"]):
            raise ConfigError(
                "an optimizer holds a parameter that is in none of the models given to run.setup",
                expected="all of them, as workers exchange models",
                remedy="Hand its module over too, or wrap it in nn.ParameterList([...]).",
            )
        self.given = given
        self._hello = handshake.hello(self.place, self._settings, given.models, given.optimizers, given.scalers)
        self._abilities = [Ability(*self._hello.ability)]
        if self._store is not None:
            timeout = self.place.plan.timeout_seconds
            everyone = handshake.meet(self._store, self._hello, self._launch.rank, self._launch.world_size, timeout)
            self._abilities = [Ability(*hello.ability) for hello in everyone]
            for scaler, state in zip(given.scalers, everyone[0].scalers, strict=True):
                scaler.load_state_dict(state)

    def agree_on_precision(self) -> Agreement:
        """The number format that all devices of the run have, also those of other groups.

        Raises:
            ConfigError: the one that was asked for is not among them.
        """
        abilities = list(self._abilities)
        if self.place.layout.server and self._settings.precision != "float32":
            mine = Ability(*self._hello.ability)
            lacking = torch.tensor([not mine.bfloat16, not mine.float16], dtype=torch.float64)
            self.sum_over_cluster(lacking)
            abilities.append(Ability("a device of some group", not lacking[0], not lacking[1]))
        return agree(self._settings.precision, abilities, bool(self.given.scalers))

    def normalise(self, models: list[nn.Module], window: Window) -> None:
        """Let every SyncBatchNorm see the batches of all workers that reduce together."""
        layers = [layer for model in models for layer in model.modules() if type(layer) is nn.SyncBatchNorm]
        self.aligned = self.reduces and bool(layers)
        # A group of its own: gradients travel on the default one at the same time.
        group = dist.new_group(timeout=self.limit) if self.aligned else None
        for model in models:
            cross_batch_norm(model, group, window)

    def attach(self, models: list[nn.Module], counters: list[UpdateCounter]) -> None:
        """Hand the models over to the executor; with a server, join it."""
        self.models, state = models, FlatState(models)
        self.recorder.mark("setup", bytes=4 * state.size)
        plain = self.place.layout.gradients
        self.executor.attach(state, counters, PlainSteps(state, self.given.optimizers) if plain else None)
        if self.place.probing:
            groups = [worker.group for worker in self.place.job.workers]
            self.executor.at_barrier = lambda: self.recorder.mark(
                "wires", **wires.measure(groups, 4 * state.size, self.place.device), **handling.measure(state)
            )
        if not isinstance(self._source, ServerSource):
            return
        if self.place.leads:
            self._source.client, self._initialises = self._join(state.size)

    def start(self) -> None:
        """Training or evaluation begins: from here on the weights are the run's. Does nothing the second time."""
        if self.started:
            return
        self.started = True
        if isinstance(self._source, ServerSource):
            self.executor.start_from_server(self._initialises, self.progress)

    @property
    def is_main(self) -> bool:
        """First worker of the run, or of what is left of it: the one that prints, shows progress and saves."""
        told = self._source.main if isinstance(self._source, ServerSource) else None
        return self.place.is_main if told is None else told and self.place.leads

    def keeps(self, path: Path) -> bool:
        """Whether ``run.save(path)`` is to write: what a probe trains is thrown away."""
        return not self.place.probing

    @contextmanager
    def newest_weights(self, progress: Progress) -> Iterator[Progress]:
        """The models hold what a checkpoint should: with a server, its weights. ``progress`` is the loop's own."""
        if isinstance(self._source, ServerSource) and self.started:
            with self.executor.newest_weights() as known:
                yield known
        else:
            yield progress

    def check_in_step(self) -> None:
        """Raises ConfigError if a collective in the training loop would not find every worker there."""
        pieces = self.reduces and any(worker.micro_batch is not None for worker in self.place.job.workers)
        if not (self.place.layout.server or pieces):
            return
        whose, what = ("groups", "steps") if self.place.layout.server else ("workers", "micro-batches")
        raise ConfigError(
            f"run.reduce was called inside the training loop of {self.place.plan.strategy}, where {whose} take "
            f"different numbers of {what} and would wait for each other",
            remedy="Call it after the loop.",
        )

    def sum_over_cluster(self, values: Tensor) -> None:
        """Sum float64 ``values`` in place over all workers of the run."""
        if self.reduces:
            on_device = values.to(self.place.device)
            dist.all_reduce(on_device)
            values.copy_(on_device)
        if isinstance(self._source, ServerSource):
            if self._source.client is not None:
                for piece in torch.split(values, MOST_VALUES):
                    self._source.client.reduce(piece)
            self._source.share(values)

    def _take_place(self) -> Place:
        return take_place(self._launch, self._settings.global_batch)

    def _make_executor(self) -> Executor:
        place = self.place
        program = get(place.plan.strategy).program(place.member)
        balancer = Balancer(place.job.workers, fixed=not place.plan.rebalance)
        return Executor(program, place.member, self._source, self.recorder, self.distributed, balancer)

    def _join(self, size: int) -> tuple[Client, bool]:
        if self.place.folder is None:
            raise LinkError("no server is known", remedy="Start with `paceline run`.")
        told = json.loads(self.place.folder.server.read_text())
        plan = self.place.plan
        me = Newcomer(self.place.job.name, self._launch.job, size, self._hello)
        return join(told["url"], told["host"], self._launch.token, me, plan.timeout_seconds, plan.wire)

    def _recorder(self) -> Recorder:
        place = self.place
        return Recorder(place.folder.traces / f"{place.rank:05d}.jsonl" if place.folder else None, place.header)

    def _watch_for_errors(self) -> None:
        """Before an exception ends this process, write it down for the launcher."""
        before = sys.excepthook

        def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            self._failed = True
            if self.rescue(error):
                return  # a stop, as it looks where the peers have gone first
            self._note(error)
            before(kind, error, trace)

        sys.excepthook = note

    def _end_well(self) -> None:
        atexit.register(self._close)

    def _note(self, error: BaseException) -> None:
        launch = self._launch
        if launch.folder is not None:
            where = (launch.job, launch.rank)
            failures.write_down(RunFolder(launch.folder).errors, where, error, self._where, self.samples_at_once())

    def _close(self) -> None:
        stopped = self.stopped or self.stop_wanted()
        early = self.executor.training and not stopped and not self.probed
        if early and not self._failed:
            self._note(WorkerError("the recipe ended in the middle of an epoch"))
        self.recorder.close(complete=not self._failed and not early)
        if self._failed:
            return  # peers must notice at once: no goodbye, the sockets go with the process
        if isinstance(self._source, ServerSource) and self._source.client is not None:
            with contextlib.suppress(LinkError):
                self._source.client.leave()
        if dist.is_initialized():
            dist.destroy_process_group()


def _prepare(place: Place, launch: Launch) -> Store | None:
    """Threads, device and process group. Returns the store through which the workers of the job found one another."""
    torch.set_num_threads(place.worker.threads)
    cuda = place.device.type == "cuda"
    if cuda:
        try:
            if not torch.cuda.is_available():
                raise RuntimeError("this host has no CUDA device, or torch was built without CUDA")
            torch.cuda.set_device(place.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise LaunchError(
                f"{place.device} cannot be used: {reason}",
                where=str(place),
                remedy="See `python -m torch.utils.collect_env`.",
            ) from error
    if not launch.distributed:
        return None
    limit = datetime.timedelta(seconds=place.plan.timeout_seconds)
    devices = {worker.device for worker in place.job.workers}
    alike = cuda and "cpu" not in devices and len(devices) == len(place.job.workers)
    backend = "cpu:gloo,cuda:nccl" if alike and dist.is_nccl_available() else "gloo"
    store, rank, size = next(rendezvous("env://", launch.rank, launch.world_size, timeout=limit))
    dist.init_process_group(
        backend, store=PrefixStore("group", store), rank=rank, world_size=size, timeout=limit
    )  # fmt: skip
    return PrefixStore("paceline", store)
