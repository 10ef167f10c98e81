"""Shared tiles: a part of a buffer that the threads of a block copy to shared memory together.

    Stage(1, ("r0_1", "r2_1"), 64)

                                                        t[i, k] = a[…] by 64 threads together
    for i, j by threads: for k: … a[i, k] * b[k, j]     barrier
                                                        for i, j by threads: for k: … t[i, k] …

Each element is read from device memory once for the block. The elements are numbered along what is
contiguous in the buffer, and neighbouring threads copy neighbouring elements, `vector` at a time;
what one thread copies is unrolled, so that its loads are in flight together. Lowering numbers the
threads through whatever loops they compute (`rules.addresses.grid_dims`), and puts a barrier before
the copy and one after it (`lower.gpu.block_memory`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import index
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import substitute
from porism.optimize.actions.gpu.thread_block_actions import ThreadBlockAction
from porism.optimize.actions.local_buffers import (
    local_buffer,
    next_axis_number,
    next_buffer_number,
)
from porism.optimize.actions.memory.packed_panels import strided_offset
from porism.optimize.actions.memory.panel_axes import PanelAction, extent_of_sum
from porism.optimize.analysis.linear_indices import linear_sum, substitute_sums
from porism.rules.addresses.grid_dims import block_limit_problem
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked

MAX_COPIED: Final = 128
"""Elements that one thread copies, at most: they are in registers at the same time."""


@dataclass(frozen=True)
class Stage(PanelAction, ThreadBlockAction):
    """Copy what a load reads inside some loops to shared memory, by the threads of a block."""

    buffer: int
    axes: tuple[str, ...]
    threads: int
    """The threads that copy."""
    vector: int = 1
    """Elements that a thread copies at a time."""
    padding: int = 0
    """Elements after each row of the tile, so that its columns are in different banks."""
    load: int = 0

    def apply(self, kernel: UOp, target: Target) -> UOp:
        self.require_threads(kernel, target)
        self.require_no_ordered_loop(kernel)
        value = self.load_of(kernel)
        sums = self.panel_axes(kernel, value)
        extents = [extent_of_sum(terms) for terms in sums]
        first = next_axis_number(kernel)
        axes = [UOp.range(extent, first + k) for k, extent in enumerate(extents)]
        source = substitute_sums(value, dict(zip(axes, sums, strict=True)))
        if source is None:
            raise self.refuse(
                "the index of the load is not a function of these sums",
                "each element of the tile must have one address",
                "name the loops one by one",
            )
        order = _fill_order(source, axes)
        loops, values = self._fill_loops(first, order, extents[axes.index(order[0])], extents)
        source = substitute(source, dict(zip(order, values, strict=True)))
        coordinates = [values[order.index(axis)] for axis in axes]
        strides = [math.prod(extents[k + 1 :]) for k in range(len(extents))]
        if len(extents) > 1:
            row = extents[-1] + self.padding
            strides = [row * (n // extents[-1]) for n in strides[:-1]] + [1]
        size = strides[0] * extents[0]
        tile = local_buffer(value.dtype, size, next_buffer_number(kernel))
        stored = tile.index(strided_offset(coordinates, strides), dtype=value.dtype)
        filled = tile.after(stored.store(source).end(*loops))
        offset = strided_offset([linear_sum(terms) for terms in sums], strides)
        staged = substitute(kernel, {value: filled.index(offset, dtype=value.dtype)})
        misfit = block_limit_problem(staged, target)
        if misfit is not None:
            raise self.refuse(*misfit, "name fewer loops, or use fewer threads")
        return staged

    def _fill_loops(
        self, first: int, order: Sequence[UOp], row: int, extents: Sequence[int]
    ) -> tuple[list[UOp], list[UOp]]:
        """Return the loops that fill a tile, and the coordinates along the axes of `order`."""
        elements, width = math.prod(extents), self.vector
        if self.padding < 0 or self.threads < 1 or width < 1 or row % width:
            raise self.refuse(
                f"rows of {row} elements are copied {width} at a time by {self.threads} threads",
                "whole vectors are copied, by at least one thread",
                "use a vector that divides the row",
            )
        threads = min(self.threads, elements // width)
        if elements % (threads * width):
            raise self.refuse(
                f"the tile has {elements} elements",
                f"that is no multiple of {threads} threads times {width}",
                "use another number of threads, or a smaller vector",
            )
        if elements // threads > MAX_COPIED:
            raise self.refuse(
                f"each thread would copy {elements // threads} elements",
                f"more than {MAX_COPIED} do not fit in its registers",
                "use more threads, or name fewer loops",
            )
        axis = (first, 0)
        times = UOp.range(elements // (threads * width), (*axis, 0), Axis.UPCAST)
        thread = UOp.range(threads, (*axis, 1), Axis.LOCAL)
        lane = UOp.range(width, (*axis, 2), Axis.UPCAST)
        loops = [r for r in (times, thread, lane) if int(r.vmax) > 0]
        number = UOp.const(index, 0)
        for loop in (times, thread):
            number = number * (int(loop.vmax) + 1) + (loop if loop in loops else 0)
        coordinates, chunks = [], row // width
        for position, filled in enumerate(order):
            extent = int(filled.vmax) + 1 if position else chunks
            own = number if position == len(order) - 1 else number % extent
            if position == 0 and width > 1:
                own = own * width + lane
            coordinates.append(own)
            number = number // extent
        return loops, coordinates


def _fill_order(source: UOp, axes: Sequence[UOp]) -> list[UOp]:
    """Return the axes in the order in which elements are numbered: along the buffer first."""
    offset = source.src[1] if source.op is ops.INDEX else source
    plain = offset.src[1] if is_masked(offset) else offset
    contiguous = [axis for axis in axes if stride(plain, axis) == 1]
    reverse = [axis for axis in reversed(axes) if axis not in contiguous[:1]]
    return [*contiguous[:1], *reverse]
