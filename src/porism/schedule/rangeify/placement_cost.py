"""Cost: what computing an element costs, against storing and reading it.

The unit is one addition of floats in a vectorised loop. The figures are rough; they only have to
tell cheap from dear: an addition from a square root, a row in cache from a tensor in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from porism.ir import ops
from porism.ir.facts.node_shape import Shape, shape
from porism.ir.node import UOp
from porism.ir.ops import Group, Op

READ: Final = 1.0
"""Of an input, which is read in any case."""

STORE_GLOBAL: Final = 8.0
LOAD_GLOBAL: Final = 4.0
STORE_LOCAL: Final = 1.0
LOAD_LOCAL: Final = 1.0

DEAR: Final = 64.0
"""What costs more is kept where it can be: it has a reduction in it, or a long chain of ops."""

DEAREST: Final = 1e12
"""Costs do not grow beyond this: of more it is only known that it is too much."""

OP_COSTS: Final[dict[Op, float]] = {
    ops.EXP: 8.0,
    ops.EXP2: 8.0,
    ops.EXPM1: 8.0,
    ops.TANH: 8.0,
    ops.LOG2: 8.0,
    ops.SIN: 12.0,
    ops.POW: 24.0,
    ops.SQRT: 4.0,
    ops.RECIPROCAL: 4.0,
    ops.FDIV: 4.0,
    ops.IDIV: 8.0,
    ops.MOD: 8.0,
    ops.THREEFRY: 40.0,
}
"""Of what is not as cheap as an addition."""

LOWERED: Final[dict[Op, int]] = {
    ops.EXP: 5,
    ops.EXP2: 4,
    ops.EXPM1: 6,
    ops.TANH: 5,
    ops.LOG2: 13,
    ops.SIN: 36,
    ops.POW: 32,
    ops.IDIV: 3,
    ops.MOD: 3,
    ops.THREEFRY: 30,
}
"""How large ops that machines do not have are in a kernel, beside one that they have: a fifth of
the instructions that they are decomposed into in f32, counted in the lines of a kernel."""

KEPT: Final = frozenset({ops.PARAM, ops.BUFFER, ops.CONTIGUOUS, ops.COPY, ops.ASSIGN})
"""Ops whose value is in memory anyway."""

FREE: Final = frozenset({ops.CONST, ops.VARIABLE, ops.BIND, ops.IOTA})


def count(dims: Iterable[UOp]) -> int:
    """The number of elements of a shape, or of iterations of ranges; the most that there may be."""
    total = 1
    for dim in dims:
        total *= max(int(dim.vmax), 0)
    return total


def trips(ranges: Iterable[UOp]) -> int:
    """The iterations of a nest of ranges, at most."""
    return count(r.src[0] for r in ranges)


def elements(node: UOp) -> int:
    """The number of elements of a tensor, at most."""
    return count(shape(node))


def costs(order: Sequence[UOp]) -> dict[UOp, float]:
    """What one element of each node costs, if it is computed where it is used.

    What is dear and used in several ways, or repeated by an EXPAND, will be kept somewhere: for its
    users it costs no more than reading it. What is computed once for many elements is shared by
    them.
    """
    users = Counter(s for node in order for s in dict.fromkeys(node.src))
    found: dict[UOp, float] = {}
    seen: dict[UOp, float] = {}  # what a node costs its users
    for node in order:
        cost = found[node] = min(_cost(node, seen), DEAREST)
        seen[node] = READ if cost >= DEAR and users[node] > 1 else cost
    return found


def likely_kept(order: Sequence[UOp], found: Mapping[UOp, float]) -> set[UOp]:
    """Nodes that will probably be in memory: dear, and used in several ways or repeated."""
    users = Counter(s for node in order for s in dict.fromkeys(node.src))
    repeated = {node.src[0] for node in order if node.op is ops.EXPAND}
    return {n for n in order if found[n] >= DEAR and (users[n] > 1 or n in repeated)}


def _cost(node: UOp, seen: dict[UOp, float]) -> float:
    op = node.op
    if op in KEPT:
        return READ
    if op in FREE or not node.src:
        return 0.0
    if op is ops.EXPAND:
        source = node.src[0]
        each = seen.get(source, 0.0)
        return (min(each, READ) if each >= DEAR else each) * _share(shape(source), shape(node))
    if op is ops.REDUCE_AXIS:
        dims = shape(node.src[0])
        return (seen.get(node.src[0], 0.0) + 1) * count(dims[axis] for axis in node.arg[1])
    if op.group is Group.MOVEMENT:
        return seen.get(node.src[0], 0.0) + (op is ops.PAD)
    return OP_COSTS.get(op, 1.0) + sum(seen.get(s, 0.0) for s in dict.fromkeys(node.src))


def _share(old: Shape, new: Shape) -> float:
    return count(old) / max(count(new), 1)
