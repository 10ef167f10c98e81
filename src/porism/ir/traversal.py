"""Walks over graphs: order, search, substitution. None of them recurses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from porism.ir.node import UOp, construct, raw


def toposort(*roots: UOp, within: Callable[[UOp], bool] | None = None) -> list[UOp]:
    """Every node below the roots, sources before users, in an order that structure alone decides.

    `within` limits the walk: nodes for which it is false, and what is only below them, stay out.
    """
    if within is not None:
        return _limited(roots, within)
    known = _known.get(roots[0]) if len(roots) == 1 else None  # another thread may forget it
    if known is not None:
        return known.copy()
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
    if len(roots) == 1 and len(order) >= _LARGE and not roots[0].on_memory:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[roots[0]] = order.copy()
    return order


_known: Final[dict[UOp, list[UOp]]] = {}
"""The latest large graphs in order: passes walk the same graph one after the other."""
_LARGE: Final = 16
_MOST_KNOWN: Final = 16


def forget() -> None:
    """Let go of the graphs whose order is known."""
    _known.clear()


def _limited(roots: tuple[UOp, ...], within: Callable[[UOp], bool]) -> list[UOp]:
    """The same walk with a question at each node, which the common one need not ask."""
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
    """Every node that the root depends on, without the root, as an ordered set."""
    found = dict.fromkeys(toposort(root))
    del found[root]
    return found


def find(root: UOp, wanted: Callable[[UOp], bool]) -> Iterator[UOp]:
    """The nodes below the root that are wanted, sources first."""
    return (node for node in toposort(root) if wanted(node))


def users(*roots: UOp) -> dict[UOp, list[UOp]]:
    """For every node below the roots, the nodes that use it, once each."""
    found: dict[UOp, list[UOp]] = {}
    for node in toposort(*roots):
        found.setdefault(node, [])
        for s in dict.fromkeys(node.src):
            found[s].append(node)
    return found


def rebuild(root: UOp, change: Callable[[UOp, tuple[UOp, ...]], UOp]) -> UOp:
    """The graph with every node replaced by `change(node, new sources)`, sources first."""
    new: dict[UOp, UOp] = {}
    for node in toposort(root):
        new[node] = change(node, tuple([new[s] for s in node.src]))
    return new[root]


def substitute(root: UOp, replacements: Mapping[UOp, UOp], *, exactly: bool = False) -> UOp:
    """The graph with some nodes replaced, all at once; replacements are not searched again.

    Nodes above a replacement are made anew, in normal form, or `exactly` as they were.
    """

    make = raw if exactly else construct
    new = dict(replacements)  # what has none of them below it stays
    changed = new.keys()
    for node in toposort(root):
        if node not in new and not changed.isdisjoint(node.src):
            src = tuple([new.get(s, s) for s in node.src])
            if src != node.src:
                new[node] = make(node.op, node.dtype_given, src, node.arg)
    return new.get(root, root)
