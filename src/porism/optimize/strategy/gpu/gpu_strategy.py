"""GPU strategy: which of the schedules for GPUs a kernel gets.

- A kernel with a loop-carried dependence stays with one thread.
- A product of matrices, or what has its form, is tiled: `tiled_products`.
- Anything else is bound by memory: `block_rows`.
"""

from __future__ import annotations

from porism.base.target import Target
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.optimize.actions.loop_substitution import ranges_of
from porism.optimize.strategy.action_plan import Plan
from porism.optimize.strategy.gpu.block_rows import plan_rows
from porism.optimize.strategy.gpu.tiled_products import plan_product


def plan_for_gpu(kernel: UOp, target: Target) -> Plan:
    """Return a plan for a target with blocks of threads."""
    if any(r.arg[1] is Axis.ORDERED for r in ranges_of(kernel)):
        return Plan(kernel, target)
    return plan_product(kernel, target) or plan_rows(kernel, target)
