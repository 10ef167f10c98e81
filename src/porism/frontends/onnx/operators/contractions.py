"""Contractions: sums of products over axes, of floats and of integers; determinants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from porism.frontends.onnx.operator_call import Call, Value
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.onnx.stored_operands import stored
from porism.frontends.tensor_functions import xp

EXACT_FLOATS: Final = 1 << 24
"""Whole numbers up to this are exact in float32."""

LARGEST_BYTE: Final = 255.0
"""The largest difference of two integers of 8 bits."""


def matmul(a: Value, b: Value) -> Value:
    """Return a matrix product in the type of its operands."""
    return xp.matmul(a, b).astype(a.dtype)


def _gemm(call: Call) -> Value:
    a, b = call.tensor(0), call.tensor(1)
    a = a.mT if call.integer("transA") else a
    b = b.mT if call.integer("transB") else b
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    y = matmul(a, b)
    if alpha != 1:
        y = _scaled(y, alpha)
    if call.has(2) and beta != 0:
        c = call.tensor(2)
        y = y + (c if beta == 1 else _scaled(c, beta))
    return y


def _scaled(x: Value, factor: float) -> Value:
    """Return x times a number, in the type of x, also of integers."""
    return x * factor if x.dtype.base.is_float else (x.astype("float64") * factor).astype(x.dtype)


def _einsum(call: Call) -> Value:
    return xp.einsum(call.text("equation", "").replace(" ", ""), *call.tensors())


def integer_operand(call: Call, number: int, zero_point: int) -> Value:
    """Return an operand of 8 bits as int32 without its zero point."""
    x = call.tensor(number).astype("int32")
    zero = call.optional(zero_point)
    if zero is None:
        return x
    zero = zero.astype("int32")
    if number == 0 and _is_per_row(zero, x):
        zero = zero.reshape((-1, 1))
    return x - zero


def largest_sum(call: Call, weight: int, zero_point: int, axes: Sequence[int] | None) -> float:
    """Return what no sum of products exceeds, of 8-bit integers less their zero points.

    `axes` are those of the weight that are summed; None for all but the first. Of a weight that is
    known its own values count, otherwise the largest that there are.
    """
    shape = call.shape(weight)
    axes = tuple(range(1, len(shape))) if axes is None else tuple(axes)
    if not call.is_host(weight) or (call.has(zero_point) and not call.is_host(zero_point)):
        return float(math.prod(shape[axis] for axis in axes)) * LARGEST_BYTE**2
    w = call.host(weight).astype(np.float64)
    if call.has(zero_point):
        zero = call.host(zero_point).astype(np.float64)
        per_row = zero.size > 1 and 0 not in axes
        w = w - (zero.reshape((-1, *[1] * (w.ndim - 1))) if per_row else zero)
    return float(np.abs(w).sum(axis=axes).max(initial=0)) * LARGEST_BYTE


def integer_product(
    call: Call, product: Callable[[Value, Value], Value], b: Value, largest: float
) -> Value:
    """Return an exact product of the first input and integers, as int32.

    Floats multiply and add in one instruction, and are exact up to 2^24 in any order of the sums:
    so they are used if no sum exceeds that. The first operand is stored, since it is quantized just
    before.
    """
    if largest > EXACT_FLOATS:
        return product(stored(integer_operand(call, 0, 2)), b).astype("int32")
    a, zero = call.floats(0), None
    if call.has(2):
        zero = call.floats(2)
        zero = zero.reshape((-1, 1)) if _is_per_row(zero, a) else zero
    a = a if zero is None else a - zero
    y = product(stored(a), b.astype("float32"))
    return call.builder.with_floats(y.astype("int32"), y)


def _is_per_row(zero: Value, x: Value) -> bool:
    return bool(zero.ndim == 1 and x.ndim > 1 and zero.shape[0] > 1)


def _matmul_integer(call: Call) -> Value:
    axis = max(call.rank(1) - 2, 0)
    largest = largest_sum(call, 1, 3, (axis,))
    return integer_product(call, xp.matmul, integer_operand(call, 1, 3), largest)


def _determinant(call: Call) -> Value:
    """Return determinants by Gaussian elimination with the largest pivot of each column."""
    x = call.tensor(0)
    size = x.shape[-1]
    batch = x.shape[:-2]
    rows = x.reshape((-1, size, size))
    result = xp.full((rows.shape[0],), 1, dtype=x.dtype)
    for step in range(size):
        pivot = xp.argmax(xp.abs(rows[:, step:, step]), axis=1) + step
        at = xp.arange(size).reshape((1, size))
        swapped = xp.where(at == pivot.reshape((-1, 1)), step, at)
        order = xp.where(at == step, pivot.reshape((-1, 1)), swapped)
        index = xp.broadcast_to(order.reshape((-1, size, 1)), rows.shape)
        rows = xp.gather(rows, 1, index).realize()
        sign = xp.where(pivot == step, 1, -1).astype(x.dtype)
        head = rows[:, step, step]
        result = result * sign * head
        column = head.reshape((-1, 1))
        factor = xp.where(column == 0, 0, rows[:, :, step] / column)
        below = xp.where(at > step, factor, 0).reshape((-1, size, 1))
        rows = (rows - below * rows[:, step : step + 1, :]).realize()
    return result.reshape(batch)


OPERATORS: Final = (
    Operator("MatMul", lambda call: matmul(call.tensor(0), call.tensor(1))),
    Operator("Gemm", _gemm),
    Operator("Einsum", _einsum),
    Operator("MatMulInteger", _matmul_integer),
    Operator("Det", _determinant),
)
"""The rows of this module."""
