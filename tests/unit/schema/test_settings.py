from __future__ import annotations

import pytest

from paceline.errors import ConfigError
from paceline.schema.settings import Settings


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"global_batch": 0}, "global_batch"),
        ({"global_batch": 8, "precision": "bloat16"}, "'bfloat16'"),
        ({"global_batch": 8, "reduction": "mean"}, "'sample-mean'"),
        ({"global_batch": 8, "lr_rule": "linear"}, "without base_batch"),
        ({"global_batch": 8, "sead": 1}, "Did you mean 'seed'"),
    ],
)
def test_what_init_cannot_mean_is_a_sentence(told: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Settings.parse(told, "paceline.init")


@pytest.mark.parametrize(("rule", "factor"), [("none", 1.0), ("linear", 4.0), ("sqrt", 2.0)])
def test_the_factor_of_a_learning_rate(rule: str, factor: float) -> None:
    assert Settings(global_batch=64, base_batch=16, lr_rule=rule).rate_factor == factor
