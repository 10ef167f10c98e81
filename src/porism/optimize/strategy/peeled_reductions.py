"""Peeled reductions: vectorize a reduction along contiguous memory, with a peeled remainder."""

from __future__ import annotations

from collections.abc import Sequence

from porism.optimize.actions.loops.peeling import Peel
from porism.optimize.actions.loops.upcast_unroll import Unroll
from porism.optimize.strategy.action_plan import Plan, extent_of


def vectorize_peeled(plan: Plan, axis: str, amounts: Sequence[int]) -> bool:
    """Vectorize a reduction without masks but in its remainder; return whether that was done.

    `amounts` are the iterations that may be unrolled or vectorized, the largest first; the last is
    the lanes of one vector. Nothing is done where peeling is not legal or leaves no remainder.
    """
    extent, lanes = extent_of(plan.loop(axis)), amounts[-1]
    amount = next((n for n in amounts if extent >= 2 * n or n <= extent <= n + lanes), lanes)
    action = Peel(axis, amount)
    if plan.target.block or not action.is_legal(plan.kernel, plan.target):
        return False
    plan.do(action)
    plan.do(Unroll(f"{axis}_0", amount))
    rest, remainder = f"{axis}_1", extent % amount
    padded = -(-remainder // lanes) * lanes
    if padded <= 4 * remainder:
        plan.pad(rest, lanes)
        remainder = padded
    if remainder > 1:
        plan.do(Unroll(rest, remainder))
    return True
