"""Complex products: matrix products by four real ones, sums of products, variances."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from porism.base.dtypes import DType
from porism.tensor import namespace
from porism.tensor.api import linear_algebra, reductions
from porism.tensor.api.arithmetic import abs as absolute
from porism.tensor.api.arithmetic import add, astype, sqrt
from porism.tensor.api.comparison import isfinite, isnan
from porism.tensor.complex.complex_arithmetic import nonzero_bools, pair, parts
from porism.tensor.complex.complex_tensor import (
    ComplexTensor,
    as_complex,
    common_type,
    implements,
    is_complex,
    promoted,
)
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.reshape import reshape
from porism.tensor.promotion import PART_TYPE, as_dtype, complex_type
from porism.tensor.shapes import normalize_axes, normalize_axis, shapes_equal
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor


def _bilinear(name: str) -> Any:
    """Return the implementation of a function that is linear in each of two operands."""

    def apply(x1: Any, x2: Any, *args: Any, **kwargs: Any) -> Any:
        x, y = promoted(x1, x2)
        a, b, c, d = x.real_part, x.imag_part, y.real_part, y.imag_part
        f = namespace.find(name)
        return pair(
            f(a, c, *args, **kwargs) - f(b, d, *args, **kwargs),
            f(a, d, *args, **kwargs) + f(b, c, *args, **kwargs),
        )

    return apply


for _name in ("matmul", "tensordot", "outer", "dot", "inner", "kron", "cross", "convolve"):
    implements(_name)(_bilinear(_name))


@implements("einsum")
def _einsum(equation: str, *tensors: Any) -> Tensor:
    """Return the sum of products, which is linear in the parts of each operand."""
    function = namespace.find("einsum")
    common = PART_TYPE[common_type(*tensors)]
    real: list[Tensor] = []
    imag: list[Tensor] = []
    choices = [_powers_of_i(x, common) for x in tensors]
    for chosen in itertools.product(*choices):
        term = function(equation, *(part for _, part in chosen))
        power = sum(exponent for exponent, _ in chosen)
        (imag if power % 2 else real).append(-term if power % 4 >= 2 else term)
    return pair(functools.reduce(add, real), functools.reduce(add, imag))


def _powers_of_i(x: Any, dtype: DType) -> list[tuple[int, Tensor]]:
    """Return the parts of an operand with their factors i⁰ and i¹; of a real one the first."""
    if not is_complex(x):
        return [(0, astype(as_tensor(x), dtype))]
    z = as_complex(x, complex_type(dtype))
    return [(0, z.real_part), (1, z.imag_part)]


@implements("correlate")
def _correlate(x1: Any, x2: Any, mode: str = "valid") -> Tensor:
    """Return the correlation with the conjugate of the second operand."""
    x, y = promoted(x1, x2)
    f = namespace.find("correlate")
    a, b, c, d = x.real_part, x.imag_part, y.real_part, y.imag_part
    return pair(f(a, c, mode) + f(b, d, mode), f(b, c, mode) - f(a, d, mode))


@implements("polyval")
def _polyval(p: Any, x: Any) -> Tensor:
    """Return the value of a polynomial by Horner's rule."""
    coefficients, points = promoted(p, x)
    total: Any = points * 0
    for k in range(static_size(coefficients.shape[0], "polyval")):
        total = total * points + coefficients[k]
    return total  # type: ignore[no-any-return]


