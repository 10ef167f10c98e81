"""WHERE on a load: a WHERE between an element and 0 becomes a mask of the element's index.

    WHERE(a & b, INDEX(buffer, i), 0)   WHERE(b, INDEX(buffer, WHERE(a, i, INVALID)), 0)

where `a` can be moved: it depends on no range that the index does not depend on, and loads nothing.
A load through INVALID gives 0, so the value is the same, and the element is not read where it is
not used. WHERE(c, 0, INDEX(…)) is treated as WHERE(~c, INDEX(…), 0).
"""

from __future__ import annotations

import math

from porism.base.dtypes import Theory
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rewrite.rule import RuleSet, procedure
from porism.rules.addresses.validity import is_masked, masked


def clauses(condition: UOp) -> list[UOp]:
    """Return the parts of a conjunction, from left to right, each once."""
    parts, stack = [], [condition]
    while stack:
        node = stack.pop()
        if node.op is ops.AND:
            stack += reversed(node.src)
        else:
            parts.append(node)
    return list(dict.fromkeys(parts))


def _is_zero(node: UOp) -> bool:
    """Whether a node is the value of a load through INVALID: 0, and not -0."""
    return node.op is ops.CONST and node.arg == 0 and math.copysign(1, node.arg) == 1


def _can_move(clause: UOp, element: UOp) -> bool:
    if not set(clause.ranges) <= set(element.ranges):
        return False
    return not any(node.op in (ops.INDEX, ops.LOAD) for node in toposort(clause))


def _conjunction(parts: list[UOp]) -> UOp:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole & part
    return whole


@procedure("where-on-load", (ops.WHERE,), seeds="002.17.1 002.17.2")
def where_on_load(node: UOp) -> UOp | None:
    """Move the conditions of a WHERE between an element and 0 into the index."""
    condition, yes, no = node.src
    if yes.op is ops.INDEX and _is_zero(no):
        return _move_clauses(condition, yes, no)
    if no.op is ops.INDEX and _is_zero(yes):
        return _move_clauses(~condition, no, yes)
    return None


def _move_clauses(condition: UOp, element: UOp, zero: UOp) -> UOp | None:
    if len(element.src) < 2:
        return None
    buffer, index, *rest = element.src
    if not index.dtype.is_integer or condition.dtype.count != index.dtype.count:
        return None
    parts = clauses(condition)
    moving = [clause for clause in parts if _can_move(clause, element)]
    if not moving:
        return None
    known = []
    if is_masked(index):
        known, index = clauses(index.src[0]), index.src[1]
    valid = _conjunction(list(dict.fromkeys([*known, *moving])))
    inner = ops.INDEX(buffer, masked(valid, index), *rest, dtype=element.dtype)
    staying = [clause for clause in parts if clause not in moving]
    return ops.WHERE(_conjunction(staying), inner, zero) if staying else inner


WHERE_ON_LOAD = RuleSet("where-on-load", theory=Theory.STRUCTURE, rules=(where_on_load,))
