"""Every strategy in virtual time: each sample once, rates against closed forms, staleness, marks and spans."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import ConfigError
from paceline.observation import metrics, solo
from paceline.ops import Adopt, Barrier, Compute, Lease, Pull, Push, Range, Update
from paceline.planning.places import probe_plan
from paceline.planning.search import plan
from paceline.schema.cluster import Cluster, GroupSpec
from paceline.schema.network import Link, Network
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.profile import DeviceProfile, Profile
from paceline.schema.trace import Trace
from paceline.simulating.interpreter import FREE, operations, rate, simulate
from paceline.simulating.scenario import Workload
from paceline.strategies import TABLE, base


def worker(group: str, speed: float, share: int) -> WorkerPlan:
    return WorkerPlan(group=group, device="cpu", threads=1, share=share, solo_samples_per_second=speed)


def made(strategy: str, *jobs: JobPlan) -> Plan:
    batch = sum(sum(job.shares) for job in jobs)
    return Plan(strategy=strategy, cluster="lab", emulation="none", global_batch=batch, jobs=list(jobs))


def planned(strategy: str, speeds: list[float], batch: int) -> Plan:
    """Each device its own group."""
    devices = [
        DeviceProfile(
            group=f"g{i}", device="cpu", speed=None, threads=1, micro_batch=None, batch=8, samples_per_second=speed
        )
        for i, speed in enumerate(speeds)
    ]
    profile = Profile(
        cluster="lab", emulation="none", global_batch=batch, model_bytes=0, epoch_samples=100, devices=devices
    )
    return plan(profile, strategy)


def fraction(planned: Plan, trace: Trace) -> float:
    assert planned.limit_samples_per_second is not None
    return rate(trace) / planned.limit_samples_per_second


@st.composite
def plans(draw: st.DrawFn, strategy: str) -> Plan:
    """Any speeds, shares and local steps that the strategy's layout allows."""
    layout = base.get(strategy).layout
    jobs = draw(st.integers(1, 4)) if layout.jobs == "groups" else 1
    members = 1 if layout.devices == "fastest" else draw(st.integers(1, 4))
    least = 0 if layout.reduces else 1
    built = []
    for j in range(jobs):
        shares = draw(st.lists(st.integers(least, 9), min_size=members, max_size=members).filter(any))
        workers = [worker(f"g{j}", draw(st.integers(1, 20)), share) for share in shares]
        steps = draw(st.integers(1, 5))
        overlap = draw(st.integers(0, steps)) if layout.server else 0
        built.append(JobPlan(name=f"g{j}", workers=workers, local_steps=steps, overlap=overlap))
    return made(strategy, *built)


@pytest.mark.parametrize("strategy", sorted(TABLE))
@settings(deadline=None, max_examples=40)
@given(st.data())
def test_each_sample_once_an_epoch(strategy, data):
    """Workers that do not reduce together each train the whole epoch; all others share it."""
    drawn = data.draw(plans(strategy))
    size, epochs = data.draw(st.integers(1, 100)), data.draw(st.integers(1, 3))
    trace = simulate(
        drawn, Workload(size, epochs, model_bytes=10_000, network=data.draw(st.sampled_from([FREE, Network()])))
    )
    together = base.get(strategy).layout.reduces
    for part in [trace] if together else [Trace([one]) for one in trace.workers]:
        seen = metrics.epochs(part)
        assert [(epoch.epoch, epoch.samples) for epoch in seen] == [(epoch, size) for epoch in range(epochs)]
        assert all(epoch.duplicates == epoch.missing == 0 for epoch in seen)
    assert sum(span.samples for one in trace.workers for span in one.spans) == size * epochs * (
        1 if together else len(trace.workers)
    )


@pytest.mark.parametrize("strategy", sorted(TABLE))
@settings(deadline=None, max_examples=20)
@given(st.data())
def test_a_workers_spans_follow_one_another_within_its_epochs(strategy, data):
    trace = simulate(data.draw(plans(strategy)), Workload(data.draw(st.integers(1, 60)), 2, model_bytes=10_000))
    for one in trace.workers:
        ends = [0.0, *(span.stop for span in one.spans)]
        assert all(end <= span.start <= span.stop for end, span in zip(ends, one.spans, strict=False))
        first, second = [mark.values for mark in one.marks if mark.kind == "epoch"]
        assert first["start"] == 0.0
        assert first["stop"] == second["start"]
        assert second["stop"] >= ends[-1]