@implements("var")
def _var(x: Any, axis: Any = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Return the variance, which is real: the sum of the variances of the parts."""
    real, imag = parts(x)
    f = reductions.var
    first = f(real, axis, correction=correction, keepdims=keepdims)
    return first + f(imag, axis, correction=correction, keepdims=keepdims)


@implements("std")
def _std(x: Any, axis: Any = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    return sqrt(_var(x, axis, correction=correction, keepdims=keepdims))


@implements("isclose")
def _isclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Return where |x1 - x2| is at most atol + rtol·|x2|, or both are equal."""
    x, y = promoted(x1, x2)
    near = absolute(x - y) <= absolute(y) * rtol + atol
    close = (near & isfinite(y)) | (x == y)
    return close | (isnan(x) & isnan(y)) if equal_nan else close


@implements("allclose")
def _allclose(*args: Any, **kwargs: Any) -> Tensor:
    return reductions.all(_isclose(*args, **kwargs))


@implements("array_equal")
def _array_equal(x1: Any, x2: Any, equal_nan: bool = False) -> Tensor:
    x, y = as_complex(x1), as_complex(x2)
    if not shapes_equal(x.shape, y.shape):
        return as_tensor(False)
    same = x == y
    return reductions.all(same | (isnan(x) & isnan(y)) if equal_nan else same)


@implements("vecdot")
def _vecdot(x1: Any, x2: Any, *, axis: int = -1) -> Tensor:
    """Return the dot product with the conjugate of the first operand."""
    x, y = promoted(x1, x2)
    a, b, c, d = x.real_part, x.imag_part, y.real_part, y.imag_part
    f = linear_algebra.vecdot
    return pair(f(a, c, axis=axis) + f(b, d, axis=axis), f(a, d, axis=axis) - f(b, c, axis=axis))


@implements("any")
def _any(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return reductions.any(nonzero_bools(x), axis, keepdims=keepdims)


@implements("all")
def _all(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return reductions.all(nonzero_bools(x), axis, keepdims=keepdims)


@implements("count_nonzero")
def _count_nonzero(x: Any, *args: Any, **kwargs: Any) -> Tensor:
    return reductions.count_nonzero(nonzero_bools(x), *args, **kwargs)


@implements("norm", "vector_norm")
def _norm(x: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Return a norm of the magnitudes."""
    size = namespace.find("abs")(as_complex(x))
    name = "norm" if args else "vector_norm"
    return namespace.find(name)(size, *args, **kwargs)  # type: ignore[no-any-return]


# -- products along axes ---------------------------------------------------------------------------


@implements("prod")
def _prod(x: Any, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return products along axes: halves of an axis are multiplied until one element is left."""
    z: Any = as_complex(x, None if dtype is None else as_dtype(dtype))
    axes = normalize_axes(axis, z.ndim)
    for k in axes:
        z = _halved(z, k)
    shape = z.shape
    kept = shape if keepdims else [n for k, n in enumerate(shape) if k not in axes]
    return reshape(z, kept)


def _halved(z: Any, axis: int) -> Any:
    """Return the products along an axis, which has size 1 then."""
    count = static_size(z.shape[axis], "a product of complex numbers")
    if count == 0:
        shape = [1 if k == axis else n for k, n in enumerate(z.shape)]
        return namespace.find("full")(shape, 1, dtype=z.dtype)
    before = (slice(None),) * axis
    while count > 1:
        half = count // 2
        product = z[(*before, slice(0, half))] * z[(*before, slice(half, 2 * half))]
        if count % 2:
            product = namespace.find("concat")([product, z[(*before, slice(-1, None))]], axis)
        z, count = product, half + count % 2
    return z


@implements("cumulative_prod")
def _cumulative_prod(
    x: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Return running products: each step multiplies by the products of twice as many before."""
    z: Any = as_complex(x, None if dtype is None else as_dtype(dtype))
    z = z.reshape([-1]) if axis is None and z.ndim == 0 else z
    along = normalize_axis(0 if axis is None and z.ndim == 1 else axis, z.ndim)
    count = static_size(z.shape[along], "a running product of complex numbers")
    before, concat = (slice(None),) * along, namespace.find("concat")
    distance = 1
    while distance < count:
        first = z[(*before, slice(0, distance))]
        rest = z[(*before, slice(distance, None))] * z[(*before, slice(0, count - distance))]
        z, distance = concat([first, rest], along), distance * 2
    if include_initial:
        shape = [1 if k == along else n for k, n in enumerate(z.shape)]
        z = concat([namespace.find("full")(shape, 1, dtype=z.dtype), z], along)
    return pair(z.real_part, z.imag_part)


@implements("cumprod")
def _cumprod(x: Any, axis: int, *, dtype: Any = None) -> Tensor:
    return _cumulative_prod(x, axis=axis, dtype=dtype)


@implements("linear")
def _linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    result = linear_algebra.matmul(x, as_complex(weight).T)
    return result if bias is None else result + bias


def squared_size(z: ComplexTensor) -> Tensor:
    """Return |z|²."""
    real, imag = parts(z)
    return real * real + imag * imag
