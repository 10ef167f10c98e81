"""Closeness: equality up to a tolerance, and floats without NaN and infinities."""

from __future__ import annotations

from typing import Any

from porism.base import dtypes
from porism.ir.node import UOp
from porism.tensor.api.operands import float_node
from porism.tensor.api.reductions import accumulation_dtype
from porism.tensor.api.reductions import all as all_of
from porism.tensor.conversion import as_tensor, promote_operands, weak_or_tensor
from porism.tensor.float_formulas import is_finite, magnitude, select
from porism.tensor.promotion import constant, result_type
from porism.tensor.shapes import shapes_equal
from porism.tensor.tensor import Tensor, method


def _compared(x1: Any, x2: Any) -> tuple[UOp, UOp]:
    """Return two operands in a float type that holds both, integers in f64."""
    common = result_type(weak_or_tensor(x1), weak_or_tensor(x2))
    wide = accumulation_dtype(common) if common.is_float else dtypes.f64
    a, b = promote_operands(x1, x2, dtype=wide)
    return a, b


@method
def isclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Return where |x1 - x2| is at most atol + rtol·|x2|, or both are the same infinity.

    With `equal_nan` two NaNs are close as well.

    >>> porism.isclose([1.0, 2.0], [1.000001, 2.1]).tolist()
    [True, False]
    """
    a, b = _compared(x1, x2)
    near = magnitude(a - b) <= magnitude(b) * rtol + atol
    close = (near & is_finite(b)) | a.eq(b)
    return Tensor(close | (a.ne(a) & b.ne(b)) if equal_nan else close)


@method
def allclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Return whether all elements are close, as `isclose` says: a tensor of one bool.

    >>> porism.allclose([1.0, 2.0], [1.000001, 2.0]).item()
    True
    """
    return all_of(isclose(x1, x2, rtol, atol, equal_nan))


@method
def array_equal(x1: Any, x2: Any, equal_nan: bool = False) -> Tensor:
    """Return whether two tensors have the same shape and the same elements: a tensor of one bool.

    >>> porism.array_equal([1, 2], [1, 2]).item(), porism.array_equal([1, 2], [1]).item()
    (True, False)
    """
    left, right = as_tensor(x1), as_tensor(x2)
    if not shapes_equal(left.shape, right.shape):
        return Tensor(constant(dtypes.boolean, False))
    a, b = promote_operands(left, right)
    same = a.eq(b)
    return all_of(Tensor(same | (a.ne(a) & b.ne(b)) if equal_nan else same))


@method
def nan_to_num(
    x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Return x with other numbers for NaN and infinities: by default 0 and the largest floats.

    >>> porism.nan_to_num([float("nan"), float("inf"), 1.0], posinf=9.0).tolist()
    [0.0, 9.0, 1.0]
    """
    node = as_tensor(x).node
    if not node.dtype.is_float:
        return Tensor(node)
    highest = _largest(node) if posinf is None else posinf
    lowest = -_largest(node) if neginf is None else neginf
    return Tensor(
        select(
            node.ne(node),
            node.lift(nan),
            node.eq(float("inf")),
            node.lift(highest),
            node.eq(float("-inf")),
            node.lift(lowest),
            node,
        )
    )


def _largest(x: UOp) -> float:
    """Return the largest finite number of the type of a node."""
    from porism.tensor.api.dtype_info import finfo

    return float(finfo(x.dtype).max)


@method
def isposinf(x: Any) -> Tensor:
    """Return where x is plus infinity.

    >>> porism.isposinf([float("inf"), float("-inf"), 1.0]).tolist()
    [True, False, False]
    """
    return Tensor(float_node(x).eq(float("inf")))


@method
def isneginf(x: Any) -> Tensor:
    """Return where x is minus infinity.

    >>> porism.isneginf([float("inf"), float("-inf"), 1.0]).tolist()
    [False, True, False]
    """
    return Tensor(float_node(x).eq(float("-inf")))
