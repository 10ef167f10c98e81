"""Address wrapping: index sums that may exceed 64 bits are computed modulo 2^64 for an address.

A loaded integer has no bounds, so `cast(p1[i], index) * 12 + 3` does not provably fit 64 bits, even
where a gate keeps every access inside its buffer. But wrapped sums and products are right modulo
2^64, and the address of an access that is executed is inside a buffer, so it is right. Where only
sums, products, WHERE, lane selection and accesses use such a value, it is computed in i64, and may
wrap.
"""

from __future__ import annotations

from typing import Final

from porism.base.dtypes import Kind, i64, index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort

RING: Final = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.NEG})
"""Ops that are right modulo 2^64 if their operands are."""

FORWARDING: Final = frozenset({ops.VECTORIZE, ops.GEP, ops.CAT})
"""Ops that only rearrange lanes."""


def wrap_addresses(root: UOp) -> UOp:
    """Return the graph with sums that may exceed 64 bits computed in i64, where that is safe."""
    order = toposort(root)
    large = {n for n in order if n.op in RING and _is_large(n)}
    large |= {n for n in order if _is_forwarding(n) and _is_large(n)}
    if not large:
        return root
    exact = {s for user in order for s in _needed_exactly(user)}
    pending = [n for n in exact if n in large]
    while pending:  # a value that is needed exactly may not depend on one that wraps
        node = pending.pop()
        large.discard(node)
        for s in node.src:
            if s in large and (node.op in RING or _is_forwarding(node)):
                pending.append(s)
    new: dict[UOp, UOp] = {}
    for node in order:
        src = tuple([new[s] for s in node.src])
        if node in large:
            new[node] = _wrapping(node, src)
        else:
            new[node] = node if src == node.src else node.replace(src)
    return new[root]


def _is_large(node: UOp) -> bool:
    if node.dtype.element.kind is not Kind.INDEX and node.dtype.kind is not Kind.INDEX:
        return False
    return not (i64.min <= node.vmin and node.vmax <= i64.max)


def _is_forwarding(node: UOp) -> bool:
    return node.op in FORWARDING or node.op is ops.WHERE


def _needed_exactly(user: UOp) -> tuple[UOp, ...]:
    """Return the sources of a node that must not have wrapped."""
    if user.op in RING or user.op in FORWARDING:
        return ()
    if user.op is ops.WHERE:
        return user.src[:1]
    if user.op is ops.INDEX:
        return user.src[:1]
    if user.op is ops.CAST and user.dtype.is_integer and user.dtype.element is not index:
        return ()  # it wraps anyway
    return user.src


def _wrapping(node: UOp, src: tuple[UOp, ...]) -> UOp:
    wide = i64.vec(node.dtype.count)
    if node.op is ops.WHERE:
        condition, yes, no = src
        return condition.where(yes.cast(wide), no.cast(wide)).cast(node.dtype)
    if node.op in (ops.VECTORIZE, ops.GEP, ops.CAT):
        parts = [s.cast(i64.vec(s.dtype.count)) for s in src]
        return node.op(*parts, arg=node.arg).cast(node.dtype)
    return node.op(*[s.cast(wide) for s in src]).cast(node.dtype)
