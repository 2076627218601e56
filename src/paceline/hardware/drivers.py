"""What the vendors' management libraries say, where one is installed: nvidia-ml-py, amdsmi."""

from __future__ import annotations

import functools


@functools.cache
def order() -> tuple[str, ...]:
    """UUIDs of this host's cards in the order of the vendor's own tools; nothing without its library or driver."""
    return _nvidia() or _amd()


def _nvidia() -> tuple[str, ...]:
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        return tuple(str(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles)
    except pynvml.NVMLError:
        return ()


def _amd() -> tuple[str, ...]:
    try:
        import amdsmi
    except (ImportError, KeyError, OSError):  # it looks for the driver's library as it is imported
        return ()
    try:
        amdsmi.amdsmi_init()
        found = [amdsmi.amdsmi_get_gpu_device_uuid(handle) for handle in amdsmi.amdsmi_get_processor_handles()]
    except amdsmi.AmdSmiException:
        return ()
    return tuple(f"GPU-{uuid}" for uuid in found)
