"""Reductions: functions that combine all elements along axes to one.

`axis` is an int, a tuple of ints, or None for all axes; with `keepdims` the reduced axes stay with
size 1. Sums and products of integers are computed in 64 bits. Floats narrower than 32 bits are
accumulated in f32 and rounded once. NaN propagates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from porism.base import dtypes
from porism.base.dtypes import DType, Kind
from porism.gradient.stated_pullbacks import pullback, stated
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api.operands import float_node
from porism.tensor.conversion import as_tensor
from porism.tensor.float_formulas import is_finite
from porism.tensor.primitive import Dim
from porism.tensor.tensor import Tensor, method

Axes = int | Sequence[int] | None


# -- shared with other functions that reduce -------------------------------------------------------


def accumulation_dtype(dtype: DType) -> DType:
    """Return the type in which values of a type are accumulated: f32 for narrower floats.

    >>> accumulation_dtype(dtypes.bf16), accumulation_dtype(dtypes.i8)
    (f32, i8)
    """
    return dtypes.f32 if dtype.is_float and dtype.bits < 32 else dtype


def drop_axes(x: UOp, axes: Sequence[int]) -> UOp:
    """Return a node without some axes, which have size 1."""
    sizes = shapes.sizes_of(x)
    return primitive.reshape(x, [size for k, size in enumerate(sizes) if k not in axes])


def _with_keepdims(x: UOp, axes: Sequence[int], keepdims: bool) -> Tensor:
    """Return the tensor of a reduced node; without `keepdims` its axes of size 1 are dropped."""
    return Tensor(x if keepdims else drop_axes(x, axes))


def expand_like(x: UOp, like: UOp) -> UOp:
    """Return a reduced node, repeated along the axes of size 1 to the shape of another."""
    return primitive.expand(x, shape(like))


def reduced_count(x: UOp, axes: Sequence[int]) -> Dim:
    """Return how many elements are combined to one by a reduction over axes."""
    sizes = shapes.sizes_of(x)
    return shapes.product(sizes[axis] for axis in axes)


def _accumulate(x: UOp, op: Op, axes: Sequence[int]) -> UOp:
    """Return a reduction in the accumulation type, rounded once to the type of x."""
    return primitive.cast(
        primitive.reduce(primitive.cast(x, accumulation_dtype(x.dtype)), op, axes), x.dtype
    )


def sum_dtype(dtype: DType) -> DType:
    """Return the default type of a sum: 64 bits for integers and bools, unchanged for floats."""
    if dtype.kind is Kind.UNSIGNED:
        return dtypes.u64
    return dtype if dtype.is_float else promotion.DEFAULT_INT


def _sum_or_prod(x: Any, op: Op, axis: Axes, dtype: Any, keepdims: bool) -> Tensor:
    """Return the sum (ADD) or product (MUL) along axes."""
    x = as_tensor(x)
    axes = shapes.normalize_axes(axis, x.ndim)
    wanted = sum_dtype(x.node.dtype) if dtype is None else promotion.as_dtype(dtype)
    return _with_keepdims(_accumulate(primitive.cast(x.node, wanted), op, axes), axes, keepdims)


def _require_elements(x: Tensor, axes: Sequence[int], what: str) -> None:
    """Refuse a reduction over no elements that has no identity."""
    empty = [axis for axis in axes if shapes.sizes_equal(x.shape[axis], 0)]
    if empty:
        raise shapes.shape_error(
            f"{what} over axis {empty[0]} of a tensor of shape {shapes.to_text(x.shape)}",
            f"the axis has no elements, and there is no {what} of nothing",
            "check the size first, or concatenate a value to fall back on",
        )


def divide_by_count(x: UOp, count: Dim | float) -> UOp:
    """Return x divided by a number, which may be symbolic; 0/0 is NaN."""
    if isinstance(count, UOp):
        return ops.FDIV(x, primitive.cast(count, x.dtype))
    return ops.FDIV(x, UOp.const(x.dtype, float(count)))


# -- sums and products -----------------------------------------------------------------------------


@method
def sum(x: Any, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return the sum of the elements along axes; 0 of no elements.

    `axis` is an int, a tuple, or None for all axes; integers are summed in 64 bits unless `dtype`
    is given.

    >>> porism.sum([[1, 2], [3, 4]], axis=0).tolist()
    [4, 6]
    """
    return _sum_or_prod(x, ops.ADD, axis, dtype, keepdims)


