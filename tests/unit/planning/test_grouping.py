"""Groups by file, by device and by speed, and sets of devices that an update may be better off with."""

from paceline.planning import devices
from paceline.planning.grouping import Groups, as_filed, but_slowest, by_speed, sets, single
from paceline.schema.network import Link, Network
from paceline.schema.plan import WorkerPlan
from paceline.schema.profile import Profile
from profiles import MIXED, profile


def workers(measured: Profile) -> list[WorkerPlan]:
    return [devices.worker(device) for device in measured.devices]


def named(groups: Groups) -> dict[str, list[str]]:
    return {name: [f"{one.group} {one.device[-1]}" for one in members] for name, members in groups.items()}


def test_the_files_groups_and_each_device_by_itself():
    mixed = workers(profile(MIXED, 8))
    assert named(as_filed(mixed)) == {"a": ["a 0"], "b": ["b 0"], "c": ["c 0", "c 1"]}
    assert named(single(mixed)) == {"a": ["a 0"], "b": ["b 0"], "c-1": ["c 0"], "c-2": ["c 1"]}


def test_devices_within_a_tenth_of_the_fastest_are_one_speed_across_groups():
    unlike = workers(profile({"a": [100.0, 50.0], "b": [92.0, 48.0], "c": [80.0]}, 8))
    assert named(by_speed(unlike, Network())) == {"a+b-1": ["a 0", "b 0"], "c": ["c 0"], "a+b-2": ["a 1", "b 1"]}


def test_a_slow_wire_keeps_like_devices_apart():
    like = workers(profile({"a": [100.0, 100.0], "b": [100.0]}, 8))
    far = Network(ports={"b": Link(bytes_per_second=1e8)})
    assert named(by_speed(like, far)) == {"a": ["a 0", "a 1"], "b": ["b 0"]}
    near = Network(ports={"b": Link(bytes_per_second=1e9)})
    assert list(by_speed(like, near)) == ["a+b"]


def test_sets_leave_out_the_slowest_first_and_end_with_the_fastest_alone():
    measured = profile({"a": [400.0, 1.0], "b": [200.0]}, 8)
    found = [[one.solo_samples_per_second for one in own] for own in sets(measured, workers(measured))]
    assert found[0] == [400.0, 200.0]
    assert found[-1] == [400.0]
    assert [400.0, 1.0, 200.0] not in found


def test_many_devices_are_tried_in_few_sets_with_those_where_the_speed_jumps():
    measured = profile({"fast": [100.0] * 600, "slow": [1.0] * 424}, 16_384, size=0)
    found = sets(measured, workers(measured))
    assert len(found) <= 4
    assert 600 in map(len, found)


def test_all_but_the_slowest_is_nobody_where_all_are_alike():
    assert [one.group for one in but_slowest(workers(profile(MIXED, 8)))] == ["a", "b"]
    assert but_slowest(workers(profile({"a": [10.0, 10.5]}, 8))) == []


def test_of_two_groups_either_may_be_left_out():
    measured = profile({"fast": [400.0], "many": [200.0, 200.0, 200.0]}, 8)
    found = [[one.group for one in own] for own in sets(measured, workers(measured))]
    assert ["many"] * 3 in found
