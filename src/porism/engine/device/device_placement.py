"""Placement: the device of new tensors, and values that may move to another one by themselves.

A tensor is where its memory is, and what is computed from it as well. Two kinds of values are on no
device, and go along with the others of an operation:

- what is computed from indices alone, as `arange`: also when its values were computed already on
  some device, since they can be computed again anywhere;
- lists and arrays of NumPy's that are operands beside a tensor.

Nothing here is called while only the processor is used.
"""

from __future__ import annotations

from porism.base.settings import settings
from porism.engine.run.buffer_storage import origin_of
from porism.ir import ops
from porism.ir.facts.node_device import DeviceMismatch, device_of
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort


def default_device() -> str:
    """Return the device of tensors that are made without one."""
    return settings.device


def is_movable(buffer: UOp) -> bool:
    """Return whether a BUFFER is on its device by chance."""
    return origin_of(buffer) is not None


def own_device(node: UOp) -> str | None:
    """Return the device of a value; None if it is on none, or moves by itself."""
    device = device_of(node)
    return None if device is None or is_movable(node) else device


def moved(node: UOp, device: str) -> UOp:
    """Return a value on a device: moved there, or computed there if it is on no device."""
    if device_of(node) == device and not is_movable(node):
        return node
    node = _with_origins(node, device)
    return node if device_of(node) == device else ops.COPY(node, arg=device)


def placed(node: UOp) -> UOp:
    """Return a value whose operands are on one device; those that may move are moved to it."""
    try:
        device_of(node)
    except DeviceMismatch:
        order = toposort(node, within=_is_no_copy)
        sources = dict.fromkeys(s for n in order for s in n.src)
        ends = [s for s in sources if s.op in (ops.BUFFER, ops.COPY) and not is_movable(s)]
        fixed = {device for s in ends if (device := device_of(s)) is not None}
        if len(fixed) > 1:
            raise
        node = _with_origins(node, *(fixed or {default_device()}))
    return node


def _is_no_copy(node: UOp) -> bool:
    """Return whether a value is computed on the device of its sources."""
    return node.op is not ops.COPY


def _with_origins(node: UOp, device: str) -> UOp:
    """Return a value with what may move on a device."""
    replacements: dict[UOp, UOp] = {}
    for n in toposort(node, within=_is_no_copy):
        origin = origin_of(n) if n.op is ops.BUFFER and n.arg[1] != device else None
        if origin is not None:
            replacements[n] = ops.COPY(n, arg=device) if origin is n else origin
    return substitute(node, replacements) if replacements else node
