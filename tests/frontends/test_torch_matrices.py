"""Rows of ATen for factorizations of matrices, beside NumPy; they are computed on values."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import porism
from porism.frontends.torch.aten.aten_table import TABLE, UncoveredFormError

importlib.import_module("porism.frontends.torch.aten.aten_matrices")

RNG = np.random.default_rng(5)
SQUARE = RNG.normal(size=(2, 4, 4)).astype(np.float32)
TALL = RNG.normal(size=(2, 5, 3)).astype(np.float32)
WIDE = RNG.normal(size=(3, 5)).astype(np.float32)


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a row with arrays as tensors; results are arrays again, and None where left out."""
    row = TABLE[f"aten.{name}"]
    assert row.host
    result = row.run(
        *[porism.asarray(a) if isinstance(a, np.ndarray) else a for a in args], **kwargs
    )
    if isinstance(result, tuple):
        return tuple(None if r is None else r.numpy() for r in result)
    return result.numpy()


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("a", [SQUARE, TALL, WIDE, TALL[:0], np.zeros((0, 0), np.float32)])
def test_lu_factors_are_the_matrix(a: Any) -> None:
    p, lower, upper = call("linalg_lu.default", a)
    close(p @ lower @ upper, a)
    close(np.triu(lower, 1), 0)
    close(np.tril(upper, -1), 0)
    assert (np.abs(lower) <= 1 + 1e-6).all(), "the largest of a column is the pivot"


def test_a_singular_matrix_is_left_to_torch() -> None:
    for a in (np.ones((3, 3), np.float32), np.zeros((2, 2), np.float32)):
        for name in ("linalg_lu_factor_ex", "linalg_qr", "geqrf"):
            with pytest.raises(UncoveredFormError, match="singular"):
                call(f"{name}.default", a)
    with pytest.raises(UncoveredFormError, match="NaN"):
        call("linalg_inv_ex.default", np.full((2, 2), np.nan, np.float32))
    with pytest.raises(UncoveredFormError, match="type"):
        call("linalg_inv_ex.default", np.eye(2, dtype=np.float16))
    with pytest.raises(porism.base.errors.PorismError):
        call("linalg_cholesky_ex.default", -np.eye(2, dtype=np.float32))


def test_a_row_that_takes_values_refuses_to_be_traced() -> None:
    with pytest.raises(porism.base.errors.PorismError, match="jitted"):
        porism.jit(lambda x: TABLE["aten.linalg_inv_ex.default"].run(x)[0])(porism.eye(2))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_systems_are_solved_from_lu_factors(left: bool, adjoint: bool) -> None:
    factors, pivots, zero = call("linalg_lu_factor_ex.default", SQUARE)
    assert zero.tolist() == [0, 0]
    matrix = np.swapaxes(SQUARE, -1, -2) if adjoint else SQUARE
    b = RNG.normal(size=(4, 3) if left else (3, 4)).astype(np.float32)
    x = call("linalg_lu_solve.default", factors, pivots, b, left, adjoint)
    close(matrix @ x if left else x @ matrix, np.broadcast_to(b, (2, *b.shape)))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_reflections_are_the_orthogonal_factor(left: bool, transpose: bool) -> None:
    reflectors, tau = call("geqrf.default", TALL)
    q, r = call("linalg_qr.default", TALL, "complete")
    close(q @ r, TALL)
    other = RNG.normal(size=(2, 5, 4) if left else (2, 4, 5)).astype(np.float32)
    factor = np.swapaxes(q, -1, -2) if transpose else q
    found = call("ormqr.default", reflectors, tau, other, left, transpose)
    close(found, factor @ other if left else other @ factor)
    close(call("linalg_householder_product.default", reflectors, tau), q[..., :3])
    assert call("linalg_qr.default", TALL, "r")[0].shape == (0,)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems(upper: bool, left: bool, unit: bool) -> None:
    a = SQUARE + 4 * np.eye(4, dtype=np.float32)
    triangle = np.triu(a) if upper else np.tril(a)
    if unit:
        triangle = np.where(np.eye(4) == 1, 1, triangle)
    b = RNG.normal(size=(4, 2) if left else (2, 4)).astype(np.float32)
    x = call("linalg_solve_triangular.default", a, b, upper, left, unit)
    close(triangle @ x if left else x @ triangle, np.broadcast_to(b, (2, *b.shape)))
    if left:
        x, same = call("triangular_solve.default", b, a, upper, True, unit)
        close(np.swapaxes(triangle, -1, -2) @ x, np.broadcast_to(b, (2, 4, 2)))
        close(same, a)


@pytest.mark.parametrize("upper", [True, False])
def test_cholesky_factors(upper: bool) -> None:
    a = SQUARE @ np.swapaxes(SQUARE, -1, -2) + np.eye(4, dtype=np.float32)
    factor, info = call("linalg_cholesky_ex.default", a, upper)
    assert info.tolist() == [0, 0]
    other = np.swapaxes(factor, -1, -2)
    close(other @ factor if upper else factor @ other, a)
    b = RNG.normal(size=(2, 4, 3)).astype(np.float32)
    close(a @ call("cholesky_solve.default", b, factor, upper), b)
    close(a @ call("cholesky_inverse.default", factor, upper), np.broadcast_to(np.eye(4), a.shape))


def test_values_of_matrices_without_vectors() -> None:
    u, s, v = call("_linalg_svd.default", TALL)
    assert (u, v) == (None, None), "their signs are free"
    close(s, np.linalg.svd(TALL, compute_uv=False))
    u, s, v = call("_linalg_svd.default", np.zeros((0, 3), np.float32), True)
    assert (u.shape, s.shape, v.tolist()) == ((0, 0), (0,), np.eye(3).tolist())
    symmetric = SQUARE + np.swapaxes(SQUARE, -1, -2)
    close(call("_linalg_eigh.default", symmetric, "U", False)[0], np.linalg.eigvalsh(symmetric))
    close(call("_linalg_det.default", SQUARE)[0], np.linalg.det(SQUARE))
    close(call("_linalg_slogdet.default", SQUARE)[1], np.linalg.slogdet(SQUARE)[1])


def test_pseudo_inverses_have_tolerances() -> None:
    a = np.diag(np.asarray([4.0, 1.0, 0.1], np.float32))
    run = "linalg_pinv.atol_rtol_tensor"
    close(call(run, a), np.diag([0.25, 1, 10]))
    half = np.asarray(0.5, np.float32)
    close(call(run, a, porism.asarray(half)), np.diag([0.25, 1, 0]))
    close(call(run, a, None, porism.asarray(half)), np.diag([0.25, 0, 0]))
    close(call(run, -a, hermitian=True), np.diag([-0.25, -1, -10]))
    close(call(run, TALL), np.linalg.pinv(TALL))
    assert call(run, np.zeros((2, 0, 3), np.float32)).shape == (2, 3, 0)


def test_a_system_of_a_vector_and_from_the_right() -> None:
    a = SQUARE[0]
    b = RNG.normal(size=4).astype(np.float32)
    x, _, _, info = call("_linalg_solve_ex.default", a, b)
    close(a @ x, b)
    assert info.shape == ()
    row = b[None, :]
    close(call("_linalg_solve_ex.default", a, row, False)[0] @ a, row)
