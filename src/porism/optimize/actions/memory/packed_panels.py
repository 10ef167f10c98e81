"""Packed panels: the part of a buffer that some loops read, copied to local memory before them.

    for j: for i: for k: … b[j * n + k] …        for j: t[k] = b[j * n + k] for all k
                                                        for i: for k: … t[k] …

The panel is packed in the order in which the inner loops read it, so that strided loads become
contiguous. It pays where each element is read many times inside the loops around the copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import index
from porism.base.target import Target
from porism.ir.node import UOp
from porism.ir.traversal import substitute
from porism.optimize.actions.local_buffers import (
    MAX_LOCAL_BYTES,
    local_buffer,
    local_bytes,
    next_axis_number,
    next_buffer_number,
)
from porism.optimize.actions.memory.panel_axes import PanelAction, extent_of_sum
from porism.optimize.analysis.buffer_loads import converted_load
from porism.optimize.analysis.linear_indices import Coefficients, linear_sum, substitute_sums

ROW_ALIGNMENT: Final = 64
"""Bytes: rows of a panel begin at multiples of a cache line, so that no vector crosses one."""

TAIL_PADDING: Final = 256
"""Bytes after the last row: a vector may be longer than the rest of the row. Chosen by hand."""


@dataclass(frozen=True)
class Pack(PanelAction):
    """Copy what a load reads inside some loops to a local buffer before them.

    Elementwise conversions of the load alone, such as a cast or a select of 0 beyond an edge, are
    done when it is copied.
    """

    buffer: int
    """The number of the buffer: that which the kernel writes is 0."""
    axes: tuple[str, ...]
    """The loops that the panel is packed for, the fastest varying last.

    A sum of loops, such as `r3+r5` or `2*r3+r5`, has one element of the panel for each value.
    """
    load: int = 0
    """Which of the loads of this buffer."""
    row: int = 0
    """How many of the last loops are one row, which begins on a cache line; 0: no rows."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        value = converted_load(kernel, self.load_of(kernel))
        sums = self.panel_axes(kernel, value)
        size = 1
        for terms in sums:
            size *= extent_of_sum(terms)
        if size * value.dtype.numpy.itemsize > MAX_LOCAL_BYTES:
            raise self.refuse(
                f"the panel would have {size} elements",
                f"local buffers may take {MAX_LOCAL_BYTES} bytes",
                "name fewer loops, or split one of them",
            )
        packed = pack_value(kernel, value, sums, self.row)
        if packed is None:
            raise self.refuse(
                "the index of the load is not a function of these sums",
                "each element of the panel must have one address",
                "name the loops one by one",
            )
        if local_bytes(packed) > MAX_LOCAL_BYTES:
            raise self.refuse(
                f"all local buffers would take {local_bytes(packed)} bytes",
                f"they may take {MAX_LOCAL_BYTES}",
                "name fewer loops, or split one of them",
            )
        return packed


def pack_value(kernel: UOp, value: UOp, sums: Sequence[Coefficients], row: int = 0) -> UOp | None:
    """Return a kernel that packs a value for some sums of loops, the last varying fastest.

    None if the value depends on the loops in another way than through these sums.
    """
    first = next_axis_number(kernel)
    extents = [extent_of_sum(terms) for terms in sums]
    loops = [UOp.range(extent, first + k) for k, extent in enumerate(extents)]
    source = substitute_sums(value, dict(zip(loops, sums, strict=True)))
    if source is None:
        return None
    item = value.dtype.numpy.itemsize
    strides = _strides(extents, row, item)
    padding = TAIL_PADDING // item if row else 0
    number = next_buffer_number(kernel)
    panel = local_buffer(value.dtype, extents[0] * strides[0] + padding, number)
    stored = panel.index(strided_offset(loops, strides), dtype=value.dtype)
    filled = panel.after(stored.store(source).end(*loops))
    offset = strided_offset([linear_sum(terms) for terms in sums], strides)
    return substitute(kernel, {value: filled.index(offset, dtype=value.dtype)})


def row_stride(length: int, item: int) -> int:
    """Return the elements from one row of a panel to the next, for elements of `item` bytes.

    Rows begin at multiples of a cache line, or of half a line if they fit in that.
    """
    line = max(ROW_ALIGNMENT // item, 1)
    if line % 2 == 0 and length <= line // 2:
        line //= 2
    return -(-length // line) * line


def _strides(extents: Sequence[int], row: int, item: int) -> list[int]:
    """Return the strides of a panel in elements, by axis; `row` axes are one aligned row."""
    strides = [1]
    for axes, extent in enumerate(reversed(extents[1:]), 1):
        stride = strides[0] * extent
        if axes == row:
            stride = row_stride(stride, item)
        strides.insert(0, stride)
    return strides


def strided_offset(indices: Sequence[UOp], strides: Sequence[int]) -> UOp:
    """Return the offset of an element of a panel, in elements."""
    offset = UOp.const(index, 0)
    for position, stride in zip(indices, strides, strict=True):
        offset = offset + position * stride
    return offset
