"""Host calls: a function of NumPy, computed eagerly on the values of tensors.

Factorizations of matrices are LAPACK's, through NumPy: their operands are realized, and the result
is a realized tensor. Inside of a jitted function there are no values, so a host call is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from porism.base.dtypes import DType, Kind, f32
from porism.base.errors import PorismError
from porism.tensor.api.arithmetic import astype
from porism.tensor.api.creation import asarray
from porism.tensor.jit.tracing import current
from porism.tensor.promotion import float_type, result_type
from porism.tensor.shapes import shape_error, to_text
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line


class MatrixError(PorismError, np.linalg.LinAlgError):
    """A matrix without the result that is asked for, such as the inverse of a singular one."""


def matrices(what: str, *values: Any, square: bool = False) -> tuple[Tensor, ...]:
    """Return operands as tensors of their common float or complex type; refuse non-matrices."""
    tensors = [asarray(value) for value in values]
    common = result_type(*tensors)
    if common.kind is not Kind.COMPLEX:
        common = float_type(common)
    sizes = tensors[0].shape
    if len(sizes) < 2 or (square and sizes[-1] != sizes[-2]):
        raise shape_error(
            f"{what} of a tensor of shape {to_text(sizes)}",
            f"it takes {'square ' if square else ''}matrices: the last two axes"
            + (", of one size" if square else ""),
            "reshape or slice it first",
        )
    return tuple(x if x.dtype.base is common else astype(x, common) for x in tensors)


def on_host(what: str, function: Callable[..., Any], *operands: Tensor) -> tuple[Tensor, ...]:
    """Return what a function of NumPy gives on the values of operands, each array as a tensor.

    Floats narrower than 32 bits are computed in f32. Results of floats have the operands' type.
    """
    if current.get() is not None:
        raise PorismError(
            f"{what} inside of a jitted function",
            where=users_line(),
            why="it is computed by LAPACK on values, and a function that is traced has none",
            fix="call it outside, and pass the result to the jitted function",
        )
    own = operands[0].dtype.base
    arrays = [_computed(x) for x in operands]
    try:
        with np.errstate(all="ignore"):
            results = function(*arrays)
    except np.linalg.LinAlgError as error:
        raise MatrixError(
            f"{what} of a tensor of shape {to_text(operands[0].shape)}",
            where=users_line(),
            why=str(error),
            fix="check the matrix first; porism.linalg.pinv has a result for every matrix",
        ) from None
    several = isinstance(results, tuple)
    device = operands[0].device
    arrays = list(results) if several else [results]
    return tuple(_tensor(array, own, device) for array in arrays)


def _computed(x: Tensor) -> Any:
    """Return the values of a tensor in a type that LAPACK has."""
    values = x.numpy()
    return values.astype(f32.numpy) if x.dtype.base.bits < 32 else values


def _tensor(array: Any, own: DType, device: str) -> Tensor:
    """Return an array as a tensor; floats computed in f32 in the narrower type of the operands."""
    tensor = asarray(np.asarray(array), device=device)
    narrow = own.is_float and own.bits < 32 and tensor.dtype.base is f32
    return astype(tensor, own) if narrow else tensor
