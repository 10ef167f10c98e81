"""Linear algebra, the extension `linalg` of the Array API: `porism.linalg.svd(x)`.

Products, norms, powers and traces are compiled as all functions on tensors. Factorizations,
inverses, determinants and solutions are computed by LAPACK, through NumPy: eagerly, so that inside
of a jitted function they are an error.

>>> import porism
>>> porism.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0]).tolist()
[1.0, 0.5]
"""

from __future__ import annotations

from typing import Any

from porism.tensor import namespace
from porism.tensor.api.linear_algebra import matmul, outer, tensordot, trace, vecdot
from porism.tensor.api.reductions import vector_norm
from porism.tensor.habits.keywords import public
from porism.tensor.habits.unknown_names import UnknownName
from porism.tensor.linalg.factorizations import (
    cholesky,
    det,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    matrix_rank,
    pinv,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
)
from porism.tensor.linalg.matrix_functions import matrix_norm, matrix_power, norm
from porism.tensor.matrices.vector_products import cross
from porism.tensor.movement.reshape import diagonal, matrix_transpose

namespace.find("matmul")  # tensors have their operators

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

for _name in __all__:
    globals()[_name] = public(globals()[_name])


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'porism.linalg' has no attribute {name!r}")
    raise UnknownName("porism.linalg", name, __all__)


def __dir__() -> list[str]:
    return __all__
