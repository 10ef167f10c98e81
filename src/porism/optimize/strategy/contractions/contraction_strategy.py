"""Contraction strategy: loop schedules of kernels in which a reduction reuses its operands.

A contraction is a nest of output loops around a reduction, such as a matrix product or a
convolution. Five schedules are compared or tried in this order; each of them names its loops in its
module, or in `model.tile_plan`:

- `column_panels`: a few rows times a matrix that no near cache holds;
- `blocked_tiles`: few results of a long reduction, in blocks for the L2 cache;
- `transposed_tiles`: vectors along another loop than the contiguous one, for constant weights;
- `flattened_tiles`: vectors along two merged loops, for small images;
- any other register tile of m × n, as in GEMM.

A kernel with several nests, or one that none of these fits, gets a plain schedule: each contiguous
loop of stores is vectorized; a loop whose iterations share loads is unrolled and jammed around it;
an operand that is strided along the lanes is packed if it is reused often enough.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Final

from porism.base.errors import ActionError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.loops.loop_interchange import Move
from porism.optimize.actions.loops.upcast_unroll import UNROLLED_KINDS, Upcast
from porism.optimize.actions.memory.packed_panels import Pack
from porism.optimize.analysis.buffer_loads import loads_of
from porism.optimize.analysis.contraction_accesses import Contraction, match_contraction
from porism.optimize.analysis.loop_strides import (
    access_stride,
    extent_of,
    is_in_reduction,
    is_unscheduled,
    lanes_of_widest_type,
    loads_for,
    nodes_inside,
    single_nest,
    stores_of,
    trip_count,
    unrolled_copies,
)
from porism.optimize.strategy import streaming_strategy
from porism.optimize.strategy.action_plan import Plan
from porism.optimize.strategy.contractions import column_panels
from porism.optimize.strategy.contractions.blocked_tiles import (
    apply_blocked_tile,
    best_blocked_tile,
)
from porism.optimize.strategy.contractions.tile_actions import apply_tile
from porism.optimize.strategy.contractions.tile_plans import best_candidate
from porism.optimize.strategy.contractions.transposed_tiles import apply_transposed_tile
from porism.optimize.strategy.vector_lanes import choose_lanes, is_contiguous_along_k_only

M_CHOICES: Final = (8, 6, 4, 5, 7, 3, 2)
"""Unroll factors of a loop whose iterations share loads, the best first (measured)."""

MIN_REUSE: Final = 6.0
"""How often an element is read, at least, for packing it to pay (measured)."""

MAX_PACKED: Final = 4
"""Loads of one kernel that are packed, at most (chosen by hand)."""

TRANSPOSED_ROWS: Final = 4
"""Contiguous elements that packing loads together, and transposes, where lanes are strided."""

LONG_K: Final = 64
"""Iterations of a reduction from which on reuse of one operand alone makes it a contraction."""

MIN_PACK_BYTES: Final = 1 << 17
"""Bytes that a packed panel may always have, also where the L2 cache is smaller or not known."""


def has_operand_reuse(kernel: UOp, *, of_both: bool = False) -> bool:
    """Return whether a reduction reuses its operands.

    It does if one operand is invariant in a loop that another one depends on, and the other way
    round for a second loop; or only the former, if the reduction is long and reuse `of_both` is not
    asked for.
    """
    for node in toposort(kernel):
        if node.op is not ops.REDUCE:
            continue
        # A scalar that is the same everywhere is as good as a constant.
        loads = [load for load in loads_for(node.src[0]) if load.ranges]
        loops = [set(load.ranges) & set(node.ranges) for load in loads]
        for own, others in itertools.permutations(loops, 2):
            is_long = not of_both and trip_count(node.src[1:]) >= LONG_K
            if own - others and (others - own or is_long):
                return True
    return False


def plan_contraction(kernel: UOp, target: Target, constants: frozenset[int] = frozenset()) -> Plan:
    """Return a plan for a kernel with a contraction; `constants` can be packed before all calls."""
    nest = None if target.block else match_contraction(kernel, constants)
    for schedule in _schedules(kernel, nest, target) if nest is not None else ():
        plan = Plan(kernel, target)
        try:
            schedule(plan)
            streaming_strategy.use_nontemporal_stores(plan)
        except ActionError:  # the kernel has more in it than the estimate knows of
            continue
        return plan
    plan = _vectorize_stores(Plan(kernel, target))
    streaming_strategy.vectorize_reductions(plan)
    streaming_strategy.parallelize(plan)
    return plan


def _schedules(kernel: UOp, nest: Contraction, target: Target) -> Iterator[Callable[[Plan], None]]:
    """Yield functions that apply a schedule to a plan, the one with the best estimate first."""
    panels = column_panels.choose_panels(nest, target)
    if panels is not None:
        yield lambda plan: column_panels.apply_panels(plan, nest, panels)
    best = best_candidate(nest, target)
    blocked = best_blocked_tile(kernel, nest, target)
    if blocked is not None and (best is None or blocked.cycles < best[0]):
        yield lambda plan: apply_blocked_tile(plan, blocked)
    if best is None:
        return
    tile = best[1]
    if tile.is_transposed:
        yield lambda plan: apply_transposed_tile(plan, nest, tile)
    else:
        yield lambda plan: apply_tile(plan, nest, tile)


# -- the plain schedule ----------------------------------------------------------------------------


def _vectorize_stores(plan: Plan) -> Plan:
    """Vectorize each store along its contiguous loop, the last store first.

    Upcasts that need nothing else are collected, and applied in one traversal.
    """
    width = lanes_of_widest_type(toposort(plan.kernel), plan.target)
    if width < 2:
        return plan
    ends, position = plan.ends(), 0
    pending: dict[UOp, Upcast] = {}
    while position < len(ends):  # from the last: what is packed for one comes before it
        position += 1
        end = ends[-position]
        if not pending.keys().isdisjoint((*nodes_inside(end), *end.src, *end.ranges)):
            ends = _apply_pending(plan, pending)
            end = ends[-position]
        for loop in end.src[1:]:
            strides = {
                access_stride(s.src[0].src[1], loop) for s in stores_of(end) if s.op is ops.STORE
            }
            if not is_unscheduled(loop) or strides != {1}:
                continue
            if is_contiguous_along_k_only(end, loop):
                _apply_pending(plan, pending)
                plan = _tile_and_pack(plan, end, loop, width)
                ends = plan.ends()
                break
            lanes, m_loop = _choose_tile(plan, end, loop, width)
            if lanes >= 2 and m_loop is None and extent_of(loop) % lanes == 0:
                pending[loop] = Upcast(show(loop), lanes)
            elif lanes >= 2:
                _apply_pending(plan, pending)
                _apply_plain_tile(plan, loop, lanes, m_loop)
                ends = plan.ends()
            break
    _apply_pending(plan, pending)
    return plan


def _apply_pending(plan: Plan, pending: dict[UOp, Upcast]) -> list[UOp]:
    """Apply the upcasts that were collected, and return the END nodes of the plan."""
    if pending:
        plan.upcast_disjoint(list(pending.values()))
        pending.clear()
    return plan.ends()


def _choose_tile(plan: Plan, end: UOp, loop: UOp, width: int) -> tuple[int, UOp | None]:
    """Return the lanes along a loop, and a loop whose iterations share loads, if there is one."""
    m_loop = _loop_with_shared_loads(end, loop)
    copies = unrolled_copies(end)
    multiples: list[int] = []
    if m_loop is not None:
        multiples = [2]
    elif is_in_reduction(end, loop):  # a few cache lines of each row, and not one
        is_long = extent_of(loop) >= 32 * width * plan.target.cores
        multiples = [8, 4, 2] if is_long else [4, 2]
    accumulators = plan.target.memory.registers * 3 // 4  # the others are for operands
    fitting = [n for n in multiples if n * copies <= accumulators or m_loop is not None]
    return choose_lanes(extent_of(loop), width, fitting), m_loop


def _apply_plain_tile(plan: Plan, loop: UOp, lanes: int, m_loop: UOp | None) -> None:
    """Vectorize a loop, and unroll and jam the one whose iterations share loads."""
    if m_loop is not None:
        _unroll_m_loop(plan, m_loop)
    axis = show(loop)
    plan.pad(axis, lanes)
    plan.do(Upcast(axis, lanes))
    if m_loop is None:
        return
    panels, rows = f"{axis}_0", f"{show(m_loop)}_0"
    loops = plan.loops()
    if panels in loops and extent_of(loops[panels]) >= 4 * plan.target.cores and rows in loops:
        # a panel of columns stays in the cache, and is reused for all rows
        plan.attempt(Move(panels, rows))


def _unroll_m_loop(plan: Plan, m_loop: UOp) -> None:
    """Unroll and jam a loop by a factor that divides its extent, or by 4 with padding."""
    extent = extent_of(m_loop)
    m = next((n for n in M_CHOICES if extent % n == 0), None)
    if m is None or (m < 4 and extent > 16):
        m = 4
        plan.pad(show(m_loop), m)
    plan.do(Upcast(show(m_loop), m))


def _loop_with_shared_loads(end: UOp, loop: UOp) -> UOp | None:
    """Return another output loop along which an operand of a reduction is reused."""
    for node in toposort(end.src[0], within=lambda n: n.op is not ops.END):
        if node.op is not ops.REDUCE or loop not in node.ranges:
            continue
        loads = loads_for(node.src[0])
        along = [n for n in loads if loop in n.ranges]
        for other in end.src[1:]:
            if other is loop or not is_unscheduled(other) or other not in node.ranges:
                continue
            if any(other not in n.ranges for n in along) and any(other in n.ranges for n in loads):
                return other
    return None


# -- packing in the plain schedule -----------------------------------------------------------------


def _tile_and_pack(plan: Plan, end: UOp, loop: UOp, width: int) -> Plan:
    """Return a plan with a loop vectorized and its strided loads packed, if that pays.

    Otherwise return the plan as it was.
    """
    tiled = plan.copy()
    lanes, m_loop = _choose_tile(plan, end, loop, width)
    if lanes >= 2:
        _apply_plain_tile(tiled, loop, lanes, m_loop)
    vector_loop = tiled.loops().get(f"{show(loop)}_1")
    if vector_loop is None or vector_loop.arg[1] is not Axis.UPCAST:
        return plan
    limit = max(plan.target.memory.l2 // 2, MIN_PACK_BYTES)
    for _ in range(MAX_PACKED):
        loads = _strided_loads(tiled.kernel, vector_loop)
        if not loads:
            return tiled
        packing = _choose_packing(tiled.kernel, loads[0], vector_loop)
        if packing is None:
            return plan
        pack, elements, reuse = packing
        if reuse < MIN_REUSE or elements * loads[0].dtype.numpy.itemsize > limit:
            return plan
        _pack_and_transpose(tiled, loads[0], pack)
    return plan


def _strided_loads(kernel: UOp, vector_loop: UOp) -> list[UOp]:
    """Return the loads of reductions that are neither invariant nor contiguous along a loop."""
    loads: dict[UOp, None] = {}
    for node in toposort(kernel):
        if node.op is ops.REDUCE and vector_loop in node.ranges:
            for load in loads_for(node.src[0]):
                if vector_loop in load.ranges and access_stride(load.src[1], vector_loop) not in (
                    0,
                    1,
                ):
                    loads[load] = None
    return list(loads)


def _choose_packing(kernel: UOp, load: UOp, vector_loop: UOp) -> tuple[Pack, int, float] | None:
    """Return an action that packs a load, the elements of its panel, and how often each is read.

    The panel is packed inside the outermost loops that the load depends on.
    """
    end = single_nest(kernel)
    if end is None:
        return None
    number = next((k for k in range(1, 64) if load in loads_of(kernel, k)), None)
    if number is None:
        return None
    loops = [r for r in end.src[1:] if r.arg[1] not in UNROLLED_KINDS]
    levels = [level for level, r in enumerate(loops) if r in load.ranges]
    around = loops[: max(levels) + 1] if levels else []
    inner = [r for r in load.ranges if r not in around]
    nest = [*around, *inner, *_invariant_loops(kernel, load)]
    if not inner or any(r.src[0].op is not ops.CONST for r in nest):
        return None
    inner.sort(key=lambda r: (r is vector_loop, r.arg[1] is not Axis.REDUCE))
    reuse = trip_count(nest) / (trip_count(around) * trip_count(inner))
    which = loads_of(kernel, number).index(load)
    pack = Pack(number, tuple(show(r) for r in inner), which)
    return pack, trip_count(inner), reuse


def _invariant_loops(kernel: UOp, load: UOp) -> list[UOp]:
    """Return the loops around a load that it does not depend on."""
    loops: dict[UOp, None] = {}
    above = {load}
    for node in toposort(kernel):
        if any(s in above for s in node.src):
            above.add(node)
            for r in node.ranges:
                if r not in load.ranges:
                    loops[r] = None
    return list(loops)


def _pack_and_transpose(plan: Plan, load: UOp, pack: Pack) -> None:
    """Pack a load, and transpose blocks of a few contiguous elements in registers."""
    loops = plan.loops()
    for axis, name in zip(pack.axes, plan.create_loops(pack), strict=True):
        is_contiguous = access_stride(load.src[1], loops[axis]) == 1
        if is_contiguous and extent_of(loops[axis]) % TRANSPOSED_ROWS == 0:
            plan.do(Upcast(name, TRANSPOSED_ROWS))
