"""Opaque terms: index expressions simplified with loaded or reduced values as variables.

The simplifier computes the cost of an expression from all nodes below it. Below a loaded value
there may be a whole program, which has nothing to do with the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from porism.base.dtypes import boolean, index
from porism.ir import ops
from porism.ir.node import UOp, construct
from porism.ir.traversal import substitute, toposort
from porism.rules.index.normalize import simplify


def simplify_opaque(expression: UOp) -> UOp:
    """Return a simpler expression that is equal to one of type index or bool."""
    if not expression.src or not _is_arithmetic(expression):
        return expression
    opaque: dict[UOp, UOp] = {}
    new: dict[UOp, UOp] = {}
    for node in toposort(expression, within=_is_arithmetic):
        if node.op is ops.RANGE or not node.src:
            new[node] = node
            continue
        terms = node.src if node.op is not ops.CAST else () if node.src[0] in new else (node,)
        for term in terms:
            if term not in new:
                if term.dtype is not index:
                    return expression
                new[term] = opaque[term] = _variable(len(opaque), term)
        if node not in new:
            src = tuple(new[s] for s in node.src)
            new[node] = construct(node.op, node.dtype_given, src, node.arg)
    if not opaque:
        return simplify(expression)
    back = {variable: node for node, variable in opaque.items()}
    return substitute(simplify(new[expression]), back)


def _is_arithmetic(node: UOp) -> bool:
    """Whether a node is index arithmetic, or a condition on it."""
    if node.dtype is not index and node.dtype is not boolean:
        return False
    op = node.op
    return not node.src or op.elementwise or op is ops.CAST or op is ops.RANGE


def _variable(number: int, node: UOp) -> UOp:
    low, high = (None if abs(bound) == inf else int(bound) for bound in (node.vmin, node.vmax))
    return UOp.variable(f"read {number}", low, high)


def nodes_read(roots: Sequence[UOp]) -> list[UOp]:
    """Return the nodes of expressions in topological order, down to the buffers that they read."""
    return toposort(*roots, within=lambda node: node.op not in _MATERIALIZED)


_MATERIALIZED = frozenset(
    {ops.BUFFERIZE, ops.CONTIGUOUS, ops.COPY, ops.ASSIGN, ops.AFTER, ops.PARAM}
)
