"""Placement: where a value lives. Recomputed at each use, kept for some loops, or in memory.

A value that several elements need can be

- computed where it is used, as often as it is used;
- kept in local memory inside the loops that all its uses have in common: a row, a tile;
- stored in memory, by a kernel of its own.

What is cheapest is chosen, by `porism.schedule.rangeify.placement_cost`, among what is possible. A
reduction that depends on the outer loops of its kernel alone is computed once inside those loops
and costs nothing more, as long as the loops of a kernel can be put into one order for all such
values, and enough is left to be done in parallel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.base.settings import settings
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.schedule.rangeify import placement_cost
from porism.schedule.rangeify.movement_indices import is_size_one
from porism.schedule.rangeify.nest_position import Use
from porism.schedule.rangeify.placement_cost import count, elements, trips

CHEAP: Final = 8.0
"""Values that cost less than this are not kept for some loops: they are computed again."""

LOCAL_BYTES: Final = 1 << 18
"""The size of what is kept for some loops, at most: it should stay in a cache."""

LOCAL_WORK: Final = 1 << 18
"""Elements read, or computed for, inside the loops that a value is kept for: what is read there is
read again in each of their iterations, so it should stay in a cache as well."""

LOCAL_COST: Final = 400.0
"""What costs more is not kept for some loops: a trip to memory is little beside it, and in a kernel
of its own a long sum is computed in better tiles."""

PRODUCT_COST: Final = 2 * placement_cost.DEAR
"""Sums of products that cost more are long: they have a kernel of their own each."""

BORDER_COST: Final = 8.0
"""What may be computed again where a value below a border is stored, and not that with it."""

PARALLEL: Final = 16
"""Iterations that a kernel's outermost loops should have, so that all cores have something to do"""

SMALL: Final = 1 << 15
"""Work that one core does alone without a loss."""


