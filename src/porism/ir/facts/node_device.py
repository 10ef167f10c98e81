"""Node device: on which device the value of a tensor graph is computed.

A BUFFER says on which device its memory is, and a COPY to which one it moves a value. Every other
value is computed where its sources are. What has no memory below it (constants, indices, what is
computed from them) is on no device: it is computed wherever it is used.
"""

from __future__ import annotations

from typing import Final

from porism.base.errors import TypeMismatch
from porism.base.weak_tables import WeakKeys
from porism.ir import ops
from porism.ir.node import UOp

_FREE: Final = ""
"""Stands for no device in the table, in which None means that a node is not in it."""

_devices: Final[WeakKeys[UOp, str]] = WeakKeys()
"""The devices of nodes, so that each is visited once."""


class DeviceMismatch(TypeMismatch):
    """Operands of one operation are on two devices."""

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        why: str | None = None,
        fix: str | None = None,
        operands: tuple[UOp, ...] = (),
    ) -> None:
        super().__init__(what, where=where, why=why, fix=fix)
        self.operands = operands
        """An operand on each device."""


def device_of(node: UOp) -> str | None:
    """Return the device on which a value is computed; None if it is on no device.

    >>> from porism.base import dtypes
    >>> from porism.ir.buffer_node import new_buffer
    >>> x, one = new_buffer(dtypes.f32, (), "gpu:1"), UOp.const(dtypes.f32, 1)
    >>> device_of(x + one), device_of(one), device_of(ops.COPY(x, arg="cpu"))
    ('gpu:1', None, 'cpu')
    """
    found = _devices.get(node)
    if found is None:
        _visit(node)
        found = _devices.get(node)
    return found or None


def _visit(root: UOp) -> None:
    """Note the devices of a node and of all below it that are not noted yet."""
    stack = [(root, iter(root.src))]
    while stack:
        node, sources = stack[-1]
        for source in sources:
            if _devices.get(source) is None:
                stack.append((source, iter(source.src)))
                break
        else:
            stack.pop()
            _devices[node] = _own_device(node)


def _own_device(node: UOp) -> str:
    """Return the device of a node whose sources are noted."""
    if node.op is ops.BUFFER:
        return node.arg[1] or _FREE
    if node.op is ops.COPY:
        return str(node.arg)
    first: UOp | None = None
    device = _FREE
    for source in node.src:
        own = _devices.get(source) or _FREE
        if own in (_FREE, device):
            continue
        if first is not None:
            raise mismatch((first, source), (device, own))
        first, device = source, own
    return device


def mismatch(operands: tuple[UOp, ...], devices: tuple[str, ...]) -> DeviceMismatch:
    """Return the error for operands on two devices."""
    return DeviceMismatch(
        f"operands on two devices, {devices[0]!r} and {devices[1]!r}",
        why="an operation is computed where its operands are, and nothing is moved unasked",
        fix=f'move one of them, as in y.to("{devices[0]}")',
        operands=operands,
    )
