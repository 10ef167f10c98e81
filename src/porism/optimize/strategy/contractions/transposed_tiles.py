"""Transposed tiles: vectors along an output loop that is not the contiguous one.

    for c < 256: for x < 49:                for c_0 < 4: for x_0 < 7:
        … w[c, k] * v[k, x] …                   for k: s[64 c × 7 x] += w'[c_0, k, c_1] * v[k, x]
                                                store s, transposed

The contiguous loop of the output (x) may fit no vectors, as in images of 7 × 7, while another one
(c, the channels) does. The operand along that loop is not contiguous in it; but a constant is
pre-packed once, before all calls. Accumulators then hold columns of the output: the epilogue keeps
them in a local buffer, reads them transposed, and stores rows.

The panel of the constant is read from the L2 cache or from memory in order, so the estimate counts
its bytes; apart from that it counts cycles as `tile_costs` says.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from porism.base.target import Target
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
from porism.optimize.strategy.action_plan import Plan, copy_width
from porism.optimize.strategy.contractions.flattened_tiles import unroll_unmasked_loop
from porism.optimize.strategy.contractions.register_tiles import M_CHOICES
from porism.optimize.strategy.contractions.tile_costs import (
    DEFAULT_L2,
    FMA_LATENCY,
    L2_BANDWIDTH,
    OPERAND_REGISTERS,
    has_set_conflicts,
    load_imbalance,
)

LANE_CHOICES: Final = (16, 32, 48, 64)
"""Lanes of a tile that are compared, in sixteenths of a vector."""

TRANSPOSE_CYCLES: Final = 5.0
"""Cycles to transpose and store a vector (fitted by hand, as in `tile_costs`)."""

SCATTER_CYCLES: Final = 80.0
"""Cycles to store a vector element by element (fitted by hand)."""

MIN_TRANSPOSED: Final = 4
"""Rows and lanes of a tile that is transposed in registers, at least; others are scattered."""

TRANSPOSED_LANES: Final = 8
"""Lanes that are transposed together: 8 × 8 floats of 32 bits fill eight 256-bit registers."""

STREAM_BANDWIDTH: Final = 10.0
"""Bytes a cycle and core from the shared cache, if they are read in order (fitted by hand)."""

PACK_CYCLES: Final = 0.8
"""Cycles to pack an element that windows share (fitted by hand)."""


@dataclass(frozen=True, slots=True)
class TransposedTile:
    """A register tile of lanes along a strided output loop × m along the contiguous one."""

    cycles: float
    """Estimate, of all cores together."""
    vector_loop: UOp
    lanes: int
    m_loop: UOp
    """The loop that the output is contiguous along."""
    m: int
    constant: Operand
    """What is pre-packed: the operand along the vectorized loop."""
    packed: Operand | None
    """The other operand, if it is packed as well, for windows to share it."""
    packed_loop: UOp | None = None
    """A loop of which some iterations share a packed copy; None for one copy of all."""
    packed_iterations: int = 1


def best_transposed_tile(contraction: Contraction, target: Target) -> TransposedTile | None:
    """Return the transposed tile with the fewest estimated cycles; None if there is none."""
    return min(_tiles(contraction, target), key=lambda tile: tile.cycles, default=None)


def _tiles(contraction: Contraction, target: Target) -> Iterator[TransposedTile]:
    """Yield every transposed tile that is compared, with its estimate."""
    width = target.vector_bits[-1] // contraction.bits if target.vector_bits else 1
    if width < 2 or not contraction.constant_buffers:
        return
    if contraction.reductions != 1 or len(contraction.stores) != 1:
        return
    contiguous = [r for r in contraction.outputs if contraction.is_stored_along(r)]
    for vector_loop in contraction.outputs:
        operands = _constant_and_other(contraction, vector_loop)
        if vector_loop in contiguous or operands is None:
            continue
        constant, other = operands
        m_loops = [r for r in contiguous if r in other.ranges and r not in constant.ranges]
        for m_loop, lanes in itertools.product(m_loops, _fitting_lanes(vector_loop, width)):
            yield from _estimates(contraction, vector_loop, lanes, m_loop, constant, other, target)


def _fitting_lanes(vector_loop: UOp, width: int) -> list[int]:
    """Return the numbers of lanes that divide a loop, for vectors of `width` elements."""
    lane_counts = [sixteenths * width // 16 for sixteenths in LANE_CHOICES]
    return [n for n in lane_counts if extent_of(vector_loop) % n == 0]


def _constant_and_other(
    contraction: Contraction, vector_loop: UOp
) -> tuple[Operand, Operand] | None:
    """Return the operand along a loop if it can be pre-packed, and the other one; None if not."""
    along = [o for o in contraction.operands if vector_loop in o.ranges]
    others = [o for o in contraction.operands if vector_loop not in o.ranges]
    if len(along) != 1 or len(others) != 1:
        return None
    constant = along[0]
    if constant.is_masked or constant.buffer not in contraction.constant_buffers:
        return None
    return (constant, others[0]) if constant.ranges.issuperset(contraction.k_loops) else None


def _estimates(
    contraction: Contraction, vector_loop: UOp, lanes: int, m_loop: UOp, constant: Operand,
    other: Operand, target: Target,
) -> Iterator[TransposedTile]:  # fmt: skip
    """Yield the tiles for each m, with the cycles of all cores together."""
    vectors = lanes * contraction.bits // target.vector_bits[-1]
    outer = [r for r in contraction.outputs if r is not vector_loop]
    if any(r not in other.ranges or r in constant.ranges for r in outer):
        return
    packing = _packing(contraction, other, m_loop, target)
    if packing is None:
        return
    pack_cycles, packed_loop, packed_iterations = packing
    panels = extent_of(vector_loop) // lanes
    panel_bytes = lanes * contraction.k * constant.itemsize
    fits_l2 = panel_bytes <= max(target.memory.l2, DEFAULT_L2) * 3 // 4
    bandwidth = lanes * constant.itemsize / (L2_BANDWIDTH if fits_l2 else STREAM_BANDWIDTH)
    copies = target.cores if panels % target.cores == 0 else panels
    for m in M_CHOICES:
        if m * vectors > target.memory.registers - OPERAND_REGISTERS:
            break
        in_registers = vectors * m + (m if vectors > 1 else 0) < target.memory.registers
        if extent_of(m_loop) % m or not in_registers:  # neighbouring scalars are loaded together
            continue
        loads = vectors * 1.5 + m * 0.5
        per_k = max(m * vectors, loads, bandwidth, FMA_LATENCY) + 0.1 * loads + 1.0
        tiles = contraction.results / (lanes * m)
        epilogue = _epilogue_cycles(contraction, lanes, vectors, m)
        cycles = tiles * (contraction.k * per_k + 10 + epilogue)
        cycles = (cycles + pack_cycles * copies) * (1 + load_imbalance(panels, target.cores))
        yield TransposedTile(
            cycles, vector_loop, lanes, m_loop, m, constant, other if pack_cycles else None,
            packed_loop, packed_iterations,
        )  # fmt: skip


def _epilogue_cycles(contraction: Contraction, lanes: int, vectors: int, m: int) -> float:
    """Return the cycles from the accumulators of a tile to the stored results."""
    if not _is_transposed_in_registers(lanes, m):
        return SCATTER_CYCLES * vectors * m
    registers = max(_power_of_two(m) / TRANSPOSED_LANES, 1.0)
    return lanes * registers * (TRANSPOSE_CYCLES + 0.5 * contraction.epilogue_cost)


def _is_transposed_in_registers(lanes: int, m: int) -> bool:
    """Return whether the accumulators are transposed in registers before they are stored."""
    return m >= MIN_TRANSPOSED and lanes >= MIN_TRANSPOSED


def _power_of_two(m: int) -> int:
    """Return the lanes of the vectors that store m contiguous results, some of them masked."""
    return 1 << (m - 1).bit_length()


def _packing(
    contraction: Contraction, o: Operand, m_loop: UOp, target: Target
) -> tuple[float, UOp | None, int] | None:
    """Return the cycles to pack the other operand, a loop, and its iterations that share a copy.

    No cycles if the operand is read in place; None if that is slow, and it cannot be packed.
    """
    if not o.is_masked:
        return (0.0, None, 1) if _is_fast_in_place(contraction, o, target) else None
    windows = _windows_of_own_taps(contraction, o)
    if windows is None:
        return None
    limit = max(target.memory.l2, DEFAULT_L2) // 2
    packed_loop = next((r for r in windows if r is not m_loop), None)
    taps = {tap for tap, _ in windows.values()}
    channels = math.prod(extent_of(r) for r in contraction.k_loops if r not in taps)
    extent = 1 if packed_loop is None else extent_of(packed_loop)
    for rows in _divisors(extent):
        spans = [
            ((rows if r is packed_loop else extent_of(r)) - 1) * stride + extent_of(tap)
            for r, (tap, stride) in windows.items()
        ]
        elements = channels * math.prod(spans)
        if elements * o.itemsize <= limit:
            return elements * (extent // rows) * PACK_CYCLES, packed_loop, rows
    return None


def _is_fast_in_place(contraction: Contraction, o: Operand, target: Target) -> bool:
    """Return whether an operand is read in order along k, without cache-set conflicts."""
    k_loops = contraction.k_loops
    k_stride = max(abs(o.stride(r) or 0) for r in k_loops) * o.itemsize
    in_order = len(k_loops) == 1 or o.stride(k_loops[-1]) == 1
    return in_order and not has_set_conflicts(k_stride, contraction.k, target)


def _windows_of_own_taps(contraction: Contraction, o: Operand) -> dict[UOp, tuple[UOp, int]] | None:
    """Return the window of an operand along each of its output loops: its taps, and its stride.

    None if it has no window along one of them, or if two windows have the same taps.
    """
    windows = {}
    for loop in contraction.outputs:
        if loop in o.ranges:
            window = o.window(loop, contraction.k_loops)
            if window is None:
                return None
            windows[loop] = window
    return windows if len({tap for tap, _ in windows.values()}) == len(windows) else None


def _divisors(extent: int) -> list[int]:
    """Return the divisors of an extent, the largest first."""
    return [n for n in range(extent, 0, -1) if extent % n == 0]


def apply_transposed_tile(plan: Plan, contraction: Contraction, tile: TransposedTile) -> None:
    """Apply the actions of a transposed tile to a plan."""
    axis = show(tile.vector_loop)
    panels = extent_of(tile.vector_loop) // tile.lanes
    plan.do(Upcast(axis, tile.lanes))
    inner = f"{axis}_1" if panels > 1 else axis
    outer = _move_panels_outermost(plan, tile, panels) if panels > 1 else ""
    _split_packed_loop(plan, tile, (outer, inner))
    if tile.packed is not None:
        _pack_windows(plan, contraction, tile.packed)
    _pack_constant(plan, contraction, tile, inner)
    if tile.m > 1:
        plan.do(Upcast(show(tile.m_loop), tile.m))
    _transpose_epilogue(plan, tile)
    if outer:
        plan.do(Thread(outer))


def _move_panels_outermost(plan: Plan, tile: TransposedTile, panels: int) -> str:
    """Move the loop over panels, or over cores with their panels, outermost; return its name."""
    outer, cores = f"{show(tile.vector_loop)}_0", plan.target.cores
    if tile.packed is not None and panels > cores and panels % cores == 0:
        plan.do(Split(outer, panels // cores))  # a core packs its copy once for all of its panels
        outer = f"{outer}_0"
    outermost = show(plan.kernel.src[0].src[1])
    if outermost != outer:
        plan.do(Move(outer, outermost))
    return outer


def _split_packed_loop(plan: Plan, tile: TransposedTile, others: tuple[str, str]) -> None:
    """Split the loop of packed copies, and move the copies outside the panels of a core.

    `others` are the parts of the vectorized loop that are not the loop over those panels.
    """
    if tile.packed_loop is None or tile.packed_iterations >= extent_of(tile.packed_loop):
        return
    parts = [show(r) for r in plan.kernel.src[0].src[1:] if is_part_of(r, tile.vector_loop)]
    plan.do(Split(show(tile.packed_loop), tile.packed_iterations))
    panels_of_core = [name for name in parts if name not in others]
    if panels_of_core:
        plan.do(Move(f"{show(tile.packed_loop)}_0", panels_of_core[0]))


def _pack_constant(plan: Plan, contraction: Contraction, tile: TransposedTile, lanes: str) -> None:
    """Pack the constant operand into panels of lanes for all k."""
    which = next(
        k
        for k, n in enumerate(loads_of(plan.kernel, tile.constant.buffer))
        if any(is_part_of(r, tile.vector_loop) for r in n.ranges)
    )
    k_loops = map(show, contraction.k_loops)
    plan.do(Pack(tile.constant.buffer, (*k_loops, lanes), which))


def _transpose_epilogue(plan: Plan, tile: TransposedTile) -> None:
    """Vectorize the epilogue along the contiguous loop of the output, if that is legal."""
    in_registers = _is_transposed_in_registers(tile.lanes, tile.m)
    epilogue = Epilogue(1, transposed=True) if in_registers else Epilogue(tile.m)
    if not epilogue.is_legal(plan.kernel, plan.target):
        return
    epilogue_loops = plan.create_loops(epilogue)
    if in_registers:
        across, along = epilogue_loops
        plan.pad(along, _power_of_two(tile.m))
        plan.do(Upcast(along, _power_of_two(tile.m)))
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
