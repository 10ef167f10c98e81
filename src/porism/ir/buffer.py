"""Buffer: a BUFFER node for new memory, which no other node is equal to.

So it need not be interned: no table holds it, and it is gone as soon as nothing refers to it,
without waiting for a sweep.
"""

from __future__ import annotations

from porism.base.dtypes import INFINITY, DType
from porism.ir import ops, stable
from porism.ir.draft import Draft
from porism.ir.node import UOp


def new_buffer(dtype: DType, dims: tuple[UOp, ...], number: int, device: str) -> UOp:
    """A BUFFER with a number that no other has.

    >>> from porism.base import dtypes
    >>> node = new_buffer(dtypes.f32, (), 7, "cpu")
    >>> node.op.name, node.arg, node.shaped
    ('BUFFER', (7, 'cpu'), False)
    """
    node = Draft()
    node.op = ops.BUFFER
    node.dtype = dtype
    node.src = dims
    node.arg = (number, device)
    if dtype.is_float:
        node.vmin, node.vmax = -INFINITY, INFINITY
    else:
        node.vmin, node.vmax = ops.BUFFER.bounds(dtype, dims, node.arg)
    node.order = hash((ops.BUFFER.code, number)) & stable.MASK
    node.shaped = bool(dims)
    node.on_memory = True
    node.ranges = ()
    node.__class__ = UOp
    return node  # type: ignore[return-value]
