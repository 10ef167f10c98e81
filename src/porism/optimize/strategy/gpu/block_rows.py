"""Block rows: kernels bound by memory on a GPU, such as chains, reductions, softmax and norms.

Loops that can be blocks are told from *nests* inside of them: reductions, loops that fill a local
buffer, and loops that read one. Three schedules:

- without nests that are long enough, each thread computes a few neighbouring elements, which are
  one access of 16 bytes:            Upcast(r0, 4), Local(r0_0, 256)
- a reduction whose loads are contiguous along an output loop, as in sums of columns, is done by
  rows of threads:                   Upcast(c, 4), Local(c_0, 32), Group(r, 8)
- where the nests read rows, all threads of a block share each of them, and the block has as many
  rows as make it full:              Unroll(r, 4), Group(r_0, 64), Local(row, 4)
"""

from __future__ import annotations

import math
from typing import Final

from porism.base.target import Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.loop_substitution import CLOSERS
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.analysis.loop_strides import extent_of, trip_count
from porism.optimize.strategy.gpu.thread_plan import (
    ACCESS_BYTES,
    BLOCK_THREADS,
    ThreadPlan,
    accesses_along,
    is_contiguous,
    name_of,
    power_below,
    vector_of,
)
from porism.optimize.strategy.gpu.transposed_copies import plan_transpose
from porism.rules.addresses.block_loops import block_loops

MIN_ROW: Final = 32
"""Iterations of a nest from which on several threads share it: those of a warp."""

VECTORS_EACH: Final = 4
"""Accesses of a row that each thread has in flight (measured on an H200)."""

COLUMN_THREADS: Final = 32
"""Threads along the columns of a reduction over rows: a warp reads whole cache lines."""

MAX_UNROLLED_LOADS: Final = 8
"""Iterations of a thread that are unrolled, so that their loads are in flight; chosen by hand."""


def plan_rows(kernel: UOp, target: Target) -> ThreadPlan:
    """Return a plan for a kernel that is bound by memory."""
    plan = ThreadPlan(kernel, target)
    blocks = [r for r in block_loops(kernel) if r.src[0].op is ops.CONST]
    nests = _nests(kernel, blocks)
    work = max((trip_count(own) for own in nests), default=1)
    rows = trip_count(blocks)
    columns = _column_loop(kernel, blocks, nests)
    transposed = None if nests else plan_transpose(kernel, target)
    if transposed is not None:
        return transposed
    if not nests or (work < MIN_ROW and (rows >= MIN_ROW or not blocks)):
        _plan_elements(plan, blocks)
    elif columns is not None:
        _plan_columns(plan, blocks, columns, nests)
    else:
        _plan_rows(plan, blocks, nests)
    return plan


def _nests(kernel: UOp, blocks: list[UOp]) -> list[list[UOp]]:
    """Return the loops of each nest that is inside of no other: its own, without blocks."""
    outer = set(blocks)
    nests: dict[tuple[UOp, ...], None] = {}
    for node in toposort(kernel):
        if node.op not in CLOSERS or not set(node.ranges) <= outer:
            continue
        own = tuple(r for r in node.src[1:] if r not in outer)
        if own and all(r.src[0].op is ops.CONST for r in own):
            nests[own] = None
    return [list(own) for own in nests]


# -- elements --------------------------------------------------------------------------------------


