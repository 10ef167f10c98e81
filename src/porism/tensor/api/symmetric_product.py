"""Symmetric products: a matrix times itself transposed, of which a half is computed.

The result is cut into n x n blocks. Of two blocks across the diagonal one is computed: block (I, J)
where J is at most n/2 steps behind I, around the end. These are n rows of n//2 + 1 blocks, so all
loops have fixed sizes. The others are read from across the diagonal; no sum is in another order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from porism.ir.node import UOp
from porism.tensor import primitive, shapes
from porism.tensor.api.reductions import summed_product
from porism.tensor.primitive import Dim

LEAST_WORK: Final = 1 << 24
"""Products of elements from which on it pays to have two kernels instead of one."""

LEAST_TERMS: Final = 256
"""Of each sum; with fewer, moving the results takes longer than computing them."""

MOST_WORK: Final = 0.8
"""The share of the result that may be computed, the margin of the last blocks included."""

LEAST_BLOCK: Final = 64
"""Rows of a block: with fewer, its elements are not used often enough."""

MOST_BLOCKS: Final = 32
"""In a row; with more, little is left to gain."""

LANES: Final = 32
"""Blocks are multiples of this, so that no vector is used in part."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """How a matrix of some rows is cut."""

    count: int
    size: int

    @property
    def steps(self) -> int:
        """Blocks that are computed in each row of blocks."""
        return self.count // 2 + 1

    @property
    def work(self) -> int:
        """Elements of the result that are computed."""
        return self.rows * self.steps * self.size

    @property
    def rows(self) -> int:
        """Those of the matrix, and what fills up the last block."""
        return self.count * self.size


def blocks_for(rows: Dim, terms: Dim) -> Blocks | None:
    """How to cut the product of a matrix with itself transposed, if that pays.

    >>> blocks_for(512, 2048)
    Blocks(count=8, size=64)
    >>> blocks_for(64, 4096) is None
    True
    """
    if not isinstance(rows, int) or not isinstance(terms, int):
        return None
    if terms < LEAST_TERMS or rows * rows * terms < LEAST_WORK:
        return None
    counts = range(2, min(-(-rows // LEAST_BLOCK), MOST_BLOCKS) + 1)
    cuts = [Blocks(n, -(-rows // (n * LANES)) * LANES) for n in counts]
    best = min(cuts, key=lambda cut: cut.work, default=None)
    return None if best is None or best.work > MOST_WORK * rows * rows else best


def symmetric_product(x: UOp, cut: Blocks) -> UOp:
    """x times x transposed, in the wide type of x."""
    rows = shapes.sizes_of(x)[0]
    assert isinstance(rows, int)
    if rows < cut.rows:
        x = primitive.contiguous(primitive.pad(x, [(0, cut.rows - rows), (0, 0)]))
    computed = primitive.contiguous(_computed(x, cut))
    whole = (cut.count, cut.size, cut.count, cut.size)
    own, inside, other, beside = (primitive.iota(whole, axis) for axis in range(4))
    step = (other - own) % cut.count
    here = primitive.gather(computed, [own, step.minimum(cut.steps - 1), inside, beside])
    back = ((own - other) % cut.count).minimum(cut.steps - 1)
    across = primitive.gather(computed, [other, back, beside, inside])
    found = primitive.reshape((step < cut.steps).where(here, across), [cut.rows, cut.rows])
    return primitive.shrink(found, [(0, rows), (0, rows)])


def _computed(x: UOp, cut: Blocks) -> UOp:
    """The blocks that are computed: each with itself, and with those behind it."""
    terms = shapes.sizes_of(x)[1]
    count, steps, size = cut.count, cut.steps, cut.size
    whole = [count, steps, size, size, terms]
    parts = primitive.reshape(x, [count, size, terms])
    left = primitive.reshape(parts, [count, 1, size, 1, terms])
    # Rows of count + 1 blocks out of the blocks over and over: each begins one block later.
    length = steps * (count + 1)
    again = -(-length // count)
    over = primitive.expand(
        primitive.reshape(parts, [1, count, size, terms]), [again, count, size, terms]
    )
    over = primitive.reshape(over, [again * count, size, terms])
    over = primitive.shrink(over, [(0, length), (0, size), (0, terms)])
    over = primitive.reshape(over, [steps, count + 1, size, terms])
    over = primitive.shrink(over, [(0, steps), (0, count), (0, size), (0, terms)])
    behind = primitive.permute(over, [1, 0, 2, 3])
    right = primitive.reshape(behind, [count, steps, 1, size, terms])
    return summed_product(primitive.expand(left, whole), primitive.expand(right, whole), [4])
