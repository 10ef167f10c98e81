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

from collections.abc import Mapping
from typing import Final

from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.loops.loop_tiling import OverlapTail, Split
from porism.optimize.actions.loops.merge_loops import Merge
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.actions.memory.packed_panels import Pack
from porism.optimize.analysis.buffer_loads import converted_load, unpacked_load
from porism.optimize.analysis.contraction_accesses import Contraction
from porism.optimize.analysis.loop_strides import extent_of
from porism.optimize.model.tile_plan import TilePlan
from porism.optimize.strategy.action_plan import Plan, copy_width

MASK_UNROLL: Final = (4, 2)
"""Unroll factors of a packing loop whose iterations share a mask, the best first."""


def split_flattened_loop(plan: Plan, tile: TilePlan) -> None:
    """Split the outer loop of a flattened tile, so that the inner part can be merged."""
    assert tile.flattened_loop is not None, "a flattened tile"
    axis, extent = show(tile.flattened_loop), extent_of(tile.flattened_loop)
    if tile.flattened < extent:
        action = OverlapTail if extent % tile.flattened else Split
        plan.do(action(axis, tile.flattened))


def pack_and_merge(plan: Plan, contraction: Contraction, tile: TilePlan) -> UOp:
    """Pack all windows of some rows, merge the two loops over them, and return the merged loop."""
    assert tile.flattened_loop is not None, "a flattened tile"
    is_split = tile.flattened < extent_of(tile.flattened_loop)
    name = (*tile.flattened_loop.arg[0], 1) if is_split else tile.flattened_loop.arg[0]
    rows = next(r for r in plan.loops().values() if r.arg[0] == name)
    along = (o for o in tile.packed if tile.vector_loop in o.ranges)
    for operand in along:
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


def is_merged_loop(loop: UOp, tile: TilePlan) -> bool:
    """Return whether a loop becomes a part of the vectorized one of a flattened tile."""
    if tile.flattened_loop is None or loop.arg[1] is not Axis.LOOP:
        return False
    name = tile.flattened_loop.arg[0]
    is_split = tile.flattened < extent_of(tile.flattened_loop)
    return bool(loop.arg[0] == ((*name, 1) if is_split else name))
