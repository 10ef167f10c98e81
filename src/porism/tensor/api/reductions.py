"""Reductions: functions that make one value of all values along axes.

`axis` is an int, a tuple of ints, or None for all axes; with `keepdims` the axes stay with size 1.
Small integers are summed and multiplied in 64 bits. Floats stay in their type, but those narrower
than 32 bits are accumulated in f32 and rounded once. NaN comes through.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from porism.base import dtypes
from porism.base.dtypes import DType, Kind
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


# -- what the functions here, and others that reduce, are made of ----------------------------------


def accumulation_dtype(dtype: DType) -> DType:
    """The type in which values of a type are accumulated.

    >>> accumulation_dtype(dtypes.bf16), accumulation_dtype(dtypes.i8)
    (f32, i8)
    """
    return dtypes.f32 if dtype.is_float and dtype.bits < 32 else dtype


def drop_axes(x: UOp, axes: Sequence[int]) -> UOp:
    """The same elements without axes of size 1."""
    sizes = shapes.sizes_of(x)
    return primitive.reshape(x, [size for k, size in enumerate(sizes) if k not in axes])


def _with_keepdims(x: UOp, axes: Sequence[int], keepdims: bool) -> Tensor:
    """A tensor of a node whose reduced axes still have size 1."""
    return Tensor(x if keepdims else drop_axes(x, axes))


def expand_like(x: UOp, like: UOp) -> UOp:
    """What was reduced, repeated for every element it came from."""
    return primitive.expand(x, shape(like))


def reduced_count(x: UOp, axes: Sequence[int]) -> Dim:
    """How many elements are reduced to one."""
    sizes = shapes.sizes_of(x)
    return shapes.product(sizes[axis] for axis in axes)


def _accumulate(x: UOp, op: Op, axes: Sequence[int]) -> UOp:
    """A reduction in the wide type, rounded once."""
    return primitive.cast(
        primitive.reduce(primitive.cast(x, accumulation_dtype(x.dtype)), op, axes), x.dtype
    )


def sum_dtype(dtype: DType) -> DType:
    """Integers of any size are summed in the widest one of their sign."""
    if dtype.kind is Kind.UNSIGNED:
        return dtypes.u64
    return dtype if dtype.is_float else promotion.DEFAULT_INT


def _sum_or_prod(x: Any, op: Op, axis: Axes, dtype: Any, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    axes = shapes.normal_axes(axis, x.ndim)
    wanted = sum_dtype(x.dtype) if dtype is None else promotion.as_dtype(dtype)
    return _with_keepdims(_accumulate(primitive.cast(x.node, wanted), op, axes), axes, keepdims)


def _require_elements(x: Tensor, axes: Sequence[int], what: str) -> None:
    """Refuse a reduction of no elements that has no value to begin with."""
    empty = [axis for axis in axes if shapes.same(x.shape[axis], 0)]
    if empty:
        raise shapes.refuse(
            f"{what} over axis {empty[0]} of a tensor of shape {shapes.to_text(x.shape)}",
            f"the axis has no elements, and there is no {what} of nothing",
            "check the size first, or concatenate a value to fall back on",
        )


def divide_by_count(x: UOp, count: Dim | float) -> UOp:
    """Divided by a number, which may be symbolic; 0/0 is NaN."""
    if isinstance(count, UOp):
        return ops.FDIV(x, primitive.cast(count, x.dtype))
    return ops.FDIV(x, UOp.const(x.dtype, float(count)))


# -- sums and products -----------------------------------------------------------------------------


@method
def sum(x: Any, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum of the elements along axes; 0 if there are none."""
    return _sum_or_prod(x, ops.ADD, axis, dtype, keepdims)


