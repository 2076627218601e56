"""The run as the user's loop sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, default_collate

from paceline.data.batches import Collate
from paceline.data.streams import of_iterable, of_sampler
from paceline.errors import ConfigError
from paceline.launchers import bootstrap
from paceline.reduction.buffers import share_first_weights
from paceline.reduction.gradients import Gradients
from paceline.reduction.normalisation import reestimate
from paceline.reduction.rates import scale_rates
from paceline.reduction.window import UpdateCounter, Window, keep_gradients, scale_in, step_in
from paceline.running.checkpoints import Checkpoints
from paceline.running.loop import Loop
from paceline.running.stopping import StopRequest
from paceline.running.virtual import seat
from paceline.running.worker import Worker
from paceline.schema.settings import Precision, RateRule, Reduction, Settings
from paceline.state.things import sort_out


def init(
    *,
    global_batch: int,
    seed: int = 0,
    reduction: Reduction = "sample-mean",
    precision: Precision = "float32",
    lr_rule: RateRule = "none",
    base_batch: int | None = None,
) -> Run:
    """Join whatever launched this process: ``paceline run``, a bare torchrun, or nothing (then alone).

    Args:
        global_batch: samples per update of the whole cluster, whatever the number of workers.
        seed: of the order of samples, and of what is random in a sample or a batch.
        reduction: what the losses given to ``run.backward`` are over a batch: a mean over samples, a mean over tokens
            (then ``run.backward(loss, weight=tokens)``), or a sum.
        precision: of ``run.autocast()``. ``auto`` takes the best that every device of the cluster has in hardware.
        lr_rule: whether learning rates were chosen for another batch, ``base_batch``, and grow from there to the
            global batch: ``linear`` with it (Goyal et al. 2017), ``sqrt`` with its root.
        base_batch: samples per update that the learning rates in the script are for.

    Raises:
        ConfigError: an argument is wrong by itself, or does not fit the plan or the number of workers.
        LaunchError: an emulated device could not be set up.
    """
    told = Settings.parse(
        {
            "global_batch": global_batch,
            "seed": seed,
            "reduction": reduction,
            "precision": precision,
            "lr_rule": lr_rule,
            "base_batch": base_batch,
        },
        "paceline.init",
    )
    join = seat.here()
    return Run(Worker(bootstrap.read(), told), told) if join is None else join(told)


class Run:
    """One training run, seen from one worker. Made by ``paceline.init``; every worker makes the same calls."""

    def __init__(self, worker: Worker, settings: Settings, loop: type[Loop] = Loop) -> None:
        self.place, self.settings = worker.place, settings
        self.global_batch, self.seed = settings.global_batch, settings.seed
        self.device = worker.place.device
        self._worker, self._window = worker, Window()
        self._gradients = Gradients(self._window, settings.reduction, worker.place.member.position, worker.peers)
        self._loop = loop(worker, self._window, self._gradients, settings)
        self._dtype = torch.float32
        self._request = StopRequest(lambda: self.samples_seen > 0)
        self._checkpoints = Checkpoints(worker, self._loop, settings, self._request)
        worker.epochs = lambda: self._loop.epochs
        worker.samples_at_once = lambda: self._window.samples if self._window.unfinished else 0
        if not self.probing:
            worker.rescue = self._checkpoints.rescue
            worker.stop_wanted = self._loop.stop_wanted = lambda: self._request.number > 0
            self._loop.stop = self._checkpoints.stop
            self._request.listen()

    @property
    def is_main(self) -> bool:
        """True on one worker of the run, the one to print and write files; once its group is gone, on another."""
        return self._worker.is_main

    @property
    def probing(self) -> bool:
        """The script is only run for some seconds to measure this device. ``save`` writes nothing then."""
        return self.place.probing

    @property
    def rank(self) -> int:
        """This worker's number in the whole run, from 0."""
        return self.place.rank

    @property
    def world_size(self) -> int:
        """Workers of the whole run."""
        return len(self.place.plan.workers)

    @property
    def samples_seen(self) -> int:
        """Samples trained by the whole cluster so far; in asynchronous strategies, as of this group's last exchange."""
        return self._worker.executor.samples_seen

    @property
    def samples(self) -> int:
        """Samples of the latest batch that train: 0 where this worker has none and only keeps step with its peers."""
        return self._window.samples

    def setup(self, *things: Any) -> Any:
        """Make models, optimizers, schedulers and gradient scalers ready; returns them in the order given.

        They stay the objects they are; one alone is returned as such, not in a tuple. Models move to the worker's
        device, and all workers begin with the first one's weights and scale. An optimizer acts on the last micro-batch
        of an update only. A scheduler counts global updates (samples seen over the global batch) by itself.

        Raises:
            ConfigError: called twice, or with what it cannot take; the workers differ in what they were given.
            LinkError: another worker did not come; the run's server is not there or refuses.
        """
        if self._worker.models:
            raise ConfigError("run.setup was called twice", remedy="Hand everything over in one call.")
        given = sort_out(things)
        for model in given.models:
            self._loop.watch.follow(model.to(self.device))
        self._worker.meet(given)
        for optimizer in given.optimizers:
            step_in(optimizer, self._window)
        for scaler in given.scalers:
            scale_in(scaler, self._window)
        if self.settings.lr_rule != "none":
            line = scale_rates(given.optimizers, given.schedulers, self.settings)
            self._worker.recorder.mark("rates", line=line)
            self.print(line)
        counters = [UpdateCounter(scheduler, self.global_batch, self._window) for scheduler in given.schedulers]
        if self._worker.reduces:
            share_first_weights(given.models)
        self._worker.normalise(given.models, self._window)
        self._gradients.attach(given.models, self._worker.limit)
        self._worker.attach(given.models, counters)
        self._loop.attach(given.models)
        agreed = self._worker.agree_on_precision()
        self._dtype = getattr(torch, agreed.dtype)
        if self.settings.precision != "float32":
            self.print(f"precision: {agreed.reason}")
        self._checkpoints.resume()
        if self._worker.accumulates:  # elsewhere the models' own zero_grad needs no gate, and the models stay picklable
            for model in given.models:
                keep_gradients(model, self._window)
        return things[0] if len(things) == 1 else things

    def epochs(self, count: int) -> Iterator[int]:
        """Epoch numbers from 0, or from the one that a checkpoint was saved in; ``loader`` shuffles by them."""
        self._loop.epochs = count
        self._checkpoints.check_left(count)
        for epoch in range(self._loop.first, count):
            self._loop.epoch = epoch
            yield epoch

    def loader(
        self,
        dataset: Dataset[Any],
        *,
        train: bool = True,
        shuffle: bool = True,
        collate_fn: Collate = default_collate,
        batch_sampler: Iterable[Sequence[int]] | None = None,
    ) -> Iterator[Any]:
        """This worker's batches of ``dataset``, on its device: over the cluster each sample once.

        A dataset with a length is the same on every worker, and paceline cuts it. An ``IterableDataset``, or a
        ``batch_sampler``, is this worker's own: an update is what the workers have ready, a share or a batch each,
        until the last one's stream ends; none waits for a worker that has nothing left.

        Args:
            dataset: map-style or iterable.
            train: the strategy deals out updates; False: a fixed part of the samples for evaluation, in order.
            shuffle: a new order each epoch, the same whatever the number of workers.
            collate_fn: a list of samples -> a batch.
            batch_sampler: this worker's batches, as lists of indices, in the order they shall be trained.

        Raises:
            ConfigError: the dataset has no length or no samples; no ``setup``; a second pass in one epoch; a stream
                where a server deals out samples.
        """
        if train and not self._worker.models:
            raise ConfigError("run.loader was called before run.setup", remedy="Call run.setup(model, optimizer).")
        stream = None
        if batch_sampler is not None:
            stream = of_sampler(dataset, batch_sampler, collate_fn)
        elif isinstance(dataset, IterableDataset):
            stream = of_iterable(dataset, self.place.worker.share or self.global_batch, collate_fn)
        if stream is not None:
            return self._loop.streaming(stream) if train else self._loop.evaluation_stream(stream)
        if train:
            return self._loop.training(dataset, collate_fn, shuffle)
        return self._loop.evaluation(dataset, collate_fn)

    def backward(self, loss: Tensor, weight: float | None = None, *, retain_graph: bool = False) -> None:
        """Gradients of ``loss``, weighed so that their sum over all workers is that of one device on the whole batch.

        The loss is weighed before backward, never the gradient after it. May be called several times an update, as for
        several losses; their gradients add up.

        Args:
            loss: over the batch that the loader gave last: a mean over its samples, a mean over its tokens, or a sum,
                as ``reduction`` said in ``init``.
            weight: with ``token-mean``, how many tokens the loss is a mean over.
            retain_graph: as in ``Tensor.backward``, where another backward goes through the same graph.

        Raises:
            ConfigError: outside ``run.loader``; a weight is missing or not wanted.
        """
        self._gradients.backward(loss, weight, retain_graph)
        if self._window.last:
            with self._loop.watch.exchanging() if self._worker.reduces else nullcontext():
                self._gradients.reduce()

    def clip_grad_norm_(self, model: nn.Module, max_norm: float) -> Tensor:
        """Clip the norm of the reduced gradient, before ``optimizer.step()``. Returns the norm before clipping, or nan
        where the update is not complete yet."""
        if not self._window.last:
            return torch.tensor(float("nan"))
        return nn.utils.clip_grad_norm_(model.parameters(), max_norm)

    def reestimate(self, model: nn.Module, batches: Iterable[Any]) -> None:
        """Take the running statistics of every BatchNorm anew from ``batches``, as ``torch.optim.swa_utils.update_bn``
        does; over the whole cluster each value weighs the same, whichever batch and worker it was in.

        Args:
            model: as ``setup`` gave it back.
            batches: such as ``run.loader(dataset, train=False)``. Of a list or tuple the model gets the first element.
        """
        reestimate(model, batches, self._worker.sum_over_cluster)

    def reduce(self, total: Tensor | float, count: Tensor | float) -> float:
        """``total / count``, both summed over the whole cluster; nan if the count is 0. Every worker must call it.

        Raises:
            ConfigError: inside a training loop that not all workers go through as often.
        """
        if self._window.open:
            self._worker.check_in_step()
        self._worker.start()
        values = torch.tensor([float(total), float(count)], dtype=torch.float64)
        with self._loop.watch.exchanging() if self._window.open else nullcontext():
            self._worker.sum_over_cluster(values)
        return float(values[0] / values[1]) if values[1] else float("nan")

    def log(self, **values: float) -> None:
        """Note figures (``accuracy=...``) at the present sample count; the last ``accuracy`` is the summary's."""
        if taken := {"samples", "seconds"} & values.keys():
            raise ConfigError(f"run.log was given {min(taken)}", remedy="Choose another name; every entry has it.")
        figures = {name: float(value) for name, value in values.items()}
        seconds = self._loop.watch.training_seconds
        self._worker.recorder.mark("log", samples=self.samples_seen, seconds=seconds, **figures)

    def print(self, *things: Any) -> None:
        """``print`` on the main worker only."""
        if self.is_main:
            print(*things, flush=True)

    def autocast(self) -> torch.autocast:
        """A context for forward and loss, in the precision that all devices agreed on; nothing changes for float32."""
        return torch.autocast(self.device.type, self._dtype, enabled=self._dtype != torch.float32)

    def unwrap(self, model: nn.Module) -> nn.Module:
        """The model as it was written, without what ``torch.compile`` put around it."""
        inner = getattr(model, "_orig_mod", model)
        return inner if isinstance(inner, nn.Module) else model

    def save(self, path: str | Path) -> None:
        """Write a checkpoint into the folder ``path``, on the main worker; whole or not at all.

        Raises:
            ConfigError: the folder cannot be written; a checkpoint that it held is untouched.
        """
        self._checkpoints.save(Path(path))

    def load(self, path: str | Path) -> None:
        """Go on from the checkpoint in ``path``, right after ``setup``: weights, optimizers, schedulers, scalers, and
        the place in the data, on as many other workers as there are. Each job's first worker reads it.

        Raises:
            ConfigError: there is no checkpoint, it is damaged, or it does not fit; names the first difference.
        """
        self._checkpoints.load(Path(path))
