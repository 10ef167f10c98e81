"""Semantics of numbers: compared with Python's integers and IEEE 754."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.base import dtypes
from porism.base.dtypes import DType, wrap
from porism.evaluate import evaluate, inspect
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from tests.evaluate.programs import num, unwrapped
from tests.graphs import examples, index_expressions, leaves, values


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER_OPS: dict[Op, Callable[[int, int], int]] = {
    ops.ADD: operator.add,
    ops.SUB: operator.sub,
    ops.MUL: operator.mul,
    ops.IDIV: lambda a, b: a // b if b else 0,
    ops.MOD: lambda a, b: a % b if b else 0,
    ops.CDIV: lambda a, b: truncated(a, b) if b else 0,
    ops.CMOD: lambda a, b: a - b * truncated(a, b) if b else 0,
    ops.MAX: max,
    ops.MIN: min,
    ops.AND: operator.and_,
    ops.OR: operator.or_,
    ops.XOR: operator.xor,
    ops.SHL: lambda a, b: a << b if 0 <= b < 8 else 0,
    ops.SHR: lambda a, b: a >> b if 0 <= b < 8 else (-1 if a < 0 else 0),
    ops.LT: operator.lt,
    ops.EQ: operator.eq,
}


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.u8])
@pytest.mark.parametrize("op", INTEGER_OPS, ids=lambda op: op.name)
def test_every_pair_of_eight_bit_integers(op: Op, dtype: DType) -> None:
    """Every third value of each operand, and all that are near a limit."""
    x, y = UOp.range(256, 0).cast(dtype), UOp.range(256, 1).cast(dtype)
    actual = unwrapped(evaluate(op(x, y)))
    function = INTEGER_OPS[op]
    picked = sorted({*range(0, 256, 3), *range(120, 136), 254, 255, 1, 2})
    for a in picked:
        left = wrap(dtype, a)
        expected = [wrap(dtype, int(function(left, wrap(dtype, b)))) for b in picked]
        assert actual[a, picked].tolist() == expected


@examples(60)
@given(index_expressions(truncating=True), st.data())
def test_index_arithmetic_is_pythons(expression: UOp, data: st.DataObject) -> None:
    given_values = {leaf: data.draw(values(leaf)) for leaf in leaves(expression)}
    actual = int(unwrapped(evaluate(expression, given_values)))
    assert expression.vmin <= actual <= expression.vmax
    modulus, remainder = expression.residue
    assert actual == remainder if modulus == 0 else actual % modulus == remainder


FLOATS = (0.0, -0.0, 1.0, -1.5, math.nan, math.inf, -math.inf, 1e-45, 3e38)


@pytest.mark.parametrize("op", [ops.MAX, ops.MIN])
def test_max_and_min_propagate_nan(op: Op) -> None:
    for other in FLOATS:
        for pair in ((math.nan, other), (other, math.nan)):
            actual = unwrapped(evaluate(op(*(num(v, dtypes.f32) for v in pair))))
            assert math.isnan(actual)


def test_signed_zeros_and_division_by_zero() -> None:
    def signed(a: float, op: Op, b: float) -> float:
        return float(unwrapped(evaluate(op(num(a, dtypes.f64), num(b, dtypes.f64)))))

    assert math.copysign(1, signed(-0.0, ops.ADD, -0.0)) == -1
    assert math.copysign(1, signed(0.0, ops.ADD, -0.0)) == 1
    assert math.copysign(1, signed(-1.0, ops.MUL, 0.0)) == -1
    assert signed(1.0, ops.FDIV, -0.0) == -math.inf
    assert math.isnan(signed(0.0, ops.FDIV, 0.0))


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (3.99, dtypes.i32, 3),
        (-3.99, dtypes.i32, -3),
        (1e20, dtypes.i32, (1 << 31) - 1),
        (-1e20, dtypes.i64, -(1 << 63)),
        (1e20, dtypes.u64, (1 << 64) - 1),
        (-1.0, dtypes.u8, 0),
        (300.0, dtypes.u8, 255),
        (math.nan, dtypes.i16, 0),
        (math.inf, dtypes.i8, 127),
        (-math.inf, dtypes.i8, -128),
        (math.nan, dtypes.boolean, True),
        (-0.0, dtypes.boolean, False),
    ],
)
def test_floats_to_integers(value: float, dtype: DType, expected: Any) -> None:
    assert unwrapped(evaluate(num(value, dtypes.f64).cast(dtype))) == expected


@pytest.mark.parametrize("dtype", dtypes.scalars(), ids=str)
def test_every_type_goes_through_memory(dtype: DType) -> None:
    i = UOp.range(3, 0)
    tensor = UOp(ops.PARAM, dtype, (num(3),), 0)
    data = np.array([0, 1, 1]).astype(dtype.numpy)
    actual = unwrapped(evaluate(tensor.index(2 - i), {0: data}))
    assert actual.dtype == dtype.numpy
    np.testing.assert_array_equal(actual, data[::-1])


def test_narrow_floats_round_once() -> None:
    third = num(1.0, dtypes.bf16) / num(3.0, dtypes.bf16)
    assert float(unwrapped(evaluate(third))) == 0.333984375
    product = num(3.0, dtypes.f16) * num(1 / 3, dtypes.f16)
    assert float(unwrapped(evaluate(product))) == 1.0


def test_a_fused_product_rounds_once() -> None:
    x = 1 + 2**-30
    fused = ops.MULACC(num(x, dtypes.f64), num(x, dtypes.f64), num(-1.0, dtypes.f64))
    assert float(unwrapped(evaluate(fused))) == 2**-29 + 2**-60


def test_a_where_has_the_state_of_the_selected_operand() -> None:
    """A WHERE has the state of the selected operand, a comparison that of both."""
    i = UOp.range(3, 0)
    masked = (i < 1).where(i, UOp(ops.INVALID))
    bad = ops.IDIV(num(1), i - 1)
    for value, states in (
        (masked + bad, "good invalid invalid"),
        ((i < 2).where(bad, masked), "good undefined invalid"),
        ((masked < 9).where(i, bad), "good invalid invalid"),
        ((bad < 9).where(i, i), "good undefined good"),
    ):
        actual = inspect(value)
        names = [
            "invalid" if not valid else "undefined" if undefined else "good"
            for valid, undefined in zip(
                actual.valid[:, 0].tolist(), actual.undefined[:, 0].tolist(), strict=True
            )
        ]
        assert " ".join(names) == states
