"""Tiling: the actions that make a tile of a contraction what is computed together."""

from __future__ import annotations

import math
from typing import Final

from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.actions.epilogue import Finish, instructions, side_by_side
from porism.optimize.actions.loop_actions import Cover, Move, PadTo, Split, Thread, Unroll, Upcast
from porism.optimize.actions.loop_transforms import is_part_of
from porism.optimize.actions.merge_loops import Merge
from porism.optimize.actions.packed_panels import Stage, load_of, loads_of, prepared
from porism.optimize.actions.peeling import Peel
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.analysis.loop_strides import iterations
from porism.optimize.strategy.action_plan import COPIED, Plan, copy_width, extent_of
from porism.optimize.strategy.flat_tiles import (
    flat_lanes,
    flat_rows,
    is_inside,
    unroll_unmasked_loop,
)
from porism.optimize.strategy.prefetch_placement import insert_prefetches
from porism.optimize.strategy.register_tiles import (
    UNEVEN,
    Tile,
    counts_on,
    is_by_rows,
    is_peeled,
    load_imbalance,
)

PARALLEL_WORK: Final = 1 << 17
"""Terms from which on several cores are worth their starting."""

SHORT: Final = 4
"""Terms of a loop that is not worth being one."""

WIDEST: Final = 64
"""Lanes of a copy."""

NEAR: Final = 4
"""Elements from lane to lane, up to which vectors are made of wide loads."""

WRITTEN_OUT: Final = 256
"""Instructions that may follow the sums of a tile without a loop, in all."""


def tiled(plan: Plan, found: Contraction, tile: Tile) -> None:
    """Do what a tile takes."""
    if tile.divided and found.work >= PARALLEL_WORK:
        _divided(plan, tile)
    else:
        together(plan, tile.row, tile.rows)
    together(plan, tile.more, tile.times)
    if tile.within:
        _terms_together(plan, found, tile)
        _order(plan, found, tile)
    elif tile.flat is not None:
        flat_rows(plan, tile)
        _order(plan, found, tile)
        axis = show(flat_lanes(plan, found, tile))
        plan.pad(axis, tile.lanes)
        plan.do(Upcast(axis, tile.lanes))
        if all(o in tile.staged or counts_on(o, found) for o in found.operands):
            _one_loop(plan, found)
    else:
        whole = extent_of(tile.lane) < tile.lanes  # beyond the end a copy needs no mask
        if not whole:
            together(plan, tile.lane, tile.lanes)
        _order(plan, found, tile)
        shared = [_stage(plan, found, tile, o) for o in tile.staged]
        if whole:
            together(plan, tile.lane, tile.lanes)
        one = all(o in tile.staged or counts_on(o, found) for o in found.operands)
        if one and not any(shared):
            _one_loop(plan, found)
        elif 1 < extent_of(found.terms[-1]) <= SHORT and len(found.terms) > 1:
            plan.do(Unroll(show(found.terms[-1]), extent_of(found.terms[-1])))
    _finish(plan, found)
    if found.work >= PARALLEL_WORK:
        share(plan)
    if tile.within:
        insert_prefetches(plan)


