"""Buffer nodes: a BUFFER for new memory, different from every other node.

Such a node need not be interned: no table holds it, and it is freed as soon as nothing refers to
it, without waiting for a sweep.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

from porism.base.dtypes import INFINITY, DType, index
from porism.ir import ops
from porism.ir.node import MutableNode, UOp
from porism.ir.text import structural_digest

_BUFFER: Final = ops.BUFFER
_CODE: Final = ops.BUFFER.code
_MASK: Final = structural_digest.MASK
_numbers: Final = itertools.count()


def new_buffer(dtype: DType, dims: tuple[UOp, ...], device: str, held: Any = None) -> UOp:
    """Return a BUFFER with a number of its own; `held` is the memory of its values, if it has any.

    >>> from porism.base import dtypes
    >>> node = new_buffer(dtypes.f32, (), "cpu")
    >>> node.op.name, node.arg[1], node.shaped
    ('BUFFER', 'cpu', False)
    """
    assert dtype is not index, "memory has integers of a width"
    number = next(_numbers)
    node = MutableNode()
    node.op = _BUFFER
    node.dtype = dtype
    node.src = dims
    node.arg = (number, device)
    node.held = held
    if dtype.is_float:
        node.vmin, node.vmax = -INFINITY, INFINITY
    else:
        node.vmin, node.vmax = _BUFFER.bounds(dtype, dims, node.arg)
    node.order = hash((_CODE, number)) & _MASK
    node.shaped = dims != ()
    if held is not None:
        node._shape = dims  # memory has a known size, so they are constants
    node.uses_buffer = True
    node.ranges = ()
    node.__class__ = UOp
    return node  # type: ignore[return-value]
