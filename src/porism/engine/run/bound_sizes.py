"""Bound sizes: symbolic sizes evaluated for one run, in which every variable has a value."""

from __future__ import annotations

from collections.abc import Mapping

from porism.ir import ops
from porism.ir.node import UOp
from porism.schedule.schedule import Buffer


def evaluate_size(size: UOp, variables: Mapping[str, int]) -> int:
    """Return the value of a size expression for some values of the variables."""
    if size.op is ops.CONST:
        return int(size.arg)
    from porism.evaluate import evaluate

    return int(evaluate(size, {}, variables)[0])


def element_count(buffer: Buffer, variables: Mapping[str, int]) -> int:
    """Return the number of elements of a buffer for some values of the variables."""
    total = 1
    for dim in buffer.dims:
        total *= evaluate_size(dim, variables)
    return total
