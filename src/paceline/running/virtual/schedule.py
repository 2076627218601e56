"""What a trace says of the order in which jobs meet the server, and of when each update began."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from paceline.errors import ConfigError
from paceline.ops import Range
from paceline.schema.plan import Plan
from paceline.schema.trace import Trace, WorkerTrace


@dataclass(frozen=True, slots=True)
class Exchange:
    """One round of a job with the server: what it leased, trained and pushed, and what it pulled then.

    ``found``: pushes that its own found at the server, ``staleness`` versions after its weights; of no meaning where it
    leased nothing. ``pulled``: pushes in the weights that it got, which are of ``version``. ``heard``: samples
    trained by all groups, as it knew when it got the lease; None: those that the server has in virtual time.
    ``ahead``: it was leased before the round before was pushed.
    """

    epoch: int
    work: Range
    found: int
    pulled: int
    version: int = 0
    staleness: int = 0
    heard: int | None = None
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """One job's part of a run. ``first``: pushes in the weights it began from. ``starts``: of its updates; ``stops``:
    of its epochs; both in seconds. ``shares``: new ones of its workers, by the number of updates made before."""

    first: int
    exchanges: Sequence[Exchange]
    starts: Sequence[float]
    stops: Sequence[float]
    shares: Mapping[int, Sequence[int]]


def schedules(plan: Plan, trace: Trace) -> list[Schedule]:
    """One for each job of ``plan``, from what its leader did in ``trace``.

    Raises:
        ConfigError: a leader died.
    """
    made, rank = [], 0
    workers = {worker.rank: worker for worker in trace.workers}
    for job in plan.jobs:
        leader = workers[rank]
        if not leader.complete:
            raise ConfigError(f"group '{leader.group}' does not live to the end", remedy="Train without deaths.")
        starts = [span.start for span in leader.spans if span.kind == "compute"] if trace.simulated else []
        stops = [float(mark.values["stop"]) for mark in leader.marks if mark.kind == "epoch"]
        pulls = [mark.values for mark in leader.marks if mark.kind == "pull"]
        first = int(pulls[0]["pushes"]) if pulls and pulls[0]["epoch"] < 0 else 0
        ranks = range(rank, rank + len(job.workers))
        marks = [mark.values for each in ranks for mark in workers[each].marks if mark.kind == "shares"]
        shares = {int(values["update"]): values["shares"] for values in marks}
        made.append(Schedule(first, _exchanges(leader), starts, stops, shares))
        rank = ranks.stop
    return made


def _exchanges(leader: WorkerTrace) -> list[Exchange]:
    pulls = [mark.values for mark in leader.marks if mark.kind == "pull" and mark.values["epoch"] >= 0]
    return [
        Exchange(
            pull["epoch"],
            Range(pull["start"], pull["stop"]),
            found=pull["found"],
            pulled=pull["pushes"],
            version=pull["version"],
            staleness=pull["staleness"],
            heard=pull["heard"],
            ahead=pull["ahead"],
        )
        for pull in pulls
    ]


class Course:
    """The schedules of a run, known from the moment that its first job begins and says how long the run is.

    Args:
        plan: of the run.
        foresee: samples of an epoch and number of epochs -> the run's trace.
    """

    def __init__(self, plan: Plan, foresee: Callable[[int, int], Trace]) -> None:
        self._plan, self._foresee = plan, foresee
        self._size = self._epochs = 0
        self._schedules: list[Schedule] = []

    def first_pushes(self, job: int) -> int:
        """In the weights that the job begins from."""
        return self._schedules[job].first if self._schedules else 0

    def begin(self, job: int, epoch: int, size: int, epochs: int) -> Schedule:
        """The job begins an epoch of ``size`` samples, of so many epochs in all.

        Raises:
            ConfigError: the epoch has another size than the ones before, or is one more than was said.
        """
        if not self._schedules:
            self._size, self._epochs = size, epochs
            self._schedules = schedules(self._plan, self._foresee(size, epochs))
        if size != self._size:
            raise ConfigError(
                f"epoch {epoch} has {size} samples", expected=f"{self._size}, as those before it in virtual time",
                remedy="Give run.loader the same dataset in each epoch.",
            )  # fmt: skip
        if epoch >= self._epochs:
            raise ConfigError(
                f"epoch {epoch} began after run.epochs({self._epochs})",
                remedy="Say the same number of epochs in every worker, once.",
            )
        return self._schedules[job]

    def trace(self, epochs: int) -> Trace:
        """What happened in the ``epochs`` epochs that were trained."""
        return self._foresee(self._size, epochs)


class Recorded(Course):
    """The course that a run has taken, from its trace."""

    def __init__(self, plan: Plan, trace: Trace) -> None:
        super().__init__(plan, lambda size, epochs: trace)
        epochs = [mark.values for mark in trace.workers[0].marks if mark.kind == "epoch"]
        self._size, self._epochs = epochs[0]["size"], len(epochs)
        self._schedules = schedules(plan, trace)
