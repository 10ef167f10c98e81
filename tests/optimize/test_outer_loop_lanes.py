"""Outer-loop vectorization: where the loops inside are short, and where not."""

from __future__ import annotations

import dataclasses

import pytest

import porism
from porism.base.target import GENERIC_CPU
from porism.ir.node import UOp
from porism.optimize.actions.action import Action
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.strategy import heuristic
from porism.pipeline import unscheduled_kernel
from porism.tensor.inspect.explain import Kernel
from porism.tensor.tensor import Tensor
from tests.optimize.programs import values

WIDE = dataclasses.replace(GENERIC_CPU, vector_bits=(128, 256, 512))


def only_kernel(tensor: Tensor) -> Kernel:
    kernels: list[Kernel] = porism.kernels(tensor)
    assert len(kernels) == 1
    return kernels[0]


def chosen(kernel: UOp) -> tuple[Action, ...]:
    return heuristic.choose_actions(unscheduled_kernel(kernel, WIDE), WIDE)


@pytest.mark.parametrize("rows", [16, 40, 64])
def test_lanes_are_rows_of_a_short_sort(rows: int) -> None:
    kernel = only_kernel(porism.sort(values(rows, 16)))
    actions = chosen(kernel.node)
    lanes = 16 if rows % 16 == 0 else 8
    assert Upcast("r0", lanes) in actions
    assert not any(isinstance(a, Upcast) and a.axis != "r0" for a in actions)
    assert porism.opt(kernel, list(actions)).check() == 0


def test_few_rows_are_sorted_along_the_row() -> None:
    kernel = only_kernel(porism.sort(values(3, 16)))
    assert not any(isinstance(a, Upcast) and a.axis == "r0" for a in chosen(kernel.node))


def test_rows_of_a_symbolic_number_are_sorted_along_the_row() -> None:
    rows = porism.Variable("n", 1, 64)
    kernel = only_kernel(porism.sort(values(64, 16)[: rows.bind(40)]))
    assert not any(isinstance(a, Upcast) and a.axis == "r0" for a in chosen(kernel.node))


def test_reductions_are_vectorized_along_the_row() -> None:
    kernel = only_kernel(porism.softmax(values(64, 16)))
    assert Upcast("r0", 16) not in chosen(kernel.node)


@pytest.mark.parametrize("classes", [3, 10, 15])
def test_rows_of_a_few_classes_are_vectorized_across_rows(classes: int) -> None:
    for result in (porism.softmax, porism.layer_norm):
        kernel = only_kernel(result(values(160, classes)))
        actions = chosen(kernel.node)
        assert [a for a in actions if isinstance(a, Upcast)] == [Upcast("r0", 16)]
        assert porism.opt(kernel, list(actions)).check() < 1e-5