@pytest.mark.parametrize("strategy", ["allreduce", "allreduce_even", "hybrid"])
def test_equal_devices_on_a_free_wire_reach_the_limit(strategy):
    equal = planned(strategy, [100.0] * 4, 128)
    assert fraction(equal, simulate(equal, Workload(51_200, network=FREE))) == pytest.approx(1.0, rel=0.01)


def test_even_allreduce_on_4_2_1_1_reaches_half_the_limit():
    mixed = planned("allreduce_even", [4.0, 2.0, 1.0, 1.0], 128)
    assert fraction(mixed, simulate(mixed, Workload(12_800, network=FREE))) == pytest.approx(0.5)


@pytest.mark.parametrize("strategy", ["allreduce", "hybrid"])
def test_4_2_1_1_reaches_the_limit_on_a_free_wire(strategy):
    mixed = planned(strategy, [4.0, 2.0, 1.0, 1.0], 128)
    assert fraction(mixed, simulate(mixed, Workload(51_200, network=FREE))) == pytest.approx(1.0, rel=0.01)


def test_c018_an_update_of_speeds_7_5_3_takes_2_2_seconds():
    trace = simulate(planned("allreduce", [7.0, 5.0, 3.0], 32), Workload(32, network=FREE))
    assert metrics.training_seconds(trace) == pytest.approx(2.2)


def test_c018_equal_shares_of_1000_take_1_25_seconds_and_fitting_ones_1_0():
    for strategy, seconds in [("allreduce", 1.0), ("allreduce_even", 1.25)]:
        trace = simulate(planned(strategy, [300.0, 300.0, 200.0, 200.0], 1000), Workload(1000, network=FREE))
        assert metrics.training_seconds(trace) == pytest.approx(seconds)


def test_allreduce_pays_for_the_ring_once_an_update():
    network, size = Network(default=Link(bytes_per_second=1e6, latency=0.0)), 500_000
    trace = simulate(planned("allreduce", [10.0, 10.0], 20), Workload(100, model_bytes=size, network=network))
    assert metrics.training_seconds(trace) == pytest.approx(5 * (1.0 + 0.5))
    assert [span.stop - span.start for span in trace.workers[0].spans if span.kind == "exchange"] == [
        pytest.approx(0.5)
    ] * 5


def test_a_fast_worker_waits_in_its_exchange_for_the_slowest():
    trace = simulate(planned("allreduce_even", [10.0, 5.0], 20), Workload(20, network=FREE))
    assert [(span.kind, span.start, span.stop) for span in trace.workers[0].spans] == [
        ("compute", 0.0, 1.0), ("exchange", 1.0, 2.0),
    ]  # fmt: skip


def test_groups_share_the_servers_one_port():
    """Four groups are done at once; each of their pushes gets a quarter of the port, and so does each pull."""
    network = Network(default=Link(bytes_per_second=1.0, latency=0.0))
    jobs = [JobPlan(name=f"g{i}", workers=[worker(f"g{i}", 1.0, 10)]) for i in range(4)]
    trace = simulate(made("hybrid", *jobs), Workload(40, model_bytes=3, network=network))
    for one in trace.workers:
        exchanges = [(span.start, span.stop) for span in one.spans if span.kind == "exchange"]
        assert exchanges[0] == (10.0, 34.0)


def waiting(plan):
    """The same, where each push is a version and its group waits for what it pulls."""
    jobs = [job.model_copy(update={"overlap": 0}) for job in plan.jobs]
    return plan.model_copy(update={"jobs": jobs, "grace_seconds": 0.0})


@pytest.mark.parametrize("speeds", [[4.0, 2.0, 1.0, 1.0], [3.0, 3.0, 3.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]])
def test_groups_that_exchange_equally_often_are_n_minus_1_versions_behind(speeds):
    trace = simulate(waiting(planned("hybrid", speeds, 96)), Workload(96_000, model_bytes=10_000))
    assert metrics.staleness(trace).mean == pytest.approx(len(speeds) - 1, rel=0.03)


def test_one_group_is_never_behind():
    trace = simulate(waiting(planned("hybrid", [5.0], 8)), Workload(800))
    assert metrics.staleness(trace).max == 0


def test_a_group_without_work_waits_for_the_epochs_end():
    """The fast group takes the only batch; the slow one hears of the end once it is pushed."""
    jobs = [JobPlan(name=name, workers=[worker(name, 4.0, 8)]) for name in ("first", "second")]
    trace = simulate(made("hybrid", *jobs), Workload(8, network=FREE))
    assert [(span.start, span.stop) for span in trace.workers[1].spans if span.kind == "wait"] == [(0.0, 2.0)]


