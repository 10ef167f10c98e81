"""Movement indices: the element of its source that an element of a movement op reads.

An element is addressed by one index expression per axis, and by a condition under which it is read
at all. Where the condition holds, each expression is within its axis; the index of an axis of size
1 is the constant 0, so that equal elements have equal indices. A movement op maps the indices of an
element of its result to those of an element of its source:

    SHRINK   i + begin           EXPAND   0 where the source has size 1
    FLIP     n - 1 - i           PERMUTE  the same expressions in another order
    PAD      i - before, if that is inside; else the element is 0
    RESHAPE  the row-major offset of the element, split by // and %

A RESHAPE is split into groups of axes with equal products, so that axes which it does not change
cost nothing; the // and % that remain are simplified at once, under the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.facts.node_shape import Shape, are_equal, shape
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.rules.index.normalize import conjuncts, simplify

ZERO: Final = UOp.const(index, 0)
ONE: Final = UOp.const(index, 1)


class Element(NamedTuple):
    """An element of a tensor, by its indices."""

    indices: tuple[UOp, ...]
    """One index expression per axis."""
    valid: UOp | None = None
    """The condition under which the element is read; None if it always is."""

    def restricted(self, condition: UOp | None) -> Element:
        """Return the same element, read only where the condition holds as well."""
        if condition is None or condition is self.valid:
            return self
        return Element(self.indices, condition if self.valid is None else self.valid & condition)

    def masked_indices(self) -> tuple[UOp, ...]:
        """Return the indices for an INDEX op, the first one INVALID where nothing is read."""
        if self.valid is None or not self.indices:
            return self.indices
        invalid = UOp(ops.INVALID, index)
        return (self.valid.where(self.indices[0], invalid), *self.indices[1:])


class SourceElement(NamedTuple):
    """The element of its source that a movement op reads."""

    element: Element
    inside: UOp | None = None
    """Where the element is inside the source; elsewhere (in padding) the value is 0."""


def source_element(node: UOp, element: Element) -> SourceElement:
    """Map an element of the result of a movement op to the element of its source."""
    return _INDEX_MAPS[node.op](node, element)


def is_size_one(dim: UOp) -> bool:
    """Return whether an axis has exactly one element."""
    return bool(dim.vmin == dim.vmax == 1)


def simplify_index(expression: UOp, valid: UOp | None) -> UOp:
    """Return an index expression without the // and % that are redundant where `valid` holds."""
    if not any(n.op in _DIVISIONS and not _is_irreducible(n) for n in toposort(expression)):
        return expression
    return simplify(expression, facts=() if valid is None else conjuncts(valid))


_DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD})


def _is_irreducible(division: UOp) -> bool:
    """Return whether a division is of a loop by a constant within its extent."""
    numerator, divisor = division.src
    return (
        numerator.op is ops.RANGE and divisor.op is ops.CONST and 1 < divisor.arg <= numerator.vmax
    )


def _shrink(node: UOp, element: Element) -> SourceElement:
    axes = zip(element.indices, node.src[1::2], shape(node.src[0]), strict=True)
    indices = tuple(ZERO if is_size_one(dim) else i + begin for i, begin, dim in axes)
    return SourceElement(Element(indices, element.valid))


def _permute(node: UOp, element: Element) -> SourceElement:
    by_axis = dict(zip(node.arg, element.indices, strict=True))
    indices = tuple(by_axis[axis] for axis in range(len(by_axis)))
    return SourceElement(Element(indices, element.valid))


def _flip(node: UOp, element: Element) -> SourceElement:
    dims = shape(node)
    indices = tuple(
        dims[axis] - 1 - i if axis in node.arg else i for axis, i in enumerate(element.indices)
    )
    return SourceElement(Element(indices, element.valid))


def _expand(node: UOp, element: Element) -> SourceElement:
    dims = shape(node.src[0])
    axes = zip(dims, element.indices, strict=True)
    indices = tuple(ZERO if is_size_one(dim) else i for dim, i in axes)
    return SourceElement(Element(indices, element.valid))


