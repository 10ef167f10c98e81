"""Effect scopes: the loops around an effect, the buffers it writes, and the elements it reads.

A value is computed once per iteration of the ranges that it depends on. An effect also runs once
per iteration of every END around it, whether it depends on those ranges or not: so a loop of no
iterations suppresses the effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from porism.base.dtypes import Kind
from porism.ir import ops
from porism.ir.facts.open_ranges import CLOSERS
from porism.ir.node import UOp
from porism.ir.traversal import toposort

Scope = frozenset[UOp]
"""The ranges and IFs around a node."""
Nest = tuple[UOp, ...]
"""Ranges and IFs from the outermost to the innermost."""
_NOTHING: Final[Scope] = frozenset()


def own_nodes(root: UOp) -> list[UOp]:
    """Return the nodes of a graph in topological order, without the kernels that it calls."""
    return toposort(root, within=lambda node: node is root or node.op is not ops.SINK)


def postorder(
    targets: Iterable[UOp],
    needs: Callable[[UOp], Sequence[UOp]],
    known: Callable[[UOp], bool] = lambda node: False,
) -> dict[UOp, Sequence[UOp]]:
    """Return the targets and everything they need, needs first, each node with its own needs.

    Nodes for which `known` holds are left out, and so is what only they need. Does not recurse.
    """
    ordered: dict[UOp, Sequence[UOp]] = {}
    seen: set[UOp] = set()
    for target in targets:
        stack: list[tuple[UOp, Sequence[UOp] | None]] = [(target, None)]
        while stack:
            node, below = stack.pop()
            if below is not None:
                ordered[node] = below
            elif node not in seen and not known(node):
                seen.add(node)
                below = needs(node)
                stack.append((node, below))
                stack += [(n, None) for n in reversed(below) if n not in seen]
    return ordered


def ranges_before_effects(order: Iterable[UOp]) -> list[UOp]:
    """Return the nodes reordered so that the ranges around an effect precede it."""
    order = list(order)
    around = enclosing_nests(order)
    inside = set(order)

    def needs(node: UOp) -> list[UOp]:
        return [s for s in (*around.get(node, ()), *node.src) if s in inside]

    return list(postorder(order, needs))


def closed_ranges(node: UOp) -> Scope:
    """Return the ranges that a node closes, or the IF that an ENDIF closes."""
    if node.op in CLOSERS:
        return frozenset(s for s in node.src[1:] if s.op is ops.RANGE)
    return frozenset({node.src[0]}) if node.op is ops.ENDIF else _NOTHING


def closed_nest(closer: UOp) -> Nest:
    """Return what a node closes as a loop nest, outermost first, in the order of its sources.

    A range whose extent depends on another of them moves inside that one.
    """
    closed = closed_ranges(closer)
    remaining = list(dict.fromkeys(s for s in closer.src if s in closed))
    nest: list[UOp] = []
    while remaining:
        independent = [r for r in remaining if not set(r.src[0].ranges) & set(remaining)]
        assert independent, "the extents of ranges depend on each other"
        nest.append(independent[0])
        remaining.remove(independent[0])
    return tuple(nest)


def enclosing_nests(order: Iterable[UOp]) -> dict[UOp, Nest]:
    """Return for each effect the loops and IFs that are closed around it, outermost first."""
    nests: dict[UOp, Nest] = {}
    for node in reversed(list(order)):
        nest = nests.get(node, ())
        if node.op is ops.END:
            nest = _joined(nest, closed_nest(node))
            effects = node.src[:1]
        elif node.op is ops.ENDIF:
            nest = _joined(nest, closed_nest(node))
            effects = node.src[1:]
        elif node.op is ops.AFTER:
            effects = node.src[:1]
        elif node.op in (ops.GROUP, ops.NOOP, ops.BARRIER):
            effects = node.src
        else:
            continue
        if nest:
            for effect in effects:
                if effect.dtype.kind is Kind.VOID and effect.op is not ops.IF:
                    nests[effect] = _joined(nests.get(effect, ()), nest)
    return nests


def _joined(outer: Nest, inner: Nest) -> Nest:
    return (*outer, *(r for r in inner if r not in outer))


def scopes(order: Iterable[UOp]) -> dict[UOp, Scope]:
    """Return for each node the ranges and IFs around it."""
    order = list(order)
    nests = enclosing_nests(order)
    scope_of: dict[UOp, Scope] = {}
    for node in order:
        scope = frozenset(nests.get(node, ()))
        for source in node.src:
            inner = scope_of.get(source, _NOTHING)
            if inner and not inner <= scope:
                scope = inner if scope <= inner else scope | inner
        if node.op is ops.RANGE or node.op is ops.IF:
            scope = scope | {node}
        else:
            closed = closed_ranges(node)
            if closed & scope:
                scope = scope - closed
        scope_of[node] = scope
    return scope_of


def loaded_indices(order: Iterable[UOp], roots: Iterable[UOp]) -> set[UOp]:
    """Return the INDEX nodes whose element is read; of the others only the address is used."""
    wanted = {root for root in roots if root.dtype.kind is not Kind.VOID}
    for node in reversed(list(order)):
        if node.op is ops.AFTER:
            values = node.src[:1] if node in wanted else ()
        elif node.op in (ops.STORE, ops.LOAD, ops.INDEX):
            values = node.src[1:]
        elif node.op in (ops.GROUP, ops.NOOP, ops.BARRIER, ops.CALL):
            values = ()
        else:
            values = node.src
        wanted.update(values)
    return {n for n in wanted if n.op is ops.INDEX and n.dtype.kind is not Kind.POINTER}


_POINTER_OPS: Final = frozenset(
    {ops.INDEX, ops.AFTER, ops.CAST, ops.BITCAST, ops.PTRCAT, ops.GEP, ops.ASSIGN}
    | {op for op in ops.table() if op.group is ops.MOVEMENT}
)


def base_of(node: UOp) -> UOp:
    """Return the buffer, PARAM or DEFINE behind a pointer, an INDEX or a view of a tensor."""
    while node.op in _POINTER_OPS:
        node = node.src[0]
    return node


def written_buffers(order: Iterable[UOp]) -> dict[UOp, None]:
    """Return the buffers that the effects among the nodes write, as an ordered set."""
    written: dict[UOp, None] = {}
    for node in order:
        if node.op is ops.STORE or node.op is ops.ASSIGN:
            written[base_of(node.src[0])] = None
        elif node.op is ops.CALL:
            body = written_buffers(own_nodes(node.src[0]))
            numbers = {base.arg for base in body if base.op is ops.PARAM}
            buffers = [s for s in node.src[1:] if s.op is not ops.BIND]
            written.update({base_of(b): None for k, b in enumerate(buffers) if k in numbers})
    return written
