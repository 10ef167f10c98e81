"""Strips: contractions with an operand that no near cache holds, in strips of columns.

A few rows times a large matrix take the time to read the matrix, and it is read well only if long
parts of its rows are. So a strip of many columns is computed together, a few terms at a time, with
the sums so far in memory: what is read of each row is as long as the strip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from porism.base.target import Target
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.actions.loop_actions import Cover, Move, Split, Upcast
from porism.optimize.actions.packed_panels import Stage, loads_of
from porism.optimize.actions.reduction_blocking import Block
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.strategy.action_plan import Plan, extent_of
from porism.optimize.strategy.prefetch_placement import insert_prefetches
from porism.optimize.strategy.register_tiles import load_imbalance
from porism.optimize.strategy.tile_actions import share, together

MOST_ROWS: Final = 24
"""Rows that are computed together, if the matrix comes from memory."""

FEW_ROWS, MANY_ROWS, MORE_ROWS = 3, 9, 16
"""Rows up to which it pays for a matrix in the last cache, and from which to which again: between
them, sums in registers read it as well."""

LONG: Final = 288
"""Terms from which on it pays for a matrix in the last cache: fewer are copied, or stay near."""

LONGEST: Final = 2048
"""Columns of a strip, about."""

SHORTEST: Final = 512
"""Columns of a matrix that is read in strips."""

PIECE: Final = 128
"""Columns whose time it takes to begin to read a row."""

TERMS, MORE_TERMS = 8, 16
"""Terms of a block: as many rows of the matrix are read in turn, more if they are used often."""

OFTEN: Final = 9
"""Rows that use a term, from which on it is often."""

VECTORS: Final = (1, 2, 3, 4)
"""Vectors of columns that are computed together, the best first."""

NEAR_VECTORS: Final = (2, 1, 3, 4)
"""The same for one row and a matrix in a cache."""

APART: Final = 5
"""Rows from which on their terms are copied together: they may be far apart."""

NEAR: Final = 4
"""A matrix of which so many fit the last cache is there from call to call."""

SPARE: Final = 6
"""Registers that are not for results."""


@dataclass(frozen=True, slots=True)
class Strips:
    """How a contraction is computed in strips."""

    lane: UOp
    lanes: int
    length: int
    """Columns of a strip."""
    row: UOp | None
    terms: int
    """Terms of a block."""


def best(found: Contraction, target: Target) -> Strips | None:
    """The strips for a contraction of a few rows with a large matrix; None of another."""
    if len(found.terms) != 1 or found.reductions != 1 or not target.vector_bits:
        return None
    for lane in found.outputs:
        along = [o for o in found.operands if lane in o.ranges]
        if len(along) != 1 or along[0].buffer in found.constants:  # tiles of which lie in order
            continue
        if found.is_stored_along(lane) and _is_in_order(along[0], lane):
            rows = _rows(found, lane, along[0])
            if rows is not None and _pays(found, along[0], _product(rows), target):
                return _fitted(found, along[0], lane, rows, target)
    return None


def _is_in_order(matrix: Operand, lane: UOp) -> bool:
    """Whether the rows of a matrix are long, and read in order."""
    return not matrix.is_masked and matrix.step(lane) == 1 and extent_of(lane) >= SHORTEST


def _rows(found: Contraction, lane: UOp, matrix: Operand) -> list[UOp] | None:
    """The loop of the rows, none if there is one row; None if there are several such loops."""
    rows = [r for r in found.outputs if r is not lane and r not in matrix.ranges]
    others = [r for r in found.outputs if r is not lane and r in matrix.ranges]
    if len(rows) > 1 or any(r not in o.ranges for r in others for o in found.operands):
        return None
    return rows


def _pays(found: Contraction, matrix: Operand, rows: int, target: Target) -> bool:
    """Whether it is the matrix that takes time."""
    if not _is_near(matrix, target):
        return rows <= MOST_ROWS
    if found.length < LONG:
        return False
    size, cache = matrix.elements * matrix.item, target.memory.l2
    if rows <= FEW_ROWS:
        return size > cache * target.cores // 2
    return MANY_ROWS <= rows <= MORE_ROWS and size > cache // 2


def _is_near(matrix: Operand, target: Target) -> bool:
    """Whether a matrix is in the last cache from call to call."""
    return matrix.elements * matrix.item * NEAR <= target.memory.last_cache


def _product(rows: list[UOp]) -> int:
    return math.prod(extent_of(r) for r in rows)


def _fitted(
    found: Contraction, matrix: Operand, lane: UOp, loops: list[UOp], target: Target
) -> Strips | None:
    """The lanes and the length of a strip of which the least is computed in vain."""
    width = target.vector_bits[-1] // found.bits
    rows, size = _product(loops), extent_of(lane)
    terms = MORE_TERMS if rows >= OFTEN else TERMS
    batch = found.results // (size * rows)
    choices: list[tuple[float, int, int, int]] = []
    order = NEAR_VECTORS if rows == 1 and _is_near(matrix, target) else VECTORS
    for place, vectors in enumerate(order):
        if rows * vectors > target.memory.registers - SPARE:
            continue
        lanes = vectors * width
        for count in range(1, 2 * target.cores * -(-size // LONGEST) + 1):
            length = -(-size // (count * lanes)) * lanes
            if lanes < length <= LONGEST * 9 // 8:
                waste = count * length / size * (1 + load_imbalance(batch * count, target.cores))
                choices.append((waste * (1 + PIECE / length), place, lanes, length))
    if not choices or found.length <= terms or width < 2:
        return None
    _, _, lanes, length = min(choices)
    return Strips(lane, lanes, length, loops[0] if loops else None, terms)


def in_strips(plan: Plan, found: Contraction, chosen: Strips) -> None:
    """Do what strips take."""
    if chosen.row is not None:
        together(plan, chosen.row, extent_of(chosen.row))
    axis, size = show(chosen.lane), extent_of(chosen.lane)
    if chosen.length < size:
        cut = Cover if size % chosen.length else Split
        plan.do(cut(axis, chosen.length))
        axis = f"{axis}_1"
        plan.do(Upcast(axis, chosen.lanes))
    else:
        together(plan, chosen.lane, chosen.lanes)
    inner = f"{axis}_0"
    ranges = plan.kernel.src[0].src[1:]
    first = next(r for r in ranges if r.arg[1] is Axis.LOOP)
    if first is not ranges[0]:
        plan.do(Move(show(first), show(ranges[0])))
    (term,) = found.terms
    plan.do(Block(show(term), chosen.terms, inner))
    if chosen.row is not None and extent_of(chosen.row) >= APART:
        _copy_rows(plan, found, chosen.row, f"{show(term)}_1")
    if show(first) != inner:
        share(plan)
    insert_prefetches(plan)


def _copy_rows(plan: Plan, found: Contraction, row: UOp, terms: str) -> None:
    """The terms of a block together, where each row has its own."""
    term = plan.loop(terms)
    for operand in found.operands:
        if row not in operand.ranges:
            continue
        for which, load in enumerate(loads_of(plan.kernel, operand.buffer)):
            side = [r for r in load.ranges if r.arg[1] is Axis.UPCAST]
            if term in load.ranges and len(side) == 1:
                stage = Stage(operand.buffer, (show(side[0]), terms), which)
                if stage.is_legal(plan.kernel, plan.target):
                    plan.do(stage)
                break
