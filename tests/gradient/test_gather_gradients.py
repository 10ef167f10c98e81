"""Gradients of gathers: sums over the indices that refer to an element, computed as scatters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import porism

RNG = np.random.default_rng(0)
INDEX = np.array([[3, 0, 3], [1, 3, 2]])


def scattered(shape: tuple[int, ...], key: Any, weights: Any) -> Any:
    total = np.zeros(shape)
    np.add.at(total, key, weights)
    return total


@pytest.mark.parametrize(
    ("shape", "key"),
    [
        ((4, 5), (INDEX,)),
        ((4, 5, 2), (INDEX,)),
        ((5, 4), (slice(None), INDEX)),
        ((2, 4, 5), (slice(None), INDEX)),
        ((4, 2, 5), (INDEX, slice(None), INDEX)),
        ((4, 4, 3), (INDEX, INDEX)),
        ((4,), (INDEX,)),
        ((40, 33), (RNG.integers(0, 40, 64),)),
        ((3, 40, 33), (slice(None), RNG.integers(0, 40, 64))),
    ],
)
def test_indexing_by_arrays(shape: tuple[int, ...], key: Any) -> None:
    data = RNG.standard_normal(shape)
    weights = RNG.standard_normal(data[key].shape)
    factor = porism.asarray(weights)
    found = porism.grad(lambda x: (x[key] * factor).sum())(porism.asarray(data))
    np.testing.assert_allclose(found.numpy(), scattered(shape, key, weights), atol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_take_along_an_axis(axis: int) -> None:
    data = RNG.standard_normal((3, 4, 5))
    order = np.argsort(RNG.standard_normal((3, 4, 5)), axis)
    weights = RNG.standard_normal((3, 4, 5))
    factor, indices = porism.asarray(weights), porism.asarray(order)
    found = porism.grad(lambda x: (porism.take_along_axis(x, indices, axis) * factor).sum())(
        porism.asarray(data)
    )
    expected = np.zeros_like(data)
    np.put_along_axis(expected, order, weights, axis)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-14)


def test_an_embedding_is_one_scatter() -> None:
    table, indices = porism.ones(1000, 64), porism.asarray(RNG.integers(0, 1000, 128))
    gradient = porism.jit(porism.grad(lambda t, i: porism.take(t, i, axis=0).sum()))
    found = gradient(table.realize(), indices)
    np.testing.assert_array_equal(found.numpy()[:, 0], np.bincount(indices.numpy(), minlength=1000))
    (replay,) = gradient.programs
    assert replay.schedule is not None
    assert len(replay.schedule.steps) == 1  # no copy of the result in another order
