"""Sizes: how large things are in one run, in which every variable has a value."""

from __future__ import annotations

from collections.abc import Mapping

from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.node import UOp
from porism.schedule.schedule import Buffer


def number_of(size: UOp, variables: Mapping[str, int]) -> int:
    """A size in this run."""
    return int(size.arg) if size.op is ops.CONST else int(evaluate(size, {}, variables)[0])


def size_of(buffer: Buffer, variables: Mapping[str, int]) -> int:
    """The elements of a buffer in this run."""
    total = 1
    for dim in buffer.dims:
        total *= number_of(dim, variables)
    return total
