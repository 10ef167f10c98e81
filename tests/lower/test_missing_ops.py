"""Missing ops: the rules are proved, the procedures are tested on values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.base import dtypes
from porism.base.dtypes import DType, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from porism.base.target import GENERIC_CPU, Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.lower.decompose.decompose import DECOMPOSITIONS, decompose
from porism.lower.decompose.decomposition_options import Machine
from porism.prove.procedure_trials import difference
from porism.prove.rule_proof import prove
from porism.rewrite.rule import Rule
from tests import graphs
from tests.lower.arrays import FUSED, PLAIN, Array, check, missing, operands, values

RULES = {item.name: item for item in DECOMPOSITIONS if isinstance(item, Rule)}
EDGES = (0.0, -0.0, 0.5, 1.5, 2.5, 0.49999997, 0.7, 1.0, 3.0, 1e-40, 8388607.5, 8388608.0, 1e10,
         4503599627370495.5, 4503599627370496.0, 1e30, math.inf, math.nan)  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_every_rule_is_proved(name: str) -> None:
    proof = prove(RULES[name])
    assert proof.ok, proof.explain()


def floats(kind: DType, count: int = 4000) -> Array:
    """Return special values, numbers of ordinary size and random bits."""
    chance = np.random.default_rng(1)
    bits = chance.integers(0, 1 << kind.bits, count, dtype=np.uint64)
    random = bits.astype(f"uint{kind.bits}").view(kind.numpy)
    with np.errstate(all="ignore"):
        ordinary = chance.normal(0, 100, count).astype(kind.numpy)
        edges = np.array([s * e for e in EDGES for s in (1, -1)]).astype(kind.numpy)
    return np.concatenate([edges, ordinary, random])


@pytest.mark.parametrize("op", [ops.ROUND, ops.FLOOR, ops.CEIL, ops.TRUNC, ops.RECIPROCAL])
@pytest.mark.parametrize("kind", [f32, f64])
def test_rounding(op: Op, kind: DType) -> None:
    data = floats(kind)
    (x,) = operands(len(data), kind)
    check(op(x), [data])


@pytest.mark.parametrize("op", [ops.MAX, ops.MIN])
@pytest.mark.parametrize("kind", [f32, f64])
def test_max_and_min_propagate_nan(op: Op, kind: DType) -> None:
    some = floats(kind, 60)
    a, b = (g.reshape(-1) for g in np.meshgrid(some, some))
    kept = ~((a == 0) & (b == 0))  # of two zeros either
    x, y = operands(int(kept.sum()), kind, kind)
    check(op(x, y), [a[kept], b[kept]])


@pytest.mark.parametrize("target", [i8, u8, i16, u16, i32, u32, i64, u64])
@pytest.mark.parametrize("kind", [f32, f64])
def test_conversions_saturate(kind: DType, target: DType) -> None:
    limits = np.array([float(target.min), float(target.max), float(target.max) + 1], kind.numpy)
    ends = [np.nextafter(limits, kind.numpy.type(way)) for way in (-np.inf, np.inf)]
    data = np.concatenate([limits, -limits, *ends, limits + limits, floats(kind)])
    (x,) = operands(len(data), kind)
    check(x.cast(target), [data])
    once = decompose(x.cast(target), PLAIN)
    assert decompose(once, PLAIN) is once
    saturating = Machine(target=GENERIC_CPU, saturating_casts=True)
    assert decompose(x.cast(target), saturating) is x.cast(target)


@pytest.mark.parametrize("kind", [f32, f64])
def test_multiply_add_rounds_once(kind: DType) -> None:
    chance = np.random.default_rng(2)
    count = 3000
    a, b = (chance.normal(0, 10, count).astype(kind.numpy) for _ in "ab")
    c = (
        -a * b * (1 + chance.integers(-2, 3, count) * 2.0 ** -chance.integers(0, 60, count))
    ).astype(kind.numpy)
    if kind is f32:  # in f64 nothing on the way overflows or is lost
        some = floats(kind, 1000)
        a, b, c = (np.concatenate([v, chance.permutation(some)]) for v in (a, b, c))
    x, y, z = operands(len(a), kind, kind, kind)
    check(ops.MULACC(x, y, z), [a, b, c])


def test_multiply_add_of_f64_with_special_values() -> None:
    a = np.array([np.inf, 1e308, np.nan, 1e308, 0.0, -0.0])
    b = np.array([1.0, 1e308, 1.0, 10.0, np.inf, 1.0])
    c = np.array([1.0, -np.inf, 1.0, 1.0, 1.0, -0.0])
    x, y, z = operands(len(a), f64, f64, f64)
    check(ops.MULACC(x, y, z), [a, b, c])


def test_multiply_and_add_are_fused_where_allowed() -> None:
    x, y, z = operands(8, f32, f32, f32)
    fusing = Machine(target=FUSED.target, fuse=True)
    assert decompose(x * y + z, fusing) is ops.MULACC(x, y, z)
    assert decompose(z + x * y, fusing) is ops.MULACC(x, y, z)
    assert decompose(x * y - z, fusing) is ops.MULACC(x, y, -z)
    assert decompose(z - x * y, fusing) is ops.MULACC(-x, y, z)
    assert decompose(x * y + z, FUSED) is x * y + z
    assert decompose(x * y + z, Machine(target=GENERIC_CPU, fuse=True)) is x * y + z


def test_a_fused_formula_is_not_fused_again() -> None:
    (x,) = operands(8, f32)
    fusing = Machine(target=FUSED.target, fuse=True)
    for op in (op for op in ops.table() if op.approximate and op.arity == 1):
        assert decompose(op(x), fusing) is decompose(op(x), FUSED)


@pytest.mark.parametrize("kind", [f32, f64])
def test_quotients_by_powers_of_two_are_products(kind: DType) -> None:
    data = floats(kind)
    (x,) = operands(len(data), kind)
    smallest = 2.0 ** (-126 if kind is f32 else -1022)
    for divisor in (2.0, -4.0, 0.25, smallest, 1 / smallest):
        after = check(x / divisor, [data])
        assert ops.FDIV not in {n.op for n in toposort(after)}
    for divisor in (3.0, 0.0, math.inf, math.nan, smallest / 2):
        after = check(x / divisor, [data])
        assert after is x / divisor


HALVES = Machine(
    target=Target(
        name="halves", ops=GENERIC_CPU.ops, dtypes=GENERIC_CPU.dtypes | {"f16", "bf16", "fp8e4m3"}
    )
)
"""A machine with small floats, but few ops on them."""


@pytest.mark.parametrize("kind", [dtypes.f16, dtypes.bf16, dtypes.fp8e4m3])
def test_small_floats_that_a_machine_has(kind: DType) -> None:
    every = np.arange(1 << kind.bits).astype(f"uint{kind.bits}").view(kind.numpy)
    (x,) = operands(len(every), kind)
    for op in (ops.ROUND, ops.FLOOR, ops.CEIL, ops.TRUNC):
        check(op(x), [every], HALVES)
    for target in (i8, i32, u64):
        check(x.cast(target), [every], HALVES)
    chance = np.random.default_rng(3)
    arrays = [chance.permutation(every) for _ in "abc"]
    check(ops.MULACC(*operands(len(every), kind, kind, kind)), arrays, HALVES)


FEW = Target(
    name="few",
    ops=frozenset(("ADD", "MUL", "LT", "EQ", "AND", "OR", "XOR", "SHL", "SHR", "WHERE", "NEG")),
    dtypes=GENERIC_CPU.dtypes,
)


@pytest.mark.parametrize("kind", [i16, u16, f32])
def test_a_machine_with_few_ops(kind: DType) -> None:
    numbers = [-3, -1, 0, 1, 2, 7, 300, kind.max if kind.is_integer else math.nan]
    some = np.array([kind.canonical(n) for n in numbers], kind.numpy)
    a, b = (g.reshape(-1) for g in np.meshgrid(some, some))
    x, y = operands(len(a), kind, kind)
    machine = Machine(target=FEW)
    for op in (ops.GT, ops.GE, ops.LE, ops.NE, ops.SUB, ops.MAX):
        check(op(x, y), [a, b], machine)
    no_neg = Machine(
        target=Target(name="fewer", ops=FEW.ops - {"NEG"} | {"SUB"}, dtypes=FEW.dtypes)
    )
    check(-x, [a], no_neg)
    if kind.is_integer:
        check(~x, [a], machine)


@pytest.mark.parametrize("machine", [PLAIN, FUSED], ids=("plain", "fused"))
@graphs.examples(120)
@given(st.data())
def test_random_expressions(machine: Machine, data: st.DataObject) -> None:
    kinds = (dtypes.boolean, i8, u8, i32, u64, dtypes.bf16, f32)
    kind = data.draw(st.sampled_from(kinds))
    if kind is dtypes.bf16:
        machine = FUSED  # which has it; its bits are tested elsewhere
    lanes = data.draw(st.sampled_from((1, 1, 4)))
    root = data.draw(graphs.expressions(kind.vec(lanes)))
    if any(n.op in INEXACT and n.dtype.is_float for n in toposort(root)):
        return
    if any(n.dtype.kind is dtypes.Kind.INDEX for n in toposort(root)):
        return
    given = {leaf: data.draw(graphs.values(leaf)) for leaf in graphs.leaves(root)}
    after = decompose(root, machine)
    assert not missing(after, machine.target) - {"MULACC"}
    assert not difference(root, after, given), after


INEXACT = tuple(op for op in ops.table() if op.approximate)


def test_rounding_an_integer_is_the_identity() -> None:
    (x,) = operands(4, i32)
    for op in (ops.ROUND, ops.FLOOR, ops.CEIL, ops.TRUNC):
        assert decompose(UOp(op, None, (x,)), FUSED) is x
    assert decompose(UOp(ops.MULACC, None, (x, x, x)), FUSED) is x * x + x
    assert values(x, [np.arange(4, dtype=np.int32)]).tolist() == [0, 1, 2, 3]