def _pad(node: UOp, element: Element) -> SourceElement:
    dims = shape(node.src[0])
    befores, afters = node.src[1::2], node.src[2::2]
    indices = []
    inside: UOp | None = None
    for i, dim, before, after in zip(element.indices, dims, befores, afters, strict=True):
        source_index = i - before
        indices.append(ZERO if is_size_one(dim) else source_index)
        for condition in (
            None if before.vmax <= 0 else source_index >= 0,
            None if after.vmax <= 0 else source_index < dim,
        ):
            if condition is not None and condition.vmin != 1:
                inside = condition if inside is None else inside & condition
    source = Element(tuple(indices), element.valid).restricted(inside)
    return SourceElement(source, inside)


def _reshape(node: UOp, element: Element) -> SourceElement:
    indices: list[UOp] = []
    for new, old in _axis_groups(shape(node), shape(node.src[0])):
        new_indices = element.indices[new.start : new.stop]
        new_sizes = shape(node)[new.start : new.stop]
        old_sizes = shape(node.src[0])[old.start : old.stop]
        indices += _split_offset(new_indices, new_sizes, old_sizes, element.valid)
    return SourceElement(Element(tuple(indices), element.valid))


def _axis_groups(new: Shape, old: Shape) -> Iterator[tuple[range, range]]:
    """Yield the smallest groups of adjacent axes whose sizes have equal products in both shapes.

    A symbolic size only matches itself, alone or in a group of all remaining axes.
    """
    i = j = 0
    while i < len(new) or j < len(old):
        first_new, first_old = i, j
        if i < len(new) and j < len(old) and are_equal(new[i], old[j]):
            i, j = i + 1, j + 1
        elif i < len(new) and is_size_one(new[i]):
            i += 1
        elif j < len(old) and is_size_one(old[j]):
            j += 1
        else:
            i, j = _end_of_group(new, old, i, j)
        yield range(first_new, i), range(first_old, j)


def _end_of_group(new: Shape, old: Shape, i: int, j: int) -> tuple[int, int]:
    """Return the axes after the group that starts at axis i of `new` and axis j of `old`."""
    new_product = old_product = 1
    while True:
        if new_product == old_product and new_product != 1:
            return i, j
        extends_new = new_product <= old_product
        dims, k = (new, i) if extends_new else (old, j)
        if k == len(dims) or dims[k].vmin != dims[k].vmax or dims[k].vmin <= 0:
            return len(new), len(old)
        if extends_new:
            new_product, i = new_product * int(dims[k].vmin), i + 1
        else:
            old_product, j = old_product * int(dims[k].vmin), j + 1


def _split_offset(
    indices: Sequence[UOp], sizes: Sequence[UOp], new_sizes: Sequence[UOp], valid: UOp | None
) -> Iterator[UOp]:
    """Yield the indices in axes of `new_sizes` of the element at `indices` in axes of `sizes`."""
    if not new_sizes:
        return
    offset = ZERO
    for i, size in zip(indices, sizes, strict=True):
        offset = offset * size + i
    if len(new_sizes) == 1:
        yield offset
        return
    stride = ONE
    strides = [ONE]
    for size in reversed(new_sizes[1:]):
        stride = stride * size
        strides.append(stride)
    for axis, (size, stride) in enumerate(zip(new_sizes, reversed(strides), strict=True)):
        if is_size_one(size):
            yield ZERO
            continue
        quotient = offset // stride
        yield simplify_index(quotient if axis == 0 else quotient % size, valid)


_INDEX_MAPS: Final[dict[Op, Callable[[UOp, Element], SourceElement]]] = {
    ops.SHRINK: _shrink,
    ops.PERMUTE: _permute,
    ops.FLIP: _flip,
    ops.EXPAND: _expand,
    ops.PAD: _pad,
    ops.RESHAPE: _reshape,
}
