"""What each strategy's plan looks like, and what the planner refuses."""

import pytest

from paceline.errors import ConfigError
from paceline.hardware.facts import Card
from paceline.planning.places import located, probe_plan
from paceline.planning.search import plan
from paceline.schema.cluster import Cluster, GroupSpec
from paceline.schema.plan import Plan
from paceline.schema.profile import DeviceProfile, Profile
from paceline.strategies import TABLE


def profile(speeds: dict[str, list[float]], batch: int) -> Profile:
    devices = [
        DeviceProfile(
            group=group, device=f"cuda:{i}", speed=None, threads=2, micro_batch=16, batch=8, samples_per_second=speed
        )
        for group, members in speeds.items()
        for i, speed in enumerate(members)
    ]
    return Profile(
        cluster="lab", emulation="none", global_batch=batch, model_bytes=400, epoch_samples=100, devices=devices
    )


MIXED = {"a": [400.0], "b": [200.0], "c": [100.0, 100.0]}


def shares(made: Plan) -> list[int]:
    return [worker.share for worker in made.workers]


def test_c018_allreduce_shares_in_proportion_to_speed():
    made = plan(profile({"a": [7.0, 5.0], "b": [3.0]}, 32), "allreduce")
    assert shares(made) == [15, 11, 6]
    assert [(job.name, job.local_steps) for job in made.jobs] == [("all", 1)]
    assert "15, 11, 6 of 32" in made.reason


def test_even_allreduce_ignores_speed():
    assert shares(plan(profile(MIXED, 130), "allreduce_even")) == [33, 33, 32, 32]


def test_alone_gives_the_fastest_device_everything_but_keeps_the_limit_of_all():
    made = plan(profile({"slow": [1.0], "fast": [9.0, 8.0]}, 32), "alone")
    assert [(worker.group, worker.device, worker.share) for worker in made.workers] == [("fast", "cuda:0", 32)]
    assert made.limit_samples_per_second == 18.0
    assert "fastest of 3 devices" in made.reason


def test_hybrid_makes_a_job_of_each_group_with_steps_by_its_updates_per_second():
    made = plan(profile(MIXED, 128), "hybrid")
    assert [job.name for job in made.jobs] == ["a", "b", "c"]
    assert [job.shares for job in made.jobs] == [(32,), (32,), (32, 32)]
    assert [job.local_steps for job in made.jobs] == [8, 4, 2]
    assert "a 8, b 4, c 2" in made.reason


def test_a_groups_update_waits_for_its_slowest_member():
    made = plan(profile({"a": [100.0], "b": [100.0, 50.0]}, 30), "hybrid")
    assert [job.local_steps for job in made.jobs] == [8, 4]


@pytest.mark.parametrize("strategy", sorted(set(TABLE) - {"solo"}))
def test_every_strategy_carries_the_profile_over(strategy):
    made = plan(profile(MIXED, 128), strategy)
    assert Plan.model_validate_json(made.model_dump_json()) == made
    assert (made.strategy, made.cluster, made.global_batch) == (strategy, "lab", 128)
    assert made.limit_samples_per_second == 800.0
    assert sum(shares(made)) == 128
    assert all(worker.micro_batch == 16 and worker.threads == 2 for worker in made.workers)
    assert all(worker.solo_samples_per_second for worker in made.workers)
    assert made.reason.endswith(".")


def test_the_price_of_the_plan_becomes_its_prediction():
    priced: list[Plan] = []
    made = plan(
        profile(MIXED, 128), "hybrid", price=lambda candidate: priced.append(candidate) or [700.0, 70.0, 4.0, 3.0]
    )
    assert made.predicted_samples_per_second == 777.0
    assert [worker.predicted_samples_per_second for worker in made.workers] == [700.0, 70.0, 4.0, 3.0]
    assert [job.shares for job in priced[0].jobs] == [job.shares for job in made.jobs]


