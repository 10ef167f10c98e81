"""Values: elements of graphs, bounds for rounding, kernels that are run at some iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.dtypes import boolean, f16, f32, i8
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


def whole(*dims: int, dtype: str = "float32") -> Any:
    count = int(np.prod(dims))
    return porism.asarray((np.arange(count) * 5 % 7 - 3).astype(dtype).reshape(dims))


GRAPHS: dict[str, Callable[[], Any]] = {
    "product": lambda: whole(5, 7) @ whole(7, 6),
    "convolution": lambda: porism.conv2d(
        whole(1, 3, 9, 9), whole(4, 3, 3, 3), padding=1, stride=2
    ),
    "softmax": lambda: porism.softmax(whole(6, 9)),
    "scan": lambda: porism.cumulative_sum(whole(4, 20), axis=1),
    "sort": lambda: porism.sort(whole(21)),
    "gather": lambda: whole(9, 3)[porism.asarray([1, 2, -1])],
    "joined": lambda: porism.concat([whole(3, 4), whole(2, 4)]).flip(0)[::2],
    "scatter": lambda: porism.scatter_add(
        whole(9, 4), 0, porism.asarray(np.arange(24).reshape(6, 4) % 9), whole(6, 4)
    ),
    "integers": lambda: (whole(7, 5, dtype="int32") // 3).prod(0),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_elements_are_those_of_the_evaluator(name: str) -> None:
    """At any places, in tensors and in ranges; bounds contain what the evaluator rounds to."""
    graph = request([GRAPHS[name]().node]).graph
    params = {n for n in toposort(graph) if n.op is ops.PARAM}
    sizes = ElementEvaluator({}, {})
    data = {
        n: synthetic_inputs.numbers(n.dtype, int(np.prod(sizes.dims(n))), 0, str(n.arg))
        for n in params
    }
    with np.errstate(all="ignore"):
        (wanted,) = evaluate(graph, {n.arg: array for n, array in data.items()})
    (root,) = graph.src
    dims = sizes.dims(root)
    some = np.random.default_rng(3).integers(0, wanted.size, 20)
    for node in (root, rangeify(graph).sink.src[0]):
        own = sizes.dims(node)
        found = ElementEvaluator(data, {}).value(node, tuple(np.unravel_index(some, own)))
        good = rounding_bounds.agree(root.dtype, found.data, found.bound, wanted.reshape(-1)[some])
        assert good.all()
    assert wanted.shape == dims


def test_whole_numbers_have_no_bound_and_others_a_small_one() -> None:
    ones = np.ones((1000, 3), np.float32)
    total, bound = rounding_bounds.reduce(ops.ADD, f32, ones, None)
    assert total.tolist() == [1000.0] * 3
    assert bound is None
    total, bound = rounding_bounds.reduce(ops.ADD, f32, ones * np.float32(0.1), None)
    assert bound is not None
    assert 0 < bound.max() < 1e-3  # a term is 0.1
    _, bound = rounding_bounds.reduce(ops.ADD, f16, np.full((5000, 1), 1, np.float16), None)
    assert bound is not None  # whole numbers, and too large for the type


def test_a_term_that_is_left_out_is_not_in_the_bound() -> None:
    x = np.full(4096, 0.3, np.float32)
    total, bound = rounding_bounds.reduce(ops.ADD, f32, x, None)
    less = np.asarray(np.float32(x[1:].sum()))
    assert not rounding_bounds.agree(f32, total, bound, less).any()
    assert rounding_bounds.agree(f32, total, bound, np.asarray(np.float32(x.sum()))).all()


def test_a_choice_between_numbers_that_may_be_equal_is_not_known() -> None:
    third = np.asarray([1 / 3], np.float32)
    bound = np.asarray([1e-6])
    result = third < third
    found = rounding_bounds.of_op(ops.LT, f32, [third, third], [bound, None], result, boolean)
    assert found is not None
    assert np.isinf(found).all()


def test_invented_numbers_keep_to_what_is_known_of_them() -> None:
    for round_number in range(synthetic_inputs.ROUNDS):
        assert set(synthetic_inputs.numbers(i8, 500, round_number, "a", 0, 3)) <= {0, 1, 2, 3}
        positive = synthetic_inputs.numbers(f32, 500, round_number, "b", 0.0)
        assert positive.min() >= 0
        assert (positive == np.trunc(positive)).all()
    assert synthetic_inputs.numbers(i8, 500, 2, "c").max() > 100


def independent_of(tensor: Any) -> set[tuple[int, ...]]:
    (step,) = schedule_graph(request([tensor.node]).graph).steps
    lines = lower_kernel(step.kernel, GENERIC_CPU)
    scope = partial_runs._scopes_of_list(lines)
    return {r.arg[0] for r in partial_runs.independent_loops(lines, scope)}


def test_loops_that_carry_something_are_done_whole() -> None:
    """The loops over rows are independent, those of a scan, a sum and stores at indices are not."""
    found = independent_of(whole(50, 70) @ whole(70, 90))
    assert found
    assert not any(axis[0] == 2 for axis in found)
    counted = porism.bincount(porism.asarray(np.arange(400) % 40), length=40)
    assert independent_of(counted) == set()


@pytest.mark.parametrize(
    "make",
    [
        lambda: porism.topk(whole(20), 3)[0],
        lambda: (whole(5, 2, dtype="int32") * porism.arange(2)).sum(1),
        lambda: porism.cumulative_sum(whole(7)).prod(),
        lambda: porism.scatter_add(whole(6, 2), 0, porism.asarray([[1, 5]] * 3), whole(3, 2)),
        lambda: porism.softmax(whole(4, 33).astype("float16")).min(1),
        lambda: porism.einsum("ij,kj->ik", whole(12, 7), whole(12, 7)),
        lambda: porism.bincount(whole(38, dtype="int64") % 5, length=5)[1:3].sum(),
        lambda: whole(1, dtype="int32").sum() - whole(1, 1),
        lambda: whole(0) > 0,
        lambda: whole(3, 2)[1:1],
    ],
)
def test_right_programs_raise_no_alarm(make: Callable[[], Any]) -> None:
    report = porism.verify(make(), level=3)
    seen = {row.check for row in report.rows}
    assert {Check.PLAN, Check.VALUES, Check.MACHINE} <= seen
    assert not any(
        row.how is How.OPEN for row in report.rows if row.check in (Check.VALUES, Check.MACHINE)
    )


def test_a_large_kernel_is_compared_in_two_halves() -> None:
    report = porism.verify(
        porism.conv2d(whole(1, 64, 28, 28), whole(64, 64, 3, 3), padding=1), level=2
    )
    (row,) = [row for row in report.rows if row.check is Check.VALUES]
    assert row.how is How.SAMPLED
    assert "with shorter loops" in row.text


def test_levels() -> None:
    x = whole(3, 4) * 2
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
