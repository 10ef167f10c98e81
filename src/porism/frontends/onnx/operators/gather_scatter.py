"""Gather and scatter: elements read and written at indices that are values of tensors."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from porism.frontends.onnx.operator_call import Call, Value
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.tensor_functions import xp


def _index(call: Call, number: int, size: int) -> Value:
    """Return an input of indices along an axis; known ones are checked."""
    if call.is_host(number):
        index = call.host(number)
        if index.size and (index.min() < -size or index.max() >= size):
            raise call.error(
                f"{call.node.op} with indices from {index.min()} to {index.max()}",
                f"the axis has {size} elements",
            )
        return index.astype(np.int64)
    return call.tensor(number)


def _gather(call: Call) -> Value:
    x = call.tensor(0)
    axis = call.axis(call.integer("axis"), x.ndim)
    index = _index(call, 1, x.shape[axis])
    key: list[Any] = [slice(None)] * axis
    if isinstance(index, np.ndarray) and index.size == 1:
        at = int(index.reshape(())) % max(x.shape[axis], 1)
        part = x[(*key, slice(at, at + 1))]
        shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
        return part.reshape(shape)
    if isinstance(index, np.ndarray) and index.ndim == 1:
        return xp.take(x, index % max(x.shape[axis], 1), axis=axis)
    index = index if not isinstance(index, np.ndarray) else call.tensor(1)
    return x[(*key, index)]


def _gather_host(call: Call) -> Value:
    x = call.host(0)
    axis = call.axis(call.integer("axis"), x.ndim)
    return np.take(x, _index(call, 1, x.shape[axis]), axis=axis)


def _gather_elements(call: Call) -> Value:
    x = call.tensor(0)
    axis = call.axis(call.integer("axis"), x.ndim)
    return xp.gather(x, axis, wrapped(call.tensor(1), x.shape[axis]))


def wrapped(index: Value, size: int) -> Value:
    """Return indices with negative ones counted from the end."""
    index = index.astype("int64")
    return xp.where(index < 0, index + size, index)


def linear_index(index: Value, sizes: tuple[int, ...]) -> Value:
    """Return tuples of indices along the last axis as positions in row-major order."""
    total: Any = 0
    for k, size in enumerate(sizes):
        total = total * size + wrapped(index[..., k], size)
    return total


def _gather_nd(call: Call) -> Value:
    x, index = call.tensor(0), call.tensor(1)
    batch = call.integer("batch_dims")
    depth = index.shape[-1]
    outer, inner = x.shape[:batch], x.shape[batch : batch + depth]
    rest = x.shape[batch + depth :]
    count = math.prod(outer)
    flat = x.reshape((count * math.prod(inner), *rest))
    at = linear_index(index, inner)
    if batch:
        offsets = xp.arange(count).reshape((*outer, *[1] * (at.ndim - batch)))
        at = at + offsets * math.prod(inner)
    return flat[at] if at.ndim else flat[at.reshape((1,))].reshape(rest)


_REDUCTIONS: Final = {"none": None, "add": "add", "mul": "multiply", "min": "min", "max": "max"}


def _reduction(call: Call) -> str | None:
    name = call.text("reduction", "none")
    if name not in _REDUCTIONS:
        raise call.error(f"{call.node.op} with reduction {name!r}", "there is no such reduction")
    return _REDUCTIONS[name]


def _scatter_elements(call: Call) -> Value:
    x = call.tensor(0)
    axis = call.axis(call.integer("axis"), x.ndim)
    index = wrapped(call.tensor(1), x.shape[axis])
    return xp.scatter(x, axis, index, call.tensor(2), reduce=_reduction(call))


def _scatter_nd(call: Call) -> Value:
    x, index, updates = call.tensor(0), call.tensor(1), call.tensor(2)
    depth = index.shape[-1]
    inner, rest = x.shape[:depth], x.shape[depth:]
    width = math.prod(rest)
    count = math.prod(index.shape[:-1])
    at = linear_index(index, inner)
    at = xp.broadcast_to(at.reshape((count, 1)), (count, width))
    flat = x.reshape((math.prod(inner), width))
    result = xp.scatter(flat, 0, at, updates.reshape((count, width)), reduce=_reduction(call))
    return result.reshape(x.shape)


def _scatter_nd_host(call: Call) -> Value:
    x, index, updates = call.host(0).copy(), call.host(1), call.host(2)
    if _reduction(call) is not None:
        return (_scatter_nd(call),)
    rows = index.reshape(-1, index.shape[-1])
    values = updates.reshape(len(rows), *x.shape[index.shape[-1] :])
    for row, value in zip(rows, values, strict=True):
        x[tuple(row)] = value
    return x


def _tensor_scatter(call: Call) -> Value:
    """Write updates into a cache at each batch's own position along one axis."""
    cache, update = call.tensor(0), call.tensor(1)
    axis = call.axis(call.integer("axis", -2), cache.ndim)
    size, length = cache.shape[axis], update.shape[axis]
    steps_shape = [1] * cache.ndim
    steps_shape[axis] = length
    at = xp.arange(length).reshape(tuple(steps_shape))
    if call.has(2):
        starts = call.tensor(2).astype("int64").reshape((-1, *[1] * (cache.ndim - 1)))
        at = at + starts
    if call.text("mode", "linear") == "circular":
        at = xp.remainder(at, size)
    return xp.scatter(cache, axis, xp.broadcast_to(at, update.shape), update)


def _one_hot(call: Call) -> Value:
    depth = int(call.host(1).reshape(-1)[0])
    index = call.tensor(0)
    axis = call.axis(call.integer("axis", -1), index.ndim + 1)
    values = call.tensor(2)
    labels = xp.expand_dims(index, axis)
    labels = xp.where(labels < 0, labels + depth, labels)
    shape = [1] * (index.ndim + 1)
    shape[axis] = depth
    classes = xp.arange(depth).astype(labels.dtype).reshape(tuple(shape))
    return xp.where(labels == classes, values[1], values[0])


OPERATORS: Final = (
    Operator("Gather", _gather, host=_gather_host),
    Operator("GatherElements", _gather_elements),
    Operator("GatherND", _gather_nd),
    Operator("Scatter", _scatter_elements),
    Operator("ScatterElements", _scatter_elements),
    Operator("ScatterND", _scatter_nd, host=_scatter_nd_host),
    Operator("TensorScatter", _tensor_scatter),
    Operator("OneHot", _one_hot),
)
"""The rows of this module."""
