"""Staging: the part of a buffer that some loops read, copied into local memory first.

    for j: for i: for k: … b[j * n + k] …        for j: t[k] = b[j * n + k] for all k
                                                        for i: for k: … t[k] …

The copy is laid out as the inner loops walk it, so that what jumped in memory reads neighbours. It
pays where each element is read many times inside the loops that the copy is made in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import Kind, Space, index
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import substitute, toposort, users
from porism.optimize.actions.loop_actions import Action
from porism.optimize.actions.loop_transforms import ranges_of
from porism.optimize.analysis.linear_indices import Sum, in_sums, total

SPREAD = frozenset({Axis.UPCAST, Axis.UNROLL})

MOST_BYTES: Final = 4 << 20
"""Of the copies and sums of a kernel together: they lie on the stack of their thread."""

ROW_BYTES: Final = 64
"""Rows of a copy begin at multiples of this: no vector is then spread over two cache lines."""

ROOM_BYTES: Final = 256
"""After the last row: vectors may be longer than what is left of it."""


@dataclass(frozen=True)
class Stage(Action):
    """What a load reads inside some loops, copied before them.

    What is done to each element on its own, such as a cast or a choice of 0 beyond an edge, is done
    when it is copied.
    """

    buffer: int
    """The number of the buffer: that which the kernel writes is 0."""
    axes: tuple[str, ...]
    """The loops that the copy is made for, that which is walked fastest last.

    Sums of loops, such as `r3+r5` or `2*r3+r5`, have one element of the copy for each value.
    """
    load: int = 0
    """Which one of the loads of this buffer."""
    row: int = 0
    """How many of the last loops are a row, which begins at a multiple of a vector; 0: no rows."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        if any(n.op is ops.STORE and _buffer(n.src[0]) == self.buffer for n in toposort(kernel)):
            raise self.refuse(
                f"buffer {self.buffer} is written as well",
                "a copy would not see what is written",
                "copy what is only read",
            )
        found = loads_of(kernel, self.buffer)
        if not 0 <= self.load < len(found):
            raise self.refuse(
                f"buffer {self.buffer} has no load {self.load}",
                f"the kernel has {len(found)} of them",
                "name one of these, from 0 on",
            )
        value = prepared(kernel, found[self.load])
        if not self.axes:
            raise self.refuse("it names no loop", "a copy is for some loops", "name them")
        sums = [self._sum(kernel, axis) for axis in self.axes]
        every = [counter for terms in sums for counter in terms]
        if len(set(every)) < len(every):
            raise self.refuse("it names a loop twice", "a copy is for some loops", "name it once")
        for counter in every:
            if counter not in value.ranges:
                raise self.refuse(
                    f"what is read does not depend on {show(counter)}",
                    "each of its iterations would copy the same",
                    f"leave out {show(counter)}",
                )
        if any(n.op is ops.AFTER and not set(n.ranges).isdisjoint(every) for n in toposort(value)):
            raise self.refuse(
                "what is read needs a copy that is filled inside of these loops",
                "that copy would be filled in two places, and read in both",
                "make this copy first, or name the loops outside of the other one",
            )
        size = 1
        for terms in sums:
            size *= _values(terms)
        if size * value.dtype.numpy.itemsize > MOST_BYTES:
            raise self.refuse(
                f"the copy would have {size} elements",
                f"it may take {MOST_BYTES} bytes",
                "name fewer loops, or split one of them",
            )
        changed = staged(kernel, value, sums, self.row)
        if changed is None:
            raise self.refuse(
                "what is read is not decided by these sums",
                "each element of the copy must be read in one place only",
                "name the loops one by one",
            )
        if local_bytes(changed) > MOST_BYTES:
            raise self.refuse(
                f"all copies would take {local_bytes(changed)} bytes",
                f"they may take {MOST_BYTES}",
                "name fewer loops, or split one of them",
            )
        return changed

    def _sum(self, kernel: UOp, axis: str) -> Sum:
        """The loops that an axis names, each with how much it counts."""
        found: Sum = {}
        for term in axis.split("+"):
            times, _, name = term.rpartition("*")
            counter = self.loop(kernel, name.strip())
            self.counted(counter)
            if counter in found:
                raise self.refuse("it names a loop twice", "a sum has it once", "name it once")
            number = times.strip() or "1"
            if not number.isdecimal() or int(number) < 1:
                raise self.refuse(
                    f"{axis!r} is no sum of loops", "a factor is a number", "write '2*r1+r3'"
                )
            found[counter] = int(number)
        if len(found) > 1 and 1 not in found.values():
            raise self.refuse(
                f"no loop of {axis!r} counts one by one",
                "the copy would have gaps",
                "name one with a factor of 1",
            )
        if len(found) == 1 and set(found.values()) != {1}:
            raise self.refuse(f"{axis!r} is one loop", "it needs no factor", "leave that out")
        return found


