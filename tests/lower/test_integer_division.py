"""Integer division, shifts and powers: the same results as the evaluator, and no traps."""

from __future__ import annotations

import random

import numpy as np
import pytest

from porism.base import dtypes
from porism.base.dtypes import DType, i8, i16, i32, i64, u8, u16, u32, u64
from porism.base.target import GENERIC_CPU
from porism.evaluate.reference_target import REFERENCE
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.lower.decompose.decompose import decompose
from porism.lower.decompose.decomposition_options import Machine
from porism.lower.decompose.integer_division import multiplier
from tests.lower.arrays import PLAIN, check, edges, operands, pairs, values

DIVISIONS = (ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD)
WORDS = (i8, u8, i16, u16, i32, u32, i64, u64)
BY_COMPILER = Machine(target=GENERIC_CPU, divides_by_constants=True)


@pytest.mark.parametrize("op", [*DIVISIONS, ops.POW, ops.SHL, ops.SHR, ops.MAX, ops.MIN])
@pytest.mark.parametrize("kind", [i8, u8])
def test_all_pairs_of_bytes(op: Op, kind: DType) -> None:
    a, b = pairs(kind)
    x, y = operands(len(a), kind, kind)
    check(op(x, y), (a, b))


@pytest.mark.parametrize("op", [*DIVISIONS, ops.POW, ops.SHL, ops.SHR])
@pytest.mark.parametrize("kind", [i32, u32, i64, u64])
def test_edges_of_words(op: Op, kind: DType) -> None:
    a, b = pairs(kind, edges(kind)[:: 1 if op is not ops.POW else 3])
    x, y = operands(len(a), kind, kind)
    check(op(x, y), (a, b))


@pytest.mark.slow
@pytest.mark.parametrize("machine", [PLAIN, BY_COMPILER], ids=("products", "compiler"))
@pytest.mark.parametrize("kind", [i8, u8])
def test_every_constant_divisor_of_bytes(kind: DType, machine: Machine) -> None:
    every = np.arange(256).astype(np.uint8).view(kind.numpy)
    (x,) = operands(256, kind)
    for divisor in range(int(kind.min), int(kind.max) + 1):
        for op in DIVISIONS:
            check(op(x, x.lift(divisor)), (every,), machine)


@pytest.mark.parametrize("kind", [i16, u16])
def test_constant_divisors_of_16_bits(kind: DType) -> None:
    every = np.arange(1 << 16).astype(np.uint16).view(kind.numpy)
    (x,) = operands(1 << 16, kind)
    for divisor in (3, 7, 10, 641, 1000, 32767):
        check(x // divisor, (every,))
    check(x % 10, (every,))


def around(kind: DType, divisor: int, chance: random.Random) -> list[int]:
    """Return numbers next to multiples of a divisor, the largest first, and edge cases."""
    low, high = int(kind.min), int(kind.max)
    whole = [high // divisor, low // divisor, 0, 1, -1]
    whole += [chance.randint(low // divisor, high // divisor) for _ in range(20)]
    near = [q * divisor + d for q in whole for d in (-2, -1, 0, 1, divisor - 1)]
    return [n for n in [*near, low, high] if low <= n <= high]


@pytest.mark.parametrize("kind", [i32, u32, i64, u64])
def test_constant_divisors_of_wide_words(kind: DType) -> None:
    chance = random.Random(3)
    high = int(kind.max)
    divisors = [3, 5, 6, 7, 10, 641, 1000, 6_700_417, high, high - 1, high // 2, high // 2 + 1]
    divisors += [chance.randint(2, high >> chance.randint(0, kind.bits - 3)) for _ in range(25)]
    for divisor in divisors:
        numbers = around(kind, divisor, chance)
        data = np.array([n % (1 << kind.bits) for n in numbers], np.uint64)
        data = data.astype(f"uint{kind.bits}").view(kind.numpy)
        (x,) = operands(len(data), kind)
        for op, python in ((ops.IDIV, int.__floordiv__), (ops.MOD, int.__mod__)):
            after = decompose(op(x, x.lift(divisor)), PLAIN)
            assert not {n.op for n in toposort(after)} & set(DIVISIONS)
            actual = values(after, (data,))
            assert [int(v) for v in actual] == [python(n, divisor) for n in numbers]


def test_negative_constant_divisors() -> None:
    data = np.array(edges(i32), np.int32)
    (x,) = operands(len(data), i32)
    for divisor in (-1, -2, -3, -10, -(1 << 31)):
        for op in DIVISIONS:
            check(op(x, x.lift(divisor)), (data,))


def test_bounds_allow_a_product_of_the_same_width() -> None:
    (x,) = operands(4096, i32)
    data = np.arange(-2048, 2048).astype(np.int32)
    for bounded in (x & 1023, (x & 1023) - 200):
        after = check(bounded // 12, (data,))
        assert all(n.dtype.bits <= 32 for n in toposort(after) if n.op is ops.MUL)
        assert ops.MUL in {n.op for n in toposort(after)}
        assert ops.XOR not in {n.op for n in toposort(after)}


def test_a_multiplier_is_right_for_every_number_up_to_the_largest() -> None:
    for largest in (1, 2, 7, 30, 99, 255, 300):
        for divisor in range(1, 60):
            m, s = multiplier(largest, divisor)
            assert all(n * m >> s == n // divisor for n in range(largest + 1))


def test_powers_of_two_are_shifts_and_masks() -> None:
    (x,) = operands(16, i32)
    assert decompose(x // 8, PLAIN) is x >> 3
    assert decompose(x % 8, PLAIN) is x & 7


def test_a_safe_division_is_left_alone() -> None:
    x, y = operands(16, i32, u8)
    divisor = y.cast(i32) + 1
    assert decompose(ops.CDIV(x, divisor), PLAIN) is ops.CDIV(x, divisor)
    total = Machine(target=REFERENCE, total_division=True, total_shifts=True)
    assert decompose(ops.CDIV(x, y.cast(i32)), total) is ops.CDIV(x, y.cast(i32))


@pytest.mark.parametrize("op", [*DIVISIONS, ops.POW, ops.SHL])
def test_vectors(op: Op) -> None:
    a, b = pairs(i16, edges(i16))
    a, b = a[: len(a) // 4 * 4], b[: len(a) // 4 * 4]
    x, y = operands(len(a), i16, i16, lanes=4)
    check(op(x, y), (a, b))
    for divisor in (8, 10):
        check(op(x, UOp.const(i16.vec(4), divisor)), (a,))


def test_products_by_powers_of_two_become_shifts_on_request() -> None:
    machine = Machine(target=GENERIC_CPU, shifts_for_products=True)
    for kind in WORDS:
        data = np.array([n % (1 << kind.bits) for n in edges(kind)], np.uint64)
        data = data.astype(f"uint{kind.bits}").view(kind.numpy)
        (x,) = operands(len(data), kind)
        for factor in (2, 8, 1 << (kind.bits - 2), int(kind.min) or 4):
            after = check(x * factor, (data,), machine)
            assert ops.MUL not in {n.op for n in toposort(after)}
        assert decompose(x * 6, machine) is x * 6
        assert decompose(x * 8, PLAIN) is x * 8


def test_other_types_are_left_alone() -> None:
    i = UOp.variable("i", 0, 99)
    assert decompose(i // 10, PLAIN) is i // 10
    assert dtypes.index is i.dtype
