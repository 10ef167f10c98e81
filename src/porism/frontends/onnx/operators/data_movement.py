"""Data movement: shapes, slices, joins, padding and order of elements; constants and ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from porism.frontends.onnx.imported_graph import MOST_BYTES
from porism.frontends.onnx.operator_call import Call, Value, held
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.onnx.stored_operands import permuted
from porism.frontends.tensor_functions import xp

MOST_KNOWN: Final = 1 << 12
"""A larger result than this is a tensor, also if its values are known."""


def check_shape(call: Call, shape: Sequence[int], itemsize: int = 1) -> tuple[int, ...]:
    """Return a shape that a node asks for; refuse one that is negative or too large."""
    if any(size < 0 for size in shape):
        raise call.error(f"{call.node.op} to the shape {tuple(shape)}", "a size is negative")
    if math.prod(shape) * itemsize > MOST_BYTES:
        raise call.error(
            f"{call.node.op} to the shape {tuple(shape)}",
            f"a tensor of a model has at most {MOST_BYTES} bytes",
        )
    return tuple(shape)


# -- constants -------------------------------------------------------------------------------------


def _constant(call: Call) -> Value:
    for name, dtype in (
        ("value_float", np.float32),
        ("value_int", np.int64),
        ("value_floats", np.float32),
        ("value_ints", np.int64),
        ("value_string", object),
        ("value_strings", object),
    ):
        if call.attribute(name) is not None:
            return np.array(call.attribute(name), dtype)
    value = call.attribute("value", call.attribute("sparse_value"))
    if value is None:
        raise call.error("Constant without a value", "one of its attributes is the value")
    return value


def _constant_of_shape(call: Call) -> Value:
    value = call.attribute("value")
    fill = np.zeros(1, np.float32) if value is None else np.ravel(value)
    if fill.size != 1:
        raise call.error(f"ConstantOfShape of {fill.size} values", "it has one value")
    shape = check_shape(call, call.numbers(0) or [], fill.dtype.itemsize)
    if math.prod(shape) <= MOST_KNOWN or not held(fill.dtype):
        return np.full(shape, fill[0], fill.dtype)
    return xp.full(shape, fill[0].item(), dtype=fill.dtype)


def _shape(call: Call) -> Value:
    sizes = call.shape(0)
    start, end = call.integer("start"), call.attribute("end")
    return np.array(sizes[start:end], np.int64)


def _range(call: Call) -> Value:
    start, limit, delta = (call.host(k).reshape(()) for k in range(3))
    if delta == 0:
        raise call.error("Range with a step of 0", "it never ends")
    count = max(math.ceil((limit.item() - start.item()) / delta.item()), 0)
    check_shape(call, [count], 8)
    if start.dtype.kind in "iu":
        return (start + delta * np.arange(count, dtype=np.int64)).astype(start.dtype)
    if start.dtype.name in ("float32", "float64"):
        return (start + np.arange(count, dtype=start.dtype) * delta).astype(start.dtype)
    steps = np.arange(count, dtype=np.float32) * delta.astype(np.float32)
    return (start.astype(np.float32) + steps).astype(start.dtype)


def _eye_like(call: Call) -> Value:
    rows, columns = call.shape(0)
    number = call.attribute("dtype")
    from porism.frontends.onnx import onnx_types

    dtype = call.dtype(0) if number is None else onnx_types.numpy_dtype(number)
    return xp.eye(rows, columns, k=call.integer("k")).astype(dtype)


# -- shapes ----------------------------------------------------------------------------------------


def new_shape(call: Call, old: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that Reshape asks for, with 0 and -1 replaced."""
    wanted = call.numbers(1, "shape") or []
    if not call.integer("allowzero"):
        wanted = [old[k] if n == 0 and k < len(old) else n for k, n in enumerate(wanted)]
    if wanted.count(-1) == 1:
        rest = math.prod(n for n in wanted if n != -1)
        inferred = math.prod(old) // rest if rest else 0
        wanted = [inferred if n == -1 else n for n in wanted]
    if any(n < 0 for n in wanted) or math.prod(wanted) != math.prod(old):
        raise call.error(
            f"Reshape of {tuple(old)} to {tuple(call.numbers(1, 'shape') or [])}",
            "the numbers of elements differ",
        )
    return tuple(wanted)


