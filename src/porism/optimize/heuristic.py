"""The heuristic: a good arrangement of the loops of a kernel, without measuring.

It looks at how far apart in memory an access goes from one iteration of a loop to the next:

- what is stored along neighbouring elements is computed in vectors along that loop;
- a reduction that does not depend on such a loop is done in vectors of its own, along a loop in
  which it reads neighbours, with several vectors of partial results;
- a load that would jump in memory from lane to lane is copied first, if it is used often enough;
- where one operand of a reduction is the same for all lanes and another for all rows, a few rows
  are computed together, so that what is loaded is used several times;
- the outermost loop is shared among the cores, if there is enough to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.walk import toposort
from porism.optimize.loops import moved_before, padded, retyped, split
from porism.optimize.staging import staged, staging
from porism.rules.invalid import is_masked
from porism.rules.strides import stride

PARALLEL_WORK: Final = 1 << 15
"""Operations from which on several cores are worth their starting."""

ROWS: Final = (8, 6, 4, 5, 7, 3, 2)
"""Numbers of rows that are computed together, the best first."""

PARTIAL: Final = 4
"""Vectors of partial results of a reduction: an addition takes about as many cycles."""


GAIN: Final = 6.0
"""How often an element is read, at least, for a copy of it to pay."""

MOST_STAGED: Final = 4
"""Operands of one kernel that are copied."""

MEMORY: Final = 1 << 17
"""Bytes that a copy may take where the size of the cache is not known."""


def arranged(kernel: UOp, target: Target) -> UOp:
    """The kernel with its loops arranged for a CPU."""
    kernel = _in_vectors(kernel, target)
    kernel = _reductions(kernel, target)
    return _in_parallel(kernel)


def _ends(kernel: UOp) -> list[UOp]:
    return [n for n in toposort(kernel) if n.op is ops.END]


def _loads(value: UOp) -> list[UOp]:
    """What is read for a value, but not for what was kept before."""
    within = toposort(value, within=lambda n: n.op is not ops.END)
    return [n for n in within if n.op is ops.INDEX]


def _is_plain(counter: UOp) -> bool:
    """A loop that nothing was done to and whose size is known."""
    return counter.arg[1] in (Axis.LOOP, Axis.REDUCE) and counter.src[0].op is ops.CONST


def _widest(kernel: UOp, target: Target) -> int:
    """The lanes of a vector of the widest type that is computed with."""
    if not target.vector_bits:
        return 1
    bits = [
        n.dtype.bits
        for n in toposort(kernel)
        if n.op in (ops.INDEX, ops.REDUCE, ops.CAST) and n.dtype.bits
    ]
    return max(target.vector_bits[-1] // max([*bits, 8]), 1)


def _step(at: UOp, counter: UOp) -> int | None:
    """How far an index goes in one iteration."""
    return stride(at.src[1] if is_masked(at) else at, counter)


def _stores(end: UOp) -> Iterator[UOp]:
    effect = end.src[0]
    yield from effect.src if effect.op is ops.GROUP else (effect,)


def _in_vectors(kernel: UOp, target: Target) -> UOp:
    """Stores along neighbouring elements, in vectors."""
    width = _widest(kernel, target)
    if width < 2:
        return kernel
    place = 0
    while place < len(_ends(kernel)):  # from the last: what is copied for one comes before it
        place += 1
        end = _ends(kernel)[-place]
        for counter in end.src[1:]:
            steps = {_step(s.src[0].src[1], counter) for s in _stores(end) if s.op is ops.STORE}
            if not _is_plain(counter) or steps != {1}:
                continue
            if not _is_better_inside(end, counter):
                kernel = _tile(kernel, end, counter, width, target)
            else:
                kernel = _tile_and_stage(kernel, end, counter, width, target)
            break
    return kernel


def _tile_and_stage(kernel: UOp, end: UOp, counter: UOp, width: int, target: Target) -> UOp:
    """A tile whose loads that jump along the lanes are copied first; as it was, if not worth it."""
    tiled = _tile(kernel, end, counter, width, target)
    before = {r for r in toposort(kernel) if r.op is ops.RANGE}
    lanes = [
        r
        for r in toposort(tiled)
        if r.op is ops.RANGE and r not in before and r.arg[1] is Axis.UPCAST
        and r.arg[0][: len(counter.arg[0])] == counter.arg[0]
    ]  # fmt: skip
    if len(lanes) != 1:
        return kernel
    lane = lanes[0]
    limit = max(target.memory.l2 // 2, MEMORY)
    for _ in range(MOST_STAGED):
        jumping = _jumping(tiled, lane)
        if not jumping:
            return tiled
        load = jumping[0]
        found = staging(tiled, load)
        if found is None or found.gain < GAIN:
            return kernel
        if found.size * load.dtype.numpy.itemsize > limit:
            return kernel
        inner = sorted(found.inner, key=lambda r: (r is lane, r.arg[1] is not Axis.REDUCE))
        tiled = staged(tiled, load, inner)
    return kernel


def _jumping(kernel: UOp, lane: UOp) -> list[UOp]:
    """The loads of reductions that are neither the same nor neighbours in all lanes."""
    found: dict[UOp, None] = {}
    for node in toposort(kernel):
        if node.op is ops.REDUCE and lane in node.ranges:
            for load in _loads(node.src[0]):
                if lane in load.ranges and _step(load.src[1], lane) not in (0, 1):
                    found[load] = None
    return list(found)


def _is_better_inside(end: UOp, counter: UOp) -> bool:
    """Whether a reduction jumps in memory along a loop, but reads neighbours along its own."""
    for node in toposort(end.src[0], within=lambda n: n.op is not ops.END):
        if node.op is ops.REDUCE and counter in node.ranges:
            loads = [n for n in _loads(node.src[0]) if counter in n.ranges]
            jumps = any(_step(n.src[1], counter) not in (0, 1) for n in loads)
            if jumps and any(_reads_neighbours(node, r) for r in node.src[1:]):
                return True
    return False


def _tile(kernel: UOp, end: UOp, counter: UOp, width: int, target: Target) -> UOp:
    """Lanes along a loop, and rows along another where loads are shared between them."""
    rows = _shared_rows(end, counter)
    size = int(counter.src[0].arg)
    copies = _copies(end)
    wider: list[int] = []
    if rows is not None:
        wider = [2]
    elif _is_reduced(end, counter):  # a few cache lines of each row, and not one
        wider = [8, 4, 2] if size >= 32 * width * target.cores else [4, 2]
    most = target.memory.registers * 3 // 4  # for results; the rest is for operands
    lanes = _lanes(size, width, [n for n in wider if n * copies <= most or rows is not None])
    if lanes < 2:
        return kernel
    outer_rows: UOp | None = None
    if rows is not None:
        kernel, outer_rows = _rows_together(kernel, rows)
    kernel, counter = padded(kernel, counter, lanes)
    kernel, outer, _ = split(kernel, counter, lanes, Axis.UPCAST)
    many = int(outer.vmax) + 1 >= 4 * target.cores
    if outer_rows is not None and many and _is_closed(kernel, outer, outer_rows):
        # what is read along the lanes stays in a cache, and is used for all rows
        kernel = moved_before(kernel, outer, outer_rows)
    return kernel


def _copies(end: UOp) -> int:
    """How many iterations of the loops around go side by side already."""
    total = 1
    for counter in end.ranges:
        if counter.arg[1] is Axis.UPCAST:
            total *= int(counter.vmax) + 1
    return total


def _rows_together(kernel: UOp, rows: UOp) -> tuple[UOp, UOp]:
    size = int(rows.src[0].arg)
    amount = next((n for n in ROWS if size % n == 0), None)
    if amount is None or (amount < 4 and size > 16):
        amount = 4
        kernel, rows = padded(kernel, rows, amount)
    return split(kernel, rows, amount, Axis.UPCAST)[:2]


def _is_closed(kernel: UOp, outer: UOp, rows: UOp) -> bool:
    """Whether two loops are still there, the rows around the lanes, in one END."""
    for end in _ends(kernel):
        if outer in end.src[1:] and rows in end.src[1:]:
            return end.src.index(rows, 1) < end.src.index(outer, 1)
    return False


def _is_reduced(end: UOp, counter: UOp) -> bool:
    """Whether a reduction depends on a loop."""
    inside = toposort(end.src[0], within=lambda n: n.op is not ops.END)
    return any(n.op is ops.REDUCE and counter in n.ranges for n in inside)


def _lanes(size: int, width: int, wider: Sequence[int]) -> int:
    """How many iterations of a loop of some size go side by side; vectors, or several of them."""
    for times in wider:
        if size % (times * width) == 0:
            return times * width
    if size >= width:
        return width
    lanes = 1 << (size - 1).bit_length()
    return lanes if size * 4 >= lanes * 3 else lanes // 2 if size == lanes // 2 else 0


def _shared_rows(end: UOp, counter: UOp) -> UOp | None:
    """A loop of the output along which an operand of a reduction is used again."""
    for node in toposort(end.src[0], within=lambda n: n.op is not ops.END):
        if node.op is not ops.REDUCE or counter not in node.ranges:
            continue
        loads = _loads(node.src[0])
        along = [n for n in loads if counter in n.ranges]
        for row in end.src[1:]:
            if row is counter or not _is_plain(row) or row not in node.ranges:
                continue
            if any(row not in n.ranges for n in along) and any(row in n.ranges for n in loads):
                return row
    return None


def _reductions(kernel: UOp, target: Target) -> UOp:
    """Reductions that are not in vectors yet, along a loop in which they read neighbours."""
    width = _widest(kernel, target)
    if width < 2:
        return kernel
    for node in toposort(kernel):
        if node.op is not ops.REDUCE or any(r.arg[1] is Axis.UPCAST for r in node.ranges):
            continue
        if any(r.arg[1] is Axis.UNROLL for r in node.src[1:]):
            continue
        for counter in node.src[1:]:
            if not _is_plain(counter) or not _reads_neighbours(node, counter):
                continue
            size = int(counter.src[0].arg)
            if size < width:
                continue
            amount = width
            for wider in (2 * width, PARTIAL * width):
                if size % wider == 0 or size > 8 * wider:
                    amount = wider
            kernel, longer = padded(kernel, counter, amount)
            kernel, _, _ = split(kernel, longer, amount, Axis.UNROLL)
            return _reductions(kernel, target)
    return kernel


def _reads_neighbours(node: UOp, counter: UOp) -> bool:
    loads = [n for n in _loads(node.src[0]) if counter in n.ranges]
    return bool(loads) and all(_step(n.src[1], counter) == 1 for n in loads)


def _in_parallel(kernel: UOp) -> UOp:
    """The outermost loop of the output shared among the cores."""
    ends = [e for e in kernel.src if e.op is ops.END]
    if len(ends) == 1 and _work(kernel) >= PARALLEL_WORK:
        outermost = ends[0].src[1]
        if outermost.arg[1] is Axis.LOOP:
            return retyped(kernel, outermost, Axis.THREAD)
    return kernel


def _work(kernel: UOp) -> int:
    """The iterations of the innermost loops, about."""
    most = 0
    for node in toposort(kernel):
        if node.op in (ops.INDEX, ops.STORE) and node.ranges:
            total = 1
            for r in node.ranges:
                total *= int(r.vmax) + 1
            most = max(most, total)
    return most
