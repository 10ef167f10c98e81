"""Tensor cores: sums that close a WARP range become the instruction of a tensor core.

    REDUCE(a * b, k…, kk), kk a WARP range      t = REDUCE(WMMA(A, B, 0), k…), a vector
    its value in copy c of a thread             GEP(t, c)

`A` and `B` are the elements of the matrices that a thread holds (`porism.ir.fragments`): the
factors with the ranges of rows, columns and terms put in. A sum that no tensor core of the target
can do after all is done by each thread in a loop.
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
from porism.rules.addresses.grid_dims import is_term, lane_ranges, thread_ranges
from porism.rules.reductions.matrix_products import Product, core_for, product_of


@dataclass(frozen=True, slots=True)
class _Tile:
    """The ranges of one instruction: those of a warp, of the copies in a thread, of the sum."""

    product: Product
    row: UOp
    down: UOp | None
    column: UOp
    along: UOp
    term: UOp
    sizes: tuple[int, int, int]


def tensor_cores(kernel: UOp, target: Target) -> UOp:
    """A kernel in which no reduction closes a WARP range."""
    while True:
        sums = [n for n in toposort(kernel) if n.op is ops.REDUCE and _term(n) is not None]
        if not sums:
            return kernel
        tile = _tile(sums[0], target)
        if tile is None or not _is_copied(kernel, sums[0], tile):
            kernel = substitute(kernel, {sums[0]: _looped(sums[0])})
        else:
            kernel = _multiplied(kernel, sums[0], tile)


def _is_copied(kernel: UOp, node: UOp, tile: _Tile) -> bool:
    """Whether what uses a sum closes all of the ranges that the copies of a thread are made for."""
    copied = {r for r in (tile.down, tile.along) if r is not None}
    ends = [n for n in toposort(kernel) if n.op is ops.END and copied & set(n.src[1:])]
    using = [n for n in ends if node in toposort(n.src[0])]
    return all(copied <= set(n.src[1:]) for n in using)


def _term(node: UOp) -> UOp | None:
    return next((r for r in node.src[1:] if is_term(r)), None)


def _looped(node: UOp) -> UOp:
    """The sum of one thread alone."""
    value, *closed = node.src
    plain = {r: UOp.range(r.src[0], r.arg[0], Axis.REDUCE) for r in closed if r.arg[1] is Axis.WARP}
    ranges = [plain.get(r, r) for r in closed]
    return substitute(value, plain).reduce(node.arg, *ranges)


def _tile(node: UOp, target: Target) -> _Tile | None:
    """The ranges of a sum, if it is what a tensor core does."""
    term = _term(node)
    assert term is not None
    warp = thread_ranges(node)
    rows = [r for r in warp if r.arg[1] is Axis.WARP and r.arg[0][-1] == 2]
    columns = [r for r in warp if r.arg[1] is Axis.WARP and r.arg[0][-1] == 3]
    if len(rows) != 1 or len(columns) != 1:
        return None
    row, column = rows[0], columns[0]
    lanes = {r.arg[0]: r for r in lane_ranges(node)}
    down, along = (lanes.get((*r.arg[0][:-1], 1)) for r in (row, column))
    height = fragments.ROWS * (1 if down is None else int(down.vmax) + 1)
    below = [row] if down is None else [row, down]
    product = product_of(node, below, [column] if along is None else [column, along])
    if product is None or along is None:
        return None
    core = core_for(product, node, target)
    sizes = (height, 2 * fragments.COLUMNS, int(term.vmax) + 1)
    exact = (fragments.ROWS, fragments.COLUMNS, 2)
    if tuple(int(r.vmax) + 1 for r in (row, column, along)) != exact or core is None:
        return None
    if (core.m, core.n, core.k) != sizes or any(r.arg[1] is Axis.GROUP for r in node.src[1:]):
        return None
    return _Tile(product, row, down, column, along, term, sizes)


# -- the instruction -------------------------------------------------------------------------------


def _multiplied(kernel: UOp, node: UOp, tile: _Tile) -> UOp:
    """The kernel with one sum done by the instruction."""
    total = _total(node, tile)
    copied = [r for r in (tile.down, tile.along) if r is not None]
    new: dict[UOp, UOp] = {}
    for place in toposort(kernel):
        src = tuple(new[s] for s in place.src)
        closed = [r for r in copied if r in place.src[1:] and place.op is ops.END]
        if closed and node in toposort(place.src[0]):
            new[place] = _copies(place, node, total, copied)
        elif place.op is ops.AFTER:
            new[place] = src[0].after(*src[1:])
        else:
            new[place] = place if src == place.src else place.replace(src)
    return new[kernel]


def _copies(end: UOp, node: UOp, total: UOp, copied: Sequence[UOp]) -> UOp:
    """An effect for each element that a thread has of the result."""
    effects = []
    for number, where in enumerate(_iterations(copied)):
        effects.append(substitute(end.src[0], {**where, node: total.gep(number)}))
    return ops.GROUP(*effects).end(*(r for r in end.src[1:] if r not in copied))


def _total(node: UOp, tile: _Tile) -> UOp:
    """The sum, as the vector of what a thread has of it."""
    m, n, k = tile.sizes
    kind = tile.product.left.dtype
    name = f"m{m}n{n}k{k}_{kind.name}_{node.dtype.name}"
    arg = (name, tile.sizes, tile.sizes, fragments.THREADS)
    value = UOp.const(node.dtype.vec(len(fragments.result(m))), 0)
    unrolled = [r for r in node.src[1:] if r.arg[1] is Axis.UNROLL]
    for where in _iterations(unrolled):
        left, right = (ops.VECTORIZE(*part) for part in _factors(tile, where))
        value = ops.WMMA(left, right, value, arg=arg)
    loops = [r for r in node.src[1:] if r is not tile.term and r not in unrolled]
    return value.reduce(ops.ADD, *loops) if loops else value


def _factors(tile: _Tile, where: dict[UOp, UOp]) -> tuple[list[UOp], list[UOp]]:
    """The elements of both matrices that a thread holds."""
    m, _, k = tile.sizes
    w = fragments.word(tile.product.left.dtype)
    first = tile.column * w
    left = []
    for down, right in fragments.left(m, k, w):
        at = {**where, tile.term: first + right}
        if tile.down is not None:
            at[tile.down] = UOp.const(tile.row.dtype, down // fragments.ROWS)
        left.append(substitute(tile.product.left, at))
    # the column of a thread's elements is its row in the warp: 2 * (row // 2) + row % 2
    column = {tile.column: tile.row // 2, tile.along: tile.row % 2}
    right_part = [
        substitute(tile.product.right, {**where, **column, tile.term: first + down})
        for down in fragments.right(k, w)
    ]
    return left, right_part


def _iterations(ranges: Sequence[UOp]) -> Iterator[dict[UOp, UOp]]:
    """Every combination of values of some ranges, the last the fastest."""
    for values in itertools.product(*(range(int(r.vmax) + 1) for r in ranges)):
        yield {r: UOp.const(r.dtype, v) for r, v in zip(ranges, values, strict=True)}
