"""What a person types wrongly ends in one sentence and the documented exit code, and costs nobody a file."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import harness
from harness import command
from paceline.schema.profile import DeviceProfile, Profile


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nowhere.py"], "there is no recipe nowhere.py"),
        (["run", "--strategy", "hybird", "nowhere.py"], "Did you mean 'hybrid'?"),
        (["run", "--cluster", "none.yaml", "r.py"], "none.yaml cannot be read"),
        (["run", "--cluster", "bad.yaml", "r.py"], "unknown key 'groups.0.sped'. Did you mean 'speed'?"),
        (["plan", "small.json", "--strategy", "allreduce_even"], "a share that cannot be met"),
        (["run", "--profile", "small.json", "--cluster", "bad.yaml", "r.py"], "already holds the cluster"),
        (["run", "--plan", "plan.yaml", "--strategy", "hybrid", "r.py"], "--plan already holds the strategy"),
        (["run", "--strategy", "solo", "r.py"], "unknown strategy 'solo'"),
        (["run", "--out", ".", "r.py"], "holds files that are not a run's"),
        (
            ["run", "--plan", "plan.yaml", "r.py"],
            "the plan is for cluster 'test'; expected 'here', which would",
        ),
        (["plan", "good.yaml"], "good.yaml is a cluster file, no profile. Type --cluster good.yaml."),
        (["plan", "."], ". cannot be read: Is a directory. Name a file in it."),
        (["run", "r.py", "--epochs", "3"], "No such option: --epochs. What is for the script comes after --. See"),
        (["bench", "overhaed"], "Did you mean 'overhead'?"),
        (["run", "--rule", "marge", "r.py"], "Did you mean 'merge'?"),
        (["plan", "infinite.json"], "'devices.0.samples_per_second' is Infinity"),
        (["run", "broken.py"], "broken.py:1: the recipe is not Python: "),
        (["report", "pictures"], "pictures holds no finished run."),
        (["simulate", "small.json", "--updates", "-3"], "greater than or equal to 1"),
        (["rum"], "Did you mean 'run'?"),
        (["run"], "Missing argument 'recipe'. See `"),
        (["run", "--bogus", "r.py"], "No such option: --bogus"),
        (["run", "--emulation", "foo", "r.py"], "'foo' is not one of 'pacing', 'cgroups'. See `"),
        (["run", "r.py", "--out"], "requires an argument. See `paceline --help`."),
        (
            ["run", "--profile", "small.json", "--strategy", "alone", "--out", ".", "r.py"],
            "holds files that are not a run's",
        ),
    ],
)
def test_what_cannot_be_right_is_one_sentence_and_exit_code_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "r.py").write_text("")
    (tmp_path / "broken.py").write_text("def main(:\n")
    (tmp_path / "infinite.json").write_text(
        '{"cluster": "c", "emulation": "none", "global_batch": 1, "model_bytes": 4, '
        '"epoch_samples": 9, "devices": [{"group": "a", "device": "cpu", "speed": null, "threads": 1, "batch": 1, '
        '"micro_batch": null, "samples_per_second": .inf}]}'
    )
    (tmp_path / "bad.yaml").write_text("name: x\nemulation: pacing\ngroups: [{name: a, sped: 1}]\n")
    (tmp_path / "good.yaml").write_text("name: x\ngroups: [{name: a}]\n")
    harness.plan("alone", [harness.worker(1)]).write(tmp_path / "plan.yaml")
    device = DeviceProfile(
        group="a", device="cpu", speed=None, threads=1, micro_batch=None, batch=1, samples_per_second=1.0
    )
    Profile(cluster="c", emulation="none", global_batch=1, model_bytes=4, epoch_samples=9, devices=[device] * 2).write(
        tmp_path / "small.json"
    )
    done = command(tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert (tmp_path / "r.py").exists()


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        port = door.getsockname()[1]
        done = command(tmp_path, "serve", "--groups=1", "--global-batch=8", f"--port={port}", PACELINE_TOKEN="t")
    assert done.returncode == 3
    assert done.stderr.strip() == (
        f"error: cannot listen on 127.0.0.1:{port}: Address already in use. Choose another --port, or 0 for a free one."
    )


def test_a_server_without_a_token(tmp_path: Path) -> None:
    done = command(tmp_path, "serve", "--groups=1", "--global-batch=8", PACELINE_TOKEN="")
    assert done.returncode == 2
    assert "PACELINE_TOKEN is not set" in done.stderr


def test_a_recipe_that_never_trains(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("print('hello')")
    done = command(tmp_path, "run", "r.py", "--out", "out")
    assert done.returncode == 5
    assert "Does the recipe call paceline.init" in done.stderr


def test_a_folder_is_not_a_runs_because_of_a_name_in_it(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "diary.txt").write_text("precious")
    (tmp_path / "plan.json").write_text("mine")
    done = command(tmp_path, "run", "--out", ".", "r.py")
    assert done.returncode == 2
    assert "holds files that are not a run's" in done.stderr
    assert (tmp_path / "logs" / "diary.txt").read_text() == "precious"
    assert (tmp_path / "plan.json").read_text() == "mine"


def test_a_stopped_runs_folder_is_not_taken_by_another_run_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("raise SystemExit('measured')")
    stopped = tmp_path / "out"
    (stopped / "checkpoint").mkdir(parents=True)
    (stopped / "checkpoint" / "state.json").write_text("{}")
    (stopped / ".paceline").touch()
    (stopped / "profile.json").write_text("{}")
    done = command(tmp_path, "run", "--out", "out", "r.py")
    assert done.returncode == 2
    assert "out holds the checkpoint of a run that was stopped" in done.stderr
    assert "Go on with --resume out" in done.stderr
    assert (stopped / "profile.json").read_text() == (stopped / "checkpoint" / "state.json").read_text() == "{}"
