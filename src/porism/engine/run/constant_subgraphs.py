"""Folding: what a graph computes of constants alone, found so that it is computed once.

    x * (scale / sqrt(variance + eps))        x * c, where c is kept

A constant is memory that nobody writes to. Movements of constants stay where they are, since they
cost nothing, and what would take more memory than the constants that it is made of stays as well:
it is repeated, or wider than what is stored, and is better computed where it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.traversal import toposort
from porism.schedule.rangeify.placement_cost import elements

SMALL: Final = 1 << 16
"""Bytes of a value that may be larger than what it is made of."""

GROWTH: Final = 4
"""How many times larger a small value may be."""

NEVER: Final = frozenset({ops.VARIABLE, ops.BIND, ops.BUFFER, ops.PARAM, ops.ASSIGN, ops.SINK})
"""What is no constant by itself."""


def constant_parts(roots: Sequence[UOp], constants: Collection[UOp]) -> list[UOp]:
    """The nodes below some roots to compute once, where these BUFFERs are constants.

    >>> from porism.base.dtypes import f32, index
    >>> from porism.ir.buffer_node import new_buffer
    >>> x, scale = (new_buffer(f32, (UOp.const(index, 4),), "cpu") for _ in range(2))
    >>> found = constant_parts([x * ops.SQRT(scale + 1)], {scale})
    >>> [node.op.name for node in found]
    ['SQRT']
    """
    if not constants:
        return []
    order = toposort(*roots)
    fixed: set[UOp] = set()
    stored: set[UOp] = set()  # those that memory is read for
    for node in order:
        if node in constants:
            fixed.add(node)
            stored.add(node)
        elif node.op not in NEVER and all(s in fixed for s in node.src):
            fixed.add(node)
            if any(s in stored for s in node.src):
                stored.add(node)
    found: dict[UOp, None] = {}
    waiting = [s for node in order if node not in fixed for s in node.src if s in stored]
    seen = set(waiting)
    while waiting:
        node = _unmoved(waiting.pop())
        if node.op is ops.BUFFER or node in found:
            continue
        if _is_kept(node, constants):
            found[node] = None
            continue
        fresh = [s for s in node.src if s in stored and s not in seen]
        seen.update(fresh)
        waiting += fresh
    return [node for node in order if node in found]


def _unmoved(node: UOp) -> UOp:
    """What movements show."""
    while node.op.group is Group.MOVEMENT:
        node = node.src[0]
    return node


def _is_kept(node: UOp, constants: Collection[UOp]) -> bool:
    """Whether a value can be in memory, and takes no more of it than what it is made of."""
    if node.dtype is index:  # it has no width; what it was converted from has
        return False
    size = bytes_of(node)
    beneath = sum(bytes_of(n) for n in toposort(node) if n in constants)
    return size <= beneath or size <= min(SMALL, GROWTH * beneath)


def bytes_of(node: UOp) -> int:
    """The memory that a value takes."""
    return elements(node) * node.dtype.numpy.itemsize
