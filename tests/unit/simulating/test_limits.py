"""The closed forms of updates, exchanges and servers come out of the simulator within 1 %, over random clusters."""

import math
import random
from functools import partial

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paceline.cost.network import ring
from paceline.cost.overlap import buckets
from paceline.ops import Compute, Lease, Program, Push, Update
from paceline.planning import search
from paceline.schema.network import Link, Network
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.profile import DeviceProfile, Profile
from paceline.simulating.interpreter import FREE, rate, simulate
from paceline.simulating.scenario import Scenario, Workload
from paceline.strategies import TABLE
from paceline.strategies.base import Layout, Member, Strategy

SIZE = 1_000_000
WITHIN = partial(pytest.approx, rel=0.01)


class Pushing(Strategy):
    """Hybrid without its pulls."""

    about = "pushes and never pulls"
    layout = Layout(jobs="groups", server=True)

    def program(self, me: Member) -> Program:
        while True:
            work = yield Lease(me.batch)
            if work:
                yield Compute(me.part(work), total=len(work), peers=1)
                yield Update(len(work))
                yield Push(len(work), 1)


times = st.lists(st.tuples(st.floats(0.0, 0.5), st.floats(0.001, 0.008)), min_size=2, max_size=8)  # (a, c) of devices


def profile(devices: list[tuple[float, float]], batch: int) -> Profile:
    return Profile(
        cluster="drawn", emulation="none", global_batch=batch, model_bytes=0, epoch_samples=20 * batch,
        devices=[
            DeviceProfile(
                group=f"g{i}", device="0", speed=None, threads=1, micro_batch=None, batch=1,
                samples_per_second=1 / per_sample, fixed_seconds=fixed, sample_seconds=per_sample,
            )
            for i, (fixed, per_sample) in enumerate(devices)
        ],
    )  # fmt: skip


def groups(kinds: list[tuple[int, float]], shards: int = 1) -> Plan:
    """Groups of one worker, each of (local steps, seconds of one) with 10 samples a step."""
    jobs = [
        JobPlan(
            name=f"g{i}",
            local_steps=steps,
            workers=[WorkerPlan(group=f"g{i}", device="0", threads=1, share=10, solo_samples_per_second=10 / own)],
        )
        for i, (steps, own) in enumerate(kinds)
    ]
    return Plan(
        strategy="hybrid", cluster="drawn", emulation="none", global_batch=10 * len(kinds), jobs=jobs, shards=shards,
        rebalance=False,
    )  # fmt: skip


# 4.1


@settings(deadline=None, max_examples=40)
@given(times, st.integers(1_000_000, 200_000_000), st.floats(1e8, 1e10))
def test_4_1_an_uneven_split_reaches_b_over_b_plus_a_plus_c_times_what_is_not_hidden(devices, size, bandwidth):
    """``T_u`` is what the wire takes after computing; the batch is so large that whole samples do not count."""
    batch = 20_000
    bound, fixed = sum(1 / c for _, c in devices), sum(a / c for a, c in devices)
    computing = (batch + fixed) / bound
    assume(all(a < computing for a, _ in devices))
    network = Network(default=Link(bytes_per_second=bandwidth, latency=0.0))
    trace = simulate(
        search.plan(profile(devices, batch), "allreduce"), Workload(20 * batch, model_bytes=size, network=network)
    )
    update = trace.workers[0].spans[1].stop
    exposed = max(update - computing, 0.0)
    assert exposed >= ring(network.default, buckets(size)[-1], len(devices)) * 0.99
    assert rate(trace) / bound == WITHIN(batch / (batch + fixed + bound * exposed))


@settings(deadline=None, max_examples=20)
@given(st.integers(2, 8), st.floats(1e5, 1e6))
def test_4_1_a_slow_ring_is_the_bound(workers, bandwidth):
    """X <= B / (2 (n-1)/n S/beta), and on a wire this slow next to nothing else counts."""
    size, batch = 100_000_000, 64 * workers
    network = Network(default=Link(bytes_per_second=bandwidth, latency=0.0))
    made = search.plan(profile([(0.0, 1e-4)] * workers, batch), "allreduce")
    reached = rate(simulate(made, Workload(20 * batch, model_bytes=size, network=network)))
    bound = batch / (2 * (workers - 1) / workers * size / bandwidth)
    assert reached <= bound
    assert reached == WITHIN(bound)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(0.01, 0.08), min_size=2, max_size=8))
