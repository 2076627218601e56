"""CPU quotas: the right numbers in the right files of both versions, and once on this machine's own control groups."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.emulation.cgroups import PERIOD_US, Quotas, enter
from paceline.errors import LaunchError

SPEEDS = [0.72, 0.36, 0.18]
REAL = Path("/sys/fs/cgroup")


@pytest.fixture(params=[1, 2])
def root(request, tmp_path):
    """An empty mount point laid out as version 1 or 2."""
    if request.param == 1:
        (tmp_path / "cpu").mkdir()
    else:
        (tmp_path / "cgroup.controllers").write_text("cpu memory")
    return tmp_path


def forget_files(quotas: Quotas) -> None:
    """Remove the files of the groups, as the kernel does by itself when a group is removed."""
    for file in quotas.folders[0].parent.rglob("*"):
        if file.is_file():
            file.unlink()


def quota_and_period(folder: Path) -> tuple[int, int]:
    if (folder / "cpu.max").exists():
        quota, period = (folder / "cpu.max").read_text().split()
    else:
        quota, period = (folder / "cpu.cfs_quota_us").read_text(), (folder / "cpu.cfs_period_us").read_text()
    return int(quota), int(period)


def test_each_worker_has_its_part_of_a_core_in_its_own_group(root):
    quotas = Quotas(SPEEDS, root)
    assert len({*quotas.folders}) == 3
    assert [quota_and_period(folder) for folder in quotas.folders] == [
        (14_400, PERIOD_US),
        (7_200, PERIOD_US),
        (3_600, PERIOD_US),
    ]


def test_version_2_hands_the_cpu_controller_down(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpu")
    quotas = Quotas([0.5], tmp_path)
    assert (quotas.folders[0].parent / "cgroup.subtree_control").read_text() == "+cpu"
    assert quotas.folders[0].parent.parent == tmp_path


def test_the_period_is_short_so_that_a_device_is_slow_at_every_step():
    assert PERIOD_US <= 20_000


def test_two_runs_of_one_process_do_not_share_groups(root):
    first, second = Quotas([0.5], root), Quotas([0.5], root)
    assert first.folders != second.folders


def test_remove_leaves_nothing_and_may_be_called_again(root):
    before = sorted(root.rglob("*"))
    quotas = Quotas(SPEEDS, root)
    forget_files(quotas)
    quotas.remove()
    quotas.remove()
    assert sorted(root.rglob("*")) == before


def test_without_a_cpu_controller_the_error_offers_pacing(tmp_path):
    with pytest.raises(LaunchError, match=f"under {tmp_path / 'cpu'}: .*Use --emulation pacing"):
        Quotas([0.5], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_group_that_is_gone_cannot_be_entered(tmp_path):
    with pytest.raises(LaunchError, match="cannot enter the CPU quota"):
        enter(tmp_path / "gone")


def controlled() -> bool:
    return os.geteuid() == 0 and any(
        path.is_file() and os.access(path.parent, os.W_OK)
        for path in (REAL / "cgroup.controllers", REAL / "cpu" / "cgroup.procs")
    )


@pytest.mark.skipif(not controlled(), reason="needs root and a cpu controller")
def test_on_this_machine_a_child_enters_its_quota_and_the_group_goes_when_the_child_has_gone():
    try:
        quotas = Quotas([0.25], REAL)
    except LaunchError as error:
        pytest.skip(str(error))
    (folder,) = quotas.folders
    try:
        assert quota_and_period(folder) == (5_000, PERIOD_US)
        program = (
            "import pathlib, sys; from paceline.emulation.cgroups import enter\n"
            "enter(pathlib.Path(sys.argv[1])); print('in', flush=True); sys.stdin.read()"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdout.readline() == "in\n"
        assert (folder / "cgroup.procs").read_text().split() == [str(child.pid)]
        child.communicate("")
    finally:
        quotas.remove()
    assert not folder.parent.exists()
