"""Sharing: what several sums have in common is written in one piece, so that it is computed once.

A sum of three terms may be grouped in three ways, and which of them is cheap depends on the rest of
the expression: here `r * 4 + v` is needed anyway.

    Before: w * 64 + r * 4 + v if (r * 4 + v) % 16 < w else -1
    After:  w * 64 + (r * 4 + v) if (r * 4 + v) % 16 < w else -1

The same is done for products, conjunctions and the like. What is found depends on the terms alone
and not on how they were grouped, so that every grouping of an expression becomes the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.simplifier.expression_cost import COSTS, measure
from porism.simplifier.light_nodes import Make, made, remade
from porism.simplifier.written_order import may_have_no_value

_KINDS: Final[dict[Op, Op]] = {
    ops.SUB: ops.ADD,
    ops.NEG: ops.ADD,
    **{op: op for op in (ops.ADD, ops.MUL, ops.MAX, ops.MIN, ops.AND, ops.OR, ops.XOR)},
}
"""What an operation is a part of: subtractions are parts of sums."""

MOST_NODES: Final = 2000
"""A larger expression stays as it is."""

MOST_BUNDLES: Final = 48
"""That are compared with each other."""

Item = tuple[int, UOp]
"""A sign and what it belongs to; only a sum has items that are negative."""

Bundle = tuple[Item, ...]
"""All that one sum adds up, or one product multiplies, without repetition."""


def share(root: UOp, make: Make = made) -> UOp:
    """The same value of the same terms, grouped so that it costs less; else the node itself.

    >>> a, b, c = (UOp.variable(name, 0, 9) for name in "abc")
    >>> def plus(x, y): return made(ops.ADD, (x, y))
    >>> share(made(ops.LT, (plus(plus(a, b), c), plus(b, c))))
    UOp(LT bool a + (b + c) < b + c)
    """
    nodes = toposort(root)
    if len(nodes) > MOST_NODES:
        return root
    bundles = _bundles(nodes)
    if not _group(bundles, make):
        return root
    found = _written(root, bundles, make)
    before, after = measure(root), measure(found)
    return found if after[0] <= before[0] and after[1] < before[1] else root


def _bundles(nodes: Sequence[UOp]) -> dict[UOp, Bundle]:
    """The sums and the like that are no part of another, with what they are made of."""
    heads: set[UOp] = {nodes[-1]}
    for node in nodes:
        kind = _KINDS.get(node.op)
        for s in node.src:
            if s.op in _KINDS and _KINDS[s.op] is not kind:
                heads.add(s)
    found = {}
    if len(heads) > 1:
        fixed: bool | None = None
        for node in nodes:
            if node in heads and node.op in _KINDS:
                if node.dtype is dtypes.boolean and fixed is None:
                    # A guard stands before the division that it guards, and must stay there.
                    fixed = any(may_have_no_value(each) for each in nodes)
                items = None if fixed and node.dtype is dtypes.boolean else _items(node)
                if items is not None and len(items) > 1:
                    found[node] = items
    return found


def _items(root: UOp) -> Bundle | None:
    """What a sum adds up, from left to right; None if something is repeated."""
    kind = _KINDS[root.op]
    found: dict[UOp, int] = {}
    stack: list[tuple[UOp, int]] = [(root, 1)]
    while stack:
        node, sign = stack.pop()
        if _KINDS.get(node.op) is kind:
            stack.append((node.src[-1], -sign if node.op in (ops.SUB, ops.NEG) else sign))
            if len(node.src) > 1:
                stack.append((node.src[0], sign))
        elif node in found or len(found) == MOST_NODES:
            return None
        else:
            found[node] = sign
    return tuple((sign, node) for node, sign in found.items())


# -- groups ----------------------------------------------------------------------------------------


def _group(bundles: dict[UOp, Bundle], make: Make) -> bool:
    """Name what bundles have in common, the most worthwhile first; whether there was any."""
    changed = False
    while (found := _most_common(bundles)) is not None:
        changed = True
        kind, items = found
        group = _folded(kind, items, make)
        for head, bundle in bundles.items():
            if head is not group:
                for sign, wanted in ((1, items), (-1, _negated(items))):
                    if _KINDS[head.op] is kind and set(wanted) <= set(bundle):
                        bundles[head] = _replaced(bundle, wanted, (sign, group))
        bundles[group] = items
    return changed


def _most_common(bundles: dict[UOp, Bundle]) -> tuple[Op, Bundle] | None:
    """The items, two or more, that it saves most to compute once."""
    often: dict[tuple[Op, UOp], int] = {}
    for head, bundle in bundles.items():
        kind = _KINDS[head.op]
        for _, node in bundle:
            often[kind, node] = often.get((kind, node), 0) + 1
    if max(often.values(), default=0) < 2:
        return None
    candidates: dict[Op, list[Bundle]] = {}
    for head, bundle in bundles.items():
        kind = _KINDS[head.op]
        items = tuple(item for item in bundle if often[kind, item[1]] > 1)
        if len(items) > 1:
            candidates.setdefault(kind, []).append(items)
    best, chosen = 0, None
    for kind, found in candidates.items():
        for items, saved in _in_common(found):
            if saved * COSTS.get(kind, 1) > best:
                best, chosen = saved * COSTS.get(kind, 1), (kind, items)
    return chosen


def _in_common(bundles: list[Bundle]) -> Iterator[tuple[Bundle, int]]:
    """What any two have in common, and how many operations it saves to compute that once."""
    if len(bundles) > MOST_BUNDLES:
        return
    tried: set[frozenset[Item]] = set()
    for number, bundle in enumerate(bundles):
        for other in bundles[number + 1 :]:
            for second in (other, _negated(other)):
                common = frozenset(bundle).intersection(second)
                if len(common) < 2 or common in tried:
                    continue
                items = tuple(item for item in bundle if item in common)
                opposite = frozenset(_negated(items))
                tried |= {common, opposite}
                uses = sum(common.issubset(b) or opposite.issubset(b) for b in bundles)
                if all(sign < 0 for sign, _ in items):
                    items = _negated(items)
                elif any(sign < 0 for sign, _ in items):  # the way round in which it stands alone
                    items = next((b for b in bundles if opposite == set(b)), items)
                yield items, (len(items) - 1) * (uses - 1)


def _negated(items: Bundle) -> Bundle:
    return tuple((-sign, node) for sign, node in items)


def _replaced(bundle: Bundle, items: Bundle, group: Item) -> Bundle:
    """The bundle with a group where the first of its items was."""
    first = next(number for number, item in enumerate(bundle) if item in items)
    rest = [item for item in bundle if item not in items]
    return (*rest[:first], group, *rest[first:])


# -- nodes -----------------------------------------------------------------------------------------


def _written(root: UOp, bundles: dict[UOp, Bundle], make: Make) -> UOp:
    """The graph in which each bundle is made of its items."""
    done: dict[UOp, UOp] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        bundle = bundles.get(node)
        parts = node.src if bundle is None else [part for _, part in bundle]
        waiting = [part for part in parts if part not in done]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if bundle is None:
            src = tuple(done[s] for s in node.src)
            new = node if src == node.src else remade(node, src, make)
        else:
            new = _folded(_KINDS[node.op], [(sign, done[part]) for sign, part in bundle], make)
        done[node] = new
    return done[root]


def _folded(kind: Op, items: Sequence[Item], make: Make) -> UOp:
    """The items in their order, but for a sum that would begin with a minus."""
    start = next((number for number, (sign, _) in enumerate(items) if sign > 0), 0)
    sign, whole = items[start]
    if sign < 0:
        whole = make(ops.NEG, (whole,))
    for sign, node in (*items[:start], *items[start + 1 :]):
        whole = make(kind if sign > 0 else ops.SUB, (whole, node))
    return whole
