"""Fragments: which elements of its matrices each thread of a warp holds for a tensor core.

A WMMA with the argument `(name, (m, n, k), (m, n, k), threads)` is one that a warp does together:
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

ROWS: Final = 8
COLUMNS: Final = 4
THREADS: Final = ROWS * COLUMNS
WORD: Final = 32
"""The threads of a warp, and the bits of a word."""


def is_shared(node: UOp) -> bool:
    """Whether a node is a WMMA that the threads of a warp do together."""
    return node.op is ops.WMMA and len(node.arg) > 3 and node.arg[3] > 1


def word(dtype: DType) -> int:
    """How many elements of a type stand in a word."""
    return max(WORD // dtype.bits, 1)


def is_known(m: int, n: int, k: int, dtype: DType, threads: int) -> bool:
    """Whether matrices of these sizes have this layout."""
    fits = m % ROWS == 0 and n == 2 * COLUMNS and k % (COLUMNS * word(dtype)) == 0
    return fits and threads == THREADS


def left(m: int, k: int, w: int) -> list[tuple[int, int]]:
    """For each element of `a` in a thread: how far below row g it is, and how far after t*w.

    >>> left(16, 16, 2)
    [(0, 0), (0, 1), (8, 0), (8, 1), (0, 8), (0, 9), (8, 8), (8, 9)]
    """
    return [
        (down, right + place)
        for right in range(0, k, COLUMNS * w)
        for down in range(0, m, ROWS)
        for place in range(w)
    ]


def right(k: int, w: int) -> list[int]:
    """For each element of `b` in a thread: how far after t*w of its column it is.

    >>> right(16, 2)
    [0, 1, 8, 9]
    """
    return [down + place for down in range(0, k, COLUMNS * w) for place in range(w)]


def result(m: int) -> list[tuple[int, int]]:
    """For each element of `c` in a thread: how far below row g, and how far after column 2*t.

    >>> result(16)
    [(0, 0), (0, 1), (8, 0), (8, 1)]
    """
    return [(down, place) for down in range(0, m, ROWS) for place in range(2)]
