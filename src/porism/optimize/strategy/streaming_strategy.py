"""Streaming strategy: loop schedules of kernels that read each element once or a few times.

Such a kernel is bound by memory bandwidth, not by arithmetic. The strategy looks at the stride of
each access along each loop:

- a loop along which stores are contiguous is vectorized, in as many vectors as registers allow;
- a loop with segments that are computed differently, as in a concatenation, is split into them
  (`segmented_loops`);
- a short loop whose vectors are computed differently, such as the halves of a concatenation, is
  unrolled completely;
- where loads are strided along that loop, but contiguous along another one, a tile of both is
  loaded and transposed in registers;
- a reduction that is independent of such a loop is vectorized along its own contiguous loop, with
  several vectors of partial sums to hide the latency of additions;
- a short reduction of vectors is unrolled completely;
- the outermost loop is parallelized, if there is enough work;
- an output that is larger than the last cache is written by non-temporal stores.

Reductions over the rows of a matrix are in `column_reductions`, vectors across the iterations of an
outer loop, where the inner ones are short, in `outer_loop_lanes`, and software prefetches in
`prefetch_placement`.

The constants below were fitted by hand to timings on an x86-64 machine with AVX-512.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.base.target import CACHE_LINE, Target
from porism.ir import ops
from porism.ir.axis import INTERLEAVED_PARTS, MAX_INTERLEAVED_LANES, Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.loops.loop_interchange import Move
from porism.optimize.actions.loops.loop_tiling import OverlapTail, Split
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.peeling import Peel
from porism.optimize.actions.loops.upcast_unroll import MAX_UNROLLED, Unroll, Upcast, unroll_factor
from porism.optimize.actions.memory.streaming_stores import NonTemporal, aligned_store_lanes
from porism.optimize.analysis.loop_strides import (
    access_stride,
    extent_of,
    is_contiguous_reduction,
    is_in_reduction,
    is_near,
    is_unscheduled,
    lanes_of_widest_type,
    loads_for,
    nodes_inside,
    stores_of,
    trip_count,
    unrolled_copies,
)
from porism.optimize.model.core_rates import core_rates
from porism.optimize.strategy import column_reductions
from porism.optimize.strategy.action_plan import Plan
from porism.optimize.strategy.outer_loop_lanes import vectorize_outer_loop
from porism.optimize.strategy.prefetch_placement import insert_prefetches
from porism.optimize.strategy.segmented_loops import MAX_UNROLLED_VECTORS, unroll_segments
from porism.optimize.strategy.vector_lanes import (
    choose_lanes_with_half_vectors,
    is_contiguous_along_k_only,
)
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked

WORD: Final = 4
"""Bytes of an element, as a guess of what an iteration reads or writes."""

PARTIAL_SUMS: Final = 4
"""Vectors of partial sums of a reduction: an addition has a latency of about as many cycles."""

TILE: Final = 16
"""Rows and columns of a tile that is transposed in registers, at most."""

TILES_IN_SEQUENCE: Final = (64, 32, 16)
"""Tiles that follow each other along contiguous loads, the best first: many lines of each row."""

SHORT_REDUCTION: Final = 32
"""Iterations of a reduction that is unrolled completely, at most."""

SIMPLE_BODY: Final = 24
"""Float operations on an element, up to which several vectors of them are computed together."""


def plan_streaming(kernel: UOp, target: Target) -> Plan:
    """Return a plan for a kernel in which no reduction reuses its operands."""
    plan = Plan(kernel, target)
    panels = column_reductions.choose_column_panels(kernel, target)
    by_panels = None
    if panels is not None:
        by_panels = column_reductions.apply_column_panels(plan, panels)
    if by_panels is not None:
        plan = by_panels
    elif not vectorize_outer_loop(plan):
        unroll_segments(plan)
        _vectorize_stores(plan)
        _unroll_short_reductions(plan)
        vectorize_reductions(plan)
    parallelize(plan)
    use_nontemporal_stores(plan)
    insert_prefetches(plan)
    return plan


# -- vectors along stores --------------------------------------------------------------------------


def _vectorize_stores(plan: Plan) -> None:
    """Vectorize each store along its contiguous loop, the last store first."""
    width = lanes_of_widest_type(toposort(plan.kernel), plan.target)
    if width < 2:
        return
    for position in range(1, len(plan.ends()) + 1):
        end = plan.ends()[-position]
        for loop in end.src[1:]:
            strides = {
                access_stride(s.src[0].src[1], loop) for s in stores_of(end) if s.op is ops.STORE
            }
            if is_unscheduled(loop) and strides == {1}:
                if not _is_better_along_another(end, loop, width):
                    _vectorize_loop(plan, end, loop, width)
                break


def _is_better_along_another(end: UOp, loop: UOp, width: int) -> bool:
    """Return whether loads are strided along a loop, but contiguous along another in vectors."""
    if unrolled_copies(end) > 1 and any(
        loop in n.ranges and not is_near(access_stride(n.src[1], loop))
        for n in loads_for(end.src[0])
    ):
        return True
    return is_contiguous_along_k_only(end, loop, min_extent=width)


def _vectorize_loop(plan: Plan, end: UOp, loop: UOp, width: int) -> None:
    """Vectorize a loop along which stores are contiguous, in transposed tiles if loads are not."""
    if _interleave_stores(plan, end, loop, width):
        return
    across = _contiguous_for_loads(end, loop)
    if across is not None:
        _apply_transposed_tiles(plan, end, loop, across, width)
        return
    multiples = _vector_multiples(plan, end, loop, width)
    is_nontemporal = _stores_to_large_buffer(end, plan.target)
    lanes = choose_lanes_with_half_vectors(
        extent_of(loop), width, multiples, is_nontemporal=is_nontemporal
    )
    if 1 < lanes <= MAX_UNROLLED // unroll_factor(plan.kernel, loop):
        invariant = _invariant_outer_loop(end, loop)
        plan.pad(show(loop), lanes)
        plan.do(Upcast(show(loop), lanes))
        outer = f"{show(loop)}_0"
        if invariant is not None and outer in plan.loops():
            plan.do(Move(outer, show(invariant)))


def _interleave_stores(plan: Plan, end: UOp, loop: UOp, width: int) -> bool:
    """Vectorize the loop around a short one, whose iterations are interleaved, if loads are so."""
    parts = extent_of(loop)
    if parts not in INTERLEAVED_PARTS or parts >= width:
        return False
    stored = [s.src[0] for s in stores_of(end) if s.op is ops.STORE]
    loads = [load.src[1] for load in loads_for(end.src[0]) if load not in stored]
    stores = [access.src[1] for access in stored]
    for other in end.src[1:]:
        if other is loop or not is_unscheduled(other):
            continue
        is_next = all(access_stride(address, other) == parts for address in stores)
        along = {access_stride(address, other) for address in loads}
        if not is_next or not along <= {0, 1} or 1 not in along:
            continue
        most = MAX_INTERLEAVED_LANES // parts
        lanes = next((n for n in (most, most // 2) if extent_of(other) % n == 0), 0)
        if lanes > parts:
            plan.do(Upcast(show(loop), parts))
            plan.do(Upcast(show(other), lanes))
            return True
    return False


def _vector_multiples(plan: Plan, end: UOp, loop: UOp, width: int) -> list[int]:
    """Return the numbers of vectors of a loop that may be computed together, the best first."""
    target, extent = plan.target, extent_of(loop)
    if is_in_reduction(end, loop):  # a few cache lines of each row, and not one
        parallel = trip_count(r for r in end.src[1:] if r is not loop and is_unscheduled(r))
        parts = 4 * target.cores if parallel < 4 * target.cores else 1
        multiples = [n for n in (16, 8, 4, 2) if n <= 4 or extent >= parts * n * width]
    elif _float_operations(end) <= SIMPLE_BODY:
        multiples = [4, 2]
    else:
        multiples = []
    is_short = extent in range(width, MAX_UNROLLED_VECTORS * width + 1, width)
    if is_short and _has_condition_per_vector(end, loop, width):
        multiples = [extent // width, *multiples]
    most = target.memory.registers * 3 // 4  # the others are for operands
    local_bytes = _local_bytes(plan.kernel) * width
    if local_bytes:  # every lane has local buffers of its own
        most = min(most, max(target.memory.l2, 1 << 18) // 2 // local_bytes)
    most = min(most, MAX_UNROLLED // (_short_reduction_length(end) * width))
    copies = unrolled_copies(end)
    return [n for n in multiples if n * copies <= most]


def _has_condition_per_vector(end: UOp, loop: UOp, width: int) -> bool:
    """Return whether a condition depends on a loop alone, and is the same in all lanes of a vector.

    As in a concatenation of two rows, of which the first one fills whole vectors.
    """
    start = {loop: UOp.const(loop.dtype, 0)}
    for node in nodes_inside(end):
        if node.op in (ops.LT, ops.GE) and tuple(node.ranges) == (loop,):
            index, bound = node.src
            if bound.op is ops.CONST and stride(index, loop) == 1:
                first = substitute(index, start)
                if first.vmin == first.vmax and (bound.arg - int(first.vmin)) % width == 0:
                    return True
    return False


def _invariant_outer_loop(end: UOp, loop: UOp) -> UOp | None:
    """Return a loop around another one in which the loads of a reduction are invariant."""
    for outer in end.src[1 : end.src.index(loop, 1)]:
        for node in nodes_inside(end):
            depends = node.op is ops.REDUCE and outer in node.ranges and loop in node.ranges
            if depends and not any(outer in load.ranges for load in loads_for(node.src[0])):
                return outer
    return None


# -- transposition ---------------------------------------------------------------------------------


def _contiguous_for_loads(end: UOp, loop: UOp) -> UOp | None:
    """Return a loop that loads are contiguous along, if they are strided along that of stores."""
    if any(n.op is ops.REDUCE for n in nodes_inside(end)):
        return None
    for load in loads_for(end.src[0]):
        if loop not in load.ranges or is_near(access_stride(load.src[1], loop)):
            continue
        for other in end.src[1:]:
            if (
                other is not loop
                and is_unscheduled(other)
                and access_stride(load.src[1], other) == 1
            ):
                return other
    return None


def _rows_in_sequence(extent: int, tall: int, cores: int) -> int:
    """Return the rows of tiles that are transposed in sequence; 0 if cores would be idle."""
    counts = (n * tall for n in TILES_IN_SEQUENCE)
    return next((n for n in counts if extent % n == 0 and extent >= n * cores), 0)


def _apply_transposed_tiles(plan: Plan, end: UOp, loop: UOp, across: UOp, width: int) -> None:
    """Transpose tiles of two loops in registers, several in sequence along contiguous loads."""
    rows, columns = show(across), show(loop)
    tall = next((n for n in (TILE, TILE // 2) if extent_of(across) % n == 0), TILE)
    wide = min(width, TILE)
    if extent_of(across) < tall // 2 or extent_of(loop) < wide // 2:
        lanes = choose_lanes_with_half_vectors(extent_of(loop), width, [])
        if lanes > 1:
            plan.pad(columns, lanes)
            plan.do(Upcast(columns, lanes))
        return
    if extent_of(across) % tall and extent_of(loop) % wide:
        # Tiles that are masked both ways are not always transposed in registers: overlap the last.
        covers = [OverlapTail(columns, wide), OverlapTail(rows, tall)]
        if all(cover.is_legal(plan.kernel, plan.target) for cover in covers):
            for cover in covers:
                plan.do(cover)
                plan.do(Upcast(f"{cover.axis}_1", cover.amount))
            return
    plan.pad(columns, wide)
    plan.pad(rows, tall)
    plan.do(Upcast(columns, wide))
    is_around = end.src.index(across, 1) < end.src.index(loop, 1)
    has_outer = f"{columns}_0" in plan.loops()
    in_sequence = _rows_in_sequence(extent_of(across), tall, plan.target.cores)
    if is_around and has_outer and in_sequence:
        plan.do(Split(rows, in_sequence))
        plan.do(Upcast(f"{rows}_1", tall))
        plan.do(Move(f"{columns}_0", f"{rows}_1_0"))
    else:
        plan.do(Upcast(rows, tall))


# -- what a loop body takes ------------------------------------------------------------------------


def _float_operations(end: UOp) -> int:
    """Return the elementwise operations on floats for an element, about."""
    return sum(n.op.elementwise and n.dtype.is_float for n in nodes_inside(end))


def _short_reduction_length(end: UOp) -> int:
    """Return the iterations of the longest reduction that will be unrolled completely, or 1."""
    lengths = [trip_count(n.src[1:]) for n in nodes_inside(end) if n.op is ops.REDUCE]
    return max((n for n in lengths if n <= SHORT_REDUCTION), default=1)


def _local_bytes(kernel: UOp) -> int:
    """Return the bytes of the local buffers that are materialized inside of loops."""
    return sum(
        n.dtype.size * n.dtype.element.numpy.itemsize
        for n in toposort(kernel)
        if n.op is ops.DEFINE_LOCAL
    )


def _stores_to_large_buffer(end: UOp, target: Target) -> bool:
    """Return whether the stores of an END are better non-temporal."""
    buffers = (base_of(s.src[0]) for s in stores_of(end) if s.op is ops.STORE)
    return any(b.op is ops.PARAM and _exceeds_last_cache(b, target) for b in buffers)


def _exceeds_last_cache(buffer: UOp, target: Target) -> bool:
    """Return whether little of a buffer is still in the last cache when it is read again."""
    cache = target.memory.last_cache
    return bool(buffer.dtype.size * buffer.dtype.element.numpy.itemsize * 2 >= cache)


# -- reductions ------------------------------------------------------------------------------------


def _unroll_short_reductions(plan: Plan) -> None:
    """Unroll short reductions of vectors completely."""
    while (action := _next_short_reduction(plan)) is not None:
        plan.do(action)


def _next_short_reduction(plan: Plan) -> Unroll | None:
    """Return an action that unrolls a loop of a short reduction; None if none is left."""
    for node in toposort(plan.kernel):
        if node.op is not ops.REDUCE or not any(r.arg[1] is Axis.UPCAST for r in node.ranges):
            continue
        is_short = trip_count(node.src[1:]) <= SHORT_REDUCTION
        for loop in reversed(node.src[1:]):
            action = Unroll(show(loop), extent_of(loop))
            if (
                is_short
                and extent_of(loop) > 1
                and is_unscheduled(loop)
                and action.is_legal(plan.kernel, plan.target)
            ):
                return action
    return None


def vectorize_reductions(plan: Plan) -> None:
    """Vectorize reductions that are scalar so far along a loop in which loads are contiguous."""
    while (reduction := _next_scalar_reduction(plan.kernel, plan.target)) is not None:
        axis, lanes, choices = reduction
        if extent_of(plan.loop(axis)) % lanes == 0 or not _vectorize_peeled(plan, axis, choices):
            plan.pad(axis, lanes)
            plan.do(Unroll(axis, lanes))


def _next_scalar_reduction(kernel: UOp, target: Target) -> tuple[str, int, Sequence[int]] | None:
    """Return a reduction loop to be vectorized, its lanes, and the lanes to choose from."""
    for node in toposort(kernel):
        if node.op is not ops.REDUCE or any(r.arg[1] is Axis.UNROLL for r in node.src[1:]):
            continue
        upcast = [r for r in node.ranges if r.arg[1] is Axis.UPCAST]
        if any(access_stride(n.src[1], r) == 1 for n in loads_for(node.src[0]) for r in upcast):
            continue  # it is vectorized along stores
        width = lanes_of_widest_type(toposort(node, within=lambda n: n.op is not ops.END), target)
        if width < 2:
            continue
        choices = (width,) if upcast else (PARTIAL_SUMS * width, 2 * width, width)
        for loop in node.src[1:]:
            if is_unscheduled(loop) and is_contiguous_reduction(node, loop):
                lanes = _reduction_lanes(extent_of(loop), width, choices)
                if lanes and unroll_factor(kernel, loop) * lanes <= MAX_UNROLLED:
                    return show(loop), lanes, choices
    return None


def _reduction_lanes(extent: int, width: int, choices: Sequence[int]) -> int:
    """Return how many lanes a reduction loop gets: more than a vector if it is long; or 0."""
    if extent < width:
        return 0
    wider = (n for n in choices if n > width and (extent % n == 0 or extent > 8 * n))
    return next(wider, width)


def _vectorize_peeled(plan: Plan, axis: str, choices: Sequence[int]) -> bool:
    """Vectorize a reduction loop and peel its remainder; return whether that is legal.

    `choices` are the lanes to choose from, the most first; the last is one vector. Only the peeled
    remainder needs masks.
    """
    extent, width = extent_of(plan.loop(axis)), choices[-1]
    lanes = next((n for n in choices if extent >= 2 * n or n <= extent <= n + width), width)
    peel = Peel(axis, lanes)
    if plan.target.block or not plan.attempt(peel):
        return False
    plan.do(Unroll(f"{axis}_0", lanes))
    rest, remainder = f"{axis}_1", extent % lanes
    padded = -(-remainder // width) * width
    if padded <= 4 * remainder:
        plan.pad(rest, width)
        remainder = padded
    if remainder > 1:
        plan.do(Unroll(rest, remainder))
    return True


# -- the whole kernel ------------------------------------------------------------------------------


def parallelize(plan: Plan) -> None:
    """Divide the outermost output loop among the cores, if there is enough work."""
    ends = [e for e in plan.kernel.src if e.op is ops.END]
    if (
        len(ends) == 1
        and len(plan.kernel.src) == 1
        and pays_to_parallelize(_work(plan.kernel), plan.target)
    ):
        outermost = ends[0].src[1]
        if outermost.arg[1] is Axis.LOOP and not plan.target.block:
            plan.do(Thread(show(outermost)))


def pays_to_parallelize(iterations: int, target: Target) -> bool:
    """Return whether so many iterations, each of one word from the last cache, occupy all cores."""
    rates = core_rates(target)
    return rates.pays_to_fork(iterations * WORD / rates.l3_bytes)


def _work(kernel: UOp) -> int:
    """Return the largest trip count of an access: the iterations of the innermost loops."""
    most = 0
    for node in toposort(kernel):
        if node.op in (ops.INDEX, ops.STORE) and node.ranges:
            most = max(most, trip_count(node.ranges))
    return most


def use_nontemporal_stores(plan: Plan) -> None:
    """Write outputs that exceed the last cache by non-temporal stores."""
    order = toposort(plan.kernel)
    stored = [n for n in order if n.op is ops.STORE and base_of(n.src[0]).op is ops.PARAM]
    for buffer in dict.fromkeys(base_of(n.src[0]) for n in stored):
        in_lines = all(_writes_whole_lines(n) for n in stored if base_of(n.src[0]) is buffer)
        is_large = _exceeds_last_cache(buffer, plan.target)
        if is_large and in_lines:
            plan.attempt(NonTemporal(buffer.arg))


def _writes_whole_lines(store: UOp) -> bool:
    """Return whether a store never writes a part of a cache line, except at the end of its rows.

    The rest of such a line would be written by a plain store, and both would wait for each other.
    """
    access = store.src[0]
    if not is_masked(access.src[1]) and len(access.src) == 2:
        return True
    return aligned_store_lanes(store) * store.src[1].dtype.numpy.itemsize >= CACHE_LINE
