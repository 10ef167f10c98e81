"""Flat tiles: lanes along two loops of the output that count on, where one of them fits no vectors.

    for y < 28: for x < 28: … w[y + k, x + l] …    for y_0 < 7: copy of the windows of 4 rows
                                                        for t < 112: … copy[k, l, t] …

What is read for some rows is copied, each window on its own, so that the lanes do not see where a
row ends. That pays if each element of the copy is read for many rows of the other operand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.loop_actions import Cover, Split, Upcast
from porism.optimize.actions.merge_loops import Merge
from porism.optimize.actions.packed_panels import ROW_BYTES, Stage, loads_of, prepared
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.analysis.loop_strides import iterations
from porism.optimize.strategy.action_plan import Plan, copy_width, extent_of
from porism.optimize.strategy.register_tiles import (
    FROM_L2,
    FROM_L3,
    LANES,
    LATENCY,
    MEMORY,
    ROW_LANES,
    ROWS,
    SPARE,
    STREAMS,
    WAYS,
    Tile,
    alike,
    finishing,
    padding_ratio,
    shared,
)

FEW_ROWS: Final = 32
"""Of the other operand, below which a copy of all windows does not pay."""

WITH_A_MASK: Final = (4, 2)
"""Vectors that are copied with the same mask, the best first."""

WASTE: Final = 1.2
"""How much more may be computed because the parts do not fit."""


def best_flattened_tile(found: Contraction, target: Target) -> Tile | None:
    """The flat tile with the fewest cycles by the estimate."""
    return min(flattened_tiles(found, target), key=lambda tile: tile.cycles, default=None)


def flattened_tiles(found: Contraction, target: Target) -> Iterator[Tile]:
    """All flat tiles that there are estimates of."""
    width = target.vector_bits[-1] // found.bits if target.vector_bits else 1
    for high, lane in zip(found.outputs, found.outputs[1:], strict=False):
        if width >= 2 and found.is_stored_on(high, lane):
            yield from _tiles(found, high, lane, width, target)


def _tiles(found: Contraction, high: UOp, lane: UOp, width: int, target: Target) -> Iterator[Tile]:
    along = [o for o in found.operands if lane in o.ranges or high in o.ranges]
    others = [o for o in found.operands if o not in along]
    if not along or not all({lane, high} <= o.ranges for o in along):
        return
    if all(o.step(lane) == 1 and not o.is_masked for o in along) and extent_of(lane) % width == 0:
        return
    for row in found.outputs:
        if extent_of(row) < FEW_ROWS or any(row in o.ranges for o in along):
            continue
        if any(row in o.ranges for o in others):
            yield from _flat(found, lane, high, row, width, target, along, others)


def _flat(
    found: Contraction, lane: UOp, high: UOp, row: UOp, width: int, target: Target,
    along: list[Operand], others: list[Operand],
) -> Iterator[Tile]:  # fmt: skip
    terms = iterations(found.terms)
    limit = max(target.memory.l2, MEMORY) // 2
    line = ROW_BYTES // along[0].item
    size, height = extent_of(lane), extent_of(high)
    heights = [
        h
        for h in range(2, height + 1)
        if padding_ratio(height, h) <= WASTE and -(-h * size // line) * ROW_BYTES * terms <= limit
    ]
    most = (target.memory.registers - SPARE) // found.reductions
    for count in LANES:
        lanes = count * width // 16
        fitting = [h for h in heights if h * size >= lanes * 3 // 4]
        if count > ROW_LANES or lanes < 4 or not fitting:
            continue
        vector = min(math.gcd(lanes, 4 * width), width)
        vectors, share = lanes // vector, max(vector / width, 0.5)
        together = min(
            fitting, key=lambda h: padding_ratio(height, h) * padding_ratio(h * size, lanes)
        )
        waste = padding_ratio(height, together) * padding_ratio(together * size, lanes)
        if waste > WASTE:
            continue
        copying = sum(
            iterations(o.ranges) * padding_ratio(height, together) * _price(o) for o in along
        )
        loops = [r for r in found.outputs if r in along[0].ranges and r is not lane]
        sizes = [-(-height // together) if r is high else extent_of(r) for r in loops]
        outer = [n for n in sizes if n > 1]
        panel = -(-together * size // line) * ROW_BYTES * terms
        room = max(target.memory.l2, MEMORY) * 3 // 4 - panel
        streamed = sum(o.elements * o.item for o in others if o.elements * o.item > room)
        again = streamed * math.prod(outer) / FROM_L3
        bytes_read = sum(lanes * o.item for o in along)
        fetched = bytes_read / FROM_L2 if bytes_read * terms > target.memory.l1 // 2 else 0.0
        for rows in ROWS:
            if rows * vectors > most:
                break
            sums = vectors * rows * found.reductions * share
            reads = vectors * share * 1.5 * len(along)
            results = vectors * rows * found.reductions
            held = results + min(rows, vectors) < target.memory.registers
            for o in others:
                copies = rows if row in o.ranges else 1
                crowded = copies * alike(o.step(row), o.item) > WAYS / 2
                reads += (copies if held else results) * (1.5 if crowded else 0.5)
                if copies > STREAMS and o.elements * o.item > target.memory.l2 // 4:
                    sums *= 1.1
            each = max(sums, reads, fetched, LATENCY) + 0.05 * (reads + fetched) + 0.5
            tiles = iterations(found.outputs) * waste * padding_ratio(extent_of(row), rows)
            tiles /= lanes * rows
            cycles = tiles * (terms * each + 10 + finishing(found, vectors * rows, share)) + again
            cycles, divided = shared(cycles, copying, outer, extent_of(row), rows, target.cores)
            yield Tile(
                cycles, lane, lanes, row, rows, staged=tuple(along), divided=divided, flat=high,
                height=together,
            )  # fmt: skip


def _price(o: Operand) -> float:
    """Cycles to copy an element."""
    return 0.65 if o.is_masked else 0.3


def flat_rows(plan: Plan, tile: Tile) -> None:
    """Some iterations of the loop around the lanes apart from the others."""
    assert tile.flat is not None, "a flat tile"
    axis, size = show(tile.flat), extent_of(tile.flat)
    if tile.height < size:
        action = Cover if size % tile.height else Split
        plan.do(action(axis, tile.height))


def flat_lanes(plan: Plan, found: Contraction, tile: Tile) -> UOp:
    """Copy all windows of some rows, and make the rows one loop."""
    assert tile.flat is not None, "a flat tile"
    inner = (*tile.flat.arg[0], 1) if tile.height < extent_of(tile.flat) else tile.flat.arg[0]
    rows = next(r for r in plan.loops().values() if r.arg[0] == inner)
    for operand in tile.staged:
        loads = loads_of(plan.kernel, operand.buffer)
        which = next(k for k, load in enumerate(loads) if tile.lane in load.ranges)
        value = prepared(plan.kernel, loads[which])
        terms = [r for r in found.terms if r in value.ranges]
        before = set(plan.loops())
        plan.do(
            Stage(operand.buffer, (*map(show, terms), show(rows), show(tile.lane)), which, row=2)
        )
        fresh = sorted(set(plan.loops()) - before, key=lambda name: int(name[1:]))
        width = copy_width(extent_of(tile.lane))
        plan.pad(fresh[-1], width)
        plan.do(Upcast(fresh[-1], width))
        unroll_unmasked_loop(plan, value, dict(zip(terms, fresh, strict=False)))
    before = set(plan.loops())
    plan.do(Merge(show(rows), show(tile.lane)))
    (merged,) = set(plan.loops()) - before
    return plan.loop(merged)


def unroll_unmasked_loop(plan: Plan, value: UOp, loops: Mapping[UOp, str]) -> None:
    """Some iterations together of a loop of a copy that its masks do not depend on.

    `loops` are those of the copy, by what they are loops of in the value that is copied.
    """
    masked = {r for n in toposort(value) if n.op is ops.WHERE for r in n.src[0].ranges}
    for counter, axis in loops.items():
        amount = next((n for n in WITH_A_MASK if extent_of(counter) % n == 0), 1)
        if masked and counter not in masked and amount > 1:
            plan.do(Upcast(axis, amount))
            return


def is_inside(counter: UOp, tile: Tile) -> bool:
    """Whether a loop becomes one with that of the lanes."""
    if tile.flat is None or counter.arg[1] is not Axis.LOOP:
        return False
    own = tile.flat.arg[0]
    return bool(counter.arg[0] == ((*own, 1) if tile.height < extent_of(tile.flat) else own))