def test_4_1_the_gain_over_an_even_split_is_r_max(costs):
    batch = 10_000 * len(costs)
    cluster = profile([(0.0, cost) for cost in costs], batch)
    uneven, even = (
        rate(simulate(search.plan(cluster, name), Workload(5 * batch, network=FREE)))
        for name in ("allreduce", "allreduce_even")
    )
    assert uneven / even == WITHIN(max(costs) * sum(1 / cost for cost in costs) / len(costs))


@pytest.mark.parametrize("workers", [8, 64])
def test_4_1_jitter_costs_about_its_spread_times_the_root_of_2_ln_n(workers):
    """The mean of the largest of n is that only for very many; a quarter below it for few."""
    spread, batch = 0.05, 10 * workers
    made = search.plan(profile([(0.0, 0.1)] * workers, batch), "allreduce")
    lost = 10 * workers / rate(simulate(made, Workload(400 * batch, network=FREE), Scenario(jitter=spread))) - 1
    assert 0.6 <= lost / (spread * math.sqrt(2 * math.log(workers))) <= 1.1


# 4.2


@settings(deadline=None, max_examples=10)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.floats(0.2, 2.0), st.floats(0.05, 5.0)), min_size=1, max_size=5),
)
def test_4_2_a_group_that_blocks_for_its_exchange_makes_k_b_over_k_t_plus_x(kinds):
    """Each has a wire of its own and the server is no bottleneck; the ends of the groups' epochs are left out."""
    ports = {
        f"g{i}": Link(bytes_per_second=2 * SIZE / exchange, latency=0.0) for i, (_, _, exchange) in enumerate(kinds)
    }
    network = Network(default=FREE.default, ports=ports)
    made = groups([(steps, own) for steps, own, _ in kinds])
    expected = sum(10 * steps / (steps * own + exchange) for steps, own, exchange in kinds)
    trace = simulate(made, Workload(int(1000 * expected), model_bytes=SIZE, network=network))
    until = min(worker.spans[-1].stop for worker in trace.workers) - max(k * t + x for k, t, x in kinds) * 3
    trained = sum(span.samples for worker in trace.workers for span in worker.spans if span.stop <= until)
    assert trained / until == WITHIN(expected)


# 4.3


def served(strategy: str, own: list[float], bandwidth: float, shards: int = 1) -> float:
    """Exchanges/s of groups that compute for so many seconds each, on a server port of that width a shard."""
    network = Network(default=FREE.default, server=Link(bytes_per_second=bandwidth, latency=0.0))
    made = groups([(1, seconds) for seconds in own], shards).model_copy(update={"strategy": strategy})
    trace = simulate(made, Workload(10 * len(own) * 200, model_bytes=SIZE, network=network))
    pushes = sorted(mark.at for worker in trace.workers for mark in worker.marks if mark.kind == "staleness")
    first, last = len(pushes) // 5, len(pushes) * 19 // 20  # all are in their stride, and none has ended
    return (last - first) / (pushes[last] - pushes[first])


def unlike(count: int) -> list[float]:
    """Computing times from 1 to 2 s, so that the groups do not stay in step."""
    draw = random.Random(0)
    return [1 + draw.random() for _ in range(count)]


def test_4_3_a_server_with_room_holds_nobody_up():
    own = unlike(20)
    offered = sum(1 / seconds for seconds in own)
    assert served("hybrid", own, 100 * offered * SIZE) == pytest.approx(offered, rel=0.02)


@settings(deadline=None, max_examples=8)
@given(st.integers(8, 20), st.integers(1, 3), st.floats(3.0, 8.0))
def test_4_3_an_overloaded_direction_carries_p_beta_over_s_exchanges(count, shards, load):
    """Of groups that only push, and would push ``load`` times as much if nobody waited; so shards add up too."""
    own = unlike(count)
    bandwidth = sum(1 / seconds for seconds in own) * SIZE / load / shards
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TABLE, "pushing", f"{__name__}:Pushing")
        assert served("pushing", own, bandwidth, shards) == WITHIN(shards * bandwidth / SIZE)


@settings(deadline=None, max_examples=8)
@given(st.integers(2, 8), st.integers(1, 3), st.floats(0.5, 8.0))
def test_4_3_equal_groups_stay_in_step_and_use_one_direction_at_a_time(count, shards, load):
    """All push at once and then pull at once: n / (T + 2 n S/(p beta)), at most half of p beta/S."""
    bandwidth = count * SIZE / load / shards
    expected = count / (1 + 2 * count * SIZE / (shards * bandwidth))
    assert served("hybrid", [1.0] * count, bandwidth, shards) == pytest.approx(expected, rel=0.02)
