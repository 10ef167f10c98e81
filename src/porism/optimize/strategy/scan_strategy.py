"""Scan strategy: loop schedules of kernels with a prefix sum, or another reduction of prefixes.

Such a kernel reads and writes each element of an axis once, in a loop that carries the reduction so
far from one iteration to the next:

- if the axis is contiguous, it is vectorized: each iteration computes the prefixes inside of one
  vector and adds what is carried;
- otherwise a contiguous loop is vectorized, and an iteration updates the carried vectors of many
  columns, which a near cache holds; the columns are split among the cores if nothing else is.
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
from porism.optimize.analysis.loop_strides import (
    access_stride,
    extent_of,
    is_unscheduled,
    lanes_of_widest_type,
    nodes_inside,
    stores_of,
    trip_count,
)
from porism.optimize.strategy import streaming_strategy
from porism.optimize.strategy.action_plan import Plan
from porism.optimize.strategy.prefetch_placement import insert_prefetches

MIN_EXTENT: Final = 16
"""Iterations of an axis above which it is scanned: fewer are reduced anew each (by hand)."""

MAX_CARRIED: Final = 1 << 14
"""Bytes that are loop-carried, at most: half of a usual L1 cache."""

MAX_SCAN_BITS: Final = 256
"""Bits of a vector along the axis, at most: lanes of wider ones are exchanged slowly (measured)."""

VECTORS: Final = (4, 2, 1)
"""Vectors of columns that are carried together, the best first."""


def plan_scan(kernel: UOp, target: Target) -> Plan | None:
    """Return a plan for a kernel with a scan; None if there is none, or it is short."""
    scan_loop = None if target.block else scan_axis(kernel)
    if scan_loop is None or not is_unscheduled(scan_loop) or extent_of(scan_loop) <= MIN_EXTENT:
        return None
    plan = Plan(kernel, target)
    end = kernel.src[0]
    strides = {r: {access_stride(s.src[0].src[1], r) for s in stores_of(end)} for r in end.src[1:]}
    contiguous = next((r for r in end.src[1:] if strides[r] == {1}), None)
    width = lanes_of_widest_type(toposort(kernel), target)
    try:
        if contiguous is scan_loop and width > 1:
            _scan_vectors(plan, end, scan_loop, width)
        else:
            _scan_columns(plan, end, scan_loop, contiguous, width)
    except ActionError:  # the kernel has more in it than what is carried
        return None
    streaming_strategy.parallelize(plan)
    streaming_strategy.use_nontemporal_stores(plan)
    insert_prefetches(plan)
    return plan


def _scan_vectors(plan: Plan, end: UOp, scan_loop: UOp, width: int) -> None:
    """Scan a vector of elements of the axis in each iteration."""
    axis = show(scan_loop)
    width = min(width, width * MAX_SCAN_BITS // plan.target.vector_bits[-1])
    k_axis = next(show(n.src[1]) for n in nodes_inside(end) if n.op is ops.REDUCE)
    plan.pad(axis, width)
    plan.pad(k_axis, width)
    if extent_of(plan.loop(axis)) > width:
        plan.do(Scan(axis, width))
        plan.do(Upcast(f"{axis}_1", width))
        plan.do(Unroll(f"{k_axis}_1", width))
    else:
        plan.do(Upcast(axis, width))
        plan.do(Unroll(k_axis, width))


def _scan_columns(plan: Plan, end: UOp, scan_loop: UOp, contiguous: UOp | None, width: int) -> None:
    """Scan one element of the axis in each iteration, for vectors along a contiguous loop."""
    axis, inner = show(scan_loop), end.src[end.src.index(scan_loop, 1) + 1 :]
    lanes = 1
    if contiguous is not None and contiguous in inner and is_unscheduled(contiguous):
        lanes = _column_lanes(extent_of(contiguous), width)
    if contiguous is None or lanes == 1:
        plan.do(Scan(axis))
        return
    columns = show(contiguous)
    chunk = _columns_per_chunk(plan, end, scan_loop, contiguous, lanes)
    plan.pad(columns, chunk)
    if chunk < extent_of(plan.loop(columns)):
        plan.do(Split(columns, chunk))
        plan.do(Move(f"{columns}_0", axis))
        columns = f"{columns}_1"
    plan.do(Scan(axis))
    plan.do(Upcast(columns, lanes))


def _column_lanes(extent: int, width: int) -> int:
    """Return the most lanes with at most 10 % of padding, or one vector; 1 if it is too short."""
    for vectors in VECTORS:
        lanes = vectors * width
        if -(-extent // lanes) * lanes * 10 <= extent * 11:
            return lanes
    return width if extent >= width else 1


def _columns_per_chunk(plan: Plan, end: UOp, scan_loop: UOp, contiguous: UOp, lanes: int) -> int:
    """Return how many columns are carried together: those of a near cache, and of one core."""
    columns, outer = extent_of(contiguous), end.src[1 : end.src.index(scan_loop, 1)]
    others = trip_count(r for r in end.src[1:] if r not in (*outer, scan_loop, contiguous))
    item = max(n.dtype.numpy.itemsize for n in nodes_inside(end) if n.op is ops.REDUCE)
    most = max(MAX_CARRIED // (others * item), lanes)
    pays = streaming_strategy.pays_to_parallelize(trip_count(end.src[1:]), plan.target)
    is_split_for_cores = pays and trip_count(outer) < plan.target.cores
    chunks = max(-(-columns // most), plan.target.cores if is_split_for_cores else 1)
    return -(-columns // (chunks * lanes)) * lanes
