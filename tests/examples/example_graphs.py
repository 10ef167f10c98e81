"""Pieces: what the examples of procedures are made of - small graphs and their inputs.

Nodes are made exactly as stated, so that nothing but the procedure changes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from porism.base.dtypes import DType, boolean, f32, i8, index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.prove.example_variations import Example


def made(op: Op, *src: UOp, dtype: DType | None = None, arg: Any = None) -> UOp:
    return UOp(op, dtype, src, arg)


def number(value: float, dtype: DType = index) -> UOp:
    return UOp.const(dtype, value)


def given(place: int, dtype: DType = index) -> UOp:
    """A scalar input."""
    return made(ops.PARAM, dtype=dtype, arg=place)


def buffer(place: int, size: int = 4, dtype: DType = f32) -> UOp:
    return made(ops.PARAM, dtype=dtype.pointer(size=size), arg=place)


A, B, C = given(0, boolean), given(1, boolean), given(2, boolean)
X, Y = given(3), given(4)
K = given(5, i8)
MEMORY: Final = buffer(6)
DATA: Final = np.asarray([1.5, -2.5, 3.5, 4.5], np.float32)
NONE: Final = made(ops.INVALID, dtype=index)
TRUTHS: Final = (False, True)


def masked(condition: UOp, value: UOp) -> UOp:
    return made(ops.WHERE, condition, value, made(ops.INVALID, dtype=value.dtype))


def inputs(numbers: tuple[int, ...] = (-2, 0, 3)) -> Iterator[dict[Any, Any]]:
    for a, b, c in itertools.product(TRUTHS, repeat=3):
        for i, j in itertools.product(numbers, repeat=2):
            scalars = {0: np.bool_(a), 1: np.bool_(b), 2: np.bool_(c), 3: i, 4: j, 5: np.int8(i)}
            yield {**scalars, 6: DATA}


def on(graphs: list[UOp], numbers: tuple[int, ...] = (-2, 0, 3)) -> Iterator[Example]:
    """Each graph on every input it uses."""
    for graph in graphs:
        for values in inputs(numbers):
            yield graph, values


TOTAL: Final = (ops.ADD, ops.SUB, ops.MUL, ops.MAX, ops.MIN, ops.IDIV, ops.MOD, ops.AND, ops.XOR)
ORDERS: Final = (ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE)
