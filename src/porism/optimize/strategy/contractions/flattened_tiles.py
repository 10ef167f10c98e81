"""Flattened tiles: vectors along two merged output loops, where the inner one fits no vectors.

    for y < 28: for x < 28:                 for y_0 < 7: pack the windows of 4 rows
        … image[y + k, x + l] …                 for t < 112: … panel[k, l, t] …

The rows of small images fill whole vectors badly. If the output is contiguous across both loops,
some iterations of the outer one are merged with the inner one, and vectors cross the ends of rows.
For that, the operand along them is packed with each window on its own (im2col of a few rows), so
that a panel is contiguous in the merged loop. An element is then packed once for each window, which
pays if many rows of the other operand, the output channels, read it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.loops.loop_tiling import OverlapTail, Split
from porism.optimize.actions.loops.merge_loops import Merge
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.actions.memory.packed_panels import ROW_ALIGNMENT, Pack
from porism.optimize.analysis.buffer_loads import converted_load, unpacked_load
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.analysis.loop_strides import extent_of, trip_count
from porism.optimize.strategy.action_plan import Plan, copy_width
from porism.optimize.strategy.contractions.register_tiles import (
    LANE_CHOICES,
    M_CHOICES,
    MAX_LANES,
    Tile,
)
from porism.optimize.strategy.contractions.tile_costs import (
    DEFAULT_L2,
    FMA_LATENCY,
    L2_BANDWIDTH,
    L3_BANDWIDTH,
    OPERAND_REGISTERS,
    PREFETCH_STREAMS,
    WAYS,
    epilogue_cycles,
    padding_ratio,
    parallel_cycles,
    part_vector_cost,
    same_set_fraction,
    spills,
)

MIN_M_EXTENT: Final = 32
"""Rows of the broadcast operand, below which packing every window does not pay (measured)."""

MASK_UNROLL: Final = (4, 2)
"""Unroll factors of a packing loop whose iterations share a mask, the best first."""

MAX_PADDING: Final = 1.2
"""Computed results, at most, in results that are stored: beyond that, other tiles are better."""

MAX_LONE_PADDING: Final = 2.0
"""The same where there is no other tile, as for images of 5 x 5; chosen by hand."""


def best_flattened_tile(
    contraction: Contraction, target: Target, max_padding: float = MAX_PADDING
) -> Tile | None:
    """Return the flattened tile with the fewest estimated cycles; None if there is none."""
    tiles = enumerate_flattened_tiles(contraction, target, max_padding)
    return min(tiles, key=lambda tile: tile.cycles, default=None)


def enumerate_flattened_tiles(
    contraction: Contraction, target: Target, max_padding: float = MAX_PADDING
) -> Iterator[Tile]:
    """Yield every flattened tile that is compared, with its estimate."""
    width = target.vector_bits[-1] // contraction.bits if target.vector_bits else 1
    for outer, inner in zip(contraction.outputs, contraction.outputs[1:], strict=False):
        if width >= 2 and contraction.is_stored_flat(outer, inner):
            yield from _tiles_along(contraction, outer, inner, width, target, max_padding)


def _tiles_along(
    contraction: Contraction, outer: UOp, inner: UOp, width: int, target: Target,
    max_padding: float,
) -> Iterator[Tile]:  # fmt: skip
    """Yield the tiles that merge two output loops, if packing can make them contiguous."""
    along = [o for o in contraction.operands if inner in o.ranges or outer in o.ranges]
    others = [o for o in contraction.operands if o not in along]
    if not along or not all({inner, outer} <= o.ranges for o in along):
        return
    is_contiguous = all(o.stride(inner) == 1 and not o.is_masked for o in along)
    if is_contiguous and extent_of(inner) % width == 0:
        return
    for m_loop in contraction.outputs:
        if extent_of(m_loop) < MIN_M_EXTENT or any(m_loop in o.ranges for o in along):
            continue
        if any(m_loop in o.ranges for o in others):
            for panel in _panels(contraction, outer, inner, width, target, along, max_padding):
                yield from _estimates(contraction, target, m_loop, panel, along, others)


class _Panel(NamedTuple):
    """A packed panel of some rows of the image, and its vectors."""

    outer: UOp
    inner: UOp
    lanes: int
    vectors: int
    """Registers for the lanes."""
    vector_cost: float
    """Cycles of an instruction on one of these registers, in those of a whole vector."""
    rows: int
    """Iterations of the outer loop that are merged with the inner one."""
    padding: float
    """Computed columns in stored ones."""
    size: int
    """Bytes, with every row of a window at a multiple of a cache line."""


def _panels(
    contraction: Contraction, outer: UOp, inner: UOp, width: int, target: Target,
    along: list[Operand], max_padding: float,
) -> Iterator[_Panel]:  # fmt: skip
    """Yield the panels that fit half of the L2 cache, the one with the least padding per lanes."""
    k = trip_count(contraction.k_loops)
    limit = max(target.memory.l2, DEFAULT_L2) // 2
    line = ROW_ALIGNMENT // along[0].itemsize
    columns, extent = extent_of(inner), extent_of(outer)
    sizes = {rows: -(-rows * columns // line) * ROW_ALIGNMENT * k for rows in range(2, extent + 1)}
    row_counts = [
        rows
        for rows, size in sizes.items()
        if padding_ratio(extent, rows) <= max_padding and size <= limit
    ]
    for sixteenths in LANE_CHOICES:
        lanes = sixteenths * width // 16
        fitting = [rows for rows in row_counts if rows * columns >= lanes * 3 // 4]
        if sixteenths > MAX_LANES or lanes < 4 or not fitting:
            continue
        register_lanes = min(math.gcd(lanes, 4 * width), width)
        vectors = lanes // register_lanes
        vector_cost = part_vector_cost(target, register_lanes, width, is_deep=True)
        paddings = {
            rows: padding_ratio(extent, rows) * padding_ratio(rows * columns, lanes)
            for rows in fitting
        }
        rows = min(fitting, key=lambda rows: paddings[rows])
        if paddings[rows] <= max_padding:
            yield _Panel(
                outer, inner, lanes, vectors, vector_cost, rows, paddings[rows], sizes[rows]
            )


def _estimates(
    contraction: Contraction, target: Target, m_loop: UOp, panel: _Panel, along: list[Operand],
    others: list[Operand],
) -> Iterator[Tile]:  # fmt: skip
    """Yield the tiles of a panel for each m, with the cycles of all cores together."""
    outer, inner, lanes, vectors, vector_cost, rows, padding, size = panel
    k = trip_count(contraction.k_loops)
    row_padding = padding_ratio(extent_of(outer), rows)
    packing = sum(trip_count(o.ranges) * row_padding * _pack_cycles(o) for o in along)
    loops = [r for r in contraction.outputs if r in along[0].ranges and r is not inner]
    trip_counts = [-(-extent_of(outer) // rows) if r is outer else extent_of(r) for r in loops]
    trip_counts = [n for n in trip_counts if n > 1]
    left_in_l2 = max(target.memory.l2, DEFAULT_L2) * 3 // 4 - size
    streamed = sum(o.elements * o.itemsize for o in others if o.elements * o.itemsize > left_in_l2)
    reread = streamed * math.prod(trip_counts) / L3_BANDWIDTH
    bytes_read = sum(lanes * o.itemsize for o in along)
    is_beyond_l1 = bytes_read * k > target.memory.l1 // 2
    bandwidth = bytes_read / L2_BANDWIDTH if is_beyond_l1 else 0.0
    max_accumulators = (target.memory.registers - OPERAND_REGISTERS) // contraction.reductions
    for m in M_CHOICES:
        if m * vectors > max_accumulators:
            break
        accumulators = vectors * m * contraction.reductions
        if spills(accumulators, vectors, m, target.memory.registers):
            continue
        fma = accumulators * vector_cost
        loads = vectors * vector_cost * 1.5 * len(along)
        fits_registers = accumulators + min(m, vectors) < target.memory.registers
        for o in others:
            broadcasts = m if m_loop in o.ranges else 1
            conflicts = broadcasts * same_set_fraction(o.stride(m_loop), o.itemsize) > WAYS / 2
            loads += (broadcasts if fits_registers else accumulators) * (1.5 if conflicts else 0.5)
            if broadcasts > PREFETCH_STREAMS and o.elements * o.itemsize > target.memory.l2 // 4:
                fma *= 1.1
        per_k = max(fma, loads, bandwidth, FMA_LATENCY) + 0.05 * (loads + bandwidth) + 0.5
        tiles = trip_count(contraction.outputs) * padding * padding_ratio(extent_of(m_loop), m)
        tiles /= lanes * m
        epilogue = epilogue_cycles(contraction, vectors * m, vector_cost)
        cycles = tiles * (k * per_k + 10 + epilogue) + reread
        cycles, parallelizes_m = parallel_cycles(
            cycles, packing, trip_counts, extent_of(m_loop), m, target.cores
        )
        yield Tile(
            cycles, inner, lanes, m_loop, m, packed=tuple(along), parallelizes_m=parallelizes_m,
            flattened_loop=outer, flattened=rows,
        )  # fmt: skip


def _pack_cycles(operand: Operand) -> float:
    """Return the cycles to pack one element of a window (measured, as in `tile_costs`)."""
    return 0.65 if operand.is_masked else 0.3


def split_flattened_loop(plan: Plan, tile: Tile) -> None:
    """Split the outer loop of a flattened tile, so that the inner part can be merged."""
    assert tile.flattened_loop is not None, "a flattened tile"
    axis, extent = show(tile.flattened_loop), extent_of(tile.flattened_loop)
    if tile.flattened < extent:
        action = OverlapTail if extent % tile.flattened else Split
        plan.do(action(axis, tile.flattened))


def pack_and_merge(plan: Plan, contraction: Contraction, tile: Tile) -> UOp:
    """Pack all windows of some rows, merge the two loops over them, and return the merged loop."""
    assert tile.flattened_loop is not None, "a flattened tile"
    is_split = tile.flattened < extent_of(tile.flattened_loop)
    name = (*tile.flattened_loop.arg[0], 1) if is_split else tile.flattened_loop.arg[0]
    rows = next(r for r in plan.loops().values() if r.arg[0] == name)
    for operand in tile.packed:
        which, load = unpacked_load(plan.kernel, operand.buffer, tile.vector_loop)
        value = converted_load(plan.kernel, load)
        k_loops = [r for r in contraction.k_loops if r in value.ranges]
        axes = (*map(show, k_loops), show(rows), show(tile.vector_loop))
        packing_loops = plan.create_loops(Pack(operand.buffer, axes, which, row=2))
        width = copy_width(extent_of(tile.vector_loop))
        plan.pad(packing_loops[-1], width)
        plan.do(Upcast(packing_loops[-1], width))
        unroll_unmasked_loop(plan, value, dict(zip(k_loops, packing_loops, strict=False)))
    (merged,) = plan.create_loops(Merge(show(rows), show(tile.vector_loop)))
    return plan.loop(merged)


def unroll_unmasked_loop(plan: Plan, value: UOp, packing_loops: Mapping[UOp, str]) -> None:
    """Unroll a packing loop that the masks do not depend on, so that iterations share a mask.

    `packing_loops` are the names of the loops of the copy, by the loop of the packed value that
    each of them stands for.
    """
    masked = {r for n in toposort(value) if n.op is ops.WHERE for r in n.src[0].ranges}
    for loop, axis in packing_loops.items():
        factor = next((n for n in MASK_UNROLL if extent_of(loop) % n == 0), 1)
        if masked and loop not in masked and factor > 1:
            plan.do(Upcast(axis, factor))
            return


def is_merged_loop(loop: UOp, tile: Tile) -> bool:
    """Return whether a loop becomes a part of the vectorized one of a flattened tile."""
    if tile.flattened_loop is None or loop.arg[1] is not Axis.LOOP:
        return False
    name = tile.flattened_loop.arg[0]
    is_split = tile.flattened < extent_of(tile.flattened_loop)
    return bool(loop.arg[0] == ((*name, 1) if is_split else name))
