"""``cluster.yaml``: what the machines may look like, and that every cluster in the repository is one."""

from pathlib import Path

import pytest

from paceline.errors import ConfigError
from paceline.schema.cluster import Cluster

CLUSTERS = Path(__file__).parents[3] / "clusters"


def cluster(*groups: dict, **keys) -> Cluster:
    return Cluster.parse({"name": "c", "groups": list(groups), **keys}, "c.yaml")


@pytest.mark.parametrize("path", sorted(CLUSTERS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_cluster_of_the_repository_parses_is_named_as_its_file_and_says_what_it_stands_for(path):
    assert Cluster.read(path).name == path.stem
    assert path.read_text().startswith("# ")


def test_the_main_cluster_has_speeds_of_4_2_1_1():
    speeds = [group.speed for group in Cluster.read(CLUSTERS / "mixed4.yaml").groups]
    assert [round(speed / min(speeds), 6) for speed in speeds] == [4, 2, 1, 1]


def test_devices_are_a_number_or_names_and_one_by_default():
    devices = [group.devices for group in cluster({"name": "a"}, {"name": "b", "devices": ["cuda:0", "cuda:1"]}).groups]
    assert devices == [1, ["cuda:0", "cuda:1"]]


def test_c037_devices_may_be_uuids_or_the_start_of_one():
    assert cluster({"name": "a", "devices": ["GPU-8f3a", "cuda:0", "cpu"]}).groups[0].devices == [
        "GPU-8f3a",
        "cuda:0",
        "cpu",
    ]


def test_a_speed_without_emulation_would_be_ignored_so_it_is_refused():
    with pytest.raises(ConfigError, match=r"^c\.yaml: group 'a' has a speed but emulation is none; set emulation: "):
        cluster({"name": "a", "speed": 0.5})


@pytest.mark.parametrize("emulation", ["pacing", "cgroups"])
def test_emulation_needs_a_speed_in_every_group(emulation):
    with pytest.raises(ConfigError, match=f"group 'b' has no speed but emulation is {emulation}"):
        cluster({"name": "a", "speed": 0.5}, {"name": "b"}, emulation=emulation)


def test_two_groups_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two groups share a name"):
        cluster({"name": "a"}, {"name": "b"}, {"name": "a"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("speed", 0),
        ("speed", 1.01),
        ("speed", -0.5),
        ("devices", 0),
        ("devices", []),
        ("devices", 10_001),
        ("micro_batch", 0),
        ("name", ""),
        ("name", "a/b"),
    ],
)
def test_a_group_that_cannot_be_is_refused_by_its_key(key, value):
    with pytest.raises(ConfigError, match=rf"groups\.0\.{key}"):
        cluster({"name": "a", "speed": 0.5, key: value}, emulation="pacing")


def test_a_cluster_has_at_least_one_group_and_a_known_version_and_emulation():
    for groups, keys in [([], {}), ([{"name": "a"}], {"version": 2}), ([{"name": "a"}], {"emulation": "netem"})]:
        with pytest.raises(ConfigError):
            cluster(*groups, **keys)


@pytest.mark.parametrize(
    "devices", [["cuda0"], ["gpu:1"], ["GPU-"], ["8f3a"], ["cuda:0", "cuda:x"], ["cuda:0", "cuda:0"]]
)
def test_devices_that_cannot_be_are_refused(devices):
    with pytest.raises(ConfigError):
        Cluster.parse({"name": "lab", "groups": [{"name": "a", "devices": devices}]}, "lab.yaml")
