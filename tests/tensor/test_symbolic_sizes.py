"""Symbolic sizes: variables with bounds, bound to different values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError
from porism.base.settings import settings
from tests.tensor.oracle import refuses
from tests.tensor.singles import singles

X = np.arange(24, dtype=np.float32).reshape(6, 4)

N = porism.Variable("n", 1, 6)


def same(actual: Any, expected: Any) -> None:
    got = actual.numpy()
    assert got.shape == np.shape(expected)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("value", [1, 3, 6])
def test_parts(value: int) -> None:
    x, n = porism.asarray(X), N.bind(value)
    same(x[:n], X[:value])
    same(x[:n] * 2 + x[:n], X[:value] * 3)
    same(x[n - 1 :], X[value - 1 :])
    same(x[n - 1], X[value - 1])
    same(x[:n].sum(), X[:value].sum())
    same(x[:n].sum(axis=0), X[:value].sum(0))
    same(x[:n].T, X[:value].T)
    same(x[:n] @ X.T, X[:value] @ X.T)
    same(x[:n].reshape(-1, 2, 2), X[:value].reshape(-1, 2, 2))
    same(x[:n].exp(), np.exp(X[:value]))


def test_windows_of_a_known_size() -> None:
    place = porism.Variable("place", 0, 3)
    for value in (0, 2, 3):
        k = place.bind(value)
        part = porism.asarray(X)[k : k + 3]
        assert part.shape == (3, 4)
        same(part, X[value : value + 3])


@pytest.mark.parametrize("value", [1, 4])
def test_creation(value: int) -> None:
    n = N.bind(value)
    same(porism.zeros(n, 2), np.zeros((value, 2)))
    same(porism.arange(n), np.arange(value))
    same(porism.arange(n) * n, np.arange(value) * value)
    same(
        porism.ones(n, 3) + porism.asarray([1.0, 2.0, 3.0]),
        np.ones((value, 3)) + singles([1, 2, 3]),
    )


@pytest.mark.parametrize("value", [1, 5])
def test_assignment(value: int) -> None:
    x, n = porism.asarray(X), N.bind(value)
    x[:n] = 0
    expected = X.copy()
    expected[:value] = 0
    same(x, expected)


def test_a_computed_tensor_keeps_its_shape() -> None:
    x, n = porism.asarray(X), N.bind(3)
    part = x[:n] + 1
    shape = part.shape
    part.realize()
    assert part.shape == shape
    same(part * 2, (X[:3] + 1) * 2)


def test_refusals() -> None:
    with refuses(ShapeError, "n = 7 is outside of its bounds"):
        N.bind(7)
    with refuses(ShapeError, "the variable m from 3 to 2"):
        porism.Variable("m", 3, 2)
    with refuses(ShapeError, "the value of a variable is 1.5"):
        N.bind(1.5)
    with refuses(ShapeError, "the variable n is used as a number"):
        porism.asarray(X)[:N]
    with refuses(ShapeError, "the variable n is used as a number"):
        porism.zeros(N)
    assert repr(N) == "Variable('n', 1, 6)"


def test_shapes_are_symbolic() -> None:
    """The value is not part of the shape, nor of the graph."""
    part = porism.asarray(X)[: N.bind(3)]
    assert repr(part) == "Tensor(lazy, shape=(n=3, 4), dtype=float32)"
    assert repr(part.reshape(-1, 2)) == "Tensor(lazy, shape=(n * 2, 2), dtype=float32)"
    with refuses(ShapeError, "len() of a tensor whose first axis is symbolic"):
        len(part)
    with refuses(ShapeError, "the shapes (n=3, 4) and (3, 4) do not go together"):
        part + X[:3]
    with refuses(ShapeError, "a slice ends at n=3 in an axis of 4 elements"):
        porism.asarray(X)[:, : N.bind(3)]
    with refuses(ShapeError, "the index n=3 of axis 1, which has 4 elements"):
        porism.asarray(X)[:, N.bind(3)]
    with refuses(ShapeError, "a slice with a step of a symbolic part"):
        porism.asarray(X)[: N.bind(3) : 2]
    with refuses(ShapeError, "arange with a symbolic end and a step"):
        porism.arange(0, N.bind(3), 2)


def test_a_size_prints_as_it_is_written() -> None:
    part = porism.asarray(X)[: N.bind(3)]
    size = part.shape[0]
    assert (repr(size), str(size), f"{size + 3}") == ("n=3", "n=3", "n + 3")
    assert repr(porism.pad(part, ((1, 2), (0, 0))).shape[0]) == "n + 3"


def test_joined_sizes_are_collected() -> None:
    """However the parts come, the same sum is the same size."""
    x, m = porism.asarray(X), porism.Variable("m", 1, 6)
    a, b = x[: N.bind(3)], x[: m.bind(2)]
    assert repr(porism.concat([a, x, a]).shape) == "(n * 2 + 6, 4)"
    assert repr(porism.concat([a, b, a])[1:].shape) == "(n * 2 + m - 1, 4)"
    for order in itertools.permutations([a, b, x, a]):
        joined = porism.concat(order) + porism.concat([a, a, b, x])
        expected = np.concatenate([part.numpy() for part in order])
        same(joined, expected + np.concatenate([X[:3], X[:3], X[:2], X]))


def test_a_computed_part_goes_with_others() -> None:
    x, n = porism.asarray(X), N.bind(3)
    first = x[:n] * 2
    first.realize()
    same(first + x[:n], X[:3] * 3)
    x[:n].numpy()
    same(x[:n] + porism.ones(n, 4), X[:3] + 1)


def test_reshapes_that_merge_a_symbolic_axis() -> None:
    part = porism.asarray(X.reshape(2, 6, 2))[:, : N.bind(3)]
    same(part.reshape(2, -1), X.reshape(2, 6, 2)[:, :3].reshape(2, -1))


@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_temporaries_take_the_memory_of_bound_values(backend: str) -> None:
    """One program serves all values; its arena is not as large as the bounds allow."""
    rng = np.random.default_rng(0)
    weight = singles(rng.normal(size=(8, 8)))
    n, m = porism.Variable("n", 1, 1 << 28), porism.Variable("m", 1, 1 << 28)

    @porism.jit
    def attend(x: Any) -> Any:
        h = (x @ porism.asarray(weight)).softmax(-1)
        scores = (h @ h.mT).softmax(-1)
        return scores @ h + (scores @ x).sum((0, 1))

    with settings.override(backend=backend):
        before = porism.memory().peak
        for batch, length in ((2, 3), (1, 9), (5, 2), (2, 3)):
            data = singles(rng.normal(size=(batch, length, 8)))
            x = porism.asarray(data).reshape(m.bind(batch), n.bind(length), 8)
            found = attend(x).numpy()
            np.testing.assert_allclose(found, _attended(data, weight), rtol=1e-4)
        assert attend.traces == 1
        assert porism.memory().peak < before + (1 << 24)


def _attended(x: Any, weight: Any) -> Any:
    def softmax(v: Any) -> Any:
        e = np.exp(v - v.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    h = softmax(x @ weight)
    scores = softmax(h @ h.swapaxes(-1, -2))
    return scores @ h + (scores @ x).sum((0, 1))


@pytest.mark.parametrize(("low", "sizes"), [(2, (2, 3, 7, 8)), (8, (8, 9, 15, 16, 17, 41))])
def test_tiles_of_symbolic_rows_overlap(low: int, sizes: tuple[int, ...]) -> None:
    """The last tile of rows is computed twice in part, and each row is stored once."""
    rng = np.random.default_rng(low)
    weight = singles(rng.normal(size=(96, 64)))
    n, m = porism.Variable("n", low, 4096), porism.Variable("m", low, 4096)

    @porism.jit
    def layers(x: Any, w: Any) -> tuple[Any, Any]:
        h = (x @ w).relu()
        return h @ w.T + x, h @ h.mT

    for batch, rows in itertools.product(sizes, sizes[::2]):
        data = singles(rng.normal(size=(batch, rows, 96)))
        x = porism.asarray(data).reshape(n.bind(batch), m.bind(rows), 96)
        first, second = layers(x, porism.asarray(weight))
        h = np.maximum(data @ weight, 0)
        np.testing.assert_allclose(first.numpy(), h @ weight.T + data, rtol=2e-4, atol=2e-3)
        np.testing.assert_allclose(second.numpy(), h @ h.swapaxes(1, 2), rtol=2e-4, atol=2e-3)
    assert layers.traces == 1


@pytest.mark.parametrize("channels", [3, 32])
def test_convolutions_of_a_symbolic_batch(channels: int) -> None:
    rng = np.random.default_rng(channels)
    weight = porism.asarray(singles(rng.normal(size=(16, channels, 3, 3)))).realize()
    n = porism.Variable("n", 2, 4096)

    @porism.jit
    def convolve(x: Any) -> Any:
        return porism.conv2d(x, weight, padding=1).relu()

    for batch in (2, 3, 9):
        x = porism.asarray(singles(rng.normal(size=(batch, channels, 10, 10))))
        found = convolve(x.reshape(n.bind(batch), channels, 10, 10))
        expected = porism.conv2d(x, weight, padding=1).relu()
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
    assert convolve.traces == 1
