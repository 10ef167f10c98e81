"""Matrices of ATen: factorizations, inverses and solutions of linear systems.

They take values: LAPACK computes them, through NumPy, between compiled pieces. What LAPACK refuses,
such as a singular matrix, is left to torch, which has its own errors and infinities. Singular
vectors and eigenvectors are torch's too: their signs are free, and each LAPACK chooses its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten.aten_table import UncoveredFormError, aten
from porism.tensor.linalg.host_calls import on_host

Array = Any
"""A NumPy array."""


def _transposed(a: Array) -> Array:
    """Return matrices with rows and columns swapped."""
    return np.swapaxes(a, -1, -2)


def _finite(*arrays: Array) -> None:
    """Refuse operands that are not finite: what comes of them is a choice of each LAPACK."""
    if not all(np.isfinite(a).all() for a in arrays):
        raise UncoveredFormError("matrices with NaN or infinities")


def _host(name: str, function: Callable[..., Any], *operands: Any) -> Any:
    """Return what a function of NumPy gives on the values of finite operands."""
    if any(x.dtype.kind == "f" and x.dtype.itemsize < 4 for x in operands):
        raise UncoveredFormError("matrices of a type that LAPACK does not have")
    if all(x.dtype.kind != "f" for x in operands):
        raise UncoveredFormError("matrices of integers")

    def checked(*arrays: Array) -> Any:
        _finite(*arrays)
        return function(*arrays)

    results = on_host(name, checked, *operands)
    return results[0] if len(results) == 1 else results


def _full_rank(diagonal: Array, size: int) -> None:
    """Refuse factors with what may be a 0 in their diagonal: rounding errors make up the rest."""
    sizes = np.abs(diagonal)
    noise = sizes.max(axis=-1, initial=0, keepdims=True) * size * np.finfo(sizes.dtype).eps
    if (sizes <= noise).any():
        raise UncoveredFormError("factors of matrices that are singular, or nearly")


# -- singular values and eigenvalues ---------------------------------------------------------------


@aten("_linalg_svd.default", host=True)
def svd(
    x: Any, full_matrices: bool = False, compute_uv: bool = True, driver: Any = None
) -> tuple[Any, Any, Any]:
    """Return singular values; their vectors, whose signs are free, if the matrices are empty."""
    if not compute_uv or x.size:
        nothing = None if compute_uv else xp.zeros(0, dtype=x.dtype)
        return nothing, _host("svd", lambda a: np.linalg.svd(a, compute_uv=False), x), nothing
    *batch, rows, columns = x.shape
    rank = min(rows, columns)
    left, right = (rows, columns) if full_matrices else (rank, rank)
    u, v = (
        xp.broadcast_to(xp.eye(*shape, dtype=x.dtype), (*batch, *shape))
        for shape in ((rows, left), (right, columns))
    )
    return u, xp.zeros((*batch, rank), dtype=x.dtype), v


@aten("_linalg_eigh.default", host=True)
def eigh(x: Any, UPLO: Any = "L", compute_v: bool = True) -> tuple[Any, Any]:  # noqa: N803
    """Return the eigenvalues of symmetric matrices in ascending order, without vectors."""
    values = _host("eigh", lambda a: np.linalg.eigvalsh(a, UPLO=UPLO), x)
    if compute_v and x.size:
        return values, None  # the signs of vectors are free
    return values, xp.zeros(x.shape if compute_v else (0,), dtype=x.dtype)


@aten("linalg_pinv.atol_rtol_tensor", host=True)
def pinv(x: Any, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """Return pseudo-inverses; singular values below a tolerance count as 0."""

    def compute(a: Array, *tolerances: Array) -> Array:
        if hermitian:
            values, vectors = np.linalg.eigh(a)
            left, right = vectors, _transposed(vectors)
        else:
            left, values, right = np.linalg.svd(a, full_matrices=False)
        sizes = np.abs(values)
        given = dict(zip([n for n, t in named.items() if t is not None], tolerances, strict=True))
        absolute = given.get("atol", np.zeros((), a.dtype))
        default = np.asarray(max(a.shape[-2:]) * np.finfo(a.dtype).eps, a.dtype)
        relative = given.get("rtol", np.where(absolute > 0, np.zeros((), a.dtype), default))
        largest = sizes.max(axis=-1, initial=0)
        limit = np.maximum(absolute, relative * largest)[..., None]
        kept = sizes > limit
        inverse = np.where(kept, 1 / np.where(kept, values, 1), 0).astype(a.dtype)
        return _transposed(right) * inverse[..., None, :] @ _transposed(left)

    named = {"atol": atol, "rtol": rtol}
    if not x.size:
        return xp.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), dtype=x.dtype)
    return _host("pinv", compute, x, *(t for t in named.values() if t is not None))


# -- orthogonal matrices ---------------------------------------------------------------------------


@aten("linalg_qr.default", host=True)
def qr(x: Any, mode: Any = "reduced") -> tuple[Any, Any]:
    """Return orthogonal and upper triangular factors; in the mode 'r' the second alone."""
    if mode == "r":
        return xp.zeros(0, dtype=x.dtype), qr(x)[1]
    if not x.size and mode == "complete":
        rows = x.shape[-2]
        q = xp.broadcast_to(xp.eye(rows, dtype=x.dtype), (*x.shape[:-1], rows))
        return q, xp.zeros(x.shape, dtype=x.dtype)

    def compute(a: Array) -> tuple[Array, Array]:
        q, r = np.linalg.qr(a, mode=mode)
        _full_rank(np.diagonal(r, axis1=-2, axis2=-1), max(a.shape[-2:]))
        return q, r

    result = _host("qr", compute, x)
    return result[0], result[1]


@aten("geqrf.default", host=True)
def geqrf(x: Any) -> tuple[Any, Any]:
    """Return the reflections of a QR factorization below its triangle, and their factors."""

    def compute(a: Array) -> tuple[Array, Array]:
        reflectors, factors = np.linalg.qr(a, mode="raw")
        _full_rank(np.diagonal(reflectors, axis1=-2, axis2=-1), max(a.shape[-2:]))
        return _transposed(reflectors), factors

    result = _host("geqrf", compute, x)
    return result[0], result[1]


def _reflected(a: Array, tau: Array, x: Array, backwards: bool) -> Array:
    """Return x after the reflections whose vectors are the columns of a: 1 above them at 1."""
    result = x.copy()
    order = range(tau.shape[-1])
    for k in reversed(order) if backwards else order:
        vector = np.concatenate(
            [np.ones((*a.shape[:-2], 1), a.dtype), a[..., k + 1 :, k]], axis=-1
        )[..., :, None]
        below = result[..., k:, :]
        product = _transposed(vector) @ below
        result[..., k:, :] = below - tau[..., k, None, None] * vector * product
    return result


@aten("ormqr.default", host=True)
def ormqr(x: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """Return the product of another matrix with an orthogonal one, which is given as reflections.

    From the right, C Q is the transposed of Qᵀ Cᵀ.
    """

    def compute(a: Array, t: Array, c: Array) -> Array:
        if left:
            return _reflected(a, t, c, backwards=not transpose)
        return _transposed(_reflected(a, t, _transposed(c), backwards=transpose))

    return _host("ormqr", compute, x, tau, other)


@aten("linalg_householder_product.default", host=True)
def householder_product(x: Any, tau: Any) -> Any:
    """Return the first columns of an orthogonal matrix that is given as reflections."""

    def compute(a: Array, t: Array) -> Array:
        first = np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape)
        return _reflected(a, t, first, backwards=True)

    return _host("householder_product", compute, x, tau)


# -- triangular systems and Cholesky factors -------------------------------------------------------


def _triangle(a: Array, upper: bool, unit: bool) -> Array:
    """Return a triangle of matrices; with ones in the diagonal where it is `unit`."""
    kept = np.triu(a) if upper else np.tril(a)
    if not unit:
        return kept
    eye = np.eye(a.shape[-1], dtype=bool)
    return np.where(eye, np.ones((), a.dtype), kept)


def _substituted(a: Array, b: Array, upper: bool) -> Array:
    """Return the solution of a triangular system.

    The elimination of an upper triangle has nothing to do, so that LAPACK's general solution is
    back substitution; a lower triangle is an upper one with rows and columns in reverse order.
    """
    if upper:
        return np.linalg.solve(a, b)
    return np.linalg.solve(a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :]


def _triangular(a: Array, b: Array, upper: bool, left: bool, unit: bool) -> Array:
    """Return x of a triangular system a x = b, or x a = b."""
    matrix = _triangle(a, upper, unit)
    if left:
        return _substituted(matrix, b, upper)
    return _transposed(_substituted(_transposed(matrix), _transposed(b), not upper))


@aten("linalg_solve_triangular.default", host=True)
def solve_triangular(
    x: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """Return the solution of triangular systems."""
    return _host(
        "solve_triangular", lambda a, c: _triangular(a, c, upper, left, unitriangular), x, b
    )


@aten("triangular_solve.default", host=True)
def triangular_solve(
    b: Any, x: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Any, Any]:
    """Return the solution of triangular systems, and their matrices."""

    def compute(c: Array, a: Array) -> tuple[Array, Array]:
        matrix = _triangle(a, upper, unitriangular)
        coefficients = _transposed(matrix) if transpose else matrix
        solution = _substituted(coefficients, c, upper != transpose)
        return solution, np.broadcast_to(a, (*solution.shape[:-2], *a.shape[-2:])).copy()

    result = _host("triangular_solve", compute, b, x)
    return result[0], result[1]


@aten("linalg_cholesky_ex.default", host=True)
def cholesky_ex(x: Any, upper: bool = False, check_errors: bool = False) -> tuple[Any, Any]:
    """Return triangular factors of positive definite matrices, and that there were no errors."""
    return cholesky(x, upper), xp.zeros(x.shape[:-2], dtype="int32")


@aten("cholesky.default", host=True)
def cholesky(x: Any, upper: bool = False) -> Any:
    """Return triangular factors of positive definite matrices, from one of their triangles."""
    return _host("cholesky", lambda a: np.linalg.cholesky(a, upper=upper), x)


@aten("cholesky_solve.default", host=True)
def cholesky_solve(b: Any, x: Any, upper: bool = False) -> Any:
    """Return the solution of systems from the Cholesky factors of their matrices."""
    return _host("cholesky_solve", lambda c, a: _by_cholesky(a, c, upper), b, x)


@aten("cholesky_inverse.default", host=True)
def cholesky_inverse(x: Any, upper: bool = False) -> Any:
    """Return inverses of matrices from their Cholesky factors."""

    def compute(a: Array) -> Array:
        identity = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
        return _by_cholesky(a, identity, upper)

    return _host("cholesky_inverse", compute, x)


def _by_cholesky(a: Array, b: Array, upper: bool) -> Array:
    """Return the solution of a system from the Cholesky factor of its matrix."""
    factor = _triangle(a, upper, unit=False)
    lower = _transposed(factor) if upper else factor
    return _substituted(_transposed(lower), _substituted(lower, b, False), True)


# -- factors of elimination ------------------------------------------------------------------------


def _eliminated(a: Array) -> tuple[Array, Array]:
    """Return both triangles of LU factors in one, and which rows were exchanged, from 1 on.

    Of the elements of a column the largest is the pivot, of equal ones the first, as in LAPACK.
    """
    lu = a.copy()
    count = min(a.shape[-2:])
    pivots = np.zeros((*a.shape[:-2], count), np.int32)
    for k in range(count):
        chosen = np.abs(lu[..., k:, k]).argmax(axis=-1) + k
        pivots[..., k] = chosen + 1
        at = chosen[..., None, None]
        row, other = lu[..., k : k + 1, :].copy(), np.take_along_axis(lu, at, axis=-2)
        np.put_along_axis(lu, at, row, axis=-2)
        lu[..., k : k + 1, :] = other
        _full_rank(np.diagonal(lu, axis1=-2, axis2=-1)[..., : k + 1], max(a.shape[-2:]))
        lu[..., k + 1 :, k] /= lu[..., k, k, None]
        lu[..., k + 1 :, k + 1 :] -= lu[..., k + 1 :, k : k + 1] * lu[..., k : k + 1, k + 1 :]
    return lu, pivots


MOST_COLUMNS = 128
"""The most columns that are eliminated one by one; chosen by hand, LAPACK works in blocks."""


def _order(pivots: Array, rows: int) -> Array:
    """Return where each row was before the exchanges of an elimination."""
    order = np.broadcast_to(np.arange(rows), (*pivots.shape[:-1], rows)).copy()
    for k in range(pivots.shape[-1]):
        at = (pivots[..., k] - 1)[..., None].astype(np.int64)
        row, other = order[..., k : k + 1].copy(), np.take_along_axis(order, at, axis=-1)
        np.put_along_axis(order, at, row, axis=-1)
        order[..., k : k + 1] = other
    return order


@aten("linalg_lu_factor_ex.default", host=True)
def lu_factor_ex(x: Any, pivot: bool = True, check_errors: bool = False) -> tuple[Any, Any, Any]:
    """Return both LU factors in one matrix, the exchanged rows, and that no pivot is 0."""
    if not pivot or min(x.shape[-2:]) > MOST_COLUMNS:
        raise UncoveredFormError("LU factors without pivots, or of large matrices")
    lu, pivots = _host("lu", _eliminated, x)
    return lu, pivots, xp.zeros(x.shape[:-2], dtype="int32")


@aten("lu_unpack.default", host=True)
def lu_unpack(
    x: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Any, Any, Any]:
    """Return the permutation and the triangles of LU factors; those not wanted are empty."""
    rows, columns = x.shape[-2:]
    count = min(rows, columns)
    nothing = xp.zeros(0, dtype=x.dtype)
    p = lower = upper = nothing
    if unpack_data:
        lower = xp.tril(x, k=-1)[..., :count] + xp.eye(rows, count, dtype=x.dtype)
        upper = xp.triu(x)[..., :count, :]
    if unpack_pivots:
        order = on_host("lu_unpack", lambda t: _order(t, rows), pivots)[0]
        p = (xp.arange(rows)[:, None] == order[..., None, :]).astype(x.dtype)
    return p, lower, upper


@aten("linalg_lu.default", host=True)
def lu(x: Any, pivot: bool = True) -> tuple[Any, Any, Any]:
    """Return matrices as products of a permutation, a lower and an upper triangle."""
    factors, pivots, _ = lu_factor_ex(x, pivot)
    return lu_unpack(factors, pivots)


@aten("linalg_lu_solve.default", host=True)
def lu_solve(factors: Any, pivots: Any, b: Any, left: bool = True, adjoint: bool = False) -> Any:
    """Return the solution of systems a x = b or x a = b from the LU factors of a, or of aᵀ."""

    def compute(a: Array, t: Array, c: Array) -> Array:
        order = _order(t, a.shape[-1])
        right = c if left else _transposed(c)
        batch = np.broadcast_shapes(a.shape[:-2], right.shape[:-2])
        order = np.broadcast_to(order, (*batch, a.shape[-1]))[..., None]
        right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
        lower, upper = _triangle(a, False, unit=True), np.triu(a)
        if left != adjoint:  # a = p l u
            permuted = np.take_along_axis(right, order, axis=-2)
            x = _substituted(upper, _substituted(lower, permuted, False), True)
        else:  # aᵀ = uᵀ lᵀ pᵀ
            inner = _substituted(_transposed(upper), right, False)
            inner = _substituted(_transposed(lower), inner, True)
            x = np.empty_like(inner)
            np.put_along_axis(x, np.broadcast_to(order, inner.shape), inner, axis=-2)
        return x if left else _transposed(x)

    return _host("lu_solve", compute, factors, pivots, b)


@aten("_linalg_det.default", host=True)
def det(x: Any) -> tuple[Any, None, None]:
    """Return determinants; LU factors, of x or its transposed as strides have it, are left out."""
    return _host("det", np.linalg.det, x), None, None


@aten("_linalg_slogdet.default", host=True)
def slogdet(x: Any) -> tuple[Any, Any, None, None]:
    """Return signs of determinants and logarithms of their absolute values, without LU factors."""
    sign, logarithm = _host("slogdet", lambda a: tuple(np.linalg.slogdet(a)), x)
    return sign, logarithm, None, None


@aten("_linalg_solve_ex.default", host=True)
def solve_ex(
    x: Any, b: Any, left: bool = True, check_errors: bool = False
) -> tuple[Any, None, None, Any]:
    """Return the solution of systems a x = b or x a = b, without LU factors."""
    vector = b.ndim == 1 or (b.ndim == x.ndim - 1 and tuple(b.shape) == tuple(x.shape[:-1]))
    matrix = xp.expand_dims(b, axis=-1) if vector else b
    if left:
        solution = _solved(x, matrix)
    else:
        solution = xp.swapaxes(_solved(xp.swapaxes(x, -1, -2), xp.swapaxes(matrix, -1, -2)), -1, -2)
    solution = xp.squeeze(solution, axis=-1) if vector else solution
    return solution, None, None, xp.zeros(x.shape[:-2], dtype="int32")


def _solved(x: Any, b: Any) -> Any:
    """Return the solution of systems with finite operands."""
    return _host("solve", np.linalg.solve, x, b)


@aten("linalg_inv_ex.default", host=True)
def inv_ex(x: Any, check_errors: bool = False) -> tuple[Any, Any]:
    """Return inverses, and that there were no errors."""
    return _host("inv", np.linalg.inv, x), xp.zeros(x.shape[:-2], dtype="int32")
