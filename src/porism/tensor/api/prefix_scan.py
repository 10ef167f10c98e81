"""Scan: all prefixes of an axis reduced, without doing the work of each anew.

It is written as a reduction of each element and those before it (a triangular mask), and stored
like that: a kernel in which such a reduction is all that is done along an axis does it in one loop
that carries it on (`optimize.scans`). What is read is stored before, where it is not a plain view.

Where there are too few rows for all cores, the axis is cut into parts. The totals of the parts are
scanned in the same way, which gives what came before each part: the elements are read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.tensor import primitive
from porism.tensor.movement.pad_value import filled
from porism.tensor.primitive import Dim

SHORT: Final = 16
"""Elements that are reduced at once, at most: nothing needs to be stored for that."""

ROWS: Final = 64
"""Rows that are enough for all cores."""

PART: Final = 2048
"""Elements of a part of a row, at least."""


def scan_last(x: UOp, op: Op, place: int | None = None) -> UOp:
    """The reductions of the first 1, 2, … n elements along the last axis, whose size is known.

    What is kept on the way has that axis at `place`, where it is in memory; if not given, last.
    """
    dims = shape(x)
    place = len(dims) - 1 if place is None else place
    size = dims[-1].arg
    if op is ops.ADD and _is_constant(x):
        return x * primitive.cast(primitive.iota(list(dims), len(dims) - 1) + 1, x.dtype)
    if size <= SHORT:
        return _prefixes(x, op)
    x = x if _is_plain(x) else _kept(x, place, 1)
    parts = _parts(size, dims[:-1])
    if parts == 1:
        return _kept(_prefixes(x, op), place, 1)
    cut = primitive.reshape(x, [*dims[:-1], parts, size // parts])
    totals = primitive.reshape(primitive.reduce(cut, op, (len(dims),)), [*dims[:-1], parts])
    scanned = scan_last(_kept(totals, place, 1), op, place)
    before = primitive.reshape(_shifted(_kept(scanned, place, 1), op), [*dims[:-1], parts, 1])
    combined = op(primitive.expand(before, shape(cut)), _prefixes(cut, op))
    return _kept(primitive.reshape(combined, dims), place, 1)


def _parts(size: int, others: Sequence[UOp]) -> int:
    """Into how many parts of equal size rows are cut; 1 if there are rows enough, or no such."""
    rows = 1
    for dim in others:
        rows *= int(min(dim.vmax, ROWS))
    for parts in range(-(-ROWS // max(rows, 1)), size // PART + 1):
        if size % parts == 0:
            return parts
    return 1


def _kept(x: UOp, place: int, count: int) -> UOp:
    """A value in memory, with its last axes at a place before others."""
    rank = len(shape(x))
    rest = rank - count
    order = [*range(place), *range(rest, rank), *range(place, rest)]
    back = [order.index(k) for k in range(rank)]
    return primitive.permute(primitive.contiguous(primitive.permute(x, order)), back)


def _is_constant(x: UOp) -> bool:
    """Whether all elements are the same number, repeated."""
    while x.op in (ops.RESHAPE, ops.PERMUTE, ops.EXPAND):
        x = x.src[0]
    return x.op is ops.CONST


def _is_plain(x: UOp) -> bool:
    """Whether elements are read from memory by indices in which no axis is divided."""
    while x.op in (ops.PERMUTE, ops.EXPAND, ops.SHRINK, ops.FLIP, ops.CAST):
        x = x.src[0]
    while x.op is ops.RESHAPE:
        x = x.src[0]
    return x.op in (ops.BUFFER, ops.CONTIGUOUS, ops.PARAM)


def _start(x: UOp, op: Op) -> UOp:
    value = identity(op, x.dtype)
    assert value is not None
    return UOp.const(x.dtype, value)


def _prefixes(x: UOp, op: Op) -> UOp:
    """By a mask: n² operations for n elements."""
    dims = list[Dim](shape(x))
    size = dims[-1]
    rows = primitive.reshape(x, [*dims[:-1], 1, size])
    square = [*dims, size]
    rank = len(square)
    upto = primitive.iota(square, rank - 1) <= primitive.iota(square, rank - 2)
    masked = ops.WHERE(upto, primitive.expand(rows, square), _start(x, op))
    return primitive.reshape(primitive.reduce(masked, op, (rank - 1,)), dims)


def _shifted(x: UOp, op: Op) -> UOp:
    """One place later, with the start in the first place: what came before."""
    *others, size = shape(x)
    moved = filled(x, [*[(0, 0)] * len(others), (1, 0)], _start(x, op).arg)
    return primitive.shrink(moved, [*[(0, n) for n in others], (0, size)])
