"""Records: what a file may hold, how it is refused, and that a write is whole or not at all."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from paceline.errors import ConfigError
from paceline.schema.cluster import Cluster, GroupSpec
from paceline.schema.record import write_atomically

GOOD = "name: c\ngroups:\n  - name: a\n    devices: 2\n"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "cluster.yaml"


def refusal(file, content: str | bytes) -> str:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError) as caught:
        Cluster.read(file)
    return str(caught.value)


@pytest.mark.parametrize("content", [GOOD, '{"name": "c", "groups": [{"name": "a", "devices": 2}]}'])
def test_yaml_and_json_are_read_alike(file, content):
    file.write_text(content)
    assert Cluster.read(file) == Cluster(name="c", groups=[GroupSpec(name="a", devices=2)])


def test_what_is_written_reads_back_the_same(tmp_path):
    cluster = Cluster(name="c", emulation="pacing", groups=[GroupSpec(name="a", devices=["cpu"], speed=0.5)])
    path = tmp_path / "new" / "folder" / "cluster.json"
    cluster.write(path)
    assert Cluster.read(path) == cluster


def test_an_unknown_key_is_refused_with_the_nearest_known_one(file):
    assert refusal(file, GOOD + "emulatoin: pacing\n") == f"{file}: unknown key 'emulatoin'. Did you mean 'emulation'?"


def test_an_unknown_key_deep_in_the_file_is_named_with_its_path(file):
    sentence = refusal(file, GOOD + "    sped: 0.5\n")
    assert sentence == f"{file}: unknown key 'groups.0.sped'. Did you mean 'speed'?"


@pytest.mark.parametrize(
    ("more", "key", "known"),
    [
        ("network: {default: {latncy: 1}}\n", "network.default.latncy", "latency"),
        ("network: {inside: {a: {latncy: 1}}}\n", "network.inside.a.latncy", "latency"),
        ("work: {name: w, globalbatch: 8, epoch_samples: 9}\n", "work.globalbatch", "global_batch"),
    ],
)
def test_an_unknown_key_has_its_neighbours_also_in_optional_parts_and_where_its_like_is_missing(file, more, key, known):
    assert refusal(file, GOOD + more) == f"{file}: unknown key '{key}'. Did you mean '{known}'?"


def test_a_missing_key_is_named_and_nothing_else_shown(file):
    assert refusal(file, "name: c\n") == f"{file}: key 'groups' is missing. Add it, or name another file."


def test_a_wrong_value_of_several_kinds_has_a_plain_path(file):
    assert refusal(file, GOOD.replace("2", "two")).startswith(f"{file}: key 'groups.0.devices' is \"two\": ")


def test_a_slip_in_the_yaml_is_named_with_its_line(file):
    assert refusal(file, "name: c\ngroups: [a, b\n").startswith(f"{file} is not YAML: line 3: ")


def test_a_wrong_value_is_shown_with_its_key(file):
    sentence = refusal(file, GOOD.replace("name: a", "name: a b"))
    assert sentence.startswith(f"{file}: key 'groups.0.name' is \"a b\": ")


def test_a_missing_file_and_a_folder_are_named_with_the_reason(tmp_path):
    for path, reason in [(tmp_path / "none.yaml", "No such file"), (tmp_path, "Is a directory")]:
        with pytest.raises(ConfigError) as caught:
            Cluster.read(path)
        assert str(caught.value).startswith(f"{path} cannot be read: {reason}")


@pytest.mark.parametrize("content", ["a: [1, 2", "a: b: c", "\tname: c", b"name: \xff\xfe\x00"])
def test_what_is_not_yaml_is_called_so_in_one_line(file, content):
    sentence = refusal(file, content)
    assert sentence.startswith(f"{file} is not YAML: ")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("content", "key"),
    [(GOOD + "name: d\n", "name"), (GOOD + "    name: b\n", "name"), (GOOD + "groups: []\n", "groups")],
)
def test_a_key_that_stands_twice_is_refused(file, content, key):
    assert f"key '{key}' stands twice" in refusal(file, content)


@pytest.mark.parametrize(("content", "kind"), [("", "NoneType"), ("- a\n", "list"), ("hello", "str"), ("3", "int")])
def test_a_file_that_is_no_mapping_is_told_what_was_found(file, content, kind):
    assert refusal(file, content) == f"{file}: found {kind}; expected a mapping of keys."


def test_a_record_is_frozen():
    cluster = Cluster(name="c", groups=[GroupSpec(name="a")])
    with pytest.raises(ValidationError):
        cluster.name = "d"


def test_a_write_that_fails_half_way_leaves_the_old_file_whole_and_nothing_beside_it(tmp_path):
    path = tmp_path / "summary.json"
    write_atomically(path, "old\n")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new " * 10_000 + "\ud800")  # a lone surrogate has no UTF-8 form
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_replaces_the_old_file_and_anyone_may_read_the_new_one(tmp_path):
    path = tmp_path / "summary.json"
    write_atomically(path, "old")
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_is_not_replaced(tmp_path):
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(ConfigError, match="is no file"):
            write_atomically(path, "text")
