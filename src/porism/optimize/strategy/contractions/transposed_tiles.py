"""Transposed tiles: vectors along an output loop that is not the contiguous one.

    for c < 256: for x < 49:                for c_0 < 4: for x_0 < 7:
        … w[c, k] * v[k, x] …                   for k: s[64 c × 7 x] += w'[c_0, k, c_1] * v[k, x]
                                                store s, transposed

The contiguous loop of the output (x) may fit no vectors, as in images of 7 × 7, while another one
(c, the channels) does. The operand along that loop is not contiguous in it; but a constant is
pre-packed once, before all calls. Accumulators then hold columns of the output: the epilogue keeps
them in a local buffer, reads them transposed, and stores rows.
"""

from __future__ import annotations

import math

from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.actions.loop_substitution import is_part_of
from porism.optimize.actions.loops.loop_interchange import Move
from porism.optimize.actions.loops.loop_tiling import Split
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.actions.memory.epilogue import Epilogue
from porism.optimize.actions.memory.packed_panels import Pack
from porism.optimize.analysis.buffer_loads import loads_of
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.analysis.loop_strides import extent_of
from porism.optimize.model.contraction_cost import TRANSPOSED_LANES, power_of_two
from porism.optimize.model.tile_plan import TilePlan
from porism.optimize.strategy.action_plan import Plan, copy_width
from porism.optimize.strategy.contractions.flattened_tiles import unroll_unmasked_loop


def apply_transposed_tile(plan: Plan, contraction: Contraction, tile: TilePlan) -> None:
    """Apply the actions of a transposed tile to a plan."""
    axis = show(tile.vector_loop)
    panels = extent_of(tile.vector_loop) // tile.lanes
    plan.do(Upcast(axis, tile.lanes))
    inner = f"{axis}_1" if panels > 1 else axis
    outer = _move_panels_outermost(plan, tile, panels) if panels > 1 else ""
    _split_packed_loop(plan, tile, (outer, inner))
    constant, *windows = tile.packed
    for operand in windows:
        _pack_windows(plan, contraction, operand)
    _pack_constant(plan, contraction, constant, tile.vector_loop, inner)
    if tile.m_loop is not None and tile.m > 1:
        plan.do(Upcast(show(tile.m_loop), tile.m))
    _transpose_epilogue(plan, tile)
    if outer:
        plan.do(Thread(outer))


def _move_panels_outermost(plan: Plan, tile: TilePlan, panels: int) -> str:
    """Move the loop over panels, or over cores with their panels, outermost; return its name."""
    outer, cores = f"{show(tile.vector_loop)}_0", plan.target.cores
    if len(tile.packed) > 1 and panels > cores and panels % cores == 0:
        plan.do(Split(outer, panels // cores))  # a core packs its copy once for all of its panels
        outer = f"{outer}_0"
    outermost = show(plan.kernel.src[0].src[1])
    if outermost != outer:
        plan.do(Move(outer, outermost))
    return outer


def _split_packed_loop(plan: Plan, tile: TilePlan, others: tuple[str, str]) -> None:
    """Split the loop of packed copies, and move the copies outside the panels of a core.

    `others` are the parts of the vectorized loop that are not the loop over those panels.
    """
    if tile.shared_loop is None or tile.shared >= extent_of(tile.shared_loop):
        return
    parts = [show(r) for r in plan.kernel.src[0].src[1:] if is_part_of(r, tile.vector_loop)]
    plan.do(Split(show(tile.shared_loop), tile.shared))
    panels_of_core = [name for name in parts if name not in others]
    if panels_of_core:
        plan.do(Move(f"{show(tile.shared_loop)}_0", panels_of_core[0]))


def _pack_constant(
    plan: Plan, contraction: Contraction, constant: Operand, vector_loop: UOp, lanes: str
) -> None:
    """Pack the constant operand into panels of lanes for all k."""
    which = next(
        k
        for k, n in enumerate(loads_of(plan.kernel, constant.buffer))
        if any(is_part_of(r, vector_loop) for r in n.ranges)
    )
    k_loops = map(show, contraction.k_loops)
    plan.do(Pack(constant.buffer, (*k_loops, lanes), which))


def _transpose_epilogue(plan: Plan, tile: TilePlan) -> None:
    """Vectorize the epilogue along the contiguous loop of the output, if that is legal."""
    loops = plan.try_create_loops(Epilogue(1, transposed=True))
    if loops:
        across, along = loops
        plan.pad(along, power_of_two(tile.m))
        plan.do(Upcast(along, power_of_two(tile.m)))
        plan.do(Upcast(across, math.gcd(tile.lanes, TRANSPOSED_LANES)))


def _pack_windows(plan: Plan, contraction: Contraction, o: Operand) -> None:
    """Pack the operand that is read in overlapping windows, each element once."""
    taps: set[UOp] = set()
    sums = []
    loops = plan.loops()
    for output in contraction.outputs:
        window = o.window(output, contraction.k_loops)
        if window is not None:
            taps.add(window[0])
            factor = "" if window[1] == 1 else f"{window[1]}*"
            name = show(output) if show(output) in loops else f"{show(output)}_1"
            sums.append(f"{show(window[0])}+{factor}{name}")
    k_loops = [r for r in contraction.k_loops if r not in taps and r in o.ranges]
    pack = Pack(o.buffer, (*map(show, k_loops), *sums), o.load_number, row=1)
    packing_loops = plan.create_loops(pack)
    width = copy_width(extent_of(plan.loop(packing_loops[-1])))
    plan.pad(packing_loops[-1], width)
    plan.do(Upcast(packing_loops[-1], width))
    unroll_unmasked_loop(plan, o.value, dict(zip(k_loops, packing_loops, strict=False)))
