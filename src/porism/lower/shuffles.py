"""Shuffles: lanes that are not neighbours in memory, out of wide loads whose lanes are exchanged.

    every second element      two wide loads, and the lanes 0, 2, 4 … of both
    backwards                 one wide load, and its lanes in the other order
    a tile across its rows    a wide load of each row, and the tile transposed in registers

`CAT(a, b)` below a `GEP` is the exchange of lanes that machines have: lanes of two vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort


def wide(value: UOp, width: int) -> UOp:
    """A value in every lane."""
    if value.dtype.count == width or width == 1:
        return value
    if value.op is ops.CONST:
        return UOp.const(value.dtype.vec(width), value.arg)
    if value.op is ops.INVALID:
        return UOp(ops.INVALID, value.dtype.vec(width))
    return ops.VECTORIZE(*[value] * width)


def numbered(counter: UOp, numbers: Sequence[int]) -> UOp:
    """A vector of values of a range."""
    return UOp(ops.VCONST, counter.dtype.vec(len(numbers)), (), tuple(numbers))


def is_arithmetic(expression: UOp, counter: UOp) -> bool:
    """Whether nothing but arithmetic stands between an expression and a range."""
    return all(
        n.op.elementwise or n.op is ops.RANGE
        for n in toposort(expression, within=lambda n: counter in n.ranges)
        if counter in n.ranges
    )


def in_lanes(node: UOp, src: Sequence[UOp], width: int) -> UOp:
    """This node on sources of so many lanes each; the type of an element stays what it was."""
    wider = [wide(s, width) for s in src]
    if node.op.elementwise:
        return node.op(*wider)
    return node.op(*wider, dtype=node.dtype.vec(width), arg=node.arg)


def at_values(expression: UOp, values: Mapping[UOp, UOp], other: Callable[[UOp], UOp]) -> UOp:
    """Arithmetic on ranges at some values of them, each a scalar or a vector of one width.

    What does not depend on these ranges, as an index that is loaded, is what `other` says of it.
    """
    new: dict[UOp, UOp] = {}
    for node in toposort(expression, within=lambda n: not values.keys().isdisjoint(n.ranges)):
        if node in values:
            new[node] = values[node]
        else:
            src = [new[s] if s in new else other(s) for s in node.src]
            new[node] = in_lanes(node, src, max(s.dtype.count for s in src))
    return new[expression]


# -- lanes with a distance -------------------------------------------------------------------------


class Windows:
    """Where the elements of lanes with a distance are, in wide loads that follow each other.

    No load goes beyond the first and the last element.
    """

    def __init__(self, step: int, width: int) -> None:
        span = (width - 1) * abs(step) + 1
        self.width = width
        count = -(-span // width)
        self.starts = [k * width for k in range(count - 1)] + [span - width]
        """Of each load: its distance from the element that is the lowest in memory."""
        self.begin = min(0, (width - 1) * step)
        """The distance of that element from the one of lane 0."""
        self.places = [lane * step - self.begin for lane in range(width)]
        """Where the element of each lane is, from there."""
        self.step = step

    def lanes_of(self, start: int) -> list[int | None]:
        """For each element of a load the lane that it is for."""
        found: list[int | None] = [None] * self.width
        for lane, place in enumerate(self.places):
            if start <= place < start + self.width:
                found[place - start] = lane
        return found

    def put_together(self, loads: Sequence[UOp]) -> UOp:
        """The lanes, out of the loads."""
        parts: list[tuple[UOp, list[int | None]]] = [
            (load, self._places_in(start)) for load, start in zip(loads, self.starts, strict=True)
        ]
        if len(parts) == 1:
            load, where = parts[0]
            return load.gep(*(w or 0 for w in where))
        while len(parts) > 1:
            pairs = [
                _merged(*parts[k], *parts[k + 1], self.width) for k in range(0, len(parts) - 1, 2)
            ]
            parts = pairs + parts[len(pairs) * 2 :]
        return parts[0][0]

    def _places_in(self, start: int) -> list[int | None]:
        """For each lane where its element is in a load."""
        inside = [place - start for place in self.places]
        return [place if 0 <= place < self.width else None for place in inside]


def _merged(
    a: UOp, in_a: list[int | None], b: UOp, in_b: list[int | None], width: int
) -> tuple[UOp, list[int | None]]:
    """The lanes that two vectors have, each at its place."""
    lanes: list[int] = []
    have: list[int | None] = []
    for lane, (first, second) in enumerate(zip(in_a, in_b, strict=True)):
        if first is not None:
            lanes.append(first)
        else:
            lanes.append(0 if second is None else width + second)
        have.append(None if first is None and second is None else lane)
    return ops.CAT(a, b).gep(*lanes), have


# -- tiles -----------------------------------------------------------------------------------------


def transposed(rows: Sequence[UOp]) -> list[UOp]:
    """The columns of a matrix of which the vectors are the rows; powers of two on both sides."""
    width = rows[0].dtype.count
    if len(rows) > width:
        groups = [transposed(rows[k : k + width]) for k in range(0, len(rows), width)]
        return [ops.CAT(*parts) for parts in zip(*groups, strict=True)]
    size = len(rows)
    if size < width:
        columns: list[UOp] = []
        for first in range(0, width, size):
            columns += transposed([row.gep(*range(first, first + size)) for row in rows])
        return columns
    return _square(list(rows))


def _square(rows: list[UOp]) -> list[UOp]:
    """Squares of 4 by interleaving, which are single instructions; then halves are exchanged."""
    size = len(rows)
    if size >= 4:
        for first in range(0, size, 4):
            a, b, c, d = rows[first : first + 4]
            low, high = _in_fours(a, b, (0, size, 1, size + 1), (2, size + 2, 3, size + 3))
            low2, high2 = _in_fours(c, d, (0, size, 1, size + 1), (2, size + 2, 3, size + 3))
            pairs = ((0, 1, size, size + 1), (2, 3, size + 2, size + 3))
            rows[first : first + 2] = _in_fours(low, low2, *pairs)
            rows[first + 2 : first + 4] = _in_fours(high, high2, *pairs)
    block = 4 if size >= 4 else 1
    while block < size:
        for k in range(size):
            if k & block == 0:
                rows[k], rows[k + block] = _exchanged(rows[k], rows[k + block], block)
        block *= 2
    return rows


def _in_fours(a: UOp, b: UOp, *patterns: Sequence[int]) -> list[UOp]:
    """For each pattern of four lanes: the same in every four lanes of two vectors."""
    size, both = a.dtype.count, ops.CAT(a, b)
    return [
        both.gep(*(first + lane for first in range(0, size, 4) for lane in pattern))
        for pattern in patterns
    ]


def _exchanged(a: UOp, b: UOp, block: int) -> tuple[UOp, UOp]:
    """The second block of each two of `a` exchanged with the first one of `b`."""
    size, both = a.dtype.count, ops.CAT(a, b)
    upper = [lane if lane & block == 0 else size + lane - block for lane in range(size)]
    lower = [lane + block if lane & block == 0 else size + lane for lane in range(size)]
    return both.gep(*upper), both.gep(*lower)