def _terms_together(plan: Plan, found: Contraction, tile: Tile) -> None:
    """Lanes along the terms; those that are left over on their own."""
    axis = show(tile.lane)
    if not is_peeled(found, tile.lane, tile.lanes):
        plan.pad(axis, tile.lanes)
        plan.do(Unroll(axis, tile.lanes))
        return
    plan.do(Peel(axis, tile.lanes))
    plan.do(Unroll(f"{axis}_0", tile.lanes))
    axis = f"{axis}_1"
    pad = PadTo(axis, plan.target.vector_bits[-1] // found.bits)
    if pad.is_legal(plan.kernel, plan.target):
        plan.do(pad)
    if extent_of(plan.loop(axis)) > 1:
        plan.do(Unroll(axis, extent_of(plan.loop(axis))))


def _finish(plan: Plan, found: Contraction) -> None:
    """What follows the sums in a loop, where it would be too much to be written out for each."""
    end = plan.kernel.src[0]
    width = plan.target.vector_bits[-1] // found.bits
    vectors = side_by_side(end) // width
    finish = Finish(width)
    if vectors * instructions(end) > WRITTEN_OUT and finish.is_legal(plan.kernel, plan.target):
        plan.do(finish)


def share(plan: Plan) -> None:
    """The outermost loop shared among the cores."""
    ranges = plan.kernel.src[0].src[1:]
    loops = [r for r in ranges if r.arg[1] is Axis.LOOP]
    if loops:
        if loops[0] is not ranges[0]:
            plan.do(Move(show(loops[0]), show(ranges[0])))
        plan.do(Thread(show(loops[0])))


def _divided(plan: Plan, tile: Tile) -> None:
    """The loop of the rows in a part for each core."""
    assert tile.row is not None, "a loop that is divided"
    axis, size = show(tile.row), extent_of(tile.row)
    chunk = -(-size // (plan.target.cores * tile.rows)) * tile.rows
    if chunk >= size:
        together(plan, tile.row, tile.rows)
        return
    plan.do(Cover(axis, chunk) if size % chunk else Split(axis, chunk))
    if tile.rows > 1:
        plan.do(Upcast(f"{axis}_1", tile.rows))


def together(plan: Plan, counter: UOp | None, amount: int) -> None:
    """Some iterations of a loop side by side."""
    if counter is None or amount < 2:
        return
    axis = show(counter)
    size = extent_of(counter)
    if size < amount:
        plan.do(PadTo(axis, amount))
    if size <= amount or size % amount == 0:
        plan.do(Upcast(axis, amount))
    else:
        plan.do(Cover(axis, amount))
        plan.do(Upcast(f"{axis}_1", amount))


def _order(plan: Plan, found: Contraction, tile: Tile) -> None:
    """The loops of rows inside of the others; one that all cores can share outermost."""
    loops = [
        r
        for r in plan.kernel.src[0].src[1:]
        if r.arg[1] is Axis.LOOP and r is not tile.lane and not is_inside(r, tile)
    ]
    wanted = _nested(plan, found, tile, loops)
    cores = plan.target.cores
    parts = [r for r in loops if tile.row is not None and r.arg[0] == (*tile.row.arg[0], 0)]
    if tile.divided and parts:
        wanted = [*parts, *(r for r in wanted if r not in parts)]
    elif wanted and load_imbalance(extent_of(wanted[0]), cores) >= UNEVEN:
        even = [r for r in wanted if load_imbalance(extent_of(r), cores) < UNEVEN]
        first = even[0] if even else min(wanted, key=lambda r: load_imbalance(extent_of(r), cores))
        wanted = [first, *(r for r in wanted if r is not first)]
    for place, counter in enumerate(wanted):
        if loops[place] is not counter:
            plan.do(Move(show(counter), show(loops[place])))
            loops.remove(counter)
            loops.insert(place, counter)


def _nested(plan: Plan, found: Contraction, tile: Tile, loops: list[UOp]) -> list[UOp]:
    """The loops around a tile, the outermost first."""
    origin = {r: _origin(r, found) for r in loops}
    if tile.within:  # what is largest is read once
        largest = max(found.operands, key=lambda o: iterations(o.ranges))
        return sorted(loops, key=lambda r: origin[r] not in largest.ranges)
    along = [o for o in found.operands if tile.lane in o.ranges]
    rows = [r for r in loops if not any(origin[r] in o.ranges for o in along)]
    each = [r for r in loops if all(origin[r] in o.ranges for o in found.operands)]
    rest = [r for r in loops if r not in rows and r not in each]
    if not tile.staged and is_by_rows(found, along, tile.lane, tile.more, plan.target):
        apart = [r for r in rest if origin[r] is not tile.lane and origin[r] is not tile.more]
        return [*each, *apart, *rows, *(r for r in rest if r not in apart)]
    return [*each, *rest, *rows]


def _stage(plan: Plan, found: Contraction, tile: Tile, operand: Operand) -> bool:
    """Copy what an operand reads in a tile for all terms; whether windows share what is copied."""
    lane = next(
        r
        for r in plan.loops().values()
        if r is tile.lane or (r.arg[1] is Axis.UPCAST and is_part_of(r, tile.lane))
    )
    loads = loads_of(plan.kernel, operand.buffer)
    which = next(k for k, load in enumerate(loads) if lane in load.ranges)  # not copied yet
    value = prepared(plan.kernel, loads[which])
    side = [r for r in value.ranges if r.arg[1] is Axis.UPCAST]
    terms = [r for r in found.terms if r in value.ranges]
    inner = [*(r for r in side if r is not lane), lane]
    for shared in (True, False):
        names, used = [], set()
        for counter in inner:
            name = show(counter)
            window = operand.window(_origin(counter, found), terms) if shared else None
            if (
                window is not None
                and window[0] not in used
                and (window[1] == 1 or counter is not lane)
            ):
                used.add(window[0])
                factor = "" if window[1] == 1 else f"{window[1]}*"
                name = f"{show(window[0])}+{factor}{name}"
            names.append(name)
        if shared and not used:
            continue
        axes = [*(show(r) for r in terms if r not in used), *names]
        stage = Stage(operand.buffer, tuple(axes), which, row=int(shared or lane is tile.lane))
        if shared and not stage.is_legal(plan.kernel, plan.target):
            continue
        before = set(plan.loops())
        plan.do(stage)
        fresh = sorted(set(plan.loops()) - before, key=lambda name: int(name[1:]))
        if shared:
            _copy_rows(plan, fresh[-1])
            apart = [r for r in terms if r not in used]
            unroll_unmasked_loop(plan, value, dict(zip(apart, fresh, strict=False)))
        else:
            _copy_in_vectors(plan, dict(zip([*terms, *inner], fresh, strict=True)), lane, value)
        return shared
    return False


def _origin(counter: UOp, found: Contraction) -> UOp:
    """The output loop that a range is a part of."""
    return next(r for r in found.outputs if is_part_of(counter, r))


def _copy_rows(plan: Plan, axis: str) -> None:
    """A copy along neighbours, in vectors that may be longer than what is left."""
    width = copy_width(extent_of(plan.loop(axis)))
    if extent_of(plan.loop(axis)) >= width // 2:
        plan.pad(axis, width)
        plan.do(Upcast(axis, width))


def _copy_in_vectors(plan: Plan, fresh: dict[UOp, str], lane: UOp, value: UOp) -> None:
    """A copy in vectors along its lanes, or along what is neighbours in memory and then turned."""
    operand = Operand(value, load_of(value), 0, 0)
    size = extent_of(lane)
    amount = next((n for n in (size, 64, 48, 32, 16, 8, 4) if size % n == 0 and n <= WIDEST), 1)
    step = operand.step(lane)
    if step is not None and abs(step) <= NEAR and size % (COPIED // 2):
        _copy_rows(plan, fresh[lane])
        return
    if amount == 1 or step is None:
        return
    if abs(step) > NEAR:
        across = [r for r in fresh if operand.step(r) == 1 and r is not lane]
        other = next((n for n in (16, 8, 4) if across and extent_of(across[-1]) % n == 0), 1)
        if other == 1:
            return
        plan.do(Upcast(fresh[across[-1]], other))
        amount = math.gcd(amount, COPIED)
    plan.do(Upcast(fresh[lane], amount))


def _one_loop(plan: Plan, found: Contraction) -> None:
    """All loops of the reduction as one."""
    terms = [show(r) for r in found.terms]
    while len(terms) > 1:
        *rest, outer, inner = terms
        before = set(plan.loops())
        plan.do(Merge(outer, inner))
        (merged,) = set(plan.loops()) - before
        terms = [*rest, merged]
