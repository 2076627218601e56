"""What every strategy of the table keeps to. Programs are driven by hand: no clock, no tensor, no process.

Each job takes leases from one ledger in turn; its members run in step, as their collectives make them do in a real run.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import ops
from paceline.errors import ConfigError
from paceline.ops import Adopt, Barrier, Compute, Lease, Operation, Pull, Push, Range, Rebalance, Update
from paceline.schema.profile import DeviceProfile, Profile
from paceline.server.ledger import Ledger
from paceline.strategies import TABLE
from paceline.strategies.base import Layout, Member, Strategy, get

PROFILE = Profile(
    cluster="c",
    emulation="none",
    global_batch=8,
    model_bytes=4000,
    epoch_samples=100,
    devices=[
        DeviceProfile(
            group=name, device="cpu", speed=None, threads=1, micro_batch=None, batch=4, samples_per_second=rate
        )
        for name, rate in [("fast", 300.0), ("slow", 100.0)]
    ],
)
ENOUGH = 1000  # operations without asking for work: an endless loop

shares = st.lists(st.integers(0, 9), min_size=1, max_size=3).filter(any)
clusters = st.lists(st.tuples(shares, st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=3)

Cluster = list[tuple[list[int], int, int]]  # shares, local steps and overlap of each group


def jobs(layout: Layout, cluster: Cluster) -> list[list[Member]]:
    """The members of each job, laid out as the planner would."""
    every = [share for group, _, _ in cluster for share in group]
    if layout.devices == "fastest":
        return [[Member((sum(every),), 0)]]
    if not layout.reduces:
        return [[Member((share,), 0)] for share in every if share]
    groups = cluster if layout.jobs == "groups" else [(every, 1, 0)]
    return [
        [Member(tuple(group), i, steps, min(overlap, steps)) for i in range(len(group))]
        for group, steps, overlap in groups
    ]


class Job:
    """The programs of the workers of one job, each run up to the lease it waits for."""

    def __init__(self, strategy: Strategy, members: list[Member]) -> None:
        self.members = members
        self._programs = [strategy.program(member) for member in members]
        self.first = [next(program) for program in self._programs]
        self._waiting = [self._to_lease(i, operation)[1] for i, operation in enumerate(self.first)]

    def _to_lease(self, i: int, operation: Operation) -> tuple[list[Operation], Lease]:
        done: list[Operation] = []
        while not isinstance(operation, Lease):
            done.append(operation)
            assert len(done) < ENOUGH, "the program never asks for work"
            shares = self.members[i].shares if isinstance(operation, Rebalance) else None
            operation = self._programs[i].send(shares)
        return done, operation

    @property
    def wants(self) -> int:
        """What the job asks for: every member asks for the same."""
        (samples,) = {lease.samples for lease in self._waiting}
        return samples

    @property
    def ahead(self) -> bool:
        """Whether it asks before it pushes."""
        (ahead,) = {lease.ahead for lease in self._waiting}
        return ahead

    def train(self, work: Range) -> list[list[Operation]]:
        """What each member does with the range, up to its next lease."""
        done = []
        for i, program in enumerate(self._programs):
            operations, self._waiting[i] = self._to_lease(i, program.send(work))
            done.append(operations)
        return done

    def close(self) -> None:
        for program in self._programs:
            program.close()


def epoch(strategy: Strategy, cluster: Cluster, size: int) -> list[tuple[Job, Range, list]]:
    """One epoch of ``size`` samples: (job, lease, what each member did with it), in order. All samples end as done."""
    ledger = Ledger()
    ledger.open(0, size)
    running = {f"job{i}": Job(strategy, members) for i, members in enumerate(jobs(strategy.layout, cluster))}
    story = []
    while not ledger.over:
        for name, job in running.items():
            if not strategy.layout.server:
                ledger.settle(name)
            ahead = job.ahead
            work = ledger.take(name, job.wants, job.members[0].batch, 0, ahead) or Range(size, size)
            if work or ahead:
                story.append((job, work, job.train(work)))
                for _ in of(Push, story[-1][2][0]):
                    ledger.settle(name)
    for job in running.values():
        job.close()
    return story


def of(kind: type, operations: list[Operation]) -> list:
    return [operation for operation in operations if isinstance(operation, kind)]


every_strategy = pytest.mark.parametrize("strategy", [get(name) for name in TABLE], ids=list(TABLE))
any_epoch = given(cluster=clusters, size=st.integers(0, 200))
unhurried = settings(deadline=None, max_examples=50)


@every_strategy
def test_it_says_what_it_is_in_one_line(strategy):
    assert strategy.about
    assert "\n" not in strategy.about
    assert isinstance(strategy.layout, Layout)


def test_no_two_say_the_same():
    assert len({get(name).about for name in TABLE}) == len(TABLE)


@every_strategy
@unhurried
@any_epoch
def test_every_sample_is_computed_once_over_all_members(strategy, cluster, size):
    computed = Counter(
        position
        for _, _, members in epoch(strategy, cluster, size)
        for operations in members
        for compute in of(Compute, operations)
        for position in range(compute.part.start, compute.part.stop)
    )
    assert computed == Counter(range(size))


@every_strategy
@unhurried
@any_epoch
def test_every_operation_is_one_of_the_list_and_the_first_asks_for_work_or_waits_for_all(strategy, cluster, size):
    for job, _, members in epoch(strategy, cluster, size):
        assert all(isinstance(first, Lease | Barrier) for first in job.first)
        assert all(isinstance(operation, ops.Operation) for operations in members for operation in operations)


@every_strategy
@unhurried
@any_epoch
def test_members_compute_and_update_in_step_and_each_loss_weighs_its_part_of_the_update(strategy, cluster, size):
    for job, work, members in epoch(strategy, cluster, size):
        for update in zip(*(of(Compute, operations) for operations in members), strict=True):
            assert {compute.total for compute in update} == {sum(len(compute.part) for compute in update)}
            assert {compute.peers for compute in update} == {len(job.members)}
            assert update[0].total <= job.members[0].batch
        for operations in members:
            computes, updates = of(Compute, operations), of(Update, operations)
            assert [update.samples for update in updates] == [compute.total for compute in computes]
            assert sum(update.samples for update in updates) == len(work)
            order = [type(operation) for operation in operations if isinstance(operation, Compute | Update)]
            assert order == [Compute, Update] * len(updates)


@every_strategy
@unhurried
@any_epoch
def test_with_a_server_each_lease_is_pushed_once_in_its_turn_and_without_one_nothing_crosses(strategy, cluster, size):
    """What is pushed is adopted before the next push, after ``overlap`` updates if the group has work for so long."""
    story = epoch(strategy, cluster, size)
    for job in {id(job): job for job, _, _ in story}.values():
        leases = [work for own, work, _ in story if own is job]
        for place, member in enumerate(job.members):
            done = [operation for own, _, members in story if own is job for operation in members[place]]
            if not strategy.layout.server:
                assert of(Push | Pull | Adopt, done) == []
                continue
            cut = [(len(work), len(work.chunks(member.batch))) for work in leases if work]
            assert of(Push, done) == [Push(samples, steps) for samples, steps in cut]
            waits = []
            for operation in done:
                if isinstance(operation, Push):
                    waits.append(0)
                elif isinstance(operation, Update) and waits and waits[-1] is not None:
                    waits[-1] += 1
                elif isinstance(operation, Adopt):
                    beside, waits = waits[-1], [*waits[:-1], None]
                    assert beside in (min(member.overlap, member.local_steps), 0) or beside < member.overlap
            assert set(waits) <= {None}
            assert [type(operation) for operation in of(Push | Pull | Adopt, done)] == [Push, Pull, Adopt] * len(cut)


@every_strategy
@unhurried
@given(overlap=st.integers(0, 4), steps=st.integers(1, 4))
def test_an_exchange_goes_on_beside_so_many_updates_as_overlap_says(strategy, overlap, steps):
    if not strategy.layout.server:
        return
    job = Job(strategy, [Member((1,), 0, steps, overlap := min(overlap, steps))])
    job.train(Range(0, steps))
    (done,) = job.train(Range(steps, 2 * steps))
    kinds, own = [type(operation) for operation in done], [Compute, Update]
    if overlap:
        assert kinds == [Push, Pull, *own * overlap, Adopt, *own * (steps - overlap)]
    else:
        assert kinds == [*own * steps, Push, Pull, Adopt]


@every_strategy
@unhurried
@given(cluster=clusters)
def test_an_empty_answer_means_no_work_and_it_asks_again(strategy, cluster):
    for members in jobs(strategy.layout, cluster):
        job = Job(strategy, members)
        wanted = job.wants
        for operations in job.train(Range(40, 40)):
            assert of(Compute | Update | Push, operations) == []
        assert job.wants == wanted
        job.close()


def test_a_strategy_that_does_not_exist_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match="Did you mean 'hybrid'"):
        get("hybird")
