"""Factorizations: decompositions, inverses and solutions of linear systems, by LAPACK.

They are computed eagerly through NumPy (`porism.tensor.linalg.host_calls`). All take stacks of
matrices: leading axes are batches.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from porism.tensor.linalg.host_calls import matrices, on_host
from porism.tensor.promotion import type_error
from porism.tensor.shapes import shape_error, to_text
from porism.tensor.tensor import Tensor


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as the columns of matrices."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as the columns of matrices."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """An orthogonal matrix and an upper triangular one."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """Left singular vectors, singular values in descending order, right singular vectors."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """Return the lower triangular L with L @ L.mT = x, of a positive definite x; or L.mT.

    Only the lower triangle of x is used, with `upper` only the upper one.

    >>> porism.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    (a,) = matrices("cholesky", x, square=True)
    return on_host("cholesky", lambda m: np.linalg.cholesky(m, upper=upper), a)[0]


def det(x: Any, /) -> Tensor:
    """Return the determinant of square matrices.

    >>> porism.linalg.det([[2.0, 1.0], [0.0, 3.0]]).item()
    6.0
    """
    return on_host("det", np.linalg.det, *matrices("det", x, square=True))[0]


def slogdet(x: Any, /) -> SlogdetResult:
    """Return the sign of the determinant and the logarithm of its absolute value.

    >>> porism.linalg.slogdet([[2.0, 0.0], [0.0, -0.5]]).sign.item()
    -1.0
    """
    (a,) = matrices("slogdet", x, square=True)
    return SlogdetResult(*on_host("slogdet", lambda m: tuple(np.linalg.slogdet(m)), a))


def eig(x: Any, /) -> EigResult:
    """Return the eigenvalues and eigenvectors of square matrices, which are complex.

    >>> porism.linalg.eig([[0.0, 1.0], [-1.0, 0.0]]).eigenvalues.tolist()
    [1j, -1j]
    """
    (a,) = matrices("eig", x, square=True)
    return EigResult(*on_host("eig", lambda m: tuple(map(_complex, np.linalg.eig(m))), a))


def eigvals(x: Any, /) -> Tensor:
    """Return the eigenvalues of square matrices, which are complex.

    >>> porism.linalg.eigvals([[2.0, 0.0], [0.0, 3.0]]).tolist()
    [(2+0j), (3+0j)]
    """
    (a,) = matrices("eigvals", x, square=True)
    return on_host("eigvals", lambda m: _complex(np.linalg.eigvals(m)), a)[0]


def _complex(array: Any) -> Any:
    """Return an array in the complex type of its precision."""
    return array.astype(np.result_type(array.dtype, np.complex64), copy=False)


def eigh(x: Any, /) -> EighResult:
    """Return the eigenvalues and eigenvectors of symmetric (Hermitian) matrices.

    Only the lower triangle is used.

    >>> porism.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues.tolist()
    [1.0, 2.0]
    """
    (a,) = matrices("eigh", x, square=True)
    return EighResult(*on_host("eigh", lambda m: tuple(np.linalg.eigh(m)), a))


def eigvalsh(x: Any, /) -> Tensor:
    """Return the eigenvalues of symmetric (Hermitian) matrices, in ascending order.

    >>> porism.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [1.0, 2.0]
    """
    return on_host("eigvalsh", np.linalg.eigvalsh, *matrices("eigvalsh", x, square=True))[0]


def inv(x: Any, /) -> Tensor:
    """Return the inverse of square matrices.

    >>> porism.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return on_host("inv", np.linalg.inv, *matrices("inv", x, square=True))[0]


def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """Return the pseudo-inverse of matrices.

    Singular values up to `rtol` times the largest count as 0; by default `rtol` is the larger size
    of the matrix times the machine epsilon.

    >>> porism.linalg.pinv([[2.0, 0.0], [0.0, 0.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    (a,) = matrices("pinv", x)
    tolerance = rtol.numpy() if isinstance(rtol, Tensor) else rtol
    return on_host("pinv", lambda m: np.linalg.pinv(m, rtol=_relative(tolerance, m)), a)[0]


def _relative(tolerance: Any, matrix: Any) -> Any:
    """Return a relative tolerance for singular values, in the precision of a matrix."""
    if tolerance is not None:
        return np.asarray(tolerance)
    return max(matrix.shape[-2:]) * np.finfo(matrix.dtype).eps


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """Return the rank of matrices: how many singular values are above `rtol` times the largest.

    >>> porism.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]).item()
    1
    """
    (a,) = matrices("matrix_rank", x)
    tolerance = rtol.numpy() if isinstance(rtol, Tensor) else rtol

    def rank(matrix: Any) -> Any:
        values = np.linalg.svd(matrix, compute_uv=False)
        largest = values.max(axis=-1, keepdims=True, initial=0)
        limit = largest * np.asarray(_relative(tolerance, matrix))[..., None]
        return np.count_nonzero(values > limit, axis=-1).astype(np.int64)

    return on_host("matrix_rank", rank, a)[0]


def qr(x: Any, /, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Return Q with orthonormal columns and an upper triangular R, with Q @ R = x.

    With the mode 'complete', Q is square.

    >>> porism.linalg.qr([[3.0, 1.0], [4.0, 2.0]]).R.shape
    (2, 2)
    """
    if mode not in ("reduced", "complete"):
        raise type_error(
            f"qr with the mode {mode!r}",
            "the modes are 'reduced' and 'complete'",
            "pass one of them",
        )
    (a,) = matrices("qr", x)
    return QRResult(*on_host("qr", lambda m: tuple(np.linalg.qr(m, mode=mode)), a))


def solve(x1: Any, x2: Any, /) -> Tensor:
    """Return the solution of x1 @ x = x2; a tensor x2 with one axis is a vector.

    >>> porism.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    a, b = matrices("solve", x1, x2, square=True)
    own = b.shape[0] if b.ndim == 1 else b.shape[-2] if b.ndim else None
    if own != a.shape[-1]:
        raise shape_error(
            f"solve with tensors of shapes {to_text(a.shape)} and {to_text(b.shape)}",
            "the second has a row for each row of the matrix",
            "transpose or reshape the second",
        )
    return on_host("solve", np.linalg.solve, a, b)[0]


def svd(x: Any, /, full_matrices: bool = True) -> SVDResult:
    """Return U, S and Vh with x = U @ diag(S) @ Vh; with `full_matrices`, U and Vh are square.

    >>> porism.linalg.svd([[3.0, 0.0], [0.0, 4.0]]).S.tolist()
    [4.0, 3.0]
    """
    (a,) = matrices("svd", x)
    wanted = lambda m: tuple(np.linalg.svd(m, full_matrices=full_matrices))  # noqa: E731
    return SVDResult(*on_host("svd", wanted, a))


def svdvals(x: Any, /) -> Tensor:
    """Return the singular values of matrices, in descending order.

    >>> porism.linalg.svdvals([[3.0, 0.0], [0.0, 4.0]]).tolist()
    [4.0, 3.0]
    """
    (a,) = matrices("svdvals", x)
    return on_host("svdvals", lambda m: np.linalg.svd(m, compute_uv=False), a)[0]
