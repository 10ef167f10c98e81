"""Rewriting preserves what the evaluator computes, and gives the same result in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.evaluate import evaluate
from porism.ir.node import UOp
from porism.ir.text.serialization import to_text
from porism.rewrite.graph_rewrite import normalize
from porism.rewrite.rewrite_trace import Trace
from porism.rules.rule_sets import ALGEBRA
from tests.graphs import bool_expressions, examples, expressions, leaves, values
from tests.patience import PATIENCE

NAMES = {item.name for item in ALGEBRA} | {"commute"}


def same(a: Any, b: Any) -> bool:
    """Bit by bit, but for NaNs."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return False
    if a.dtype.kind in "biuO":
        return bool(np.array_equal(a, b))
    wide, other = a.astype(np.float64), b.astype(np.float64)
    equal = (wide == other) & (np.signbit(wide) == np.signbit(other))
    return bool(np.all(equal | (np.isnan(wide) & np.isnan(other))))


def check(graph: UOp, data: st.DataObject) -> None:
    """A graph and its normal form have the same value, whatever the leaves are."""
    after = normalize(graph)
    assert after.dtype is graph.dtype
    assert normalize(after) is after
    for _ in range(3):
        inputs: dict[Any, Any] = {leaf: data.draw(values(leaf)) for leaf in leaves(graph)}
        (wanted,) = evaluate(graph, inputs)
        (found,) = evaluate(after, inputs)
        assert same(wanted, found), f"{wanted} became {found}\n{to_text(graph)}\n{to_text(after)}"
        if graph.dtype.is_integer:
            assert after.vmin <= found.min()
            assert found.max() <= after.vmax


@given(expressions(dtypes.index, truncating=True), st.data())
@examples(150)
def test_index_expressions(graph: UOp, data: st.DataObject) -> None:
    check(graph, data)


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.u8, dtypes.i32, dtypes.u64], ids=str)
def test_fixed_width_expressions(dtype: DType) -> None:
    @given(expressions(dtype, truncating=True), st.data())
    @examples(60)
    def run(graph: UOp, data: st.DataObject) -> None:
        check(graph, data)

    run()


@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.i8, dtypes.boolean, dtypes.f32], ids=str)
def test_conditions(dtype: DType) -> None:
    @given(bool_expressions(of=dtype), st.data())
    @examples(60)
    def run(graph: UOp, data: st.DataObject) -> None:
        check(graph, data)

    run()


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.f32, dtypes.f64, dtypes.bf16], ids=str)
def test_float_expressions(dtype: DType) -> None:
    @given(expressions(dtype), st.data())
    @examples(60)
    def run(graph: UOp, data: st.DataObject) -> None:
        check(graph, data)

    run()


@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.i8, dtypes.f32], ids=str)
def test_vectors(dtype: DType) -> None:
    @given(expressions(dtype.vec(3)), st.data())
    @examples(40)
    def run(graph: UOp, data: st.DataObject) -> None:
        check(graph, data)

    run()


@given(st.sampled_from([dtypes.index, dtypes.i8, dtypes.boolean]).flatmap(expressions))
@examples(100)
def test_a_trace_accounts_for_every_change(graph: UOp) -> None:
    """With a trace the result is the same, and each step is the work of a rule."""
    trace = Trace()
    after = normalize(graph, trace)
    assert after is normalize(graph)
    assert after is graph or trace.steps
    assert set(trace.counts()) <= NAMES
    for step in trace.steps:
        assert step.before is not step.after
        assert step.before.dtype is step.after.dtype


@given(expressions(dtypes.index, truncating=True), st.data())
@examples(50)
def test_every_step_preserves_the_value(graph: UOp, data: st.DataObject) -> None:
    trace = Trace()
    normalize(graph, trace)
    inputs: dict[Any, Any] = {leaf: data.draw(values(leaf)) for leaf in leaves(graph)}
    for step in trace.steps:
        needed = {leaf: inputs[leaf] for leaf in leaves(step.before)}
        (wanted,) = evaluate(step.before, needed)
        (found,) = evaluate(step.after, needed)
        assert same(wanted, found), str(step)


PROGRAM = """
from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.serialization import to_text
from porism.rewrite.graph_rewrite import normalize
from porism.rules.rule_sets import ALGEBRA

names = [f"name{n}" for n in range(12)]
terms = [UOp.variable(name, 0, 7) for name in names]
found = list(terms)
for n in range(300):
    a, b = found[(n * 7 + 3) % len(found)], found[(n * 5 + 1) % len(found)]
    op = (ops.ADD, ops.MUL, ops.MAX, ops.MIN, ops.AND)[n % 5]
    node = op(a, b) if n % 3 else op(b, a)
    if abs(node.vmin) + abs(node.vmax) < 1 << 60:
        found.append((node + n % 4) // (n % 6 + 1) if n % 2 else node)
total = found[-1]
for node in found[-40:-1]:
    total = total + node
print(to_text(total))
print(total.key.hex(), len(ALGEBRA))
"""


def test_two_processes_make_the_same_graph() -> None:
    texts = []
    for seed in ("0", "1", "12345"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        texts.append(done.stdout)
    assert len(texts[0].splitlines()) > 100
    assert texts[0] == texts[1] == texts[2]
