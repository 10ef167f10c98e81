"""Varying values: the value of a node as one array over all ranges, dims and lanes.

The axes of the array are, in this order:

- *named axes*, one for each RANGE, SPECIAL or unrolled axis that the value depends on, in the order
  of `axis_order`; a value that does not depend on a range has no axis for it;
- the *dims* of a tensor, as many as its `rank`;
- the *lanes* of a vector, always there: a scalar has one lane.

Each element also has a *state*: 0 where it has a value, `INVALID` where it is the index of no
element, and the number of a fault where computing it was an error. A fault is raised only when the
element is used, so the branch that a WHERE does not select never fails. INVALID takes precedence
over a fault: the masked access does not happen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from porism.base.errors import ShapeError
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.text.expression import show

AxisName = UOp | int
"""A RANGE, a SPECIAL, or the number of an unrolled axis."""

Axes = tuple[AxisName, ...]

GOOD: Final = 0
"""The state of an element that has a value."""

INVALID: Final = -1
"""The state of the index of no element."""

EXACT: Final = 1 << 62
"""`index` data is int64 while every element is smaller than this, and Python ints otherwise."""


class Value:
    """Data with its named axes, rank and state."""

    __slots__ = ("axes", "data", "rank", "state")

    def __init__(
        self, data: Array, axes: Axes = (), rank: int = 0, state: Array | None = None
    ) -> None:
        self.data = data
        self.axes = axes
        self.rank = rank
        self.state = state  # None where every element is good; else it broadcasts to the data

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes of a tensor's dimensions, without named axes and lanes."""
        return self.data.shape[len(self.axes) : -1]

    @property
    def lanes(self) -> int:
        """The number of lanes."""
        return int(self.data.shape[-1])

    @property
    def states(self) -> Array:
        """The state of every element."""
        if self.state is None:
            return np.zeros(self.data.shape, np.int32)
        return np.broadcast_to(self.state, self.data.shape)

    @property
    def valid(self) -> Array:
        """Which elements are not INVALID."""
        return np.asarray(self.states != INVALID)

    @property
    def undefined(self) -> Array:
        """Which elements could not be computed."""
        return np.asarray(self.states > GOOD)

    def __repr__(self) -> str:
        axes = ", ".join(label(axis) for axis in self.axes)
        return f"Value({self.data.tolist()}, axes=({axes}), dims={self.dims})"


def axis_order(axis: AxisName) -> tuple[Any, ...]:
    """Return the sort key of a named axis: ranges first, then SPECIALs, then unrolled axes."""
    if isinstance(axis, int):
        return (2, (axis,), "", b"")
    if axis.op is ops.RANGE:
        return (0, axis.arg[0], axis.arg[1].value, axis.key)
    return (1, (), axis.arg, axis.key)


def label(axis: AxisName) -> str:
    """Return a named axis as text for an error message."""
    return f"unrolled axis {axis}" if isinstance(axis, int) else show(axis, limit=40)


def union_axes(parts: Iterable[Axes]) -> Axes:
    """Return the union of the axes, sorted."""
    whole: Axes = ()
    for part in parts:
        if part and part != whole:
            joint = {*whole, *part}
            if len(joint) > len(whole):
                whole = part if len(joint) == len(part) else tuple(sorted(joint, key=axis_order))
    return whole


def align_axes(array: Array, own: Axes, own_rank: int, axes: Axes, rank: int) -> Array:
    """Return a view with size-1 axes where the array lacks one of `axes` or of `rank` dims."""
    if own == axes and own_rank == rank:
        return array
    named = dict(zip(own, array.shape, strict=False))
    shape = [named.get(axis, 1) for axis in axes]
    dims = array.shape[len(own) : -1] if own_rank else (1,) * rank
    return array.reshape((*shape, *dims, array.shape[-1]))


