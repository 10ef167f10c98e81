"""Cumulative reductions: sums, products and extremes of all prefixes of an axis (scans).

A scan is built as a reduction of each element and those before it, with a triangular mask. A kernel
that does nothing else along the axis computes it in one loop with a loop-carried accumulator
(`porism.optimize.actions.loops.scan_loop`), so n elements take n operations. Its input is
materialized first unless it is a strided view.

Where there are too few rows to occupy all cores, a stage of the pipeline cuts each row into chunks
(`porism.schedule.algorithms.chunked_scan`).
"""

from __future__ import annotations

from typing import Any, Final

from porism.base import dtypes
from porism.base.dtypes import Kind
from porism.gradient.reverse_mode import pull_back
from porism.gradient.stated_pullbacks import differentiated_as, pullback, stated
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.schedule.algorithms.chunked_scan import masked_prefixes, materialize
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api.arithmetic import subtract
from porism.tensor.api.comparison import not_equal
from porism.tensor.api.creation import asarray
from porism.tensor.api.reductions import accumulation_dtype, sum_dtype
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.joining import concat
from porism.tensor.movement.reshape import axis_last, broadcast_to, flatten
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method

MAX_DIRECT: Final = 16
"""Elements of an axis up to which prefixes are reduced without materializing; chosen by hand."""


def scan_last(x: UOp, op: Op, memory_axis: int | None = None) -> UOp:
    """Return the reductions of the first 1, 2, … n elements along the last axis, of known size.

    Intermediate values are materialized with that axis at position `memory_axis`, which is the
    last by default.
    """
    dims = shape(x)
    memory_axis = len(dims) - 1 if memory_axis is None else memory_axis
    size = dims[-1].arg
    if op is ops.ADD and _is_broadcast_constant(x):
        return x * primitive.cast(primitive.iota(list(dims), len(dims) - 1) + 1, x.dtype)
    if size <= MAX_DIRECT:
        return masked_prefixes(x, op)
    x = x if _is_strided_view(x) else materialize(x, memory_axis)
    return materialize(masked_prefixes(x, op), memory_axis)


def _is_broadcast_constant(x: UOp) -> bool:
    """Return whether all elements are one constant."""
    while x.op in (ops.RESHAPE, ops.PERMUTE, ops.EXPAND):
        x = x.src[0]
    return x.op is ops.CONST


def _is_strided_view(x: UOp) -> bool:
    """Return whether elements are read from memory at indices that are linear in the axes."""
    while x.op in (ops.PERMUTE, ops.EXPAND, ops.SHRINK, ops.FLIP, ops.CAST, ops.PULLBACK):
        x = x.src[0]
    while x.op in (ops.RESHAPE, ops.PULLBACK):
        x = x.src[0]
    return x.op in (ops.BUFFER, ops.CONTIGUOUS, ops.PARAM)


# -- functions -------------------------------------------------------------------------------------


def _scan_axis(x: Tensor, op: Op, axis: int | None, what: str) -> Tensor:
    """Return the scan along an axis in x's type; axis None needs a tensor of one axis."""
    if axis is None and x.ndim != 1:
        raise shapes.shape_error(
            f"{what} of a tensor of shape {shapes.to_text(x.shape)} without an axis",
            f"the tensor has {x.ndim} axes, and the elements are taken in order along one",
            "pass axis=, or reshape the tensor to one axis",
        )
    scan_axis = shapes.normalize_axis(-1 if axis is None else axis, x.ndim)
    static_size(x.shape[scan_axis], what)
    order, back = axis_last(scan_axis, x.ndim)
    node = primitive.permute(primitive.cast(x.node, accumulation_dtype(x.node.dtype)), order)
    result = primitive.permute(_differentiable_scan(node, op, scan_axis), back)
    return Tensor(primitive.cast(result, x.node.dtype))


def _differentiable_scan(x: UOp, op: Op, memory_axis: int) -> UOp:
    """Return the scan along the last axis, with its derivative."""
    scanned = scan_last(x, op, memory_axis)
    if op is ops.ADD:
        return stated("cumsum", scanned, x, parameters=(memory_axis,))
    if op is ops.MUL:
        return stated("cumprod", scanned, x, parameters=(memory_axis,))
    return differentiated_as(scanned, lambda: _gathered_extremes(x, scanned, memory_axis))


