"""Column reductions: panels of columns for extents that fit or not, and where they are not used."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import porism
from porism.backends.backend_table import native_backend
from porism.base.target import Target
from porism.optimize.actions.loops.reduction_blocking import Block
from porism.optimize.strategy import column_reductions, heuristic


def small() -> Target:
    """Return this machine with a small L2 cache, so that small kernels exceed it."""
    target = native_backend().target()
    return dataclasses.replace(target, memory=dataclasses.replace(target.memory, l2=1 << 14))


@pytest.mark.parametrize("shape", [(64, 1024), (40, 1000), (67, 3000), (3, 64, 768), (41, 2999)])
@pytest.mark.parametrize("name", ["sum", "max"])
def test_panels_have_the_same_result(shape: tuple[int, ...], name: str) -> None:
    x = porism.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    (kernel,) = porism.kernels(getattr(porism, name)(x, axis=-2))
    panels = column_reductions.choose_column_panels(kernel.node, small())
    assert panels is not None
    actions = heuristic.choose_actions(kernel.node, small())
    assert any(isinstance(action, Block) for action in actions)
    assert porism.opt(kernel, actions).check() < 1e-5


def test_an_epilogue_and_other_types() -> None:
    x = porism.asarray(np.arange(64 * 1024).reshape(64, 1024).astype(np.float64))
    for value in (x.mean(0) * 2 + 1, porism.astype(x, porism.int32).sum(0)):
        kernel = porism.kernels(value)[-1]
        actions = heuristic.choose_actions(kernel.node, small())
        assert porism.opt(kernel, actions).check() < 1e-9


@pytest.mark.parametrize(
    ("shape", "axis"), [((64, 1024), 1), ((64, 128), 0), ((8, 1024), 0), ((1024, 64), 1)]
)
def test_other_reductions_have_no_panels(shape: tuple[int, int], axis: int) -> None:
    x = porism.asarray(np.zeros(shape, np.float32))
    (kernel,) = porism.kernels(x.sum(axis))
    assert column_reductions.choose_column_panels(kernel.node, small()) is None
