"""Epilogues: what follows the reductions of a register tile, in loops of its own after them.

    tile of s: …                              tile of s: … t[i, j] = s
    tile of y[i, j] = gelu(s + b[j])          for i: for j: y[i, j] = gelu(t[i, j] + b[j])

The accumulators of a tile are in registers. Without this action the epilogue is unrolled for each
of them; in a loop it is emitted once, which matters if it is long.

The vector lanes of the accumulators may be along another loop than that which is stored
contiguously. Then the tile is stored as it is (`transposed`), and the epilogue's loops, vectorized
along both, transpose parts of it in registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from porism.base.dtypes import index
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.node_shape import flat_index
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.action import Action
from porism.optimize.actions.local_buffers import (
    is_index_computed_from,
    local_buffer,
    next_axis_number,
    next_buffer_number,
)
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked


@dataclass(frozen=True)
class Epilogue(Action):
    """Store the reductions of a tile in a local buffer, and do what follows in loops after them."""

    lanes: int
    """Vector lanes of the epilogue; 1 leaves plain loops that other actions can transform."""
    transposed: bool = False
    """Whether the tile is stored with the contiguous loop of the output slowest."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        if target.block:
            raise self.refuse("the target is a GPU", "its local memory is shared", "leave it out")
        end = kernel.src[0]
        if len(kernel.src) != 1 or end.op is not ops.END or end.src[0].op is not ops.STORE:
            raise self.refuse(
                "the kernel stores several values", "an epilogue has one store", "leave it out"
            )
        tile = [r for r in end.src[1:] if r.arg[1] is Axis.UPCAST]
        reduction = self._reduction(kernel, end, tile)
        lane = _contiguous_loop(end.src[0], tile)
        if self.lanes < 1 or self.extent_of(lane) % self.lanes:
            raise self.refuse(
                f"a row of the tile has {self.extent_of(lane)} elements",
                f"that is no multiple of {self.lanes}",
                "use a number that divides it",
            )
        order = [*(r for r in tile if r is not lane), lane]
        return separate_epilogue(kernel, reduction, order, self.lanes, self.transposed)

    def _reduction(self, kernel: UOp, end: UOp, tile: Sequence[UOp]) -> UOp:
        """Return the one reduction of the tile that the epilogue follows."""
        reductions = reductions_of(end)
        if len(reductions) != 1:
            raise self.refuse(
                f"the stored value is computed from {len(reductions)} reductions",
                "an epilogue follows one reduction",
                "leave it out",
            )
        if reductions[0] is end.src[0].src[1] and not self.transposed:
            raise self.refuse(
                "the reduction has no epilogue", "it is stored as it is", "leave it out"
            )
        if not tile or set(tile) - set(reductions[0].ranges):
            raise self.refuse(
                "there is no tile of which each element is one reduction",
                "an epilogue follows a tile of reductions",
                "Upcast loops that the reduction depends on first",
            )
        beside = toposort(end.src[0], within=lambda n: n.op is not ops.END and n not in reductions)
        if any(n.op is ops.AFTER for n in beside):
            raise self.refuse(
                "the epilogue reads local memory",
                "that would be filled for each of its loops anew",
                "leave it out",
            )
        if is_index_computed_from(kernel, reductions):
            raise self.refuse(
                "an index is computed from the reduction",
                "the bounds of what is loaded from memory are not known",
                "leave it out",
            )
        return reductions[0]


def separate_epilogue(
    kernel: UOp, reduction: UOp, tile: Sequence[UOp], lanes: int, transposed: bool
) -> UOp:
    """Return a kernel that stores a tile of a reduction, with the epilogue in loops after it.

    The lanes are along the last loop of the tile, which varies slowest in a transposed local buffer
    and fastest in any other.
    """
    end = kernel.src[0]
    axis = next_axis_number(kernel)
    extents = [int(r.src[0].arg) for r in tile]
    buffer = local_buffer(reduction.dtype, math.prod(extents), next_buffer_number(kernel))
    outer = [r for r in end.src[1:] if r not in tile]
    fresh = buffer.after(*outer) if outer else buffer
    dims = [r.src[0] for r in tile]
    offset = _tile_offset(tile, dims, transposed)
    stored = fresh.index(offset, dtype=reduction.dtype).store(reduction).end(*tile)
    loops = [UOp.range(extent, axis + k) for k, extent in enumerate(extents[:-1])]
    values = list(loops)
    axis += len(loops)
    last = UOp.range(lanes, (axis, 1), Axis.UPCAST)
    if lanes == 1:
        last = UOp.range(extents[-1], axis)
        values.append(last)
    elif extents[-1] > lanes:
        loops.append(UOp.range(extents[-1] // lanes, (axis, 0)))
        values.append(loops[-1] * lanes + last)
    else:
        values.append(last)
    offset = _tile_offset(values, dims, transposed)
    loaded = buffer.after(stored).index(offset, dtype=reduction.dtype)
    new = {reduction: loaded, **dict(zip(tile, values, strict=True))}
    return ops.SINK(substitute(end.src[0], new).end(*outer, *loops, last), arg=kernel.arg)


def _tile_offset(values: Sequence[UOp], dims: Sequence[UOp], transposed: bool) -> UOp:
    """Return the offset of an element of a tile in its local buffer, in elements."""
    if transposed:
        values, dims = [values[-1], *values[:-1]], [dims[-1], *dims[:-1]]
    return flat_index(values, dims)


def reductions_of(end: UOp) -> list[UOp]:
    """Return the reductions that the store of an END is computed from, without those inside."""
    reductions: dict[UOp, None] = {}
    stack = [end.src[0]]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node.op is ops.REDUCE:
            reductions[node] = None
            continue
        for s in node.src:
            if s not in seen and s.op is not ops.END:
                seen.add(s)
                stack.append(s)
    return list(reductions)


def epilogue_nodes(end: UOp) -> list[UOp]:
    """Return the nodes between the reductions of an END and its store."""
    below = {n for reduction in reductions_of(end) for n in toposort(reduction)}
    inside = toposort(end.src[0], within=lambda n: n.op is not ops.END)
    return [n for n in inside if n not in below]


def epilogue_cost(end: UOp) -> int:
    """Return the cost of the epilogue of an END for one vector, in additions (`Op.cost`)."""
    values = [n for n in epilogue_nodes(end) if n.op.elementwise and n.dtype is not index]
    return sum(int(n.op.cost) for n in values)


def tile_elements(end: UOp) -> int:
    """Return the elements of the register tile of an END."""
    return math.prod(int(r.vmax) + 1 for r in end.src[1:] if r.arg[1] is Axis.UPCAST)


def _contiguous_loop(store: UOp, tile: Sequence[UOp]) -> UOp:
    """Return the loop of a tile along which it is stored contiguously, or the last."""
    at = store.src[0].src[1]
    at = at.src[1] if is_masked(at) else at
    return next((r for r in tile if stride(at, r) == 1), tile[-1])
