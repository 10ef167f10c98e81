"""Strips: contractions with an operand that no cache holds, in strips of columns.

A few rows times a large matrix take the time to read the matrix, and it is read well only if long
parts of its rows are. So a strip of many columns is computed together, a few terms at a time, with
the sums so far in memory: what is read of each row is as long as the strip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.target import Target
from porism.ir.axis import Axis
from porism.ir.expression import show
from porism.ir.node import UOp
from porism.optimize.actions import Move, Split, Unroll
from porism.optimize.analysis import Contraction, Operand
from porism.optimize.blocking import Block
from porism.optimize.plan import Plan, size_of
from porism.optimize.tiles import covering
from porism.optimize.tiling import share, together

MOST_ROWS: Final = 4
"""Rows that are computed together."""

LONGEST: Final = 2048
"""Columns of a strip."""

SHORTEST: Final = 1024
"""Columns of a matrix that is read in strips."""

LANES: Final = (64, 48, 32, 80, 96, 128, 16)
"""Columns of a strip that are computed together, the best first."""

FEWEST_TERMS, TERMS = 2, 8
"""Terms of a block, at least and at most."""

CACHE: Final = 1 << 24
"""Bytes of the last cache where its size is not known."""

SPARE: Final = 6
"""Registers that are not for results."""


@dataclass(frozen=True, slots=True)
class Strips:
    """How a contraction is computed in strips."""

    lane: UOp
    lanes: int
    groups: int
    """Groups of lanes in a strip."""
    row: UOp | None
    terms: int
    """Terms of a block."""


def best(found: Contraction, target: Target) -> Strips | None:
    """The strips for a contraction of a few rows with a large matrix; None of another."""
    if len(found.terms) != 1 or found.reductions != 1 or not target.vector_bits:
        return None
    for lane in found.outputs:
        along = [o for o in found.operands if lane in o.ranges]
        if found.is_stored_along(lane) and len(along) == 1 and _is_large(along[0], lane, target):
            rows = _rows(found, lane, along[0])
            if rows is not None:
                return _fitted(found, lane, rows, target)
    return None


def _is_large(matrix: Operand, lane: UOp, target: Target) -> bool:
    """Whether a matrix is hardly in the last cache, and its rows are long and read in order."""
    fits = matrix.elements * matrix.item * 2 <= (target.memory.l3 or CACHE)
    in_order = not matrix.is_masked and matrix.step(lane) == 1
    return in_order and not fits and size_of(lane) >= SHORTEST


def _rows(found: Contraction, lane: UOp, matrix: Operand) -> list[UOp] | None:
    """The loop of the rows, none if there is one row; None if there are more than a few."""
    rows = [r for r in found.outputs if r is not lane and r not in matrix.ranges]
    others = [r for r in found.outputs if r is not lane and r in matrix.ranges]
    if len(rows) > 1 or any(r not in o.ranges for r in others for o in found.operands):
        return None
    return None if rows and size_of(rows[0]) > MOST_ROWS else rows


def _fitted(found: Contraction, lane: UOp, loops: list[UOp], target: Target) -> Strips | None:
    """The lanes and the length of a strip of which the least is computed in vain."""
    width = target.vector_bits[-1] // found.bits
    row = loops[0] if loops else None
    rows = 1 if row is None else size_of(row)
    size = size_of(lane)
    batch = found.results // (size * rows)
    choices: list[tuple[float, int, int, int]] = []
    for place, sixteenths in enumerate(LANES):
        lanes = sixteenths * width // 16
        if lanes < width or rows * (lanes // width) > target.memory.registers - SPARE:
            continue
        count = -(-size // lanes)
        for groups in _divisors(count):
            if groups > 1 and groups * lanes <= LONGEST:
                strips = batch * count // groups
                uneven = -(-strips // target.cores) * target.cores / strips
                pieces = 1 + SHORTEST / 8 / (groups * lanes)
                choices.append((covering(size, lanes) * uneven * pieces, place, lanes, groups))
    if not choices:
        return None
    _, _, lanes, groups = min(choices)
    terms = max(n for n in _divisors(found.length) if n <= TERMS)
    if not FEWEST_TERMS <= terms < found.length:
        return None
    return Strips(lane, lanes, groups, row, terms)


def _divisors(size: int) -> Sequence[int]:
    small = [n for n in range(1, int(size**0.5) + 1) if size % n == 0]
    return sorted({*small, *(size // n for n in small)})


def in_strips(plan: Plan, found: Contraction, chosen: Strips) -> None:
    """Do what strips take."""
    if chosen.row is not None:
        together(plan, chosen.row, size_of(chosen.row))
    together(plan, chosen.lane, chosen.lanes)
    inner = f"{show(chosen.lane)}_0"
    if chosen.groups < size_of(plan.loop(inner)):
        plan.do(Split(inner, chosen.groups))
        inner = f"{inner}_1"
    ranges = plan.kernel.src[0].src[1:]
    first = next(r for r in ranges if r.arg[1] is Axis.LOOP)
    if first is not ranges[0]:
        plan.do(Move(show(first), show(ranges[0])))
    (term,) = found.terms
    plan.do(Block(show(term), chosen.terms, inner))
    if chosen.row is None and chosen.terms > 1:
        plan.do(Unroll(f"{show(term)}_1", chosen.terms))
    if show(first) != inner:
        share(plan)