@method
def prod(x: Any, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product of the elements along axes; 1 if there are none."""
    return _sum_or_prod(x, ops.MUL, axis, dtype, keepdims)


@method
def count_nonzero(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """How many elements along axes are not zero."""
    x = as_tensor(x)
    axes = shapes.normal_axes(axis, x.ndim)
    ones = primitive.cast(primitive.cast(x.node, dtypes.boolean), promotion.DEFAULT_INT)
    return _with_keepdims(primitive.reduce(ones, ops.ADD, axes), axes, keepdims)


# -- extremes --------------------------------------------------------------------------------------


def _max_or_min(x: Any, op: Op, axis: Axes, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    axes = shapes.normal_axes(axis, x.ndim)
    _require_elements(x, axes, "max" if op is ops.MAX else "min")
    return _with_keepdims(primitive.reduce(x.node, op, axes), axes, keepdims)


@method
def max(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The largest element along axes; NaN if one is."""
    return _max_or_min(x, ops.MAX, axis, keepdims)


@method
def min(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The smallest element along axes; NaN if one is."""
    return _max_or_min(x, ops.MIN, axis, keepdims)


def _argmax_or_argmin(x: Any, op: Op, axis: int | None, keepdims: bool) -> Tensor:
    """The first place where the value is the extreme one, as the least of such positions."""
    name = "argmax" if op is ops.MAX else "argmin"
    x = as_tensor(x)
    rank = x.ndim
    if axis is None:
        flat = Tensor(primitive.reshape(x.node, [reduced_count(x.node, range(rank))]))
        found = _argmax_or_argmin(flat, op, 0, keepdims=True)
        return Tensor(primitive.reshape(found.node, [1] * rank if keepdims else []))
    position_axis = shapes.normal_axis(axis, rank)
    _require_elements(x, [position_axis], name)
    node = x.node
    best = expand_like(primitive.reduce(node, op, [position_axis]), node)
    hit = node.eq(best)
    if x.dtype.is_float:
        hit = hit | node.ne(node)  # the first NaN, if there is one
    size = x.shape[position_axis]
    largest = size if isinstance(size, int) else shape(node)[position_axis].vmax
    counted = dtypes.i32 if largest <= dtypes.i32.max else dtypes.i64
    places = primitive.cast(primitive.iota(x.shape, position_axis), counted)
    chosen = ops.WHERE(hit, places, UOp.const(counted, counted.max))
    first = primitive.reduce(chosen, ops.MIN, [position_axis])
    return _with_keepdims(primitive.cast(first, promotion.DEFAULT_INT), [position_axis], keepdims)


@method
def argmax(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Where the largest element is, the first of them; of all elements in row order by default."""
    return _argmax_or_argmin(x, ops.MAX, axis, keepdims)


@method
def argmin(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Where the smallest element is, the first of them; of all elements in row order by default."""
    return _argmax_or_argmin(x, ops.MIN, axis, keepdims)


# -- truth -----------------------------------------------------------------------------------------


def _any_or_all(x: Any, op: Op, axis: Axes, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    axes = shapes.normal_axes(axis, x.ndim)
    return _with_keepdims(
        primitive.reduce(primitive.cast(x.node, dtypes.boolean), op, axes), axes, keepdims
    )


@method
def any(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Whether an element along axes is not zero."""
    return _any_or_all(x, ops.OR, axis, keepdims)


@method
def all(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Whether no element along axes is zero."""
    return _any_or_all(x, ops.AND, axis, keepdims)


# -- statistics ------------------------------------------------------------------------------------


def sum_of_products(a: UOp, b: UOp, axes: Sequence[int]) -> UOp:
    """The products of equal shapes, summed over axes, which go away; in the wide type."""
    # Widened before the product, which is then exact: what tensor cores compute.
    product = primitive.cast(a, accumulation_dtype(a.dtype)) * primitive.cast(
        b, accumulation_dtype(b.dtype)
    )
    return drop_axes(primitive.reduce(product, ops.ADD, axes), axes)


def mean_node(x: UOp, axes: Sequence[int]) -> UOp:
    """The mean in x's own type; the axes stay with size 1."""
    return divide_by_count(primitive.reduce(x, ops.ADD, axes), reduced_count(x, axes))


def variance_node(x: UOp, axes: Sequence[int], correction: float = 0) -> UOp:
    """The mean squared distance from the mean, in x's own type; the axes stay with size 1."""
    distance = x - expand_like(mean_node(x, axes), x)
    squares = primitive.reduce(distance * distance, ops.ADD, axes)
    count = reduced_count(x, axes)
    if isinstance(count, UOp):
        return divide_by_count(squares, count if correction == 0 else count - int(correction))
    # As NumPy has it: with no degree of freedom left the variance is NaN or infinite.
    return divide_by_count(squares, count - correction if count > correction else 0)


@method
def mean(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The mean along axes, of integers in the default float type; NaN if there are no elements."""
    x = as_tensor(x)
    axes = shapes.normal_axes(axis, x.ndim)
    node = float_node(x)
    result = mean_node(primitive.cast(node, accumulation_dtype(node.dtype)), axes)
    return _with_keepdims(primitive.cast(result, node.dtype), axes, keepdims)


@method
def var(x: Any, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    """The variance along axes: squared distances from the mean, over `n - correction`."""
    x = as_tensor(x)
    axes = shapes.normal_axes(axis, x.ndim)
    node = float_node(x)
    degrees_lost = shapes.as_number(correction, "correction of var")
    result = variance_node(primitive.cast(node, accumulation_dtype(node.dtype)), axes, degrees_lost)
    return _with_keepdims(primitive.cast(result, node.dtype), axes, keepdims)


@method
def std(x: Any, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    """The standard deviation along axes: the root of `var`."""
    x = as_tensor(x)
    axes = shapes.normal_axes(axis, x.ndim)
    node = float_node(x)
    degrees_lost = shapes.as_number(correction, "correction of std")
    result = ops.SQRT(
        variance_node(primitive.cast(node, accumulation_dtype(node.dtype)), axes, degrees_lost)
    )
    return _with_keepdims(primitive.cast(result, node.dtype), axes, keepdims)


def _finite_or_zero(x: UOp) -> UOp:
    """Infinities and NaN as 0, where they would make a difference NaN that should be infinite."""
    return ops.WHERE(is_finite(x), x, UOp.const(x.dtype, 0))


@method
def logsumexp(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) along axes, without overflow."""
    x = as_tensor(x)
    axes = shapes.normal_axes(axis, x.ndim)
    _require_elements(x, axes, "logsumexp")
    floats = float_node(x)
    node = primitive.cast(floats, accumulation_dtype(floats.dtype))
    highest = _finite_or_zero(primitive.reduce(node, ops.MAX, axes))
    powers = ops.EXP2((node - expand_like(highest, node)) * (1 / math.log(2)))
    total = ops.LOG2(primitive.reduce(powers, ops.ADD, axes)) * math.log(2) + highest
    return _with_keepdims(primitive.cast(total, floats.dtype), axes, keepdims)


@method
def norm(x: Any, ord: float = 2, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The length of vectors along axes: of order 1, 2, inf, -inf, 0 (non-zero elements) or p."""
    x = as_tensor(x)
    axes = shapes.normal_axes(axis, x.ndim)
    if not isinstance(ord, (int, float)):
        raise promotion.refuse(
            f"a norm of order {ord!r}",
            "the order of a vector's norm is a number; matrix norms are not here",
            "pass 1, 2, porism.inf or another number",
        )
    floats = float_node(x)
    node = primitive.cast(floats, accumulation_dtype(floats.dtype))
    size = ops.MAX(node, -node)
    zero = UOp.const(node.dtype, 0)
    if ord == 2:
        result = ops.SQRT(primitive.reduce(node * node, ops.ADD, axes))
    elif ord == 1:
        result = primitive.reduce(size, ops.ADD, axes)
    elif ord == math.inf:
        result = ops.MAX(primitive.reduce(size, ops.MAX, axes), zero)  # 0 if there are none
    elif ord == -math.inf:
        result = primitive.reduce(size, ops.MIN, axes)
    elif ord == 0:
        result = primitive.reduce(primitive.cast(size.ne(0), node.dtype), ops.ADD, axes)
    else:
        power = UOp.const(node.dtype, ord)
        total = primitive.reduce(ops.POW(size, power), ops.ADD, axes)
        result = ops.POW(total, UOp.const(node.dtype, 1 / ord))
    return _with_keepdims(primitive.cast(result, floats.dtype), axes, keepdims)


@method
def vector_norm(x: Any, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """`norm` with the arguments of the Array API."""
    return norm(x, ord, axis, keepdims=keepdims)
