"""What workers settle among themselves in the rare moments when their loops do not run alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from paceline.data.streams import Stream
from paceline.errors import ConfigError
from paceline.reduction.tally import Tally
from paceline.running.worker import Worker
from paceline.state import snapshot


def agree_on_streams(worker: Worker, stream: Stream) -> list[int]:
    """How many samples each worker has for the first update of an epoch of streams.

    A worker without any borrows one sample of another's to go through the motions with.

    Raises:
        ConfigError: the strategy deals samples out by a server; of workers that reduce together, nobody has any.
    """
    place = worker.place
    if place.layout.server:
        raise ConfigError(
            f"a dataset without a length, or a batch_sampler, under {place.plan.strategy}, whose server deals out the "
            "positions of a dataset",
            remedy="Give run.loader a dataset with a length, or use --strategy allreduce.",
        )
    if not worker.reduces:
        return [len(stream.ahead)]
    told = torch.zeros(2, worker.peers, dtype=torch.float64)
    told[:, place.member.position] = torch.tensor([len(stream.ahead), stream.checksum], dtype=torch.float64)
    dist.all_reduce(told)
    counts, checksums = [int(count) for count in told[0]], told[1].tolist()
    if not any(counts):
        raise ConfigError(
            "no worker's stream has a sample",
            remedy="Check the path to the data; a generator is used up after one epoch, a list is not.",
        )
    if not all(counts):
        lent = [stream.spare]
        dist.broadcast_object_list(lent, src=counts.index(max(counts)))
        stream.spare = stream.spare or lent[0]
    known = [checksum for checksum in checksums if checksum]
    if len(set(known)) < len(known) and place.is_main:
        print(
            "warning: several workers' streams begin with the same samples; give each its own part, as by "
            "run.rank and run.world_size.",
            flush=True,
        )
    return counts


def check_alike(total: Tally, where: str) -> None:
    """Look whether the workers have added up gradients of one update, after as many steps.

    Raises:
        ConfigError: they have not.
    """
    updates, steps = total.row("update"), total.row("steps")
    if min(updates) < max(updates):
        raise ConfigError(
            "the workers came to different numbers of run.backward calls in one update",
            remedy="Make the same calls on every worker: run.backward(0 * loss) where there is nothing to learn.",
            where=where,
        )
    if min(steps) < max(steps):
        raise ConfigError(
            f"the workers' optimizers have stepped in {min(steps):.0f} to {max(steps):.0f} updates",
            expected="the same number on all, for a step is left out by all workers or none",
            remedy="Count updates by run.samples_seen, not by batches: a worker may take its share in several.",
            where=where,
        )


def catch_up(worker: Worker, present: Sequence[float], steps: int) -> int:
    """Some loops have left out a backward of this update, and with it a step: they take the state of one that did not.

    Args:
        worker: this one; all of them must call it.
        present: for each worker, how many backward calls its loop came to.
        steps: how many updates this worker has stepped in.

    Returns:
        The same of the worker whose state they took.
    """
    given, most, mine = worker.given, max(present), worker.place.member.position
    source = present.index(most)
    parameters = [parameter for model in given.models for parameter in model.parameters()]
    told: list[Any] = [None, [], steps]
    if mine == source:
        state = snapshot.take(given.models, given.optimizers, [], given.scalers)
        told[0] = snapshot.Snapshot({name: tensor.cpu() for name, tensor in state.tensors.items()}, state.rest)
        told[1] = [None if parameter.grad is None else parameter.grad.cpu() for parameter in parameters]
    dist.broadcast_object_list(told, src=source)
    if present[mine] < most:
        state, gradients, _ = told
        snapshot.restore(state, given.models, given.optimizers, [], given.scalers)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is None:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.copy_(gradient)
    return int(told[2])
