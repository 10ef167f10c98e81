"""Cost: how much work an expression is. A part that occurs twice is computed once."""

from __future__ import annotations

from typing import Final

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.walk import toposort

DIVISION: Final = 32
"""A division is worth more than any rewriting that takes it away is likely to add."""

COSTS: Final[dict[Op, int]] = {ops.IDIV: DIVISION, ops.MOD: DIVISION, ops.MUL: 2}


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
            total += COSTS.get(node.op, 1)
    return divmods, total


_ENOUGH: Final = 1 << 40  # lengths are not counted further


def length(root: UOp) -> int:
    """How many names and numbers the text has, in which a part that is used twice is repeated.

    >>> i = UOp.variable("i", 0, 99)
    >>> quotient = UOp(ops.IDIV, None, (i, i.lift(4)))
    >>> length(UOp(ops.ADD, None, (quotient, quotient)))
    4
    """
    lengths: dict[UOp, int] = {}
    for node in toposort(root):
        lengths[node] = min(sum(lengths[s] for s in node.src), _ENOUGH) if node.src else 1
    return lengths[root]
