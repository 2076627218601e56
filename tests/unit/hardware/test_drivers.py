"""The vendors' libraries, played by stand-ins where there is no card."""

import sys
from types import ModuleType

import pytest

from paceline.hardware import drivers


class DriverError(Exception):
    """What both libraries raise where there is no driver."""


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch):
    for name in ("pynvml", "amdsmi"):
        monkeypatch.setitem(sys.modules, name, None)  # not installed
    drivers.order.cache_clear()
    yield
    drivers.order.cache_clear()


def nvidia(uuids: list[str], driver: bool = True) -> ModuleType:
    def start() -> None:
        if not driver:
            raise DriverError

    library = ModuleType("pynvml")
    library.NVMLError, library.nvmlInit = DriverError, start
    library.nvmlDeviceGetCount = lambda: len(uuids)
    library.nvmlDeviceGetHandleByIndex = lambda index: index
    library.nvmlDeviceGetUUID = lambda handle: uuids[handle]
    return library


def amd(uuids: list[str]) -> ModuleType:
    library = ModuleType("amdsmi")
    library.AmdSmiException, library.amdsmi_init = DriverError, lambda: None
    library.amdsmi_get_processor_handles = lambda: uuids
    library.amdsmi_get_gpu_device_uuid = lambda handle: handle
    return library


def test_without_a_library_nothing_is_known():
    assert drivers.order() == ()


def test_nvidias_cards_come_in_its_own_order(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvidia(["GPU-b", "GPU-a"]))
    assert drivers.order() == ("GPU-b", "GPU-a")


def test_a_library_without_a_driver_knows_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvidia([], driver=False))
    assert drivers.order() == ()


def test_amds_cards_are_named_as_torch_names_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "amdsmi", amd(["77", "33"]))
    assert drivers.order() == ("GPU-77", "GPU-33")
