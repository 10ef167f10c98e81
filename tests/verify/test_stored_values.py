"""Values: elements of graphs, bounds for rounding, kernels that are run at some iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.dtypes import Space, boolean, f16, f32, i8, i32
from porism.base.settings import settings
from porism.base.target import GENERIC_CPU
from porism.engine.run.realize import request
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.pipeline import lower_kernel, schedule_graph
from porism.schedule.rangeify.rangeify import rangeify
from porism.verification.values import partial_runs, rounding_bounds, synthetic_inputs
from porism.verification.values.element_values import ElementEvaluator
from porism.verification.verification_report import Check, How


def integers(*dims: int, dtype: str = "float32") -> Any:
    count = int(np.prod(dims))
    return porism.asarray((np.arange(count) * 5 % 7 - 3).astype(dtype).reshape(dims))


GRAPHS: dict[str, Callable[[], Any]] = {
    "product": lambda: integers(5, 7) @ integers(7, 6),
    "convolution": lambda: porism.conv2d(
        integers(1, 3, 9, 9), integers(4, 3, 3, 3), padding=1, stride=2
    ),
    "softmax": lambda: porism.softmax(integers(6, 9)),
    "scan": lambda: porism.cumulative_sum(integers(4, 20), axis=1),
    "sort": lambda: porism.sort(integers(21)),
    "gather": lambda: integers(9, 3)[porism.asarray([1, 2, -1])],
    "joined": lambda: porism.concat([integers(3, 4), integers(2, 4)]).flip(0)[::2],
    "scatter": lambda: porism.scatter_add(
        integers(9, 4), 0, porism.asarray(np.arange(24).reshape(6, 4) % 9), integers(6, 4)
    ),
    "integers": lambda: (integers(7, 5, dtype="int32") // 3).prod(0),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_elements_agree_with_the_evaluator(name: str) -> None:
    """At any indices, in tensors and in ranges; bounds contain the evaluator's rounding."""
    graph = request([GRAPHS[name]().node]).graph
    params = {n for n in toposort(graph) if n.op is ops.PARAM}
    sizes = ElementEvaluator({}, {})
    data = {
        n: synthetic_inputs.numbers(n.dtype, int(np.prod(sizes.dims(n))), 0, str(n.arg))
        for n in params
    }
    with np.errstate(all="ignore"):
        (expected,) = evaluate(graph, {n.arg: array for n, array in data.items()})
    (root,) = graph.src
    dims = sizes.dims(root)
    addresses = np.random.default_rng(3).integers(0, expected.size, 20)
    for node in (root, rangeify(graph).sink.src[0]):
        own = sizes.dims(node)
        elements = ElementEvaluator(data, {}).value(node, tuple(np.unravel_index(addresses, own)))
        agrees = rounding_bounds.agree(
            root.dtype, elements.data, elements.bound, expected.reshape(-1)[addresses]
        )
        assert agrees.all()
    assert expected.shape == dims


def test_an_element_that_is_read_in_many_ways_is_computed_once() -> None:
    """A chain of values that each read two elements of the one before takes linear time."""
    size, length = 4, 30
    outer = UOp.range(2, 0)
    data = UOp(ops.PARAM, i32.pointer(size=size), (), 0)
    loop = UOp.range(size, 1)
    value = data.index(loop) + outer.cast(i32)
    for k in range(length):
        kept = UOp(ops.BUFFERIZE, i32, (value, loop), Space.LOCAL)
        loop = UOp.range(size, 2 + k)
        value = ops.MAX(kept.index(loop), kept.index((loop + 1) % size))
    elements = np.array([5, 9, 2, 7], np.int32)
    evaluator = ElementEvaluator({data: elements}, {})
    at = {outer: np.arange(2)[:, None], loop: np.arange(size)[None, :]}
    expected = np.broadcast_to(elements.max() + np.arange(2)[:, None], (2, size))
    np.testing.assert_array_equal(evaluator.value(value, (), at).data, expected)
    assert len(evaluator._cache) < 20 * length * size


def test_sums_of_integers_have_no_bound_and_others_a_small_one() -> None:
    ones = np.ones((1000, 3), np.float32)
    total, bound = rounding_bounds.reduce(ops.ADD, f32, ones, None)
    assert total.tolist() == [1000.0] * 3
    assert bound is None
    total, bound = rounding_bounds.reduce(ops.ADD, f32, ones * np.float32(0.1), None)
    assert bound is not None
    assert 0 < bound.max() < 1e-3  # a term is 0.1
    _, bound = rounding_bounds.reduce(ops.ADD, f16, np.full((5000, 1), 1, np.float16), None)
    assert bound is not None  # whole numbers, and too large for the type