@dataclass(frozen=True, slots=True)
class Local:
    """A value kept inside the loops that its uses have in common."""

    free: tuple[int, ...]
    """The axes along which all elements are kept; the others are fixed by the loops."""
    why: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A value that a kernel of its own writes to memory."""

    why: str


Place = Local | Stored | None
"""None: it is computed where it is used."""


@dataclass
class Kernel:
    """What is known of a kernel while it is put together."""

    ranges: frozenset[UOp]
    axes: frozenset[UOp]
    """The indices of its output: each is one to one with the ranges that it depends on."""
    levels: list[frozenset[UOp]] = field(default_factory=list)
    nodes: int = 0
    products: set[UOp] = field(default_factory=set)
    """The long sums of products that are computed for each element of the output."""

    def has_level(self, ranges: frozenset[UOp]) -> bool:
        """Whether a value may be computed inside these loops and outside of the others."""
        return all(ranges <= level or level <= ranges for level in self.levels)

    def add_level(self, ranges: frozenset[UOp]) -> None:
        if ranges not in self.levels:
            self.levels.append(ranges)


class Placement:
    """The decisions for one graph."""

    def __init__(self, order: Sequence[UOp]) -> None:
        self.costs = placement_cost.costs(order)
        self.kernels: dict[UOp, Kernel] = {}

    def decide(self, node: UOp, uses: Sequence[Use]) -> Place:
        """Where the value of a node lives, given all that is asked of it."""
        kernels = list(dict.fromkeys(use.nest.kernel for use in uses))
        if self._is_leaf(node):
            return None
        if any(self.kernels[k].nodes >= settings.kernel_nodes for k in kernels):
            return Stored("the kernel that reads it is large enough")
        if node.op.group is Group.MOVEMENT:
            return self._movement(node, uses)
        wanted = self._by_cost(node, uses, kernels)
        if wanted is None and node.op is ops.REDUCE_AXIS:
            return self._leveled(node, uses)
        return wanted

    def _is_leaf(self, node: UOp) -> bool:
        return (
            node.op in (placement_cost.KEPT - {ops.CONTIGUOUS, ops.COPY, ops.ASSIGN})
            or not node.src
        )

    def _movement(self, node: UOp, uses: Sequence[Use]) -> Place:
        """A view is no value of its own, unless it is looked at in very many ways."""
        return Stored("it is read in many ways") if len(uses) > settings.kernel_uses else None

    def _by_cost(self, node: UOp, uses: Sequence[Use], kernels: Sequence[UOp]) -> Place:
        each, here = self.costs[node], elements(node)
        times = sum(use.times for use in uses)
        if len(uses) > settings.kernel_uses:
            return Stored("it is used in many places")
        if times <= here:
            return None
        inline = times * each
        in_memory = here * (each + placement_cost.STORE_GLOBAL) + times * placement_cost.LOAD_GLOBAL
        if CHEAP <= each < LOCAL_COST and len(kernels) == 1:
            local = self._local(node, uses)
            kept = here * (each + placement_cost.STORE_LOCAL) + times * placement_cost.LOAD_LOCAL
            if local is not None and kept < min(inline, in_memory):
                return local
        if inline <= in_memory or self._is_border(node):
            return None
        return Stored(f"it is used {_ratio(times, here)} and costs {each:.0f} to compute")

    def _is_border(self, node: UOp) -> bool:
        """Whether a value is something dear with a border around: that is stored without it."""
        each = self.costs[node]
        if each < placement_cost.DEAR:
            return False
        todo = [node]
        while todo:
            found = todo.pop()
            if found.op is ops.PAD and each - self.costs[found.src[0]] <= BORDER_COST:
                return True
            if found.op.elementwise or found.op.group is Group.MOVEMENT:
                limit = each - BORDER_COST
                todo += [s for s in dict.fromkeys(found.src) if self.costs.get(s, 0.0) >= limit]
        return False

    def _local(self, node: UOp, uses: Sequence[Use]) -> Local | None:
        """The value kept inside the loops that all its uses share, if it fits there."""
        first = uses[0]
        kernel = self.kernels[first.nest.kernel]
        outermost, axes = kernel.ranges, kernel.axes
        fixed: set[int] = set()
        for axis, at in enumerate(first.element.at):
            same = all(use.element.at[axis] is at for use in uses)
            if same and (not at.ranges or at in axes or (at.op is ops.RANGE and at in outermost)):
                fixed.add(axis)
        dims = shape(node)
        free = tuple(a for a, dim in enumerate(dims) if a not in fixed and not is_size_one(dim))
        level = frozenset(r for axis in fixed for r in first.element.at[axis].ranges)
        kept = count(dims[axis] for axis in free)
        iterations = trips(level)
        if not free or kept * node.dtype.numpy.itemsize > LOCAL_BYTES:
            return None
        times = sum(use.times for use in uses)
        if max(times / iterations, kept * self.costs[node]) > LOCAL_WORK:
            return None
        if not kernel.has_level(level) or iterations < min(PARALLEL, trips(outermost)):
            return None
        kernel.add_level(level)
        return Local(free, f"it is used {_ratio(times, elements(node))}")

    def _leveled(self, node: UOp, uses: Sequence[Use]) -> Place:
        """A reduction is computed inside the loops that it depends on, if they can be outside."""
        for use in uses:
            if use.nest.outer is not None:
                reduced = any(r.arg[1] is Axis.REDUCE for r in use.nest.ranges)
                if reduced and self._is_long_product(node):
                    return Stored("it is reduced, and a sum of products itself")
                continue
            kernel = self.kernels[use.nest.kernel]
            level = use.ranges & kernel.ranges
            if level == kernel.ranges:
                if kernel.products - {node} and self._is_long_product(node):
                    return Stored("its kernel computes another sum of products")
                continue
            work = elements(node.src[0]) * self.costs[node.src[0]]
            if trips(level) < PARALLEL and work > SMALL:
                return Stored("too little of its kernel could run in parallel")
            if not kernel.has_level(level):
                return Stored("the loops of its kernel are in another order")
        for use in uses:
            if use.nest.outer is None:
                kernel = self.kernels[use.nest.kernel]
                kernel.add_level(use.ranges & kernel.ranges)
                if use.ranges >= kernel.ranges and self._is_long_product(node):
                    kernel.products.add(node)
        return None

    def _is_long_product(self, node: UOp) -> bool:
        """A sum of products whose operands are used again: two of them need a tile each."""
        product = node.src[0]
        while product.op is ops.CAST:
            product = product.src[0]
        if node.arg[0] is not ops.ADD or product.op is not ops.MUL:
            return False
        return self.costs[node] >= PRODUCT_COST and all(map(_is_repeated, product.src))


def _is_repeated(operand: UOp) -> bool:
    while operand.op is ops.CAST:
        operand = operand.src[0]
    return operand.op is ops.EXPAND


def _ratio(times: int, here: int) -> str:
    ratio = times / max(here, 1)
    return f"{ratio:.0f} times" if ratio >= 1.5 else "more than once"
