"""Scope: which loops an effect is inside of, which INDEX nodes are read, what is written.

A value is computed for the ranges it depends on. An effect also happens for the ranges of every END
that it is the effect of, whether it depends on them or not: so an empty range suppresses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from porism.base.dtypes import Kind
from porism.evaluate.faults import Fault, describe, failure
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort

BLOCKS: Final = frozenset({Axis.GLOBAL, Axis.THREAD})
"""Kinds of ranges whose iterations are independent of each other."""

THREADS: Final = frozenset({Axis.LOCAL, Axis.WARP, Axis.GROUP})
"""Kinds of ranges whose iterations are the threads of a block: local memory, barriers."""

IN_ORDER: Final = frozenset({Axis.OUTER, Axis.LOOP, Axis.ORDERED, Axis.REDUCE})
"""Kinds of ranges that run one iteration after the other."""

Scope = frozenset[UOp]
Nest = tuple[UOp, ...]
_NOTHING: Final[Scope] = frozenset()


def nodes_of(root: UOp) -> list[UOp]:
    """The nodes of a graph, without the kernels that it calls."""
    return toposort(root, within=lambda node: node is root or node.op is not ops.SINK)


def depth_first(
    targets: Iterable[UOp],
    needs: Callable[[UOp], Sequence[UOp]],
    known: Callable[[UOp], bool] = lambda node: False,
) -> dict[UOp, Sequence[UOp]]:
    """The targets and all they need, what is needed first, each with its needs; no recursion."""
    found: dict[UOp, Sequence[UOp]] = {}
    seen: set[UOp] = set()
    for target in targets:
        stack: list[tuple[UOp, Sequence[UOp] | None]] = [(target, None)]
        while stack:
            node, below = stack.pop()
            if below is not None:
                found[node] = below
            elif node not in seen and not known(node):
                seen.add(node)
                below = needs(node)
                stack.append((node, below))
                stack += [(n, None) for n in reversed(below) if n not in seen]
    return found


def ranges_before_effects(order: Iterable[UOp]) -> list[UOp]:
    """The nodes in an order in which the ranges around an effect come before it."""
    order = list(order)
    around = enclosing(order)
    inside = set(order)

    def needs(node: UOp) -> list[UOp]:
        return [s for s in (*around.get(node, ()), *node.src) if s in inside]

    return list(depth_first(order, needs))


CLOSERS: Final = frozenset({ops.END, ops.REDUCE, ops.BUFFERIZE})


def closed_by(node: UOp) -> Scope:
    """The ranges that end at a node, or the IF that does."""
    if node.op in CLOSERS:
        return frozenset(s for s in node.src[1:] if s.op is ops.RANGE)
    return frozenset({node.src[0]}) if node.op is ops.ENDIF else _NOTHING


def nested(closer: UOp) -> tuple[UOp, ...]:
    """What ends at a node, from the outside in: in the order in which the node names it.

    Only a range whose end depends on others that are named is inside of these.
    """
    closed = closed_by(closer)
    left = list(dict.fromkeys(s for s in closer.src if s in closed))
    found: list[UOp] = []
    while left:
        free = [r for r in left if not set(r.src[0].ranges) & set(left)]
        assert free, "ranges depend on each other"
        found.append(free[0])
        left.remove(free[0])
    return tuple(found)


def enclosing(order: Iterable[UOp]) -> dict[UOp, Nest]:
    """For each effect, the ranges and IFs of the ENDs it happens in, from the outside in."""
    found: dict[UOp, Nest] = {}
    for node in reversed(list(order)):
        inside = found.get(node, ())
        if node.op is ops.END:
            inside = _joined(inside, nested(node))
            effects = node.src[:1]
        elif node.op is ops.ENDIF:
            inside = _joined(inside, nested(node))
            effects = node.src[1:]
        elif node.op is ops.AFTER:
            effects = node.src[:1]
        elif node.op in (ops.GROUP, ops.NOOP, ops.BARRIER):
            effects = node.src
        else:
            continue
        if inside:
            for effect in effects:
                if effect.dtype.kind is Kind.VOID and effect.op is not ops.IF:
                    found[effect] = _joined(found.get(effect, ()), inside)
    return found


def _joined(outer: Nest, inner: Nest) -> Nest:
    return (*outer, *(r for r in inner if r not in outer))


def scopes(order: Iterable[UOp]) -> dict[UOp, Scope]:
    """For each node, the ranges and IFs that it is inside of."""
    order = list(order)
    extra = enclosing(order)
    found: dict[UOp, Scope] = {}
    for node in order:
        scope = frozenset(extra.get(node, ()))
        for source in node.src:
            inner = found.get(source, _NOTHING)
            if inner and not inner <= scope:
                scope = inner if scope <= inner else scope | inner
        if node.op is ops.RANGE or node.op is ops.IF:
            scope = scope | {node}
        else:
            closed = closed_by(node)
            if closed & scope:
                scope = scope - closed
        found[node] = scope
    return found


def refuse_open(root: UOp, scope: Scope) -> None:
    """Raise if a loop or IF around the effects of a program is never closed."""
    for opener in sorted(scope, key=lambda node: node.key):
        raise failure(
            Fault(
                opener,
                f"{describe(opener)} is never closed",
                "what happens in a loop is closed by an END or a REDUCE, an IF by an ENDIF",
                "end the effect: effect.end(range)",
            ),
            root,
        )


def read_indices(order: Iterable[UOp], roots: Iterable[UOp]) -> set[UOp]:
    """The INDEX nodes whose element is used, and not only the place it is at."""
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


_ON_THE_WAY: Final = frozenset(
    {ops.INDEX, ops.AFTER, ops.CAST, ops.BITCAST, ops.PTRCAT, ops.GEP, ops.ASSIGN}
    | {op for op in ops.table() if op.group is ops.MOVEMENT}
)


def base_of(node: UOp) -> UOp:
    """The buffer that a pointer, an INDEX or a view of a tensor leads to."""
    while node.op in _ON_THE_WAY:
        node = node.src[0]
    return node


def written_by(order: Iterable[UOp]) -> dict[UOp, None]:
    """The buffers that the effects among the nodes write, as an ordered set."""
    found: dict[UOp, None] = {}
    for node in order:
        if node.op is ops.STORE or node.op is ops.ASSIGN:
            found[base_of(node.src[0])] = None
        elif node.op is ops.CALL:
            body = written_by(nodes_of(node.src[0]))
            numbers = {base.arg for base in body if base.op is ops.PARAM}
            buffers = [s for s in node.src[1:] if s.op is not ops.BIND]
            found.update({base_of(b): None for k, b in enumerate(buffers) if k in numbers})
    return found
