"""Scans: the loops of kernels that reduce the first 1, 2, … n elements of an axis.

Such a kernel reads and writes each element once, in a loop that carries on what it has reduced so
far. Where neighbours are along the axis, the lanes of a vector are its next elements; else they are
along another loop, and as many rows are carried as a near cache holds.
"""

from __future__ import annotations

from typing import Final

from porism.base.errors import ActionError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.loops.loop_interchange import Move
from porism.optimize.actions.loops.loop_tiling import Split
from porism.optimize.actions.loops.scan_loop import Scan, scan_axis
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.analysis.loop_strides import inside, iterations, step, stores, widest
from porism.optimize.strategy import streaming_strategy
from porism.optimize.strategy.action_plan import Plan, extent_of, is_unscheduled
from porism.optimize.strategy.prefetch_placement import insert_prefetches

FEWEST: Final = 16
"""Iterations of a scan, from which on they are carried: fewer are all reduced at once."""

CARRIED: Final = 1 << 14
"""Bytes that are carried from one iteration to the next, at most: a part of the nearest cache."""

WIDEST: Final = 256
"""Bits of a vector along the axis, at most: lanes that are farther apart are exchanged slowly."""

VECTORS: Final = (4, 2, 1)
"""Vectors that are carried side by side, the best first."""


def plan_scan(kernel: UOp, target: Target) -> Plan | None:
    """The actions for a kernel with a scan; None if there is none, or it is short."""
    counter = None if target.block else scan_axis(kernel)
    if counter is None or not is_unscheduled(counter) or extent_of(counter) <= FEWEST:
        return None
    plan = Plan(kernel, target)
    end = kernel.src[0]
    steps = {r: {step(s.src[0].src[1], r) for s in stores(end)} for r in end.src[1:]}
    along = next((r for r in end.src[1:] if steps[r] == {1}), None)
    width = widest(toposort(kernel), target)
    try:
        if along is counter and width > 1:
            _along(plan, end, counter, width)
        else:
            _across(plan, end, counter, along, width)
    except ActionError:  # there is more in it than is carried
        return None
    streaming_strategy.parallelize(plan)
    streaming_strategy.use_nontemporal_stores(plan)
    insert_prefetches(plan)
    return plan


def _along(plan: Plan, end: UOp, counter: UOp, width: int) -> None:
    """A vector of elements of the axis in each iteration."""
    axis = show(counter)
    width = min(width, width * WIDEST // plan.target.vector_bits[-1])
    terms = next(show(n.src[1]) for n in inside(end) if n.op is ops.REDUCE)
    plan.pad(axis, width)
    plan.pad(terms, width)
    if extent_of(plan.loop(axis)) > width:
        plan.do(Scan(axis, width))
        plan.do(Upcast(f"{axis}_1", width))
        plan.do(Unroll(f"{terms}_1", width))
    else:
        plan.do(Upcast(axis, width))
        plan.do(Unroll(terms, width))


def _across(plan: Plan, end: UOp, counter: UOp, along: UOp | None, width: int) -> None:
    """Each element of the axis in an iteration, for neighbours along another loop."""
    axis, inner = show(counter), end.src[end.src.index(counter, 1) + 1 :]
    lanes = _lanes(extent_of(along), width) if along in inner and is_unscheduled(along) else 1
    if along is None or lanes == 1:
        plan.do(Scan(axis))
        return
    rows = show(along)
    part = _part(plan, end, counter, along, lanes)
    plan.pad(rows, part)
    if part < extent_of(plan.loop(rows)):
        plan.do(Split(rows, part))
        plan.do(Move(f"{rows}_0", axis))
        rows = f"{rows}_1"
    plan.do(Scan(axis))
    plan.do(Upcast(rows, lanes))


def _lanes(size: int, width: int) -> int:
    """Neighbours that are carried side by side, of which few are in vain; 1 if there are few."""
    for vectors in VECTORS:
        lanes = vectors * width
        if -(-size // lanes) * lanes * 10 <= size * 11:
            return lanes
    return width if size >= width else 1


def _part(plan: Plan, end: UOp, counter: UOp, along: UOp, lanes: int) -> int:
    """How many neighbours are carried: few enough for a near cache, and for all cores."""
    size, outer = extent_of(along), end.src[1 : end.src.index(counter, 1)]
    others = iterations(r for r in end.src[1:] if r not in (*outer, counter, along))
    item = max(n.dtype.numpy.itemsize for n in inside(end) if n.op is ops.REDUCE)
    most = max(CARRIED // (others * item), lanes)
    small = iterations(end.src[1:]) < streaming_strategy.PARALLEL_WORK
    cores = 1 if small or iterations(outer) >= plan.target.cores else plan.target.cores
    parts = max(-(-size // most), cores)
    return -(-size // (parts * lanes)) * lanes
