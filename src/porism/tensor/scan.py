"""Scan: all prefixes of an axis reduced, without doing the work of each anew.

The axis is cut into blocks. The blocks' totals are scanned in the same way, which gives what came
before each block; with it each element of a block reduces those before it (a triangular mask).

For n elements and blocks of b this takes n·b + n + (n/b)·b + … = O(n·b) operations and
log(n)/log(b) levels. Each reads its elements twice, and writes the totals and the prefixes once;
where the last block is not full, the prefixes inside of blocks are written and read as well.
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

BLOCK: Final = 8
"""Elements of a block: few enough that the masked work in it is hidden by reading memory."""

TOTALS: Final = 32
"""Totals of a block of them: there are fewer to read, and fewer levels are left to do. Also the
elements of a block where the last one is not full."""


def scan_last(x: UOp, op: Op, place: int | None = None, block: int = BLOCK) -> UOp:
    """The reductions of the first 1, 2, … n elements along the last axis, whose size is known.

    What is kept on the way has that axis at `place`, where it is in memory; if not given, last.
    """
    dims = shape(x)
    place = len(dims) - 1 if place is None else place
    size = dims[-1].arg
    if op is ops.ADD and _is_constant(x):
        return x * primitive.cast(primitive.iota(list(dims), len(dims) - 1) + 1, x.dtype)
    if size <= TOTALS or (size <= 2 * TOTALS and size % block):
        return _prefixes(x, op)
    block = TOTALS if size % block else block
    blocks = -(-size // block)
    cut = _in_blocks(x if _is_stored(x) else _kept(x, place, 1), op, blocks, block)
    inside = _prefixes(cut, op)
    if size % block:
        inside = _kept(inside, place, 2)
        last = primitive.shrink(inside, [*[(0, d) for d in shape(cut)[:-1]], (block - 1, block)])
        totals = primitive.reshape(last, [*dims[:-1], blocks])
    else:
        total = primitive.reshape(primitive.reduce(cut, op, (len(dims),)), [*dims[:-1], blocks])
        totals = _kept(total, place, 1)
    scanned = scan_last(totals, op, place, TOTALS)
    before = _shifted(_kept(scanned, place, 1), op)
    before = primitive.reshape(before, [*dims[:-1], blocks, 1])
    combined = op(primitive.expand(before, shape(cut)), inside)
    flat = primitive.reshape(combined, [*dims[:-1], blocks * block])
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


def _is_stored(x: UOp) -> bool:
    """Whether the elements are in memory, or will be: it takes nothing to read them twice."""
    while x.op in (ops.RESHAPE, ops.PERMUTE, ops.EXPAND, ops.CAST):
        x = x.src[0]
    return x.op in (ops.BUFFER, ops.CONTIGUOUS)


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


def _in_blocks(x: UOp, op: Op, blocks: int, block: int) -> UOp:
    *others, _ = shape(x)
    whole = filled_end(x, len(others), blocks * block, _start(x, op).arg)
    return primitive.reshape(whole, [*others, blocks, block])


def _shifted(x: UOp, op: Op) -> UOp:
    """One place later, with the start in the first place: what came before."""
    *others, size = shape(x)
    moved = filled(x, [*[(0, 0)] * len(others), (1, 0)], _start(x, op).arg)
    return primitive.shrink(moved, [*[(0, n) for n in others], (0, size)])
