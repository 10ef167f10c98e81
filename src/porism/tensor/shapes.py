"""Shapes: sizes, axes and broadcasting; checks of arguments that are sizes or axes.

A size is an int, or a node where it is symbolic. Wrong arguments are refused here, with the line of
the user's program, before a graph is built from them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from porism.base.errors import ShapeError
from porism.ir.facts.node_shape import are_equal, shape
from porism.ir.node import UOp
from porism.ir.text import expression
from porism.tensor.primitive import Dim, as_dim
from porism.tensor.user_line import users_line

Sizes = tuple[Dim, ...]


class SymbolicShape(tuple[Dim, ...]):
    """A shape with symbolic sizes, whose repr shows them as expressions: `(n=5, n * 2)`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return to_text(self)


class OutOfRange(ShapeError, IndexError):  # noqa: N818 - the name says it all
    """An index, axis or mask that a tensor does not have; also an IndexError, as of lists."""


def shape_error(what: str, why: str, fix: str) -> ShapeError:
    """Return the error for wrong shapes and axes, at the user's line."""
    return ShapeError(what, where=users_line(), why=why, fix=fix)


def sizes_of(x: UOp) -> Sizes:
    """Return the shape of a node.

    >>> from porism.tensor.primitive import iota
    >>> sizes_of(iota((2, 3), 0))
    (2, 3)
    """
    sizes = tuple(map(to_static, shape(x)))
    return SymbolicShape(sizes) if UOp in map(type, sizes) else sizes


def to_static(size: Dim) -> Dim:
    """Return a size as an int if its bounds leave one value."""
    return int(size.vmin) if isinstance(size, UOp) and size.vmin == size.vmax else size


def to_text(sizes: Iterable[Dim]) -> str:
    """Return a shape as text.

    >>> to_text((2, 3)), to_text((2,)), to_text(())
    ('(2, 3)', '(2,)', '()')
    """
    inner = [size_text(size) for size in sizes]
    return f"({inner[0]},)" if len(inner) == 1 else f"({', '.join(inner)})"


def size_text(size: Dim) -> str:
    """Return a size as text: a bound variable by its name, with its value if it stands alone.

    >>> from porism.base.dtypes import index
    >>> from porism.ir import ops
    >>> n = UOp.variable("n", 1, 8)
    >>> size_text(3), size_text(ops.BIND(n, UOp.const(index, 5))), size_text(n * 2)
    ('3', 'n=5', 'n * 2')
    """
    if isinstance(size, int):
        return str(size)
    return expression.size_text(size) or expression.show(size, limit=200)


def sizes_equal(a: Dim, b: Dim) -> bool:
    """Whether two sizes are known to be equal."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return are_equal(as_dim(a), as_dim(b))


def shapes_equal(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes are known to be equal."""
    return len(a) == len(b) and all(map(sizes_equal, a, b))


def is_one(size: Dim) -> bool:
    """Whether a size is known to be 1, so that the axis can be broadcast."""
    return sizes_equal(size, 1)


def product(sizes: Iterable[Dim]) -> Dim:
    """Return the number of elements of a shape."""
    total: Dim = 1
    for size in sizes:
        total = size if isinstance(total, int) and total == 1 else total * size
    return total


# -- arguments -------------------------------------------------------------------------------------


def as_int(value: Any, what: str) -> int:
    """Return an integer of Python or NumPy as an int; anything else is an error."""
    try:
        return operator.index(value)
    except TypeError:
        raise shape_error(
            f"{what} is {value!r}",
            f"it is a {type(value).__name__}, and an int is wanted",
            "pass an int",
        ) from None


def as_number(value: Any, what: str) -> float:
    """Return a finite number of Python or NumPy; anything else is an error."""
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise shape_error(
            f"{what} is {value!r}",
            f"it is a {type(value).__name__}, and a number is wanted",
            "pass an int or a float",
        )
    if not math.isfinite(value):
        raise shape_error(
            f"{what} is {value!r}", "a finite number is wanted", "pass another number"
        )
    return value  # type: ignore[return-value]


