"""Structural pullbacks: those of movement, reductions, conversions and gathers.

Movement ops are each other's transposes: EXPAND and a sum, PAD and SHRINK, PERMUTE, FLIP and
RESHAPE with the inverse; a GATHER is transposed to a sum over the indices that refer to an element,
which the compiler turns into a scatter (`porism.schedule.loops.scatter_stores`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.gradient.stated_pullbacks import differentiated_as
from porism.ir import ops, tensor_nodes
from porism.ir.facts.node_device import device_of
from porism.ir.facts.node_shape import Shape, are_equal, shape
from porism.ir.node import UOp
from porism.ir.ops import Op

Pull = Callable[[UOp, UOp], UOp | None]
"""Takes the cotangent of a node and the node; returns that of its first source, None for 0."""


@dataclass(frozen=True)
class StructuralPullback:
    """The pullback of an op with respect to its first source."""

    name: str
    pull: Pull
    statement: str
    convention: str = ""


# -- shapes ----------------------------------------------------------------------------------------


def accumulation_dtype(dtype: DType) -> DType:
    """Return the type in which floats are summed: f32 for narrower ones."""
    return dtypes.f32 if dtype.bits < 32 else dtype


def sum_over(x: UOp, axes: Sequence[int]) -> UOp:
    """Return a sum over axes, which keep size 1, rounded once to the type of x."""
    if not axes:
        return x
    wide = convert(x, accumulation_dtype(x.dtype))
    return convert(ops.REDUCE_AXIS(wide, arg=(ops.ADD, tuple(axes))), x.dtype)


def convert(x: UOp, dtype: DType) -> UOp:
    """Return a value in another type."""
    return x if x.dtype is dtype else ops.CAST(x, dtype=dtype)


def has_shape(x: UOp, dims: Shape) -> bool:
    """Return whether a node is known to have a shape."""
    own = shape(x)
    return len(own) == len(dims) and all(map(are_equal, own, dims))


def reshaped(x: UOp, dims: Sequence[UOp]) -> UOp:
    """Return a value with another shape."""
    wanted = tuple(dims)
    if has_shape(x, wanted):
        return x
    return reshaped(x.src[0], wanted) if x.op is ops.RESHAPE else ops.RESHAPE(x, *wanted)


def expanded(x: UOp, dims: Sequence[UOp]) -> UOp:
    """Return a value repeated along axes of size 1."""
    wanted = tuple(dims)
    return x if has_shape(x, wanted) else ops.EXPAND(x, *wanted)


def fit(x: UOp, like: UOp) -> UOp:
    """Return a cotangent in the type and shape of a value: repeated, or summed to a scalar."""
    x = convert(x, like.dtype)
    own, wanted = shape(x), shape(like)
    if len(own) == len(wanted):
        return x
    if not own:
        ones = [UOp.const(dtypes.index, 1)] * len(wanted)
        return expanded(reshaped(x, ones), wanted)
    assert not wanted, "only scalars are broadcast without an EXPAND"
    return reshaped(sum_over(x, range(len(own))), ())


# -- movement --------------------------------------------------------------------------------------


def _reshape(cotangent: UOp, node: UOp) -> UOp:
    return reshaped(cotangent, shape(node.src[0]))


def _permute(cotangent: UOp, node: UOp) -> UOp:
    order: tuple[int, ...] = node.arg
    inverse = tuple(order.index(axis) for axis in range(len(order)))
    if cotangent.op is ops.PERMUTE:
        inner: tuple[int, ...] = cotangent.arg
        inverse = tuple(inner[axis] for axis in inverse)
        cotangent = cotangent.src[0]
    if inverse == tuple(range(len(order))):
        return cotangent
    return ops.PERMUTE(cotangent, arg=inverse)


def _expand(cotangent: UOp, node: UOp) -> UOp:
    before, after = shape(node.src[0]), shape(node)
    repeated = [k for k, (a, b) in enumerate(zip(before, after, strict=True)) if a is not b]
    return sum_over(cotangent, [k for k in repeated if not are_equal(before[k], after[k])])


def _pad(cotangent: UOp, node: UOp) -> UOp:
    sizes, befores = shape(node.src[0]), node.src[1::2]
    pairs = [(begin, begin + size) for begin, size in zip(befores, sizes, strict=True)]
    return ops.SHRINK(cotangent, *(number for pair in pairs for number in pair))


def _shrink(cotangent: UOp, node: UOp) -> UOp:
    sizes, begins, ends = shape(node.src[0]), node.src[1::2], node.src[2::2]
    pairs = [(b, size - e) for b, e, size in zip(begins, ends, sizes, strict=True)]
    return ops.PAD(cotangent, *(number for pair in pairs for number in pair))


def _flip(cotangent: UOp, node: UOp) -> UOp:
    return ops.FLIP(cotangent, arg=node.arg)


def _same(cotangent: UOp, node: UOp) -> UOp:
    return cotangent


def _copy(cotangent: UOp, node: UOp) -> UOp:
    device = device_of(node.src[0])
    return cotangent if device is None else ops.COPY(cotangent, arg=device)


def _cast(cotangent: UOp, node: UOp) -> UOp:
    return convert(cotangent, node.src[0].dtype)


# -- reductions ------------------------------------------------------------------------------------


def _reduce(cotangent: UOp, node: UOp) -> UOp | None:
    op: Op = node.arg[0]
    return _REDUCTIONS[op](cotangent, node)


def _sum(cotangent: UOp, node: UOp) -> UOp:
    return expanded(cotangent, shape(node.src[0]))


def _extreme(cotangent: UOp, node: UOp) -> UOp:
    x = node.src[0]
    is_extreme = x.eq(expanded(node, shape(x)))
    count = sum_over(is_extreme.where(x.lift(1.0), x.lift(0.0)), node.arg[1])
    share = expanded(cotangent / count, shape(x))
    return is_extreme.where(share, x.lift(0.0))


def _product(cotangent: UOp, node: UOp) -> UOp:
    """Return g times the product of the other elements, also where some elements are 0."""
    x, axes = node.src[0], node.arg[1]
    is_zero = x.eq(0.0)
    one, zero = x.lift(1.0), x.lift(0.0)
    others = ops.REDUCE_AXIS(is_zero.where(one, x), arg=(ops.MUL, axes))
    zeros = expanded(sum_over(is_zero.where(one, zero), axes), shape(x))
    scaled = expanded(cotangent * others, shape(x))
    rest = zeros.eq(0.0).where(scaled / is_zero.where(one, x), zero)
    pulled = (is_zero & zeros.eq(1.0)).where(scaled, rest)
    sizes = [shape(x)[axis] for axis in axes]
    if any(size.op is not ops.CONST or size.arg == 0 for size in sizes):
        return pulled
    return differentiated_as(pulled, lambda: _pull_product_of_pairs(cotangent, x, axes))


def _pull_product_of_pairs(cotangent: UOp, x: UOp, axes: Sequence[int]) -> UOp:
    """Return the same as the derivative of products of pairs of products.

    Its own derivatives are right of all orders. Those of a quotient are not at 0: there the
    product of the other elements is 0 with all its derivatives if two elements are 0.
    """
    from porism.gradient.reverse_mode import pull_back

    product = x
    for axis in axes:
        product = _product_of_pairs(product, axis, int(shape(x)[axis].arg))
    (pulled,) = pull_back([product], [cotangent], [x])
    assert pulled is not None, "the product depends on its factors"
    return pulled


def _product_of_pairs(x: UOp, axis: int, size: int) -> UOp:
    """Return the product along an axis, which keeps size 1, by halves that are multiplied."""

    def part(begin: int, end: int) -> UOp:
        pairs = [(0, n) for n in shape(x)]
        return tensor_nodes.shrink(x, [*pairs[:axis], (begin, end), *pairs[axis + 1 :]])

    single = None
    while size > 1:
        half = size // 2
        if size % 2:
            last = part(size - 1, size)
            single = last if single is None else single * last
        x, size = part(0, half) * part(half, 2 * half), half
    return x if single is None else x * single


_REDUCTIONS: Final[dict[Op, Callable[[UOp, UOp], UOp]]] = {
    ops.ADD: _sum,
    ops.MAX: _extreme,
    ops.MIN: _extreme,
    ops.MUL: _product,
}


# -- gathers ---------------------------------------------------------------------------------------


def _gather(cotangent: UOp, node: UOp) -> UOp:
    """Return for each element the sum of the cotangents of the indices that refer to it.

    An axis of the result along which an index tensor just counts is an axis of the source as well;
    the other axes of the source are merged to one, and so are those of the result.
    """
    source, indices = node.src[0], node.src[1:]
    sizes, result = shape(source), shape(node)
    counted = _counted_axes(indices, sizes, result)
    named = [k for k in range(len(sizes)) if k not in counted]
    if not named:
        return _permute_to(cotangent, tuple(counted[k] for k in range(len(sizes))))
    before = [k for k in sorted(counted) if k < named[0]]  # the merged axis comes after these
    kept = [*before, *(k for k in sorted(counted) if k > named[0])]
    batch = [counted[k] for k in kept]
    summed = [k for k in range(len(result)) if k not in batch]
    flat_index, inside = _flat_index([indices[k] for k in named], [sizes[k] for k in named])
    target = inside.where(flat_index, flat_index.lift(-1))
    length, count = _size([sizes[k] for k in named]), _size([result[k] for k in summed])
    dims = [result[k] for k in batch]
    first, last = dims[: len(before)], dims[len(before) :]
    table = (*first, length, *last, count)

    def arranged(x: UOp) -> UOp:
        """Return a tensor of the result's shape with the axes of the table."""
        moved = _permute_to(x, (*batch, *summed))
        flat = reshaped(moved, (*first, UOp.const(dtypes.index, 1), *last, count))
        return expanded(flat, table)

    position = ops.IOTA(*table, arg=len(before))
    wide = convert(arranged(cotangent), accumulation_dtype(cotangent.dtype))
    hits = arranged(target).eq(position)
    total = ops.REDUCE_AXIS(hits.where(wide, wide.lift(0.0)), arg=(ops.ADD, (len(dims) + 1,)))
    total = reshaped(total, (*first, *(sizes[k] for k in named), *last))
    axes = [*before, *named, *kept[len(before) :]]
    order = tuple(axes.index(k) for k in range(len(sizes)))
    return _permute_to(convert(total, cotangent.dtype), order)