def _values(terms: Sum) -> int:
    """How many values a sum of ranges has."""
    return 1 + sum(int(counter.vmax) * times for counter, times in terms.items())


def _buffer(access: UOp) -> int | None:
    """The number of the buffer that is accessed; None of local memory."""
    while access.op in (ops.AFTER, ops.INDEX, ops.CAST) and access.src:
        access = access.src[0]
    return int(access.arg) if access.op is ops.PARAM else None


def loads_of(kernel: UOp, buffer: int | None = None) -> list[UOp]:
    """The loads of a kernel from a buffer, or from any, in an order that structure decides."""
    order = toposort(kernel)
    places = {n.src[0] for n in order if n.op is ops.STORE}
    loads = [n for n in order if n.op is ops.INDEX and n not in places]
    return [
        n
        for n in loads
        if n.dtype.kind is not Kind.POINTER
        and (number := _buffer(n)) is not None
        and buffer in (None, number)
    ]


def prepared(kernel: UOp, load: UOp) -> UOp:
    """A load with what is done to each of its elements on its own."""
    above = users(kernel)
    while True:
        (user,) = above[load] if len(above[load]) == 1 else (None,)
        if user is None or user.op not in (ops.WHERE, ops.CAST):
            return load
        if user.op is ops.CAST and user.dtype.numpy.itemsize > 4:
            return load
        others = [s for s in user.src if s is not load]
        if any(n.op is ops.INDEX for s in others for n in toposort(s)):
            return load
        if set(user.ranges) != set(load.ranges) or user.dtype.count != 1:
            return load
        load = user


def load_of(value: UOp) -> UOp:
    """The load in a value that was prepared."""
    while value.op is not ops.INDEX:
        value = next(s for s in value.src if any(n.op is ops.INDEX for n in toposort(s)))
    return value


def staged(kernel: UOp, value: UOp, sums: Sequence[Sum], row: int = 0) -> UOp | None:
    """A kernel that copies a value for some sums of ranges, the last walked fastest.

    None if the value depends on more than these sums.
    """
    order = toposort(kernel)
    numbers = [n.arg for n in order if n.op is ops.DEFINE_LOCAL]
    first = max(r.arg[0][0] for r in ranges_of(kernel)) + 1
    fresh = [UOp.range(_values(terms), first + k) for k, terms in enumerate(sums)]
    source = in_sums(value, dict(zip(fresh, sums, strict=True)))
    if source is None:
        return None
    sizes = [_values(terms) for terms in sums]
    item = value.dtype.numpy.itemsize
    steps = _steps(sizes, row, item)
    room = ROOM_BYTES // item if row else 0
    dtype = value.dtype.pointer(Space.LOCAL, sizes[0] * steps[0] + room)
    memory = UOp(ops.DEFINE_LOCAL, dtype, (), max(numbers, default=-1) + 1)
    place = memory.index(placed(fresh, steps), dtype=value.dtype)
    filled = memory.after(place.store(source).end(*fresh))
    at = placed([total(terms) for terms in sums], steps)
    return substitute(kernel, {value: filled.index(at, dtype=value.dtype)})


def local_bytes(kernel: UOp) -> int:
    """What the local memory of a kernel takes."""
    memories = [n.dtype for n in toposort(kernel) if n.op is ops.DEFINE_LOCAL]
    return sum(dtype.size * dtype.element.numpy.itemsize for dtype in memories)


def row_length(size: int, item: int) -> int:
    """From one row of a copy to the next: whole lines, or half of one if that is enough."""
    line = max(ROW_BYTES // item, 1)
    if line % 2 == 0 and size <= line // 2:
        line //= 2
    return -(-size // line) * line


def _steps(sizes: Sequence[int], row: int, item: int) -> list[int]:
    """How far apart neighbours are in a copy, by axis; rows of `row` axes begin on whole lines."""
    steps = [1]
    for number, size in enumerate(reversed(sizes[1:]), 1):
        step = steps[0] * size
        if number == row:
            step = row_length(step, item)
        steps.insert(0, step)
    return steps


def placed(indices: Sequence[UOp], steps: Sequence[int]) -> UOp:
    """The number of an element of a copy."""
    number = UOp.const(index, 0)
    for at, step in zip(indices, steps, strict=True):
        number = number + at * step
    return number
