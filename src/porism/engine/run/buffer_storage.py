"""Storage: the arrays behind BUFFER nodes, and the nodes whose value is already in one.

An array lives as long as its BUFFER node, and that as long as a tensor or a graph uses it: no table
holds nodes on memory, so arrays go when their tensors do.

A *placeholder* is a BUFFER without an array: it stands for data in a function that is traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from porism.base.dtypes import DType, index
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.base.weak_tables import WeakKeys
from porism.engine.run import array_allocator
from porism.ir import buffer_node, ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp

PLACEHOLDER: Final = "traced"
"""The device of placeholders."""

Held = tuple[Array, int]
"""An array in one dimension, and where its first element is."""

_realized: WeakKeys[UOp, UOp] = WeakKeys()
_fast: WeakKeys[UOp, UOp] = WeakKeys()
"""Values that were computed with fast math: nobody else is given them for the same graph."""


class NoValue(PorismError):  # noqa: N818 - the name says it all
    """A value that is asked for while there is none: inside of a traced function."""


def new_buffer(dtype: DType, dims: Sequence[int], array: Array, device: str = "cpu") -> UOp:
    """A BUFFER node for an array, which is laid out row by row and is not copied.

    >>> from porism.base.dtypes import i64
    >>> node = new_buffer(i64, (2,), np.array([3, 4]))
    >>> array_of(node)
    array([3, 4])
    """
    flat = array.reshape(-1)
    assert array.size == 0 or np.shares_memory(flat, array), "the array is not laid out row by row"
    sizes = tuple(UOp.const(index, int(n)) for n in dims)
    return hold(dtype, sizes, flat, array_allocator.address_of(flat), device)


def hold(
    dtype: DType, dims: tuple[UOp, ...], array: Array, address: int, device: str = "cpu"
) -> UOp:
    """A BUFFER node for an array in one dimension, whose address is known; dims are constants."""
    return buffer_node.new_buffer(dtype, dims, device, (array, address))


def hold_number(node: UOp) -> UOp:
    """A BUFFER node for the number of a CONST."""
    array, address = array_allocator.new_array(1, node.dtype.numpy)
    array[0] = node.arg
    return hold(node.dtype, (), array, address)


def new_placeholder(dtype: DType, dims: tuple[UOp, ...]) -> UOp:
    """A BUFFER node without an array."""
    return buffer_node.new_buffer(dtype, dims, PLACEHOLDER)


def is_placeholder(node: UOp) -> bool:
    """Whether a BUFFER stands for data that is not there yet."""
    return bool(node.arg[1] == PLACEHOLDER)


def held(node: UOp) -> Held:
    """The array behind a BUFFER, and its address."""
    found = held_if_any(node)
    if found is None:
        raise NoValue("the value of a placeholder is asked for", why="it has none")
    return found


def held_if_any(node: UOp) -> Held | None:
    """The array behind a node and its address, if it is a BUFFER that has one."""
    found: Held | None = getattr(node, "held", None)
    return found


def array_of(node: UOp) -> Array:
    """The elements behind a BUFFER, in one dimension."""
    return held(node)[0]


def remember(node: UOp, place: UOp, *, exact: bool = True) -> None:
    """From now on the value of `node` is what is in the BUFFER `place`.

    If it is not `exact`, that holds only while `fast_math` is on.
    """
    if node is not place:
        (_realized if exact else _fast)[node] = place


def realized(node: UOp) -> UOp | None:
    """The BUFFER that holds the value of a node, if there is one."""
    if node.op is ops.BUFFER:
        return node
    found = _realized.get(node)
    if found is None and _fast and settings.fast_math:
        return _fast.get(node)
    return found
