"""Primitives: the few operations that every function on tensors is made of.

Each builds one node of the tensor graph, or none where nothing changes. They take and give nodes;
shapes and types already fit. Sizes are ints or nodes (symbolic dimensions).
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
    """A size as a node."""
    return size if isinstance(size, UOp) else UOp.const(index, size)


def _sizes(sizes: Dims) -> tuple[UOp, ...]:
    return tuple(map(as_dim, sizes))


def _same_dims(x: UOp, sizes: Sequence[UOp]) -> bool:
    dims = shape(x)
    return len(dims) == len(sizes) and all(map(are_equal, dims, sizes))


def full(dtype: DType, value: Any, sizes: Dims) -> UOp:
    """One number in every element."""
    return broadcast(UOp.const(dtype, value), sizes)


def broadcast(x: UOp, sizes: Dims) -> UOp:
    """As in NumPy: new axes in front, axes of size 1 repeated."""
    dims = shape(x)
    missing = len(sizes) - len(dims)
    if missing:
        x = reshape(x, (*[1] * missing, *dims))
    return expand(x, sizes)


def reshape(x: UOp, sizes: Dims) -> UOp:
    """The same elements in row order under other dims."""
    wanted = _sizes(sizes)
    if _same_dims(x, wanted):
        return x
    if x.op is ops.RESHAPE:
        return reshape(x.src[0], wanted)
    return ops.RESHAPE(x, *wanted)


def permute(x: UOp, order: Sequence[int]) -> UOp:
    """Axis `order[k]` becomes axis `k`."""
    wanted = tuple(order)
    if wanted == tuple(range(len(wanted))):
        return x
    if x.op is ops.PERMUTE:
        return permute(x.src[0], tuple(x.arg[axis] for axis in wanted))
    return ops.PERMUTE(x, arg=wanted)


def expand(x: UOp, sizes: Dims) -> UOp:
    """Axes of size 1 repeated."""
    wanted = _sizes(sizes)
    return x if _same_dims(x, wanted) else ops.EXPAND(x, *wanted)


def pad(x: UOp, pairs: Sequence[tuple[Dim, Dim]]) -> UOp:
    """Zeros before and after, for each axis."""
    numbers = _sizes([n for pair in pairs for n in pair])
    return x if all(n.vmin == n.vmax == 0 for n in numbers) else ops.PAD(x, *numbers)


def shrink(x: UOp, pairs: Sequence[tuple[Dim, Dim]]) -> UOp:
    """The part from begin to end, for each axis."""
    numbers = _sizes([n for pair in pairs for n in pair])
    begins, ends = numbers[::2], numbers[1::2]
    if all(b.vmin == b.vmax == 0 for b in begins) and _same_dims(x, ends):
        return x
    return ops.SHRINK(x, *numbers)


def flip(x: UOp, axes: Sequence[int]) -> UOp:
    """Axes backwards."""
    return ops.FLIP(x, arg=tuple(sorted(axes))) if axes else x


def reduce(x: UOp, op: Op, axes: Sequence[int]) -> UOp:
    """Reduced over axes, which stay with size 1."""
    return ops.REDUCE_AXIS(x, arg=(op, tuple(sorted(axes)))) if axes else x


def apply(op: Op, *operands: UOp) -> UOp:
    """An elementwise op on operands of one shape (or of none) and one type."""
    return op(*operands)


def cast(x: UOp, dtype: DType) -> UOp:
    """The values in another type."""
    return x if x.dtype is dtype else ops.CAST(x, dtype=dtype)


def clamp_index(x: UOp, size: Dim) -> UOp:
    """Integers as places along an axis; what is no place becomes -1 or the size.

    So all that is computed of it has bounds, also where a number was loaded and may be anything.
    """
    if x.dtype is u64:  # of which not all are i64, as machines count
        x = cast(x.minimum(x.lift(i64.max)), i64)
    return cast(x, index).maximum(-1).minimum(as_dim(size))


def iota(sizes: Dims, axis: int) -> UOp:
    """The position of each element along an axis."""
    return ops.IOTA(*_sizes(sizes), arg=axis)


def gather(x: UOp, indices: Sequence[UOp]) -> UOp:
    """Elements of x, by an index tensor for each axis; 0 where an index is outside."""
    return ops.GATHER(x, *indices)


def contiguous(x: UOp, requester: str | None = None) -> UOp:
    """The value, stored in memory of its own; the requester is named where `explain` says why."""
    stored = x.op in (ops.CONTIGUOUS, ops.BUFFER, ops.PARAM)
    return x if stored else ops.CONTIGUOUS(x, arg=requester)
