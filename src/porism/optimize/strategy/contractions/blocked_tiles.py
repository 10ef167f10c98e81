"""Blocked tiles: register tiles of a long reduction, in blocks whose operands stay in the L2 cache.

    for chunk of an output loop:               parallel
        t[results of the chunk] = 0            partial results in a local buffer
        for block of the outermost reduction axis:
            for each register tile of the chunk:
                t[tile] += …                   for all k of the block, as a tile plan says
        store t

A register tile alone reads, for all k, its rows and columns of the operands. Where k is so long
that no near cache holds an operand, each tile reads it from the cache that all cores share. Few
results of a long reduction, such as the derivative of a convolution by its kernel, fit the L2 cache
themselves, beside a block of both operands: each is then read from the shared cache once.

A blocked tile is compared with others by the cost of its tile for what one core does in
one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from porism.base.target import Target
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.actions.loop_substitution import replace_loops
from porism.optimize.actions.loops.loop_tiling import Split
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.reduction_blocking import Block
from porism.optimize.analysis.contraction_accesses import Contraction, Operand, match_contraction
from porism.optimize.analysis.loop_strides import extent_of
from porism.optimize.model.contraction_cost import ContractionCost
from porism.optimize.model.core_rates import core_rates
from porism.optimize.model.tile_plan import TilePlan
from porism.optimize.strategy.action_plan import Plan
from porism.optimize.strategy.contractions.tile_actions import loops_for_reuse, upcast
from porism.optimize.strategy.contractions.tile_plans import Candidate, output_candidates

MIN_BLOCK: Final = 128
"""Iterations of all reduction axes in a block, at least: partial results are loaded and stored once
for each block. Chosen by hand."""

L2_STALLS: Final = 0.2
"""Fraction of the time to load from the L2 cache that arithmetic does not hide; fitted by hand to
timings of derivatives of convolutions on two cores with AVX-512."""


@dataclass(frozen=True, slots=True)
class BlockedTile:
    """A register tile for what one core does in one block, and its estimate."""

    cycles: float
    """Of all cores together, for the whole contraction."""
    tile: TilePlan
    part: Contraction
    """What one core does in one block; its loops are named as those of the plan will be."""
    chunk_loop: UOp
    """The output loop of which each core has a chunk."""
    block_loop: UOp
    """The outermost reduction axis."""
    block: int
    """Iterations of it in a block."""


def best_blocked_tile(kernel: UOp, contraction: Contraction, target: Target) -> BlockedTile | None:
    """Return the blocked tile with the fewest estimated cycles; None if nothing can be blocked."""
    l2, block_loop = core_rates(target).l2, contraction.k_loops[0]
    partial_bytes = contraction.results * contraction.bits // 8 // target.cores
    if contraction.reductions > 1 or contraction.constant_buffers or target.cores < 2:
        return None
    if any(o.is_masked or block_loop not in o.ranges for o in contraction.operands):
        return None
    if partial_bytes > l2 // 2 or sum(map(_buffer_bytes, contraction.operands)) <= l2:
        return None
    choices = _choices(kernel, contraction, target)
    return min(choices, key=lambda blocked: blocked.cycles, default=None)


def _choices(kernel: UOp, contraction: Contraction, target: Target) -> Iterator[BlockedTile]:
    """Yield the best blocked tile for each output loop that the cores can share evenly."""
    block_loop = contraction.k_loops[0]
    for chunk_loop in contraction.outputs:
        chunk = extent_of(chunk_loop) // target.cores
        block = _largest_block(contraction, chunk_loop, target)
        if chunk < 2 or extent_of(chunk_loop) % target.cores or block is None:
            continue
        part = match_contraction(_shorten(kernel, {chunk_loop: chunk, block_loop: block}))
        if part is None:
            continue
        tiles = output_candidates(ContractionCost(part, replace(target, cores=1)))
        in_place = (t for t in tiles if _reads_rows_in_place(part, t))
        best = min(in_place, key=lambda t: t.cycles + _l2_stalls(part, t, target), default=None)
        if best is None or part.results <= best.m * best.columns.lanes:
            continue
        machine = target.machine
        read = sum(_block_bytes(o, chunk_loop, block_loop, target) for o in contraction.operands)
        partial = 2 * part.results * part.bits // 8
        cycles = best.cycles + partial / machine.l2_bandwidth + block * read / machine.l3_bandwidth
        parts = extent_of(block_loop) // block * target.cores
        yield BlockedTile(cycles * parts, best.plan, part, chunk_loop, block_loop, block)


def _reads_rows_in_place(part: Contraction, tile: Candidate) -> bool:
    """Return whether each operand of a tile is one contiguous row for each k, and not packed.

    Several windows in registers together were slower: 400 against 480 GFLOP/s (measured).
    """
    columns, packs = tile.columns, tile.column_cost.packed
    if packs or columns.n > 1 or columns.flattened_loop is not None:
        return False
    loops = (columns.vector_loop, tile.m_loop)
    return all(o.stride(r) in (0, 1) for o in part.operands for r in loops if r is not None)


def _l2_stalls(part: Contraction, tile: Candidate, target: Target) -> float:
    """Return the cycles of a block in which arithmetic waits for bytes from the L2 cache."""
    m, lanes = tile.m, tile.columns.lanes
    read = part.work / (m * lanes) * (m + lanes) * part.bits // 8
    return L2_STALLS * read / target.machine.l2_bandwidth


def _largest_block(contraction: Contraction, chunk_loop: UOp, target: Target) -> int | None:
    """Return the largest block whose operands fit half of the L2 cache; None if none does."""
    block_loop = contraction.k_loops[0]
    extent = extent_of(block_loop)
    read = sum(_block_bytes(o, chunk_loop, block_loop, target) for o in contraction.operands)
    limit = core_rates(target).l2 // 2
    min_block = -(-MIN_BLOCK * extent // contraction.k)
    blocks = range(min(extent // 2, int(limit // read)), 0, -1)
    block = next((n for n in blocks if extent % n == 0), None)
    return block if block is not None and block >= min_block else None


def _block_bytes(operand: Operand, chunk_loop: UOp, block_loop: UOp, target: Target) -> float:
    """Return the bytes of an operand that one core reads in one iteration of the block loop."""
    cores = target.cores if chunk_loop in operand.ranges else 1
    return _buffer_bytes(operand) / extent_of(block_loop) / cores


def _buffer_bytes(operand: Operand) -> int:
    """Return the bytes of an operand that are read, without those that windows read again."""
    elements = int(base_of(operand.load).dtype.size)
    return min(elements, operand.elements) * operand.itemsize


def _shorten(kernel: UOp, extents: Mapping[UOp, int]) -> UOp:
    """Return a kernel with shorter loops, named as the inner part of such a loop that is split."""
    parts = {r: UOp.range(n, (*r.arg[0], 1), r.arg[1]) for r, n in extents.items()}
    return replace_loops(kernel, {r: (part, [part]) for r, part in parts.items()})


def apply_blocked_tile(plan: Plan, blocked: BlockedTile) -> None:
    """Apply the actions of a blocked tile to a plan."""
    tile, chunk_axis = blocked.tile, show(blocked.chunk_loop)
    plan.do(Split(chunk_axis, extent_of(blocked.chunk_loop) // plan.target.cores))
    upcast(plan, tile.m_loop, tile.m)
    upcast(plan, tile.vector_loop, tile.lanes)
    loops = [r for r in plan.kernel.src[0].src[1:] if r.arg[1] is Axis.LOOP]
    chunks = plan.loop(f"{chunk_axis}_0")
    inner = loops_for_reuse(plan, blocked.part, tile, [r for r in loops if r is not chunks])
    plan.move_in_order([chunks, *inner])
    plan.do(Block(show(blocked.block_loop), blocked.block, show(inner[0])))
    plan.do(Thread(show(chunks)))
