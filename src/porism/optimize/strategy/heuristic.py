"""The heuristic: good actions for a kernel, without measuring.

A kernel in which a reduction uses operands again is limited by arithmetic, and arranged by
`contractions`; any other by the memory that it reads and writes, and arranged by `streams`, or by
`scans` if each iteration of a loop needs what the one before it has reduced.
"""

from __future__ import annotations

from porism.base.errors import ActionError
from porism.base.settings import settings
from porism.base.target import Target
from porism.ir.node import UOp
from porism.optimize.actions.loop_actions import Action
from porism.optimize.strategy import contraction_strategy, scan_strategy, streaming_strategy
from porism.optimize.strategy.action_plan import Plan


def choose_actions(kernel: UOp, target: Target) -> tuple[Action, ...]:
    """The actions for a kernel on a target."""
    return tuple(_plan(kernel, target).actions)


def schedule_loops(kernel: UOp, target: Target, constants: frozenset[int] = frozenset()) -> UOp:
    """The kernel with its loops arranged for a target; constants can be laid out beforehand."""
    return _plan(kernel, target, constants).kernel


def _plan(kernel: UOp, target: Target, constants: frozenset[int] = frozenset()) -> Plan:
    """The plan of the strategy for this kind of kernel.

    An action that is refused is a mistake of a strategy: check mode raises it, and a user's program
    runs with the loops as they are.
    """
    try:
        return _of_strategy(kernel, target, constants)
    except ActionError:
        if settings.check:
            raise
        return Plan(kernel, target)


def _of_strategy(kernel: UOp, target: Target, constants: frozenset[int]) -> Plan:
    scan = scan_strategy.plan_scan(kernel, target)
    if scan is not None:
        return scan
    if contraction_strategy.has_operand_reuse(kernel):
        return contraction_strategy.plan_contraction(kernel, target, constants)
    return streaming_strategy.plan_streaming(kernel, target)
