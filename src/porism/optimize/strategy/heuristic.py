"""Heuristic: a loop schedule for a kernel, chosen by estimates, without measuring.

For a GPU `gpu_strategy` chooses. On a CPU one of three strategies applies:

- a kernel with a *scan*, in which each iteration needs what the one before it has reduced, goes to
  `scan_strategy`;
- a kernel in which a reduction reuses its operands, such as a matrix product or a convolution, is
  bound by arithmetic, and goes to `contraction_strategy`;
- any other kernel is bound by memory bandwidth, and goes to `streaming_strategy`.

Loops of symbolic extents stay as they are, around all others. Where the contraction inside of them
is one of constant sizes, it is scheduled as if it was alone: by the actions for one iteration.
"""

from __future__ import annotations

from typing import Final

from porism.base.dtypes import index
from porism.base.errors import ActionError
from porism.base.settings import settings
from porism.base.target import Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import substitute
from porism.optimize.actions.action import Action
from porism.optimize.actions.loops.loop_tiling import OverlapTail
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.analysis.loop_strides import loads_for, single_nest
from porism.optimize.strategy import scan_strategy, streaming_strategy
from porism.optimize.strategy.action_plan import Plan
from porism.optimize.strategy.contractions import contraction_strategy
from porism.optimize.strategy.gpu.gpu_strategy import plan_for_gpu


def choose_actions(kernel: UOp, target: Target) -> tuple[Action, ...]:
    """Return the actions that schedule the loops of a kernel for a target."""
    return tuple(_plan(kernel, target).actions)


def schedule_loops(kernel: UOp, target: Target, constants: frozenset[int] = frozenset()) -> UOp:
    """Return the kernel with its loops scheduled for a target.

    `constants` are the numbers of the buffers that can be packed once, before all calls.
    """
    return _plan(kernel, target, constants).kernel


def _plan(kernel: UOp, target: Target, constants: frozenset[int] = frozenset()) -> Plan:
    """Return the plan of the strategy for a kernel.

    An action that is refused is a bug of a strategy: check mode raises its error, and a user's
    program runs with unscheduled loops.
    """
    try:
        return _plan_by_strategy(kernel, target, constants)
    except ActionError:
        if settings.check:
            raise
        return Plan(kernel, target)


def _plan_by_strategy(kernel: UOp, target: Target, constants: frozenset[int]) -> Plan:
    if target.gpu is not None:
        return plan_for_gpu(kernel, target)
    if contraction_strategy.has_operand_reuse(kernel):
        tile = _symbolic_rows(kernel)
        for tiled in (tile, None) if tile is not None else (None,):
            plan = Plan(kernel, target)
            try:
                if tiled is not None:
                    plan.do(tiled)
                inner = _one_iteration(plan.kernel)
                if inner is None:
                    continue
                for action in _plan_by_kind(inner, target, constants).actions:
                    if not isinstance(action, Thread):
                        plan.do(action)
                streaming_strategy.parallelize(plan)
                return plan
            except ActionError:  # it concerns the loops around
                continue
    return _plan_by_kind(kernel, target, constants)


SYMBOLIC_ROWS: Final = (8, 4, 2)
"""Rows of a tile of a loop of symbolic extent, chosen by hand: the most that it always has."""


def _symbolic_rows(kernel: UOp) -> Action | None:
    """Return the tiling of the innermost output loop of symbolic extent, if loads are shared in it.

    Iterations of that loop then share the loads that do not depend on it.
    """
    end, inner = single_nest(kernel), _one_iteration(kernel)
    if end is None or inner is None:
        return None
    if contraction_strategy.has_operand_reuse(inner, of_both=True):
        return None  # loops of constant extents share loads already
    loop = [r for r in end.src[1:] if r.src[0].op is not ops.CONST][-1]
    rows = next((n for n in SYMBOLIC_ROWS if n <= loop.src[0].vmin), 0)
    shared = [n for n in loads_for(end.src[0]) if n.ranges and loop not in n.ranges]
    return OverlapTail(show(loop), rows) if rows and shared else None


def _one_iteration(kernel: UOp) -> UOp | None:
    """Return a kernel without its outer loops of symbolic extents, at their first iteration.

    None if there are none, or if no loops of constant extents are inside.
    """
    end = single_nest(kernel)
    if end is None:
        return None
    symbolic = [r for r in end.src[1:] if r.src[0].op is not ops.CONST]
    constant = [r for r in end.src[1:] if r.src[0].op is ops.CONST]
    if not symbolic or not constant or end.src[1] not in symbolic:
        return None
    first = {loop: UOp.const(index, 0) for loop in symbolic}
    store = substitute(end.src[0], first)
    return ops.SINK(ops.END(store, *constant), arg=kernel.arg)


def _plan_by_kind(kernel: UOp, target: Target, constants: frozenset[int]) -> Plan:
    scan = scan_strategy.plan_scan(kernel, target)
    if scan is not None:
        return scan
    if contraction_strategy.has_operand_reuse(kernel):
        return contraction_strategy.plan_contraction(kernel, target, constants)
    return streaming_strategy.plan_streaming(kernel, target)
