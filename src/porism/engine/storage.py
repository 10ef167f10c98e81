"""Storage: the arrays behind BUFFER nodes, and the nodes whose value is already in one.

An array lives as long as its BUFFER node, and a node lives as long as a graph uses it. Nodes that
nobody uses are dropped by `porism.ir.sweep`; `keep` asks for a sweep when much memory was taken
since the last one, so that arrays go when their tensors do.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from porism.base.dtypes import DType, index
from porism.ir import ops, sweep
from porism.ir.node import UOp
from porism.ir.semantics import Array

SWEEP_AFTER: Final = 1 << 28
"""Bytes that may be taken before nodes that nobody uses are looked for."""

_arrays: WeakKeyDictionary[UOp, Array] = WeakKeyDictionary()
_realized: WeakKeyDictionary[UOp, UOp] = WeakKeyDictionary()
_numbers = itertools.count()
_lock = threading.Lock()
_taken = 0


def new_buffer(dtype: DType, dims: Sequence[int], array: Array, device: str = "cpu") -> UOp:
    """A BUFFER node for an array, which is laid out row by row and is not copied.

    >>> node = new_buffer(index, (2,), np.array([3, 4]))
    >>> array_of(node)
    array([3, 4])
    """
    flat = array.reshape(-1)
    assert array.size == 0 or np.shares_memory(flat, array), "the array is not laid out row by row"
    sizes = tuple(UOp.const(index, int(n)) for n in dims)
    with _lock:
        node = ops.BUFFER(*sizes, dtype=dtype, arg=(next(_numbers), device))
        _arrays[node] = flat
    _count(flat.nbytes)
    return node


def array_of(buffer: UOp) -> Array:
    """The elements behind a BUFFER, in one dimension."""
    return _arrays[buffer]


def remember(node: UOp, buffer: UOp) -> None:
    """From now on the value of `node` is what is in `buffer`."""
    if node is not buffer:
        _realized[node] = buffer


def realized(node: UOp) -> UOp | None:
    """The BUFFER that holds the value of a node, if there is one."""
    return node if node.op is ops.BUFFER else _realized.get(node)


def _count(size: int) -> None:
    global _taken
    _taken += size
    if _taken > SWEEP_AFTER:
        _taken = 0
        sweep.sweep()
