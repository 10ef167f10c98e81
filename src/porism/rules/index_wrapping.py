"""Wrapping addresses: sums that may leave 64 bits on their way to an address.

A loaded integer can be anything, so `cast(p1[i], index) * 12 + 3` has no bounds that fit a machine,
even where a gate keeps every access inside of its memory. But sums and products that wrap are right
modulo 2^64, whatever happened in between; and the address of an access that happens is inside of a
memory, so it is right as it is. Where nothing but sums, products, choices and accesses use such a
value, it is computed in i64, and may wrap.

A quotient of a value that has wrapped is not right. But the loaded integer is between the bounds
that the gate states wherever the access happens, so it may be clamped to them:

    INDEX(p, (x + 3) // 9 if 0 <= x and x < 15)      INDEX(p, (min(max(x, 0), 14) + 3) // 9 if …)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.base.dtypes import Kind, i64, index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.walk import substitute, toposort
from porism.rules.where_on_load import clauses

RING: Final = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.NEG})
"""Ops that are right modulo 2^64 if their operands are."""

QUOTIENTS: Final = frozenset({ops.IDIV, ops.MOD})

PASSING: Final = frozenset({ops.VECTORIZE, ops.GEP, ops.CAT})


def wrapping_addresses(root: UOp) -> UOp:
    """The graph with what may leave 64 bits computed in i64, where that makes no difference."""
    order = toposort(root)
    if any(_is_large(s) for n in order if n.op in QUOTIENTS for s in n.src):
        root = _clamped(order)
        order = toposort(root)
    large = {n for n in order if n.op in RING and _is_large(n)}
    large |= {n for n in order if _passes(n) and _is_large(n)}
    if not large:
        return root
    exact = {s for user in order for s in _needed_exactly(user)}
    pending = [n for n in exact if n in large]
    while pending:  # what is needed exactly may not rest on what wraps
        node = pending.pop()
        large.discard(node)
        for s in node.src:
            if s in large and (node.op in RING or _passes(node)):
                pending.append(s)
    new: dict[UOp, UOp] = {}
    for node in order:
        src = tuple([new[s] for s in node.src])
        if node in large:
            new[node] = _wrapping(node, src)
        else:
            new[node] = node if src == node.src else node.replace(src)
    return new[root]


def _clamped(order: Sequence[UOp]) -> UOp:
    """The graph with loaded integers clamped, in each access whose gate bounds them.

    Only where a quotient of them may leave 64 bits.
    """
    new: dict[UOp, UOp] = {}
    for node in order:
        made = node.replace(tuple([new[s] for s in node.src]))
        if node.op is ops.INDEX and made.src[-1].dtype.kind is Kind.BOOL:
            base, *at, gate = made.src
            below = toposort(*at)
            if any(_is_large(s) for n in below if n.op in QUOTIENTS for s in n.src):
                bounded = _bounded(below, gate)
                at = [substitute(i, bounded) for i in at]
                made = made.replace((base, *at, gate))
        new[node] = made
    return new[order[-1]]


def _bounded(nodes: Sequence[UOp], gate: UOp) -> dict[UOp, UOp]:
    """Integers that were loaded, and each of them clamped to what the gate says of it."""
    smallest, largest = int(i64.min), int(i64.max)
    lows: dict[UOp, int] = {}
    highs: dict[UOp, int] = {}
    for clause in clauses(gate):
        if clause.op not in _BOUNDS:
            continue
        upper, strict = _BOUNDS[clause.op]
        a, b = clause.src
        for value, limit, is_upper in ((a, b, upper), (b, a, not upper)):
            if limit.op is not ops.CONST or not value.dtype.is_integer:
                continue
            if is_upper:
                highs[value] = min(highs.get(value, largest), int(limit.arg) - strict)
            else:
                lows[value] = max(lows.get(value, smallest), int(limit.arg) + strict)
    found: dict[UOp, UOp] = {}
    for node in nodes:
        if node.op is ops.CAST and node.dtype.element is index:
            names = (node, node.src[0])
            low = max(lows.get(n, smallest) for n in names)
            high = min(highs.get(n, largest) for n in names)
            if node.vmin < low <= high < node.vmax:
                found[node] = node.maximum(low).minimum(high)
    return found


_BOUNDS: Final = {
    ops.LT: (True, True),
    ops.LE: (True, False),
    ops.GT: (False, True),
    ops.GE: (False, False),
}
"""For a comparison of a value with a number: whether that is an upper bound, and a strict one."""


def _is_large(node: UOp) -> bool:
    if node.dtype.element.kind is not Kind.INDEX and node.dtype.kind is not Kind.INDEX:
        return False
    return not (i64.min <= node.vmin and node.vmax <= i64.max)


def _passes(node: UOp) -> bool:
    return node.op in PASSING or node.op is ops.WHERE


def _needed_exactly(user: UOp) -> tuple[UOp, ...]:
    """The sources that must not have wrapped."""
    if user.op in RING or user.op in PASSING:
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