@pullback("cumsum", "the sums of g from each element to the last")
def _pull_cumsum(g: UOp, y: UOp, inputs: tuple[UOp], memory_axis: int) -> list[UOp]:
    return [_sums_from_end(g, memory_axis)]


def _sums_from_end(x: UOp, memory_axis: int) -> UOp:
    """Return the sums of the last 1, 2, … n elements along the last axis, for each element."""
    last = [len(shape(x)) - 1]
    return primitive.flip(_differentiable_scan(primitive.flip(x, last), ops.ADD, memory_axis), last)


@pullback("cumprod", "the sums of g · y from each element to the last, over x",
          "the products without the element, where it is the only 0 before")  # fmt: skip
def _pull_cumprod(g: UOp, y: UOp, inputs: tuple[UOp], memory_axis: int) -> list[UOp]:
    (x,) = inputs
    is_zero = x.eq(0.0)
    one, zero = x.lift(1.0), x.lift(0.0)
    zeros = scan_last(primitive.cast(is_zero, dtypes.i32), ops.ADD, memory_axis)
    # Where there is one 0 so far, the derivative by it is the product of all others.
    rest = _differentiable_scan(is_zero.where(one, x), ops.MUL, memory_axis)
    before_zero = _sums_from_end(zeros.eq(0).where(g * y, zero), memory_axis)
    at_zero = _sums_from_end(zeros.eq(1).where(g * rest, zero), memory_axis)
    by_others = zeros.eq(0).where(before_zero / is_zero.where(one, x), zero)
    pulled = (is_zero & zeros.eq(1)).where(at_zero, by_others)

    return [differentiated_as(pulled, lambda: _pull_products_by_doubling(g, x))]


def _pull_products_by_doubling(g: UOp, x: UOp) -> UOp:
    """Return the same without quotients: its own derivatives are right, whatever is 0."""
    (pulled,) = pull_back([_products_by_doubling(x)], [g], [x])
    assert pulled is not None, "the products depend on their factors"
    return pulled


def _products_by_doubling(x: UOp) -> UOp:
    """Return the products of all prefixes of the last axis by log2(n) elementwise products."""
    last, distance = len(shape(x)) - 1, 1
    size = int(shape(x)[last].arg)
    position = primitive.iota(shape(x), last)
    while distance < size:
        before = primitive.pad(x, [(distance * (k == last), 0) for k in range(last + 1)])
        before = primitive.shrink(before, [(0, n) for n in shape(x)])
        x = x * (position < distance).where(x.lift(1.0), before)
        distance *= 2
    return x


def _gathered_extremes(x: UOp, extremes: UOp, memory_axis: int) -> UOp:
    """Return the running extremes as the elements of x at which they occur, the last of equals."""
    sizes, last = shape(x), len(shape(x)) - 1
    position = primitive.cast(primitive.iota(sizes, last), dtypes.i64)
    is_extreme = x.eq(extremes) | x.ne(x)
    reached = ops.WHERE(is_extreme, position, position.lift(0))
    latest = scan_last(reached, ops.MAX, memory_axis)
    leading = [primitive.iota(sizes, k) for k in range(last)]
    return primitive.gather(x, [*leading, primitive.clamp_index(latest, sizes[last])])


def _sum_operand(x: Any, dtype: Any) -> Tensor:
    """Return x in the type in which `sum` adds: integers in 64 bits, unless `dtype` is given."""
    tensor = as_tensor(x)
    wanted = sum_dtype(tensor.node.dtype) if dtype is None else promotion.as_dtype(dtype)
    return Tensor(primitive.cast(tensor.node, wanted))


def _prepend_initial(x: Tensor, value: int, axis: int | None) -> Tensor:
    """Return a scan with the value of the empty prefix in front."""
    scan_axis = shapes.normalize_axis(-1 if axis is None else axis, x.ndim)
    node = primitive.pad(x.node, [(int(k == scan_axis), 0) for k in range(x.ndim)])
    if value:
        first = primitive.iota(shapes.sizes_of(node), scan_axis).eq(0)
        node = first.where(node.lift(value), node)
    return Tensor(node)


