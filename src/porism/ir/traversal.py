"""Graph traversal: topological order, search, substitution. Nothing here recurses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from porism.ir.node import UOp, construct, raw


def toposort(*roots: UOp, within: Callable[[UOp], bool] | None = None) -> list[UOp]:
    """Return every node below the roots, sources before users, in an order that structure decides.

    `within` limits the walk: nodes for which it is false, and what is only below them, are omitted.
    """
    if within is not None:
        return _limited(roots, within)
    cached = _orders.get(roots[0]) if len(roots) == 1 else None  # another thread may clear it
    if cached is not None:
        return cached.copy()
    order: list[UOp] = []
    seen: set[UOp] = set()
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(root.src))]
        while stack:
            node, sources = stack[-1]
            for s in sources:
                if s not in seen:
                    seen.add(s)
                    if s.src:
                        stack.append((s, iter(s.src)))
                        break
                    order.append(s)
            else:
                stack.pop()
                order.append(node)
    if len(roots) == 1 and len(order) >= _LEAST_KEPT_NODES and not roots[0].uses_buffer:
        if len(_orders) >= _MOST_ORDERS:
            _orders.clear()
        _orders[roots[0]] = order.copy()
    return order


_orders: Final[dict[UOp, list[UOp]]] = {}
"""Root -> topological order, of the latest large graphs: several passes walk the same graph."""
_LEAST_KEPT_NODES: Final = 16
_MOST_ORDERS: Final = 16


def clear_orders() -> None:
    """Clear the cache of topological orders."""
    _orders.clear()


def _limited(roots: tuple[UOp, ...], within: Callable[[UOp], bool]) -> list[UOp]:
    """Return the topological order of the nodes for which `within` holds."""
    order: list[UOp] = []
    seen: set[UOp] = set()
    for root in roots:
        if root in seen or not within(root):
            continue
        seen.add(root)
        stack = [(root, iter(root.src))]
        while stack:
            node, sources = stack[-1]
            for s in sources:
                if s not in seen and within(s):
                    seen.add(s)
                    if s.src:
                        stack.append((s, iter(s.src)))
                        break
                    order.append(s)
            else:
                stack.pop()
                order.append(node)
    return order


def backward_slice(root: UOp) -> dict[UOp, None]:
    """Return every node that the root depends on, without the root, as an ordered set."""
    nodes = dict.fromkeys(toposort(root))
    del nodes[root]
    return nodes


def find(root: UOp, wanted: Callable[[UOp], bool]) -> Iterator[UOp]:
    """Return the nodes below the root for which `wanted` holds, sources first."""
    return (node for node in toposort(root) if wanted(node))


def users(*roots: UOp) -> dict[UOp, list[UOp]]:
    """Return for every node below the roots the nodes that use it, once each."""
    users_of: dict[UOp, list[UOp]] = {}
    for node in toposort(*roots):
        users_of.setdefault(node, [])
        for s in dict.fromkeys(node.src):
            users_of[s].append(node)
    return users_of


def rebuild(root: UOp, change: Callable[[UOp, tuple[UOp, ...]], UOp]) -> UOp:
    """Return the graph with every node replaced by `change(node, new sources)`, sources first."""
    new: dict[UOp, UOp] = {}
    for node in toposort(root):
        new[node] = change(node, tuple([new[s] for s in node.src]))
    return new[root]


def substitute(
    root: UOp,
    replacements: Mapping[UOp, UOp],
    *,
    exactly: bool = False,
    within: Callable[[UOp], bool] | None = None,
) -> UOp:
    """Return the graph with some nodes replaced simultaneously; replacements are not searched.

    Nodes that use a replaced node are made anew, in normal form, or `exactly` as they were. Where
    `within` is false for a node, no node below it is replaced.
    """

    make = raw if exactly else construct
    new = dict(replacements)  # a node that is not in it stays as it is
    changed = new.keys()
    for node in toposort(root, within=within):
        if node not in new and not changed.isdisjoint(node.src):
            src = tuple([new.get(s, s) for s in node.src])
            if src != node.src:
                new[node] = make(node.op, node.dtype_given, src, node.arg)
    return new.get(root, root)


def substitute_chained(root: UOp, replacements: Mapping[UOp, UOp]) -> UOp:
    """Return the graph with some nodes replaced, also inside of the replacements.

    Each node is visited once, however long the chain of replacements is; no replacement may depend
    on the node that it replaces.
    """
    new: dict[UOp, UOp] = {}  # a node that is not in it stays as it is
    changed = new.keys()
    seen = {root}
    stack = [(root, iter(root.src))]
    if root in replacements:
        stack = [(root, iter((replacements[root],)))]
    while stack:
        node, sources = stack[-1]
        for s in sources:
            if s not in seen:
                seen.add(s)
                value = replacements.get(s)
                if value is not None:
                    stack.append((s, iter((value,))))
                    break
                if s.src:
                    stack.append((s, iter(s.src)))
                    break
        else:
            stack.pop()
            value = replacements.get(node)
            if value is not None:
                new[node] = new.get(value, value)
            elif not changed.isdisjoint(node.src):
                src = tuple([new.get(s, s) for s in node.src])
                if src != node.src:
                    new[node] = construct(node.op, node.dtype_given, src, node.arg)
    return new.get(root, root)
