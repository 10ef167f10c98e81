"""Devices: where tensors are computed, which is `"cpu"`, and arguments that name it."""

from __future__ import annotations

from typing import Any, Final

from porism.tensor.promotion import type_error
from porism.tensor.tensor import Tensor, method

CPU_NAME: Final = "cpu"


def check_device(device: Any) -> None:
    """Refuse a device that there is not; None stands for the only one."""
    if device is not None and device != CPU_NAME:
        raise type_error(
            f"the device {device!r}",
            "tensors are computed by the processor of this machine, the device 'cpu'",
            "leave out device, or pass 'cpu'",
        )


@method
def to_device(x: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """Return the tensor on a device, which is the one it is on: `"cpu"`."""
    check_device(device)
    if stream is not None:
        raise type_error(
            f"to_device with the stream {stream!r}",
            "the processor has no streams",
            "leave out stream",
        )
    return x
