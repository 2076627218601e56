"""The closed forms of algorithms.md 4.1-4.3 come out of the simulator within 1 %, over random clusters."""

import math
from functools import partial

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paceline.cost.network import ring
from paceline.planning import search
from paceline.schema.network import Link, Network
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.profile import DeviceProfile, Profile
from paceline.simulating.interpreter import FREE, rate, simulate
from paceline.simulating.scenario import Scenario, Workload

WITHIN = partial(pytest.approx, rel=0.01)
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
            workers=[
                WorkerPlan(
                    group=f"g{i}", device="0", threads=1, share=10, solo_samples_per_second=10 / own, shards=1
                ) if False else WorkerPlan(
                    group=f"g{i}", device="0", threads=1, share=10, solo_samples_per_second=10 / own
                )
            ],
        )
        for i, (steps, own) in enumerate(kinds)
    ]  # fmt: skip
    return Plan(
        strategy="hybrid", cluster="drawn", emulation="none", global_batch=10 * len(kinds), jobs=jobs, shards=shards
    )


def exchanges_per_second(made: Plan, workload: Workload) -> float:
    trace = simulate(made, workload)
    pushes = [mark.at for worker in trace.workers for mark in worker.marks if mark.kind == "staleness"]
    late = [at for at in pushes if at > max(pushes) / 5]  # after the start, when all are in step
    return (len(late) - 1) / (max(late) - min(late))


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
    assert exposed >= ring(network.default, min(size, 1 << 20), len(devices)) * 0.99 if size > 27 << 20 else True
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


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.floats(0.2, 2.0), st.floats(0.05, 5.0)), min_size=1, max_size=5),
)
def test_4_2_a_group_that_blocks_for_its_exchange_makes_k_b_over_k_t_plus_x(kinds):
    """Each has a wire of its own and the server is no bottleneck; the ends of the groups' epochs are left out."""
    size = 1_000_000
    ports = {
        f"g{i}": Link(bytes_per_second=2 * size / exchange, latency=0.0) for i, (_, _, exchange) in enumerate(kinds)
    }
    network = Network(default=FREE.default, ports=ports)
    made = groups([(steps, own) for steps, own, _ in kinds])
    expected = sum(10 * steps / (steps * own + exchange) for steps, own, exchange in kinds)
    trace = simulate(made, Workload(int(4000 * expected), model_bytes=size, network=network))
    until = min(worker.spans[-1].stop for worker in trace.workers) - max(k * t + x for k, t, x in kinds) * 3
    trained = sum(span.samples for worker in trace.workers for span in worker.spans if span.stop <= until)
    assert trained / until == WITHIN(expected)


# 4.3


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 3), st.integers(8, 20), st.floats(1.0, 4.0))
def test_4_3_an_overloaded_server_makes_p_beta_over_s_exchanges_and_shards_add_up(shards, count, load):
    """Groups would load each direction ``load`` times over if nobody waited; a push and a pull use one each, so more
    than two of everything must be under way for both directions to be always full."""
    size, own = 1_000_000, 1.0
    bandwidth = count * size / own / load / shards
    assume(count / (2 * shards) > 2)
    network = Network(default=FREE.default, server=Link(bytes_per_second=bandwidth, latency=0.0))
    made = groups([(1, own)] * count, shards)
    workload = Workload(10 * count * 400, model_bytes=size, network=network)
    served = exchanges_per_second(made, workload)
    assert served <= shards * bandwidth / size * 1.01
    in_step = count / (own + 2 * count * size / (shards * bandwidth))  # all push at once, then all pull at once
    assert served >= in_step * 0.99


@settings(deadline=None, max_examples=10)
@given(st.integers(1, 3))
def test_4_3_as_many_co_located_shards_as_groups_move_what_a_ring_moves(extra):
    """Bytes out of each host and exchange: (n-1)/n S to the other shards and as much of pulls, as in a ring."""
    count = extra + 1
    size = 1_000_000
    assert 2 * (count - 1) / count * size == ring(Link(bytes_per_second=1.0, latency=0.0), size, count)