def test_a_device_that_would_only_slow_the_update_down_is_left_out_and_named():
    made = plan(profile({"a": [100.0], "b": [1.0]}, 8), "allreduce")
    assert [(worker.group, worker.share) for worker in made.workers] == [("a", 8)]
    assert "Left out: b (cuda:0)." in made.reason
    assert made.limit_samples_per_second == 101.0
    assert "Left out" not in plan(profile({"a": [100.0], "b": [1.0]}, 800), "allreduce").reason


def test_too_small_a_batch_for_equal_shares_is_refused():
    with pytest.raises(ConfigError, match="a global batch of 3 for 4 workers"):
        plan(profile(MIXED, 3), "hybrid")


def test_an_unknown_strategy_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match="hybrid"):
        plan(profile(MIXED, 128), "hybird")


def card(index: int, uuid: str | None = None, name: str = "card") -> Card:
    return Card(index, uuid or f"GPU-{index}{index}{index}", name, (8, 0), 24 * 2**30)


def cluster(*groups: GroupSpec, emulation: str = "none") -> Cluster:
    return Cluster(name="lab", emulation=emulation, groups=list(groups))


def test_a_probe_takes_accelerators_that_no_group_names():
    made = probe_plan(
        cluster(GroupSpec(name="a", devices=2), GroupSpec(name="b", devices=["cuda:0"], micro_batch=4)),
        duration=5.0, cores=8, cards=[card(0), card(1), card(2)],
    )  # fmt: skip
    assert [(worker.group, worker.device) for worker in made.workers] == [
        ("a", "cuda:1"), ("a", "cuda:2"), ("b", "cuda:0"),
    ]  # fmt: skip
    assert [worker.micro_batch for worker in made.workers] == [None, None, 4]
    assert (made.strategy, made.probe_seconds, made.global_batch) == ("solo", 5.0, None)
    assert [job.name for job in made.jobs] == ["probe"]
    assert shares(made) == [0, 0, 0]


def test_an_emulated_probe_runs_on_the_cpu_with_one_thread_each():
    groups = GroupSpec(name="a", devices=2, speed=0.5), GroupSpec(name="b", devices=1, speed=0.25)
    made = probe_plan(cluster(*groups, emulation="pacing"), duration=1.0, cores=16, cards=[card(0)])
    assert [(worker.device, worker.threads, worker.speed) for worker in made.workers] == [
        ("cpu", 1, 0.5), ("cpu", 1, 0.5), ("cpu", 1, 0.25),
    ]  # fmt: skip


def test_a_probe_without_accelerators_shares_the_cores():
    made = probe_plan(cluster(GroupSpec(name="a", devices=3)), duration=1.0, cores=8, cards=[])
    assert [(worker.device, worker.threads) for worker in made.workers] == [("cpu", 2)] * 3
    crowded = probe_plan(cluster(GroupSpec(name="a", devices=3)), duration=1.0, cores=2, cards=[])
    assert [worker.threads for worker in crowded.workers] == [1] * 3


def test_a_probe_of_more_accelerators_than_there_are_is_refused():
    groups = GroupSpec(name="a", devices=1), GroupSpec(name="b", devices=2)
    with pytest.raises(ConfigError, match="group 'b' wants 2 devices but 1 accelerators are left") as refused:
        probe_plan(cluster(*groups), duration=1.0, cores=8, cards=[card(0), card(1)])
    assert refused.value.remedy


def test_c037_a_probe_finds_cards_by_uuid_and_by_index_and_carries_both():
    cards = [card(0, "GPU-8f3a", "A100"), card(1, "GPU-77aa", "TITAN")]
    groups = GroupSpec(name="a", devices=["GPU-77"]), GroupSpec(name="b", devices=["cuda:0", "cpu"])
    made = probe_plan(cluster(*groups), duration=1.0, cores=8, cards=cards)
    assert [(worker.device, worker.uuid, worker.name) for worker in made.workers] == [
        ("cuda:1", "GPU-77aa", "TITAN"), ("cuda:0", "GPU-8f3a", "A100"), ("cpu", None, None),
    ]  # fmt: skip


