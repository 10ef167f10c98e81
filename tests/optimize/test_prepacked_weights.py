"""Pre-packed weights: a kernel computes the same from packed constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import porism
from porism.backends.backend_table import native_backend
from porism.engine.tune.kernel_trial import parameters, reference_result
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.strategy.contractions import prepacked_weights
from porism.optimize.strategy.contractions.prepacked_weights import (
    PrepackedKernel,
    prepack_constants,
)
from porism.pipeline import simplify_kernel, unscheduled_kernel


def tensor(*dims: int) -> Any:
    return porism.asarray(np.zeros(dims, np.float32))


def scheduled(y: Any, actions: Sequence[Action]) -> UOp:
    (kernel,) = porism.kernels(y)
    target = native_backend().target()
    return apply_all(unscheduled_kernel(kernel.node, target), actions, target)


def computes_the_same(kernel: UOp, prepacked: PrepackedKernel) -> bool:
    """Return whether a kernel gives the same from packed constants, by the evaluator."""
    rng = np.random.default_rng(0)
    data = {
        number: rng.standard_normal(pointer.dtype.size).astype(np.float32)
        for number, pointer in parameters(kernel).items()
    }
    more = dict(data)
    for copy in prepacked.copies:
        out = np.full(copy.size, np.nan, np.float32)
        more[copy.number] = reference_result(
            simplify_kernel(copy.kernel), {0: out, 1: data[copy.source]}, {}
        )
    used = parameters(prepacked.kernel)
    wanted = reference_result(kernel, data, {})
    result = reference_result(prepacked.kernel, {number: more[number] for number in used}, {})
    return bool(np.allclose(wanted, result, rtol=1e-5, atol=1e-5))


def locals_of(kernel: UOp) -> int:
    return sum(node.op is ops.DEFINE_LOCAL for node in toposort(kernel))


@pytest.fixture(autouse=True)
def _everything_is_worth_packing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepacked_weights, "MIN_BYTES", 0)
    monkeypatch.setattr(prepacked_weights, "MIN_CONFLICTS", 0.0)
    monkeypatch.setattr(prepacked_weights, "MAX_PREPACK_GROWTH", 4.0)


PACKED = {
    "columns": [porism.Upcast("r1", 8), porism.Pack(2, ("r2", "r1_1"))],
    "columns outside": [
        porism.Upcast("r0", 4),
        porism.Upcast("r1", 8),
        porism.Move("r1_0", "r0_0"),
        porism.Pack(2, ("r2", "r1_1")),
        porism.Upcast("r4", 8),
        porism.Thread("r1_0"),
    ],
    "rows with padding": [porism.Upcast("r1", 8), porism.Pack(2, ("r2", "r1_1"), row=1)],
    "overlapping tail": [
        porism.OverlapTail("r1", 16),
        porism.Upcast("r1_1", 16),
        porism.Move("r1_0", "r0"),
        porism.Pack(2, ("r2", "r1_1_1")),
    ],
}


@pytest.mark.parametrize("name", PACKED)
def test_panels_are_prepacked(name: str) -> None:
    kernel = scheduled(tensor(8, 5) @ tensor(5, 24), PACKED[name])
    prepacked = prepack_constants(kernel, {2})
    assert prepacked is not None
    assert locals_of(prepacked.kernel) == locals_of(kernel) - 1
    assert 2 not in parameters(prepacked.kernel)
    assert computes_the_same(kernel, prepacked)


def test_only_constants_are_prepacked() -> None:
    kernel = scheduled(tensor(8, 5) @ tensor(5, 24), PACKED["columns"])
    assert prepack_constants(kernel, {1}) is None
    assert prepack_constants(kernel, set()) is None


def test_a_transposed_matrix() -> None:
    kernel = scheduled(tensor(4, 5) @ tensor(24, 5).T, PACKED["columns"])
    prepacked = prepack_constants(kernel, {2})
    assert prepacked is not None
    assert computes_the_same(kernel, prepacked)


def test_constants_that_would_grow_much_are_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = scheduled(tensor(8, 5) @ tensor(5, 24), PACKED["columns outside"])
    monkeypatch.setattr(prepacked_weights, "MAX_PREPACK_GROWTH", 0.5)
    assert prepack_constants(kernel, {2}) is None


ROWS = [porism.Upcast("r0", 4), porism.Upcast("r1", 8)]


def test_rows_are_interleaved() -> None:
    kernel = scheduled(tensor(12, 16) @ tensor(16, 24), ROWS)
    prepacked = prepack_constants(kernel, {1})
    assert prepacked is not None
    (copy,) = prepacked.copies
    assert copy.axes == ("r0_0", "r2", "r0_1")
    assert copy.size == 12 * 16
    assert computes_the_same(kernel, prepacked)


def test_rows_with_an_overlapping_tail_are_interleaved() -> None:
    actions = [porism.OverlapTail("r0", 5), porism.Upcast("r0_1", 5), porism.Upcast("r1", 24)]
    kernel = scheduled(tensor(19, 16) @ tensor(16, 24), actions)
    prepacked = prepack_constants(kernel, {1})
    assert prepacked is not None
    assert prepacked.copies[0].size == 20 * 16
    assert computes_the_same(kernel, prepacked)


def test_rows_of_a_blocked_reduction_are_interleaved() -> None:
    actions = [porism.Upcast("r0", 4), porism.Upcast("r1", 8), porism.Block("r2", 4, "r1_0")]
    kernel = scheduled(tensor(8, 8) @ tensor(8, 16), actions)
    prepacked = prepack_constants(kernel, {1})
    assert prepacked is not None
    assert computes_the_same(kernel, prepacked)


def test_rows_are_not_interleaved_if_they_would_be_vectorized() -> None:
    actions = [porism.Upcast("r0", 8), porism.Upcast("r1", 8)]
    assert prepack_constants(scheduled(tensor(16, 16) @ tensor(16, 24), actions), {1}) is None


def test_rows_without_cache_set_conflicts_are_not_interleaved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prepacked_weights, "MIN_CONFLICTS", 1.5)
    assert prepack_constants(scheduled(tensor(12, 17) @ tensor(17, 24), ROWS), {1}) is None


def test_weights_of_a_convolution_are_interleaved() -> None:
    y = porism.conv2d(tensor(1, 4, 8, 8), tensor(8, 4, 3, 3), padding=1)
    kernel = scheduled(y, [porism.Upcast("r0", 4), porism.Upcast("r2", 8)])
    prepacked = prepack_constants(kernel, {2})
    assert prepacked is not None
    assert prepacked.copies[0].size == 8 * 4 * 3 * 3
    assert computes_the_same(kernel, prepacked)
