"""Programs: small kernels for the tests of the evaluator, and short constructors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from porism.base.dtypes import DType, Space, f32, index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op

Array = npt.NDArray[Any]


def num(value: float, dtype: DType = index) -> UOp:
    return UOp.const(dtype, value)


def pointer(number: int, size: int, dtype: DType = f32) -> UOp:
    """Return a PARAM of a kernel."""
    return UOp(ops.PARAM, dtype.pointer(Space.GLOBAL, size), (), number)


def tensor(number: int, *dims: int | UOp, dtype: DType = f32) -> UOp:
    """Return a PARAM of a tensor graph."""
    sizes = tuple(num(d) if isinstance(d, int) else d for d in dims)
    return UOp(ops.PARAM, dtype, sizes, number)


def special(name: str, size: int) -> UOp:
    return UOp(ops.SPECIAL, None, (num(size),), name)


def local(size: int, dtype: DType = f32, name: int = 0) -> UOp:
    return UOp(ops.DEFINE_LOCAL, dtype.pointer(Space.LOCAL, size), (), name)


def register(dtype: DType = f32, name: int = 0, size: int = 1) -> UOp:
    return UOp(ops.DEFINE_REG, dtype.pointer(Space.REGISTER, size), (), name)


def at(base: UOp, *sources: UOp | int) -> UOp:
    """Return the pointer to an element; a condition at the end is its gate."""
    src = tuple(num(s) if isinstance(s, int) else s for s in sources)
    return UOp(ops.INDEX, base.dtype, (base, *src))


def load(base: UOp, *sources: UOp | int) -> UOp:
    return at(base, *sources).load()


def barrier(*effects: UOp) -> UOp:
    return UOp(ops.BARRIER, None, effects)


def group(*effects: UOp) -> UOp:
    return UOp(ops.GROUP, None, effects)


def sink(*effects: UOp) -> UOp:
    return UOp(ops.SINK, None, effects)


def arange(*shape: int, dtype: Any = np.float32) -> Array:
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def accumulated(
    value: UOp, loop: UOp, *outer: UOp, op: Op = ops.ADD, first: float = 0, name: int = 0
) -> UOp:
    """Return a reduction as an accumulator in a register, updated in a loop."""
    place = register(value.dtype, name)
    fresh = place.after(*outer) if outer else place
    start = at(fresh, 0).store(num(first, value.dtype))
    inside = at(place.after(start, loop), 0)
    update = inside.store(UOp(op, None, (inside.load(), value)))
    return load(place.after(update.end(loop)), 0)


def tree_sum(threads: int, *, with_barrier: bool = True) -> UOp:
    """Return a kernel in which each block sums its row of PARAM 1 as a tree in local memory."""
    block, thread = special("block0", 2), special("thread0", threads)
    rows = pointer(1, 2 * threads)
    shared = local(threads)
    value = load(rows, block * threads + thread)

    def waited(effect: UOp) -> UOp:
        return shared.after(barrier(effect) if with_barrier else effect)

    here = waited(at(shared, thread).store(value))
    step = threads // 2
    while step:
        busy = thread < step
        other = at(here, thread + step, busy).load(num(0.0, f32))
        mine = load(here, thread)
        here = waited(at(here, thread, busy).store(mine + other))
        step //= 2
    first = thread.eq(0)
    return sink(at(pointer(0, 2), block, first).store(load(here, 0)))


def tiled_matmul(size: int, tile: int, *, last_barrier: bool = True) -> UOp:
    """Return the kernel PARAM 0 = PARAM 1 @ PARAM 2, with tiles in local memory."""
    blocks = size // tile
    rows, columns = special("block0", blocks), special("block1", blocks)
    row, column = special("thread0", tile), special("thread1", tile)
    left, right = pointer(1, size * size), pointer(2, size * size)
    a, b = local(tile * tile, name=0), local(tile * tile, name=1)
    step, k = UOp.range(blocks, 0), UOp.range(tile, 1)
    y, x = rows * tile + row, columns * tile + column
    mine = row * tile + column
    fill_a = at(a.after(step), mine).store(load(left, y * size + step * tile + column))
    fill_b = at(b.after(step), mine).store(load(right, (step * tile + row) * size + x))
    filled = barrier(fill_a, fill_b)
    total = register()
    start = at(total, 0).store(num(0.0, f32))
    inside = at(total.after(start, step, k), 0)
    product = load(a.after(filled), row * tile + k) * load(b.after(filled), k * tile + column)
    update = inside.store(inside.load() + product)
    inner = update.end(k)
    outer = (barrier(inner) if last_barrier else inner).end(step)
    return sink(at(pointer(0, size * size), y * size + x).store(load(total.after(outer), 0)))


def unwrapped(values: list[Array]) -> Array:
    """Return the one array of a result."""
    (value,) = values
    return value
