"""Loop strides: extents of loops, the loads and stores of a nest, and their strides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked


def extent_of(loop: UOp) -> int:
    """Return the iterations of a loop: its extent, or the upper bound of one that varies."""
    extent = loop.src[0]
    return int(extent.arg) if extent.op is ops.CONST else int(loop.vmax) + 1


def is_unscheduled(loop: UOp) -> bool:
    """Return whether no action has changed the kind of a loop, and its extent is a constant."""
    return loop.arg[1] in (Axis.LOOP, Axis.REDUCE) and loop.src[0].op is ops.CONST


def single_nest(kernel: UOp) -> UOp | None:
    """Return the END of a kernel that is one loop nest; None of another kernel."""
    return kernel.src[0] if len(kernel.src) == 1 and kernel.src[0].op is ops.END else None


def nodes_inside(end: UOp) -> list[UOp]:
    """Return what the stores of an END are computed from, without what fills local buffers."""
    return toposort(end.src[0], within=lambda n: n.op is not ops.END)


def stores_of(end: UOp) -> Iterator[UOp]:
    """Return the stores of one iteration of an END."""
    effect = end.src[0]
    yield from effect.src if effect.op is ops.GROUP else (effect,)


def loads_for(value: UOp) -> list[UOp]:
    """Return the accesses that a value is computed from, without those that fill local buffers."""
    within = toposort(value, within=lambda n: n.op is not ops.END)
    return [n for n in within if n.op is ops.INDEX]


def access_stride(index: UOp, loop: UOp) -> int | None:
    """Return the stride of a possibly masked index along a loop, in elements; None if it varies."""
    return stride(index.src[1] if is_masked(index) else index, loop)


NEAR_STRIDE: Final = 4
"""Elements from lane to lane, up to which vectors are shuffled out of wide loads."""


def is_near(stride: int | None) -> bool:
    """Return whether lanes of such a stride, in elements, are loaded by wide loads."""
    return stride is not None and abs(stride) <= NEAR_STRIDE


def is_contiguous_reduction(reduction: UOp, loop: UOp) -> bool:
    """Return whether all loads of a reduction that depend on a loop are contiguous along it."""
    loads = [n for n in loads_for(reduction.src[0]) if loop in n.ranges]
    return bool(loads) and all(access_stride(n.src[1], loop) == 1 for n in loads)


def shared_k_loops(reductions: Sequence[UOp]) -> tuple[UOp, ...]:
    """Return the reduction axes that some reductions have in common; () if their axes differ."""
    k_loops = reductions[0].src[1:] if reductions else ()
    return k_loops if all(n.src[1:] == k_loops for n in reductions) else ()


def is_in_reduction(end: UOp, loop: UOp) -> bool:
    """Return whether a reduction of an END depends on a loop."""
    return any(n.op is ops.REDUCE and loop in n.ranges for n in nodes_inside(end))


def lanes_of_widest_type(nodes: Sequence[UOp], target: Target) -> int:
    """Return the lanes of the target's widest vector of the widest type among some nodes."""
    if not target.vector_bits:
        return 1
    return max(target.vector_bits[-1] // widest_bits(nodes), 1)


def widest_bits(nodes: Iterable[UOp]) -> int:
    """Return the bits of the widest type that is loaded, reduced or converted to in a loop.

    What no loop changes, as a position that is read once, is in no vector.
    """
    bits = [
        n.dtype.bits
        for n in nodes
        if n.op is ops.REDUCE or (n.op in (ops.INDEX, ops.CAST) and n.ranges)
    ]
    return max([*filter(None, bits), 8])


def trip_count(loops: Iterable[UOp]) -> int:
    """Return the product of the extents of some loops."""
    return math.prod(extent_of(r) for r in loops)


def unrolled_copies(end: UOp) -> int:
    """Return how many iterations of the loops around an END are unrolled or vectorized."""
    return trip_count(r for r in end.ranges if r.arg[1] is Axis.UPCAST)
