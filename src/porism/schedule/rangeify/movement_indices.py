"""Indices: which element of its source an element of a movement op is.

An element is named by one expression for each axis, and a condition under which it is wanted at
all. Where the condition holds, each expression is an index of its axis; that of an axis of size 1
is the constant 0, so that two names of an element do not differ there. A movement op turns the name
of an element of its result into that of an element of its source:

    SHRINK   i + begin           EXPAND   0 where the source has size 1
    FLIP     n - 1 - i           PERMUTE  the same expressions in another order
    PAD      i - before, if that is inside; else the element is 0
    RESHAPE  the number of the element, split by // and %

A RESHAPE is taken apart into blocks of axes with equal products, so that axes which it leaves alone
cost nothing, and what is left of // and % is simplified at once, under the condition.
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
    """The name of an element of a tensor."""

    at: tuple[UOp, ...]
    valid: UOp | None = None
    """Where it is wanted; None if everywhere."""

    def under(self, condition: UOp | None) -> Element:
        """The same element where a condition holds as well."""
        if condition is None or condition is self.valid:
            return self
        return Element(self.at, condition if self.valid is None else self.valid & condition)

    def masked(self) -> tuple[UOp, ...]:
        """The expressions as the indices of an INDEX: INVALID where it is not wanted."""
        if self.valid is None or not self.at:
            return self.at
        nowhere = UOp(ops.INVALID, index)
        return (self.valid.where(self.at[0], nowhere), *self.at[1:])


class Moved(NamedTuple):
    """What a movement op reads."""

    element: Element
    inside: UOp | None = None
    """Where that is an element of the source; elsewhere the value is 0."""


def moved(node: UOp, element: Element) -> Moved:
    """The element of its source that an element of a movement op is."""
    return _MOVES[node.op](node, element)


def is_size_one(dim: UOp) -> bool:
    """Whether an axis has one element."""
    return bool(dim.vmin == dim.vmax == 1)


def simplified(expression: UOp, valid: UOp | None) -> UOp:
    """An index expression without the // and % that are not needed where the condition holds."""
    if not any(n.op in _DIVISIONS and not _is_plain(n) for n in toposort(expression)):
        return expression
    return simplify(expression, facts=() if valid is None else conjuncts(valid))


_DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD})


def _is_plain(division: UOp) -> bool:
    """A loop counter divided by a constant: nothing can be done about it here."""
    numerator, divisor = division.src
    return (
        numerator.op is ops.RANGE and divisor.op is ops.CONST and 1 < divisor.arg <= numerator.vmax
    )


def _shrink(node: UOp, element: Element) -> Moved:
    names = zip(element.at, node.src[1::2], shape(node.src[0]), strict=True)
    at = tuple(ZERO if is_size_one(dim) else i + begin for i, begin, dim in names)
    return Moved(Element(at, element.valid))


def _permute(node: UOp, element: Element) -> Moved:
    at = dict(zip(node.arg, element.at, strict=True))
    return Moved(Element(tuple(at[axis] for axis in range(len(at))), element.valid))


def _flip(node: UOp, element: Element) -> Moved:
    dims = shape(node)
    at = tuple(dims[axis] - 1 - i if axis in node.arg else i for axis, i in enumerate(element.at))
    return Moved(Element(at, element.valid))


def _expand(node: UOp, element: Element) -> Moved:
    dims = shape(node.src[0])
    at = tuple(ZERO if is_size_one(dim) else i for dim, i in zip(dims, element.at, strict=True))
    return Moved(Element(at, element.valid))


def _pad(node: UOp, element: Element) -> Moved:
    dims = shape(node.src[0])
    befores, afters = node.src[1::2], node.src[2::2]
    at = []
    inside: UOp | None = None
    for i, dim, before, after in zip(element.at, dims, befores, afters, strict=True):
        here = i - before
        at.append(ZERO if is_size_one(dim) else here)
        for condition in (
            None if before.vmax <= 0 else here >= 0,
            None if after.vmax <= 0 else here < dim,
        ):
            if condition is not None and condition.vmin != 1:
                inside = condition if inside is None else inside & condition
    return Moved(Element(tuple(at), element.valid).under(inside), inside)


def _reshape(node: UOp, element: Element) -> Moved:
    at: list[UOp] = []
    for new, old in _blocks(shape(node), shape(node.src[0])):
        names = element.at[new.start : new.stop]
        sizes = shape(node)[new.start : new.stop]
        at += _renamed(names, sizes, shape(node.src[0])[old.start : old.stop], element.valid)
    return Moved(Element(tuple(at), element.valid))


def _blocks(new: Shape, old: Shape) -> Iterator[tuple[range, range]]:
    """Groups of neighbouring axes that have as many elements in both shapes, the finest there are.

    A size that is not a number only goes with itself, alone or as the rest of the axes.
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
            i, j = _end_of_block(new, old, i, j)
        yield range(first_new, i), range(first_old, j)


def _end_of_block(new: Shape, old: Shape, i: int, j: int) -> tuple[int, int]:
    left = right = 1
    while True:
        if left == right and left != 1:
            return i, j
        grows_left = left <= right
        dims, k = (new, i) if grows_left else (old, j)
        if k == len(dims) or dims[k].vmin != dims[k].vmax or dims[k].vmin <= 0:
            return len(new), len(old)
        if grows_left:
            left, i = left * int(dims[k].vmin), i + 1
        else:
            right, j = right * int(dims[k].vmin), j + 1


def _renamed(
    names: Sequence[UOp], sizes: Sequence[UOp], wanted: Sequence[UOp], valid: UOp | None
) -> Iterator[UOp]:
    """The element in axes of the sizes `wanted`, given its name in axes of other sizes."""
    if not wanted:
        return
    number = ZERO
    for name, size in zip(names, sizes, strict=True):
        number = number * size + name
    if len(wanted) == 1:
        yield number
        return
    behind = ONE
    strides = [ONE]
    for size in reversed(wanted[1:]):
        behind = behind * size
        strides.append(behind)
    for axis, (size, stride) in enumerate(zip(wanted, reversed(strides), strict=True)):
        if is_size_one(size):
            yield ZERO
            continue
        place = number // stride
        yield simplified(place if axis == 0 else place % size, valid)


_MOVES: Final[dict[Op, Callable[[UOp, Element], Moved]]] = {
    ops.SHRINK: _shrink,
    ops.PERMUTE: _permute,
    ops.FLIP: _flip,
    ops.EXPAND: _expand,
    ops.PAD: _pad,
    ops.RESHAPE: _reshape,
}