def _reshape(call: Call) -> Value:
    return call.tensor(0).reshape(new_shape(call, call.shape(0)))


def _reshape_host(call: Call) -> Value:
    return call.host(0).reshape(new_shape(call, call.shape(0)))


def _flat_shape(call: Call) -> tuple[int, int]:
    shape = call.shape(0)
    axis = call.integer("axis", 1)
    axis = axis if axis == len(shape) else call.axis(axis, max(len(shape), 1))
    return math.prod(shape[:axis]), math.prod(shape[axis:])


def _squeezed(call: Call) -> tuple[int, ...]:
    shape = call.shape(0)
    axes = call.numbers(1, "axes")
    if axes is None:
        return tuple(n for n in shape if n != 1)
    dropped = {call.axis(axis, len(shape)) for axis in axes}
    if any(shape[k] != 1 for k in dropped):
        raise call.error(f"Squeeze of axes {axes} of {shape}", "an axis is not of size 1")
    return tuple(n for k, n in enumerate(shape) if k not in dropped)


def _unsqueezed(call: Call) -> tuple[int, ...]:
    shape = list(call.shape(0))
    axes = call.numbers(1, "axes") or []
    rank = len(shape) + len(axes)
    for axis in sorted(call.axis(axis, rank) for axis in axes):
        shape.insert(axis, 1)
    return tuple(shape)


def _expanded(call: Call) -> tuple[int, ...]:
    wanted = call.numbers(1) or []
    shape = np.broadcast_shapes(call.shape(0), tuple(check_shape(call, wanted)))
    return check_shape(call, shape, call.dtype(0).itemsize)


def _expand(call: Call) -> Value:
    return xp.broadcast_to(call.tensor(0), _expanded(call))


def _expand_host(call: Call) -> Value:
    shape = _expanded(call)
    if math.prod(shape) > MOST_KNOWN and held(call.dtype(0)):
        return (_expand(call),)
    return np.broadcast_to(call.host(0), shape).copy()


def _transposed(call: Call) -> list[int]:
    rank = call.rank(0)
    order = call.ints("perm", range(rank)[::-1])
    return [call.axis(axis, rank) for axis in order]


def _to_shape(name: str, shape: Any) -> Operator:
    """Return the row of an operator that only changes the shape."""
    return Operator(
        name,
        lambda call: call.tensor(0).reshape(shape(call)),
        host=lambda call: call.host(0).reshape(shape(call)),
    )


# -- slices and joins ------------------------------------------------------------------------------


def _slices(call: Call) -> tuple[slice, ...]:
    shape = call.shape(0)
    rank = len(shape)
    if call.version < 10:
        starts, ends = call.ints("starts"), call.ints("ends")
        axes, steps = call.attribute("axes"), None
    else:
        starts, ends = call.numbers(1) or [], call.numbers(2) or []
        axes, steps = call.numbers(3), call.numbers(4)
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    slices = [slice(None)] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise call.error("Slice with a step of 0", "it never ends")
        axis = call.axis(axis, rank)
        size = shape[axis]
        first = start + size if start < 0 else start
        last = end + size if end < 0 else end
        if step > 0:
            first, last = min(max(first, 0), size), min(max(last, 0), size)
            slices[axis] = slice(first, max(first, last), step)
        else:
            first, last = min(max(first, 0), size - 1), min(max(last, -1), size - 1)
            slices[axis] = slice(first, None if last < 0 else last, step)
            if last >= first or not size:
                slices[axis] = slice(0, 0)
    return tuple(slices)


def _concat(call: Call) -> Value:
    axis = call.axis(call.integer("axis", 1), call.rank(0))
    tensors = call.tensors()
    return tensors[0] if len(tensors) == 1 else xp.concat(tensors, axis=axis)


def _concat_host(call: Call) -> Value:
    arrays = [call.host(k) for k in range(len(call.inputs))]
    return np.concatenate(arrays, axis=call.integer("axis", 1))


