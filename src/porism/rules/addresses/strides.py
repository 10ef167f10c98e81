"""Strides: by how many elements an index grows from one iteration of a loop to the next."""

from __future__ import annotations

from porism.ir import ops
from porism.ir.node import UOp


def stride(expression: UOp, loop: UOp) -> int | None:
    """Return the stride of an index in elements per iteration; None if it is not constant.

    >>> i, n = UOp.range(8, 0), UOp.variable("n", 0, 9)
    >>> stride(i * 4 + n, i), stride(n, i), stride(i // 2, i), stride(i * n, i)
    (4, 0, None, None)
    """
    strides: dict[UOp, int | None] = {}
    stack = [expression]
    while stack:
        node = stack[-1]
        if node in strides:
            stack.pop()
        elif node is loop:
            strides[node] = 1
        elif loop not in node.ranges:
            strides[node] = 0
        elif node.op not in _LINEAR:
            strides[node] = None
        else:
            missing = [s for s in node.src if s not in strides]
            if missing:
                stack += missing
            else:
                strides[node] = _combine(node, [strides[s] for s in node.src])
    return strides[expression]


_LINEAR = frozenset({ops.ADD, ops.SUB, ops.NEG, ops.MUL})


def _combine(node: UOp, parts: list[int | None]) -> int | None:
    """Return the stride of a sum or product from the strides of its sources."""
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
