"""Bound sizes: symbolic sizes evaluated for one run, in which every variable has a value."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.schedule.memory_plan import lay_out_slots
from porism.schedule.schedule import Buffer, Role, Schedule

_MEANINGS: Final[Mapping[Op, Callable[[int, int], int]]] = {
    ops.ADD: operator.add,
    ops.SUB: operator.sub,
    ops.MUL: operator.mul,
    ops.IDIV: operator.floordiv,
    ops.MOD: operator.mod,
    ops.MAX: max,
    ops.MIN: min,
}
"""What sizes are made of mostly, on Python's integers; the evaluator knows all the rest."""


def evaluate_size(size: UOp, variables: Mapping[str, int]) -> int:
    """Return the value of a size expression for some values of the variables.

    >>> n = UOp.variable("n", 1, 9)
    >>> evaluate_size((n * 3 + 1) // 2, {"n": 5})
    8
    """
    if size.op is ops.CONST:
        return int(size.arg)
    if size.op is ops.VARIABLE:
        return variables[size.arg[0]]
    if size.op is ops.BIND:
        return evaluate_size(size.src[1], variables)
    meaning = _MEANINGS.get(size.op)
    if meaning is not None:
        a, b = size.src
        return meaning(evaluate_size(a, variables), evaluate_size(b, variables))
    from porism.evaluate import evaluate

    return int(evaluate(size, {}, variables)[0])


def element_count(buffer: Buffer, variables: Mapping[str, int]) -> int:
    """Return the number of elements of a buffer for some values of the variables."""
    total = 1
    for dim in buffer.dims:
        total *= evaluate_size(dim, variables)
    return total


def lay_out_arena(schedule: Schedule, variables: Mapping[str, int]) -> tuple[Sequence[int], int]:
    """Return the offsets of the temporaries and the bytes of the arena for a run."""
    plan = schedule.arena
    if not plan.slots:
        return plan.offsets, plan.peak
    sizes = [0] * len(plan.slots)
    for buffer in schedule.buffers:
        if buffer.role is Role.TEMPORARY:
            count = element_count(buffer, variables)
            sizes[buffer.number] = count * buffer.dtype.numpy.itemsize
    return lay_out_slots(plan.slots, sizes)