class Aligned:
    """Values with the same axes and rank, so that NumPy can broadcast them."""

    __slots__ = ("axes", "data", "rank", "states")

    def __init__(self, values: Sequence[Value], node: UOp) -> None:
        first = values[0]
        self.axes, self.rank = first.axes, first.rank
        if all(v.axes == first.axes and v.rank == first.rank for v in values):
            self.data = [v.data for v in values]
            self.states = [v.state for v in values]
        else:
            self.axes = union_axes(v.axes for v in values)
            self.rank = max(v.rank for v in values)
            self.data = [self._view(v, v.data) for v in values]
            self.states = [None if v.state is None else self._view(v, v.state) for v in values]
        if self.rank:
            shapes = {v.dims for v in values if v.rank}
            if len(shapes) > 1:
                raise ShapeError(
                    f"{node.op.name} of tensors of shapes {' and '.join(map(str, shapes))}",
                    where=show(node, limit=120),
                    why="elementwise operands have equal shapes; nothing is broadcast by itself",
                    fix="RESHAPE and EXPAND one of them first",
                )

    def _view(self, value: Value, array: Array) -> Array:
        return align_axes(array, value.axes, value.rank, self.axes, self.rank)

    def value(self, data: Array, state: Array | None) -> Value:
        """Return a value with these axes and rank."""
        return Value(data, self.axes, self.rank, state)


def merge_states(states: Iterable[Array | None]) -> Array | None:
    """Return the state of a result of several elements: INVALID, else a fault, else good."""
    result: Array | None = None
    for state in states:
        if state is None:
            continue
        if result is None:
            result = state
        else:
            worst = np.maximum(result, state)
            result = np.where(np.minimum(result, state) < 0, INVALID, worst).astype(np.int32)
    return result


def select_state(condition: Array, yes: Array | None, no: Array | None) -> Array | None:
    """Return the state of a selection between two elements; None if all are good."""
    if yes is None and no is None:
        return None
    zero = np.int32(GOOD)
    chosen = np.where(condition, zero if yes is None else yes, zero if no is None else no)
    return none_if_good(chosen.astype(np.int32))


def none_if_good(state: Array | None) -> Array | None:
    """Return the state, or None if every element is good."""
    return state if state is not None and state.any() else None


def broadcast_axes(value: Value, axes: Axes, sizes: Mapping[AxisName, int]) -> Value:
    """Return the value broadcast along more named axes."""
    whole = union_axes((value.axes, axes))
    if whole == value.axes:
        return value
    data = align_axes(value.data, value.axes, value.rank, whole, value.rank)
    shape = (*(sizes[axis] for axis in whole), *data.shape[len(whole) :])
    state = value.state
    if state is not None:
        state = align_axes(state, value.axes, value.rank, whole, value.rank)
    return Value(np.broadcast_to(data, shape), whole, value.rank, state)


# -- exact integers --------------------------------------------------------------------------------


def magnitude(array: Array) -> int:
    """Return the largest absolute value in an array of ints; 0 of an empty one."""
    if array.size == 1:
        return abs(int(array.reshape(-1)[0]))
    if array.size == 0:
        return 0
    return max(abs(int(array.min())), abs(int(array.max())))


_UNBOUNDED: Final = frozenset({ops.SHL, ops.POW})


def widen_integers(op: Op, arrays: list[Array]) -> list[Array]:
    """Return `index` operands in a type in which the result of the op is exact.

    The data decide, not the bounds of the nodes: bounds are tested against the evaluator. Two int64
    operands below `EXACT` cannot overflow in a sum, but may in a product.
    """
    if all(a.dtype != object for a in arrays):
        if op is ops.MUL or op is ops.MULACC:
            exact = magnitude(arrays[0]) * magnitude(arrays[1]) < EXACT
        else:
            exact = op not in _UNBOUNDED
        if exact:
            return arrays
    return [a if a.dtype in (object, np.bool_) else a.astype(object) for a in arrays]


def narrow_integers(array: Array) -> Array:
    """Return `index` data as int64 if all of it is small, else as Python ints."""
    small = magnitude(array) < EXACT
    if array.dtype == object:
        return array.astype(np.int64) if small else array
    return array.astype(np.int64) if small else array.astype(object)
