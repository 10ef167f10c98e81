"""Strides: how far an index goes from one iteration of a loop to the next."""

from __future__ import annotations

from porism.ir import ops
from porism.ir.node import UOp


def stride(expression: UOp, counter: UOp) -> int | None:
    """How much an index grows when a range does by one; None if that is not always the same.

    >>> i, n = UOp.range(8, 0), UOp.variable("n", 0, 9)
    >>> stride(i * 4 + n, i), stride(n, i), stride(i // 2, i), stride(i * n, i)
    (4, 0, None, None)
    """
    found: dict[UOp, int | None] = {}
    stack = [expression]
    while stack:
        node = stack[-1]
        if node in found:
            stack.pop()
        elif node is counter:
            found[node] = 1
        elif counter not in node.ranges:
            found[node] = 0
        elif node.op not in _LINEAR:
            found[node] = None
        else:
            missing = [s for s in node.src if s not in found]
            if missing:
                stack += missing
            else:
                found[node] = _of(node, [found[s] for s in node.src])
    return found[expression]


_LINEAR = frozenset({ops.ADD, ops.SUB, ops.NEG, ops.MUL})


def _of(node: UOp, parts: list[int | None]) -> int | None:
    """The stride of a sum or product, by those of its sources."""
    if node.op is ops.MUL:
        for part, factor in zip(parts, reversed(node.src), strict=True):
            if part is not None and factor.op is ops.CONST:
                return part * int(factor.arg)
        return None
    if None in parts:
        return None
    known = [part for part in parts if part is not None]
    if node.op is ops.ADD:
        return sum(known)
    return -known[0] if node.op is ops.NEG else known[0] - known[1]
