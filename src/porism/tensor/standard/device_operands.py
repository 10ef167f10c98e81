"""Device operands: a tensor gets a value whose operands are on one device, and stays on its own.

Nothing here is called while only the processor is used.
"""

from __future__ import annotations

from porism.base import device_use
from porism.base.settings import renew_values
from porism.engine.device.device_placement import default_device, moved, placed
from porism.ir import ops
from porism.ir.facts.node_device import DeviceMismatch, device_of
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.tensor.promotion import name_of
from porism.tensor.shapes import to_text
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line


def place(tensor: Tensor, node: UOp) -> UOp:
    """Return the node for a tensor: its operands on one device, or an error with the user's line.

    A tensor that is on another device than the default one stays there if it is assigned a value
    that is on no device.
    """
    try:
        node = placed(node)
    except DeviceMismatch as error:
        raise _mismatch(error) from None
    before = getattr(tensor, "_node", None)
    if before is not None and device_of(node) is None:
        own = device_of(before)
        if own not in (None, default_device()):
            return moved(node, own)
    return node


def _mismatch(error: DeviceMismatch) -> DeviceMismatch:
    """Return the error with the user's line and the operands."""
    a, b = error.operands
    return DeviceMismatch(
        f"operands on two devices: {_text(a)}, and {_text(b)}",
        where=users_line(),
        why=error.why,
        fix=f'move one of them: y.to("{device_of(a)}"), or x.to("{device_of(b)}")',
        operands=error.operands,
    )


def _text(node: UOp) -> str:
    """Return the type, the shape before it was broadcast, and the device of an operand."""
    device = device_of(node)
    if node.op is ops.EXPAND:
        node = node.src[0]
        node = node.src[0] if node.op is ops.RESHAPE else node
    sizes = to_text(int(dim.arg) if dim.op is ops.CONST else dim for dim in shape(node))
    return f"{name_of(node.dtype)} {sizes} on {device!r}"


device_use.when_others_are_used(renew_values)
