"""Early movement: movement ops that are left in a kernel are folded into the indices above them.

    INDEX(PERMUTE(x; 1, 2, 0), i, j, k)     INDEX(x, k, i, j)
    INDEX(INDEX(pointer, i), j)             INDEX(pointer, i + j)
    AFTER(RESHAPE(x, n), a, b)              RESHAPE(AFTER(x, a, b), n)
    END(RESHAPE(x, n), r)                   END(x, r)

A pointer has one index, so the offsets of nested pointers add up. An element cannot be indexed. An
AFTER keeps everything that it waits for.
"""

from __future__ import annotations

from typing import Final

from porism.base.dtypes import Kind, Theory, index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.traversal import toposort
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import RuleSet, procedure
from porism.rules.addresses.validity import invalid_index
from porism.rules.buffers.buffer_rules import Access, access_of
from porism.schedule.rangeify.movement_indices import Element, source_element


@procedure("index-movement", (ops.INDEX,), seeds="004.1.1")
def index_movement(node: UOp) -> UOp | None:
    """Replace an element of a movement op by an element of its source, or 0 outside of it."""
    view = node.src[0]
    if view.op.group is not Group.MOVEMENT:
        return None
    read = access_of(node)
    if read is None:
        return UOp.const(node.dtype, 0)
    # its condition includes that it is inside the source
    element = source_element(view, Element(*read)).element
    if element.indices:
        return view.src[0].index(*element.masked_indices())
    scalar = view.src[0] if view.src[0].op is ops.CONST else view.src[0].index()
    return Access((), element.valid).value_or_zero(scalar)


@procedure("index-index", (ops.INDEX,), seeds="004.1.4 004.1.5")
def index_index(node: UOp) -> UOp | None:
    """Add up the offsets of a pointer into memory behind a pointer."""
    inner = node.src[0]
    if inner.op is not ops.INDEX or inner.dtype.kind is not Kind.POINTER or len(node.src) < 2:
        return None
    base = inner.src[0]
    if base.dtype.element is not inner.dtype.element:
        return None
    outer, below = access_of(node), access_of(inner)
    if outer is None or below is None:
        return base.index(invalid_index(index), dtype=node.dtype)
    if not below.indices or not outer.indices:
        return None
    valid = _both(below.valid, outer.valid)
    access = Access((below.indices[0] + outer.indices[0],), valid)
    return base.index(*access.masked_indices(), dtype=node.dtype)


def _both(a: UOp | None, b: UOp | None) -> UOp | None:
    """Return the condition that both hold; None is always true."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


@procedure("after-movement", (ops.AFTER,), seeds="004.1.2")
def after_movement(node: UOp) -> UOp | None:
    """Let the source of a movement op wait for something, instead of its result."""
    view = node.src[0]
    if view.op.group is not Group.MOVEMENT:
        return None
    return view.replace((view.src[0].after(*node.src[1:]), *view.src[1:]))


@procedure("end-movement", (ops.END,), seeds="004.1.3")
def end_movement(node: UOp) -> UOp | None:
    """Drop a movement op whose result a loop only ends: it has no effect."""
    effect, *ranges = node.src
    if effect.op.group is not Group.MOVEMENT:
        return None
    return effect.src[0].end(*ranges)


MOVEMENT: Final = RuleSet(
    "movement",
    theory=Theory.STRUCTURE,
    rules=(index_movement, index_index, after_movement, end_movement),
)


def early_movement(sink: UOp) -> UOp:
    """Return the graph without movement ops below INDEX, AFTER and END."""
    for node in toposort(sink):
        group = node.op.group
        if group is Group.MOVEMENT or (node.op is ops.INDEX and node.src[0].op is ops.INDEX):
            return rewrite(sink, MOVEMENT)
    return sink
