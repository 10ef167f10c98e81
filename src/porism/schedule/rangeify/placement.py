"""Placement: which values are recomputed at each use, materialized locally, or stored in memory.

A value that is used several times can be

- recomputed at each use;
- materialized in a local buffer inside the loops that all its uses share: a row, a tile;
- stored in memory, by a kernel of its own.

The cheapest of those that are possible is chosen, by `porism.schedule.rangeify.placement_cost` and
the `StorageModel` of the target. A reduction that depends on the outer loops of its kernel alone is
hoisted out of the inner ones at no cost, as long as one loop order suits all hoisted values of the
kernel, and the loops outside have enough iterations to run in parallel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.base.settings import settings
from porism.base.target import StorageModel, Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.schedule.rangeify import placement_cost
from porism.schedule.rangeify.movement_indices import is_size_one
from porism.schedule.rangeify.nest_position import Use
from porism.schedule.rangeify.placement_cost import (
    element_count,
    local_cost,
    recomputed_cost,
    stored_cost,
    tensor_size,
    trip_count,
)

# The constants here are costs per element, in additions. They are chosen by hand and compared with
# costs of computing only, so they do not depend on the machine; the `StorageModel` does.

MIN_LOCAL_COST: Final = 8.0
"""Values that cost less are recomputed rather than materialized locally."""

MAX_LOCAL_COST: Final = 400.0
"""Values that cost this or more are not materialized locally: memory traffic is little beside it,
and a long reduction gets better register tiles in a kernel of its own."""

LONG_PRODUCT_COST: Final = 128.0
"""Sums of products that cost this or more are long: each has a kernel of its own."""

MIN_ROW: Final = 8
"""Contiguous elements of an output, from which on a register tile stores them in vectors."""

MAX_PADDING_COST: Final = 8.0
"""What may be recomputed above a padded value, so that the value is stored without its padding."""


@dataclass(frozen=True, slots=True)
class Local:
    """A value materialized in a local buffer, inside the loops that its uses share."""

    axes: tuple[int, ...]
    """The axes of the buffer; the index along the other axes is fixed by the loops around it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A value that a kernel of its own writes to memory."""

    reason: str


_LEAVES: Final = placement_cost.IN_MEMORY - {ops.CONTIGUOUS, ops.COPY, ops.ASSIGN}

Place = Local | Stored | None
"""Where a value is materialized; None if it is recomputed at each use."""


@dataclass
class KernelLoops:
    """The loops of a kernel while values are placed in it."""

    loops: frozenset[UOp]
    indices: frozenset[UOp]
    """The indices of its output: each is one to one with the loops that it depends on."""
    innermost: UOp | None = None
    """The loop along which its output is contiguous."""
    is_scatter: bool = False
    """Whether values are scattered into its output, by one iteration for each of them."""
    levels: list[frozenset[UOp]] = field(default_factory=list)
    """For each value computed outside of some loops, the loops around it."""
    ops: int = 0
    """The size of the kernel so far, in ops."""
    products: set[UOp] = field(default_factory=set)
    """The long sums of products that are computed for each element of the output."""
    recomputed: dict[UOp, tuple[float, float]] = field(default_factory=dict)
    """For each expensive value that is recomputed, what that costs, and what storing it would."""

    def allows_level(self, loops: frozenset[UOp]) -> bool:
        """Return whether a loop order exists with these loops outside of all others."""
        return all(loops <= level or level <= loops for level in self.levels)

    def add_level(self, loops: frozenset[UOp]) -> None:
        """Note that a value is computed inside these loops and outside of all others."""
        if loops not in self.levels:
            self.levels.append(loops)

    def recomputation(self) -> str:
        """Describe the most expensive value that is recomputed; "" if there is none."""
        if not self.recomputed:
            return ""
        node, (recomputed, stored) = max(self.recomputed.items(), key=lambda item: item[1][0])
        sizes = " x ".join(str(dim.vmax) for dim in shape(node)) or "1"
        return (
            f"; it recomputes a value of {sizes} elements at each use, "
            f"which costs {recomputed:.3g} additions, and storing it {stored:.3g}"
        )


class Placement:
    """The placement decisions for one graph."""

    def __init__(self, costs: Mapping[UOp, float], target: Target) -> None:
        self.costs = costs
        self.storage: StorageModel = target.storage
        self.kernel_nodes, self.kernel_uses = settings.kernel_nodes, settings.kernel_uses
        self.kernels: dict[UOp, KernelLoops] = {}

    def decide(self, node: UOp, uses: Sequence[Use]) -> Place:
        """Return where the value of a node is materialized, given all its uses."""
        if self._is_leaf(node):
            return None
        kernels = list(dict.fromkeys([use.nest.kernel for use in uses]))
        for k in kernels:
            if self.kernels[k].ops >= self.kernel_nodes:
                return Stored(f"the kernel that reads it has {self.kernel_nodes} ops already")
        if node.op.group is Group.MOVEMENT:
            return self._place_view(uses)
        place = self._cheapest(node, uses, kernels)
        if place is None and node.op is ops.REDUCE_AXIS:
            return self._hoist_reduction(node, uses)
        return place

    def _is_leaf(self, node: UOp) -> bool:
        return node.op in _LEAVES or not node.src

    def _place_view(self, uses: Sequence[Use]) -> Place:
        """Return no place for a view, unless it is read by very many different indices."""
        many = len(uses) > self.kernel_uses
        return Stored(f"it is read by more than {self.kernel_uses} indices") if many else None

    def _cheapest(self, node: UOp, uses: Sequence[Use], kernels: Sequence[UOp]) -> Place:
        """Return the cheapest place for a value, by the cost of computing and of storing it."""
        each, elements = self.costs[node], tensor_size(node)
        evaluations = sum(use.evaluations for use in uses)
        if len(uses) > self.kernel_uses:
            return Stored(f"it is read by more than {self.kernel_uses} indices")
        if evaluations <= elements:
            return None
        recomputed = recomputed_cost(each, evaluations)
        stored = stored_cost(each, elements, evaluations, self.storage)
        local = self._local(node, uses, kernels)
        in_local = local_cost(each, elements, evaluations, self.storage)
        if isinstance(local, Local) and in_local < min(recomputed, stored):
            return local
        if recomputed <= stored:
            if each >= MIN_LOCAL_COST:
                for kernel in kernels:
                    self.kernels[kernel].recomputed[node] = recomputed, stored
            return None
        if self._is_padded(node):
            return None
        refusal = f"a local buffer {in_local:.3g}" if isinstance(local, Local) else local
        return Stored(
            f"it is used {_per_element(evaluations, elements)}: storing it costs {stored:.3g} "
            f"additions, recomputing it {recomputed:.3g}; {refusal}"
        )

    def _is_padded(self, node: UOp) -> bool:
        """Return whether a value is an expensive one with padding, which is stored without it."""
        each = self.costs[node]
        if each < placement_cost.EXPENSIVE:
            return False
        stack = [node]
        while stack:
            part = stack.pop()
            if part.op is ops.PAD and each - self.costs[part.src[0]] <= MAX_PADDING_COST:
                return True
            if part.op.elementwise or part.op.group is Group.MOVEMENT:
                least = each - MAX_PADDING_COST
                stack += [s for s in dict.fromkeys(part.src) if self.costs.get(s, 0.0) >= least]
        return False

    def _local(self, node: UOp, uses: Sequence[Use], kernels: Sequence[UOp]) -> Local | str:
        """Return a local buffer inside the loops that all uses share, or why there can be none."""
        each = self.costs[node]
        if each < MIN_LOCAL_COST:
            return f"no local buffer below a cost of {MIN_LOCAL_COST:.0f} an element"
        if each >= MAX_LOCAL_COST:
            return f"no local buffer from a cost of {MAX_LOCAL_COST:.0f} an element on"
        if len(kernels) > 1:
            return f"no local buffer for {len(kernels)} kernels"
        kernel = self.kernels[kernels[0]]
        if node.op is ops.REDUCE_AXIS and kernel.products and self._is_long_product(node):
            return "no local buffer for a long sum of products, inside another one"
        if kernel.is_scatter:
            return "no local buffer in the one loop of a scatter"
        fixed = _fixed_axes(uses, kernel)
        dims = shape(node)
        axes = tuple(a for a, dim in enumerate(dims) if a not in fixed and not is_size_one(dim))
        level = frozenset(r for axis in fixed for r in uses[0].element.indices[axis].ranges)
        if not axes:
            return "no local buffer for a single element"
        size = element_count(dims[axis] for axis in axes)
        refusal = self._size_refusal(node, size, trip_count(level), uses)
        if refusal:
            return refusal
        if kernel.products and kernel.innermost in level:
            return "no local buffer for each element of a row that a long product computes"
        if not kernel.allows_level(level):
            return "a local buffer needs another loop order"
        if not self._has_enough_parallelism(node, level, uses, kernels[0]):
            iterations = trip_count(level)
            return f"around a local buffer only {iterations} iterations could run in parallel"
        kernel.add_level(level)
        return Local(axes)

    def _size_refusal(self, node: UOp, size: int, iterations: int, uses: Sequence[Use]) -> str:
        """Say why a local buffer of `size` elements would be too large; "" if it would not."""
        storage = self.storage
        if size * node.dtype.numpy.itemsize > storage.local_bytes:
            return f"a local buffer would exceed {storage.local_bytes >> 10} KiB"
        evaluations = sum(use.evaluations for use in uses)
        if max(evaluations / iterations, size * self.costs[node]) > storage.local_elements:
            return f"around a local buffer more than {storage.local_elements} elements are read"
        return ""

    def _has_enough_parallelism(
        self, node: UOp, level: frozenset[UOp], uses: Sequence[Use], root: UOp
    ) -> bool:
        """Return whether the loops around a local buffer occupy all cores, or one core suffices."""
        loops = self.kernels[root].loops
        if trip_count(level) >= min(self.storage.parallel_iterations, trip_count(loops)):
            return True
        work = tensor_size(node) * self.costs[node]
        if any(r.arg[1] is Axis.REDUCE for use in uses for r in use.loops):
            evaluations = sum(use.evaluations for use in uses)
            work = max(work, evaluations, trip_count(loops) * self.costs[root])
        return bool(level) and work <= self.storage.serial_work

    def _hoist_reduction(self, node: UOp, uses: Sequence[Use]) -> Place:
        """Hoist a reduction to the loops that it depends on; store it where that is impossible."""
        for use in uses:
            if use.nest.outer is not None:
                reduced = any(r.arg[1] is Axis.REDUCE for r in use.nest.loops)
                if reduced and self._is_long_product(node):
                    return Stored("it is a long sum of products, inside another reduction")
                continue
            refusal = self._hoisting_refusal(node, use, self.kernels[use.nest.kernel])
            if refusal:
                return Stored(refusal)
        refusal = self._product_refusal(node, uses)
        if refusal:
            return Stored(refusal)
        for use in uses:
            if use.nest.outer is None:
                kernel = self.kernels[use.nest.kernel]
                kernel.add_level(use.loops & kernel.loops)
                if use.loops >= kernel.loops and self._is_long_product(node):
                    kernel.products.add(node)
        return None

    def _hoisting_refusal(self, node: UOp, use: Use, kernel: KernelLoops) -> str:
        """Say why a reduction cannot be hoisted in its kernel; "" if it can."""
        level = use.loops & kernel.loops
        if level == kernel.loops:
            is_second = kernel.products - {node} and self._is_long_product(node)
            return "its kernel computes another long sum of products" if is_second else ""
        work = tensor_size(node.src[0]) * self.costs[node.src[0]]
        few = trip_count(level) < self.storage.parallel_iterations
        if few and work > self.storage.serial_work:
            return f"only {trip_count(level)} iterations of its kernel could run in parallel"
        return "" if kernel.allows_level(level) else "its kernel needs another loop order"

    def _product_refusal(self, node: UOp, uses: Sequence[Use]) -> str:
        """Say why a long product is not computed where it is used; "" if it is, or is none."""
        if not self._is_long_product(node):
            return ""
        own = [use for use in uses if use.loops >= self.kernels[use.nest.kernel].loops]
        kernels = {use.nest.kernel for use in own}
        if len(own) > len(kernels):
            return "its kernel would compute several elements of it, each a long sum of products"
        for kernel in kernels:
            innermost = self.kernels[kernel].innermost
            row = 1 if innermost is None else trip_count((innermost,))
            longer = [dim for dim in shape(node) if not is_size_one(dim)][-1:]
            if row < MIN_ROW <= element_count(longer):
                return f"its kernel writes rows of {row} elements, and it has longer ones"
        return ""

    def _is_long_product(self, node: UOp) -> bool:
        """Return whether a node is a long sum of products whose operands are used repeatedly.

        Two of them in one kernel would need a register tile each.
        """
        product = node.src[0]
        while product.op is ops.CAST:
            product = product.src[0]
        if node.arg[0] is not ops.ADD or product.op is not ops.MUL:
            return False
        return self.costs[node] >= LONG_PRODUCT_COST and all(map(_is_repeated, product.src))


def _fixed_axes(uses: Sequence[Use], kernel: KernelLoops) -> set[int]:
    """Return the axes along which all uses have one index, known from the loops of the kernel."""
    fixed: set[int] = set()
    for axis, index in enumerate(uses[0].element.indices):
        same = all(use.element.indices[axis] is index for use in uses)
        is_loop = index.op is ops.RANGE and index in kernel.loops
        if same and (not index.ranges or index in kernel.indices or is_loop):
            fixed.add(axis)
    return fixed


def _is_repeated(operand: UOp) -> bool:
    while operand.op is ops.CAST:
        operand = operand.src[0]
    return operand.op is ops.EXPAND


def _per_element(evaluations: int, elements: int) -> str:
    ratio = evaluations / max(elements, 1)
    return f"{ratio:.0f} times" if ratio >= 1.5 else "more than once"