def test_c037_a_card_named_twice_and_an_unknown_one_are_refused():
    cards = [card(0, "GPU-8f3a"), card(1, "GPU-77aa")]
    both = GroupSpec(name="a", devices=["cuda:0"]), GroupSpec(name="b", devices=["GPU-8f3a"])
    with pytest.raises(ConfigError, match="cuda:0 card GPU-8f3a stands in the cluster twice"):
        probe_plan(cluster(*both), duration=1.0, cores=8, cards=cards)
    with pytest.raises(ConfigError, match=r"GPU-00.* cuda:0 card GPU-8f3a; cuda:1 card GPU-77aa"):
        probe_plan(cluster(GroupSpec(name="a", devices=["GPU-00"])), duration=1.0, cores=8, cards=cards)


def memory_profile(batch: int, fixed_seconds: float = 0.0, **keys) -> Profile:
    """C013: cards of 32 and 24 GB, equally fast; 4 GB and 1 GB a sample."""
    devices = [
        DeviceProfile(
            group="a", device=f"cuda:{index}", speed=None, threads=1, batch=16, samples_per_second=100.0,
            fixed_seconds=fixed_seconds, sample_seconds=0.01, uuid=f"GPU-{gigabytes}", name=f"{gigabytes} GB",
            memory_bytes=gigabytes * 10**9, fixed_bytes=4 * 10**9, sample_bytes=1e9, **{"micro_batch": None, **keys},
        )
        for index, gigabytes in enumerate((32, 24))
    ]  # fmt: skip
    return Profile(
        cluster="lab", emulation="none", global_batch=batch, model_bytes=400, epoch_samples=100, devices=devices
    )


@pytest.mark.parametrize(
    ("batch", "fixed", "expected"),
    [(40, 0.0, [20, 20]), (48, 0.0, [28, 20]), (48, 0.1, [28, 20]), (60, 0.0, [30, 30]), (60, 0.1, [30, 30])],
)
def test_c013_a_larger_card_takes_what_the_smaller_one_cannot_hold(batch, fixed, expected):
    made = plan(memory_profile(batch, fixed), "allreduce", headroom=0.0)
    assert [worker.micro_batch for worker in made.workers] == [28, 20]
    assert shares(made) == expected
    assert ("as far as it holds its share at once" in made.reason) is (batch < 60)


def test_c013_headroom_is_left_and_the_cluster_files_own_limit_stands():
    assert [worker.micro_batch for worker in plan(memory_profile(40), "allreduce").workers] == [24, 17]
    limited = plan(memory_profile(40, micro_batch=18), "allreduce", headroom=0.0)
    assert [worker.micro_batch for worker in limited.workers] == [18, 18]


def test_accumulating_is_planned_where_doing_without_would_be_much_slower():
    small, large = memory_profile(32, micro_batch=4), memory_profile(32)
    devices = [small.devices[0], large.devices[1].model_copy(update={"sample_seconds": 0.05, "memory_bytes": None})]
    made = plan(large.model_copy(update={"devices": devices}), "allreduce")
    assert made.workers[0].micro_batch == 4
    assert shares(made) == [27, 5]


def test_c036_shares_and_caps_follow_the_card_and_not_its_number():
    made = plan(memory_profile(48), "allreduce", headroom=0.0)
    turned = located(made, [card(0, "GPU-24"), card(1, "GPU-32")])
    assert [(worker.uuid, worker.device, worker.share, worker.micro_batch) for worker in turned.workers] == [
        ("GPU-32", "cuda:1", 28, 28), ("GPU-24", "cuda:0", 20, 20),
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="GPU-24"):
        located(made, [card(0, "GPU-32")])


def test_a_plan_that_knows_no_uuid_stays_as_it_is():
    made = plan(profile(MIXED, 128), "allreduce")
    assert located(made, []) == made


def test_c100_a_users_threads_stand_except_on_emulated_devices():
    group = GroupSpec(name="a", devices=2)
    assert [worker.threads for worker in probe_plan(cluster(group), 1.0, 8, [], 3).workers] == [3, 3]
    emulated = cluster(GroupSpec(name="a", devices=2, speed=0.5), emulation="pacing")
    assert [worker.threads for worker in probe_plan(emulated, 1.0, 8, [], 3).workers] == [1, 1]
