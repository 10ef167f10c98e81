"""Cost: the operations of an expression, in which equal subexpressions count once."""

from __future__ import annotations

from typing import Any, Final

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort

DIVISION: Final = 32
"""The cost of a division, in additions: more than removing one is likely to add. By hand."""

COSTS: Final[dict[Op, int]] = {ops.IDIV: DIVISION, ops.MOD: DIVISION, ops.MUL: 2}
"""The cost of an op, in additions; 1 for any other op. Chosen by hand."""


def measure(root: UOp) -> tuple[int, int]:
    """Return the number of different divisions and remainders, and the cost of all operations.

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


MIRRORED: Final = {ops.GT: ops.LT, ops.GE: ops.LE}
"""Comparisons, and the op of the same comparison with its operands swapped."""


def measure_unordered(root: UOp) -> tuple[int, int]:
    """Return what `measure` does, but count nodes equal up to the order of operands once.

    >>> from porism.ir.node import raw
    >>> i, j = UOp.variable("i", 0, 99), UOp.variable("j", 0, 99)
    >>> sums = (raw(ops.ADD, None, (i, j), None), raw(ops.ADD, None, (j, i), None))
    >>> both = raw(ops.LT, None, sums, None)
    >>> measure(both), measure_unordered(both)
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
        elif op in MIRRORED:
            op = MIRRORED[op]
            parts.reverse()
        key = (op, node.arg, *parts)
        number = known.get(key)
        if number is None:
            number = known[key] = len(known)
            divmods += op is ops.IDIV or op is ops.MOD
            total += COSTS.get(op, 1)
        numbers[node] = number
    return divmods, total


_SATURATED: Final = 1 << 40
"""Where counting stops: with much sharing a text could be longer than any memory."""


def leaf_count(root: UOp) -> int:
    """Return how many names and numbers the text has, which repeats shared subexpressions.

    >>> i = UOp.variable("i", 0, 99)
    >>> quotient = UOp(ops.IDIV, None, (i, i.lift(4)))
    >>> leaf_count(UOp(ops.ADD, None, (quotient, quotient)))
    4
    """
    counts: dict[UOp, int] = {}
    for node in toposort(root):
        count = 0
        for s in node.src:
            count += counts[s]
        counts[node] = min(count, _SATURATED) or 1
    return counts[root]
