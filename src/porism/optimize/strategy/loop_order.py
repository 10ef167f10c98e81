"""Loop order: output loops in the order in which a reduction reads memory.

    for part < 250: for row < 16: sum of input[row * 1000000 + part * 4000 + …]
    for both < 4000: sum of input[both * 4000 + …]

A reduction that was split into parts stores the parts of different rows next to each other, but
reads them far apart. It reads far more than it stores: if the input exceeds the last cache, the two
loops are interchanged and merged, so that memory is read in order.
"""

from __future__ import annotations

from typing import Final

from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.actions.loops.loop_interchange import Move
from porism.optimize.actions.loops.merge_loops import Merge
from porism.optimize.analysis.loop_strides import (
    access_stride,
    extent_of,
    is_unscheduled,
    loads_for,
    nodes_inside,
    single_nest,
    trip_count,
)
from porism.optimize.strategy.action_plan import Plan

MIN_LOADS_PER_STORE: Final = 64
"""Elements read for each stored one, from which on the order of loads matters (by hand)."""


def order_loops_by_loads(plan: Plan) -> None:
    """Interchange and merge the two outermost loops, if large loads walk them the other way."""
    loops = None if plan.target.block else _two_outermost(plan.kernel)
    if loops is None or not _reads_interchanged(plan, *loops):
        return
    outer, inner = map(show, loops)
    move, merge = Move(inner, outer), Merge(inner, outer)
    if move.is_legal(plan.kernel, plan.target):
        trial = plan.copy()
        trial.do(move)
        if merge.is_legal(trial.kernel, plan.target):
            plan.do(move)
            plan.do(merge)


def _two_outermost(kernel: UOp) -> tuple[UOp, UOp] | None:
    """Return the two outermost loops of a kernel that has no other LOOPs; None of another one."""
    end = single_nest(kernel)
    if end is None:
        return None
    loops = tuple(r for r in end.src[1:] if r.arg[1] is Axis.LOOP)
    if len(loops) != 2 or loops != end.src[1:3] or not all(map(is_unscheduled, loops)):
        return None
    return loops[0], loops[1]


def _reads_interchanged(plan: Plan, outer: UOp, inner: UOp) -> bool:
    """Return whether reductions read much memory in the order of the two loops interchanged."""
    reductions = [n for n in nodes_inside(plan.kernel.src[0]) if n.op is ops.REDUCE]
    if sum(trip_count(n.src[1:]) for n in reductions) < MIN_LOADS_PER_STORE:
        return False
    min_bytes = plan.target.memory.last_cache // 2
    loads = [load for n in reductions for load in loads_for(n.src[0])]
    large = [load for load in loads if _buffer_bytes(load) >= min_bytes]
    return bool(large) and all(_continues(load, outer, inner) for load in large)


def _buffer_bytes(load: UOp) -> int:
    """Return the bytes of the buffer that is loaded from; 0 of local memory."""
    base = base_of(load)
    return base.dtype.size * load.dtype.numpy.itemsize if base.op is ops.PARAM else 0


def _continues(load: UOp, outer: UOp, inner: UOp) -> bool:
    """Return whether one iteration of the inner loop is as far in memory as all of the outer."""
    near, far = access_stride(load.src[1], outer), access_stride(load.src[1], inner)
    return near is not None and near > 0 and far == near * extent_of(outer)