@method
def cumulative_sum(
    x: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Return the sums of the first 1, 2, … n elements along an axis, as in the Array API.

    The axis can be left out if there is only one. With `include_initial` the result starts with 0,
    the sum of no elements, and is longer by one. Integers are added in 64 bits unless `dtype` is
    given.

    >>> porism.cumulative_sum([1, 2, 3], include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    result = _scan_axis(_sum_operand(x, dtype), ops.ADD, axis, "cumulative_sum")
    return _prepend_initial(result, 0, axis) if include_initial else result


@method
def cumulative_prod(
    x: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Return the products of the first 1, 2, … n elements along an axis, as in the Array API.

    The axis can be left out if there is only one. With `include_initial` the result starts with 1,
    the product of no elements, and is longer by one.

    >>> porism.cumulative_prod([1, 2, 3], include_initial=True).tolist()
    [1, 1, 2, 6]
    """
    result = _scan_axis(_sum_operand(x, dtype), ops.MUL, axis, "cumulative_prod")
    return _prepend_initial(result, 1, axis) if include_initial else result


@method
def cumsum(x: Any, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Return the sums of the first 1, 2, … n elements along an axis.

    Without an axis the elements are taken in row-major order. Integers are added in 64 bits unless
    `dtype` is given.

    >>> porism.cumsum([[1, 2], [3, 4]], axis=1).tolist()
    [[1, 3], [3, 7]]
    """
    operand = _sum_operand(x if axis is not None else flatten(x), dtype)
    return _scan_axis(operand, ops.ADD, axis, "cumsum")


@method
def cumprod(x: Any, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Return the products of the first 1, 2, … n elements along an axis, or in row-major order.

    >>> porism.cumprod([[1, 2], [3, 4]], axis=1).tolist()
    [[1, 2], [3, 12]]
    """
    operand = _sum_operand(x if axis is not None else flatten(x), dtype)
    return _scan_axis(operand, ops.MUL, axis, "cumprod")


@method
def cummax(x: Any, axis: int | None = None) -> Tensor:
    """Return the largest of the first 1, 2, … n elements along an axis; NaN from the first NaN on.

    >>> porism.cummax([1, 3, 2, 5]).tolist()
    [1, 3, 3, 5]
    """
    return _scan_axis(as_tensor(x), ops.MAX, axis, "cummax")


@method
def cummin(x: Any, axis: int | None = None) -> Tensor:
    """Return the smallest of the first 1, 2, … n elements along an axis; NaN from the first NaN on.

    >>> porism.cummin([4, 3, 5, 1]).tolist()
    [4, 3, 3, 1]
    """
    return _scan_axis(as_tensor(x), ops.MIN, axis, "cummin")


@method
def diff(x: Any, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
    """Return the differences of neighbours along an axis, n times.

    `prepend` and `append` are joined to x along the axis first.

    >>> porism.diff([1, 4, 9]).tolist(), porism.diff([1, 4, 9], n=2).tolist()
    ([3, 5], [2])
    """
    tensor = asarray(x, copy=True)
    along = shapes.normalize_axis(axis, tensor.ndim)
    count = shapes.as_int(n, "n of diff")
    if count < 0:
        raise shapes.shape_error(
            f"diff with n={count}", "a number of times is not negative", "pass 0 or more"
        )
    ends = [None if end is None else asarray(end) for end in (prepend, append)]
    one = [1 if k == along else n for k, n in enumerate(tensor.shape)]
    ends = [end if end is None or end.ndim else broadcast_to(end, one) for end in ends]
    joined = [part for part in (ends[0], tensor, ends[1]) if part is not None]
    if len(joined) > 1:
        tensor = concat(joined, along)
    before = (slice(None),) * along
    for _ in range(count):
        after, sooner = tensor[(*before, slice(1, None))], tensor[(*before, slice(0, -1))]
        differs = tensor.dtype.base.kind is Kind.BOOL
        tensor = not_equal(after, sooner) if differs else subtract(after, sooner)
    return tensor