def test_members_of_a_group_work_on_one_lease():
    job = JobPlan(name="g", workers=[worker("g", 4.0, 3), worker("g", 2.0, 1)], local_steps=2)
    leader, member = operations(made("hybrid", job), 8)
    for one, part in [(leader, Range(0, 3)), (member, Range(3, 4))]:
        assert [operation for operation in one if not isinstance(operation, Compute)] == [
            Lease(8), Update(4), Update(4), Push(8, 2), Pull(), Adopt(), Lease(8), Pull(), Adopt(),
        ]  # fmt: skip
        assert Compute(part, total=4, peers=2) in one


def test_operations_end_with_the_lease_that_found_the_epoch_over():
    assert operations(planned("alone", [4.0, 1.0], 8), 12) == [
        [
            Lease(8), Compute(Range(0, 8), 8, 1), Update(8),
            Lease(8), Compute(Range(8, 12), 4, 1), Update(4),
            Lease(8),
        ]
    ]  # fmt: skip


def test_stopping_after_some_updates_closes_the_epoch_there():
    trace = simulate(planned("allreduce", [3.0, 1.0], 8), Workload(10**9, updates=5, network=FREE))
    assert metrics.training_seconds(trace) == pytest.approx(5 * 2.0)
    assert rate(trace) == pytest.approx(4.0)


def test_solo_measures_after_all_workers_have_warmed_up():
    slow_and_fast = made("solo", JobPlan(name="probe", workers=[worker("a", 1.0, 4), worker("b", 4.0, 4)]))
    trace = simulate(slow_and_fast, Workload(10**6, updates=20))
    assert [[mark.at for mark in one.marks if mark.kind == "measure"] for one in trace.workers] == [[10.0], [10.0]]
    assert [(span.start, span.stop) for span in trace.workers[1].spans if span.kind == "wait"] == [(2.5, 10.0)]
    points = [solo.timing(one).points for one in trace.workers]
    assert [[point.samples / point.seconds for point in own] for own in points] == [[1.0, 1.0], [4.0, 4.0]]
    assert Barrier() in operations(slow_and_fast, 40)[0]


def test_a_plan_without_speeds_cannot_be_simulated():
    probe = probe_plan(Cluster(name="lab", groups=[GroupSpec(name="a")]), 1.0, 1, [])
    with pytest.raises(ConfigError, match=r"group 'a', cpu has no speed in the plan") as refused:
        simulate(probe, Workload(100))
    assert "paceline probe" in refused.value.remedy


def test_a_trace_is_marked_as_simulated_and_an_empty_one_has_no_rate():
    assert simulate(planned("alone", [1.0], 4), Workload(4)).simulated
    assert rate(Trace([])) == 0.0


def test_what_devices_and_server_do_for_an_exchange_comes_beside_the_wires():
    """Two groups are done at once; the server serves one after the other. A member puts new weights in by itself."""
    network = Network(default=FREE.default, server_seconds=2.0)
    pair = [worker("a", 1.0, 10).model_copy(update={"handling_seconds": 1.0}) for _ in range(2)]
    single = worker("b", 1.0, 10).model_copy(update={"handling_seconds": 1.0})
    jobs = [JobPlan(name="a", workers=pair), JobPlan(name="b", workers=[single])]
    first, second, third = simulate(made("hybrid", *jobs), Workload(30, model_bytes=0, network=network)).workers
    done = [next(mark.at for mark in one.marks if mark.kind == "staleness") for one in (third, first)]
    assert done == [11.5, 12.5]
    ends = [next(span.stop for span in one.spans if span.stop > 12.5) for one in (third, first, second)]
    assert ends == [14.0, 15.0, 15.5]


@pytest.mark.parametrize("overlap", [0, 3])
def test_what_a_group_has_trained_counts_where_the_simulation_stops_before_its_push(overlap):
    jobs = [JobPlan(name=name, workers=[worker(name, 8.0, 8)], local_steps=50, overlap=overlap) for name in ("a", "b")]
    for updates in (20, 60):
        trace = simulate(made("hybrid", *jobs), Workload(10_000, updates=updates, network=FREE))
        assert metrics.epochs(trace)[0].samples == 2 * 8 * updates
        assert metrics.epochs(trace)[0].duplicates == 0
