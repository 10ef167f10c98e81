"""Tile actions: the loop transformations that make a contraction compute a register tile.

In this order, each as an action of the plan:

1. unroll and jam the m loop and the n loop, and vectorize the vectorized loop; an extent that the
   tile does not divide ends in a tile that overlaps the one before, so that no load needs a mask;
2. order the loops around the tile: what all operands depend on outermost, then the loops over
   panels, then the m loop, so that a panel serves all rows;
3. pack panels inside of the loops that they depend on, and vectorize the packing loops;
4. merge the reduction loops into one where the strides allow it, or unroll a short innermost one;
5. put a long epilogue into a loop of its own, and parallelize the outermost loop.
"""

from __future__ import annotations

import math
from typing import Final

from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.actions.loop_substitution import is_part_of
from porism.optimize.actions.loops.loop_interchange import Move
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.loop_tiling import OverlapTail, Split
from porism.optimize.actions.loops.merge_loops import Merge
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.peeling import Peel
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.actions.memory.epilogue import Epilogue, epilogue_cost, tile_elements
from porism.optimize.actions.memory.packed_panels import Pack
from porism.optimize.analysis.buffer_loads import (
    converted_load,
    load_of,
    loads_of,
    unpacked_load,
)
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.analysis.loop_strides import extent_of, is_near, trip_count
from porism.optimize.model.column_cost import merges_k, peels_k
from porism.optimize.model.contraction_cost import (
    MAX_IMBALANCE,
    ContractionCost,
    load_imbalance,
    row_axes,
)
from porism.optimize.model.core_rates import core_rates
from porism.optimize.model.tile_plan import TilePlan
from porism.optimize.strategy.action_plan import COPY_LANES, Plan, copy_width
from porism.optimize.strategy.contractions.flattened_tiles import (
    is_merged_loop,
    pack_and_merge,
    split_flattened_loop,
    unroll_unmasked_loop,
)
from porism.optimize.strategy.prefetch_placement import insert_prefetches

SHORT_K: Final = 4
"""Extent of an innermost reduction loop, at most, that is unrolled completely (chosen by hand)."""

MAX_PACK_LANES: Final = 64
"""Elements, at most, that one iteration of a packing loop copies (chosen by hand)."""

MAX_UNROLLED_EPILOGUE: Final = 256
"""Instructions of the epilogue of a whole tile, at most, that are not in a loop (measured)."""


def apply_tile(plan: Plan, contraction: Contraction, tile: TilePlan) -> None:
    """Apply the actions of a register tile to a plan."""
    rates = core_rates(plan.target)
    is_parallel = rates.pays_to_fork(contraction.work * contraction.bits / rates.vector_bits)
    if tile.parallelizes_m and is_parallel:
        _split_m_among_cores(plan, tile)
    else:
        upcast(plan, tile.m_loop, tile.m)
    upcast(plan, tile.n_loop, tile.n)
    if tile.vectorizes_k:
        _vectorize_k(plan, contraction, tile)
        _order_loops(plan, contraction, tile)
    elif tile.flattened_loop is not None:
        _vectorize_merged_loop(plan, contraction, tile)
    else:
        _vectorize_output(plan, contraction, tile)
    _loop_over_epilogue(plan, contraction)
    if is_parallel:
        parallelize_outermost(plan)
    if tile.vectorizes_k:
        insert_prefetches(plan)


def upcast(plan: Plan, loop: UOp | None, factor: int) -> None:
    """Unroll and jam, or vectorize, a loop by a factor; the last part overlaps the one before."""
    if loop is None or factor < 2:
        return
    axis, extent = show(loop), extent_of(loop)
    if extent < factor:
        plan.do(PadTo(axis, factor))
    if extent <= factor or extent % factor == 0:
        plan.do(Upcast(axis, factor))
    else:
        plan.do(OverlapTail(axis, factor))
        plan.do(Upcast(f"{axis}_1", factor))


# -- vectors ---------------------------------------------------------------------------------------


