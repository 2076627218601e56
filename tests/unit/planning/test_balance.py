"""Equal shares, and local steps."""

import pytest

from paceline.errors import ConfigError
from paceline.planning.balance import even, local_steps


def test_equal_shares_give_what_is_left_over_to_the_first():
    assert even(5, 3) == [2, 2, 1]


def test_fewer_samples_than_workers_is_a_share_that_cannot_be_met():
    with pytest.raises(ConfigError, match="a share that cannot be met: a global batch of 3 for 4 workers") as refused:
        even(3, 4)
    assert "Raise the global batch to 4" in refused.value.remedy


def test_local_steps_follow_speed_down_to_one():
    assert local_steps([40.0, 20.0, 10.0, 10.0]) == [8, 4, 2, 2]
    assert local_steps([1.0, 1000.0], most=4) == [1, 4]
    assert local_steps([3.0, 3.0]) == [8, 8]
    assert local_steps([10.0, 4.4]) == [8, 4]
