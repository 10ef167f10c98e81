"""Movement ops: RESHAPE, PERMUTE, PAD and others on arrays; GATHER and REDUCE_AXIS too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from porism.base.errors import ShapeError
from porism.evaluate.faults import Faults, describe
from porism.evaluate.op_evaluation import reduce_first_axis
from porism.evaluate.varying_value import GOOD, Aligned, Value
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp


def apply_movement(node: UOp, value: Value, sizes: Sequence[int]) -> Value:
    """Return the value of a movement op; `sizes` are the values of its further sources."""
    function = _MOVEMENTS[node.op]
    rank = len(sizes) if node.op is ops.RESHAPE else value.rank
    data = function(node, value, value.data, sizes)
    state = None if value.state is None else function(node, value, value.states, sizes)
    return Value(data, value.axes, rank, state)


def _shape_error(node: UOp, what: str, why: str, fix: str) -> ShapeError:
    return ShapeError(what, where=describe(node), why=why, fix=fix)


def _reshape(node: UOp, value: Value, array: Array, sizes: Sequence[int]) -> Array:
    if int(np.prod(sizes)) != int(np.prod(value.dims)) or any(size < 0 for size in sizes):
        raise _shape_error(
            node,
            f"cannot reshape {value.dims} to {tuple(sizes)}",
            f"they have {int(np.prod(value.dims))} and {int(np.prod(sizes))} elements",
            "PAD, SHRINK or EXPAND change the number of elements; RESHAPE keeps it",
        )
    return array.reshape((*array.shape[: len(value.axes)], *sizes, array.shape[-1]))


def _permute(node: UOp, value: Value, array: Array, sizes: Sequence[int]) -> Array:
    first = len(value.axes)
    _need_axes(node, value, node.arg, len(node.arg) == value.rank)
    return array.transpose([*range(first), *(first + a for a in node.arg), array.ndim - 1])


def _need_axes(node: UOp, value: Value, axes: Sequence[int], also: bool = True) -> None:
    if not also or any(axis >= value.rank for axis in axes):
        raise _shape_error(
            node,
            f"{node.op.name} with axes {tuple(axes)} of a tensor of shape {value.dims}",
            f"it has {value.rank} axes, numbered from 0",
            "name axes that the tensor has; PERMUTE names all of them",
        )


def _expand(node: UOp, value: Value, array: Array, sizes: Sequence[int]) -> Array:
    fits = len(sizes) == value.rank and all(
        new == old or old == 1 for new, old in zip(sizes, value.dims, strict=True)
    )
    if not fits:
        raise _shape_error(
            node,
            f"cannot expand {value.dims} to {tuple(sizes)}",
            "EXPAND repeats axes of size 1 and leaves the others",
            "RESHAPE first, so that each new axis has size 1",
        )
    return np.broadcast_to(array, (*array.shape[: len(value.axes)], *sizes, array.shape[-1]))


def _pairs(node: UOp, value: Value, sizes: Sequence[int]) -> list[tuple[int, int]]:
    if len(sizes) != 2 * value.rank:
        raise _shape_error(
            node,
            f"{node.op.name} of a tensor of {value.rank} axes with {len(sizes)} numbers",
            "it takes two numbers for each axis",
            "give a pair for every axis, also where nothing changes",
        )
    return list(zip(sizes[::2], sizes[1::2], strict=True))


def _pad(node: UOp, value: Value, array: Array, sizes: Sequence[int]) -> Array:
    pairs = _pairs(node, value, sizes)
    if any(n < 0 for n in sizes):
        raise _shape_error(
            node,
            f"cannot pad {value.dims} by {tuple(sizes)}",
            "padding is not negative",
            "SHRINK takes elements away",
        )
    first = len(value.axes)
    dims = [before + n + after for n, (before, after) in zip(value.dims, pairs, strict=True)]
    whole = np.zeros((*array.shape[:first], *dims, array.shape[-1]), array.dtype)
    inner = [slice(b, b + n) for n, (b, _) in zip(value.dims, pairs, strict=True)]
    whole[(*([slice(None)] * first), *inner)] = array
    return whole


def _shrink(node: UOp, value: Value, array: Array, sizes: Sequence[int]) -> Array:
    pairs = _pairs(node, value, sizes)
    for n, (begin, end) in zip(value.dims, pairs, strict=True):
        if not 0 <= begin <= end <= n:
            raise _shape_error(
                node,
                f"cannot take {begin} … {end} of an axis of size {n}",
                "a part begins at 0 or later, and ends at the size or before",
                "PAD adds elements",
            )
    inner = [slice(begin, end) for begin, end in pairs]
    return array[(*([slice(None)] * len(value.axes)), *inner)]


def _flip(node: UOp, value: Value, array: Array, sizes: Sequence[int]) -> Array:
    _need_axes(node, value, node.arg)
    return np.flip(array, tuple(len(value.axes) + axis for axis in node.arg))


_MOVEMENTS = {
    ops.RESHAPE: _reshape,
    ops.PERMUTE: _permute,
    ops.EXPAND: _expand,
    ops.PAD: _pad,
    ops.SHRINK: _shrink,
    ops.FLIP: _flip,
}


def gather(node: UOp, value: Value, indices: Sequence[Value]) -> Value:
    """Return the value of a GATHER: 0 where an index is out of bounds."""
    aligned = Aligned(indices, node)
    positions = [np.asarray(d[..., 0]) for d in aligned.data]
    inside = np.asarray(True)
    for position, size in zip(positions, value.dims, strict=True):
        inside = inside & np.asarray((position >= 0) & (position < size), np.bool_)
    for state in aligned.states:
        if state is not None:
            inside = inside & (state[..., 0] == GOOD)
    if value.axes or aligned.axes:
        raise _shape_error(
            node,
            "GATHER of values that vary with ranges",
            "it is an op of tensor graphs, in which there are no ranges",
            "INDEX the buffer",
        )
    shape = np.broadcast_shapes(inside.shape, *(p.shape for p in positions))
    inside = np.broadcast_to(inside, shape)
    chosen = tuple(
        np.broadcast_to(np.where(inside, p, 0).astype(np.int64), shape) for p in positions
    )

    def pick(array: Array) -> Array:
        if 0 in value.dims:
            return np.zeros((*shape, array.shape[-1]), array.dtype)
        picked = array[chosen]
        return np.where(inside[..., None], picked, np.zeros_like(picked))

    state = None if value.state is None else pick(value.states)
    return Value(pick(value.data), (), len(shape), state)


def reduce_tensor_axes(node: UOp, value: Value, faults: Faults) -> Value:
    """Return the value of a REDUCE_AXIS, whose axes stay with size 1."""
    op, axes = node.arg
    _need_axes(node, value, axes)
    if not axes:
        return value
    places = [len(value.axes) + axis for axis in axes]
    kept = tuple(1 if k in places else n for k, n in enumerate(value.data.shape))

    def iterations(array: Array) -> Array:
        front = np.moveaxis(array, places, range(len(places)))
        count = int(np.prod(front.shape[: len(places)]))
        return front.reshape((count, *front.shape[len(places) :]))

    state = None if value.state is None else iterations(value.states)
    data, state = reduce_first_axis(node, op, iterations(value.data), state, None, faults)
    if state is not None:
        state = np.broadcast_to(state, data.shape).reshape(kept)
        state = state if (state != GOOD).any() else None
    return Value(data.reshape(kept), value.axes, value.rank, state)
