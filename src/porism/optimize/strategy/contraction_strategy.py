"""Contractions: the loops of kernels in which a reduction uses its operands again.

Where one operand of a reduction is the same for all lanes and another for all rows, a tile of rows
and lanes is computed together, so that what is loaded is used several times. A load that would jump
in memory from lane to lane is copied first, if it is used often enough.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from porism.base.errors import ActionError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.loop_actions import Move, Upcast
from porism.optimize.actions.packed_panels import SPREAD, Stage, loads_of
from porism.optimize.analysis.contraction_accesses import Contraction, contraction
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
from porism.optimize.strategy import column_panels, streaming_strategy
from porism.optimize.strategy.action_plan import Plan, extent_of, is_unscheduled
from porism.optimize.strategy.flat_tiles import best_flattened_tile
from porism.optimize.strategy.register_tiles import Tile, best
from porism.optimize.strategy.tile_actions import tiled
from porism.optimize.strategy.transposed_tiles import best_transposed_tile, turned

ROWS: Final = (8, 6, 4, 5, 7, 3, 2)
"""Numbers of rows that are computed together, the best first."""

GAIN: Final = 6.0
"""How often an element is read, at least, for a copy of it to pay."""

MOST_STAGED: Final = 4
"""Operands of one kernel that are copied."""

TURNED: Final = 4
"""Neighbours in memory that are loaded together where lanes jump."""

LONG: Final = 64
"""Terms of a long reduction."""

MEMORY: Final = 1 << 17
"""Bytes that a copy may take where the size of the cache is not known."""


def has_operand_reuse(kernel: UOp) -> bool:
    """Whether a reduction uses operands again.

    It does if one operand is the same for a loop that another depends on, and the other way round
    for a second loop; or only the first, if the reduction is long.
    """
    for node in toposort(kernel):
        if node.op is not ops.REDUCE:
            continue
        # A number that is the same everywhere is as good as a constant.
        loads = [load for load in reads(node.src[0]) if load.ranges]
        along = [set(load.ranges) & set(node.ranges) for load in loads]
        for one, other in itertools.permutations(along, 2):
            if one - other and (other - one or iterations(node.src[1:]) >= LONG):
                return True
    return False


def plan_contraction(kernel: UOp, target: Target, constants: frozenset[int] = frozenset()) -> Plan:
    """The actions for a kernel with a contraction."""
    found = None if target.block else contraction(kernel, constants)
    for way in _ways(found, target) if found is not None else ():
        plan = Plan(kernel, target)
        try:
            way(plan)
            streaming_strategy.use_nontemporal_stores(plan)
        except ActionError:  # there is more in it than the estimate knows of
            continue
        return plan
    plan = _in_vectors(Plan(kernel, target))
    streaming_strategy.reductions(plan)
    streaming_strategy.parallelize(plan)
    return plan


def _ways(found: Contraction, target: Target) -> Iterator[Callable[[Plan], None]]:
    """What may be done with a contraction, the best first."""
    strip = column_panels.best(found, target)
    if strip is not None:
        yield lambda plan: column_panels.in_strips(plan, found, strip)
    tile = _best(found, target)
    lying = best_transposed_tile(found, target)
    if lying is not None and (tile is None or lying.cycles < tile.cycles):
        yield lambda plan: turned(plan, found, lying)
    if tile is not None:
        yield lambda plan: tiled(plan, found, tile)


def _best(found: Contraction, target: Target) -> Tile | None:
    """The tile with the fewest cycles, flat or not."""
    both = [
        tile
        for tile in (best(found, target), best_flattened_tile(found, target))
        if tile is not None
    ]
    return min(both, key=lambda tile: tile.cycles, default=None)


def _in_vectors(plan: Plan) -> Plan:
    """Stores along neighbouring elements, in vectors."""
    width = widest(toposort(plan.kernel), plan.target)
    if width < 2:
        return plan
    ends, place = plan.ends(), 0
    waiting: dict[UOp, Upcast] = {}
    while place < len(ends):  # from the last: what is copied for one comes before it
        place += 1
        end = ends[-place]
        if not waiting.keys().isdisjoint((*inside(end), *end.src, *end.ranges)):
            ends = _caught_up(plan, waiting)
            end = ends[-place]
        for counter in end.src[1:]:
            steps = {step(s.src[0].src[1], counter) for s in stores(end) if s.op is ops.STORE}
            if not is_unscheduled(counter) or steps != {1}:
                continue
            if _is_better_inside(end, counter):
                _caught_up(plan, waiting)
                plan = _tile_and_stage(plan, end, counter, width)
                ends = plan.ends()
                break
            lanes, rows = _lanes_and_rows(plan, end, counter, width)
            if lanes >= 2 and rows is None and extent_of(counter) % lanes == 0:
                waiting[counter] = Upcast(show(counter), lanes)
            elif lanes >= 2:
                _caught_up(plan, waiting)
                _tile(plan, counter, lanes, rows)
                ends = plan.ends()
            break
    _caught_up(plan, waiting)
    return plan


def _caught_up(plan: Plan, waiting: dict[UOp, Upcast]) -> list[UOp]:
    """The ENDs of a plan after the actions that have waited: one walk does for all of them."""
    if waiting:
        plan.upcast_disjoint(list(waiting.values()))
        waiting.clear()
    return plan.ends()


def _tile_and_stage(plan: Plan, end: UOp, counter: UOp, width: int) -> Plan:
    """A tile whose loads that jump along the lanes are copied first; as it was, if not worth it."""
    tiled = plan.copy()
    lanes, rows = _lanes_and_rows(plan, end, counter, width)
    if lanes >= 2:
        _tile(tiled, counter, lanes, rows)
    lane = tiled.loops().get(f"{show(counter)}_1")
    if lane is None or lane.arg[1] is not Axis.UPCAST:
        return plan
    limit = max(plan.target.memory.l2 // 2, MEMORY)
    for _ in range(MOST_STAGED):
        jumping = _jumping(tiled.kernel, lane)
        if not jumping:
            return tiled
        found = _staging(tiled.kernel, jumping[0], lane)
        if found is None:
            return plan
        stage, size, gain = found
        if gain < GAIN or size * jumping[0].dtype.numpy.itemsize > limit:
            return plan
        before = tiled.loops()
        tiled.do(stage)
        _turn(tiled, jumping[0], stage, before)
    return plan


def _turn(plan: Plan, load: UOp, stage: Stage, before: dict[str, UOp]) -> None:
    """Some neighbours of a copy together, so that they are loaded as such, and then turned."""
    fresh = sorted(set(plan.loops()) - set(before), key=lambda name: int(name[1:]))
    for axis, name in zip(stage.axes, fresh, strict=True):
        if step(load.src[1], before[axis]) == 1 and extent_of(before[axis]) % TURNED == 0:
            plan.do(Upcast(name, TURNED))


def _staging(kernel: UOp, load: UOp, lane: UOp) -> tuple[Stage, int, float] | None:
    """A copy inside the outermost loops that a load depends on, its size and its gain."""
    end = kernel.src[0]
    if len(kernel.src) != 1 or end.op is not ops.END:
        return None
    number = next((k for k in range(1, 64) if load in loads_of(kernel, k)), None)
    if number is None:
        return None
    loops = [r for r in end.src[1:] if r.arg[1] not in SPREAD]
    level = [place for place, r in enumerate(loops) if r in load.ranges]
    around = loops[: max(level) + 1] if level else []
    inner = [r for r in load.ranges if r not in around]
    every = [*around, *inner, *_others(kernel, load)]
    if not inner or any(r.src[0].op is not ops.CONST for r in every):
        return None
    inner.sort(key=lambda r: (r is lane, r.arg[1] is not Axis.REDUCE))
    gain = iterations(every) / (iterations(around) * iterations(inner))
    place = loads_of(kernel, number).index(load)
    stage = Stage(number, tuple(show(r) for r in inner), place)
    return stage, iterations(inner), gain


def _others(kernel: UOp, load: UOp) -> list[UOp]:
    """The ranges around a load that it does not depend on."""
    found: dict[UOp, None] = {}
    above = {load}
    for node in toposort(kernel):
        if any(s in above for s in node.src):
            above.add(node)
            for r in node.ranges:
                if r not in load.ranges:
                    found[r] = None
    return list(found)


def _jumping(kernel: UOp, lane: UOp) -> list[UOp]:
    """The loads of reductions that are neither the same nor neighbours in all lanes."""
    found: dict[UOp, None] = {}
    for node in toposort(kernel):
        if node.op is ops.REDUCE and lane in node.ranges:
            for load in reads(node.src[0]):
                if lane in load.ranges and step(load.src[1], lane) not in (0, 1):
                    found[load] = None
    return list(found)


def _is_better_inside(end: UOp, counter: UOp) -> bool:
    """Whether a reduction jumps in memory along a loop, but reads neighbours along its own."""
    for node in toposort(end.src[0], within=lambda n: n.op is not ops.END):
        if node.op is ops.REDUCE and counter in node.ranges:
            loads = [n for n in reads(node.src[0]) if counter in n.ranges]
            jumps = any(step(n.src[1], counter) not in (0, 1) for n in loads)
            if jumps and any(reads_neighbours(node, r) for r in node.src[1:]):
                return True
    return False


def _lanes_and_rows(plan: Plan, end: UOp, counter: UOp, width: int) -> tuple[int, UOp | None]:
    """How many lanes there are along a loop, and a loop whose iterations share what is loaded."""
    rows = _shared_rows(end, counter)
    size = extent_of(counter)
    copies = copies_of(end)
    wider: list[int] = []
    if rows is not None:
        wider = [2]
    elif is_reduced(end, counter):  # a few cache lines of each row, and not one
        wider = [8, 4, 2] if size >= 32 * width * plan.target.cores else [4, 2]
    most = plan.target.memory.registers * 3 // 4  # for results; the rest is for operands
    fitting = [n for n in wider if n * copies <= most or rows is not None]
    return _lanes(size, width, fitting), rows


def _tile(plan: Plan, counter: UOp, lanes: int, rows: UOp | None) -> None:
    """Lanes along a loop, and rows along another where loads are shared between them."""
    if rows is not None:
        _rows_together(plan, rows)
    axis = show(counter)
    plan.pad(axis, lanes)
    plan.do(Upcast(axis, lanes))
    if rows is None:
        return
    outer, outer_rows = f"{axis}_0", f"{show(rows)}_0"
    loops = plan.loops()
    if outer in loops and extent_of(loops[outer]) >= 4 * plan.target.cores and outer_rows in loops:
        # what is read along the lanes stays in a cache, and is used for all rows
        move = Move(outer, outer_rows)
        if move.is_legal(plan.kernel, plan.target):
            plan.do(move)


def _rows_together(plan: Plan, rows: UOp) -> None:
    size = extent_of(rows)
    amount = next((n for n in ROWS if size % n == 0), None)
    if amount is None or (amount < 4 and size > 16):
        amount = 4
        plan.pad(show(rows), amount)
    plan.do(Upcast(show(rows), amount))


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
        loads = reads(node.src[0])
        along = [n for n in loads if counter in n.ranges]
        for row in end.src[1:]:
            if row is counter or not is_unscheduled(row) or row not in node.ranges:
                continue
            if any(row not in n.ranges for n in along) and any(row in n.ranges for n in loads):
                return row
    return None
