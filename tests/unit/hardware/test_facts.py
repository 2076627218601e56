"""Cards by index, by UUID, and what they can do."""

import pytest

from paceline.errors import ConfigError
from paceline.hardware.facts import Card, cpu_ability, find

A100 = Card(0, "GPU-8f3a1c2e-aaaa", "A100", (8, 0), 40 * 2**30)
TITAN = Card(1, "GPU-8f99ffff-bbbb", "TITAN RTX", (7, 5), 24 * 2**30)
CARDS = [A100, TITAN]


@pytest.mark.parametrize(
    ("named", "card"),
    [
        ("cuda:0", A100),
        ("cuda:1", TITAN),
        ("GPU-8f3a1c2e-aaaa", A100),
        ("GPU-8f9", TITAN),
        ("cpu", None),
        ("cuda:2", None),
    ],
)
def test_c037_a_card_is_found_by_index_by_uuid_and_by_the_start_of_one(named, card):
    assert find(CARDS, named) is card


@pytest.mark.parametrize(("named", "said"), [("GPU-0000", "no cards"), ("GPU-8f", "2 cards")])
def test_c037_a_uuid_of_none_or_several_lists_the_known_ones(named, said):
    with pytest.raises(ConfigError, match=f"^{said} have a UUID that starts with {named}; expected ") as refused:
        find(CARDS, named)
    assert "cuda:0 A100 GPU-8f3a1c2e-aaaa; cuda:1 TITAN RTX GPU-8f99ffff-bbbb" in str(refused.value)
    assert "CUDA_VISIBLE_DEVICES" in refused.value.remedy


@pytest.mark.parametrize(
    ("capability", "bfloat16", "float16"),
    [((9, 0), True, True), ((8, 0), True, True), ((7, 5), False, True), ((7, 0), False, True), ((6, 1), False, False)],
)
def test_c034_what_a_card_computes_follows_its_capability(capability, bfloat16, float16):
    ability = Card(3, None, "X", capability, 1).ability
    assert (ability.name, ability.bfloat16, ability.float16) == ("X (cuda:3)", bfloat16, float16)


def test_a_card_without_a_capability_is_one_of_rocm():
    ability = Card(0, None, "MI300X", None, 1, "amd").ability
    assert (ability.bfloat16, ability.float16) == (True, True)


@pytest.mark.parametrize(
    ("cpuinfo", "bfloat16"),
    [
        ("flags : fpu avx512f avx512_bf16 amx_tile", True),
        ("flags : fpu amx_bf16", True),
        ("Features : fp bf16", True),
        ("flags : fpu avx2", False),
        ("", False),
    ],
)
def test_a_cpu_computes_bfloat16_where_its_flags_say_so_and_never_float16(cpuinfo, bfloat16):
    ability = cpu_ability(cpuinfo)
    assert (ability.name, ability.bfloat16, ability.float16) == ("cpu", bfloat16, False)