def _vectorize_output(plan: Plan, contraction: Contraction, tile: TilePlan) -> None:
    """Vectorize an output loop, pack operands, and simplify the reduction loops."""
    is_padded = extent_of(tile.vector_loop) < tile.lanes  # lanes beyond a panel need no mask
    if not is_padded:
        upcast(plan, tile.vector_loop, tile.lanes)
    _order_loops(plan, contraction, tile)
    along = [o for o in tile.packed if tile.vector_loop in o.ranges]
    has_windows = [_pack(plan, contraction, tile, o) for o in along]
    _pack_rows(plan, contraction, tile)
    if is_padded:
        upcast(plan, tile.vector_loop, tile.lanes)
    innermost = contraction.k_loops[-1]
    if merges_k(contraction, tile.packed) and not any(has_windows):
        _merge_k_loops(plan, contraction)
    elif 1 < extent_of(innermost) <= SHORT_K and len(contraction.k_loops) > 1:
        plan.do(Unroll(show(innermost), extent_of(innermost)))


def _vectorize_merged_loop(plan: Plan, contraction: Contraction, tile: TilePlan) -> None:
    """Pack and merge the two loops of a flattened tile, and vectorize the merged loop."""
    split_flattened_loop(plan, tile)
    _order_loops(plan, contraction, tile)
    axis = show(pack_and_merge(plan, contraction, tile))
    _pack_rows(plan, contraction, tile)
    plan.pad(axis, tile.lanes)
    plan.do(Upcast(axis, tile.lanes))
    if merges_k(contraction, tile.packed):
        _merge_k_loops(plan, contraction)


