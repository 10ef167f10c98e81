"""Walks over graphs: order, search, substitution, the ranges in scope. None of them recurses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from porism.ir import ops
from porism.ir.node import UOp, _Draft, construct, raw


def toposort(*roots: UOp, within: Callable[[UOp], bool] | None = None) -> list[UOp]:
    """Every node below the roots, sources before users, in an order that structure alone decides.

    `within` limits the walk: nodes for which it is false, and what is only below them, stay out.
    """
    order: list[UOp] = []
    seen: set[UOp] = set()
    for root in roots:
        if root in seen or (within is not None and not within(root)):
            continue
        seen.add(root)
        stack = [(root, iter(root.src))]
        while stack:
            node, sources = stack[-1]
            for s in sources:
                if s not in seen and (within is None or within(s)):
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
        new[node] = change(node, tuple(new[s] for s in node.src))
    return new[root]


def substitute(root: UOp, replacements: Mapping[UOp, UOp], *, exactly: bool = False) -> UOp:
    """The graph with some nodes replaced, all at once; replacements are not searched again.

    Nodes above a replacement are made anew, in normal form, or `exactly` as they were.
    """

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        found = replacements.get(node)
        if found is not None:
            return found
        if src == node.src:
            return node
        if exactly:
            return raw(node.op, node.dtype_given, src, node.arg)
        return construct(node.op, node.dtype_given, src, node.arg)

    return rebuild(root, change)


CLOSERS: Final = frozenset({ops.END, ops.REDUCE, ops.BUFFERIZE})
"""Ops that close the ranges among their later sources."""

_set_ranges: Final = vars(_Draft)["_ranges"].__set__


def ranges_of(root: UOp) -> tuple[UOp, ...]:
    """The ranges that a node depends on and that nothing below it closed, ordered by axis.

    >>> from porism.ir import ops
    >>> i, k = UOp.range(4, 0), UOp.range(8, 1)
    >>> [r.arg[0] for r in (i + (i * k).reduce(ops.ADD, k)).ranges]
    [(0,)]
    """
    try:
        return root._ranges
    except AttributeError:
        pass
    try:
        found = _ranges_from_sources(root)
    except AttributeError:  # of a source they are not known yet
        for node in toposort(root, within=lambda n: not hasattr(n, "_ranges")):
            _set_ranges(node, _ranges_from_sources(node))
        return root._ranges
    _set_ranges(root, found)
    return found


def _ranges_from_sources(node: UOp) -> tuple[UOp, ...]:
    if node.op is ops.RANGE:
        below = _union(s._ranges for s in node.src)
        return _sorted({*below, node})
    if node.op in CLOSERS:
        closed = {s for s in node.src[1:] if s.op is ops.RANGE}
        ended = [r for s in node.src for r in s._ranges]
        return _sorted({r for r in ended if r not in closed})
    return _union(s._ranges for s in node.src)


def _union(parts: Iterable[tuple[UOp, ...]]) -> tuple[UOp, ...]:
    """The ranges of all parts; the same tuple again where one part has them all."""
    whole: tuple[UOp, ...] = ()
    for part in parts:
        if part is not whole and part:
            if not whole:
                whole = part
            elif not set(part) <= set(whole):
                whole = _sorted({*whole, *part})
    return whole


def _sorted(ranges: Iterable[UOp]) -> tuple[UOp, ...]:
    return tuple(sorted(ranges, key=lambda r: (r.arg[0], r.arg[1].value, r.key)))
