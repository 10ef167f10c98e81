"""Small floats, emulated by integers and f32: the same bits as NumPy and ml_dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from porism.base import dtypes
from porism.base.dtypes import DType, f32, f64, i8, i32, i64, u8, u16, u64
from porism.base.errors import PorismError
from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU
from porism.evaluate import run_kernel
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.lower.decompose.decompose import decompose
from porism.lower.decompose.decomposition_options import Machine
from porism.lower.decompose.small_floats import LAYOUTS, decode, encode
from tests.lower.arrays import PLAIN, Array, missing, operands, safe, same, values

SMALL = tuple(LAYOUTS)
BYTES = (dtypes.fp8e4m3, dtypes.fp8e5m2)


def codes(kind: DType) -> Array:
    """Return the bits of every value of a small type."""
    bits = LAYOUTS[kind].bits
    return np.arange(1 << bits.bits).astype(bits.numpy)


def check_bits(before: UOp, arrays: list[Array], machine: Machine = PLAIN) -> UOp:
    """Compare a graph on small floats with its emulation on their bits."""
    after = decompose(before, machine)
    assert not missing(after, machine.target)
    assert not {n.dtype.element for n in toposort(after)} & set(LAYOUTS)
    assert not {n.dtype.element.element for n in toposort(after)} & set(LAYOUTS)
    as_bits = [_bits(a) for a in arrays]
    old, new = values(before, arrays), values(after, as_bits)
    if before.dtype.element in LAYOUTS:
        new = new.view(before.dtype.numpy)
    wrong = np.flatnonzero(~same(old, new))
    assert not len(wrong), (before, [a[wrong[0]] for a in arrays], old[wrong[0]], new[wrong[0]])
    safe(after, as_bits)
    return after


def _bits(array: Array) -> Array:
    for kind, layout in LAYOUTS.items():
        if array.dtype == kind.numpy:
            return array.view(layout.bits.numpy)
    return array


@pytest.mark.parametrize("kind", SMALL)
def test_every_value_as_f32(kind: DType) -> None:
    every = codes(kind)
    (x,) = operands(len(every), LAYOUTS[kind].bits)
    actual = values(decode(x, LAYOUTS[kind]), [every])
    with np.errstate(all="ignore"):
        assert same(every.view(kind.numpy).astype(np.float32), actual).all()


def between(kind: DType) -> Array:
    """Return every value of a small type as f32, the midpoints, and the f32 next to these."""
    with np.errstate(all="ignore"):  # NaN, and numbers beyond
        every = codes(kind).view(kind.numpy).astype(np.float32)
        numbers = np.sort(every[np.isfinite(every)])
        middle = (numbers[1:].astype(np.float64) + numbers[:-1]) / 2
        step = float(numbers[-1]) - float(numbers[-2])
        beyond = [float(numbers[-1]) + step * part for part in (0.25, 0.5, 0.75, 1.0, 1.5)]
        given = np.concatenate([every, middle, beyond, [-b for b in beyond]])
        near = given.astype(np.float32)
        up, down = np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))
    return np.concatenate([near, up, down])


@pytest.mark.parametrize("kind", SMALL)
def test_rounding_from_f32(kind: DType) -> None:
    random = np.random.default_rng(5).integers(0, 1 << 32, 100_000).astype(np.uint32)
    data = np.concatenate([between(kind), random.view(np.float32)])
    (x,) = operands(len(data), f32)
    actual = values(encode(x, LAYOUTS[kind]), [data]).view(kind.numpy)
    with np.errstate(all="ignore"):
        assert same(data.astype(kind.numpy), actual).all()


@pytest.mark.parametrize("op", [ops.ADD, ops.SUB, ops.MUL, ops.FDIV, ops.MAX, ops.MIN, ops.LT])
@pytest.mark.parametrize("kind", BYTES)
def test_all_pairs_of_bytes(kind: DType, op: Op) -> None:
    every = codes(kind).view(kind.numpy)
    a, b = (g.reshape(-1) for g in np.meshgrid(every, every))
    if op in (ops.MAX, ops.MIN):
        zeros = (a.astype(np.float32) == 0) & (b.astype(np.float32) == 0)
        a, b = a[~zeros], b[~zeros]  # of two zeros either
    x, y = operands(len(a), kind, kind)
    check_bits(op(x, y), [a, b])


@pytest.mark.parametrize("op", [ops.ADD, ops.MUL, ops.FDIV, ops.SUB])
@pytest.mark.parametrize("kind", [dtypes.f16, dtypes.bf16])
def test_pairs_of_16_bits(kind: DType, op: Op) -> None:
    chance = np.random.default_rng(7)
    a, b = (chance.integers(0, 1 << 16, 20_000).astype(np.uint16).view(kind.numpy) for _ in "ab")
    x, y = operands(len(a), kind, kind)
    check_bits(op(x, y), [a, b])


@pytest.mark.parametrize("op", [ops.NEG, ops.SQRT, ops.FLOOR, ops.CEIL, ops.ROUND, ops.TRUNC])
@pytest.mark.parametrize("kind", SMALL)
def test_every_value_of_one_operand(kind: DType, op: Op) -> None:
    every = codes(kind).view(kind.numpy)
    (x,) = operands(len(every), kind)
    check_bits(op(x), [every])


@pytest.mark.parametrize("kind", SMALL)
def test_multiply_add_rounds_once(kind: DType) -> None:
    chance = np.random.default_rng(8)
    every = codes(kind).view(kind.numpy)
    arrays = [every[chance.integers(0, len(every), 20_000)] for _ in "abc"]
    x, y, z = operands(20_000, kind, kind, kind)
    check_bits(ops.MULACC(x, y, z), arrays)


INTEGERS: dict[DType, list[int]] = {
    i8: list(range(-128, 128)),
    i32: [s * ((1 << k) + d) for k in range(31) for d in (-1, 0, 1) for s in (1, -1)],
    i64: [s * ((1 << k) + d) for k in range(63) for d in (-1, 0, 1) for s in (1, -1)],
    u64: [(1 << k) + d for k in range(64) for d in (-1, 0, 1)],
}


@pytest.mark.parametrize("kind", SMALL)
def test_integers_are_rounded_once(kind: DType) -> None:
    for source, numbers in INTEGERS.items():
        # next to what lies half way between two values, where rounding twice is wrong
        some = between(kind)[:: 97 if kind.bits == 16 else 1]
        middle = [int(v) for v in some if abs(float(v)) < 2**62]
        if source.bits >= 32:
            top = [(m << 30) + d for m in middle if abs(m) < 1 << 20 for d in (-1, 0, 1)]
            numbers = numbers + [m + d for m in middle + top for d in (-1, 0, 1)]
        inside = [n for n in numbers if source.min <= n <= source.max]
        data = np.array(inside, source.numpy)
        (x,) = operands(len(data), source)
        check_bits(x.cast(kind), [data])


@pytest.mark.parametrize("kind", SMALL)
def test_f64_is_rounded_once(kind: DType) -> None:
    with np.errstate(all="ignore"):
        near = between(kind)[:: 7 if kind.bits == 16 else 1].astype(np.float64)
        data = np.concatenate([near, near * (1 + 2.0**-50), near * (1 - 2.0**-50), near * 1e300])
    (x,) = operands(len(data), f64)
    check_bits(x.cast(kind), [data])


@pytest.mark.parametrize("kind", SMALL)
def test_conversions_to_other_types(kind: DType) -> None:
    every = codes(kind).view(kind.numpy)
    (x,) = operands(len(every), kind)
    others: tuple[DType, ...] = (f64, i8, u8, i32, i64, dtypes.boolean, *SMALL)
    for other in others:
        if other is not kind:
            check_bits(x.cast(other), [every])


def test_bitcasts_keep_the_bits() -> None:
    every = codes(dtypes.bf16)
    (x,) = operands(len(every), u16)
    number = x.bitcast(dtypes.bf16)
    after = decompose(number.bitcast(u16), PLAIN)
    assert after is x
    check_bits(number + number, [every])


def kernel(kind: DType, lanes: int) -> UOp:
    """Return the kernel out[i] = where(a[i] < 0, a[i] * 1.5, b[i]), in vectors of so many lanes."""
    out, a, b = (UOp(ops.PARAM, kind.pointer(size=64), (), k) for k in range(3))
    i = UOp.range(UOp.const(i32, 64 // lanes), 0)

    def loaded(memory: UOp) -> UOp:
        pointer = ops.INDEX(memory, i * lanes, dtype=memory.dtype)
        return ops.LOAD(pointer, dtype=kind.vec(lanes))

    x, y = loaded(a), loaded(b)
    value = (x < 0.0).where(x * 1.5, y)
    target = ops.INDEX(out, i * lanes, dtype=out.dtype)
    return ops.SINK(ops.STORE(target, value).end(i))


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("kind", SMALL)
def test_memory_keeps_the_bits(kind: DType, lanes: int) -> None:
    numbers = np.linspace(-3, 3, 64).astype(kind.numpy)
    others = np.linspace(9, 10, 64).astype(kind.numpy)
    before: list[Any] = [np.zeros_like(numbers), numbers, others]
    after = [a.view(LAYOUTS[kind].bits.numpy).copy() for a in before]
    root = kernel(kind, lanes)
    lowered = decompose(root, PLAIN)
    run_kernel(root, before)
    run_kernel(lowered, after)
    assert (before[0].view(after[0].dtype) == after[0]).all()


def test_elements_without_explicit_loads() -> None:
    """A kernel before `linearize`: out[i] = max(a[4*i], …, a[4*i + 3]), where i < 6."""
    kind = dtypes.bf16
    out, a = (UOp(ops.PARAM, kind.pointer(size=n), (), k) for k, n in ((0, 8), (1, 32)))
    i, j = (UOp.range(UOp.const(i32, n), axis) for axis, n in ((0, 8), (1, 4)))
    largest = a.index(i * 4 + j).reduce(ops.MAX, j)
    value = (i < 6).where(largest, UOp.const(kind, 2.0))
    root = ops.SINK(out.index(i).store(value).end(i))
    numbers = np.random.default_rng(9).normal(0, 1, 32).astype(kind.numpy)
    before: list[Any] = [np.zeros(8, kind.numpy), numbers]
    after = [v.view(np.uint16).copy() for v in before]
    run_kernel(root, before)
    run_kernel(decompose(root, PLAIN), after)
    assert (before[0].view(np.uint16) == after[0]).all()


def test_types_that_the_target_has_stay() -> None:
    (x,) = operands(4, dtypes.bf16)
    assert decompose(x + x, Machine(target=H200)) is x + x
    assert GENERIC_CPU.dtypes.isdisjoint(kind.name for kind in SMALL)


def test_what_cannot_be_emulated_is_refused() -> None:
    (x,) = operands(4, dtypes.bf16)
    product = ops.WMMA(x, x, x, arg=("one", (1, 1, 1), (1, 1, 1)))
    with pytest.raises(PorismError, match="WMMA of bf16 cannot be emulated"):
        decompose(product, PLAIN)
