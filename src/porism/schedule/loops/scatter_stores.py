"""Scattering: a reduction over indices that name elements, as stores to the elements they name.

    Before   for e < n:  p0[e] = sum of (v[j] where i[j] == e, else 0) for j < m
    After    for e < n:  p0[e] = 0
             for j < m:  p0[i[j]] += v[j]  where i[j] is an element

That is n + m steps instead of n·m. The loop over the indices is *ordered*: two of them may name one
element, so its iterations are never shared, swapped or made lanes of, and values are combined in
the order in which the reduction has them. The loops of the other axes stay as free as they were.

Assignments by index tensors, scatter, `bincount` and products with one-hot matrices are written as
such reductions; `names_elements` finds them among tensors, so that they get a kernel of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.node_shape import shape
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.traversal import substitute
from porism.rules.addresses.validity import masked
from porism.rules.reductions.reduction_splitting import Varying, varying

FEWEST: Final = 32
"""Elements, and indices: where there are fewer, comparing all of them in vectors is faster."""

Values = dict[UOp, UOp]
"""Loops and what they stand for."""


# -- tensors ---------------------------------------------------------------------------------------


def names_elements(node: UOp, known: dict[UOp, Varying]) -> bool:
    """Whether a REDUCE_AXIS goes over indices that are compared with the positions along an axis.

    `known` is for what is found out on the way.
    """
    chosen, (_, axes) = node.src[0], node.arg
    if chosen.op is not ops.WHERE or not _is_number(chosen.src[2]):
        return False
    condition, value, _ = chosen.src
    dims = shape(chosen)
    if condition.op is not ops.EQ or not _are_many([dims[axis] for axis in axes]):
        return False
    for position, place in (condition.src, condition.src[::-1]):
        axis = _counted_axis(position)
        if axis is not None and axis not in axes and _are_many([dims[axis]]):
            return axis not in varying(place, known) | varying(value, known)
    return False


def _is_number(node: UOp) -> bool:
    while node.op.group is Group.MOVEMENT or node.op is ops.CAST:
        node = node.src[0]
    return node.op is ops.CONST


def _counted_axis(node: UOp) -> int | None:
    """The axis whose positions a tensor has."""
    while node.op is ops.CAST:
        node = node.src[0]
    return node.arg if node.op is ops.IOTA else None


def _are_many(dims: Sequence[UOp]) -> bool:
    total = 1
    for dim in dims:
        if dim.vmax == float("inf"):
            return True
        total *= int(dim.vmax)
    return total >= FEWEST


# -- kernels ---------------------------------------------------------------------------------------


def scatter(sink: UOp) -> UOp:
    """A kernel that stores at the elements that indices name, if it is of that form."""
    (end, *others) = sink.src
    if others or end.op is not ops.END or end.src[0].op is not ops.STORE:
        return sink
    value, loops = end.src[0].src[1], end.src[1:]
    if value.op is not ops.REDUCE or any(r.src[0].ranges for r in (*loops, *value.src[1:])):
        return sink
    chosen, *indices = value.src
    if chosen.op is not ops.WHERE or not _are_many(_sizes(indices)):
        return sink
    start = _start(value, chosen)
    if start is None:
        return sink
    conditions = list(_conditions(chosen.src[0]))
    for condition in conditions:
        if condition.op is not ops.EQ:
            continue
        for position, named in (condition.src, condition.src[::-1]):
            found = _solved(position, named, loops)
            if found is None or not _are_many(_sizes([*found])):
                continue
            rest = [c for c in conditions if c is not condition]
            if not any(r in found for n in (named, chosen.src[1], *rest) for r in n.ranges):
                return _scattered(end, start, found, rest)
    return sink


def _sizes(ranges: Sequence[UOp]) -> list[UOp]:
    return [r.src[0] for r in ranges]


def _conditions(node: UOp) -> Iterator[UOp]:
    stack = [node]
    while stack:
        one = stack.pop()
        if one.op is ops.AND:
            stack += one.src
        else:
            yield one


def _start(value: UOp, chosen: UOp) -> UOp | None:
    """What an element is that no index names; None if others do not begin there.

    They do with the identity, and with a number that no value is beyond.
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


def _solved(position: UOp, named: UOp, loops: Sequence[UOp]) -> Values | None:
    """The iterations of some loops at which `position` has a value; None if that is not clear.

    Only the first of these loops may be asked for an iteration that it does not have.
    """
    at = named if named.dtype is index else named.cast(index)
    found: Values = {}
    while True:
        if position.op is ops.RANGE:
            if position not in loops or position in found or position.src[0].op is not ops.CONST:
                return None
            return {position: at} | found
        if position.op is ops.CAST and position.src[0].dtype is index:
            inner = position.src[0]
            if (position.vmin, position.vmax) != (inner.vmin, inner.vmax):
                return None  # it may wrap
            position = inner
        elif position.op is ops.ADD and position.src[1].op is ops.CONST:
            at -= position.src[1].arg
            position = position.src[0]
        elif position.op is ops.ADD:
            tail = next((s for s in position.src if s.op is ops.RANGE), None)
            if tail is None or tail not in loops or tail.src[0].op is not ops.CONST:
                return None
            head = position.src[1 - position.src.index(tail)]
            size = tail.src[0].arg
            if head.op is not ops.MUL or head.src[1].op is not ops.CONST:
                return None
            if head.src[1].arg != size or tail in found:
                return None
            found = {tail: at % size} | found
            at //= size
            position = head.src[0]
        else:
            return None


def _scattered(end: UOp, start: UOp, found: Values, conditions: Sequence[UOp]) -> UOp:
    store, *loops = end.src
    place, value = store.src
    buffer, at = place.src
    chosen, *indices = value.src
    element = chosen.src[1]
    count = len(loops)
    starts = {r: UOp.range(r.src[0], k) for k, r in enumerate(loops)}
    new = {r: UOp.range(r.src[0], count + k, Axis.ORDERED) for k, r in enumerate(indices)}
    free = [r for r in loops if r not in found]
    new |= {r: UOp.range(r.src[0], count + len(new) + k) for k, r in enumerate(free)}
    first = buffer.index(substitute(at, starts), dtype=place.dtype)
    started = buffer.after(first.store(start).end(*starts.values()))

    asked = {r: substitute(number, new) for r, number in found.items()}
    outermost = next(iter(asked))
    number, size = asked[outermost], outermost.src[0]
    inside = (number >= 0) & (number < size)
    for condition in conditions:
        inside = inside & substitute(condition, new)
    # said in this way, it is known to fit the machine's words
    asked[outermost] = number.maximum(0).minimum(size - 1)
    there = started.index(masked(inside, substitute(at, new | asked)), dtype=place.dtype)
    changed = there.store(value.arg(there, substitute(element, new)))
    return ops.SINK(changed.end(*new.values()))
