"""Where a worker's time goes: spans of computing and exposed communication, training seconds, pacing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import nn

from paceline.cost.compute import seconds
from paceline.emulation.pacing import Pacer
from paceline.hardware.facts import find
from paceline.hardware.host import cards
from paceline.observation.progress import Progress
from paceline.observation.recorder import Recorder
from paceline.reduction.buckets import Sent
from paceline.running.membership import Place

Moment = float | torch.cuda.Event
WARM_UP = 1  # updates of an epoch: after a pause caches are cold


class Stopwatch:
    """Follows one worker's loop.

         batch handed over     backward ends   all sent   gradients summed      loop asks again
    |-load-|------ compute ----------|--- send ---|--- exchange ---|--- compute (step, rest) ---|

    What buckets that leave inside backward take to send is moved to its end. On a GPU, which computes behind the
    loop's back, moments are events in its stream, and become seconds once it was waited for.

    Args:
        recorder: gets the spans.
        place: of the worker.
        sent: seconds that it took so far to hand gradients to the link, and of the thread's CPU.
    """

    def __init__(self, recorder: Recorder, place: Place, sent: Callable[[], Sent] = lambda: (0.0, 0.0)) -> None:
        self._recorder, self._clock, self._sent = recorder, recorder.clock, sent
        self._device, self._cuda, self._fixed = place.device, place.device.type == "cuda", 0
        self._worker, self._updates, self._took = place.worker, 0, 0.0
        paced = place.plan.emulation == "pacing"
        self._pacer = Pacer(place.worker.speed, place.worker.pace) if paced else Pacer(None)
        self._progress = Progress(place.folder.progress if place.folder and place.leads else None)
        self.training_seconds = 0.0
        self._epoch_start: float | None = None
        self._since, self._samples, self._sent_before = 0.0, 0, 0.0
        self._unpaced: Sent = (0.0, 0.0)
        self._moments: list[Moment] = []  # where computing begins or ends
        self._sending: list[tuple[float, float]] = []  # for each exchange: seconds inside backward, and after it

    def follow(self, model: nn.Module) -> None:
        """Pace the computing of ``model``, if this device is emulated by pacing."""
        if self._pacer.slows:
            pace(model, self._settle)

    def begin_update(self) -> None:
        """An update begins; the first one of an epoch starts the training clock."""
        if self._epoch_start is None:
            self._epoch_start, self._updates = self._clock(), 0
        self._updates += 1
        self._took = 0.0

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Samples are read."""
        start = self._clock()
        yield
        self._own("load", start, self._clock())

    def computing(self, samples: int) -> None:
        """The loop was handed ``samples`` samples."""
        self._pacer.begin(samples)
        self._since, self._samples, self._unpaced = self._clock(), samples, self._sent()
        self._sent_before = self._unpaced[0]
        self._moments, self._sending = [self._moment()], []

    @contextmanager
    def exchanging(self) -> Iterator[None]:
        """Backward is through; what comes now is communication that computing does not hide."""
        self._leave_out_sending()
        start, worked, (sent, _) = self._clock(), self._pacer.worked(), self._unpaced
        self._moments.append(self._moment())
        yield
        self._moments.append(self._moment())
        self._unpaced = self._sent()
        self._sending.append((sent - self._sent_before, self._unpaced[0] - sent))
        self._sent_before = self._unpaced[0]
        self._pacer.left_out(self._clock() - start, self._pacer.worked() - worked)

    def computed(self) -> None:
        """The loop came back for more."""
        self._pacer.end()
        self._moments.append(self._moment())
        if self._cuda:
            torch.cuda.synchronize()
        begin, *middle, end = [self._seconds_at(moment) for moment in self._moments]
        for (inside, after), start, stop in zip(self._sending, middle[::2], middle[1::2], strict=True):
            leaves = start if self._cuda else start - inside  # a GPU has gone on computing meanwhile
            left = min(start + after, stop)
            self._own("compute", begin, leaves)
            self._recorder.span("send", leaves, left)
            self._recorder.span("exchange", left, stop)
            begin = stop
        self._own("compute", begin, end, self._samples)

    def slowness(self, samples: int) -> float:
        """How many times what the plan says for ``samples`` samples this update took, without sending, exchanging and
        waiting; 0 where that says nothing: the plan is silent, or the epoch has just begun."""
        if not samples or self._updates <= WARM_UP or self._worker.solo_samples_per_second is None:
            return 0.0
        return self._took / seconds(self._worker, samples)

    def _own(self, kind: Literal["load", "compute"], start: float, stop: float, samples: int = 0) -> None:
        """A stretch of this worker's own work."""
        self._recorder.span(kind, start, stop, samples)
        self._took += stop - start

    def _settle(self) -> None:
        self._leave_out_sending()
        self._pacer.settle()

    def _leave_out_sending(self) -> None:
        """What buckets took that have left meanwhile is not paced."""
        before, self._unpaced = self._unpaced, self._sent()
        self._pacer.left_out(*(now - then for now, then in zip(self._unpaced, before, strict=True)))

    def _moment(self) -> Moment:
        if not self._cuda:
            return self._clock()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _seconds_at(self, moment: Moment) -> float:
        if isinstance(moment, torch.cuda.Event):
            return self._since + float(self._moments[0].elapsed_time(moment)) / 1000  # type: ignore[union-attr]
        return moment

    def measure_memory(self) -> None:
        """From now on, note the most that this device's memory holds; nothing on a CPU."""
        if self._cuda:
            torch.cuda.reset_peak_memory_stats(self._device)
            self._fixed = torch.cuda.memory_allocated(self._device)

    def note_memory(self) -> None:
        """Write down what was measured since."""
        if not self._cuda:
            return
        free, _ = torch.cuda.mem_get_info(self._device)
        self._recorder.mark(
            "memory",
            uuid=card.uuid if (card := find(cards(), str(self._device))) else None,
            memory_bytes=free + torch.cuda.memory_reserved(self._device),
            fixed_bytes=self._fixed,
            peak_bytes=torch.cuda.max_memory_allocated(self._device),
        )

    def show(self, samples: int, total: int, before: int) -> None:
        """Keep the progress file fresh."""
        self._progress.show(samples, total, self._seconds(), before)

    def epoch_done(self, epoch: int, size: int) -> None:
        """Stop the training clock until the next epoch."""
        if self._epoch_start is None:
            return
        start, stop = self._epoch_start, self._clock()
        self.training_seconds = self._seconds()
        self._epoch_start = None
        self._recorder.mark("epoch", epoch=epoch, start=start, stop=stop, size=size)

    def _seconds(self) -> float:
        running = self._clock() - self._epoch_start if self._epoch_start is not None else 0.0
        return self.training_seconds + running


def pace(model: nn.Module, settle: Callable[[], None]) -> None:
    """Call ``settle`` after each layer of forward and each gradient of backward, before a bucket with it leaves.

    So an emulated device rests all along its work, as a slow one is slow all along. With one rest at the end, devices
    that start an update together would compute in one burst, and disturb one another on shared cores far more than
    when each is measured alone; and a bucket would leave too early.
    """
    for module in model.modules():
        if next(module.children(), None) is None:
            module.register_forward_hook(lambda *_: settle())
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda _: settle())  # type: ignore[no-untyped-call]
