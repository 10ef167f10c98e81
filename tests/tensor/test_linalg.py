"""`porism.linalg`: factorizations by LAPACK and compiled functions, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import porism
from porism import linalg
from porism.base.errors import PorismError, ShapeError, TypeMismatch
from porism.ir.facts.semantics import Array
from tests.tensor.oracle import refuses

TYPES: Final = ("float32", "float64", "complex64", "complex128")
SHAPES: Final = ((3, 3), (2, 4, 4), (1, 1), (0, 3, 3), (0, 0))


def draw(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    random = np.random.default_rng([seed, *shape])
    parts = random.normal(size=(2, *shape))
    values = parts[0] + (1j * parts[1] if "complex" in dtype else 0)
    return np.asarray(values).astype(dtype)


def positive(dtype: str, shape: tuple[int, ...]) -> Array:
    x = draw(dtype, shape)
    return np.asarray(x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])).astype(dtype)


def close(actual: Any, expected: Any) -> None:
    got = actual.numpy()
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    rough = got.dtype.itemsize // (2 if got.dtype.kind == "c" else 1) == 4
    allowed = 2e-4 if rough else 1e-10
    np.testing.assert_allclose(got, expected, rtol=allowed, atol=allowed)


SQUARE: Final[dict[str, Callable[[Any], Any]]] = {
    "det": np.linalg.det,
    "inv": np.linalg.inv,
    "pinv": np.linalg.pinv,
    "eigvalsh": np.linalg.eigvalsh,
    "cholesky": np.linalg.cholesky,
    "svdvals": np.linalg.svdvals,
    "matrix_norm": np.linalg.matrix_norm,
    "trace": lambda x: np.trace(x, axis1=-2, axis2=-1),
    "diagonal": lambda x: np.diagonal(x, axis1=-2, axis2=-1),
    "matrix_transpose": np.matrix_transpose,
    "matrix_rank": lambda x: np.asarray(np.linalg.matrix_rank(x)),
}


@pytest.mark.parametrize("name", SQUARE)
@pytest.mark.parametrize("dtype", TYPES)
def test_functions_of_one_matrix(name: str, dtype: str) -> None:
    for shape in SHAPES:
        if 0 in shape[-2:] and name in ("pinv", "svdvals", "matrix_rank", "eigvalsh", "cholesky"):
            continue
        x = positive(dtype, shape)
        close(getattr(linalg, name)(porism.asarray(x)), np.asarray(SQUARE[name](x)))


@pytest.mark.parametrize("dtype", TYPES)
def test_factors_multiply_to_the_matrix(dtype: str) -> None:
    for shape in ((3, 3), (2, 4, 3), (2, 3, 5)):
        x = draw(dtype, shape)
        tensor = porism.asarray(x)
        for full in (False, True):
            u, s, vh = linalg.svd(tensor, full_matrices=full)
            k = s.shape[-1]
            close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x)
        for mode in ("reduced", "complete"):
            q, r = linalg.qr(tensor, mode=mode)
            close(q @ r, x)
    x = positive(dtype, (2, 3, 3))
    tensor = porism.asarray(x)
    values, vectors = linalg.eigh(tensor)
    close(tensor @ vectors, (vectors.numpy() * values.numpy()[..., None, :]).astype(dtype))
    values, vectors = linalg.eig(tensor)
    assert values.dtype == vectors.dtype == porism.result_type(tensor, 1j)
    product = vectors.numpy() * values.numpy()[..., None, :]
    np.testing.assert_allclose((tensor @ vectors).numpy(), product, rtol=2e-3, atol=2e-3)
    lower, upper = linalg.cholesky(tensor), linalg.cholesky(tensor, upper=True)
    close(lower.mT.conj(), upper.numpy())
    sign, logarithm = linalg.slogdet(tensor)
    close(sign * porism.exp(logarithm), np.linalg.det(x))
    np.testing.assert_allclose(
        np.sort(linalg.eigvals(tensor).numpy().real), linalg.eigvalsh(tensor).numpy(), rtol=1e-3
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_solve(dtype: str) -> None:
    a, b, v = positive(dtype, (2, 3, 3)), draw(dtype, (2, 3, 2)), draw(dtype, (3,))
    close(linalg.solve(a, b), np.linalg.solve(a, b))
    close(linalg.solve(a, v), np.linalg.solve(a, v))


@pytest.mark.parametrize("dtype", ["int64", *TYPES])
def test_products(dtype: str) -> None:
    a, b = (draw(dtype, (2, 3), seed) * 4 for seed in (1, 2))
    a, b = a.astype(dtype), b.astype(dtype)
    close(linalg.cross(a, b), np.cross(a, b))
    close(linalg.cross(a, b[0]), np.cross(a, b[0]))
    close(linalg.cross(a.T, b.T, axis=0), np.cross(a.T, b.T, axis=0))
    square = np.round(draw("float64", (2, 3, 3)) * 2).astype(dtype)
    for n in (0, 1, 2, 5):
        close(linalg.matrix_power(square, n), np.linalg.matrix_power(square, n))
    if dtype != "int64":
        one = positive(dtype, (2, 3, 3))
        close(linalg.matrix_power(one, -2), np.linalg.matrix_power(one, -2))


def test_norms() -> None:
    for dtype in TYPES:
        x = draw(dtype, (2, 3, 4))
        for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
            for keepdims in (False, True):
                expected = np.linalg.matrix_norm(x, ord=order, keepdims=keepdims)
                close(linalg.matrix_norm(x, ord=order, keepdims=keepdims), expected)


def test_tolerances_of_ranks() -> None:
    x = np.diag([1.0, 1e-3, 0.0])
    assert linalg.matrix_rank(x).item() == 2
    assert linalg.matrix_rank(x, rtol=0.01).item() == 1
    assert linalg.pinv(x, rtol=0.01).numpy()[1, 1] == 0
    assert linalg.matrix_rank(np.stack([x, x]), rtol=porism.asarray([0.01, 0.0])).tolist() == [1, 2]


def test_narrow_floats_and_integers() -> None:
    assert linalg.inv(porism.ones(1, 1, dtype="bfloat16")).dtype is porism.bfloat16
    assert linalg.det([[2, 1], [0, 3]]).item() == 6


def test_mistakes() -> None:
    with refuses(ShapeError, "inv of a tensor of shape (2, 3)"):
        linalg.inv(porism.ones(2, 3))
    with refuses(ShapeError, "svd of a tensor of shape (2,)"):
        linalg.svd(porism.ones(2))
    with refuses(PorismError, "inv of a tensor of shape (2, 2)"):
        linalg.inv(porism.zeros(2, 2))
    with pytest.raises(np.linalg.LinAlgError):
        linalg.cholesky(-porism.eye(2))
    with refuses(ShapeError, "solve with tensors of shapes (2, 2) and (3,)"):
        linalg.solve(porism.eye(2), porism.ones(3))
    with refuses(ShapeError, "cross of tensors of shapes (2,) and (2,)"):
        linalg.cross([1, 2], [3, 4])
    with refuses(TypeMismatch, "a matrix norm of order 3"):
        linalg.matrix_norm(porism.eye(2), ord=3)
    with refuses(TypeMismatch, "qr with the mode 'full'"):
        linalg.qr(porism.eye(2), mode="full")
    with refuses(PorismError, "svd inside of a jitted function"):
        porism.jit(lambda x: linalg.svd(x).S)(porism.eye(2))


def test_the_module_is_clean() -> None:
    assert dir(linalg) == sorted(linalg.__all__)
    assert "linalg" in dir(porism)