def _permute_to(x: UOp, order: tuple[int, ...]) -> UOp:
    return x if order == tuple(range(len(order))) else ops.PERMUTE(x, arg=order)


def _counted_axes(indices: Sequence[UOp], sizes: Shape, result: Shape) -> dict[int, int]:
    """Return the axes of the source whose index counts along a whole axis of the result."""
    counted: dict[int, int] = {}
    for k, index in enumerate(indices):
        while index.op is ops.CAST:
            index = index.src[0]
        if index.op is not ops.IOTA or index.arg in counted.values():
            continue
        if are_equal(result[index.arg], sizes[k]):
            counted[k] = index.arg
    return counted


def _flat_index(indices: Sequence[UOp], sizes: Sequence[UOp]) -> tuple[UOp, UOp]:
    """Return the position of elements on merged axes, and whether all indices are in range."""
    flat: UOp | None = None
    inside: UOp | None = None
    for index, size in zip(indices, sizes, strict=True):
        valid = (index >= 0) & (index < size)
        inside = valid if inside is None else inside & valid
        flat = index if flat is None else flat * size + index
    assert flat is not None
    assert inside is not None
    return flat, inside


def _size(dims: Sequence[UOp]) -> UOp:
    total = UOp.const(dtypes.index, 1)
    for dim in dims:
        total = total * dim
    return total


