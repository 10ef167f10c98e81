"""Cost: about how long an arranged kernel takes, from its loops alone, without compiling it.

It is there to tell the hopeless from the rest, not to choose among the good. For every node it is
counted how often the machine does it: once for each iteration of the loops it depends on, and once
for a whole vector where its lanes are neighbours in memory. Results that do not fit in registers, a
sum that waits for itself, and code that is large count as well; and so do the bytes that are moved
into each cache, while the machine computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.traversal import toposort
from porism.optimize.model.cache_traffic import Traffic, traffic
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked

SPREAD: Final = frozenset({Axis.UPCAST, Axis.UNROLL})

WAIT: Final = 4
"""Cycles until the result of an addition is there."""

SPILL: Final = 2.0
"""What a result that is not in a register costs, in operations."""

HALF: Final = 0.54
"""What a vector of half the width takes, or a scalar, in whole ones."""

MASK: Final = 1.5
"""What a masked access costs, in plain ones."""

AT_ONCE: Final = 2.0
"""Operations in a cycle."""

FROM_L2: Final = 32.0
"""Bytes in a cycle from the second cache of a core."""

FROM_L3: Final = 20.0
"""Bytes in a cycle from a cache that is shared."""

FROM_MEMORY: Final = 4.5
"""Bytes in a cycle from memory, for each core."""

BESIDE: Final = 0.3
"""The part of what takes less time that is not done beside what takes the most."""

MOST_COPIES: Final = 20_000
"""Nodes after loops are written out; more would take long to compile."""

SMALLEST_STACK: Final = 1 << 18
"""Bytes of local memory that are always allowed; beyond that, as much as a cache of a core has."""

_FREE: Final = (ops.CONST, ops.RANGE, ops.PARAM, ops.SINK, ops.END, ops.GROUP, ops.AFTER)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a kernel takes."""

    operations: float
    """Of one core, about: what is done once for a vector counts once."""
    copies: int
    """Nodes after loops are written out."""
    local_bytes: int
    """Local memory, which lies on the stack of a thread."""
    moved: Traffic
    """Of one core."""

    @property
    def cycles(self) -> float:
        """Of one core, about: what takes the most time, and some of the rest."""
        parts = (
            self.operations / AT_ONCE,
            self.moved.l1 / FROM_L2,
            self.moved.l2 / FROM_L3,
            self.moved.memory / FROM_MEMORY,
        )
        longest = max(parts)
        return longest + BESIDE * (sum(parts) - longest)

    def is_possible(self, target: Target) -> bool:
        """Whether it can be compiled in reasonable time, and run on any thread."""
        stack = max(target.memory.l2, SMALLEST_STACK)
        return self.copies <= MOST_COPIES and self.local_bytes <= stack


def cost_of(kernel: UOp, target: Target) -> Cost:
    """The cost of a kernel whose loops are arranged."""
    operations, copies, local = 0.0, 0, 0
    threads = 1.0
    order = toposort(kernel)
    around = _enclosing(order)
    for node in order:
        if node.op is ops.DEFINE_LOCAL:
            local += int(node.dtype.size) * node.dtype.element.numpy.itemsize
        if node.op is ops.RANGE and node.arg[1] is Axis.THREAD:
            size = _size(node)
            threads = size / -(-size // target.cores)
        if node.op in _FREE or not (node.dtype.bits or node.op is ops.STORE):
            continue
        lanes = _lanes(node, target)
        width = max(target.vector_bits, default=0) // max(_bits(node), 8)
        vectors = -(-lanes // max(width, 1))
        here = 1.0
        for r in node.ranges:
            here *= _size(r) if r.arg[1] in SPREAD else 1
        times = 1.0
        for r in {r for own in node.ranges for r in around[own]}:
            times *= _size(r)
        instructions = here / lanes * vectors
        copies += int(instructions)
        share = HALF if 2 * lanes <= width else 1.0
        operations += weight(node) * times * instructions * share
        if node.op is ops.REDUCE:
            operations += times * _summed(node, instructions, target, width) * share
    return Cost(operations / threads, copies, local, traffic(order, around, target))


def _enclosing(order: Sequence[UOp]) -> dict[UOp, frozenset[UOp]]:
    """For each range the loops that are run for it: its own, and all those around it."""
    found: dict[UOp, set[UOp]] = {r: set() for r in order if r.op is ops.RANGE}
    for node in order:
        if node.op in (ops.END, ops.REDUCE):
            outer = {r for r in node.ranges if r.arg[1] not in SPREAD}
            for r in node.src[1:]:
                if r.op is ops.RANGE:
                    if r.arg[1] not in SPREAD:
                        outer = {*outer, r}
                    found[r] |= outer
    changed = True
    while changed:  # what is around a loop is around what it is around
        changed = False
        for r, outer in found.items():
            more = {far for near in outer for far in found[near]} | outer
            if len(more) > len(outer):
                found[r] = more
                changed = True
    return {r: frozenset(outer) for r, outer in found.items()}


def _size(counter: UOp) -> int:
    return int(counter.src[0].vmax)


def _bits(node: UOp) -> int:
    return int(node.src[1].dtype.bits if node.op is ops.STORE else node.dtype.bits)


def weight(node: UOp) -> float:
    if node.op is ops.INDEX:
        return MASK if is_masked(node.src[1]) else 1.0
    if node.op in (ops.EXP, ops.EXP2, ops.EXPM1, ops.TANH, ops.LOG2, ops.SIN, ops.POW):
        return 10.0
    if node.op in (ops.FDIV, ops.SQRT, ops.RECIPROCAL, ops.IDIV, ops.MOD):
        return 5.0
    if node.op is ops.STORE or node.op.group in (Group.UNARY, Group.BINARY, Group.TERNARY):
        return 1.0
    return 0.0


def _lanes(node: UOp, target: Target) -> int:
    """The iterations side by side that are done at once: the widest range whose steps are one."""
    spread = [r for r in node.ranges if r.arg[1] in SPREAD]
    if not spread or not target.vector_bits:
        return 1
    if node.op is ops.STORE:
        return _lanes(node.src[0], target)
    if node.op is ops.INDEX:
        at = node.src[1].src[1] if is_masked(node.src[1]) else node.src[1]
        return max((_size(r) for r in spread if stride(at, r) == 1), default=1)
    return max(_size(r) for r in spread)


def _summed(node: UOp, results: float, target: Target, width: int) -> float:
    """What a reduction takes beside its terms: adding up, waiting, and moving what has no place."""
    trips, unrolled = 1.0, 1.0
    for r in node.src[1:]:
        if r.arg[1] in SPREAD:
            unrolled *= _size(r)
        else:
            trips *= _size(r)
    spread = any(r.arg[1] in SPREAD for r in node.ranges)
    partial = unrolled / (1 if spread else max(min(width, unrolled), 1))
    total = max(results, 1.0) * max(partial, 1.0)
    held = max(results, 1.0) if spread else total
    registers = target.memory.registers
    spilled = max(held - registers + 4, 0.0) if held > 0.9 * registers else 0.0
    waiting = max(WAIT - held, 0.0) * total / held
    return trips * (total + waiting + SPILL * spilled)
