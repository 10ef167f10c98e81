"""Scatter stores: a reduction that compares an index tensor with positions becomes a scatter.

    Before   for e < n:  p0[e] = sum of (v[j] where i[j] == e, else 0) for j < m
    After    for e < n:  p0[e] = 0
             for j < m:  p0[i[j]] += v[j]  where i[j] is an element

That is n + m iterations instead of n·m. The loop over the indices is *ordered*: two indices may be
equal, so its iterations are never run in parallel, reordered or vectorized, and values are combined
in the order of the reduction. The loops of the other axes are not restricted.

Assignments by index tensors, scatter, `bincount` and products with one-hot matrices are such
reductions; `is_scatter` finds them among tensors, so that they get a kernel of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.node_shape import shape
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.traversal import substitute, toposort
from porism.rules.addresses.validity import masked
from porism.rules.reductions.reduction_splitting import Varying, varying_axes

MIN_EXTENT: Final = 32
"""Least numbers of elements and of indices: with fewer, comparing all of them in vectors is faster;
chosen by hand."""

LoopValues = dict[UOp, UOp]
"""For each loop the iteration that is meant."""


# -- tensors ---------------------------------------------------------------------------------------


def is_scatter(node: UOp, known: dict[UOp, Varying]) -> bool:
    """Return whether a REDUCE_AXIS compares indices with the positions along another axis.

    `known` caches the axes along which tensors vary.
    """
    chosen, (_, axes) = node.src[0], node.arg
    if chosen.op is not ops.WHERE or not _is_constant(chosen.src[2]):
        return False
    condition, value, _ = chosen.src
    dims = shape(chosen)
    if condition.op is not ops.EQ or not _is_long([dims[axis] for axis in axes]):
        return False
    for position, indices in (condition.src, condition.src[::-1]):
        axis = _iota_axis(position)
        if axis is not None and axis not in axes and _is_long([dims[axis]]):
            return axis not in varying_axes(indices, known) | varying_axes(value, known)
    return False


def _is_constant(node: UOp) -> bool:
    """Return whether all elements of a tensor are one constant."""
    while node.op.group is Group.MOVEMENT or node.op is ops.CAST:
        node = node.src[0]
    return node.op is ops.CONST


def _iota_axis(node: UOp) -> int | None:
    """Return the axis whose positions a tensor has; None if it is no IOTA."""
    while node.op is ops.CAST:
        node = node.src[0]
    return node.arg if node.op is ops.IOTA else None


def _is_long(dims: Sequence[UOp]) -> bool:
    """Return whether axes have MIN_EXTENT elements or more together."""
    total = 1
    for dim in dims:
        if dim.vmax == float("inf"):
            return True
        total *= int(dim.vmax)
    return total >= MIN_EXTENT


# -- kernels ---------------------------------------------------------------------------------------


def scatter_stores(sink: UOp) -> UOp:
    """Return a kernel that scatters, if it reduces over an index tensor compared with positions."""
    (end, *others) = sink.src
    if others or end.op is not ops.END or end.src[0].op is not ops.STORE:
        return sink
    value, loops = end.src[0].src[1], end.src[1:]
    if value.op is not ops.REDUCE or any(r.src[0].ranges for r in (*loops, *value.src[1:])):
        return sink
    chosen, *indices = value.src
    if chosen.op is not ops.WHERE or not _is_long(_extents(indices)):
        return sink
    start = _start(value, chosen)
    target = None if start is None else _match_target(chosen, loops)
    return sink if start is None or target is None else _scatter(end, start, *target)


def _match_target(chosen: UOp, loops: Sequence[UOp]) -> tuple[LoopValues, list[UOp]] | None:
    """Return the iterations of the loops that a condition names, and the other conditions.

    None if no condition compares a position with a value that is known without these loops.
    """
    conditions = list(_conditions(chosen.src[0]))
    for condition in conditions:
        if condition.op is not ops.EQ:
            continue
        for position, named in (condition.src, condition.src[::-1]):
            target = _solve(position, named, loops)
            if target is None or not _is_long(_extents([*target])):
                continue
            rest = [c for c in conditions if c is not condition]
            if not any(r in target for n in (named, chosen.src[1], *rest) for r in n.ranges):
                return target, rest
    return None


def _extents(loops: Sequence[UOp]) -> list[UOp]:
    return [loop.src[0] for loop in loops]


def _conditions(condition: UOp) -> Iterator[UOp]:
    """Yield the clauses of a conjunction."""
    stack = [condition]
    while stack:
        clause = stack.pop()
        if clause.op is ops.AND:
            stack += clause.src
        else:
            yield clause


def _start(value: UOp, chosen: UOp) -> UOp | None:
    """Return the initial value of every element; None if the reduction cannot begin with it.

    It can with the identity of the reduction, and with a number that no value is beyond.
    """
    op, (_, element, other) = value.arg, chosen.src
    if other.op is not ops.CONST:
        return None
    if other.arg == identity(op, value.dtype):
        return UOp.const(value.dtype, identity(op, value.dtype))
    if any(r.src[0].vmin < 1 for r in value.src[1:]) or value.dtype.is_float:
        return None
    least = op is ops.MAX and element.vmin >= other.arg
    return other if least or (op is ops.MIN and element.vmax <= other.arg) else None


def _solve(position: UOp, value: UOp, loops: Sequence[UOp]) -> LoopValues | None:
    """Return the iterations of loops at which `position` has a value; None if it is not solvable.

    Only that of the first of these loops may be outside of the loop.
    """
    at = value if value.dtype is index else value.cast(index)
    solution: LoopValues = {}
    while True:
        if position.op is ops.RANGE:
            if position not in loops or position in solution or position.src[0].op is not ops.CONST:
                return None
            return {position: at} | solution
        if position.op is ops.CAST and position.src[0].dtype is index:
            inner = position.src[0]
            if (position.vmin, position.vmax) != (inner.vmin, inner.vmax):
                return None  # it may wrap
            position = inner
        elif position.op is ops.ADD and position.src[1].op is ops.CONST:
            at -= position.src[1].arg
            position = position.src[0]
        elif position.op is ops.ADD:
            parts = _outer_and_inner(position)
            if parts is None or parts[1] not in loops or parts[1] in solution:
                return None
            position, inner_loop = parts
            extent = inner_loop.src[0].arg
            solution = {inner_loop: at % extent} | solution
            at //= extent
        else:
            return None


def _outer_and_inner(position: UOp) -> tuple[UOp, UOp] | None:
    """Return x and r of x * n + r, where r is a loop of n iterations; None for other sums."""
    loop = next((s for s in position.src if s.op is ops.RANGE), None)
    if loop is None or loop.src[0].op is not ops.CONST:
        return None
    outer = position.src[1 - position.src.index(loop)]
    if outer.op is not ops.MUL or outer.src[1].op is not ops.CONST:
        return None
    return (outer.src[0], loop) if outer.src[1].arg == loop.src[0].arg else None


def _scatter(end: UOp, start: UOp, target: LoopValues, conditions: Sequence[UOp]) -> UOp:
    """Return the kernel that stores `start` everywhere, then combines each value at its target."""
    store, *loops = end.src
    address, value = store.src
    buffer, offset = address.src
    chosen, *indices = value.src
    element = chosen.src[1]
    replaced = {*loops, *indices}
    others = {n.arg[0] for n in toposort(end) if n.op is ops.RANGE and n not in replaced}
    numbers = (k for k in itertools.count() if (k,) not in others)
    init_loops = {r: UOp.range(r.src[0], next(numbers)) for r in loops}
    new = {r: UOp.range(r.src[0], next(numbers), Axis.ORDERED) for r in indices}
    new |= {r: UOp.range(r.src[0], next(numbers)) for r in loops if r not in target}
    initial = buffer.index(substitute(offset, init_loops), dtype=address.dtype)
    initialized = buffer.after(initial.store(start).end(*init_loops.values()))

    iterations = {r: substitute(iteration, new) for r, iteration in target.items()}
    outermost = next(iter(iterations))
    iteration, extent = iterations[outermost], outermost.src[0]
    inside = (iteration >= 0) & (iteration < extent)
    for condition in conditions:
        inside = inside & substitute(condition, new)
    # clamped, so that its bounds fit the index width of the machine
    iterations[outermost] = iteration.maximum(0).minimum(extent - 1)
    masked_offset = masked(inside, substitute(offset, new | iterations))
    accumulator = initialized.index(masked_offset, dtype=address.dtype)
    update = accumulator.store(value.arg(accumulator, substitute(element, new)))
    return ops.SINK(update.end(*new.values()))
