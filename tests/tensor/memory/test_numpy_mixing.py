"""Arrays and tensors in one expression: what comes out, in which type, and what is changed."""

from __future__ import annotations

import operator
from typing import Any, Final

import numpy as np
import pytest

import porism
from tests.tensor.oracle import agree

TYPES: Final = ("int8", "uint8", "int32", "int64", "float16", "float32", "float64")
SHAPES: Final[tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]] = (
    ((), (3,)),
    ((3,), (2, 3)),
    ((2, 1), (1, 3)),
    ((0,), (2, 1)),
    ((1, 1), (4,)),
    ((2, 3, 4), (3, 1)),
)


def values(dtype: str, shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(7).integers(1, 9, shape).astype(dtype)


@pytest.mark.parametrize("a_type", TYPES)
@pytest.mark.parametrize("b_type", TYPES)
def test_an_operator_gives_a_tensor_of_the_promoted_type(a_type: str, b_type: str) -> None:
    expected = porism.result_type(a_type, b_type)
    for symbol in ("add", "sub", "mul", "lt", "eq"):
        function = getattr(operator, symbol)
        a, b = values(a_type, (2, 1)), values(b_type, (3,))
        for result in (function(a, porism.asarray(b)), function(porism.asarray(a), b)):
            assert isinstance(result, porism.Tensor)
            assert result.dtype == (porism.bool if symbol in ("lt", "eq") else expected)
            agree(result, function(a.astype(expected.numpy), b.astype(expected.numpy)))


@pytest.mark.parametrize(("a_shape", "b_shape"), SHAPES)
def test_shapes_are_broadcast(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    a, b = values("float32", a_shape), values("float32", b_shape)
    for result in (a * porism.asarray(b), porism.asarray(a) * b):
        assert isinstance(result, porism.Tensor)
        agree(result, np.asarray(a * b))


@pytest.mark.parametrize("dtype", TYPES)
def test_an_array_is_changed_in_place(dtype: str) -> None:
    array = values(dtype, (2, 3))
    before, other = array, array.copy()
    array += porism.ones(3, dtype=dtype)
    array *= porism.asarray(2, dtype=dtype)
    array[:, 1:] -= porism.ones((2, 2), dtype=dtype)
    assert array is before
    assert array.dtype == dtype
    other = (other + 1) * 2
    other[:, 1:] -= 1
    np.testing.assert_array_equal(array, other)
    array[0] = porism.zeros(3, dtype=dtype)
    assert (array[0] == 0).all()
    np.copyto(array, porism.ones(2, 3, dtype=dtype))
    assert (array == 1).all()


def test_scalars_of_numpy() -> None:
    x = porism.ones(3, dtype="float32")
    assert (np.float32(2) * x).dtype is porism.float32
    assert (np.float64(2) * x).dtype is porism.float64
    assert isinstance(np.int64(2) + x, porism.Tensor)
    assert (x > np.float32(0)).all()


def test_functions_of_numpy_return_arrays() -> None:
    x = porism.asarray([[1.0, 4.0], [9.0, 16.0]])
    for result, expected in (
        (np.sqrt(x), [[1, 2], [3, 4]]),
        (np.sum(x, axis=0), [10, 20]),
        (np.add.reduce(x, axis=1), [5, 25]),
        (np.stack([x, x]).shape, (2, 2, 2)),
        (np.where(x > 3, x, 0), [[0, 4], [9, 16]]),
        (np.linalg.norm(x[0]), np.sqrt(17)),
    ):
        assert not isinstance(result, porism.Tensor)
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    assert np.max(x) == 16
    assert np.shape(x) == (2, 2)
    assert np.isclose(x, x.numpy()).all()
    out = np.zeros((2, 2), np.float32)
    assert np.exp(x, out=out) is out