PULLBACKS: Final[dict[Op, StructuralPullback]] = {
    ops.op(row.name): row
    for row in (
        StructuralPullback("RESHAPE", _reshape, "RESHAPE of g to the shape of x"),
        StructuralPullback("PERMUTE", _permute, "PERMUTE of g by the inverse order"),
        StructuralPullback("EXPAND", _expand, "sum of g over the repeated axes"),
        StructuralPullback("PAD", _pad, "SHRINK of g to where x is"),
        StructuralPullback("SHRINK", _shrink, "PAD of g with zeros"),
        StructuralPullback("FLIP", _flip, "FLIP of g along the same axes"),
        StructuralPullback("CONTIGUOUS", _same, "g"),
        StructuralPullback("COPY", _copy, "COPY of g to the device of x"),
        StructuralPullback("CAST", _cast, "CAST of g to the type of x; 0 of integers"),
        StructuralPullback(
            "REDUCE_AXIS",
            _reduce,
            "a sum: g, repeated; a maximum or minimum: g where x is the extreme; "
            "a product: g times the product of the other elements",
            "a maximum or minimum of equal elements is shared among them evenly",
        ),
        StructuralPullback(
            "GATHER", _gather, "for each element, the sum of g over the indices that refer to it"
        ),
    )
}
"""The pullback of each op that is not elementwise."""
