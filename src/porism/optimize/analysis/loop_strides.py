"""Accesses: how the loops of a kernel go through memory, as the heuristics ask for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.strategy.action_plan import extent_of
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked


def inside(end: UOp) -> list[UOp]:
    """What is computed for the stores of an END, but not for what was kept before."""
    return toposort(end.src[0], within=lambda n: n.op is not ops.END)


def stores(end: UOp) -> Iterator[UOp]:
    """What an END stores in each iteration."""
    effect = end.src[0]
    yield from effect.src if effect.op is ops.GROUP else (effect,)


def reads(value: UOp) -> list[UOp]:
    """What is read for a value, but not for what was kept before."""
    within = toposort(value, within=lambda n: n.op is not ops.END)
    return [n for n in within if n.op is ops.INDEX]


def step(at: UOp, counter: UOp) -> int | None:
    """How far an index goes in one iteration."""
    return stride(at.src[1] if is_masked(at) else at, counter)


def reads_neighbours(node: UOp, counter: UOp) -> bool:
    """Whether all that a reduction reads along a loop is next to each other."""
    along = [n for n in reads(node.src[0]) if counter in n.ranges]
    return bool(along) and all(step(n.src[1], counter) == 1 for n in along)


def is_reduced(end: UOp, counter: UOp) -> bool:
    """Whether a reduction depends on a loop."""
    return any(n.op is ops.REDUCE and counter in n.ranges for n in inside(end))


def widest(nodes: Sequence[UOp], target: Target) -> int:
    """The lanes of a vector of the widest type that is computed with."""
    if not target.vector_bits:
        return 1
    bits = [
        n.dtype.bits for n in nodes if n.op in (ops.INDEX, ops.REDUCE, ops.CAST) and n.dtype.bits
    ]
    return max(target.vector_bits[-1] // max([*bits, 8]), 1)


def iterations(loops: Iterable[UOp]) -> int:
    """How often what is in some loops is done."""
    return math.prod(extent_of(r) for r in loops)


def copies_of(end: UOp) -> int:
    """How many iterations of the loops around go side by side already."""
    return iterations(r for r in end.ranges if r.arg[1] is Axis.UPCAST)
