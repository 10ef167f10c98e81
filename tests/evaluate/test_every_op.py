"""Every op of the table is evaluated: one small program each, with its result."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from porism.base.dtypes import DType, Space, boolean, f32, i8, i32, index, u8, u64
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Group, Op
from tests.evaluate.programs import (
    at,
    barrier,
    group,
    load,
    local,
    num,
    pointer,
    register,
    sink,
    special,
    tensor,
)

Case = tuple[UOp, Any]
"""A program with PARAM 1 = [1, 2, 3, 4], and its result."""

I = UOp.range(4, 0)  # noqa: E741 - the loop of these programs
OUT, IN = pointer(0, 4), pointer(1, 4)
TENSOR = tensor(1, 4)
GIVEN = np.array([1, 2, 3, 4], np.float32)
GATHERED = [0, 1, 2, 3, 4, 0]
INVALID = UOp(ops.INVALID)
LANES = UOp(ops.VCONST, index.vec(4), (), (0, 1, 2, 3))


def apply(op: Op, *values: float, dtype: DType = f32) -> UOp:
    return UOp(op, None, tuple(num(v, dtype) for v in values))


def moved(op: Op, *sizes: int, arg: Any = None) -> UOp:
    return UOp(op, None, (TENSOR, *(num(s) for s in sizes)), arg)


def stored(value: UOp, *around: UOp) -> UOp:
    """Return a program that stores the value of each iteration."""
    place = at(OUT, I).store(value)
    return sink(place.end(I, *around))


def with_if() -> UOp:
    gate = UOp(ops.IF, None, (I < 2,))
    store = at(OUT.after(gate), I).store(num(5.0, f32))
    other = at(OUT, I, I >= 2).store(num(6.0, f32))
    return sink(UOp(ops.ENDIF, None, (gate, store)).end(I), other.end(I))


def called() -> UOp:
    kernel = stored(load(IN, I) * 2.0)
    return sink(UOp(ops.CALL, None, (kernel, OUT, IN), "twice"))


def gathered() -> UOp:
    pointers = UOp(ops.PTRCAT, None, tuple(at(IN, k) for k in (3, 0, 1, 1)))
    return sink(at(OUT, 0).store(UOp(ops.LOAD, f32.vec(4), (pointers,))))


def after_a_store() -> UOp:
    """Return a program that overwrites PARAM 1 before it reads it."""
    overwritten = at(IN, I).store(num(8.0, f32)).end(I)
    return stored(load(IN.after(overwritten), I))


def shared() -> UOp:
    """Return a program in which four threads exchange their values in local memory."""
    thread = special("thread0", 4)
    cells = local(4)
    filled = at(cells, thread).store(load(IN, thread))
    value = load(cells.after(barrier(filled)), 3 - thread)
    return sink(at(OUT, thread).store(value))


def in_register() -> UOp:
    place = register()
    first = at(place.after(I), 0).store(load(IN, I))
    return stored(load(place.after(first), 0) + 1.0)


def product() -> UOp:
    a, b, c = (UOp(ops.VCONST, f32.vec(4), (), lanes) for lanes in ((1, 2, 3, 4),) * 3)
    return UOp(ops.WMMA, None, (a, b, c), ("tiny", (2, 2, 2)))


BOUND = UOp.variable("n", 0, 9)
UNROLLED = UOp(ops.UNROLL, None, (LANES,), ((3, 4),))

CASES: dict[Op, Case] = {
    # leaves
    ops.CONST: (num(7), 7),
    ops.VCONST: (LANES, [0, 1, 2, 3]),
    ops.VARIABLE: (UOp.variable("m", 0, 9), 6),
    ops.BIND: (UOp(ops.BIND, None, (BOUND, num(4))), 4),
    ops.RANGE: (I, [0, 1, 2, 3]),
    ops.SPECIAL: (special("thread0", 3) * 2, [0, 2, 4]),
    ops.PARAM: (TENSOR, GIVEN),
    ops.BUFFER: (UOp(ops.BUFFER, f32, (num(4),), (1, "cpu")), GIVEN),
    ops.DEFINE_LOCAL: (shared(), [4, 3, 2, 1]),
    ops.DEFINE_REG: (in_register(), [2, 3, 4, 5]),
    ops.INVALID: (TENSOR.index((I < 2).where(I, INVALID)), [1, 2, 0, 0]),
    # arithmetic
    ops.NEG: (apply(ops.NEG, 3), -3),
    ops.NOT: (apply(ops.NOT, 5, dtype=u8), 250),
    ops.SQRT: (apply(ops.SQRT, 9), 3),
    ops.EXP: (apply(ops.EXP, 1), np.float32(math.e)),
    ops.EXP2: (apply(ops.EXP2, 5), 32),
    ops.EXPM1: (apply(ops.EXPM1, 1), np.float32(math.expm1(1))),
    ops.TANH: (apply(ops.TANH, 1), np.float32(math.tanh(1))),
    ops.LOG2: (apply(ops.LOG2, 8), 3),
    ops.SIN: (apply(ops.SIN, 1), np.float32(math.sin(1))),
    ops.RECIPROCAL: (apply(ops.RECIPROCAL, 4), 0.25),
    ops.TRUNC: (apply(ops.TRUNC, -2.5), -2),
    ops.FLOOR: (apply(ops.FLOOR, -2.5), -3),
    ops.CEIL: (apply(ops.CEIL, -2.5), -2),
    ops.ROUND: (apply(ops.ROUND, 2.5), 2),
    ops.ADD: (apply(ops.ADD, 100, 100, dtype=i8), -56),
    ops.SUB: (apply(ops.SUB, 3, 5, dtype=u8), 254),
    ops.MUL: (apply(ops.MUL, 16, 17, dtype=u8), 16),
    ops.FDIV: (apply(ops.FDIV, 1, 0), math.inf),
    ops.IDIV: (apply(ops.IDIV, -7, 2, dtype=index), -4),
    ops.MOD: (apply(ops.MOD, -7, 2, dtype=index), 1),
    ops.CDIV: (apply(ops.CDIV, -7, 2, dtype=index), -3),
    ops.CMOD: (apply(ops.CMOD, -7, 2, dtype=index), -1),
    ops.MAX: (apply(ops.MAX, math.nan, 1), math.nan),
    ops.MIN: (apply(ops.MIN, 4, -2), -2),
    ops.LDEXP: (apply(ops.LDEXP, 3, 4), 48),
    ops.POW: (apply(ops.POW, 3, 4, dtype=i32), 81),
    ops.AND: (apply(ops.AND, 12, 10, dtype=i32), 8),
    ops.OR: (apply(ops.OR, 12, 10, dtype=i32), 14),
    ops.XOR: (apply(ops.XOR, 12, 10, dtype=i32), 6),
    ops.SHL: (apply(ops.SHL, 3, 4, dtype=index), 48),
    ops.SHR: (apply(ops.SHR, -5, 1, dtype=index), -3),
    # the first of the known answers of Threefry-2x32 with 20 rounds: zero counter, zero key
    ops.THREEFRY: (apply(ops.THREEFRY, 0, 0, dtype=u64), 0x99BA4EFE_6B200159),
    ops.LT: (apply(ops.LT, 1, 2), True),
    ops.LE: (apply(ops.LE, 2, 2), True),
    ops.GT: (apply(ops.GT, 1, 2), False),
    ops.GE: (apply(ops.GE, 1, 2), False),
    ops.EQ: (apply(ops.EQ, math.nan, math.nan), False),
    ops.NE: (apply(ops.NE, math.nan, math.nan), True),
    ops.WHERE: (UOp(ops.WHERE, None, (I < 2, I, I * 10)), [0, 1, 20, 30]),
    ops.MULACC: (apply(ops.MULACC, 3, 4, 5), 17),
    # conversions and vectors
    ops.CAST: (num(3.9, f32).cast(i8), 3),
    ops.BITCAST: (num(1.0, f32).bitcast(i32), 0x3F800000),
    ops.VECTORIZE: (UOp(ops.VECTORIZE, None, (num(5), num(6))), [5, 6]),
    ops.GEP: (LANES.gep(3, 1), [3, 1]),
    ops.CAT: (UOp(ops.CAT, None, (LANES, num(9))), [0, 1, 2, 3, 9]),
    ops.PTRCAT: (gathered(), [4, 1, 2, 2]),
    ops.UNROLL: (UNROLLED * 2, [0, 2, 4, 6]),
    ops.CONTRACT: (UOp(ops.CONTRACT, None, (UNROLLED + 1,), ((3, 4),)), [1, 2, 3, 4]),
    ops.WMMA: (product(), [8, 12, 18, 26]),
    # memory
    ops.INDEX: (TENSOR.index(3 - I), [4, 3, 2, 1]),
    ops.LOAD: (at(IN, I, I < 2).load(num(9.0, f32)), [1, 2, 9, 9]),
    ops.STORE: (stored(num(2.0, f32)), [2, 2, 2, 2]),
    # order
    ops.END: (stored(num(2.0, f32), UOp.range(2, 1)), [2, 2, 2, 2]),
    ops.AFTER: (after_a_store(), [8, 8, 8, 8]),
    ops.BARRIER: (shared(), [4, 3, 2, 1]),
    ops.GROUP: (sink(group(at(OUT, I).store(num(2.0, f32))).end(I)), [2, 2, 2, 2]),
    ops.SINK: (sink(TENSOR), GIVEN),
    ops.NOOP: (sink(UOp(ops.NOOP), at(OUT, I).store(num(2.0, f32)).end(I)), [2, 2, 2, 2]),
    ops.IF: (with_if(), [5, 5, 6, 6]),
    ops.ENDIF: (with_if(), [5, 5, 6, 6]),
    ops.CALL: (called(), [2, 4, 6, 8]),
    # movement, reductions, tensor graphs
    ops.RESHAPE: (moved(ops.RESHAPE, 2, 2), [[1, 2], [3, 4]]),
    ops.PERMUTE: (UOp(ops.PERMUTE, None, (moved(ops.RESHAPE, 2, 2),), (1, 0)), [[1, 3], [2, 4]]),
    ops.EXPAND: (UOp(ops.EXPAND, None, (moved(ops.RESHAPE, 1, 4), num(2), num(4))), [GIVEN, GIVEN]),
    ops.PAD: (moved(ops.PAD, 1, 2), [0, 1, 2, 3, 4, 0, 0]),
    ops.SHRINK: (moved(ops.SHRINK, 1, 3), [2, 3]),
    ops.FLIP: (moved(ops.FLIP, arg=(0,)), [4, 3, 2, 1]),
    ops.REDUCE_AXIS: (moved(ops.REDUCE_AXIS, arg=(ops.ADD, (0,))), [10]),
    ops.REDUCE: (TENSOR.index(I).reduce(ops.MUL, I), 24),
    ops.IOTA: (UOp(ops.IOTA, None, (num(2), num(3)), 1), [[0, 1, 2], [0, 1, 2]]),
    ops.GATHER: (UOp(ops.GATHER, None, (TENSOR, UOp(ops.IOTA, None, (num(6),), 0) - 1)), GATHERED),
    ops.CONTIGUOUS: (moved(ops.CONTIGUOUS), GIVEN),
    ops.PULLBACK: (moved(ops.PULLBACK, arg=("stop",)), GIVEN),
    ops.COPY: (moved(ops.COPY, arg="gpu"), GIVEN),
    ops.ASSIGN: (UOp(ops.ASSIGN, None, (TENSOR, TENSOR * 3.0)), GIVEN * 3),
    ops.BUFFERIZE: (
        UOp(ops.BUFFERIZE, None, (TENSOR.index(I) + 1.0, I), Space.GLOBAL),
        [2, 3, 4, 5],
    ),
}


def test_every_op_is_here() -> None:
    assert set(CASES) == {op for op in ops.table() if op.group is not Group.PATTERN}


@pytest.mark.parametrize("op", CASES, ids=lambda op: op.name)
def test_meaning(op: Op) -> None:
    program, expected = CASES[op]
    actual = evaluate(program, {1: GIVEN}, {"m": 6})[0]
    np.testing.assert_array_equal(actual, expected)
    if program.dtype.element is boolean:
        assert actual.dtype == np.bool_
