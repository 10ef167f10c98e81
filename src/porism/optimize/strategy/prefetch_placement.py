"""Fetching: what is read of large buffers, fetched into a near cache before it is used.

A buffer that the last cache does not hold comes from memory, and how fast depends on how many lines
are on their way at a time. A processor sees by itself that they are read in order, but it does not
look far enough ahead. So with each vector that is read, one that is read later is fetched:

- of rows that are gone over several times, the next row: the first pass waits for memory, the
  others do not use it; a pass that is soon done fetches nothing;
- of rows whose places are looked up, some that are read later;
- of anything else that is read in order, what is some lines further, unless it is computed with
  for longer than that takes; fewer lines, if several rows are read in turn;
- of constants that are laid out for a kernel, and gone over a few times part by part, what is
  further in the same part: the first pass waits for memory, and is much of all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from porism.base.target import LINE, Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.memory.software_prefetch import Prefetch, is_indirect
from porism.optimize.analysis.loop_strides import iterations, step
from porism.optimize.model.loop_cost import weight
from porism.optimize.strategy.action_plan import Plan, extent_of

AHEAD: Final = 2048
"""Bytes from what is read to what is fetched."""

LATER: Final = 2 * AHEAD
"""Bytes from a row whose place is looked up to one that is fetched: two rows at least."""

LONG: Final = 4 * AHEAD
"""Bytes that are read one after the other, at least."""

MOST_ROWS: Final = 2
"""Rows that are read side by side, at most: more of them are seen to be read in order."""

MOST_SUMMED: Final = 8
"""The same of rows whose elements are added up: all that is done is to read them."""

RARE: Final = 16
"""What is read so many times less often than the rest does not matter, such as the last terms."""

SOON: Final = 4
"""A pass over a row is soon done if it takes so many times less than another."""

SLOW: Final = 20
"""Operations on an element that take longer than to read and store it."""

PASSES: Final = 8
"""Over a part of a constant, at most: of more of them, the first is little."""

FURTHER: Final = 4096
"""Bytes from what is read of a constant to what is fetched."""

SIDE_BY_SIDE: Final = (Axis.UPCAST, Axis.UNROLL)


def insert_prefetches(plan: Plan) -> None:
    """Fetch rows of buffers larger than half of the last cache, lines of those larger than it."""
    if plan.target.block or not plan.target.vector_bits:
        return
    least = plan.target.memory.last_cache // 2
    order = toposort(plan.kernel)
    places = {n.src[0] for n in order if n.op is ops.STORE}
    loads: dict[UOp, list[UOp]] = {}
    for node in order:
        if node.op is ops.INDEX and node not in places:
            base = base_of(node)
            if base.op is ops.PARAM and _bytes(base) >= least:
                loads.setdefault(base, []).append(node)
    for buffer, found in loads.items():
        action = _next_row(plan, buffer, found)
        if action is None and _bytes(buffer) >= 2 * least and not _is_slow(order, found[0]):
            action = _next_lines(buffer, found) or _later_rows(buffer, found)
        if action is not None and action.is_legal(plan.kernel, plan.target):
            plan.do(action)


def prefetch_prepacked(kernel: UOp, numbers: Collection[int], target: Target) -> UOp:
    """A kernel that fetches constants, laid out for it, ahead of the first of a few passes."""
    order = toposort(kernel)
    for node in order:
        if node.op is not ops.INDEX or node.src[0].op is not ops.PARAM:
            continue
        buffer = node.src[0]
        if buffer.arg not in numbers or _bytes(buffer) <= target.memory.l2:
            continue
        along = _in_order(node, _item(buffer))
        if along is None or not 1 < _passes(kernel, order, node, along[0]) <= PASSES:
            continue
        axis, elements = along
        action = Prefetch(buffer.arg, show(axis), max(FURTHER // (elements * _item(buffer)), 1))
        if action.is_legal(kernel, target):
            kernel = action.apply(kernel, target)
    return kernel


def _passes(kernel: UOp, order: Sequence[UOp], load: UOp, axis: UOp) -> int:
    """How often in turn a reduction reads what a load reads along an axis."""
    whole = next((n for n in order if n.op is ops.REDUCE and axis in n.src[1:]), None)
    if whole is None:
        return 1
    loops = [r for r in kernel.src[0].src[1:] if r.arg[1] in (Axis.LOOP, Axis.THREAD)]
    last = max((place for place, r in enumerate(loops) if r in load.ranges), default=-1)
    return iterations(r for r in loops[last + 1 :] if r in whole.ranges)


def _bytes(buffer: UOp) -> int:
    return int(buffer.dtype.size) * _item(buffer)


def _item(buffer: UOp) -> int:
    return int(buffer.dtype.element.numpy.itemsize)


def _next_row(plan: Plan, buffer: UOp, loads: Sequence[UOp]) -> Prefetch | None:
    """The next of rows that are gone over several times, if a near cache holds some of them."""
    end = plan.kernel.src[0]
    if end.op is not ops.END or end.src[1].arg[1] is not Axis.THREAD:
        return None
    outermost = end.src[1]
    if len({frozenset(n.ranges) for n in loads}) < 2:
        return None
    row = iterations(r for r in loads[0].ranges if r is not outermost)
    if not LINE <= row * _item(buffer) <= plan.target.memory.l2 // 4:
        return None
    if any(step(n.src[1], outermost) != row for n in loads):
        return None
    return Prefetch(buffer.arg, show(outermost), 1, _slow_passes(toposort(plan.kernel), loads))


def _slow_passes(order: Sequence[UOp], loads: Sequence[UOp]) -> tuple[str, ...]:
    """The loops in which some loads are, without those that are soon done; none if all take long.

    A loop that does little asks for more than memory can give, and waits for it.
    """
    loops = dict.fromkeys(
        next((r for r in n.ranges if r.arg[1] in (Axis.LOOP, Axis.REDUCE)), None) for n in loads
    )
    work = {r: sum(weight(n) for n in order if r in n.ranges) for r in loops if r is not None}
    slow = [r for r, operations in work.items() if operations * SOON >= max(work.values())]
    return tuple(map(show, slow)) if len(slow) < len(work) == len(loops) else ()


def _is_slow(order: Sequence[UOp], load: UOp) -> bool:
    """Whether so much is computed with an element that the next ones come meanwhile."""
    inside = set(load.ranges)
    values = (n for n in order if n.dtype.is_float and n.op is not ops.INDEX)
    return sum(weight(n) for n in values if inside <= set(n.ranges)) >= SLOW


def _next_lines(buffer: UOp, loads: Sequence[UOp]) -> Prefetch | None:
    """What is some lines further, if all is read in order."""
    item = _item(buffer)
    most = max(iterations(load.ranges) for load in loads)
    often = [load for load in loads if iterations(load.ranges) * RARE > most]
    found = {_in_order(load, item) for load in often}
    if len(found) != 1 or (along := found.pop()) is None:
        return _in_parts(buffer, loads) if len(loads) > 1 else None
    axis, elements = along
    ahead = AHEAD if axis.arg[1] is Axis.REDUCE or not _in_turn(loads) else AHEAD // 2
    within = () if len(often) == len(loads) else (show(axis),)
    return Prefetch(buffer.arg, show(axis), max(ahead // (elements * item), 1), within)


def _in_parts(buffer: UOp, loads: Sequence[UOp]) -> Prefetch | None:
    """What is some rows further, if short rows follow each other, and each is read in parts."""
    axes = {r for n in loads for r in n.ranges if r.arg[1] is Axis.THREAD}
    rows = {step(n.src[1], r) for n in loads for r in axes}
    row = rows.pop() if len(axes) == len(rows) == 1 else None
    if row is None or not LINE <= row * _item(buffer) <= 2 * AHEAD:
        return None
    for load in loads:
        lanes = [r for r in load.ranges if r.arg[1] in SIDE_BY_SIDE]
        if [step(load.src[1], r) for r in lanes] != [1]:
            return None
    (axis,) = axes
    read = sum(iterations(r for r in n.ranges if r is not axis) for n in loads)
    ahead = max(AHEAD // (row * _item(buffer)), 1)
    return Prefetch(buffer.arg, show(axis), ahead) if row <= read < 2 * row else None


def _later_rows(buffer: UOp, loads: Sequence[UOp]) -> Prefetch | None:
    """The rows that come some lines later, if it is read in each iteration of a loop where."""
    places = [n for load in loads for n in toposort(load.src[1]) if n.op is ops.INDEX]
    axes = {r for n in places for r in n.ranges if r.arg[1] in (Axis.LOOP, Axis.THREAD)}
    if len(axes) != 1 or any(r.arg[1] in SIDE_BY_SIDE for n in places for r in n.ranges):
        return None
    (axis,) = axes
    for load in loads:
        lanes = [r for r in load.ranges if r.arg[1] in SIDE_BY_SIDE]
        if not any(step(load.src[1], r) == 1 for r in lanes) or not is_indirect(load, axis):
            return None
    inner = [r for r in loads[0].ranges if r is not axis]
    row = iterations(inner) * _item(buffer)
    return Prefetch(buffer.arg, show(axis), max(LATER // row, 2)) if row >= LINE else None


def _in_turn(loads: Sequence[UOp]) -> bool:
    """Whether some of several rows is read before more of the first: more is on its way then."""
    return any(r.arg[1] is Axis.REDUCE and extent_of(r) > 1 for n in loads for r in n.ranges)


def _in_order(load: UOp, item: int) -> tuple[UOp, int] | None:
    """The loop along which vectors are read one after the other, and its step; None if not."""
    loops: list[tuple[int, UOp]] = []
    beside: list[tuple[int, int]] = []
    for r in load.ranges:
        far = step(load.src[1], r)
        if far is None and r.arg[1] is Axis.THREAD:
            continue  # it only says where what is read begins
        if far is None or far < 0:
            return None
        if far and r.arg[1] in SIDE_BY_SIDE:
            beside.append((far, extent_of(r)))
        elif far:
            loops.append((far, r))
    if not loops:
        return None
    loops.sort(key=lambda found: found[0])
    first, axis = loops[0]
    lanes = rows = 1
    for far, size in beside:
        if far < first:
            lanes *= size
        else:
            rows *= size
    most = MOST_SUMMED if axis.arg[1] is Axis.REDUCE else MOST_ROWS
    if lanes != first or lanes * item * 2 < LINE or rows > most:
        return None
    length = first
    for far, r in loops:
        if far * RARE > length * (RARE + 1):  # the last of a row may be read apart
            break
        length = far * extent_of(r)
    return (axis, first) if length * item >= LONG else None
