"""Columns: reductions over rows that are far apart, and longer than registers hold sums for.

Along what is stored such a reduction reads neighbours, and each of its terms is a row further. With
a few sums in registers only a short piece of each row is read before the next; so a strip of many
columns is computed together, a few rows at a time, with the sums so far in the nearest cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.errors import ActionError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.actions.loop_actions import Split, Unroll, Upcast
from porism.optimize.actions.reduction_blocking import Block
from porism.optimize.analysis.loop_strides import inside, iterations, reads, step, stores, widest
from porism.optimize.strategy.action_plan import Plan, extent_of, is_unscheduled

HALVES: Final = (8, 6, 10, 12, 4, 14, 5, 7)
"""Half vectors of columns that are computed together, the best first."""

PADDED: Final = (8, 16, 32, 64)
"""Half vectors that columns are padded to a multiple of, where none of these fits."""

IN_VAIN: Final = 8
"""What is padded is at most this part of all."""

STRIP: Final = 4096
"""Columns of a strip of 32-bit sums, at most: half of the nearest cache."""

ROWS: Final = 8
"""Rows of a block, at most."""


@dataclass(frozen=True, slots=True)
class Columns:
    """How columns are added up."""

    lane: UOp
    lanes: int
    groups: int
    """Groups of lanes in a strip."""
    term: UOp
    multiple: int
    """What the columns are padded to a multiple of."""
    rows: int
    """Rows of a block."""


def best(kernel: UOp, target: Target) -> Columns | None:
    """Strips of columns for a kernel of such a reduction; None for another one."""
    if len(kernel.src) != 1 or kernel.src[0].op is not ops.END or target.block:
        return None
    end = kernel.src[0]
    found = inside(end)
    sums = [n for n in found if n.op is ops.REDUCE]
    if not sums or any(n.src[1:] != sums[0].src[1:] for n in sums) or len(sums[0].src) != 2:
        return None
    term = sums[0].src[1]
    lane = next((r for r in end.src[1:] if _is_stored_along(end, r)), None)
    width = widest(found, target)
    if lane is None or width < 2 or not (is_unscheduled(lane) and is_unscheduled(term)):
        return None
    loads = [n for s in sums for n in reads(s.src[0]) if lane in n.ranges]
    if not loads or not all(_is_a_row_further(n, lane, term) for n in loads):
        return None
    item = max(n.dtype.numpy.itemsize for n in loads)
    registers = target.memory.registers // 2 * width
    if extent_of(lane) <= registers or iterations(loads[0].ranges) * item <= target.memory.l2:
        return None
    if extent_of(term) < 2 * ROWS:
        return None
    rows = max(n for n in range(1, ROWS + 1) if extent_of(term) % n == 0)
    others = iterations(r for r in end.src[1:] if r is not lane)
    most = STRIP * 4 // (item * len(sums))
    for lanes, multiple in _lanes(extent_of(lane), width // 2):
        count = -(-extent_of(lane) // multiple) * multiple // lanes
        groups = _groups(count, others, most // lanes, target.cores)
        if groups > 1:
            return Columns(lane, lanes, groups, term, multiple, rows if 2 * rows > ROWS else ROWS)
    return None


def _lanes(size: int, half: int) -> Iterator[tuple[int, int]]:
    """How many columns may be computed together, and what their number is padded to."""
    for halves in HALVES:
        if size % (halves * half) == 0:
            yield halves * half, halves * half
    for halves in PADDED:
        multiple = halves * half
        if -size % multiple * IN_VAIN <= size:
            yield PADDED[0] * half, multiple


def _is_stored_along(end: UOp, counter: UOp) -> bool:
    return all(s.op is ops.STORE and step(s.src[0].src[1], counter) == 1 for s in stores(end))


def _is_a_row_further(load: UOp, lane: UOp, term: UOp) -> bool:
    """Whether a load goes along one loop, and jumps along another by a row or more."""
    along, across = step(load.src[1], lane), step(load.src[1], term)
    return along == 1 and across is not None and abs(across) >= extent_of(lane)


def _groups(count: int, others: int, most: int, cores: int) -> int:
    """Groups of lanes in a strip: as many as leave equal parts for all cores."""
    fitting = [n for n in range(1, min(count, most) + 1) if count % n == 0]
    even: Sequence[int] = [n for n in fitting if others * (count // n) % cores == 0]
    return max(even, default=1)


def in_strips(plan: Plan, chosen: Columns) -> Plan | None:
    """The plan with what strips take; None if that is not legal."""
    done = plan.copy()
    lane, term = show(chosen.lane), show(chosen.term)
    try:
        done.pad(lane, chosen.multiple)
        done.do(Upcast(lane, chosen.lanes))
        inner = f"{lane}_0"
        if chosen.groups < extent_of(done.loop(inner)):
            done.do(Split(inner, chosen.groups))
            inner = f"{inner}_1"
        done.do(Block(term, chosen.rows, inner))
        done.do(Unroll(f"{term}_1", chosen.rows))
    except ActionError:  # there is more in it than was looked at
        return None
    return done
