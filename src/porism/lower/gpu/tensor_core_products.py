"""Tensor core products: sums of products over a WARP range become matrix-multiply instructions.

    before                                      after
    REDUCE(a * b, k…, kk), kk a WARP range      t = REDUCE(WMMA(A, B, 0), k…), a vector
    its value in the unrolled copy c            GEP(t, c)

`A` and `B` are the fragments of the matrices that a thread holds (`porism.ir.fragments`): the
factors at the rows, columns and k of the fragment. A sum that no tensor core of the target fits is
done by each thread in a loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from porism.base.target import Target
from porism.ir import fragments, ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.rules.addresses.grid_dims import (
    is_tensor_core_reduction,
    thread_ranges,
    unrolled_ranges,
)
from porism.rules.reductions.matrix_products import (
    MatrixProduct,
    match_matrix_product,
    tensor_core_for,
)


@dataclass(frozen=True, slots=True)
class _Tile:
    """The ranges of one instruction: of the warp, of a thread's fragment, and of the reduction."""

    product: MatrixProduct
    row: UOp
    down: UOp | None
    """The rows of a thread's fragment, if there are several."""
    column: UOp
    along: UOp
    """The columns of a thread's fragment."""
    k_range: UOp
    """The reduction axis k."""
    sizes: tuple[int, int, int]
    """m, n and k of the instruction."""


def tensor_cores(kernel: UOp, target: Target) -> UOp:
    """Return the kernel with no reduction over a WARP range: by tensor cores, or by loops."""
    while True:
        sums = [
            n
            for n in toposort(kernel)
            if n.op is ops.REDUCE and _warp_reduction_range(n) is not None
        ]
        if not sums:
            return kernel
        tile = _tile(sums[0], target)
        if tile is None or not _closes_fragment(kernel, sums[0], tile):
            kernel = substitute(kernel, {sums[0]: _as_loop(sums[0])})
        else:
            kernel = _with_wmma(kernel, sums[0], tile)


def _closes_fragment(kernel: UOp, node: UOp, tile: _Tile) -> bool:
    """Return whether every END above a sum that closes a fragment range closes all of them."""
    fragment_ranges = {r for r in (tile.down, tile.along) if r is not None}
    ends = [n for n in toposort(kernel) if n.op is ops.END and fragment_ranges & set(n.src[1:])]
    using = [n for n in ends if node in toposort(n.src[0])]
    return all(fragment_ranges <= set(n.src[1:]) for n in using)


def _warp_reduction_range(node: UOp) -> UOp | None:
    """Return the WARP range that a reduction closes, or None."""
    return next((r for r in node.src[1:] if is_tensor_core_reduction(r)), None)


def _as_loop(node: UOp) -> UOp:
    """Return the sum as a loop of each thread."""
    value, *closed = node.src
    plain = {r: UOp.range(r.src[0], r.arg[0], Axis.REDUCE) for r in closed if r.arg[1] is Axis.WARP}
    ranges = [plain.get(r, r) for r in closed]
    return substitute(value, plain).reduce(node.arg, *ranges)


def _warp_range(node: UOp, part: int) -> UOp | None:
    """Return the one range over threads of a warp that is this part of an axis; or None."""
    warp = (r for r in thread_ranges(node) if r.arg[1] is Axis.WARP)
    ranges = [r for r in warp if r.arg[0][-1] == part]
    return ranges[0] if len(ranges) == 1 else None


def _tile(node: UOp, target: Target) -> _Tile | None:
    """Return the tile of a sum of products that a tensor core of the target fits, or None."""
    k_range = _warp_reduction_range(node)
    assert k_range is not None
    row, column = _warp_range(node, 2), _warp_range(node, 3)
    if row is None or column is None:
        return None
    lanes = {r.arg[0]: r for r in unrolled_ranges(node)}
    down, along = (lanes.get((*r.arg[0][:-1], 1)) for r in (row, column))
    height = fragments.WARP_ROWS * (1 if down is None else int(down.vmax) + 1)
    below = [row] if down is None else [row, down]
    steps = [r for r in node.src[1:] if r is k_range or r.arg[1] is not Axis.REDUCE]
    columns = [column] if along is None else [column, along]
    product = match_matrix_product(node, below, columns, steps)
    if product is None or along is None:
        return None
    core = tensor_core_for(product, node, target)
    sizes = (height, 2 * fragments.WARP_COLUMNS, int(k_range.vmax) + 1)
    exact = (fragments.WARP_ROWS, fragments.WARP_COLUMNS, 2)
    if tuple(int(r.vmax) + 1 for r in (row, column, along)) != exact or core is None:
        return None
    if (core.m, core.n, core.k) != sizes or any(r.arg[1] is Axis.GROUP for r in node.src[1:]):
        return None
    return _Tile(product, row, down, column, along, k_range, sizes)