def _plan_elements(plan: ThreadPlan, blocks: list[UOp]) -> None:
    """Distribute output loops over blocks of threads, each of which has a vector of elements."""
    if not blocks:
        return
    inner = max(blocks, key=lambda r: (_contiguous_bytes(plan.kernel, r), extent_of(r)))
    lanes = vector_of(accesses_along(plan.kernel, inner), inner, extent_of(inner))
    total = trip_count(blocks)
    while lanes > 1 and total // lanes < plan.target.cores * COLUMN_THREADS:
        lanes //= 2  # rather all multiprocessors than wide accesses
    axis = _unroll_far(plan, plan.vectorize(name_of(inner), lanes), inner, lanes)
    others = [name_of(r) for r in reversed(blocks) if r is not inner]
    _fill_block(plan, axis, others, total // lanes)


def _unroll_far(plan: ThreadPlan, axis: str, inner: UOp, lanes: int) -> str:
    """Give each thread several elements that are far apart, where they are no vector.

    As many loads in flight are as good as one of all of their bytes, and neighbouring threads still
    read neighbouring elements.
    """
    along = [a for a in accesses_along(plan.kernel, inner) if a.dtype.bits]
    if axis != name_of(inner) or lanes > 1 or not along:
        return axis
    copies = ACCESS_BYTES // max(a.dtype.numpy.itemsize for a in along)
    block = copies * BLOCK_THREADS
    extent = plan.extent(axis)
    if copies < 2 or extent < block * plan.target.cores:
        return axis
    if extent % block and not plan.attempt(PadTo(axis, block)):
        return axis
    return plan.vectorize(axis, copies, top=True)


def _fill_block(plan: ThreadPlan, axis: str, others: list[str], work: int) -> None:
    """Distribute a loop, and others if it is short, over as many threads as make a block full."""
    most = BLOCK_THREADS
    while most > COLUMN_THREADS and work // most < plan.target.cores:
        most //= 2
    most = min(most, plan.target.block_threads)
    threads = 1
    if axis in plan.loops():
        threads = plan.fit_threads(axis, most)
        plan.distribute(axis, threads)
    for other in others:
        if threads * 2 > most:
            return
        if other in plan.loops():
            more = plan.fit_threads(other, most // threads)
            plan.distribute(other, more)
            threads *= more


def _contiguous_bytes(kernel: UOp, loop: UOp) -> int:
    """Return the bytes of one iteration that accesses contiguous along a loop move."""
    stored = {n.src[0] for n in toposort(kernel) if n.op is ops.STORE}
    along = [a for a in accesses_along(kernel, loop) if is_contiguous(a, loop)]
    return sum(a.dtype.numpy.itemsize * (2 if a in stored else 1) for a in along if a.dtype.bits)


# -- reductions of columns -------------------------------------------------------------------------


def _column_loop(kernel: UOp, blocks: list[UOp], nests: list[list[UOp]]) -> UOp | None:
    """Return the output loop along which the loads of all nests are contiguous, or None."""
    own = {r for nest in nests for r in nest}
    loads = [n for n in toposort(kernel) if n.op is ops.INDEX and own & set(n.ranges)]
    for loop in blocks:
        along = [n for n in loads if loop in n.ranges]
        if along and all(is_contiguous(n, loop) for n in along):
            return loop
    return None


def _plan_columns(plan: ThreadPlan, blocks: list[UOp], column: UOp, nests: list[list[UOp]]) -> None:
    """Run neighbouring columns by the threads of a warp, and parts of the rows by several warps."""
    axis, target = name_of(column), plan.target
    lanes = vector_of(accesses_along(plan.kernel, column), column, extent_of(column))
    while lanes > 1 and trip_count(blocks) // (lanes * COLUMN_THREADS) < target.cores:
        lanes //= 2
    axis = plan.vectorize(axis, lanes)
    wide = min(COLUMN_THREADS, target.block_threads)
    threads = plan.fit_threads(axis, wide) if axis in plan.loops() else 1
    plan.distribute(axis, threads)
    count = trip_count(blocks) // (threads * lanes)
    most = BLOCK_THREADS if count >= target.cores else 4 * BLOCK_THREADS
    groups = power_below(min(most, target.block_threads) // threads)
    for nest in nests:
        row = name_of(max(nest, key=extent_of))
        if row not in plan.loops():
            continue
        own = plan.fit_threads(row, min(groups, max(extent_of(plan.loop(row)) // 4, 1)))
        _unroll_rest(plan, plan.distribute(row, own))


# -- rows ------------------------------------------------------------------------------------------


def _plan_rows(plan: ThreadPlan, blocks: list[UOp], nests: list[list[UOp]]) -> None:
    """Share every nest among the threads of a block, or of a part of it."""
    target = plan.target
    inner = {r: _row_lanes(plan.kernel, r, nest) for nest in nests for r in [_row_loop(plan, nest)]}
    longest = max(extent_of(r) // lanes for r, lanes in inner.items())
    rows = trip_count(blocks)
    each = VECTORS_EACH if rows >= target.cores else 1
    threads = max(power_below(longest // each), min(MIN_ROW, power_below(longest)))
    threads = min(threads, target.block_threads, 1024)
    for loop, lanes in inner.items():
        axis = plan.vectorize(name_of(loop), lanes)
        if axis in plan.loops():
            own = plan.fit_threads(axis, threads)
            _unroll_rest(plan, plan.distribute(axis, own))
    more = min(BLOCK_THREADS, target.block_threads) // threads
    while more > 1 and rows // more < target.cores:
        more //= 2
    for loop in reversed(blocks):
        name = name_of(loop)
        if more > 1 and name in plan.loops():
            own = plan.fit_threads(name, more)
            plan.distribute(name, own)
            more //= own


def _row_loop(plan: ThreadPlan, nest: list[UOp]) -> UOp:
    """Return the loop of a nest that is shared: one with contiguous accesses, and a long one."""
    return max(nest, key=lambda r: (_contiguous_bytes(plan.kernel, r) > 0, extent_of(r)))


def _row_lanes(kernel: UOp, loop: UOp, nest: list[UOp]) -> int:
    """Return the elements of one access along a loop; 1 if most accesses are not contiguous."""
    along = accesses_along(kernel, loop)
    contiguous = [a for a in along if is_contiguous(a, loop)]
    if 2 * len(contiguous) < len(along):
        return 1
    return vector_of(along, loop, math.prod(extent_of(r) for r in nest if r is loop))


def _unroll_rest(plan: ThreadPlan, axis: str) -> None:
    """Unroll the iterations that a thread has, so that their loads are in flight together."""
    if axis not in plan.loops() or plan.loop(axis).src[0].op is not ops.CONST:
        return
    extent = plan.extent(axis)
    for count in range(min(extent, MAX_UNROLLED_LOADS), 1, -1):
        if extent % count == 0:
            plan.vectorize(axis, count)
            return