def split_sizes(call: Call, size: int) -> list[int]:
    """Return the sizes of the parts that Split asks for."""
    sizes = call.numbers(1, "split")
    if sizes is None:
        count = call.integer("num_outputs", call.output_count)
        if count < 1:
            raise call.error(f"Split into {count} parts", "there is at least one")
        part = -(-size // count)
        sizes = [max(min(part, size - k * part), 0) for k in range(count)]
    if sum(sizes) != size or min(sizes, default=0) < 0:
        raise call.error(f"Split of {size} into parts of {sizes}", "their sum is another")
    return sizes


def _split(call: Call) -> Value:
    axis = call.axis(call.integer("axis"), call.rank(0))
    sizes = split_sizes(call, call.shape(0)[axis])
    known = isinstance(call.value(0), np.ndarray)
    x = call.host(0) if known and call.host(0).size <= MOST_KNOWN else call.tensor(0)
    parts, begin = [], 0
    for size in sizes:
        key = (*[slice(None)] * axis, slice(begin, begin + size))
        parts.append(x[key])
        begin += size
    return tuple(parts)


def _tile_counts(call: Call) -> list[int]:
    if call.version < 6:
        counts = [1] * call.rank(0)
        counts[call.axis(int(call.scalar(2)), len(counts))] = int(call.scalar(1))
    else:
        counts = call.numbers(1) or []
    sizes = [n * k for n, k in zip(call.shape(0), counts, strict=True)]
    check_shape(call, counts)
    check_shape(call, sizes, call.dtype(0).itemsize)
    return counts


def _tile(call: Call) -> Value:
    return xp.tile(call.tensor(0), tuple(_tile_counts(call)))


def _tile_host(call: Call) -> Value:
    counts = _tile_counts(call)
    if math.prod(counts) * math.prod(call.shape(0)) > MOST_KNOWN and held(call.dtype(0)):
        return (_tile(call),)
    return np.tile(call.host(0), counts)


# -- padding ---------------------------------------------------------------------------------------


def _pad(call: Call) -> Value:
    x = call.tensor(0)
    rank = x.ndim
    if call.version < 11:
        amounts = call.ints("pads", call.attribute("paddings"))
        value: Any = call.attribute("value", 0.0)
    else:
        amounts = call.numbers(1) or []
        value = call.scalar(2, 0)
    axes = call.numbers(3) if call.version >= 18 else None
    axes = list(range(rank)) if axes is None else [call.axis(axis, rank) for axis in axes]
    count = len(axes)
    if len(amounts) != 2 * count:
        raise call.error(f"Pad by {amounts} of {count} axes", "there are two numbers for an axis")
    pairs = [(0, 0)] * rank
    for k, axis in enumerate(axes):
        pairs[axis] = (amounts[k], amounts[k + count])
    check_shape(call, [n + sum(p) for n, p in zip(x.shape, pairs, strict=True)], 1)
    mode = call.text("mode", "constant")
    if mode == "constant":
        return xp.pad(x, pairs, value=bool(value) if x.dtype is xp.bool else value)
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = _pad_axis(call, x, axis, before, after, mode)
    return x


def _pad_axis(call: Call, x: Value, axis: int, before: int, after: int, mode: str) -> Value:
    """Return x padded along one axis from its own elements; any number of them."""
    size = x.shape[axis]
    positions = np.arange(-before, size + after)
    if size == 0 and len(positions):
        raise call.error(f"Pad with mode {mode} of an empty axis", "it has no elements to repeat")
    if mode == "edge":
        positions = positions.clip(0, size - 1)
    elif mode == "wrap":
        positions = positions % size
    elif mode == "reflect":
        period = max(2 * (size - 1), 1)
        folded = positions % period
        positions = np.minimum(folded, period - folded) if size > 1 else folded * 0
    else:
        raise call.error(f"Pad with mode {mode!r}", "there is no such mode")
    key = {"edge": "edge", "wrap": "wrap", "reflect": "reflect"}[mode]
    if 0 <= before < size and 0 <= after < size:
        pairs = [(before, after) if k == axis else (0, 0) for k in range(x.ndim)]
        return xp.pad(x, pairs, mode=key)
    return xp.take(x, positions, axis=axis)


def _center_crop_pad(call: Call) -> Value:
    x = call.tensor(0)
    sizes = call.numbers(1) or []
    axes = [call.axis(a, x.ndim) for a in call.ints("axes", range(x.ndim))]
    pairs = [(0, 0)] * x.ndim
    for axis, size in zip(axes, sizes, strict=True):
        have = x.shape[axis]
        if size < have:
            begin = (have - size) // 2
            pairs[axis] = (-begin, -(have - size - begin))
        else:
            before = (size - have) // 2
            pairs[axis] = (before, size - have - before)
    check_shape(call, [n + sum(p) for n, p in zip(x.shape, pairs, strict=True)], 1)
    return xp.pad(x, pairs)


# -- blocks ----------------------------------------------------------------------------------------


def _depth_to_space(call: Call) -> Value:
    x, block = call.tensor(0), call.integer("blocksize")
    n, c, h, w = x.shape
    if call.text("mode", "DCR") == "DCR":
        y = permuted(x.reshape((n, block, block, c // block**2, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        y = permuted(x.reshape((n, c // block**2, block, block, h, w)), (0, 1, 4, 2, 5, 3))
    return y.reshape((n, c // block**2, h * block, w * block))


def _space_to_depth(call: Call) -> Value:
    x, block = call.tensor(0), call.integer("blocksize")
    n, c, h, w = x.shape
    y = x.reshape((n, c, h // block, block, w // block, block))
    if call.text("mode", "DCR") == "CRD":
        y = y.permute((0, 1, 3, 5, 2, 4))
    else:
        y = y.permute((0, 3, 5, 1, 2, 4))
    return y.reshape((n, c * block**2, h // block, w // block))


def _reverse_sequence(call: Call) -> Value:
    x, lengths = call.tensor(0), call.tensor(1)
    batch_axis, time_axis = call.integer("batch_axis", 1), call.integer("time_axis", 0)
    size = x.shape[time_axis]
    shape = [1] * x.ndim
    shape[batch_axis] = -1
    lengths = lengths.astype("int64").reshape(tuple(shape))
    shape[batch_axis], shape[time_axis] = 1, size
    steps = xp.arange(size).reshape(tuple(shape))
    index = xp.where(steps < lengths, lengths - 1 - steps, steps)
    return xp.take_along_axis(x, xp.broadcast_to(index, x.shape), axis=time_axis)


def _trilu(call: Call) -> Value:
    k = int(call.scalar(1, 0))
    function = xp.triu if call.integer("upper", 1) else xp.tril
    return function(call.tensor(0), k)


OPERATORS: Final = (
    Operator("Constant", _constant),
    Operator("ConstantOfShape", _constant_of_shape),
    Operator("Shape", _shape),
    Operator("Size", lambda call: np.array(math.prod(call.shape(0)), np.int64)),
    Operator("Range", _range),
    Operator("EyeLike", _eye_like),
    Operator("Reshape", _reshape, host=_reshape_host),
    _to_shape("Flatten", _flat_shape),
    _to_shape("Squeeze", _squeezed),
    _to_shape("Unsqueeze", _unsqueezed),
    Operator("Expand", _expand, host=_expand_host),
    Operator("Transpose", lambda call: permuted(call.tensor(0), _transposed(call)),
             host=lambda call: np.transpose(call.host(0), _transposed(call))),
    Operator("Slice", lambda call: call.tensor(0)[_slices(call)],
             host=lambda call: call.host(0)[_slices(call)]),
    Operator("Concat", _concat, host=_concat_host),
    Operator("Split", _split),
    Operator("Tile", _tile, host=_tile_host),
    Operator("Pad", _pad),
    Operator("CenterCropPad", _center_crop_pad),
    Operator("DepthToSpace", _depth_to_space),
    Operator("SpaceToDepth", _space_to_depth),
    Operator("ReverseSequence", _reverse_sequence),
    Operator("Trilu", _trilu),
)  # fmt: skip
"""The rows of this module."""
