"""Heuristic: a loop schedule for a kernel, chosen by estimates, without measuring.

For a GPU `gpu_strategy` chooses. On a CPU one of three strategies applies:

- a kernel with a *scan*, in which each iteration needs what the one before it has reduced, goes to
  `scan_strategy`;
- a kernel in which a reduction reuses its operands, such as a matrix product or a convolution, is
  bound by arithmetic, and goes to `contraction_strategy`;
- any other kernel is bound by memory bandwidth, and goes to `streaming_strategy`.
"""

from __future__ import annotations

from porism.base.errors import ActionError
from porism.base.settings import settings
from porism.base.target import Target
from porism.ir.node import UOp
from porism.optimize.actions.action import Action
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
    scan = scan_strategy.plan_scan(kernel, target)
    if scan is not None:
        return scan
    if contraction_strategy.has_operand_reuse(kernel):
        return contraction_strategy.plan_contraction(kernel, target, constants)
    return streaming_strategy.plan_streaming(kernel, target)
