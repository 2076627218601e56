"""``paceline doctor`` on the machine that runs the tests, and a run that is refused as doctor would."""

from pathlib import Path

import pytest
import torch

from harness import command

without_cards = pytest.mark.skipif(torch.cuda.is_available(), reason="this host has an accelerator")


@without_cards
def test_a_host_without_accelerator_is_told_what_will_be_used(tmp_path: Path) -> None:
    done = command(tmp_path, "doctor")
    assert done.returncode == 0, done.stderr
    assert "no accelerator" in done.stdout
    assert "devices of a run: cpu (group here)" in done.stdout
    assert "CPU threads of each worker: " in done.stdout
    assert done.stdout.splitlines()[-1] == "nothing stops a run"


@without_cards
def test_c088_an_error_ends_with_code_2(tmp_path: Path) -> None:
    done = command(tmp_path, "doctor", GLOO_SOCKET_IFNAME="^lo")
    assert done.returncode == 2
    assert "error: GLOO_SOCKET_IFNAME is '^lo'" in done.stdout
    assert "1 of these would stop a run" in done.stderr


@without_cards
def test_a_run_on_cards_that_are_not_there_is_refused_before_it_leaves_a_file(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("")
    (tmp_path / "c.yaml").write_text("name: c\ngroups: [{name: old, devices: ['cuda:0']}]\n")
    done = command(tmp_path, "run", "--cluster", "c.yaml", "--out", "out", "r.py")
    assert done.returncode == 2
    assert "group 'old' wants cuda:0 but this build of torch has neither CUDA nor ROCm" in done.stderr
    assert not (tmp_path / "out").exists()


def test_c088_a_run_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("")
    done = command(tmp_path, "run", "--out", "out", "r.py", GLOO_SOCKET_IFNAME="^lo")
    assert done.returncode == 2
    assert "gloo takes plain names" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