@method
def prod(x: Any, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return the product of the elements along axes; 1 of no elements.

    Integers are multiplied in 64 bits unless `dtype` is given.

    >>> porism.prod([[1, 2], [3, 4]], axis=1).tolist()
    [2, 12]
    """
    return _sum_or_prod(x, ops.MUL, axis, dtype, keepdims)


@method
def count_nonzero(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return how many elements along axes are not zero, as int64.

    >>> porism.count_nonzero([[1, 0], [3, 4]], axis=1).tolist()
    [1, 2]
    """
    x = as_tensor(x)
    axes = shapes.normalize_axes(axis, x.ndim)
    ones = primitive.cast(primitive.cast(x.node, dtypes.boolean), promotion.DEFAULT_INT)
    return _with_keepdims(primitive.reduce(ones, ops.ADD, axes), axes, keepdims)


# -- extremes --------------------------------------------------------------------------------------


def _max_or_min(x: Any, op: Op, axis: Axes, keepdims: bool) -> Tensor:
    """Return the largest (MAX) or smallest (MIN) element along axes."""
    x = as_tensor(x)
    axes = shapes.normalize_axes(axis, x.ndim)
    _require_elements(x, axes, "max" if op is ops.MAX else "min")
    return _with_keepdims(primitive.reduce(x.node, op, axes), axes, keepdims)


@method
def max(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the largest element along axes; NaN if one of them is NaN.

    >>> porism.max([[1, 5], [3, 2]], axis=1).tolist()
    [5, 3]
    """
    return _max_or_min(x, ops.MAX, axis, keepdims)


@method
def amax(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the largest element along axes: another name of `max`, whose `dim` is not ambiguous.

    >>> porism.amax([[1, 5], [3, 2]], axis=1).tolist()
    [5, 3]
    """
    return _max_or_min(x, ops.MAX, axis, keepdims)


@method
def amin(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the smallest element along axes: another name of `min`, whose `dim` is not ambiguous.

    >>> porism.amin([[1, 5], [3, 2]], axis=1).tolist()
    [1, 2]
    """
    return _max_or_min(x, ops.MIN, axis, keepdims)


@method
def min(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the smallest element along axes; NaN if one of them is NaN.

    >>> porism.min([[1, 5], [3, 2]], axis=1).tolist()
    [1, 2]
    """
    return _max_or_min(x, ops.MIN, axis, keepdims)


def _argmax_or_argmin(x: Any, op: Op, axis: int | None, keepdims: bool) -> Tensor:
    """Return the first index of an extreme element: the smallest index at which it occurs."""
    name = "argmax" if op is ops.MAX else "argmin"
    x = as_tensor(x)
    rank = x.ndim
    if axis is None:
        flat = Tensor(primitive.reshape(x.node, [reduced_count(x.node, range(rank))]))
        flat_index = _argmax_or_argmin(flat, op, 0, keepdims=True)
        return Tensor(primitive.reshape(flat_index.node, [1] * rank if keepdims else []))
    reduced_axis = shapes.normalize_axis(axis, rank)
    _require_elements(x, [reduced_axis], name)
    node = x.node
    best = expand_like(primitive.reduce(node, op, [reduced_axis]), node)
    is_extreme = node.eq(best)
    if x.node.dtype.is_float:
        is_extreme = is_extreme | node.ne(node)  # NaN is the extreme, if there is one
    size = x.shape[reduced_axis]
    largest = size if isinstance(size, int) else shape(node)[reduced_axis].vmax
    position_dtype = dtypes.i32 if largest <= dtypes.i32.max else dtypes.i64
    positions = primitive.cast(primitive.iota(x.shape, reduced_axis), position_dtype)
    chosen = ops.WHERE(is_extreme, positions, UOp.const(position_dtype, position_dtype.max))
    first = primitive.reduce(chosen, ops.MIN, [reduced_axis])
    return _with_keepdims(primitive.cast(first, promotion.DEFAULT_INT), [reduced_axis], keepdims)


@method
def argmax(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the index of the first largest element along an axis, as int64.

    With axis None it is the index into all elements in row-major order. NaN counts as the largest.

    >>> porism.argmax([[1, 5], [3, 2]], axis=1).tolist()
    [1, 0]
    """
    return _argmax_or_argmin(x, ops.MAX, axis, keepdims)


@method
def argmin(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the index of the first smallest element along an axis, as int64.

    With axis None it is the index into all elements in row-major order. NaN counts as the smallest.

    >>> porism.argmin([[1, 5], [3, 2]], axis=1).tolist()
    [0, 1]
    """
    return _argmax_or_argmin(x, ops.MIN, axis, keepdims)


# -- any, all --------------------------------------------------------------------------------------


def _any_or_all(x: Any, op: Op, axis: Axes, keepdims: bool) -> Tensor:
    """Return the disjunction (OR) or conjunction (AND) of the elements along axes."""
    x = as_tensor(x)
    axes = shapes.normalize_axes(axis, x.ndim)
    return _with_keepdims(
        primitive.reduce(primitive.cast(x.node, dtypes.boolean), op, axes), axes, keepdims
    )


@method
def any(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return whether an element along axes is not zero; false of no elements.

    >>> porism.any([[0, 0], [0, 3]], axis=1).tolist()
    [False, True]
    """
    return _any_or_all(x, ops.OR, axis, keepdims)


@method
def all(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return whether all elements along axes are not zero; true of no elements.

    >>> porism.all([[1, 2], [0, 3]], axis=1).tolist()
    [True, False]
    """
    return _any_or_all(x, ops.AND, axis, keepdims)


# -- statistics ------------------------------------------------------------------------------------


def sum_of_products(a: UOp, b: UOp, axes: Sequence[int]) -> UOp:
    """Return the sum of a * b over axes, which are dropped, in the accumulation type."""
    # Widened before the product, which is then exact, as on tensor cores.
    product = primitive.cast(a, accumulation_dtype(a.dtype)) * primitive.cast(
        b, accumulation_dtype(b.dtype)
    )
    return drop_axes(primitive.reduce(product, ops.ADD, axes), axes)


def mean_node(x: UOp, axes: Sequence[int]) -> UOp:
    """Return the mean over axes, which stay with size 1, in the type of x."""
    return divide_by_count(primitive.reduce(x, ops.ADD, axes), reduced_count(x, axes))


def variance_node(x: UOp, axes: Sequence[int], correction: float = 0) -> UOp:
    """Return the sum of squared deviations over `n - correction`; reduced axes keep size 1."""
    distance = x - expand_like(mean_node(x, axes), x)
    squares = primitive.reduce(distance * distance, ops.ADD, axes)
    count = reduced_count(x, axes)
    if isinstance(count, UOp):
        return divide_by_count(squares, count if correction == 0 else count - int(correction))
    # As in NumPy: without degrees of freedom the variance is NaN or infinite.
    return divide_by_count(squares, count - correction if count > correction else 0)


@method
def mean(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the mean of the elements along axes, of integers in float32; NaN of no elements.

    >>> porism.mean([[1.0, 2.0], [3.0, 6.0]], axis=1).tolist()
    [1.5, 4.5]
    """
    x = as_tensor(x)
    axes = shapes.normalize_axes(axis, x.ndim)
    node = float_node(x)
    result = mean_node(primitive.cast(node, accumulation_dtype(node.dtype)), axes)
    return _with_keepdims(primitive.cast(result, node.dtype), axes, keepdims)


@method
def var(x: Any, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Return the variance along axes: squared deviations from the mean over `n - correction`.

    `correction=1` gives the unbiased estimate; the default is 0, as in NumPy.

    >>> porism.var([1.0, 2.0, 3.0, 6.0]).item()
    3.5
    """
    x = as_tensor(x)
    axes = shapes.normalize_axes(axis, x.ndim)
    node = float_node(x)
    ddof = shapes.as_number(correction, "correction of var")
    result = variance_node(primitive.cast(node, accumulation_dtype(node.dtype)), axes, ddof)
    return _with_keepdims(primitive.cast(result, node.dtype), axes, keepdims)


@method
def std(x: Any, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Return the standard deviation along axes: the square root of `var`.

    >>> porism.std([2.0, 4.0, 6.0], correction=1).item()
    2.0
    """
    x = as_tensor(x)
    axes = shapes.normalize_axes(axis, x.ndim)
    node = float_node(x)
    ddof = shapes.as_number(correction, "correction of std")
    wide = primitive.cast(node, accumulation_dtype(node.dtype))
    result = root_node(variance_node(wide, axes, ddof))
    return _with_keepdims(primitive.cast(result, node.dtype), axes, keepdims)


def root_node(x: UOp) -> UOp:
    """Return the square root of a sum of squares: where it is 0, its derivative is 0 too."""
    return stated("root", ops.SQRT(x), x)


@pullback("root", "g / (2y), with y the square root", "0 at 0, where all squares are 0")
def _pull_root(g: UOp, y: UOp, inputs: tuple[UOp]) -> list[UOp]:
    is_zero = y.eq(0.0)
    return [is_zero.where(y.lift(0.0), g / (is_zero.where(y.lift(1.0), y) * 2.0))]


def _finite_or_zero(x: UOp) -> UOp:
    """Return x with 0 for NaN and infinities: subtracting an infinite maximum would give NaN."""
    return ops.WHERE(is_finite(x), x, UOp.const(x.dtype, 0))


@method
def logsumexp(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return log(sum(exp(x))) along axes, without overflow.

    >>> porism.logsumexp([1000.0, 1000.0]).item()
    1000.693176...
    """
    x = as_tensor(x)
    axes = shapes.normalize_axes(axis, x.ndim)
    _require_elements(x, axes, "logsumexp")
    floats = float_node(x)
    node = primitive.cast(floats, accumulation_dtype(floats.dtype))
    highest = _finite_or_zero(primitive.reduce(node, ops.MAX, axes))
    exponentials = ops.EXP2((node - expand_like(highest, node)) * (1 / math.log(2)))
    total = ops.LOG2(primitive.reduce(exponentials, ops.ADD, axes)) * math.log(2) + highest
    total = stated("logsumexp", total, node)
    return _with_keepdims(primitive.cast(total, floats.dtype), axes, keepdims)


@pullback("logsumexp", "g · exp(x - y), with y the logarithm of the sum")
def _pull_logsumexp(g: UOp, y: UOp, inputs: tuple[UOp]) -> list[UOp]:
    (x,) = inputs
    shifted = x - expand_like(_finite_or_zero(y), x)
    return [expand_like(g, x) * ops.EXP(shifted)]


@method
def norm(x: Any, ord: float = 2, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the vector norm of order `ord` along axes: (sum |x|^ord)^(1/ord), 2 by default.

    The orders inf and -inf give the largest and smallest |x|, and 0 the number of nonzero elements.

    >>> porism.norm([3.0, 4.0]).item(), porism.norm([3.0, 4.0], porism.inf).item()
    (5.0, 4.0)
    """
    x = as_tensor(x)
    axes = shapes.normalize_axes(axis, x.ndim)
    if not isinstance(ord, (int, float)):
        raise promotion.type_error(
            f"a norm of order {ord!r}",
            "the order of a vector's norm is a number; matrix norms are not here",
            "pass 1, 2, porism.inf or another number",
        )
    floats = float_node(x)
    node = primitive.cast(floats, accumulation_dtype(floats.dtype))
    absolute = stated("abs", ops.MAX(node, -node), node)
    zero = UOp.const(node.dtype, 0)
    if ord == 2:
        result = root_node(primitive.reduce(node * node, ops.ADD, axes))
    elif ord == 1:
        result = primitive.reduce(absolute, ops.ADD, axes)
    elif ord == math.inf:
        result = ops.MAX(primitive.reduce(absolute, ops.MAX, axes), zero)  # 0 of no elements
    elif ord == -math.inf:
        result = primitive.reduce(absolute, ops.MIN, axes)
    elif ord == 0:
        result = primitive.reduce(primitive.cast(absolute.ne(0), node.dtype), ops.ADD, axes)
    else:
        power = UOp.const(node.dtype, ord)
        total = primitive.reduce(ops.POW(absolute, power), ops.ADD, axes)
        result = ops.POW(total, UOp.const(node.dtype, 1 / ord))
        result = stated("norm", result, node, parameters=(float(ord),))
    return _with_keepdims(primitive.cast(result, floats.dtype), axes, keepdims)


@pullback("norm", "g · sign(x) · (|x| / y)^(p - 1), with y the norm of order p", "0 where y is 0")
def _pull_norm(g: UOp, y: UOp, inputs: tuple[UOp], order: float) -> list[UOp]:
    (x,) = inputs
    is_zero = y.eq(0.0)
    absolute = stated("abs", ops.MAX(x, -x), x)
    ratio = absolute / expand_like(is_zero.where(y.lift(1.0), y), x)
    power = ops.POW(ratio, x.lift(order - 1))
    share = expand_like(is_zero.where(y.lift(0.0), g), x) * power
    return [x.eq(0.0).where(x.lift(0.0), (x < 0.0).where(-share, share))]


@method
def vector_norm(x: Any, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """Return the vector norm of order `ord`: `norm` with the arguments of the Array API.

    >>> porism.vector_norm([3.0, 4.0]).item()
    5.0
    """
    return norm(x, ord, axis, keepdims=keepdims)
