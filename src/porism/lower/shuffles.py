"""Shuffles: vectors of elements that are not contiguous, from vector loads and lane shuffles.

    stride 2                 two vector loads, and the lanes 0, 2, 4 … of both
    stride -1                one vector load, and its lanes in reverse order
    columns of a tile        a vector load of each row, and the tile transposed in registers

A `GEP` of `CAT(a, b)` is the shuffle instruction that machines have: any lanes of two vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort


def broadcast(value: UOp, width: int) -> UOp:
    """Return a scalar repeated in `width` lanes; a vector of that width as it is."""
    if value.dtype.count == width or width == 1:
        return value
    if value.op is ops.CONST:
        return UOp.const(value.dtype.vec(width), value.arg)
    if value.op is ops.INVALID:
        return UOp(ops.INVALID, value.dtype.vec(width))
    return ops.VECTORIZE(*[value] * width)


def iteration_vector(loop: UOp, numbers: Sequence[int]) -> UOp:
    """Return a vector of iteration numbers of a range."""
    return UOp(ops.VCONST, loop.dtype.vec(len(numbers)), (), tuple(numbers))


def is_arithmetic(expression: UOp, loop: UOp) -> bool:
    """Return whether an expression depends on a range by arithmetic alone, not by a load."""
    return all(
        n.op.elementwise or n.op is ops.RANGE
        for n in toposort(expression, within=lambda n: loop in n.ranges)
        if loop in n.ranges
    )


def vectorize_node(node: UOp, src: Sequence[UOp], width: int) -> UOp:
    """Return a node on sources broadcast to `width` lanes; its element type stays the same."""
    operands = [broadcast(s, width) for s in src]
    if node.op.elementwise:
        return node.op(*operands)
    return node.op(*operands, dtype=node.dtype.vec(width), arg=node.arg)


def expression_at(expression: UOp, values: Mapping[UOp, UOp], other: Callable[[UOp], UOp]) -> UOp:
    """Return arithmetic on ranges with values in their place: scalars or vectors of one width.

    `other` gives the replacement of a source that does not depend on these ranges.
    """
    new: dict[UOp, UOp] = {}
    for node in toposort(expression, within=lambda n: not values.keys().isdisjoint(n.ranges)):
        if node in values:
            new[node] = values[node]
        else:
            src = [new[s] if s in new else other(s) for s in node.src]
            new[node] = vectorize_node(node, src, max(s.dtype.count for s in src))
    return new[expression]


# -- strided loads ---------------------------------------------------------------------------------


class Windows:
    """Contiguous vector loads that cover a strided access, and the position of each lane in them.

    `stride` is in elements from lane to lane. No load reads beyond the first and the last
    element of the access.
    """

    def __init__(self, stride: int, width: int) -> None:
        span = (width - 1) * abs(stride) + 1
        self.width = width
        count = -(-span // width)
        self.starts = [k * width for k in range(count - 1)] + [span - width]
        """The offset of each load, in elements from the lowest address of the access."""
        self.lowest = min(0, (width - 1) * stride)
        """The lowest address of the access, in elements from that of lane 0."""
        self.offsets = [lane * stride - self.lowest for lane in range(width)]
        """The offset of each lane, in elements from the lowest address of the access."""
        self.stride = stride

    def lanes_of(self, start: int) -> list[int | None]:
        """Return for each element of a load the lane that needs it, or None."""
        lanes: list[int | None] = [None] * self.width
        for lane, offset in enumerate(self.offsets):
            if start <= offset < start + self.width:
                lanes[offset - start] = lane
        return lanes

    def shuffle(self, loads: Sequence[UOp]) -> UOp:
        """Return the vector of the access, shuffled from its loads."""
        parts: list[tuple[UOp, list[int | None]]] = [
            (load, self._positions_in(start))
            for load, start in zip(loads, self.starts, strict=True)
        ]
        if len(parts) == 1:
            load, where = parts[0]
            return load.gep(*(w or 0 for w in where))
        while len(parts) > 1:
            pairs = [
                _merge(*parts[k], *parts[k + 1], self.width) for k in range(0, len(parts) - 1, 2)
            ]
            parts = pairs + parts[len(pairs) * 2 :]
        return parts[0][0]

    def _positions_in(self, start: int) -> list[int | None]:
        """Return for each lane the position of its element in a load, or None."""
        positions = [offset - start for offset in self.offsets]
        return [p if 0 <= p < self.width else None for p in positions]


def _merge(
    a: UOp, in_a: list[int | None], b: UOp, in_b: list[int | None], width: int
) -> tuple[UOp, list[int | None]]:
    """Return a shuffle of two vectors with their lanes in order, and which lanes it has."""
    lanes: list[int] = []
    filled: list[int | None] = []
    for lane, (first, second) in enumerate(zip(in_a, in_b, strict=True)):
        if first is not None:
            lanes.append(first)
        else:
            lanes.append(0 if second is None else width + second)
        filled.append(None if first is None and second is None else lane)
    return ops.CAT(a, b).gep(*lanes), filled


# -- tiles -----------------------------------------------------------------------------------------


def transpose(rows: Sequence[UOp]) -> list[UOp]:
    """Return the columns of a matrix whose rows are these vectors; both sizes are powers of two."""
    width = rows[0].dtype.count
    if len(rows) > width:
        groups = [transpose(rows[k : k + width]) for k in range(0, len(rows), width)]
        return [ops.CAT(*parts) for parts in zip(*groups, strict=True)]
    size = len(rows)
    if size < width:
        columns: list[UOp] = []
        for first in range(0, width, size):
            columns += transpose([row.gep(*range(first, first + size)) for row in rows])
        return columns
    return _transpose_square(list(rows))


def _transpose_square(rows: list[UOp]) -> list[UOp]:
    """Transpose 4 x 4 blocks by interleaving, one instruction each; then exchange larger blocks."""
    size = len(rows)
    if size >= 4:
        for first in range(0, size, 4):
            a, b, c, d = rows[first : first + 4]
            low, high = _shuffle_fours(a, b, (0, size, 1, size + 1), (2, size + 2, 3, size + 3))
            low2, high2 = _shuffle_fours(c, d, (0, size, 1, size + 1), (2, size + 2, 3, size + 3))
            pairs = ((0, 1, size, size + 1), (2, 3, size + 2, size + 3))
            rows[first : first + 2] = _shuffle_fours(low, low2, *pairs)
            rows[first + 2 : first + 4] = _shuffle_fours(high, high2, *pairs)
    block = 4 if size >= 4 else 1
    while block < size:
        for k in range(size):
            if k & block == 0:
                rows[k], rows[k + block] = _exchange_blocks(rows[k], rows[k + block], block)
        block *= 2
    return rows


def _shuffle_fours(a: UOp, b: UOp, *patterns: Sequence[int]) -> list[UOp]:
    """Return for each pattern of four lanes that shuffle, repeated in every four lanes."""
    size, both = a.dtype.count, ops.CAT(a, b)
    return [
        both.gep(*(first + lane for first in range(0, size, 4) for lane in pattern))
        for pattern in patterns
    ]


def _exchange_blocks(a: UOp, b: UOp, block: int) -> tuple[UOp, UOp]:
    """Exchange the second half of each pair of blocks of `a` with the first half of `b`'s."""
    size, both = a.dtype.count, ops.CAT(a, b)
    first = [lane if lane & block == 0 else size + lane - block for lane in range(size)]
    second = [lane + block if lane & block == 0 else size + lane for lane in range(size)]
    return both.gep(*first), both.gep(*second)
