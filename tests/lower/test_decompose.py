"""Decomposition as a whole: every procedure fires, levels hold, and decomposing is idempotent."""

from __future__ import annotations

import numpy as np
import pytest

from porism.base import dtypes
from porism.base.dtypes import DType, Theory, f32, f64, i32, u64
from porism.base.target import GENERIC_CPU
from porism.evaluate import run_kernel
from porism.evaluate.reference_target import REFERENCE
from porism.ir import levels, ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.lower.decompose.decompose import DECOMPOSITIONS, decompose
from porism.lower.decompose.decomposition_options import Machine
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import Procedure, RuleSet
from tests.lower.arrays import MACHINES, PLAIN, Array, operands, values

PROCEDURES = {item.name: item for item in DECOMPOSITIONS if isinstance(item, Procedure)}
SHIFTING = Machine(target=GENERIC_CPU, shifts_for_products=True)
WORDS = np.array([-(1 << 31), -100, -7, -1, 0, 1, 2, 31, 100, (1 << 31) - 1], np.int32)
NUMBERS = np.array([-1e30, -2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.5, 7.0, 1e30], np.float32)

X, Y = operands(len(WORDS), i32, i32)
F, G = operands(len(WORDS), f32, f32)
EXAMPLES: dict[str, list[UOp]] = {
    "divide-by-power": [X // 8, X % 8, ops.CDIV(X, X.lift(8)), ops.CMOD(X, X.lift(8))],
    "divide-by-constant": [X // 10, X % 10, (X & 255) // 3],
    "truncate-by-constant": [ops.CDIV(X, X.lift(10)), ops.CMOD(X, X.lift(10))],
    "floor-by-truncation": [X // Y, X % Y, (X & 15) // (Y & 15)],
    "divide-safely": [ops.CDIV(X, Y), ops.CMOD(X, Y), ops.CDIV(X, Y & 7)],
    "power-of-words": [ops.POW(X, Y), ops.POW(X, Y & 3)],
    "shift-inside": [X << Y, X >> Y],
    "multiply-by-power": [X * 8],
    "threefry-rounds": [ops.THREEFRY(X.cast(u64), Y.cast(u64))],
    "exp-polynomial": [ops.EXP(F)],
    "exp2-polynomial": [ops.EXP2(F)],
    "expm1-polynomial": [ops.EXPM1(F)],
    "tanh-polynomial": [ops.TANH(F)],
    "log2-polynomial": [ops.LOG2(F)],
    "sin-polynomial": [ops.SIN(F)],
    "pow-exp2-log2": [ops.POW(F, G)],
    "round-by-sum": [op(F) for op in (ops.ROUND, ops.FLOOR, ops.CEIL, ops.TRUNC)],
    "mulacc-exactly": [ops.MULACC(F, G, F)],
    "quotient-by-power": [F / 8.0],
    "cast-inside": [F.cast(i32)],
    "widen-arithmetic": [F.cast(dtypes.bf16) * G.cast(dtypes.bf16)],
    "widen-cast": [X.cast(dtypes.f16)],
    "widen-reduce": [F.cast(dtypes.bf16).reduce(op, *F.ranges) for op in (ops.MAX, ops.ADD)],
}


def test_every_procedure_has_examples() -> None:
    assert set(EXAMPLES) == set(PROCEDURES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_procedures_alone(name: str) -> None:
    alone = RuleSet("alone", theory=tuple(Theory), rules=(PROCEDURES[name],))
    for before in EXAMPLES[name]:
        after = rewrite(before, alone, SHIFTING)
        assert after is not before
        arrays: list[Array]
        if {n.dtype for n in before.src} & {f32, dtypes.bf16}:
            arrays = [NUMBERS, NUMBERS[::-1].copy()]
        else:
            arrays = [WORDS, WORDS[::-1].copy()]
        old, new = values(before, arrays), values(after, arrays)
        if before.dtype.is_float:
            old, new = old.astype(np.float64), new.astype(np.float64)
            np.testing.assert_allclose(new, old, rtol=2e-7, atol=1e-45)
        else:
            assert (old == new).all()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_decomposition_is_idempotent(name: str, machine: str) -> None:
    for before in EXAMPLES[name]:
        once = decompose(before, MACHINES[machine])
        assert decompose(once, MACHINES[machine]) is once


def test_a_machine_with_every_op_needs_no_decomposition() -> None:
    everything = Machine(
        target=REFERENCE, total_division=True, total_shifts=True, saturating_casts=True
    )
    for name in ("exp2-polynomial", "pow-exp2-log2", "round-by-sum", "power-of-words",
                 "floor-by-truncation", "threefry-rounds", "widen-arithmetic"):  # fmt: skip
        for graph in EXAMPLES[name]:
            assert decompose(graph, everything) is graph


def kernel(op: Op, kind: DType, lanes: int) -> UOp:
    """Return the kernel out[i] = op(a[i]) for 32 elements, in vectors of so many lanes."""
    out, a = (UOp(ops.PARAM, kind.pointer(size=32), (), k) for k in range(2))
    i = UOp.range(UOp.const(i32, 32 // lanes), 0)
    loaded = ops.LOAD(ops.INDEX(a, i * lanes, dtype=a.dtype), dtype=kind.vec(lanes))
    target = ops.INDEX(out, i * lanes, dtype=out.dtype)
    return ops.SINK(ops.STORE(target, op(loaded)).end(i))


@pytest.mark.parametrize("kind", [f32, f64, dtypes.f16])
@pytest.mark.parametrize("op", [ops.EXP, ops.EXP2, ops.EXPM1, ops.TANH, ops.SIN])
def test_kernels_stay_in_the_target_level(op: Op, kind: DType) -> None:
    data = np.linspace(-3, 3, 32).astype(kind.numpy)
    expected = np.zeros_like(data)
    run_kernel(kernel(op, kind, 1), [expected, data])
    for lanes in (1, 8):
        before = kernel(op, kind, lanes)
        levels.check(before, levels.TARGET)
        after = decompose(before, PLAIN)
        levels.check(after, levels.TARGET, "decompose")
        bits = f"uint{kind.bits}" if kind is dtypes.f16 else kind.numpy
        actual = np.zeros_like(data)
        run_kernel(after, [actual.view(bits), data.view(bits)])
        wide = actual.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(*wide, rtol=2e-3 if kind is dtypes.f16 else 3e-7)
