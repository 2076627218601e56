"""On which device each worker measures, and where its card is when it trains."""

import pytest

from paceline.errors import ConfigError
from paceline.hardware.facts import Card
from paceline.planning.places import located, probe_plan
from paceline.planning.search import plan
from paceline.schema.cluster import Cluster, GroupSpec
from paceline.schema.plan import Plan
from profiles import MIXED, memory_profile, profile


def shares(made: Plan) -> list[int]:
    return [worker.share for worker in made.workers]


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


def test_c036_shares_and_caps_follow_the_card_and_not_its_number():
    made = plan(memory_profile(48), "allreduce")
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
