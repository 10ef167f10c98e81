"""Reduction identity: the value that a reduction starts from, by op and dtype."""

from __future__ import annotations

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, Scalar
from porism.ir import ops
from porism.ir.ops import Op


def identity(op: Op, dtype: DType) -> Scalar | None:
    """Return the value of a reduction over no elements; None where there is no such value.

    `index` is unbounded, so it has no largest or smallest value.

    >>> identity(ops.ADD, dtypes.f32), identity(ops.MIN, dtypes.u8), identity(ops.MAX, dtypes.index)
    (0, 255, None)
    """
    lane = dtype.element
    if op is ops.ADD or op is ops.OR:
        return 0
    if op is ops.MUL:
        return 1
    if op is ops.AND:
        return True if lane.kind is Kind.BOOL else -1
    if lane.kind is Kind.INDEX:
        return None
    limit = lane.min if op is ops.MAX else lane.max
    if lane is dtypes.fp8e4m3:  # it has no infinities
        return -448.0 if op is ops.MAX else 448.0
    return limit
