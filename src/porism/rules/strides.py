"""Strides: how far an index goes from one iteration of a loop to the next."""

from __future__ import annotations

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.walk import substitute
from porism.rules.index.simplify import simplify


def stride(expression: UOp, counter: UOp) -> int | None:
    """How much an index grows when a range does by one; None if that is not always the same.

    >>> i, n = UOp.range(8, 0), UOp.variable("n", 0, 9)
    >>> stride(i * 4 + n, i), stride(n, i), stride(i // 2, i)
    (4, 0, None)
    """
    if counter not in expression.ranges:
        return 0
    if not _is_linear(expression, counter):
        return None
    zero, one = (UOp.const(counter.dtype, n) for n in (0, 1))
    grown = substitute(expression, {counter: one}) - substitute(expression, {counter: zero})
    found = simplify(grown)
    return int(found.arg) if found.op is ops.CONST else None


def _is_linear(expression: UOp, counter: UOp) -> bool:
    """Whether a range is only added, subtracted and multiplied by what does not depend on it."""
    stack, seen = [expression], {expression}
    while stack:
        node = stack.pop()
        if node is counter or counter not in node.ranges:
            continue
        if node.op is ops.MUL:
            if all(counter in s.ranges for s in node.src):
                return False
        elif node.op not in (ops.ADD, ops.SUB, ops.NEG):
            return False
        for s in node.src:
            if s not in seen:
                seen.add(s)
                stack.append(s)
    return True
