"""Buffer loads: the loads of a kernel from its parameters, and the conversions that follow them."""

from __future__ import annotations

from porism.base.dtypes import Kind
from porism.base.errors import ActionError
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort, users


def buffer_number(access: UOp) -> int | None:
    """Return the number of the buffer that is accessed; None for local memory."""
    while access.op in (ops.AFTER, ops.INDEX, ops.CAST) and access.src:
        access = access.src[0]
    return int(access.arg) if access.op is ops.PARAM else None


def loads_of(kernel: UOp, buffer: int | None = None) -> list[UOp]:
    """Return the loads of a kernel from one buffer, or from all, in an order of the structure."""
    order = toposort(kernel)
    stored = {n.src[0] for n in order if n.op is ops.STORE}
    loads = [n for n in order if n.op is ops.INDEX and n not in stored]
    return [
        n
        for n in loads
        if n.dtype.kind is not Kind.POINTER
        and (number := buffer_number(n)) is not None
        and buffer in (None, number)
    ]


def unpacked_load(kernel: UOp, buffer: int, loop: UOp) -> tuple[int, UOp]:
    """Return the first load of a buffer that depends on a loop, with its number among the loads.

    Loads that read a packed panel are not among them: if all do, an ActionError says so.
    """
    for number, load in enumerate(loads_of(kernel, buffer)):
        if loop in load.ranges:
            return number, load
    raise ActionError(
        f"no load of buffer {buffer} is left that depends on {show(loop)}",
        where=show(kernel, limit=200),
        why="all of them read a packed panel",
        fix="pack each operand once",
    )


def converted_load(kernel: UOp, load: UOp) -> UOp:
    """Return a load with the casts and selects that only it feeds, which packing can do once."""
    above = users(kernel)
    while True:
        (user,) = above[load] if len(above[load]) == 1 else (None,)
        if user is None or user.op not in (ops.WHERE, ops.CAST):
            return load
        if user.op is ops.CAST and user.dtype.numpy.itemsize > 4:
            return load
        others = [s for s in user.src if s is not load]
        if any(n.op is ops.INDEX for s in others for n in toposort(s)):
            return load
        if set(user.ranges) != set(load.ranges) or user.dtype.count != 1:
            return load
        load = user


def load_of(value: UOp) -> UOp:
    """Return the load in a value of `converted_load`."""
    while value.op is not ops.INDEX:
        value = next(s for s in value.src if any(n.op is ops.INDEX for n in toposort(s)))
    return value
