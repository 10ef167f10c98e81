"""View examples: elements of moved tensors whose axes have sizes 0 and 1, or are symbolic.

A reshape is tried that splits, merges and exchanges axes, with axes of size 1 at every place;
elements are read by loops over whole axes, over parts of them, and under masks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from porism.base.dtypes import f32, index
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from tests.examples.example_graphs import made, number

Inputs = dict[Any, Any]
Dim = int | UOp

_N: Final = UOp.variable("n", 0, 9)
_M: Final = UOp.variable("m", 2, 9)
_BIT: Final = UOp.variable("bit", 0, 1)


def _dims(sizes: Sequence[Dim]) -> list[UOp]:
    return [size if isinstance(size, UOp) else number(size) for size in sizes]


def _tensor(*sizes: Dim) -> UOp:
    return made(ops.PARAM, *_dims(sizes), dtype=f32, arg=1)


def _inputs(sizes: Sequence[Dim], variables: dict[UOp, int]) -> Inputs:
    dims = [variables[size] if isinstance(size, UOp) else size for size in sizes]
    data = np.arange(math.prod(dims), dtype=np.float32).reshape(dims) + 1
    return {1: data, **variables}


_RESHAPES: Final[tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]] = (
    # axes of size 1 in front, between and behind
    ((6,), (1, 6)),
    ((6,), (6, 1, 1)),
    ((1, 6), (6,)),
    ((6, 1), (6,)),
    ((2, 3), (2, 1, 3)),
    ((2, 1, 3), (6,)),
    ((6,), (2, 1, 3)),
    ((2, 1, 3), (3, 2, 1)),
    ((2, 1, 2, 3), (4, 1, 3)),
    ((1, 1), (1,)),
    ((1,), ()),
    ((1, 1), ()),
    ((), (1, 1)),
    # none of them
    ((2, 3), (3, 2)),
    ((3, 4), (2, 6)),
    ((4, 9), (6, 6)),
    ((24,), (2, 3, 4)),
    ((2, 2, 3), (4, 3)),
    # without elements: the other sizes need not fit
    ((0,), (0, 3)),
    ((0, 3), (0,)),
    ((0, 4), (0, 2)),
    ((0, 2), (0, 4)),
    ((0, 2, 3), (3, 0)),
    ((2, 0, 3), (2, 3, 0)),
    ((2, 3), (2, 3)),
)
"""Sizes of a tensor, and what it is reshaped to."""

_SYMBOLIC: Final[tuple[tuple[tuple[Dim, ...], tuple[Dim, ...], int], ...]] = (
    *(((4, _N), (4,), 1), ((_N, 4), (4,), 1), ((4,), (4, _N), 1), ((4,), (_N, 4), 1)),
    *(((_N, 4), (_N, 2, 2), 3), ((4, _N), (2, 2, _N), 3), ((_N, 2), (2, _N), 3)),
    *(((6, _N), (3, 2, _N), 2), ((_N, 6), (6, _N), 2), ((2, _N, 3), (6, _N), 2)),
    *(((2, _N), (_N, 2), 0), ((6,), (2, _N), 3), ((2, _N), (6,), 3), ((3, _N), (3, 2), 2)),
    *(((2, 3), (_M, 2), 3), ((_M, 2), (2, 3), 3), ((2, 6), (_M, 4), 3)),
    *(((2, 2, _N), (4, _N), 2), ((_N, 2), (6,), 3), ((4, 1, _N), (2, 2, _N, 1), 3)),
)
"""Sizes of a tensor, what it is reshaped to, and the value of the variable."""


def edge_views() -> Iterator[tuple[UOp, Inputs]]:
    """Views of small tensors, each with its inputs."""
    for old, new in _RESHAPES:
        yield made(ops.RESHAPE, _tensor(*old), *_dims(new)), _inputs(old, {})
    for before, after, value in _SYMBOLIC:
        view = made(ops.RESHAPE, _tensor(*before), *_dims(after))
        yield view, _inputs(before, {_N: value, _M: value})
    for value in (0, 1):
        inputs = _inputs((_BIT, 3), {_BIT: value})
        bit = _tensor(_BIT, 3)
        yield made(ops.RESHAPE, bit, _BIT, number(3)), inputs
        yield made(ops.PAD, bit, *map(number, (2, 1, 0, 1))), inputs
        yield made(ops.SHRINK, bit, number(0), _BIT, number(1), number(3)), inputs
        yield made(ops.EXPAND, bit, _BIT, number(3)), inputs
    inputs = _inputs((1, 3, 1), {})
    thin = _tensor(1, 3, 1)
    yield made(ops.PAD, thin, *map(number, (0, 0, 0, 0, 0, 0))), inputs
    yield made(ops.PAD, thin, *map(number, (1, 1, 0, 0, 0, 0))), inputs
    yield made(ops.PAD, thin, *map(number, (1, 0, 0, 0, 0, 0))), inputs
    yield made(ops.PAD, thin, *map(number, (1, 0, 2, 1, 0, 1))), inputs
    yield made(ops.PAD, thin, *map(number, (0, 1, 1, 0, 1, 0))), inputs
    yield made(ops.SHRINK, thin, *map(number, (0, 1, 1, 3, 0, 1))), inputs
    yield made(ops.SHRINK, thin, *map(number, (0, 1, 1, 3, 1, 1))), inputs
    yield made(ops.EXPAND, thin, *map(number, (2, 3, 4))), inputs
    yield made(ops.FLIP, thin, arg=(0, 1, 2)), inputs
    constant = number(2.5, f32)
    yield made(ops.RESHAPE, constant, number(1), number(1)), {}
    yield made(ops.RESHAPE, made(ops.PARAM, dtype=f32, arg=1), number(1)), _inputs((), {})


def elements(view: UOp, inputs: Inputs) -> Iterator[UOp]:
    """Yield elements of a view: all of them, parts, and some under masks, or none."""
    nothing = ops.INVALID(dtype=index)
    dims = shape(view)
    loops = [UOp.range(dim, axis) for axis, dim in enumerate(dims)]
    yield made(ops.INDEX, view, *loops)
    if not loops:
        return
    first, rest = loops[0], loops[1:]
    shifted = first - 1  # where a PAD has one element in front, this is its condition
    for inside in (first < 2, shifted >= 0, UOp.const((first < 2).dtype, True)):
        masked = made(ops.WHERE, inside, first, nothing)
        yield made(ops.INDEX, view, masked, *rest)
    yield made(ops.INDEX, view, *loops, first < 2)
    yield made(ops.INDEX, view, nothing, *rest)
    for size in range(2, min(6, _least(dims[-1], inputs) + 1)):
        part = UOp.range(size, 7)
        yield made(ops.INDEX, view, *loops[:-1], part)
        yield made(ops.INDEX, view, *loops[:-1], dims[-1] - 1 - part)
    if _least(dims[-1], inputs) >= 4:
        part = UOp.range(4, 7)
        for divisor in (1, 3, 4, 5):  # not all of them are of use
            yield made(ops.INDEX, view, *loops[:-1], made(ops.MOD, part, number(divisor)))


def _least(dim: UOp, inputs: Inputs) -> int:
    """Return the size of an axis."""
    return int(inputs[dim]) if dim in inputs else int(dim.vmin)
