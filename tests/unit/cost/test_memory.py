"""How many samples fit at once."""

import pytest

from paceline.cost.memory import cap

GB = 10**9


@pytest.mark.parametrize(
    ("memory", "headroom", "samples"), [(32, 0.0, 28), (24, 0.0, 20), (32, 0.1, 24), (40, 0.5, 16)]
)
def test_c013_a_cap_is_what_is_left_beside_the_fixed_part(memory, headroom, samples):
    assert cap(memory * GB, 4 * GB, 1 * GB, headroom) == samples


def test_a_part_of_a_sample_does_not_fit_and_one_sample_always_does():
    assert cap(10.0, 1.0, 4.0, 0.0) == 2
    assert cap(10.0, 9.5, 4.0, 0.1) == 1
