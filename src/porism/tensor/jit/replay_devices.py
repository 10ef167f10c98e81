"""Replay devices: whether the tensors of a call are on the devices that a trace was made for.

Tensors on no device go along with the program; those that are on one are not moved unasked.
Nothing here is called while only the processor is used.
"""

from __future__ import annotations

from collections.abc import Iterable

from porism.engine.device.device_placement import own_device
from porism.ir.facts.node_device import DeviceMismatch
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line


def changed_device(
    captured: Iterable[tuple[Tensor, str | None]], program: str | None
) -> str | None:
    """Return which captured tensor is on another device than when it was traced, or None.

    One that was on no device may be on that of the program by now.
    """
    for tensor, device in captured:
        now = own_device(tensor._node)
        if now not in (device or program, None):
            return f"a tensor that it uses was on {device!r} and is on {now!r}"
    return None


def check_arguments(tensors: Iterable[Tensor], device: str) -> None:
    """Refuse arguments that are on another device than the program."""
    for tensor in tensors:
        own = own_device(tensor._node)
        if own not in (None, device):
            raise DeviceMismatch(
                f"an argument of a jitted function is on {own!r}, and it computes on {device!r}",
                where=users_line(),
                why="nothing is moved unasked",
                fix=f'move the argument: x.to("{device}")',
            )
