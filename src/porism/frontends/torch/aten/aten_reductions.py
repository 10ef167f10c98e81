"""Reductions of ATen: sums, means, extrema, scans, sorting; and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten.aten_table import UncoveredFormError, aten
from porism.tensor.linalg.host_calls import on_host


def axes_of(x: Any, dim: Any) -> tuple[int, ...]:
    """Return the axes that `dim` stands for: all of them for None and for an empty list."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(x.ndim))
    return tuple(d % max(x.ndim, 1) for d in ([dim] if isinstance(dim, int) else dim))


def _lifted(x: Any) -> Any:
    """Return x with at least one axis, so that it can be reduced along axis 0."""
    return x if x.ndim else xp.reshape(x, (1,))


def _reduce(x: Any, dim: Any, keepdim: bool, function: Any, **options: Any) -> Any:
    """Return a reduction over axes; that of a scalar is of one element."""
    if not x.ndim:
        return xp.reshape(function(_lifted(x), axis=0, **options), ())
    return function(x, axis=axes_of(x, dim), keepdims=keepdim, **options)


def _wide(x: Any, dtype: Any) -> Any:
    """Return integers and bools in the type of the result, before they are added."""
    return x if dtype is None else x.astype(dtype)


@aten("sum.default", "sum.dim_IntList")
def sum_(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Return sums over axes."""
    return _reduce(_wide(x, dtype), dim, keepdim, xp.sum)


@aten("mean.default", "mean.dim")
def mean(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Return means over axes."""
    return _reduce(_wide(x, dtype), dim, keepdim, xp.mean)


@aten("prod.default")
def prod(x: Any, dtype: Any = None) -> Any:
    """Return the product of all elements."""
    return _reduce(_wide(x, dtype), None, False, xp.prod)


@aten("prod.dim_int")
def prod_dim(x: Any, dim: int, keepdim: bool = False, dtype: Any = None) -> Any:
    """Return products along an axis."""
    return _reduce(_wide(x, dtype), dim, keepdim, xp.prod)


@aten("amax.default")
def amax(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return maxima over axes."""
    return _reduce(x, dim, keepdim, xp.max)


@aten("amin.default")
def amin(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return minima over axes."""
    return _reduce(x, dim, keepdim, xp.min)


@aten("max.default")
def max_(x: Any) -> Any:
    """Return the largest element."""
    return _reduce(x, None, False, xp.max)


@aten("min.default")
def min_(x: Any) -> Any:
    """Return the smallest element."""
    return _reduce(x, None, False, xp.min)


@aten("any.default", "any.dim", "any.dims")
def any_(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return whether any element is not 0."""
    return _reduce(x != 0, dim, keepdim, xp.any)


@aten("all.default", "all.dim", "all.dims")
def all_(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return whether all elements are not 0."""
    return _reduce(x != 0, dim, keepdim, xp.all)


@aten("argmax.default")
def argmax(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the index of the largest element along an axis, or of all."""
    return _arg(x, dim, keepdim, xp.argmax)


@aten("argmin.default")
def argmin(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the index of the smallest element along an axis, or of all."""
    return _arg(x, dim, keepdim, xp.argmin)


def _arg(x: Any, dim: int | None, keepdim: bool, function: Any) -> Any:
    """Return argmax or argmin."""
    if dim is None:
        index = function(xp.reshape(x, (-1,)), axis=0)
        return xp.reshape(index, (1,) * x.ndim) if keepdim else index
    if not x.ndim:
        return xp.zeros((), dtype="int64")
    return function(x, axis=dim, keepdims=keepdim)


@aten("max.dim")
def max_dim(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """Return maxima along an axis, and their indices."""
    return amax(x, dim, keepdim), _arg(x, dim, keepdim, xp.argmax)


@aten("min.dim")
def min_dim(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """Return minima along an axis, and their indices."""
    return amin(x, dim, keepdim), _arg(x, dim, keepdim, xp.argmin)


@aten("var.dim")
def var_dim(x: Any, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
    """Return variances over axes."""
    return var(x, dim, correction=int(unbiased), keepdim=keepdim)


@aten("var.correction")
def var(x: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    """Return variances over axes, over n - correction."""
    number = 1 if correction is None else correction
    return _variance(x, dim, number, keepdim)


@aten("std.correction")
def std(x: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    """Return standard deviations over axes."""
    return xp.sqrt(var(x, dim, correction, keepdim))


@aten("var_mean.correction")
def var_mean(
    x: Any, dim: Any = None, correction: Any = None, keepdim: bool = False
) -> tuple[Any, Any]:
    """Return variances and means over axes."""
    return var(x, dim, correction, keepdim), mean(x, dim, keepdim)


def _variance(x: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    """Return the sum of squared differences from the mean, over n - correction."""
    if not x.ndim:
        return xp.reshape(_variance(_lifted(x), 0, correction, False), ())
    axes = axes_of(x, dim)
    count = math.prod(x.shape[k] for k in axes)
    off = x - xp.mean(x, axis=axes, keepdims=True)
    total = xp.sum(off * off, axis=axes, keepdims=keepdim)
    return total / max(count - correction, 0)


@aten("logsumexp.default")
def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    """Return the logarithm of the sum of exponentials over axes."""
    return _reduce(x, dim, keepdim, xp.logsumexp)


@aten("cumsum.default")
def cumsum(x: Any, dim: int, dtype: Any = None) -> Any:
    """Return running sums along an axis."""
    x = _wide(x.astype("int64") if dtype is None and x.dtype.kind in "biu" else x, dtype)
    if x.ndim and not isinstance(x.shape[dim], int):
        return _masked_running_sum(x, dim)
    return xp.cumsum(x, axis=dim) if x.ndim else x


def _masked_running_sum(x: Any, dim: int) -> Any:
    """Return running sums along an axis of a symbolic size, each a sum of the elements before.

    There is no scan whose graph is the same for every size.
    """
    last = xp.moveaxis(x, dim, -1)
    size = last.shape[-1]
    before = xp.arange(size)[None, :] <= xp.arange(size)[:, None]
    sums = xp.sum(xp.where(before, last[..., None, :], 0), axis=-1)
    return xp.moveaxis(sums.astype(x.dtype), -1, dim)


@aten("cumprod.default")
def cumprod(x: Any, dim: int, dtype: Any = None) -> Any:
    """Return running products along an axis."""
    x = _wide(x.astype("int64") if dtype is None and x.dtype.kind in "biu" else x, dtype)
    return xp.cumprod(x, axis=dim) if x.ndim else x


@aten("sort.default")
def sort(x: Any, dim: int = -1, descending: bool = False) -> tuple[Any, Any]:
    """Return sorted values along an axis, and where they were; equal ones keep their order."""
    return sort_stable(x, stable=True, dim=dim, descending=descending)


@aten("sort.stable")
def sort_stable(
    x: Any, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Any, Any]:
    """Return sorted values along an axis, and where they were."""
    if not x.ndim:
        return x, xp.zeros((), dtype="int64")
    order = xp.argsort(x, axis=dim, descending=descending, stable=True)
    return xp.take_along_axis(x, order, axis=dim), order


@aten("topk.default")
def topk(
    x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Any, Any]:
    """Return the largest or smallest values along an axis, and where they were."""
    if not x.ndim:
        return x, xp.zeros((), dtype="int64")
    if x.dtype.kind != "f":
        raise UncoveredFormError("which of several equal elements torch names is its own choice")
    values, indices = xp.topk(x, k, axis=dim, largest=largest)
    return values, indices


@aten("hash_tensor.default", host=True)
def hash_tensor(x: Any, dim: Any = (), keepdim: bool = False, mode: int = 0) -> Any:
    """Return the exclusive or of all elements over axes, as 64 bits of int64 or float64."""
    if mode or not x.size:
        raise UncoveredFormError("a hash of nothing, or of another mode")
    axes = axes_of(x, dim) if x.ndim else ()

    def compute(values: Any) -> Any:
        bits = values.view(np.uint64)
        if not axes:
            return bits
        kept = np.bitwise_xor.reduce(bits, axis=axes, keepdims=True)
        return kept if keepdim else kept.squeeze(axes)

    wide = x.astype("float64" if x.dtype.kind == "f" else "int64")
    return on_host("hash_tensor", compute, wide)[0]


# -- products of matrices --------------------------------------------------------------------------


@aten("mm.default", "bmm.default", "mv.default", "dot.default")
def mm(x: Any, y: Any) -> Any:
    """Return a product of matrices."""
    return xp.matmul(x, y)


@aten("addmm.default")
def addmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return beta · x + alpha · a @ b; the factors of integers are integers."""
    if a.dtype.kind in "iu":
        beta, alpha = int(beta), int(alpha)
    product = xp.matmul(a, b)
    if alpha != 1:
        product = product * alpha
    return product if beta == 0 else product + (x if beta == 1 else x * beta)


@aten("baddbmm.default")
def baddbmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return beta · x + alpha · a @ b for a batch of matrices."""
    return addmm(x, a, b, beta, alpha)


@aten("addbmm.default")
def addbmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return beta · x + alpha · the sum of a @ b over a batch of matrices."""
    rows, columns = a.shape[1], b.shape[2]
    left = xp.reshape(xp.moveaxis(a, 0, 1), (rows, a.shape[0] * a.shape[2]))
    right = xp.reshape(b, (b.shape[0] * b.shape[1], columns))
    return addmm(x, left, right, beta, alpha)


@aten("addmv.default")
def addmv(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return beta · x + alpha · a @ b for a vector b."""
    return addmm(x, a, b, beta, alpha)


@aten("_softmax.default")
def softmax(x: Any, dim: int, half_to_float: bool) -> Any:
    """Return exp(x) over its sum along an axis."""
    return xp.softmax(x, axis=dim) if x.ndim else xp.ones_like(x)


@aten("_log_softmax.default")
def log_softmax(x: Any, dim: int, half_to_float: bool) -> Any:
    """Return the logarithm of softmax along an axis."""
    return xp.log_softmax(x, axis=dim) if x.ndim else xp.zeros_like(x)


@aten("_softmax_backward_data.default")
def softmax_backward(grad: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    """Return the gradient of softmax from its result."""
    if not grad.ndim:
        return xp.zeros_like(grad)
    product = grad * output
    return product - output * xp.sum(product, axis=dim, keepdims=True)


@aten("_log_softmax_backward_data.default")
def log_softmax_backward(grad: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    """Return the gradient of log_softmax from its result."""
    if not grad.ndim:
        return xp.zeros_like(grad)
    return grad - xp.exp(output) * xp.sum(grad, axis=dim, keepdims=True)


def norm_axes(shape: Sequence[int], count: int) -> tuple[int, ...]:
    """Return the last `count` axes of a shape."""
    return tuple(range(len(shape) - count, len(shape)))


# -- norms, running extrema ------------------------------------------------------------------------


@aten("linalg_vector_norm.default")
def vector_norm(
    x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """Return norms over axes: the largest, the smallest, the count, or a root of powers."""
    x = xp.abs(_wide(x, dtype))
    if ord == math.inf:
        return _reduce(x, dim, keepdim, xp.max)
    if ord == -math.inf:
        return _reduce(x, dim, keepdim, xp.min)
    if ord == 0:
        return _reduce((x != 0).astype(x.dtype), dim, keepdim, xp.sum)
    if ord == 1:
        return _reduce(x, dim, keepdim, xp.sum)
    if ord == 2:
        return xp.sqrt(_reduce(x * x, dim, keepdim, xp.sum))
    return xp.pow(_reduce(xp.pow(x, float(ord)), dim, keepdim, xp.sum), 1 / ord)


def _running(x: Any, dim: int, scan: Any) -> tuple[Any, Any]:
    """Return running extrema along an axis, and where each is; of equal ones the last."""
    if not x.ndim:
        return x, xp.zeros((), dtype="int64")
    values = scan(x, axis=dim)
    axis = dim % x.ndim
    shape = tuple(-1 if k == axis else 1 for k in range(x.ndim))
    position = xp.broadcast_to(xp.reshape(xp.arange(x.shape[axis]), shape), x.shape)
    reached = (x == values) | (xp.isnan(x) & xp.isnan(values))
    return values, xp.cummax(xp.where(reached, position, 0), axis=axis)


@aten("cummax.default")
def cummax(x: Any, dim: int) -> tuple[Any, Any]:
    """Return running maxima along an axis, and their indices."""
    return _running(x, dim, xp.cummax)


@aten("cummin.default")
def cummin(x: Any, dim: int) -> tuple[Any, Any]:
    """Return running minima along an axis, and their indices."""
    return _running(x, dim, xp.cummin)


@aten("median.dim")
def median_dim(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """Return the lower median along an axis, and its index."""
    values, order = sort(x, dim)
    if not x.ndim:
        return values, order
    axis = dim % x.ndim
    middle = (x.shape[axis] - 1) // 2
    if x.dtype.kind == "f":  # NaN is sorted last, and is the median if there is one
        has_nan = xp.any(xp.isnan(x), axis=axis, keepdims=True)
        last = (slice(None),) * axis + (slice(x.shape[axis] - 1, None),)
        first_nan = xp.argmax(xp.isnan(x).astype("int8"), axis=axis, keepdims=True)
        here = (slice(None),) * axis + (slice(middle, middle + 1),)
        value = xp.where(has_nan, values[last], values[here])
        index = xp.where(has_nan, first_nan, order[here])
    else:
        here = (slice(None),) * axis + (slice(middle, middle + 1),)
        value, index = values[here], order[here]
    return (value, index) if keepdim else (xp.squeeze(value, axis), xp.squeeze(index, axis))


@aten("median.default")
def median(x: Any) -> Any:
    """Return the lower median of all elements."""
    if not x.size:
        raise UncoveredFormError("the median of nothing")
    return median_dim(xp.reshape(x, (-1,)), 0)[0]


@aten("logcumsumexp.default")
def logcumsumexp(x: Any, dim: int) -> Any:
    """Return logarithms of running sums of exponentials along an axis."""
    if not x.ndim:
        return x
    axis = dim % x.ndim
    if x.shape[axis] > MOST_PAIRS:
        raise UncoveredFormError("logcumsumexp of a long axis")
    moved = xp.moveaxis(x, axis, -1)
    earlier = xp.tril(xp.ones(x.shape[axis], x.shape[axis], dtype="int8")) != 0
    pairs = xp.where(earlier, moved[..., None, :], -math.inf)
    return xp.moveaxis(xp.logsumexp(pairs, axis=-1), -1, axis)


MOST_PAIRS = 2048
"""The longest axis for which all pairs of its elements are formed; chosen by hand."""