# -- the instruction -------------------------------------------------------------------------------


def _with_wmma(kernel: UOp, node: UOp, tile: _Tile) -> UOp:
    """Return the kernel with one sum done by tensor cores."""
    total = _wmma_sum(node, tile)
    fragment_ranges = [r for r in (tile.down, tile.along) if r is not None]
    new: dict[UOp, UOp] = {}
    for current in toposort(kernel):
        src = tuple(new[s] for s in current.src)
        closed = [r for r in fragment_ranges if r in current.src[1:] and current.op is ops.END]
        if closed and node in toposort(current.src[0]):
            new[current] = _fragment_effects(current, node, total, fragment_ranges)
        elif current.op is ops.AFTER:
            new[current] = src[0].after(*src[1:])
        else:
            new[current] = current if src == current.src else current.replace(src)
    return new[kernel]


def _fragment_effects(end: UOp, node: UOp, total: UOp, fragment_ranges: Sequence[UOp]) -> UOp:
    """Return the effects of an END, one for each element of a thread's fragment of the result."""
    effects = []
    for number, iteration in enumerate(_iterations(fragment_ranges)):
        effects.append(substitute(end.src[0], {**iteration, node: total.gep(number)}))
    return ops.GROUP(*effects).end(*(r for r in end.src[1:] if r not in fragment_ranges))


def _wmma_sum(node: UOp, tile: _Tile) -> UOp:
    """Return the sum as the vector of a thread's fragment."""
    m, n, k = tile.sizes
    kind = tile.product.left.dtype
    name = f"m{m}n{n}k{k}_{kind.name}_{node.dtype.name}"
    arg = (name, tile.sizes, tile.sizes, fragments.THREADS)
    value = UOp.const(node.dtype.vec(len(fragments.c_offsets(m))), 0)
    unrolled = [r for r in node.src[1:] if r.arg[1] is Axis.UNROLL]
    for iteration in _iterations(unrolled):
        left, right = (ops.VECTORIZE(*part) for part in _fragments(tile, iteration))
        value = ops.WMMA(left, right, value, arg=arg)
    loops = [r for r in node.src[1:] if r is not tile.k_range and r not in unrolled]
    return value.reduce(ops.ADD, *loops) if loops else value


def _fragments(tile: _Tile, iteration: dict[UOp, UOp]) -> tuple[list[UOp], list[UOp]]:
    """Return the elements of a thread's fragments of both matrices."""
    m, _, k = tile.sizes
    w = fragments.elements_per_word(tile.product.left.dtype)
    first = tile.column * w
    left = []
    for down, right in fragments.a_offsets(m, k, w):
        at = {**iteration, tile.k_range: first + right}
        if tile.down is not None:
            at[tile.down] = UOp.const(tile.row.dtype, down // fragments.WARP_ROWS)
        left.append(substitute(tile.product.left, at))
    # the column of a thread's elements is its row in the warp: 2 * (row // 2) + row % 2
    column = {tile.column: tile.row // 2, tile.along: tile.row % 2}
    right_part = [
        substitute(tile.product.right, {**iteration, **column, tile.k_range: first + down})
        for down in fragments.b_offsets(k, w)
    ]
    return left, right_part


def _iterations(ranges: Sequence[UOp]) -> Iterator[dict[UOp, UOp]]:
    """Yield the iterations of some ranges, as constants; the last range is the fastest."""
    for values in itertools.product(*(range(int(r.vmax) + 1) for r in ranges)):
        yield {r: UOp.const(r.dtype, v) for r, v in zip(ranges, values, strict=True)}
