"""``paceline simulate`` as a person types it, and the profile of a cluster that is not here."""

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from paceline import api
from paceline.cli import flags
from paceline.cli.main import app
from paceline.errors import ConfigError
from paceline.launchers.folder import RunFolder
from paceline.observation.merge import merge
from paceline.schema.cluster import Cluster
from paceline.schema.summary import Summary

KNOWN = {
    "name": "lab",
    "work": {"name": "test", "global_batch": 40, "model_bytes": 1000, "epoch_samples": 400},
    "network": {"default": {"bytes_per_second": 1e9}},
    "groups": [
        {"name": "fast", "devices": 3, "sample_seconds": 0.01, "fixed_seconds": 0.1, "micro_batch": 5},
        {"name": "slow", "sample_seconds": 0.04},
    ],
}


def simulate(tmp_path: Path, *arguments: str, content=None):
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(content or KNOWN))
    return CliRunner().invoke(app, ["simulate", "--cluster", str(file), *arguments])


def test_a_cluster_with_known_times_is_a_profile():
    profile = api.known(Cluster.parse(KNOWN, "here"))
    assert [(device.group, device.device) for device in profile.devices] == [
        ("fast", "0"), ("fast", "1"), ("fast", "2"), ("slow", "0"),
    ]  # fmt: skip
    fast, slow = profile.devices[0], profile.devices[3]
    assert fast.samples_per_second == pytest.approx(10 / (2 * 0.1 + 10 * 0.01))  # two micro-batches of its ten samples
    assert slow.samples_per_second == pytest.approx(25.0)
    assert profile.network.default.bytes_per_second == 1e9
    assert (profile.global_batch, profile.model_bytes, profile.epoch_samples) == (40, 1000, 400)


def test_a_cluster_without_times_is_refused():
    with pytest.raises(ConfigError, match="sample_seconds for each group, and work") as refused:
        api.known(Cluster.parse({"name": "lab", "groups": [{"name": "a"}]}, "here"))
    assert "paceline probe" in refused.value.remedy


def test_out_leaves_what_a_run_leaves_and_report_draws_it_again(tmp_path):
    out = tmp_path / "out"
    done = simulate(tmp_path, "--strategy", "hybrid", "--kill", "slow:0.5", "--slow", "1:1:2", "--out", str(out))
    assert done.exit_code == 0, done.output
    assert "simulated in virtual time" in done.output
    summary = Summary.read(out / "summary.json")
    assert (summary.samples, summary.epochs[0].missing) == (400, 0)
    assert [(event.at, event.kind) for event in summary.events] == [(0.5, "lost"), (1.0, "fault")]
    trace = merge(out / "traces")
    assert trace.simulated
    assert [worker.complete for worker in trace.workers] == [True, True, True, False]
    first = (out / "report.html").read_text()
    assert "simulated" in first
    assert CliRunner().invoke(app, ["report", str(out)]).exit_code == 0
    assert "simulated" in (out / "report.html").read_text()


def test_a_simulation_may_be_typed_again_but_takes_no_measured_runs_place(tmp_path):
    out = tmp_path / "out"
    assert simulate(tmp_path, "--out", str(out)).exit_code == simulate(tmp_path, "--out", str(out)).exit_code == 0
    simulated = Summary.read(out / "summary.json")
    assert simulated.simulated
    simulated.model_copy(update={"simulated": False}).write(out / "summary.json")
    kept = (out / "summary.json").read_text()
    for arguments in ("simulate", "--cluster", str(tmp_path / "cluster.yaml")), ("run", "r.py"), ("probe", "r.py"):
        done = CliRunner().invoke(app, [*arguments, "--out", str(out)])
        assert "holds a finished run. Choose another --out" in str(done.exception)
    assert (out / "summary.json").read_text() == kept


def test_a_run_that_is_gone_on_with_may_end_where_it_began(tmp_path):
    out = tmp_path / "out"
    assert simulate(tmp_path, "--out", str(out)).exit_code == 0
    Summary.read(out / "summary.json").model_copy(update={"simulated": False}).write(out / "summary.json")
    assert flags.folder(out, "", resume=out / "checkpoint").path == out
    with pytest.raises(ConfigError, match="holds a finished run"):
        flags.folder(out, "", resume=tmp_path / "elsewhere")


def test_what_is_written_is_read_back_as_it_was(tmp_path):
    profile = api.known(Cluster.parse(KNOWN, "here"))
    made = api.plan(profile, "allreduce")
    trace = api.simulate(profile, made, epochs=2)
    api.foreseen(trace, made, RunFolder(tmp_path / "out"), command="")
    assert merge(tmp_path / "out" / "traces") == trace


def test_json_is_the_summary(tmp_path):
    done = simulate(tmp_path, "--json", "--updates", "3")
    assert json.loads(done.stdout)["samples"] == 3 * 40


def test_many_devices_are_shown_in_part(tmp_path):
    many = {**KNOWN, "work": {**KNOWN["work"], "global_batch": 4000}, "groups": [
        {"name": "g", "devices": 1000, "sample_seconds": 0.01},
    ]}  # fmt: skip
    done = simulate(tmp_path, "--updates", "1", content=many)
    assert done.exit_code == 0, done.output
    assert re.search(r"\(3\d of [\d,]+ devices\)", done.output)
    assert len(done.output.splitlines()) < 60


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--slow", "1:2"], "RANK:SECONDS:FACTOR"),
        (["--slow", "a:2:3"], "RANK:SECONDS:FACTOR"),
        (["--kill", "slow"], "GROUP:SECONDS"),
        (["--kill", "slwo:1"], "Did you mean 'slow'"),
        (["--slow", "9:1:2"], "0 to 3"),
        (["--jitter", "1e200"], "expected 0 to 10"),
        (["profile.json"], "both a profile and a cluster"),
    ],
)
def test_wrong_flags_say_what_is_right(tmp_path, arguments, said):
    done = simulate(tmp_path, *arguments)
    assert isinstance(done.exception, ConfigError)
    assert said in str(done.exception)


def test_neither_profile_nor_cluster_is_refused():
    done = CliRunner().invoke(app, ["simulate"])
    assert "neither a profile nor a cluster" in str(done.exception)


def test_a_fault_that_would_have_come_after_the_end_did_not_happen(tmp_path):
    done = simulate(tmp_path, "--kill", "slow:600", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["events"] == []
    assert "--kill slow: 600 s is after the end, nothing came of it" in done.output


def test_a_folder_of_other_files_is_refused_before_anything_is_trained(tmp_path):
    (tmp_path / "recipe.py").write_text("raise SystemExit('it was trained')")
    done = simulate(tmp_path, "--train", str(tmp_path / "recipe.py"), "--out", str(tmp_path))
    assert isinstance(done.exception, ConfigError)
    assert "holds files that are not a run's" in str(done.exception)
