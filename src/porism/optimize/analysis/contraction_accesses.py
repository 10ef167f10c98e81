"""Contraction accesses: the operands of a kernel that is one contraction, and their strides.

A contraction here is one nest of output loops around one or more reductions that share their
reduction axes, such as a matrix product or a convolution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import cached_property

from porism.ir import ops
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.memory.epilogue import epilogue_cost
from porism.optimize.analysis.buffer_loads import converted_load, loads_of
from porism.optimize.analysis.loop_strides import (
    access_stride,
    extent_of,
    is_unscheduled,
    shared_k_loops,
    single_nest,
    stores_of,
    trip_count,
    widest_bits,
)
from porism.rules.addresses.validity import is_masked


@dataclass(frozen=True)
class Operand:
    """A load inside of a reduction, with the casts and selects that are applied to it alone."""

    value: UOp
    """The load after its conversions: what packing would store."""
    load: UOp
    buffer: int
    """The number of the buffer that is loaded."""
    load_number: int
    """The position of the load among those of its buffer, in the order of `loads_of`."""

    @cached_property
    def ranges(self) -> frozenset[UOp]:
        """The loops that the operand depends on."""
        return frozenset(self.value.ranges)

    @cached_property
    def elements(self) -> int:
        """The trip count of the loops that the operand depends on."""
        return trip_count(self.ranges)

    @cached_property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self.value.dtype.numpy.itemsize)

    @cached_property
    def is_masked(self) -> bool:
        """Whether some elements are masked: not loaded, or replaced by a select."""
        return self.value.op is ops.WHERE or is_masked(self.load.src[1])

    def stride(self, loop: UOp) -> int | None:
        """Return the stride along a loop in elements; None if it varies."""
        if loop not in self.ranges:
            return 0
        if loop not in self._strides:
            self._strides[loop] = access_stride(self.load.src[1], loop)
        return self._strides[loop]

    @cached_property
    def _strides(self) -> dict[UOp, int | None]:
        return {}

    def window(self, loop: UOp, k_loops: Iterable[UOp]) -> tuple[UOp, int] | None:
        """Return the reduction axis whose window slides along an output loop, and its stride.

        As in a convolution, an iteration of the loop reads a window of as many elements as the axis
        has, and the next one reads a window that overlaps it. The stride from one to the next is in
        iterations of the axis. None if no axis is such a window.
        """
        stride = self.stride(loop)
        for k_loop in k_loops:
            k_stride = self.stride(k_loop)
            if not stride or not k_stride or stride % k_stride:
                continue
            if 1 <= stride // k_stride < extent_of(k_loop):
                return k_loop, stride // k_stride
        return None


@dataclass(frozen=True)
class Contraction:
    """A nest of output loops around reductions that share their reduction axes."""

    outputs: tuple[UOp, ...]
    """The output loops, the outermost first."""
    k_loops: tuple[UOp, ...]
    """The reduction axes, the outermost first."""
    operands: tuple[Operand, ...]
    stores: tuple[UOp, ...]
    reductions: int
    """The number of reductions."""
    bits: int
    """Bits of the widest type that is loaded, reduced or converted to in a loop."""
    epilogue_cost: int
    """The cost of the epilogue for one vector of results, in additions."""
    constant_buffers: frozenset[int] = frozenset()
    """Buffers that can be pre-packed, once before all calls."""

    def is_stored_along(self, loop: UOp) -> bool:
        """Return whether all stores are contiguous along a loop."""
        return {access_stride(store.src[0].src[1], loop) for store in self.stores} == {1}

    def is_stored_flat(self, outer: UOp, inner: UOp) -> bool:
        """Return whether the stores are contiguous along two loops merged into one."""
        strides = {access_stride(store.src[0].src[1], outer) for store in self.stores}
        return self.is_stored_along(inner) and strides == {extent_of(inner)}

    @cached_property
    def work(self) -> int:
        """Iterations of all reductions together: the multiply-adds of a matrix product."""
        return self.results * self.k * self.reductions

    @cached_property
    def results(self) -> int:
        """Elements that are stored: the trip count of the output loops."""
        return trip_count(self.outputs)

    @cached_property
    def k(self) -> int:
        """Iterations of one reduction: the trip count of the reduction axes."""
        return trip_count(self.k_loops)


def match_contraction(
    kernel: UOp, constant_buffers: frozenset[int] = frozenset()
) -> Contraction | None:
    """Return the operands of a kernel that is one contraction; None if it is none."""
    end = single_nest(kernel)
    if end is None:
        return None
    order = toposort(kernel)
    count = Counter(n.op for n in order)
    if count[ops.END] > 1 or count[ops.AFTER]:
        return None
    outputs, stores = end.src[1:], tuple(stores_of(end))
    reductions = [n for n in order if n.op is ops.REDUCE]
    k_loops = shared_k_loops(reductions)
    if not k_loops or not all(map(is_unscheduled, (*outputs, *k_loops))):
        return None
    inside = set(toposort(*(n.src[0] for n in reductions)))
    operands = _operands(kernel, inside) if inside.isdisjoint(reductions) else []
    if not operands or any(s.op is not ops.STORE for s in stores):
        return None
    return Contraction(
        outputs, k_loops, tuple(operands), stores, len(reductions), widest_bits(order),
        epilogue_cost(end), constant_buffers,
    )  # fmt: skip


def _operands(kernel: UOp, inside: Set[UOp]) -> list[Operand]:
    """Return the loads of a kernel that are inside of its reductions, by buffer."""
    operands = []
    for buffer in sorted({int(base_of(n).arg) for n in loads_of(kernel)}):
        for number, load in enumerate(loads_of(kernel, buffer)):
            if load in inside:
                operands.append(Operand(converted_load(kernel, load), load, buffer, number))
    return operands
