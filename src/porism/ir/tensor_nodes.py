"""Tensor nodes: the few operations on tensors that every tensor graph is built from.

Each function builds one node, or none where nothing changes. They take and return nodes; shapes and
types already match. Sizes are ints or nodes (symbolic dimensions).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from porism.base.dtypes import DType, i64, index, u64
from porism.ir import ops
from porism.ir.facts.node_shape import are_equal, shape
from porism.ir.node import UOp
from porism.ir.ops import Op

Dim = int | UOp
Dims = Sequence[Dim]


def as_dim(size: Dim) -> UOp:
    """Return a size as a node."""
    return size if isinstance(size, UOp) else UOp.const(index, size)


def _sizes(sizes: Dims) -> tuple[UOp, ...]:
    """Return sizes as nodes."""
    return tuple(map(as_dim, sizes))


def _has_shape(x: UOp, sizes: Sequence[UOp]) -> bool:
    """Whether a node is known to have the given shape."""
    dims = shape(x)
    return len(dims) == len(sizes) and all(map(are_equal, dims, sizes))


def full(dtype: DType, value: Any, sizes: Dims) -> UOp:
    """Return a tensor with one value in every element."""
    return broadcast(UOp.const(dtype, value), sizes)


def broadcast(x: UOp, sizes: Dims) -> UOp:
    """Broadcast as NumPy does: new axes in front, axes of size 1 repeated."""
    dims = shape(x)
    missing = len(sizes) - len(dims)
    if missing:
        x = reshape(x, (*[1] * missing, *dims))
    return expand(x, sizes)


def reshape(x: UOp, sizes: Dims) -> UOp:
    """Return the elements in row-major order with another shape."""
    wanted = _sizes(sizes)
    if _has_shape(x, wanted):
        return x
    if x.op is ops.RESHAPE:
        return reshape(x.src[0], wanted)
    return ops.RESHAPE(x, *wanted)


def permute(x: UOp, order: Sequence[int]) -> UOp:
    """Permute axes: axis `order[k]` becomes axis `k`."""
    wanted = tuple(order)
    if wanted == tuple(range(len(wanted))):
        return x
    if x.op is ops.PERMUTE:
        return permute(x.src[0], tuple(x.arg[axis] for axis in wanted))
    return ops.PERMUTE(x, arg=wanted)


def expand(x: UOp, sizes: Dims) -> UOp:
    """Repeat axes of size 1 to the given sizes."""
    wanted = _sizes(sizes)
    return x if _has_shape(x, wanted) else ops.EXPAND(x, *wanted)


def pad(x: UOp, pairs: Sequence[tuple[Dim, Dim]]) -> UOp:
    """Pad with zeros; a pair (before, after) for each axis."""
    numbers = _sizes([n for pair in pairs for n in pair])
    return x if all(n.vmin == n.vmax == 0 for n in numbers) else ops.PAD(x, *numbers)


def shrink(x: UOp, pairs: Sequence[tuple[Dim, Dim]]) -> UOp:
    """Return a slice; a pair (begin, end) for each axis."""
    numbers = _sizes([n for pair in pairs for n in pair])
    begins, ends = numbers[::2], numbers[1::2]
    if all(b.vmin == b.vmax == 0 for b in begins) and _has_shape(x, ends):
        return x
    return ops.SHRINK(x, *numbers)


def flip(x: UOp, axes: Sequence[int]) -> UOp:
    """Reverse the order of elements along axes."""
    return ops.FLIP(x, arg=tuple(sorted(axes))) if axes else x


def reduce(x: UOp, op: Op, axes: Sequence[int]) -> UOp:
    """Reduce over axes, which keep size 1."""
    return ops.REDUCE_AXIS(x, arg=(op, tuple(sorted(axes)))) if axes else x


def apply(op: Op, *operands: UOp) -> UOp:
    """Apply an elementwise op to operands of one type and one shape, or scalars."""
    return op(*operands)


def cast(x: UOp, dtype: DType) -> UOp:
    """Return the values converted to another type."""
    return x if x.dtype is dtype else ops.CAST(x, dtype=dtype)


def clamp_index(x: UOp, size: Dim) -> UOp:
    """Return integers as indices along an axis; those out of range become -1 or the size.

    So every index has bounds, also if it is loaded from memory and may be any number.
    """
    if x.dtype is u64:  # large values would not fit i64
        x = cast(x.minimum(x.lift(i64.max)), i64)
    return cast(x, index).maximum(-1).minimum(as_dim(size))


def iota(sizes: Dims, axis: int) -> UOp:
    """Return the position of each element along an axis."""
    return ops.IOTA(*_sizes(sizes), arg=axis)


def gather(x: UOp, indices: Sequence[UOp]) -> UOp:
    """Gather elements of x by an index tensor for each axis; 0 where an index is out of range."""
    return ops.GATHER(x, *indices)


def contiguous(x: UOp, requester: str | None = None) -> UOp:
    """Return the value stored in a buffer of its own; `explain` names the requester."""
    value = x
    while value.op is ops.PULLBACK:  # it is its first source
        value = value.src[0]
    stored = value.op in (ops.CONTIGUOUS, ops.BUFFER, ops.PARAM)
    return x if stored else ops.CONTIGUOUS(x, arg=requester)
