"""Examples for the procedures about buffers: small values kept for ranges, and elements of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from porism.base.dtypes import Space, f32, i32
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.prove.example_variations import Example
from tests.examples.example_graphs import NONE, X, buffer, given, made, masked, number

TENSOR: Final = made(ops.PARAM, number(2), number(3), dtype=f32, arg=6)
VALUES: Final = {
    3: 1,
    6: np.asarray([[1.5, -0.0, np.inf], [-2.5, 3.5, np.nan]], np.float32),
    8: np.asarray([4.0, 5.0, 6.0, 7.0], np.float32),
}


def _loop(size: int, axis: int) -> UOp:
    return made(ops.RANGE, number(size), arg=((axis,), Axis.LOOP))


I, J, R, S = _loop(2, 0), _loop(3, 1), _loop(2, 2), _loop(3, 3)  # noqa: E741 # as in a[i, j]
NO_LOOP: Final = _loop(0, 4)


def kept(value: UOp, *places: UOp, space: Space = Space.LOCAL) -> UOp:
    return made(ops.BUFFERIZE, value, *places, arg=space)


def element(base: UOp, *indices: UOp) -> UOp:
    return made(ops.INDEX, base, *indices)


def _indices(*plain: UOp) -> Iterator[tuple[UOp, ...]]:
    """Indices as they are, masked, with a gate, and INVALID."""
    yield plain
    first, *rest = plain
    positive = made(ops.LT, number(0), first)
    yield masked(positive, first), *rest
    yield *plain, positive
    yield masked(positive, first), *(masked(made(ops.LT, r, number(1)), r) for r in rest)
    yield NONE, *rest


def constants() -> Iterator[Example]:
    """Also padding: the elements around a tensor of ones are 0."""
    for constant in (number(1.5, f32), number(-0.0, f32), number(7, i32), number(True, f32)):
        for space in Space:
            one = kept(constant, R, space=space)
            two = kept(constant, R, S, space=space)
            for indices in _indices(I):
                yield element(one, *indices), VALUES
            for indices in _indices(I, J):
                yield element(two, *indices), VALUES
            yield element(kept(constant, space=space)), VALUES
    yield element(number(1.5, f32)), VALUES
    longer = _loop(4, 0)
    ones = kept(number(1.0, f32), J)
    yield element(ones, masked(made(ops.LT, longer, number(3)), longer)), VALUES


def same_elements() -> Iterator[Example]:
    value = element(TENSOR, R, S)
    one = element(buffer(8), made(ops.ADD, R, X))
    for graph in (
        element(kept(value, R, S), R, S),
        element(kept(value, S), S),
        element(kept(value, S), J),
        element(kept(value, R, S), S, R),
        element(kept(value, number(0), S), number(0), S),
        element(kept(one, R), R),
        element(kept(one)),
        made(ops.REDUCE, element(kept(value, S), S), S, arg=ops.ADD),
        element(kept(value, R, S), masked(made(ops.LT, R, number(1)), R), S),
    ):
        yield graph, VALUES


def copies() -> Iterator[Example]:
    value = element(TENSOR, R, S)
    inner = kept(value, R, S)
    row = kept(value, S)
    for copy in (
        kept(element(inner, I, J), I, J),
        kept(element(inner, I, J), J, I),
        kept(element(inner, masked(made(ops.LT, I, number(1)), I), J), I, J),
        kept(element(row, J), J),
        kept(element(row, J), J, space=Space.REGISTER),
        kept(element(kept(value, R, S), I, I), I, I),
        kept(element(kept(value, number(0), S), number(0), J), number(0), J),
        kept(element(kept(value, S), R), R),
    ):
        yield copy, VALUES
    one = element(buffer(8), made(ops.ADD, R, X))
    for space in (Space.LOCAL, Space.REGISTER):
        for total in (
            value,
            made(ops.NEG, value),
            made(ops.ADD, value, one),
            made(ops.MAX, one, one),
        ):
            for own, over in (((R, S), (I, J)), ((S, R), (J, I)), ((R,), (I,)), ((S,), (J,))):
                inner = kept(total, *own, space=space)
                yield kept(element(inner, *over), *over, space=space), VALUES
    # every way to index a copy, over every order of its ranges, in every kind of memory
    for space, outer in itertools.product(Space, Space):
        for places in ((I, J), (J, I), (I, I), (J, J), (number(0), J), (I, number(1))):
            for indices in _indices(*places):
                for over in ((I, J), (J, I), places):
                    inner = kept(value, R, S, space=space)
                    yield kept(element(inner, *indices), *over, space=outer), VALUES


def dead() -> Iterator[Example]:
    """Axes that a value does not depend on; an axis of one element; no axis left; no element."""
    row, column = element(TENSOR, R, number(1)), element(TENSOR, number(1), S)
    for value in (row, column, element(TENSOR, I, S), element(TENSOR, number(1), number(0))):
        for indices in _indices(I, J):
            yield element(kept(value, R, S), *indices), VALUES
    for indices in _indices(number(0), J):
        yield element(kept(column, number(0), S), *indices), VALUES
    for indices in _indices(I):
        yield element(kept(X, R), *indices), VALUES
    # axes that are not dead: the extent of another needs one, and two have an index of their own
    triangle = made(ops.RANGE, made(ops.ADD, R, number(1)), arg=((6,), Axis.LOOP))
    yield element(kept(element(TENSOR, number(1), triangle), R, triangle), I, number(0)), VALUES
    for own in (number(1), given(0)):
        yield element(kept(column, own, S), own, J), {**VALUES, 0: 1}
    empty = made(ops.RANGE, number(0), arg=((5,), Axis.LOOP))
    total = element(kept(column, NO_LOOP, S), empty, J)
    yield made(ops.REDUCE, total, empty, arg=ops.ADD), VALUES


BUFFER_EXAMPLES: Final[Mapping[str, Callable[[], Iterator[Example]]]] = {
    "index-constant": constants,
    "index-bufferize": same_elements,
    "bufferize-copy": copies,
    "index-dead-axis": dead,
}
