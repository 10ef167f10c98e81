"""Complex products: matrix products by four real ones, products along axes by halving."""

from __future__ import annotations

from typing import Any

from porism.tensor import namespace
from porism.tensor.api import linear_algebra, reductions
from porism.tensor.complex.complex_arithmetic import nonzero_bools, pair, parts
from porism.tensor.complex.complex_tensor import (
    ComplexTensor,
    as_complex,
    implements,
    promoted,
)
from porism.tensor.movement.reshape import reshape
from porism.tensor.promotion import as_dtype
from porism.tensor.shapes import normalize_axes, normalize_axis
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


for _name in ("matmul", "tensordot", "outer", "dot", "inner", "kron", "cross"):
    implements(_name)(_bilinear(_name))


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
    return z  # type: ignore[no-any-return]


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
