"""Every stage keeps the meaning of a graph: random tensor programs, evaluated after each stage."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.base.dtypes import DType, Kind
from porism.engine.reference import run
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.levels import GRAPH, RANGED, Level
from porism.ir.node import UOp
from porism.ir.semantics import Array
from porism.ir.shape import shape
from porism.ir.walk import toposort
from porism.pipeline import to_schedule, watched
from tests.tensors import tensor_graphs


def arrays_for(root: UOp, seed: int) -> dict[int, Array]:
    """Some data for every PARAM of a graph: small integers, so that sums are exact."""
    generator = np.random.default_rng(seed)
    found = {}
    for node in toposort(root):
        if node.op is ops.PARAM:
            dims = [int(d.arg) for d in shape(node)]
            found[node.arg] = _numbers(generator, node.dtype, dims)
    return found


def _numbers(generator: np.random.Generator, dtype: DType, dims: list[int]) -> Array:
    if dtype.kind is Kind.BOOL:
        return generator.integers(0, 2, dims).astype(np.bool_)
    low = 0 if dtype.numpy.kind == "u" else -4
    return generator.integers(low, 5, dims).astype(dtype.numpy)


def same(name: str, expected: Array, found: Array) -> None:
    """Equal, where rounding in another order is allowed for floats."""
    assert found.dtype == expected.dtype, name
    if expected.dtype.kind in "fV":
        a, b = expected.astype(np.float64), found.astype(np.float64)
        np.testing.assert_allclose(b, a, rtol=1e-2, atol=1e-3, err_msg=name)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)


def check_stages(root: UOp, data: Mapping[int, Array]) -> None:
    """Evaluate a graph after every stage on whole graphs, and its schedule."""
    sink = ops.SINK(root)
    with np.errstate(all="ignore"):
        expected = evaluate(sink, data)[0]

        def see(name: str, level: Level, graph: UOp) -> None:
            if level in (GRAPH, RANGED):
                same(name, expected, evaluate(graph, data)[0].reshape(expected.shape))

        with watched(see):
            schedule = to_schedule(sink)
        inputs = [np.ascontiguousarray(data.get(k, np.zeros(0))).reshape(-1) for k in _upto(data)]
        found = run(schedule, inputs, {})[0].reshape(expected.shape)
        same("kernels", expected, found)


def _upto(data: Mapping[int, Array]) -> range:
    return range(max(data, default=-1) + 1)


@settings(max_examples=300, deadline=None)
@given(tensor_graphs(), st.integers(0, 1000))
def test_random_programs_keep_their_value(root: UOp, seed: int) -> None:
    check_stages(root, arrays_for(root, seed))


@settings(max_examples=100, deadline=None)
@given(tensor_graphs(empty=True), st.integers(0, 1000))
def test_empty_tensors_keep_their_value(root: UOp, seed: int) -> None:
    check_stages(root, arrays_for(root, seed))
