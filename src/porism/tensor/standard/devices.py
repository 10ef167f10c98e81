"""Devices: arguments that name a device, and tensors on it."""

from __future__ import annotations

from typing import Any, Final

from porism.base import device_use
from porism.base.device_use import HOST
from porism.base.errors import PorismError
from porism.engine.device import device_table
from porism.engine.device.device_table import UnknownDevice
from porism.tensor.promotion import type_error
from porism.tensor.tensor import Tensor, method
from porism.tensor.user_line import users_line

_OTHER_KINDS: Final = ("gpu", "mps", "xpu", "tpu")
"""Devices of other libraries, which are refused as such and not as types."""


def devices() -> tuple[str, ...]:
    """Return the devices of this machine: the processor "cpu", and GPUs "cuda", "cuda:1" …

    >>> porism.devices()[0]
    'cpu'
    """
    return device_table.device_names()


def is_device_name(given: Any) -> bool:
    """Return whether an argument names a device, of this library or of others.

    >>> is_device_name("cuda:1"), is_device_name("float32")
    (True, False)
    """
    kind = str(given).partition(":")[0].lower() if isinstance(given, str) else ""
    return kind in (*device_table.KINDS, *_OTHER_KINDS)


def check_device(device: Any) -> str | None:
    """Return the name of a device that is given, None if none is; refuse one that there is not."""
    if device is None or device == HOST:
        return device  # type: ignore[no-any-return]
    try:
        name = device_table.canonical_name(device)
        if name != HOST:
            device_table.find_device(name)
    except UnknownDevice as error:
        raise type_error(error.what, str(error.why), str(error.fix)) from None
    except PorismError as error:
        error.where = users_line()
        raise
    return name


def new_device(device: Any) -> str:
    """Return the name of the device of a tensor that is made: the given one, or the default."""
    name = check_device(device)
    if name is not None:
        return name
    if not device_use.others_are_used:
        return HOST
    from porism.engine.device.device_placement import default_device

    return default_device()


def on_device(x: Tensor, device: Any) -> Tensor:
    """Return a tensor on a device: the same one if it is there, or if none is given."""
    name = check_device(device)
    if name is None or not device_use.others_are_used:
        return x
    from porism.engine.device.device_placement import default_device, moved

    if x.dtype.kind == "c":
        real, imag = x.real_part, x.imag_part  # type: ignore[attr-defined]
        moved_real, moved_imag = on_device(real, name), on_device(imag, name)
        if moved_real is real and moved_imag is imag:
            return x
        return type(x)(moved_real, moved_imag)
    node = x.node
    if not node.uses_buffer and name == default_device() and x.device == name:
        return x
    new = moved(node, name)
    return x if new is node else Tensor(new)


@method
def to_device(x: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """Return the tensor on a device, such as "cpu" or "cuda"; itself if it is there already.

    >>> porism.ones(2).to_device("cpu").device
    'cpu'
    """
    if stream is not None:
        raise type_error(
            f"to_device with the stream {stream!r}",
            "copies are ordered with the kernels of a device, and need no stream",
            "leave out stream",
        )
    return on_device(x, device)