def _vectorize_k(plan: Plan, contraction: Contraction, tile: TilePlan) -> None:
    """Vectorize a reduction loop; iterations that are left over are peeled, or masked."""
    axis = show(tile.vector_loop)
    if not peels_k(contraction, tile.vector_loop, tile.lanes):
        plan.pad(axis, tile.lanes)
        plan.do(Unroll(axis, tile.lanes))
        return
    plan.do(Peel(axis, tile.lanes))
    plan.do(Unroll(f"{axis}_0", tile.lanes))
    axis = f"{axis}_1"
    pad = PadTo(axis, plan.target.vector_bits[-1] // contraction.bits)
    plan.attempt(pad)
    if extent_of(plan.loop(axis)) > 1:
        plan.do(Unroll(axis, extent_of(plan.loop(axis))))


def _merge_k_loops(plan: Plan, contraction: Contraction) -> None:
    """Merge all reduction loops into one."""
    axes = [show(r) for r in contraction.k_loops]
    while len(axes) > 1:
        *rest, outer, inner = axes
        axes = [*rest, *plan.create_loops(Merge(outer, inner))]


def _loop_over_epilogue(plan: Plan, contraction: Contraction) -> None:
    """Put the epilogue of a tile into a loop, if it is too long to be unrolled."""
    end = plan.kernel.src[0]
    width = plan.target.vector_bits[-1] // contraction.bits
    vectors = tile_elements(end) // width
    epilogue = Epilogue(width)
    is_long = vectors * epilogue_cost(end) > MAX_UNROLLED_EPILOGUE
    if is_long:
        plan.attempt(epilogue)


# -- cores and the order of loops ------------------------------------------------------------------


def parallelize_outermost(plan: Plan) -> None:
    """Divide the outermost loop that is neither vectorized nor unrolled among the cores."""
    ranges = plan.kernel.src[0].src[1:]
    loops = [r for r in ranges if r.arg[1] is Axis.LOOP]
    if loops:
        if loops[0] is not ranges[0]:
            plan.do(Move(show(loops[0]), show(ranges[0])))
        plan.do(Thread(show(loops[0])))


def _split_m_among_cores(plan: Plan, tile: TilePlan) -> None:
    """Split the m loop into a chunk for each core, and unroll m iterations of a chunk."""
    assert tile.m_loop is not None, "a loop that is divided among the cores"
    axis, extent = show(tile.m_loop), extent_of(tile.m_loop)
    chunk = -(-extent // (plan.target.cores * tile.m)) * tile.m
    if chunk >= extent:
        upcast(plan, tile.m_loop, tile.m)
        return
    plan.do(OverlapTail(axis, chunk) if extent % chunk else Split(axis, chunk))
    if tile.m > 1:
        plan.do(Upcast(f"{axis}_1", tile.m))


def _order_loops(plan: Plan, contraction: Contraction, tile: TilePlan) -> None:
    """Order the loops around a tile for reuse in the caches, and a balanced one outermost."""
    loops = [
        r
        for r in plan.kernel.src[0].src[1:]
        if r.arg[1] is Axis.LOOP and r is not tile.vector_loop and not is_merged_loop(r, tile)
    ]
    order = loops_for_reuse(plan, contraction, tile, loops)
    order = _balanced_outermost(order, tile, plan.target.cores)
    plan.move_in_order(order)


def _balanced_outermost(order: list[UOp], tile: TilePlan, cores: int) -> list[UOp]:
    """Return the loops with the chunks of m, or else a balanced loop, moved outermost."""
    m_axis = tile.m_loop.arg[0] if tile.m_loop is not None and tile.parallelizes_m else None
    chunks = [r for r in order if m_axis is not None and r.arg[0] == (*m_axis, 0)]
    if chunks or not order:
        return [*chunks, *(r for r in order if r not in chunks)]
    imbalance = {r: load_imbalance(extent_of(r), cores) for r in order}
    balanced = (r for r in order if imbalance[r] < MAX_IMBALANCE)
    outermost = next(balanced, min(order, key=lambda r: imbalance[r]))
    return [outermost, *(r for r in order if r is not outermost)]


def loops_for_reuse(
    plan: Plan, contraction: Contraction, tile: TilePlan, loops: list[UOp]
) -> list[UOp]:
    """Return the loops around a tile, the outermost first, as its operands are reused best."""
    origin = {r: _output_loop(r, contraction) for r in loops}
    if tile.vectorizes_k:  # the largest operand is read once
        largest = max(contraction.operands, key=lambda o: trip_count(o.ranges))
        return sorted(loops, key=lambda r: origin[r] not in largest.ranges)
    along = [o for o in contraction.operands if tile.vector_loop in o.ranges]
    m_loops = [r for r in loops if not any(origin[r] in o.ranges for o in along)]
    batch = [r for r in loops if all(origin[r] in o.ranges for o in contraction.operands)]
    panels = [r for r in loops if r not in m_loops and r not in batch]
    columns = tile.vector_loop, tile.n_loop
    model = ContractionCost(contraction, plan.target)
    if tile.packed or not model.prefers_row_order(along, *columns):
        return [*batch, *panels, *m_loops]
    within = [r for r in panels if origin[r] in columns]
    return [*batch, *(r for r in panels if r not in within), *m_loops, *within]


def _output_loop(loop: UOp, contraction: Contraction) -> UOp:
    """Return the output loop of the contraction that a loop is a part of."""
    return next(r for r in contraction.outputs if is_part_of(loop, r))


# -- packing ---------------------------------------------------------------------------------------


def _pack(plan: Plan, contraction: Contraction, tile: TilePlan, operand: Operand) -> bool:
    """Pack the panel that an operand reads in a tile for all k.

    Return whether overlapping windows share elements of the panel.
    """
    lanes = _lanes_of(plan, tile)
    which, load = unpacked_load(plan.kernel, operand.buffer, lanes)
    value = converted_load(plan.kernel, load)
    unrolled = [r for r in value.ranges if r.arg[1] is Axis.UPCAST]
    k_loops = [r for r in contraction.k_loops if r in value.ranges]
    inner = [*(r for r in unrolled if r is not lanes), lanes]
    sums, taps = _window_sums(contraction, operand, inner, lanes, k_loops)
    if taps:
        outer = [r for r in k_loops if r not in taps]
        pack = Pack(operand.buffer, (*map(show, outer), *sums), which, row=1)
        packing_loops = plan.try_create_loops(pack)
        if packing_loops:
            _copy_rows(plan, packing_loops[-1])
            unroll_unmasked_loop(plan, value, dict(zip(outer, packing_loops, strict=False)))
            return True
    axes = [*k_loops, *inner]
    row = int(lanes is tile.vector_loop)
    pack = Pack(operand.buffer, tuple(map(show, axes)), which, row=row)
    packing_loops = plan.create_loops(pack)
    _vectorize_packing(plan, dict(zip(axes, packing_loops, strict=True)), lanes, value)
    return False


def _pack_rows(plan: Plan, contraction: Contraction, tile: TilePlan) -> None:
    """Pack the m rows of the broadcast operands that a plan packs, each row along k."""
    for operand in tile.packed:
        if tile.vector_loop in operand.ranges:
            continue
        found = _load_of_rows(plan, operand, tile)
        if found is None:
            continue
        which, load, own = found
        own |= {_output_loop(p, contraction): p for p in load.ranges if p.arg[1] is Axis.UPCAST}
        order = row_axes(contraction, operand, tile.m_loop, tile.m)
        axes = tuple(show(own[r]) for r in order)
        row = 1 if order[-1] is tile.m_loop else sum(r in contraction.k_loops for r in order)
        loops = plan.try_create_loops(Pack(operand.buffer, axes, which, row=row))
        if loops:
            _copy_rows(plan, loops[-1])


def _load_of_rows(
    plan: Plan, operand: Operand, tile: TilePlan
) -> tuple[int, UOp, dict[UOp, UOp]] | None:
    """Return which load of a buffer reads the rows of an operand, with the parts of its loops.

    None if no load depends on all loops of the operand, as where a mask is decided by one of them.
    """
    for which, load in enumerate(loads_of(plan.kernel, operand.buffer)):
        if any(is_part_of(r, tile.vector_loop) for r in load.ranges):
            continue
        parts = {r: p for r in operand.ranges for p in reversed(load.ranges) if is_part_of(p, r)}
        if len(parts) == len(operand.ranges):
            return which, load, parts
    return None


def _lanes_of(plan: Plan, tile: TilePlan) -> UOp:
    """Return the loop over the lanes of a tile: the vectorized part of its vector loop, or all."""
    own = tile.vector_loop
    parts = (r for r in plan.loops().values() if r is own or is_part_of(r, own))
    return next(r for r in parts if r is own or r.arg[1] is Axis.UPCAST)


def _window_sums(
    contraction: Contraction, operand: Operand, inner: list[UOp], lanes: UOp, k_loops: list[UOp]
) -> tuple[list[str], set[UOp]]:
    """Return the axes of a panel that windows share, such as `r3+2*r1`, and the loops of taps.

    In a convolution, the index of an image is a sum of an output loop and a loop over the taps: a
    panel with one element for each value of the sum holds what neighbouring windows share once.
    """
    sums: list[str] = []
    taps: set[UOp] = set()
    for loop in inner:
        name = show(loop)
        window = operand.window(_output_loop(loop, contraction), k_loops)
        if window is not None and window[0] not in taps and (window[1] == 1 or loop is not lanes):
            taps.add(window[0])
            factor = "" if window[1] == 1 else f"{window[1]}*"
            name = f"{show(window[0])}+{factor}{name}"
        sums.append(name)
    return sums, taps


def _copy_rows(plan: Plan, axis: str) -> None:
    """Vectorize a packing loop along contiguous elements; the last vector may exceed the row."""
    width = copy_width(extent_of(plan.loop(axis)))
    if extent_of(plan.loop(axis)) >= width // 2:
        plan.pad(axis, width)
        plan.do(Upcast(axis, width))


def _vectorize_packing(plan: Plan, packing_loops: dict[UOp, str], lanes: UOp, value: UOp) -> None:
    """Vectorize the packing of a panel along its lanes, or transpose blocks of it in registers."""
    operand = Operand(value, load_of(value), 0, 0)
    extent = extent_of(lanes)
    choices = (extent, 64, 48, 32, 16, 8, 4)
    width = next((n for n in choices if extent % n == 0 and n <= MAX_PACK_LANES), 1)
    stride = operand.stride(lanes)
    if is_near(stride) and extent % (COPY_LANES // 2):
        _copy_rows(plan, packing_loops[lanes])
        return
    if width == 1 or stride is None:
        return
    if not is_near(stride):
        others = (r for r in reversed(packing_loops) if r is not lanes)
        contiguous = next((r for r in others if operand.stride(r) == 1), None)
        rows = 1 if contiguous is None else _block_rows(extent_of(contiguous))
        if contiguous is None or rows == 1:
            return
        plan.do(Upcast(packing_loops[contiguous], rows))
        width = math.gcd(width, COPY_LANES)
    plan.do(Upcast(packing_loops[lanes], width))


def _block_rows(extent: int) -> int:
    """Return the rows of a block that is transposed in registers; 1 if none divide the extent."""
    return next((n for n in (16, 8, 4) if extent % n == 0), 1)
