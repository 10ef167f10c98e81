"""Loop cost: about how many cycles a scheduled kernel takes, from its loops alone, uncompiled.

The estimate tells hopeless schedules from the rest; it does not choose among the good ones. Each
node counts once for each iteration of the loops it depends on, and once for a whole vector where
its lanes are contiguous in memory. Register spills, the latency of dependent additions, the size of
the code and the traffic into each cache count as well.
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
from porism.optimize.actions.loops.upcast_unroll import UNROLLED_KINDS
from porism.optimize.model.cache_traffic import Traffic, estimate_traffic
from porism.optimize.model.core_rates import CoreRates, core_rates
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked

SPILL: Final = 3.0
"""Slots of an accumulator that is not in a register: a load, and a store, which takes two."""

MASKED: Final = 1.5
"""Cost of a masked access, in plain accesses; chosen by hand."""

NOT_OVERLAPPED: Final = 0.3
"""Fraction of the shorter parts that the longest part does not hide; chosen by hand."""

MAX_INSTRUCTIONS: Final = 20_000
"""Instructions after unrolling; more would take long to compile. Chosen by hand."""

MIN_STACK: Final = 1 << 18
"""Bytes of local buffers that are always allowed; beyond that, as many as the second cache has."""

_FREE: Final = (ops.CONST, ops.RANGE, ops.PARAM, ops.SINK, ops.END, ops.GROUP, ops.AFTER)


@dataclass(frozen=True, slots=True)
class Cost:
    """The estimated cost of a kernel."""

    operations: float
    """Slots of the vector operations of one core, about."""
    instructions: int
    """Instructions after unrolling."""
    local_bytes: int
    """Bytes of local buffers, which are on the stack of a thread."""
    traffic: Traffic
    """The bytes that one core moves."""
    rates: CoreRates
    """What the core does in a slot."""

    @property
    def cycles(self) -> float:
        """Cycles of one core, about: the longest part, and some of the others."""
        parts = (
            self.operations,
            self.traffic.l1 / self.rates.l2_bytes,
            self.traffic.l2 / self.rates.l3_bytes,
            self.traffic.memory / self.rates.memory_bytes,
        )
        longest = max(parts)
        return (longest + NOT_OVERLAPPED * (sum(parts) - longest)) * self.rates.slot

    def is_feasible(self, target: Target) -> bool:
        """Return whether the kernel compiles in reasonable time, and fits on the stack."""
        stack = max(target.memory.l2, MIN_STACK)
        return self.instructions <= MAX_INSTRUCTIONS and self.local_bytes <= stack


def estimate_cost(kernel: UOp, target: Target) -> Cost:
    """Return the estimated cost of a scheduled kernel."""
    operations, instructions, local = 0.0, 0, 0
    threads = 1.0
    order, rates = toposort(kernel), core_rates(target)
    enclosing = _enclosing_loops(order)
    for node in order:
        if node.op is ops.DEFINE_LOCAL:
            local += int(node.dtype.size) * node.dtype.element.numpy.itemsize
        if node.op is ops.RANGE and node.arg[1] is Axis.THREAD:
            extent = _extent(node)
            threads = extent / -(-extent // target.cores)
        if node.op in _FREE or not (node.dtype.bits or node.op is ops.STORE):
            continue
        lanes = _lanes(node, target)
        width = max(target.vector_bits, default=0) // max(_bits(node), 8)
        vectors = -(-lanes // max(width, 1))
        copies = 1.0
        for r in node.ranges:
            copies *= _extent(r) if r.arg[1] in UNROLLED_KINDS else 1
        trip_count = 1.0
        for r in {r for own in node.ranges for r in enclosing[own]}:
            trip_count *= _extent(r)
        emitted = copies / lanes * vectors
        instructions += int(emitted)
        share = rates.vector_cost(lanes * _bits(node)) if vectors == 1 else 1.0
        operations += op_cost(node) * trip_count * emitted * share
        if node.op is ops.REDUCE:
            operations += trip_count * _reduction_cost(node, emitted, rates, width) * share
    moved = estimate_traffic(order, enclosing, target)
    return Cost(operations / threads, instructions, local, moved, rates)


def _nearest_enclosing_loops(order: Sequence[UOp]) -> dict[UOp, set[UOp]]:
    """Return for each loop those loops around it that the nodes closing it show."""
    enclosing: dict[UOp, set[UOp]] = {r: set() for r in order if r.op is ops.RANGE}
    for node in order:
        if node.op in (ops.END, ops.REDUCE):
            outer = {r for r in node.ranges if r.arg[1] not in UNROLLED_KINDS}
            for r in node.src[1:]:
                if r.op is ops.RANGE:
                    if r.arg[1] not in UNROLLED_KINDS:
                        outer = {*outer, r}
                    enclosing[r] |= outer
    return enclosing


def _enclosing_loops(order: Sequence[UOp]) -> dict[UOp, frozenset[UOp]]:
    """Return for each loop those that are not unrolled among itself and the loops around it."""
    enclosing = _nearest_enclosing_loops(order)
    changed = True
    while changed:  # the transitive closure
        changed = False
        for r, outer in enclosing.items():
            more = {far for near in outer for far in enclosing[near]} | outer
            if len(more) > len(outer):
                enclosing[r] = more
                changed = True
    return {r: frozenset(outer) for r, outer in enclosing.items()}


def _extent(loop: UOp) -> int:
    """Return the largest extent of a loop."""
    return int(loop.src[0].vmax)


def _bits(node: UOp) -> int:
    """Return the bits of an element that a node computes or stores."""
    return int(node.src[1].dtype.bits if node.op is ops.STORE else node.dtype.bits)


def op_cost(node: UOp) -> float:
    """Return the cost of a node in vector additions, once for each vector."""
    if node.op is ops.INDEX:
        return MASKED if is_masked(node.src[1]) else 1.0
    if node.op is ops.STORE or node.op.group in (Group.UNARY, Group.BINARY, Group.TERNARY):
        return node.op.cost
    return 0.0


def _lanes(node: UOp, target: Target) -> int:
    """Return the lanes of a node: the largest extent of an unrolled loop that it can vectorize."""
    unrolled = [r for r in node.ranges if r.arg[1] in UNROLLED_KINDS]
    if not unrolled or not target.vector_bits:
        return 1
    if node.op is ops.STORE:
        return _lanes(node.src[0], target)
    if node.op is ops.INDEX:
        index = node.src[1].src[1] if is_masked(node.src[1]) else node.src[1]
        return max((_extent(r) for r in unrolled if stride(index, r) == 1), default=1)
    return max(_extent(r) for r in unrolled)


def _reduction_cost(node: UOp, results: float, rates: CoreRates, width: int) -> float:
    """Return the operations of a reduction beside its terms: additions, latency and spills."""
    trip_count, unrolled = 1.0, 1.0
    for r in node.src[1:]:
        if r.arg[1] in UNROLLED_KINDS:
            unrolled *= _extent(r)
        else:
            trip_count *= _extent(r)
    is_vectorized = any(r.arg[1] in UNROLLED_KINDS for r in node.ranges)
    partial = unrolled / (1 if is_vectorized else max(min(width, unrolled), 1))
    additions = max(results, 1.0) * max(partial, 1.0)
    accumulators = max(results, 1.0) if is_vectorized else additions
    registers = rates.registers
    spilled = 0.0
    if accumulators > 0.9 * registers:
        spilled = max(accumulators - registers + 4, 0.0)
    waiting = max(rates.latency - accumulators, 0.0) * additions / accumulators
    return trip_count * (additions + waiting + SPILL * spilled)
