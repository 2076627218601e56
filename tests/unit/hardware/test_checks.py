"""What doctor finds on hosts that are made up."""

from dataclasses import replace

import pytest

from paceline import api
from paceline.errors import ConfigError
from paceline.hardware.checks import check, refuse, supports
from paceline.hardware.facts import Card, Facts
from paceline.schema.plan import WorkerPlan

A100 = Card(0, "GPU-aaaa", "A100", (8, 0), 40 * 2**30)
TITAN = Card(1, "GPU-bbbb", "TITAN RTX", (7, 5), 24 * 2**30)
PASCAL = Card(2, "GPU-cccc", "GTX 1080", (6, 1), 8 * 2**30)
HOST = Facts(
    host="lab1", kernel="6.8.0-generic", cores=8, build="CUDA 12.8", arches=("sm_75", "sm_80", "sm_90"),
    cards=(A100, TITAN), order=("GPU-aaaa", "GPU-bbbb"),
)  # fmt: skip


def workers(*devices: str, threads: int = 4, speed: float | None = None) -> list[WorkerPlan]:
    return [WorkerPlan(group="g", device=device, threads=threads, share=0, speed=speed) for device in devices]


def said(facts: Facts, *devices: str) -> dict[str, list[str]]:
    """What is found, by level; notes left out."""
    found: dict[str, list[str]] = {}
    for finding in check(facts, workers(*devices)):
        if finding.level != "note":
            found.setdefault(finding.level, []).append(f"{finding.what}. {finding.remedy}")
    return found


def test_a_sound_host_has_nothing_but_notes():
    assert said(HOST, "cuda:0", "cuda:1", "cpu") == {}
    refuse(HOST, workers("cuda:0", "cuda:1"))


def test_c035_a_card_too_old_for_the_build_is_named_with_the_list_and_the_way_on_without_it():
    facts = replace(HOST, cards=(A100, TITAN, PASCAL))
    (error,) = said(facts, "cuda:0", "cuda:1", "cuda:2")["error"]
    assert error == (
        "cuda:2 GTX 1080 GPU-cccc on lab1 has compute capability 6.1, for which this build of torch holds no code; it "
        "supports 7.5, 8.0, 9.0. To go on without it: export CUDA_VISIBLE_DEVICES=GPU-aaaa,GPU-bbbb; or install an "
        "older torch that still supports it."
    )
    assert said(facts, "cuda:0", "cuda:1") == {}


def test_c035_doctor_and_run_both_stop_at_it():
    facts = replace(HOST, cards=(A100, TITAN, PASCAL), order=())
    seen = api.doctor(None, facts)
    assert [worker.device for worker in seen.workers] == ["cuda:0", "cuda:1", "cuda:2"]
    assert [finding.level for finding in seen.findings] == ["error", "note"]
    with pytest.raises(ConfigError, match=r"lab1: cuda:2 GTX 1080 .* 6.1, .* supports 7.5, 8.0, 9.0"):
        refuse(facts, seen.workers)


def test_c035_alone_in_its_host_an_old_card_leaves_the_cpu():
    (error,) = said(replace(HOST, cards=(replace(PASCAL, index=0),)), "cuda:0")["error"]
    assert "To go on without it: devices: [cpu] in the cluster file;" in error


@pytest.mark.parametrize(
    ("arches", "capability", "runs"),
    [
        (["sm_75", "sm_80", "sm_90"], (6, 1), False),
        (["sm_75", "sm_80", "sm_90"], (8, 6), True),
        (["sm_86"], (8, 0), False),
        (["sm_75", "sm_80", "sm_90"], (12, 0), False),
        (["sm_80", "compute_80"], (12, 0), True),
        (["compute_80"], (7, 5), False),
        (["sm_90a"], (9, 0), True),
        (["sm_100a"], (10, 3), False),
        (["sm_100f"], (10, 3), True),
        (["compute_90a"], (12, 0), False),
        (["sm_100", "sm_120"], (12, 0), True),
    ],
)
def test_machine_code_stays_within_a_major_version_and_ptx_goes_on(arches, capability, runs):
    assert supports(arches, capability) is runs


