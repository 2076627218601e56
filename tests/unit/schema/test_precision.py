"""One number format for unlike devices, with the reason."""

import pytest

from paceline.errors import ConfigError
from paceline.schema.precision import Ability, agree

AMPERE = Ability("A100 (cuda:0)", bfloat16=True, float16=True)
TURING = Ability("RTX 2080 Ti (cuda:1)", bfloat16=False, float16=True)
PASCAL = Ability("GTX 1080 (cuda:2)", bfloat16=False, float16=False)


@pytest.mark.parametrize(
    ("abilities", "scaler", "dtype", "reason"),
    [
        ([AMPERE, AMPERE], False, "bfloat16", "bfloat16: all devices (2) have it."),
        (
            [AMPERE, TURING, TURING], True, "float16",
            "float16 with the GradScaler: RTX 2080 Ti (cuda:1), 2 of 3 devices, cannot compute bfloat16.",
        ),
        (
            [AMPERE, TURING], False, "float32",
            "float32: RTX 2080 Ti (cuda:1), 1 of 2 devices, cannot compute bfloat16, and float16 needs a GradScaler "
            "given to run.setup.",
        ),
        (
            [AMPERE, TURING, PASCAL], True, "float32",
            "float32: RTX 2080 Ti (cuda:1), GTX 1080 (cuda:2), 2 of 3 devices, cannot compute bfloat16, and "
            "GTX 1080 (cuda:2) not float16.",
        ),
    ],
)  # fmt: skip
def test_c034_auto_is_the_best_that_every_device_has_and_says_who_decides(abilities, scaler, dtype, reason):
    agreed = agree("auto", abilities, scaler)
    assert (agreed.dtype, agreed.reason) == (dtype, reason)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_what_is_asked_for_is_taken_where_all_devices_have_it(dtype):
    assert agree(dtype, [AMPERE, AMPERE], scaler=False).dtype == dtype
    assert agree("float32", [PASCAL], scaler=False).dtype == "float32"


@pytest.mark.parametrize(("dtype", "named"), [("bfloat16", "RTX 2080 Ti .cuda:1., GTX"), ("float16", "which GTX 1080")])
def test_c034_what_a_device_lacks_is_refused_with_its_name(dtype, named):
    with pytest.raises(ConfigError, match=named) as refused:
        agree(dtype, [AMPERE, TURING, PASCAL], scaler=True)
    assert "precision='auto'" in refused.value.remedy
