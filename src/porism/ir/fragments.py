"""Fragments: which elements of its matrices each thread of a warp holds for a tensor core.

A WMMA with the argument `(name, (m, n, k), (m, n, k), threads)` is executed by a warp together:
each thread has m*k/threads elements of `a`, k*n/threads of `b` and m*n/threads of `c`. A warp is 8
rows of 4 threads. The thread in row `g` and column `t` holds, with words of `w` elements,

    of a   word 0 at row g, elements t*w …; then the words 8 rows below, then those 4*w further
    of b   word 0 in column g, elements t*w … of it; then those 4*w further
    of c   two elements at row g, from column 2*t on; then those 8 rows below

which is the layout of NVIDIA's `mma.sync` for 8 columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from porism.ir import ops

if TYPE_CHECKING:
    from porism.base.dtypes import DType
    from porism.ir.node import UOp

WARP_ROWS: Final = 8
WARP_COLUMNS: Final = 4
THREADS: Final = WARP_ROWS * WARP_COLUMNS
"""Threads of a warp, seen as rows and columns."""
WORD_BITS: Final = 32
"""Bits of a register of a thread."""


def is_warp_product(node: UOp) -> bool:
    """Return whether a node is a WMMA that the threads of a warp execute together."""
    return node.op is ops.WMMA and len(node.arg) > 3 and node.arg[3] > 1


def elements_per_word(dtype: DType) -> int:
    """Return how many elements of a type a 32-bit word holds."""
    return max(WORD_BITS // dtype.bits, 1)


def has_layout(m: int, n: int, k: int, dtype: DType, threads: int) -> bool:
    """Return whether m×k and k×n matrices of a type have the layout described above."""
    depth = WARP_COLUMNS * elements_per_word(dtype)
    fits = m % WARP_ROWS == 0 and n == 2 * WARP_COLUMNS and k % depth == 0
    return fits and threads == THREADS


def a_offsets(m: int, k: int, w: int) -> list[tuple[int, int]]:
    """Return the (row, column) of each element of `a` in a thread, relative to (g, t*w).

    >>> a_offsets(16, 16, 2)
    [(0, 0), (0, 1), (8, 0), (8, 1), (0, 8), (0, 9), (8, 8), (8, 9)]
    """
    return [
        (row, column + element)
        for column in range(0, k, WARP_COLUMNS * w)
        for row in range(0, m, WARP_ROWS)
        for element in range(w)
    ]


def b_offsets(k: int, w: int) -> list[int]:
    """Return the row of each element of `b` in a thread, relative to row t*w of column g.

    >>> b_offsets(16, 2)
    [0, 1, 8, 9]
    """
    return [row + element for row in range(0, k, WARP_COLUMNS * w) for element in range(w)]


def c_offsets(m: int) -> list[tuple[int, int]]:
    """Return the (row, column) of each element of `c` in a thread, relative to (g, 2*t).

    >>> c_offsets(16)
    [(0, 0), (0, 1), (8, 0), (8, 1)]
    """
    return [(row, column) for row in range(0, m, WARP_ROWS) for column in range(2)]
