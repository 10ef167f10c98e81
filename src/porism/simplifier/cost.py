"""Cost: how much work an expression is. A part that occurs twice is computed once."""

from __future__ import annotations

from typing import Final

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.walk import toposort

DIVISION: Final = 32
"""A division is worth more than any rewriting that takes it away is likely to add."""

_COSTS: Final[dict[Op, int]] = {ops.IDIV: DIVISION, ops.MOD: DIVISION, ops.MUL: 2}


def measure(root: UOp) -> tuple[int, int]:
    """The number of different divisions and remainders, and the cost of everything.

    >>> i = UOp.variable("i", 0, 99)
    >>> quotient = UOp(ops.IDIV, None, (i, i.lift(4)))
    >>> measure(UOp(ops.ADD, None, (quotient, quotient)))
    (1, 33)
    """
    divmods = total = 0
    for node in toposort(root):
        if node.src:
            divmods += node.op is ops.IDIV or node.op is ops.MOD
            total += _COSTS.get(node.op, 1)
    return divmods, total
