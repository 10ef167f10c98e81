"""Opaque: index expressions simplified as if what they read, or reduce, were variables.

The simplifier asks what an expression costs, and so looks at all that is below it. Below a value
that is read there may be a whole program, of which nothing is an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from porism.base.dtypes import boolean, index
from porism.ir import ops
from porism.ir.node import UOp, construct
from porism.ir.traversal import substitute, toposort
from porism.rules.index.normalize import simplify


def simplified(expression: UOp) -> UOp:
    """A simpler expression, or condition, that is equal to an expression of type index or bool."""
    if not expression.src or not _is_arithmetic(expression):
        return expression
    opaque: dict[UOp, UOp] = {}
    new: dict[UOp, UOp] = {}
    for node in toposort(expression, within=_is_arithmetic):
        if node.op is ops.RANGE or not node.src:
            new[node] = node
            continue
        read = node.src if node.op is not ops.CAST else () if node.src[0] in new else (node,)
        for each in read:
            if each not in new:
                if each.dtype is not index:
                    return expression
                new[each] = opaque[each] = _variable(len(opaque), each)
        if node not in new:
            src = tuple(new[s] for s in node.src)
            new[node] = construct(node.op, node.dtype_given, src, node.arg)
    if not opaque:
        return simplify(expression)
    back = {variable: node for node, variable in opaque.items()}
    return substitute(simplify(new[expression]), back)


def _is_arithmetic(node: UOp) -> bool:
    """Whether a node is an index, or a condition, and computed from others."""
    if node.dtype is not index and node.dtype is not boolean:
        return False
    op = node.op
    return not node.src or op.elementwise or op is ops.CAST or op is ops.RANGE


def _variable(number: int, node: UOp) -> UOp:
    low, high = (None if abs(bound) == inf else int(bound) for bound in (node.vmin, node.vmax))
    return UOp.variable(f"read {number}", low, high)


def reads(roots: Sequence[UOp]) -> list[UOp]:
    """What expressions are made of, down to memory, but not how that was filled."""
    return toposort(*roots, within=lambda node: node.op not in _FILLED)


_FILLED = frozenset({ops.BUFFERIZE, ops.CONTIGUOUS, ops.COPY, ops.ASSIGN, ops.AFTER, ops.PARAM})