def test_a_missing_term_exceeds_the_bound() -> None:
    x = np.full(4096, 0.3, np.float32)
    total, bound = rounding_bounds.reduce(ops.ADD, f32, x, None)
    less = np.asarray(np.float32(x[1:].sum()))
    assert not rounding_bounds.agree(f32, total, bound, less).any()
    assert rounding_bounds.agree(f32, total, bound, np.asarray(np.float32(x.sum()))).all()


def test_a_comparison_of_nearly_equal_floats_is_unknown() -> None:
    third = np.asarray([1 / 3], np.float32)
    bound = np.asarray([1e-6])
    result = third < third
    result_bound = rounding_bounds.of_op(
        ops.LT, f32, [third, third], [bound, None], result, boolean
    )
    assert result_bound is not None
    assert np.isinf(result_bound).all()


def test_synthetic_inputs_are_within_their_bounds() -> None:
    for round_number in range(synthetic_inputs.ROUNDS):
        assert set(synthetic_inputs.numbers(i8, 500, round_number, "a", 0, 3)) <= {0, 1, 2, 3}
        positive = synthetic_inputs.numbers(f32, 500, round_number, "b", 0.0)
        assert positive.min() >= 0
        assert (positive == np.trunc(positive)).all()
    assert synthetic_inputs.numbers(i8, 500, 2, "c").max() > 100


def independent_axes(tensor: Any) -> set[tuple[int, ...]]:
    (step,) = schedule_graph(request([tensor.node]).graph).steps
    lines = lower_kernel(step.kernel, GENERIC_CPU)
    scope = partial_runs._scopes_of_list(lines)
    return {r.arg[0] for r in partial_runs.independent_loops(lines, scope)}


def test_loop_carried_values_make_loops_dependent() -> None:
    """Loops over rows are independent; those of a scan, a sum and a scatter are not."""
    axes = independent_axes(integers(50, 70) @ integers(70, 90))
    assert axes
    assert not any(axis[0] == 2 for axis in axes)
    counted = porism.bincount(porism.asarray(np.arange(400) % 40), length=40)
    assert independent_axes(counted) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: porism.topk(integers(20), 3)[0],
        lambda: (integers(5, 2, dtype="int32") * porism.arange(2)).sum(1),
        lambda: porism.cumulative_sum(integers(7)).prod(),
        lambda: porism.scatter_add(integers(6, 2), 0, porism.asarray([[1, 5]] * 3), integers(3, 2)),
        lambda: porism.softmax(integers(4, 33).astype("float16")).min(1),
        lambda: porism.einsum("ij,kj->ik", integers(12, 7), integers(12, 7)),
        lambda: porism.bincount(integers(38, dtype="int64") % 5, length=5)[1:3].sum(),
        lambda: integers(1, dtype="int32").sum() - integers(1, 1),
        lambda: integers(0) > 0,
        lambda: integers(3, 2)[1:1],
    ],
)
def test_right_programs_raise_no_alarm(make: Callable[[], Any]) -> None:
    report = porism.verify(make(), level=3)
    seen = {row.check for row in report.rows}
    assert {Check.PLAN, Check.VALUES, Check.MACHINE} <= seen
    assert not any(
        row.how is How.OPEN for row in report.rows if row.check in (Check.VALUES, Check.MACHINE)
    )


@pytest.mark.slow
def test_a_large_kernel_is_compared_in_two_halves() -> None:
    report = porism.verify(
        porism.conv2d(integers(1, 64, 28, 28), integers(64, 64, 3, 3), padding=1), level=2
    )
    (row,) = [row for row in report.rows if row.check is Check.VALUES]
    assert row.how is How.SAMPLED
    assert "with shorter loops" in row.text


def test_levels() -> None:
    x = integers(3, 4) * 2
    with pytest.raises(ValueError, match="there is no level 4"):
        porism.verify(x, level=4)
    with settings.override(verify=3):
        np.testing.assert_array_equal((x + 1).numpy(), x.numpy() + 1)


def test_variables_are_tried_at_their_ends() -> None:
    n = UOp.variable("n", 2, 9)
    values = [
        synthetic_inputs.variables((n,), round_number)["n"]
        for round_number in range(synthetic_inputs.ROUNDS)
    ]
    assert values == [9, 2, 5]
