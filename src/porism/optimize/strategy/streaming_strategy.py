"""Streams: the loops of kernels that read each element once or a few times.

What they take is the time to read and write memory. It looks at how far apart in memory an access
goes from one iteration of a loop to the next:

- what is stored along neighbouring elements is computed in vectors along that loop;
- a short loop, along which some vectors are computed in another way than others, is none any more;
- where that jumps in what is read, but another loop reads neighbours, a tile of both is loaded and
  transposed in registers;
- a reduction that does not depend on such a loop is done in vectors of its own, along a loop in
  which it reads neighbours, with several vectors of partial results;
- a short reduction of vectors has no loop;
- the outermost loop is shared among the cores, if there is enough to do;
- a result that is larger than the cache is stored past it.

Reductions whose terms are long rows are in `columns`, loops in the order of what is read in
`memory_order`, and what is fetched before it is read in `fetching`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.base.target import LINE, Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.loop_actions import (
    MOST_SIDE_BY_SIDE,
    Cover,
    Move,
    Split,
    Thread,
    Unroll,
    Upcast,
    unrolled,
)
from porism.optimize.actions.peeling import in_whole_vectors
from porism.optimize.actions.streaming_actions import Stream, lanes_of_store
from porism.optimize.analysis.loop_strides import (
    copies_of,
    inside,
    is_reduced,
    iterations,
    reads,
    reads_neighbours,
    step,
    stores,
    widest,
)
from porism.optimize.strategy import column_reductions
from porism.optimize.strategy.action_plan import Plan, extent_of, is_unscheduled
from porism.optimize.strategy.loop_order import order_loops_by_loads
from porism.optimize.strategy.prefetch_placement import insert_prefetches
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked

PARALLEL_WORK: Final = 1 << 15
"""Operations from which on several cores are worth their starting."""

PARTIAL: Final = 4
"""Vectors of partial results of a reduction: an addition takes about as many cycles."""

NEAR: Final = 4
"""Elements from lane to lane, up to which wide loads are used."""

TILE: Final = 16
"""Rows and columns of a tile that is transposed, at most."""

TILES: Final = (64, 32, 16)
"""Tiles that follow each other along what is read, the best first: many lines of each row."""

SHORT: Final = 32
"""Iterations of a reduction that needs no loop, at most."""

LONG: Final = 128
"""Iterations of a loop, from which on it does not matter what the last of them does in vain."""

SIMPLE: Final = 24
"""Operations on an element, up to which several vectors of them are computed together."""

DECIDED: Final = 16
"""Vectors of a loop that becomes none, so that it is known what is chosen in each; at most."""


def plan_streaming(kernel: UOp, target: Target) -> Plan:
    """The actions for a kernel in which no operand of a reduction is used again."""
    plan = Plan(kernel, target)
    strips = column_reductions.best(kernel, target)
    done = column_reductions.in_strips(plan, strips) if strips is not None else None
    if done is None:
        done = plan
        in_vectors(plan)
        without_loops(plan)
        reductions(plan)
        order_loops_by_loads(plan)
    parallelize(done)
    use_nontemporal_stores(done)
    insert_prefetches(done)
    return done


def _is_near(step: int | None) -> bool:
    """Whether lanes that are so far apart are loaded together."""
    return step is not None and (step == -1 or 0 <= step <= NEAR)


# -- vectors along what is stored ------------------------------------------------------------------


def in_vectors(plan: Plan) -> None:
    """Stores along neighbouring elements, in vectors."""
    width = widest(toposort(plan.kernel), plan.target)
    if width < 2:
        return
    for place in range(1, len(plan.ends()) + 1):  # from the last
        end = plan.ends()[-place]
        for counter in end.src[1:]:
            steps = {step(s.src[0].src[1], counter) for s in stores(end) if s.op is ops.STORE}
            if is_unscheduled(counter) and steps == {1}:
                if not _is_better_inside(end, counter, width):
                    _vectors_along(plan, end, counter, width)
                break


def _is_better_inside(end: UOp, counter: UOp, width: int) -> bool:
    """Whether what is read jumps in memory along a loop, but not along another in vectors."""
    if copies_of(end) > 1 and any(
        counter in n.ranges and not _is_near(step(n.src[1], counter)) for n in reads(end.src[0])
    ):
        return True
    for node in inside(end):
        if node.op is ops.REDUCE and counter in node.ranges:
            loads = [n for n in reads(node.src[0]) if counter in n.ranges]
            jumps = any(step(n.src[1], counter) not in (0, 1) for n in loads)
            along = (r for r in node.src[1:] if extent_of(r) >= width)
            if jumps and any(reads_neighbours(node, r) for r in along):
                return True
    return False


def _vectors_along(plan: Plan, end: UOp, counter: UOp, width: int) -> None:
    """Vectors along a loop, and tiles where they jump in what is read."""
    across = _across(end, counter)
    if across is not None:
        _tiles(plan, end, counter, across, width)
        return
    target = plan.target
    size = extent_of(counter)
    if is_reduced(end, counter):  # a few cache lines of each row, and not one
        parallel = iterations(r for r in end.src[1:] if r is not counter and is_unscheduled(r))
        parts = 4 * target.cores if parallel < 4 * target.cores else 1
        wider = [n for n in (16, 8, 4, 2) if n <= 4 or size >= parts * n * width]
    elif _operations(end) <= SIMPLE:
        wider = [4, 2]
    else:
        wider = []
    if size in range(width, DECIDED * width + 1, width) and _is_decided(end, counter, width):
        wider = [size // width, *wider]
    most = target.memory.registers * 3 // 4  # for results; the rest is for operands
    kept = _kept(plan.kernel) * width
    if kept:  # which every lane has for itself
        most = min(most, max(target.memory.l2, 1 << 18) // 2 // kept)
    most = min(most, MOST_SIDE_BY_SIDE // (_to_be_unrolled(end) * width))
    copies = copies_of(end)
    fitting = [n for n in wider if n * copies <= most]
    lanes = _lanes(size, width, fitting, is_streamed=_is_larger_than_cache(end, target))
    if 1 < lanes <= MOST_SIDE_BY_SIDE // unrolled(plan.kernel, counter):
        row = _repeated(end, counter)
        plan.pad(show(counter), lanes)
        plan.do(Upcast(show(counter), lanes))
        outer = f"{show(counter)}_0"
        if row is not None and outer in plan.loops():
            plan.do(Move(outer, show(row)))


def _is_decided(end: UOp, counter: UOp, width: int) -> bool:
    """Whether something is chosen by a loop, for all lanes of a vector alike.

    As in the two halves of a row that were put together.
    """
    start = {counter: UOp.const(counter.dtype, 0)}
    for node in inside(end):
        if node.op in (ops.LT, ops.GE) and tuple(node.ranges) == (counter,):
            at, bound = node.src
            if bound.op is ops.CONST and stride(at, counter) == 1:
                first = substitute(at, start)
                if first.vmin == first.vmax and (bound.arg - int(first.vmin)) % width == 0:
                    return True
    return False


def _repeated(end: UOp, counter: UOp) -> UOp | None:
    """A loop around another for whose iterations a reduction reads the same elements."""
    for row in end.src[1 : end.src.index(counter, 1)]:
        for node in inside(end):
            both = node.op is ops.REDUCE and row in node.ranges and counter in node.ranges
            if both and not any(row in load.ranges for load in reads(node.src[0])):
                return row
    return None


def _across(end: UOp, counter: UOp) -> UOp | None:
    """A loop that reads neighbours where another, which is stored along, jumps in memory."""
    if any(n.op is ops.REDUCE for n in inside(end)):
        return None
    for load in reads(end.src[0]):
        if counter not in load.ranges or _is_near(step(load.src[1], counter)):
            continue
        for other in end.src[1:]:
            if other is not counter and is_unscheduled(other) and step(load.src[1], other) == 1:
                return other
    return None


def _tiles(plan: Plan, end: UOp, counter: UOp, across: UOp, width: int) -> None:
    """Tiles of two loops, several of them along what is read before the next along the other."""
    rows, columns = show(across), show(counter)
    tall = next((n for n in (TILE, TILE // 2) if extent_of(across) % n == 0), TILE)
    wide = min(width, TILE)
    if extent_of(across) < tall // 2 or extent_of(counter) < wide // 2:
        lanes = _lanes(extent_of(counter), width, [])
        if lanes > 1:
            plan.pad(columns, lanes)
            plan.do(Upcast(columns, lanes))
        return
    if extent_of(across) % tall and extent_of(counter) % wide:
        # Tiles that are masked both ways are not always turned in registers: the last ones overlap.
        sides = [Cover(columns, wide), Cover(rows, tall)]
        if all(side.is_legal(plan.kernel, plan.target) for side in sides):
            for side in sides:
                plan.do(side)
                plan.do(Upcast(f"{side.axis}_1", side.amount))
            return
    plan.pad(columns, wide)
    plan.pad(rows, tall)
    plan.do(Upcast(columns, wide))
    before = end.src.index(across, 1) < end.src.index(counter, 1)
    outer = f"{columns}_0" in plan.loops()
    size, cores = extent_of(across), plan.target.cores
    runs = [n * tall for n in TILES if size % (n * tall) == 0 and size >= n * tall * cores]
    if before and outer and runs:
        plan.do(Split(rows, runs[0]))
        plan.do(Upcast(f"{rows}_1", tall))
        plan.do(Move(f"{columns}_0", f"{rows}_1_0"))
    else:
        plan.do(Upcast(rows, tall))


def _operations(end: UOp) -> int:
    """Operations on an element, about."""
    return sum(n.op.elementwise and n.dtype.is_float for n in inside(end))


def _to_be_unrolled(end: UOp) -> int:
    """Iterations of the longest reduction that will have no loop."""
    found = [iterations(n.src[1:]) for n in inside(end) if n.op is ops.REDUCE]
    return max((n for n in found if n <= SHORT), default=1)


def _kept(kernel: UOp) -> int:
    """Bytes that are kept inside of loops."""
    return sum(
        n.dtype.size * n.dtype.element.numpy.itemsize
        for n in toposort(kernel)
        if n.op is ops.DEFINE_LOCAL
    )


def _is_larger_than_cache(end: UOp, target: Target) -> bool:
    """Whether what an END stores is better stored past the caches."""
    buffers = (base_of(s.src[0]) for s in stores(end) if s.op is ops.STORE)
    return any(b.op is ops.PARAM and _is_large(b, target) for b in buffers)


def _is_large(buffer: UOp, target: Target) -> bool:
    """Whether little of a buffer is found in the last cache when it is read again."""
    cache = target.memory.last_cache
    return bool(buffer.dtype.size * buffer.dtype.element.numpy.itemsize * 2 >= cache)


def _lanes(size: int, width: int, wider: Sequence[int], *, is_streamed: bool = False) -> int:
    """How many iterations of a loop of some size go side by side; vectors, or several of them.

    Rows that are stored past the caches are better not padded.
    """
    for times in wider:
        if size % (times * width) == 0:
            return times * width
    half = width // 2
    if is_streamed and size % width:
        for times in (7, 5, 3):
            if size % (times * half) == 0 and times <= max(wider, default=1) * 2:
                return times * half
    for times in wider:
        if size % width and size >= LONG * times * width:
            return times * width
    if size % width and size > half > 1 and -(-size // width) * width * 10 > size * 11:
        for times in (7, 6, 5, 4, 3, 2, 1):  # shorter vectors, of which none is in vain
            if size % (times * half) == 0 and (times == 1 or times <= max(wider, default=1) * 2):
                return times * half
    if size >= width:
        return width
    lanes = 1 << (size - 1).bit_length()
    return lanes if size * 4 >= lanes * 3 else lanes // 2 if size == lanes // 2 else 0


# -- reductions ------------------------------------------------------------------------------------


def without_loops(plan: Plan) -> None:
    """Short reductions of vectors with all their iterations side by side."""
    while (action := _short(plan)) is not None:
        plan.do(action)


def _short(plan: Plan) -> Unroll | None:
    for node in toposort(plan.kernel):
        if node.op is not ops.REDUCE or not any(r.arg[1] is Axis.UPCAST for r in node.ranges):
            continue
        short = iterations(node.src[1:]) <= SHORT
        for counter in reversed(node.src[1:]):
            action = Unroll(show(counter), extent_of(counter))
            if (
                short
                and extent_of(counter) > 1
                and is_unscheduled(counter)
                and action.is_legal(plan.kernel, plan.target)
            ):
                return action
    return None


def reductions(plan: Plan) -> None:
    """Reductions that are not in vectors yet, along a loop in which they read neighbours."""
    while (found := _reduction(plan.kernel, plan.target)) is not None:
        axis, amount, amounts = found
        if extent_of(plan.loop(axis)) % amount == 0 or not in_whole_vectors(plan, axis, amounts):
            plan.pad(axis, amount)
            plan.do(Unroll(axis, amount))


def _reduction(kernel: UOp, target: Target) -> tuple[str, int, Sequence[int]] | None:
    """A loop of a reduction, how many of its iterations go side by side, and how many could."""
    for node in toposort(kernel):
        if node.op is not ops.REDUCE or any(r.arg[1] is Axis.UNROLL for r in node.src[1:]):
            continue
        rows = [r for r in node.ranges if r.arg[1] is Axis.UPCAST]
        if any(step(n.src[1], r) == 1 for n in reads(node.src[0]) for r in rows):
            continue  # in vectors along what is stored
        width = widest(toposort(node, within=lambda n: n.op is not ops.END), target)
        for counter in node.src[1:]:
            if not is_unscheduled(counter) or not reads_neighbours(node, counter):
                continue
            size = extent_of(counter)
            if size < width or width < 2:
                continue
            amount = width
            for wider in (2 * width, PARTIAL * width):
                if not rows and (size % wider == 0 or size > 8 * wider):
                    amount = wider
            if unrolled(kernel, counter) * amount <= MOST_SIDE_BY_SIDE:
                amounts = (width,) if rows else (PARTIAL * width, 2 * width, width)
                return show(counter), amount, amounts
    return None


# -- the whole kernel ------------------------------------------------------------------------------


def parallelize(plan: Plan) -> None:
    """The outermost loop of the output shared among the cores."""
    ends = [e for e in plan.kernel.src if e.op is ops.END]
    if len(ends) == 1 and len(plan.kernel.src) == 1 and _work(plan.kernel) >= PARALLEL_WORK:
        outermost = ends[0].src[1]
        if outermost.arg[1] is Axis.LOOP and not plan.target.block:
            plan.do(Thread(show(outermost)))


def _work(kernel: UOp) -> int:
    """The iterations of the innermost loops, about."""
    most = 0
    for node in toposort(kernel):
        if node.op in (ops.INDEX, ops.STORE) and node.ranges:
            most = max(most, iterations(node.ranges))
    return most


def use_nontemporal_stores(plan: Plan) -> None:
    """Results that are larger than the cache, stored past it."""
    order = toposort(plan.kernel)
    stored = [n for n in order if n.op is ops.STORE and base_of(n.src[0]).op is ops.PARAM]
    for buffer in dict.fromkeys(base_of(n.src[0]) for n in stored):
        action = Stream(buffer.arg)
        whole = all(_has_whole_lines(n) for n in stored if base_of(n.src[0]) is buffer)
        if _is_large(buffer, plan.target) and whole and action.is_legal(plan.kernel, plan.target):
            plan.do(action)


def _has_whole_lines(store: UOp) -> bool:
    """Whether a store never writes a part of a line, or does so only where all of it ends.

    The rest of such a line would be written in another way, and both wait for each other.
    """
    place = store.src[0]
    if not is_masked(place.src[1]) and len(place.src) == 2:
        return True
    return lanes_of_store(store) * store.src[1].dtype.numpy.itemsize >= LINE
