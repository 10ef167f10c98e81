"""Scan: all prefixes of an axis reduced, without doing the work of each anew.

The axis is cut into blocks. In a block each element reduces those before it (a triangular mask);
the blocks' totals are scanned in the same way, and what came before a block is combined with it.

For n elements and blocks of b this takes n·b + n + (n/b)·b + … = O(n·b) operations and
log(n)/log(b) levels, each of which writes its block prefixes and totals to memory.
"""

from __future__ import annotations

from typing import Final

from porism.evaluate.compute import identity
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.shape import shape
from porism.tensor import primitive
from porism.tensor.padding import filled, filled_end
from porism.tensor.primitive import Dim

BLOCK: Final = 32
"""Elements of a block: few enough that the masked work in it is hidden by reading memory."""


def scan_last(x: UOp, op: Op, place: int | None = None) -> UOp:
    """The reductions of the first 1, 2, … n elements along the last axis, whose size is known.

    What is kept on the way has that axis at `place`, where it is in memory; if not given, last.
    """
    dims = shape(x)
    place = len(dims) - 1 if place is None else place
    size = dims[-1].arg
    if op is ops.ADD and _is_constant(x):
        return x * primitive.cast(primitive.iota(list(dims), len(dims) - 1) + 1, x.dtype)
    if size <= 2 * BLOCK:
        return _prefixes(x, op)
    blocks = -(-size // BLOCK)
    inside = _prefixes(_in_blocks(x, op, blocks), op)
    inside = _kept(inside, place, 2)
    last = primitive.shrink(inside, [*[(0, d) for d in shape(inside)[:-1]], (BLOCK - 1, BLOCK)])
    totals = primitive.reshape(last, [*dims[:-1], blocks])
    before = _shifted(_kept(scan_last(totals, op, place), place, 1), op)
    before = primitive.reshape(before, [*dims[:-1], blocks, 1])
    combined = op(primitive.expand(before, shape(inside)), inside)
    flat = primitive.reshape(combined, [*dims[:-1], blocks * BLOCK])
    return primitive.shrink(flat, [(0, d) for d in dims])


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


def _in_blocks(x: UOp, op: Op, blocks: int) -> UOp:
    *others, _ = shape(x)
    whole = filled_end(x, len(others), blocks * BLOCK, _start(x, op).arg)
    return primitive.reshape(whole, [*others, blocks, BLOCK])


def _shifted(x: UOp, op: Op) -> UOp:
    """One place later, with the start in the first place: what came before."""
    *others, size = shape(x)
    moved = filled(x, [*[(0, 0)] * len(others), (1, 0)], _start(x, op).arg)
    return primitive.shrink(moved, [*[(0, n) for n in others], (0, size)])