def test_rocm_holds_no_cuda_code_and_is_not_asked_for_it():
    card = Card(0, None, "MI300X", None, 192 * 2**30, "amd")
    assert said(replace(HOST, build="ROCm 6.4", arches=(), cards=(card,), order=()), "cuda:0") == {}


def test_c036_two_orders_are_told_apart_card_by_card_and_the_variable_is_named():
    (warning,) = said(replace(HOST, order=("GPU-bbbb", "GPU-aaaa")), "cuda:0")["warning"]
    assert "cuda:0 A100 GPU-aaaa is its 1; cuda:1 TITAN RTX GPU-bbbb is its 0." in warning
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in warning


def test_c036_hidden_cards_and_an_unknown_order_are_no_other_order():
    assert said(replace(HOST, order=("GPU-zzzz", "GPU-aaaa", "GPU-bbbb")), "cuda:0") == {}
    assert said(replace(HOST, order=()), "cuda:0") == {}


def test_c037_doctor_lists_the_cards_for_a_uuid_that_is_not_there(tmp_path):
    (tmp_path / "c.yaml").write_text("name: c\ngroups: [{name: a, devices: [GPU-dddd]}]\n")
    error = api.doctor(tmp_path / "c.yaml", HOST).findings[0]
    assert error.level == "error"
    assert "GPU-dddd" in error.what
    assert "GPU-aaaa" in error.what
    assert "GPU-bbbb" in error.what


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        (replace(HOST, build=None, arches=(), cards=()), "this build of torch has neither CUDA nor ROCm"),
        (replace(HOST, cards=()), "torch (CUDA 12.8) sees no card"),
        (HOST, "torch sees cuda:0 A100 GPU-aaaa; cuda:1 TITAN RTX GPU-bbbb"),
    ],
)
def test_a_card_that_torch_does_not_see_stops_a_run(facts, error):
    (found,) = said(facts, "cpu", "cuda:5")["error"]
    assert found.startswith(f"group 'g' wants cuda:5 but {error}. ")


@pytest.mark.parametrize("given", ["^lo", "^docker0,lo", "eth0,^lo", "=eth0"])
def test_c088_gloo_takes_plain_names(given):
    (error,) = said(replace(HOST, environment={"GLOO_SOCKET_IFNAME": given}), "cuda:0")["error"]
    assert f"GLOO_SOCKET_IFNAME is '{given}', but gloo takes plain names" in error


def test_c088_nccl_may_exclude_and_plain_names_are_right():
    assert (
        said(replace(HOST, environment={"NCCL_SOCKET_IFNAME": "^lo", "GLOO_SOCKET_IFNAME": "eth0,lo"}), "cuda:0") == {}
    )


def test_c094_wsl_with_several_cards_is_not_called_sound():
    wsl = replace(HOST, kernel="5.15.153.1-microsoft-standard-WSL2")
    (warning,) = said(wsl, "cuda:0", "cuda:1")["warning"]
    assert "NCCL between cards is known to fail" in warning
    assert "paceline run --probe-seconds 1" in warning
    assert "gloo" in warning
    assert said(replace(wsl, cards=(A100,), order=()), "cuda:0") == {}


@pytest.mark.parametrize(
    ("environment", "speed", "why"),
    [
        ({}, None, "OMP_NUM_THREADS sets another number"),
        ({"OMP_NUM_THREADS": "4"}, None, "OMP_NUM_THREADS=4 is kept"),
        ({"OMP_NUM_THREADS": "4"}, 0.5, "emulated devices have one each"),
    ],
)
def test_c100_threads_are_printed_with_their_reason(environment, speed, why):
    notes = check(replace(HOST, environment=environment), workers("cpu", "cpu", speed=speed))
    threads = [note.what for note in notes if note.what.startswith("CPU threads")]
    assert threads == [f"CPU threads of each worker: 4 (cores: 8, workers: 2); {why}"]


def test_cards_that_a_variable_hides_are_noted():
    notes = [finding.what for finding in check(replace(HOST, environment={"CUDA_VISIBLE_DEVICES": "GPU-aaaa"}), [])]
    assert notes == ["CUDA_VISIBLE_DEVICES=GPU-aaaa: torch sees 2 cards"]
