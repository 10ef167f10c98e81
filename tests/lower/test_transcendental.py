"""Transcendental functions by polynomials: errors in ulps, and special values."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from benchmarks import accuracy
from benchmarks.quick_arrays import computed, fused
from porism.base import dtypes
from porism.base.dtypes import DType, f32, f64
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.lower.decompose import coefficients
from porism.lower.decompose.decompose import decompose
from tests.lower.arrays import MACHINES, Array, missing, operands, safe, same, values
from tools.coefficients import FITS, minimax, rounded

FUNCTIONS = [op for op in ops.table() if op.approximate and op.arity == 1]
BOUNDS = {
    (ops.EXP, "fused"): 1.9,
    (ops.EXP, "scaling"): 1.1,
    (ops.EXP, "plain"): 2.0,
    (ops.EXPM1, "fused"): 2.3,
    (ops.EXPM1, "scaling"): 2.3,
    (ops.EXPM1, "plain"): 2.4,
    (ops.TANH, "fused"): 2.8,
    (ops.TANH, "scaling"): 2.8,
    (ops.TANH, "plain"): 3.2,
    (ops.EXP2, "scaling"): 1.0,
    (ops.LOG2, "scaling"): 1.0,
    (ops.SIN, "scaling"): 1.2,
    (ops.POW, "scaling"): 1.1,
    (ops.EXP2, "fused"): 1.0,
    (ops.EXP2, "plain"): 1.3,
    (ops.LOG2, "fused"): 1.0,
    (ops.LOG2, "plain"): 1.1,
    (ops.SIN, "fused"): 1.2,
    (ops.SIN, "plain"): 1.5,
    (ops.POW, "fused"): 1.1,
    (ops.POW, "plain"): 1.4,
}
"""Errors in ulps: those that docs/accuracy.md has measured on more numbers, with a margin."""

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -3.0, -2.0, 1e-40, -1e-40, 1e30, -1e30, 2.5, -2.5,
           math.inf, -math.inf, math.nan, 1e-310, 1e300, 9007199254740993.0)  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", [f32, f64])
@pytest.mark.parametrize("op", accuracy.FUNCTIONS)
def test_errors_in_ulp(op: Op, kind: DType, machine: str) -> None:
    row = accuracy.measure(op, kind, machine, accuracy.samples(op, kind, 40_000))
    assert row.wrong == 0
    assert row.worst <= BOUNDS[op, machine], row.at


@pytest.mark.parametrize("kind", [dtypes.f16, dtypes.bf16])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_every_value_of_16_bits(op: Op, kind: DType) -> None:
    row = accuracy.measure(op, kind, "fused", [accuracy.every(kind)])
    assert row.wrong == 0
    assert row.worst <= 0.51


def special(kind: DType) -> Array:
    with np.errstate(all="ignore"):
        return np.array(SPECIAL).astype(kind.numpy)


def near(actual: Array, exact: Array) -> bool:
    """Return whether results are equal where zero, infinite or NaN, and close elsewhere."""
    plain = np.isfinite(exact) & (exact != 0)
    with np.errstate(all="ignore"):
        close = np.isclose(actual, exact, rtol=1e-6, atol=3e-45)
    return bool(np.where(plain, close, same(exact, actual)).all())


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", [f32, f64])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_special_values(op: Op, kind: DType, machine: str) -> None:
    data = special(kind)
    (x,) = operands(len(data), kind)
    after = decompose(op(x), MACHINES[machine])
    assert not missing(after, MACHINES[machine].target)
    assert near(values(after, [data]), values(op(x), [data]))
    safe(after, [data])


@pytest.mark.parametrize("machine", ["plain", "fused"])
@pytest.mark.parametrize("kind", [f32, f64])
def test_exp2_of_a_magnitude_is_shorter(kind: DType, machine: str) -> None:
    data = special(kind)
    (x,) = operands(len(data), kind)
    size = (x <= 0).where(x.lift(0.0) - x, x)
    before = ops.EXP2(size * 2.5)
    after = decompose(before, MACHINES[machine])
    assert near(values(after, [data]), values(before, [data]))
    safe(after, [data])
    count = len(toposort(after))
    for other in (size * -2.5, (x <= 1).where(x.lift(0.0) - x, x) * 2.5):
        longer = decompose(ops.EXP2(other), MACHINES[machine])
        assert near(values(longer, [data]), values(ops.EXP2(other), [data]))
        assert len(toposort(longer)) > count + 4


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", [f32, f64])
def test_special_powers(kind: DType, machine: str) -> None:
    a, b = (g.reshape(-1) for g in np.meshgrid(special(kind), special(kind)))
    x, y = operands(len(a), kind, kind)
    after = decompose(ops.POW(x, y), MACHINES[machine])
    assert not missing(after, MACHINES[machine].target)
    assert near(values(after, [a, b]), values(ops.POW(x, y), [a, b]))


def test_powers_of_two_are_exact() -> None:
    for kind, low, high in ((f32, -149, 127), (f64, -1074, 1023)):
        exponents = np.arange(low, high + 1).astype(kind.numpy)
        x = UOp(ops.PARAM, kind, (), 0)
        for machine in MACHINES.values():
            powers = computed(decompose(ops.EXP2(x), machine), {x: exponents})
            assert (powers == np.ldexp(np.ones_like(powers), np.arange(low, high + 1))).all()
            assert (computed(decompose(ops.LOG2(x), machine), {x: powers}) == exponents).all()


def test_whole_powers_of_small_integers_are_exact() -> None:
    pairs = [(b, e) for b in range(2, 30) for e in range(1, 12) if b**e < 1 << 24]
    bases, exponents = (np.array(v, np.float32) for v in zip(*pairs, strict=True))
    x, y = (UOp(ops.PARAM, f32, (), k) for k in range(2))
    for machine in MACHINES.values():
        actual = computed(decompose(ops.POW(x, y), machine), {x: bases, y: exponents})
        exact = np.array([b**e for b, e in pairs], np.float64)
        assert (np.abs(actual - exact) <= np.spacing(exact.astype(np.float32))).all()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", [f32, f64])
def test_sines_of_hard_numbers(kind: DType, machine: str) -> None:
    largest = float(np.finfo(kind.numpy).max)
    edge = {f32: 2.0**13, f64: 2.0**20}[kind]
    data = np.array([*accuracy.hard(kind), largest, edge, 1e22]).astype(kind.numpy)
    assert len(data) > 200
    data = np.concatenate([data, -data, np.nextafter(data, kind.numpy.type(0))])
    row = accuracy.measure(ops.SIN, kind, machine, [data])
    assert row.wrong == 0
    assert row.worst <= BOUNDS[ops.SIN, machine], row.at


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("op", accuracy.FUNCTIONS)
def test_vectors_give_the_same_as_scalars(op: Op, machine: str) -> None:
    arrays = [a[:64] for a in accuracy.samples(op, f32, 64)]
    alone = operands(64, *[f32] * op.arity)
    together = operands(64, *[f32] * op.arity, lanes=8)
    one, many = (decompose(op(*s), MACHINES[machine]) for s in (alone, together))
    assert same(values(one, arrays), values(many, arrays)).all()


# -- what the tests rest on ------------------------------------------------------------------------


def test_quick_arrays_agree_with_the_evaluator() -> None:
    for op, kind in itertools.product(accuracy.FUNCTIONS, (f32, f64)):
        arrays = [a[::40] for a in accuracy.samples(op, kind, 1600)]
        for machine in MACHINES.values():
            after = decompose(op(*operands(len(arrays[0]), *[kind] * op.arity)), machine)
            places = [UOp(ops.PARAM, kind, (), k) for k in range(op.arity)]
            quick = decompose(op(*places), machine)
            actual = computed(quick, dict(zip(places, arrays, strict=True)))
            assert same(values(after, arrays), actual).all()


def test_quick_multiply_add_rounds_once() -> None:
    chance = np.random.default_rng(6)
    a, b = chance.normal(0, 1, (2, 3000))
    c = -a * b * (1 + chance.integers(-3, 4, 3000) * 2.0 ** -chance.integers(0, 70, 3000))
    assert (fused(a, b, c) == semantics.mulacc(f64, a, b, c)).all()


@pytest.mark.parametrize(("name", "kind"), [("EXP2", "f32"), ("COS", "f64"), ("LOG2", "f32")])
def test_coefficients_are_those_of_the_script(name: str, kind: str) -> None:
    _, function, low, high, degrees, weight = FITS[name]
    actual, _ = minimax(function, low, high, degrees[kind], weight)
    stored: dict[str, Any] = getattr(coefficients, name)
    assert tuple(rounded(c, 24 if kind == "f32" else 53) for c in actual) == stored[kind]
