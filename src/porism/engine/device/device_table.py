"""Device table: the devices by name, and those that this machine has.

A device is made when it is first named; nothing is looked for before.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from porism.base.device_use import HOST, note_device
from porism.base.errors import PorismError
from porism.base.fork_locks import held_while_forking

if TYPE_CHECKING:
    from porism.engine.device.device import Device

FAKE: Final = "fake"
"""The kind of devices for tests."""
CUDA: Final = "cuda"
DLPACK_CUDA: Final = 2
"""The type kDLCUDA of DLPack."""

KINDS: Final = (HOST, CUDA, FAKE)

_devices: dict[str, Device] = {}
_lock = held_while_forking(threading.RLock())


class UnknownDevice(PorismError, ValueError):  # noqa: N818 - the name says it all
    """A name is no name of a device."""


def canonical_name(device: Any) -> str:
    """Return the name of a device as it is written here: the first of a kind has no number.

    >>> canonical_name("cuda:0"), canonical_name("cuda:1"), canonical_name("CPU")
    ('cuda', 'cuda:1', 'cpu')
    """
    text = str(device).lower()
    kind, colon, number = text.partition(":")
    digits = number.isascii() and number.isdigit() and len(number) <= 3
    if kind not in KINDS or (colon and not digits) or (kind == HOST and number not in ("", "0")):
        raise UnknownDevice(
            f"the device {device!r}",
            why="devices are 'cpu', 'cuda', and 'cuda:1' and so on",
            fix="porism.devices() lists those of this machine",
        )
    return f"{kind}:{int(number)}" if number and int(number) else kind


def find_device(name: str) -> Device:
    """Return the device of a canonical name other than that of the processor."""
    device = _devices.get(name)
    if device is None:
        with _lock:
            device = _devices.get(name)
            if device is None:
                device = _devices[name] = _new_device(name)
    note_device(name)
    return device


def _new_device(name: str) -> Device:
    kind, _, number = name.partition(":")
    if kind == FAKE:
        from porism.engine.device.fake_device import FakeDevice

        return FakeDevice(name, int(number or 0))
    assert kind == CUDA, f"{name} is the processor, whose memory is NumPy's"
    from porism.engine.cuda.cuda_device import open_device

    return open_device(name, int(number or 0))


def device_names() -> tuple[str, ...]:
    """Return the names of the devices that this machine has, the processor first."""
    from porism.engine.cuda.cuda_driver import device_count

    found = [canonical_name(f"{CUDA}:{k}") for k in range(device_count())]
    return (HOST, *found)


def device_of_dlpack(kind: int, number: int) -> Device | None:
    """Return a device by its type and number in DLPack; None if it is none of these here."""
    if kind == DLPACK_CUDA:
        return find_device(canonical_name(f"{CUDA}:{number}"))
    for device in list(_devices.values()):  # others only if they were named before
        if device.dlpack == (kind, number):
            return device
    return None
