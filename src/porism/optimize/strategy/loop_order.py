"""Memory order: output loops that go through what is reduced as it lies in memory.

    for part < 250: for row < 16: sum of input[row * 1000000 + part * 4000 + …]
    for both < 4000: sum of input[both * 4000 + …]

Of a reduction that was cut into parts, the parts of different rows are next to each other in what
is stored, but far apart in what is read. That is more by far: if it does not fit the last cache,
what is read in order comes faster.
"""

from __future__ import annotations

from typing import Final

from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.actions.loop_actions import Move
from porism.optimize.actions.merge_loops import Merge
from porism.optimize.analysis.loop_strides import inside, iterations, reads, step
from porism.optimize.strategy.action_plan import Plan, extent_of, is_unscheduled

MUCH: Final = 64
"""Elements that are read for each that is stored, at least."""


def order_loops_by_loads(plan: Plan) -> None:
    """The two outermost loops as one, where the second is around the first in what is read."""
    if len(plan.kernel.src) != 1 or plan.kernel.src[0].op is not ops.END or plan.target.block:
        return
    end = plan.kernel.src[0]
    loops = [r for r in end.src[1:] if r.arg[1] is Axis.LOOP]
    if len(loops) != 2 or loops != list(end.src[1:3]) or not all(map(is_unscheduled, loops)):
        return
    first, second = loops
    least = plan.target.memory.last_cache // 2
    sums = [n for n in inside(end) if n.op is ops.REDUCE]
    if sum(iterations(n.src[1:]) for n in sums) < MUCH:
        return
    large = [load for n in sums for load in reads(n.src[0]) if _bytes(load) >= least]
    if not large or any(not _is_turned(load, first, second) for load in large):
        return
    move = Move(show(second), show(first))
    if move.is_legal(plan.kernel, plan.target):
        done = plan.copy()
        done.do(move)
        merge = Merge(show(second), show(first))
        if merge.is_legal(done.kernel, plan.target):
            plan.do(move)
            plan.do(merge)


def _bytes(load: UOp) -> int:
    base = base_of(load)
    return base.dtype.size * load.dtype.numpy.itemsize if base.op is ops.PARAM else 0


def _is_turned(load: UOp, first: UOp, second: UOp) -> bool:
    """Whether all of the first loop is a step of the second in what is read."""
    near, far = step(load.src[1], first), step(load.src[1], second)
    return near is not None and near > 0 and far == near * extent_of(first)
