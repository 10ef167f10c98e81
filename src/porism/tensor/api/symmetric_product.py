"""Symmetric products: X·Xᵀ, of which only about half is computed.

The result is cut into n × n blocks, of which one of each pair across the diagonal is computed:
block (I, J) where J is at most n/2 steps after I, cyclically. These are n rows of n//2 + 1 blocks,
so all loops have fixed extents. The other blocks are read transposed. No sum changes its order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from porism.ir.node import UOp
from porism.tensor import primitive, shapes
from porism.tensor.api.reductions import sum_of_products
from porism.tensor.primitive import Dim

MIN_MULTIPLIES: Final = 1 << 24
"""Multiply-adds of the whole product below which a second kernel does not pay; chosen by hand."""

MIN_K: Final = 256
"""Extent of the reduction axis below which moving results takes longer than computing them;
chosen by hand."""

MAX_COMPUTED_FRACTION: Final = 0.8
"""Fraction of the result that may be computed, padding included; chosen by hand."""

MIN_BLOCK_ROWS: Final = 64
"""Rows of a block below which its elements are reused too little; chosen by hand."""

MAX_BLOCKS: Final = 32
"""Blocks in a row of blocks; more of them save little further work (chosen by hand)."""

BLOCK_MULTIPLE: Final = 32
"""Block sizes are multiples of this number of elements, so that vectors are full."""


@dataclass(frozen=True, slots=True)
class BlockGrid:
    """How the n × n blocks of a symmetric product are cut: n and the rows of a block."""

    count: int
    size: int

    @property
    def blocks_per_row(self) -> int:
        """The number of blocks computed in each row of blocks."""
        return self.count // 2 + 1

    @property
    def computed_elements(self) -> int:
        """The number of elements of the result that are computed."""
        return self.rows * self.blocks_per_row * self.size

    @property
    def rows(self) -> int:
        """The rows of the matrix, padded to whole blocks."""
        return self.count * self.size


def choose_block_grid(rows: Dim, k: Dim) -> BlockGrid | None:
    """Return the block grid for X·Xᵀ with X of `rows` × `k`, or None where one kernel is faster.

    >>> choose_block_grid(512, 2048)
    BlockGrid(count=8, size=64)
    >>> choose_block_grid(64, 4096) is None
    True
    """
    if not isinstance(rows, int) or not isinstance(k, int):
        return None
    if k < MIN_K or rows * rows * k < MIN_MULTIPLIES:
        return None
    counts = range(2, min(-(-rows // MIN_BLOCK_ROWS), MAX_BLOCKS) + 1)
    grids = [BlockGrid(n, -(-rows // (n * BLOCK_MULTIPLE)) * BLOCK_MULTIPLE) for n in counts]
    best = min(grids, key=lambda grid: grid.computed_elements, default=None)
    if best is None or best.computed_elements > MAX_COMPUTED_FRACTION * rows * rows:
        return None
    return best


def symmetric_product(x: UOp, grid: BlockGrid) -> UOp:
    """Return x times x transposed, in the accumulation type of x."""
    rows = shapes.sizes_of(x)[0]
    assert isinstance(rows, int)
    if rows < grid.rows:
        x = primitive.contiguous(
            primitive.pad(x, [(0, grid.rows - rows), (0, 0)]),
            "a product of a matrix with its transpose",
        )
    computed = primitive.contiguous(
        _compute_blocks(x, grid), "a product of a matrix with its transpose"
    )
    block_sizes = (grid.count, grid.size, grid.count, grid.size)
    block_row, row, block_column, column = (primitive.iota(block_sizes, axis) for axis in range(4))
    step = (block_column - block_row) % grid.count
    direct = primitive.gather(
        computed, [block_row, step.minimum(grid.blocks_per_row - 1), row, column]
    )
    transposed_step = ((block_row - block_column) % grid.count).minimum(grid.blocks_per_row - 1)
    transposed = primitive.gather(computed, [block_column, transposed_step, column, row])
    result = primitive.reshape(
        (step < grid.blocks_per_row).where(direct, transposed), [grid.rows, grid.rows]
    )
    return primitive.shrink(result, [(0, rows), (0, rows)])


def _compute_blocks(x: UOp, grid: BlockGrid) -> UOp:
    """Return the computed blocks: each block of rows times itself and its cyclic successors."""
    k = shapes.sizes_of(x)[1]
    count, blocks_per_row, size = grid.count, grid.blocks_per_row, grid.size
    product_sizes = [count, blocks_per_row, size, size, k]
    blocks = primitive.reshape(x, [count, size, k])
    left = primitive.reshape(blocks, [count, 1, size, 1, k])
    # The blocks repeated, in rows of count + 1: each row begins one block later.
    length = blocks_per_row * (count + 1)
    repeats = -(-length // count)
    cyclic = primitive.expand(
        primitive.reshape(blocks, [1, count, size, k]), [repeats, count, size, k]
    )
    cyclic = primitive.reshape(cyclic, [repeats * count, size, k])
    cyclic = primitive.shrink(cyclic, [(0, length), (0, size), (0, k)])
    cyclic = primitive.reshape(cyclic, [blocks_per_row, count + 1, size, k])
    cyclic = primitive.shrink(cyclic, [(0, blocks_per_row), (0, count), (0, size), (0, k)])
    successors = primitive.permute(cyclic, [1, 0, 2, 3])
    right = primitive.reshape(successors, [count, blocks_per_row, 1, size, k])
    return sum_of_products(
        primitive.expand(left, product_sizes), primitive.expand(right, product_sizes), [4]
    )