def as_size(value: Any, what: str = "a size") -> Dim:
    """Return an int or a symbolic size; anything else is an error."""
    if isinstance(value, UOp):
        return to_static(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return as_int(value, what)


def as_sizes(given: Any, *, allow: int = 0) -> Sizes:
    """Return the sizes in a `shape` argument: an int, a sequence, or a tuple with one sequence.

    A size below `allow` is an error; with `allow=-1`, -1 stands for a size to be inferred.

    >>> as_sizes(3), as_sizes([2, 3]), as_sizes(((2, 3),))
    ((3,), (2, 3), (2, 3))
    """
    if isinstance(given, tuple) and len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = given[0]
    single = isinstance(given, (int, UOp)) or not isinstance(given, Iterable)
    sizes = tuple(as_size(size) for size in ((given,) if single else given))
    for size in sizes:
        if isinstance(size, int) and size < allow:
            raise shape_error(
                f"the shape {to_text(sizes)} has the size {size}",
                "a size is not negative" if not allow else "a size is not below -1",
                "give sizes of 0 or more" + (", or -1 for the one that is left" if allow else ""),
            )
    return sizes


def joined_sizes(first: Any, others: tuple[Any, ...]) -> Any:
    """Return the argument of a function that takes a tuple, or separate ints, as one.

    >>> joined_sizes((2, 3), ()), joined_sizes(2, (3,))
    ((2, 3), (2, 3))
    """
    return (first, *others) if others else first


def normalize_axis(axis: Any, rank: int, what: str = "axis") -> int:
    """Return an axis counted from the front; a negative one counts from the end.

    >>> normalize_axis(-1, 3)
    2
    """
    number = as_int(axis, what)
    if not -rank <= number < rank:
        raise OutOfRange(
            f"there is no {what} {number} in a tensor of {rank} {'axis' if rank == 1 else 'axes'}",
            where=users_line(),
            why=f"axes go from {-rank} to {rank - 1}" if rank else "a scalar has no axes",
            fix="name an axis that the tensor has, or add one with expand_dims or reshape",
        )
    return number % rank


def normalize_axes(axis: Any, rank: int, what: str = "axis") -> tuple[int, ...]:
    """Return axes counted from the front, in the order given: an int, a sequence, None for all.

    >>> normalize_axes(None, 2), normalize_axes(-1, 2), normalize_axes((-1, 0), 2)
    ((0, 1), (1,), (1, 0))
    """
    if axis is None:
        return tuple(range(rank))
    if not isinstance(axis, (tuple, list)):
        return (normalize_axis(axis, rank, what),)
    axes = tuple(normalize_axis(item, rank, what) for item in axis)
    if len(set(axes)) < len(axes):
        twice = next(a for k, a in enumerate(axes) if a in axes[:k])
        raise shape_error(
            f"{what} {twice} is named twice in {tuple(axis)!r}",
            "each axis is meant once; those below 0 count from the end",
            "name it once",
        )
    return axes


# -- broadcasting ----------------------------------------------------------------------------------


def broadcast_shapes(*given: Sequence[Dim]) -> Sizes:
    """Return the shape to which all are broadcast, as in NumPy: aligned at the end.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    rank = max((len(sizes) for sizes in given), default=0)
    result: list[Dim] = [1] * rank
    for sizes in given:
        for k, size in enumerate(sizes, rank - len(sizes)):
            if is_one(result[k]):
                result[k] = size
            elif not is_one(size) and not sizes_equal(size, result[k]):
                raise _broadcast_error(given, k - rank, result[k], size)
    return tuple(result)


def _broadcast_error(given: Sequence[Sequence[Dim]], axis: int, a: Dim, b: Dim) -> ShapeError:
    """Return the error for shapes that cannot be broadcast together."""
    shown = [to_text(sizes) for sizes in given if sizes]
    known = isinstance(a, int) and isinstance(b, int)
    verb = "are different" if known else "are not known to be equal"
    return shape_error(
        f"the shapes {' and '.join(dict.fromkeys(shown))} do not go together",
        f"in axis {axis} (counted from the end) the sizes {size_text(a)} and {size_text(b)} "
        f"{verb}, and neither is 1",
        "reshape, transpose or slice one of them, so that sizes are equal or 1",
    )
