"""Every stage keeps the meaning of a graph: random tensor programs, evaluated after each stage."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.engine.run.reference_runner import run
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.facts.semantics import Array
from porism.ir.levels import GRAPH, RANGED, Level
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.pipeline import schedule_graph, watched
from tests.tensors import tensor_graphs
from tests.watching import numbers, same


def arrays_for(root: UOp, seed: int) -> dict[int, Array]:
    """Some data for every PARAM of a graph: small integers, so that sums are exact."""
    generator = np.random.default_rng(seed)
    actual = {}
    for node in toposort(root):
        if node.op is ops.PARAM:
            dims = [int(d.arg) for d in shape(node)]
            count = int(np.prod(dims))
            actual[node.arg] = numbers(generator, node.dtype, count).reshape(dims)
    return actual


def check_stages(root: UOp, data: Mapping[int, Array]) -> None:
    """Evaluate a graph after every stage on whole graphs, and its schedule."""
    sink = ops.SINK(root)
    with np.errstate(all="ignore"):
        expected = evaluate(sink, data)[0]

        def see(name: str, level: Level, graph: UOp) -> None:
            if level in (GRAPH, RANGED):
                same(name, expected, evaluate(graph, data)[0].reshape(expected.shape))

        with watched(see):
            schedule = schedule_graph(sink)
        inputs = [np.ascontiguousarray(data.get(k, np.zeros(0))).reshape(-1) for k in _upto(data)]
        actual = run(schedule, inputs, {})[0].reshape(expected.shape)
        same("kernels", expected, actual)


def _upto(data: Mapping[int, Array]) -> range:
    return range(max(data, default=-1) + 1)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(tensor_graphs(), st.integers(0, 1000))
def test_random_programs_keep_their_value(root: UOp, seed: int) -> None:
    check_stages(root, arrays_for(root, seed))


@settings(max_examples=100, deadline=None)
@given(tensor_graphs(empty=True), st.integers(0, 1000))
def test_empty_tensors_keep_their_value(root: UOp, seed: int) -> None:
    check_stages(root, arrays_for(root, seed))
