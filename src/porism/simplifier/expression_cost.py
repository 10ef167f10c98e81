"""Cost: how much work an expression is. A part that occurs twice is computed once."""

from __future__ import annotations

from typing import Any, Final

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort

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


TURNED: Final = {ops.GT: ops.LT, ops.GE: ops.LE}
"""Comparisons, and what they are from the other side."""


def measure_in_any_order(root: UOp) -> tuple[int, int]:
    """The same where parts that differ only in the order of their operands are one part.

    >>> from porism.ir.node import raw
    >>> i, j = UOp.variable("i", 0, 99), UOp.variable("j", 0, 99)
    >>> sums = (raw(ops.ADD, None, (i, j), None), raw(ops.ADD, None, (j, i), None))
    >>> both = raw(ops.LT, None, sums, None)
    >>> measure(both), measure_in_any_order(both)
    ((0, 3), (0, 2))
    """
    divmods = total = 0
    numbers: dict[UOp, int] = {}
    known: dict[tuple[Any, ...], int] = {}
    for node in toposort(root):
        op, src = node.op, node.src
        if not src:
            numbers[node] = len(known)
            known[node,] = len(known)
            continue
        parts = [numbers[s] for s in src]
        if op.commutative:
            parts.sort()
        elif op in TURNED:
            op = TURNED[op]
            parts.reverse()
        key = (op, node.arg, *parts)
        number = known.get(key)
        if number is None:
            number = known[key] = len(known)
            divmods += op is ops.IDIV or op is ops.MOD
            total += COSTS.get(op, 1)
        numbers[node] = number
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
