"""Turned tiles: lanes along a loop that is not stored along, where constants are laid out for them.

    for c < 256: for x < 49: … w[c, k] * v[k, x] …    for c_0 < 4: w', laid out once
                                                          tile of 64 c, 7 x: … w'[c_0, k, c_1] …

What is stored along may fit no vectors, while another loop does. Its operand jumps from lane to
lane; but a constant is laid out once, before all calls. The sums are turned before they are stored:
they are kept in memory, and read again in parts of as many rows as columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from porism.base.target import Target
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.actions.epilogue import Finish
from porism.optimize.actions.loop_actions import Move, Split, Thread, Upcast
from porism.optimize.actions.loop_transforms import is_part_of
from porism.optimize.actions.packed_panels import Stage, loads_of
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.strategy.action_plan import Plan, copy_width, extent_of
from porism.optimize.strategy.flat_tiles import unroll_unmasked_loop
from porism.optimize.strategy.register_tiles import (
    FROM_L2,
    LATENCY,
    MEMORY,
    ROWS,
    SPARE,
    Tile,
    is_crowded,
    load_imbalance,
)

LANES: Final = (16, 32, 48, 64)

TURNING: Final = 5.0
"""Cycles to turn and store a vector of some rows of one lane."""

SCATTERING: Final = 80.0
"""Cycles to store a vector of sums of which each element has a place of its own."""

FEWEST: Final = 4
"""Rows of a tile that is turned; with fewer, each element is stored on its own."""

ACROSS: Final = 8
"""Lanes that are turned together."""

IN_ORDER: Final = 10.0
"""Bytes in a cycle from a cache that is shared, if they are read one after the other."""

COPYING: Final = 0.8
"""Cycles to copy an element of what windows share."""


def best_transposed_tile(found: Contraction, target: Target) -> Tile | None:
    """The turned tile with the fewest cycles by the estimate."""
    return min(_tiles(found, target), key=lambda tile: tile.cycles, default=None)


def _tiles(found: Contraction, target: Target) -> Iterator[Tile]:
    width = target.vector_bits[-1] // found.bits if target.vector_bits else 1
    if width < 2 or found.reductions != 1 or not found.constants or len(found.stores) != 1:
        return
    rows = [r for r in found.outputs if found.is_stored_along(r)]
    for lane in found.outputs:
        along = [o for o in found.operands if lane in o.ranges]
        others = [o for o in found.operands if lane not in o.ranges]
        if lane in rows or len(along) != 1 or len(others) != 1 or along[0].is_masked:
            continue
        if along[0].buffer not in found.constants or not set(found.terms) <= along[0].ranges:
            continue
        for row in rows:
            if row in along[0].ranges or row not in others[0].ranges:
                continue
            for sixteenths in LANES:
                lanes = sixteenths * width // 16
                if lanes >= width and extent_of(lane) % lanes == 0:
                    yield from _estimates(found, lane, lanes, row, along[0], others[0], target)


def _estimates(
    found: Contraction, lane: UOp, lanes: int, row: UOp, constant: Operand, other: Operand,
    target: Target,
) -> Iterator[Tile]:  # fmt: skip
    """The cycles of all cores together, about."""
    vectors = lanes * found.bits // target.vector_bits[-1]
    loops = [r for r in found.outputs if r is not lane and r not in other.ranges]
    parts = extent_of(lane) // lanes
    if loops or any(r in constant.ranges for r in found.outputs if r is not lane):
        return
    made = _copied(found, other, row, target)
    if made is None:
        return
    copied, high, times = made
    panel = lanes * found.length * constant.item
    near = panel <= max(target.memory.l2, MEMORY) * 3 // 4
    fetched = lanes * constant.item / (FROM_L2 if near else IN_ORDER)
    copies = target.cores if parts % target.cores == 0 else parts
    for rows in ROWS:
        if rows * vectors > target.memory.registers - SPARE:
            break
        if extent_of(row) % rows:
            continue
        reads = vectors * 1.5 + rows * 0.5
        each = max(rows * vectors, reads, fetched, LATENCY) + 0.1 * reads + 1.0
        tiles = found.results / (lanes * rows)
        cycles = tiles * (found.length * each + 10 + _finishing(found, lanes, vectors, rows))
        cycles = (cycles + copied * copies) * (1 + load_imbalance(parts, target.cores))
        staged = (constant, other) if copied else (constant,)
        yield Tile(cycles, lane, lanes, row, rows, high, times, staged, turned=True)


def _finishing(found: Contraction, lanes: int, vectors: int, rows: int) -> float:
    """The cycles from the sums of a tile to what is stored."""
    if not _is_turned(lanes, rows):
        return SCATTERING * vectors * rows
    wide = max(_padded(rows) / ACROSS, 1.0)
    return lanes * wide * (TURNING + 0.5 * found.following)


def _is_turned(lanes: int, rows: int) -> bool:
    """Whether the sums of a tile are turned in registers."""
    return rows >= FEWEST and lanes >= FEWEST


def _padded(rows: int) -> int:
    """The lanes of what is stored for some rows."""
    return 1 << (rows - 1).bit_length()


def _copied(
    found: Contraction, o: Operand, row: UOp, target: Target
) -> tuple[float, UOp | None, int] | None:
    """The cycles to copy what windows share, and a loop of which some iterations share a copy.

    No cycles if it is read in place; None if that is slow.
    """
    if not o.is_masked:
        apart = max(abs(o.step(r) or 0) for r in found.terms) * o.item
        in_order = len(found.terms) == 1 or o.step(found.terms[-1]) == 1
        slow = not in_order or is_crowded(apart, found.length, target)
        return None if slow else (0.0, None, 1)
    windows = {r: o.window(r, found.terms) for r in found.outputs if r in o.ranges}
    used = {window[0] for window in windows.values() if window is not None}
    if None in windows.values() or len(used) < len(windows):
        return None
    limit = max(target.memory.l2, MEMORY) // 2
    high = next((r for r in windows if r is not row), None)
    sizes = [extent_of(r) for r in found.terms if r not in used]
    for times in _divisors(1 if high is None else extent_of(high)):
        spans = [
            ((times if r is high else extent_of(r)) - 1) * window[1] + extent_of(window[0])
            for r, window in windows.items()
            if window is not None
        ]
        elements = math.prod(sizes) * math.prod(spans)
        if elements * o.item <= limit:
            parts = 1 if high is None else extent_of(high) // times
            return elements * parts * COPYING, high, times
    return None


def _divisors(size: int) -> list[int]:
    """The largest first."""
    return [n for n in range(size, 0, -1) if size % n == 0]


def turned(plan: Plan, found: Contraction, tile: Tile) -> None:
    """Do what a turned tile takes."""
    assert tile.row is not None, "a turned tile has rows"
    lane, row, cores = show(tile.lane), show(tile.row), plan.target.cores
    constant, *others = tile.staged
    parts = extent_of(tile.lane) // tile.lanes
    plan.do(Upcast(lane, tile.lanes))
    loops = list(plan.kernel.src[0].src[1:])
    inner = f"{lane}_1" if parts > 1 else lane
    outer = f"{lane}_0" if parts > 1 else ""
    if others and parts > cores and parts % cores == 0:  # a core makes its copies once
        plan.do(Split(outer, parts // cores))
        loops = list(plan.kernel.src[0].src[1:])
        outer = f"{outer}_0"
    if outer and show(loops[0]) != outer:
        plan.do(Move(outer, show(loops[0])))
    if tile.more is not None and tile.times < extent_of(tile.more):
        plan.do(Split(show(tile.more), tile.times))
        around = f"{show(tile.more)}_0"
        inside = [show(r) for r in loops if is_part_of(r, tile.lane)]
        inside = [name for name in inside if name not in (outer, inner)]
        if inside:
            plan.do(Move(around, inside[0]))
    for other in others:
        _copy(plan, found, other)
    terms = tuple(show(r) for r in found.terms)
    which = next(
        k
        for k, n in enumerate(loads_of(plan.kernel, constant.buffer))
        if any(is_part_of(r, tile.lane) for r in n.ranges)
    )
    plan.do(Stage(constant.buffer, (*terms, inner), which))
    if tile.rows > 1:
        plan.do(Upcast(row, tile.rows))
    _finish(plan, tile)
    if outer:
        plan.do(Thread(outer))


def _finish(plan: Plan, tile: Tile) -> None:
    """What follows the sums, in lanes along what is stored."""
    is_turned = _is_turned(tile.lanes, tile.rows)
    finish = Finish(1, turned=True) if is_turned else Finish(tile.rows)
    if not finish.is_legal(plan.kernel, plan.target):
        return
    before = set(plan.loops())
    plan.do(finish)
    if is_turned:
        across, along = sorted(set(plan.loops()) - before, key=lambda name: int(name[1:]))
        plan.pad(along, _padded(tile.rows))
        plan.do(Upcast(along, _padded(tile.rows)))
        plan.do(Upcast(across, math.gcd(tile.lanes, ACROSS)))


def _copy(plan: Plan, found: Contraction, o: Operand) -> None:
    """What windows share, copied once."""
    used: set[UOp] = set()
    names = []
    loops = plan.loops()
    for out in found.outputs:
        window = o.window(out, found.terms)
        if window is not None:
            used.add(window[0])
            factor = "" if window[1] == 1 else f"{window[1]}*"
            name = show(out) if show(out) in loops else f"{show(out)}_1"
            names.append(f"{show(window[0])}+{factor}{name}")
    terms = [r for r in found.terms if r not in used and r in o.ranges]
    before = set(plan.loops())
    plan.do(Stage(o.buffer, (*map(show, terms), *names), o.which, row=1))
    fresh = sorted(set(plan.loops()) - before, key=lambda name: int(name[1:]))
    width = copy_width(extent_of(plan.loop(fresh[-1])))
    plan.pad(fresh[-1], width)
    plan.do(Upcast(fresh[-1], width))
    unroll_unmasked_loop(plan, o.value, dict(zip(terms, fresh, strict=False)))
