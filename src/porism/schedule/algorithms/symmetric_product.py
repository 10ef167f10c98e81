"""Symmetric products: X·Xᵀ, of which only about half is computed.

    Before   REDUCE_AXIS[ADD](X[m, 1, k] * X[1, m, k], 2)
    After    (block of the upper half is computed).where(the block, its mirror image transposed)

The result is cut into n × n blocks, of which one of each pair across the diagonal is computed:
block (I, J) where J is at most n/2 steps after I, cyclically. These are n rows of n//2 + 1 blocks,
so all loops have fixed extents. The other blocks are read transposed. No sum changes its order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import DType, index
from porism.base.target import Target
from porism.ir import ops, tensor_nodes
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.tensor_nodes import Dim
from porism.ir.traversal import rebuild, toposort

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

ONE: Final = UOp.const(index, 1)


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


def halve_symmetric_products(sink: UOp, target: Target) -> UOp:
    """Return the graph with half of each product of a matrix with its transpose computed."""
    products: dict[UOp, BlockGrid] = {}
    for node in toposort(sink):
        if node.op is ops.REDUCE_AXIS and node.arg == (ops.ADD, (2,)):
            grid = _symmetric_grid(node)
            if grid is not None:
                products[node] = grid
    if not products:
        return sink

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        if node.op is ops.RESHAPE:
            return tensor_nodes.reshape(src[0], src[1:])
        changed = node.replace(src)
        if node not in products:
            return changed
        matrix = _multiplied_by_its_transpose(changed)
        assert matrix is not None, "sources are replaced by tensors of the same shape"
        return tensor_nodes.reshape(
            symmetric_product(matrix, products[node], node.dtype), shape(node)
        )

    return rebuild(sink, change)


def _symmetric_grid(node: UOp) -> BlockGrid | None:
    """Return the block grid of a reduction that is a symmetric product worth halving."""
    if len(shape(node)) != 3:
        return None
    matrix = _multiplied_by_its_transpose(node)
    if matrix is None:
        return None
    rows, k = shape(matrix)
    if rows.op is not ops.CONST or k.op is not ops.CONST:
        return None
    return choose_block_grid(int(rows.arg), int(k.arg))


def _multiplied_by_its_transpose(node: UOp) -> UOp | None:
    """Return X, of m × k, if a reduction sums X[m, 1, k] * X[1, m, k] over k; None if not."""
    product = node.src[0]
    if product.op is not ops.MUL or product.src[0].dtype is not product.src[1].dtype:
        return None
    left, right = map(_expanded, product.src)
    if left is None or right is None or _reshaped(left) is not _reshaped(right):
        return None
    m, n, k = shape(product)
    sizes = {shape(left), shape(right)}
    if m is not n or sizes != {(m, ONE, k), (ONE, m, k)}:
        return None
    return tensor_nodes.reshape(_reshaped(left), [m, k])


def _expanded(operand: UOp) -> UOp | None:
    """Return what an operand of a product repeats; None if it repeats nothing."""
    while operand.op is ops.CAST:
        operand = operand.src[0]
    return operand.src[0] if operand.op is ops.EXPAND else None


def _reshaped(x: UOp) -> UOp:
    """Return what a node reshapes; the node itself if it is no RESHAPE."""
    return x.src[0] if x.op is ops.RESHAPE else x


def choose_block_grid(rows: int, k: int) -> BlockGrid | None:
    """Return the block grid for X·Xᵀ with X of `rows` × `k`, or None where one kernel is faster.

    >>> choose_block_grid(512, 2048)
    BlockGrid(count=8, size=64)
    >>> choose_block_grid(64, 4096) is None
    True
    """
    if k < MIN_K or rows * rows * k < MIN_MULTIPLIES:
        return None
    counts = range(2, min(-(-rows // MIN_BLOCK_ROWS), MAX_BLOCKS) + 1)
    grids = [BlockGrid(n, -(-rows // (n * BLOCK_MULTIPLE)) * BLOCK_MULTIPLE) for n in counts]
    best = min(grids, key=lambda grid: grid.computed_elements, default=None)
    if best is None or best.computed_elements > MAX_COMPUTED_FRACTION * rows * rows:
        return None
    return best


def symmetric_product(x: UOp, grid: BlockGrid, dtype: DType) -> UOp:
    """Return x times x transposed, with products and sums in a type."""
    rows = int(shape(x)[0].arg)
    if rows < grid.rows:
        x = tensor_nodes.contiguous(
            tensor_nodes.pad(x, [(0, grid.rows - rows), (0, 0)]),
            "a product of a matrix with its transpose",
        )
    computed = tensor_nodes.contiguous(
        _compute_blocks(x, grid, dtype), "a product of a matrix with its transpose"
    )
    block_sizes = (grid.count, grid.size, grid.count, grid.size)
    block_row, row, block_column, column = (
        tensor_nodes.iota(block_sizes, axis) for axis in range(4)
    )
    step = (block_column - block_row) % grid.count
    direct = tensor_nodes.gather(
        computed, [block_row, step.minimum(grid.blocks_per_row - 1), row, column]
    )
    transposed_step = ((block_row - block_column) % grid.count).minimum(grid.blocks_per_row - 1)
    transposed = tensor_nodes.gather(computed, [block_column, transposed_step, column, row])
    result = tensor_nodes.reshape(
        (step < grid.blocks_per_row).where(direct, transposed), [grid.rows, grid.rows]
    )
    return tensor_nodes.shrink(result, [(0, rows), (0, rows)])


def _compute_blocks(x: UOp, grid: BlockGrid, dtype: DType) -> UOp:
    """Return the computed blocks: each block of rows times itself and its cyclic successors."""
    k = shape(x)[1]
    count, blocks_per_row, size = grid.count, grid.blocks_per_row, grid.size
    product_sizes: list[Dim] = [count, blocks_per_row, size, size, k]
    blocks = tensor_nodes.reshape(x, [count, size, k])
    left = tensor_nodes.reshape(blocks, [count, 1, size, 1, k])
    # The blocks repeated, in rows of count + 1: each row begins one block later.
    length = blocks_per_row * (count + 1)
    repeats = -(-length // count)
    cyclic = tensor_nodes.expand(
        tensor_nodes.reshape(blocks, [1, count, size, k]), [repeats, count, size, k]
    )
    cyclic = tensor_nodes.reshape(cyclic, [repeats * count, size, k])
    cyclic = tensor_nodes.shrink(cyclic, [(0, length), (0, size), (0, k)])
    cyclic = tensor_nodes.reshape(cyclic, [blocks_per_row, count + 1, size, k])
    cyclic = tensor_nodes.shrink(cyclic, [(0, blocks_per_row), (0, count), (0, size), (0, k)])
    successors = tensor_nodes.permute(cyclic, [1, 0, 2, 3])
    right = tensor_nodes.reshape(successors, [count, blocks_per_row, 1, size, k])
    product = tensor_nodes.cast(
        tensor_nodes.expand(left, product_sizes), dtype
    ) * tensor_nodes.cast(tensor_nodes.expand(right, product_sizes), dtype)
    return tensor_nodes.reshape(tensor_nodes.reduce(product, ops.ADD, (4,)), product_sizes[:-1])
