"""Windowed operators: convolutions and pools over sliding windows, with every kind of padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from porism.frontends.onnx.operator_call import Call, Value
from porism.frontends.onnx.operators.contractions import integer_product, largest_sum
from porism.frontends.onnx.operators.data_movement import check_shape
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.tensor_functions import xp
from porism.tensor.network.sliding_windows import sliding_windows
from porism.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Windows:
    """How windows slide over the spatial axes: their taps, and the elements added around."""

    taps: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]
    """How many windows there are along each axis."""
    overhang: tuple[int, ...]
    """Elements after the padding that the last window covers, with ceil_mode."""

    @property
    def symmetric(self) -> bool:
        """Whether every axis has as much padding before as after, and no overhang."""
        return all(a == b for a, b in self.pads) and not any(self.overhang)


def windows_of(call: Call, sizes: Sequence[int], taps: Sequence[int]) -> Windows:
    """Return the windows that a node's attributes describe."""
    spatial = len(sizes)
    strides = call.ints("strides", [1] * spatial)
    dilations = call.ints("dilations", [1] * spatial)
    if not len(taps) == len(strides) == len(dilations) == spatial:
        raise call.error(
            f"{call.node.op} with windows {list(taps)}, strides {strides}, dilations {dilations}",
            f"there is one number for each of {spatial} axes",
        )
    if min((*strides, *dilations, *taps), default=1) < 1:
        raise call.error(f"{call.node.op} with a stride, dilation or window below 1", "it is not")
    spans = [(k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True)]
    pads = _pads(call, sizes, spans, strides)
    ceil = bool(call.integer("ceil_mode"))
    counts, overhang = [], []
    for size, span, stride, (before, after) in zip(sizes, spans, strides, pads, strict=True):
        room = size + before + after - span
        count = (-(-room // stride) if ceil else room // stride) + 1
        if ceil and (count - 1) * stride >= size + before:
            count -= 1  # a window that begins after the input
        counts.append(max(count, 0))
        overhang.append(max((count - 1) * stride + span - size - before - after, 0))
    if min(counts, default=1) < 1:
        raise call.error(
            f"{call.node.op} with windows {list(taps)} over {list(sizes)}",
            "a window is longer than the padded input",
            "check the shapes of the inputs",
        )
    check_shape(call, [n + sum(p) for n, p in zip(sizes, pads, strict=True)])
    return Windows(
        tuple(taps), tuple(strides), tuple(dilations), tuple(pads), tuple(counts), tuple(overhang)
    )


def _pads(
    call: Call, sizes: Sequence[int], spans: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    spatial = len(sizes)
    auto = call.text("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = []
        for size, span, stride in zip(sizes, spans, strides, strict=True):
            total = max((-(-size // stride) - 1) * stride + span - size, 0)
            small, large = total // 2, total - total // 2
            pads.append((small, large) if auto == "SAME_UPPER" else (large, small))
        return pads
    if auto == "VALID":
        return [(0, 0)] * spatial
    flat = call.ints("pads", [0] * 2 * spatial)
    if len(flat) != 2 * spatial:
        raise call.error(f"{call.node.op} with pads {flat}", f"there are {2 * spatial} of them")
    return list(zip(flat[:spatial], flat[spatial:], strict=True))


# -- convolution -----------------------------------------------------------------------------------


def convolve(call: Call, x: Value, w: Value, bias: Value) -> Value:
    """Return the convolution that a node's attributes describe."""
    spatial = x.ndim - 2
    if not 1 <= spatial <= 3 or w.ndim != x.ndim:
        raise call.error(
            f"{call.node.op} of shapes {x.shape} and {w.shape}",
            "both have a batch or channels out, channels in, and one to three axes more",
        )
    windows = windows_of(call, x.shape[2:], w.shape[2:])
    padding: Any = [before for before, _ in windows.pads]
    if not windows.symmetric:
        x = xp.pad(x, [(0, 0), (0, 0), *windows.pads])
        padding = 0
    function = (xp.conv1d, xp.conv2d, xp.conv3d)[spatial - 1]
    return function(
        x, w, bias, stride=windows.strides, padding=padding, dilation=windows.dilations,
        groups=call.integer("group", 1),
    )  # fmt: skip


def _conv(call: Call) -> Value:
    return convolve(call, call.tensor(0), call.tensor(1), call.optional(2))


def _conv_integer(call: Call) -> Value:
    w = call.tensor(1).astype("int32")
    if call.has(3):
        zero = call.tensor(3).astype("int32")
        w = w - (zero.reshape((-1, *[1] * (w.ndim - 1))) if zero.size > 1 else zero.reshape(()))

    def product(x: Value, w: Value) -> Value:
        return convolve(call, x, w, None)

    return integer_product(call, product, w, largest_sum(call, 1, 3, None))


def _conv_transpose(call: Call) -> Value:
    x, w, bias = call.tensor(0), call.tensor(1), call.optional(2)
    spatial = x.ndim - 2
    if not 1 <= spatial <= 3:
        raise call.error(f"ConvTranspose of shape {x.shape}", "it has one to three spatial axes")
    strides = call.ints("strides", [1] * spatial)
    dilations = call.ints("dilations", [1] * spatial)
    extra = call.ints("output_padding", [0] * spatial)
    taps = w.shape[2:]
    full = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(x.shape[2:], strides, taps, dilations, strict=True)
    ]
    wanted = call.attribute("output_shape")
    auto = call.text("auto_pad", "NOTSET")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if wanted is not None:
        pads = []
        for size, target, more in zip(full, wanted[-spatial:], extra, strict=True):
            total = size + more - target
            small, large = (0, total) if total < 0 else (total // 2, total - total // 2)
            pads.append((large, small) if auto == "SAME_LOWER" else (small, large))
    elif auto == "VALID":
        pads = [(0, 0)] * spatial
    else:
        flat = call.ints("pads", [0] * 2 * spatial)
        pads = list(zip(flat[:spatial], flat[spatial:], strict=True))
    check_shape(call, [n + e for n, e in zip(full, extra, strict=True)])
    function = (xp.conv_transpose1d, xp.conv_transpose2d, xp.conv_transpose3d)[spatial - 1]
    groups = call.integer("group", 1)
    crops = [before for before, _ in pads]
    if all(a == b >= 0 for a, b in pads) and not any(extra):
        return function(
            x, w, bias, stride=strides, padding=crops, groups=groups, dilation=dilations
        )
    y = function(x, w, None, stride=strides, groups=groups, dilation=dilations)
    ends = [(-before, more - after) for (before, after), more in zip(pads, extra, strict=True)]
    y = xp.pad(y, [(0, 0), (0, 0), *ends])
    return y if bias is None else y + bias.reshape((-1, *[1] * spatial))


def _deform_conv(call: Call) -> Value:
    """Return a convolution whose taps are moved by offsets, and read between elements."""
    x, w, offset = call.tensor(0), call.tensor(1), call.tensor(2)
    bias, mask = call.optional(3), call.optional(4)
    n, c, height, width = x.shape
    out, inner, kh, kw = w.shape
    groups, offset_groups = call.integer("group", 1), call.integer("offset_group", 1)
    windows = windows_of(call, (height, width), (kh, kw))
    oh, ow = windows.counts
    taps = kh * kw
    offset = offset.reshape((n, offset_groups, taps, 2, oh, ow))
    rows = np.arange(oh)[:, None] * windows.strides[0] - windows.pads[0][0]
    columns = np.arange(ow)[None, :] * windows.strides[1] - windows.pads[1][0]
    tap = np.arange(taps)
    y0 = rows[None] + (tap // kw * windows.dilations[0])[:, None, None]
    x0 = columns[None] + (tap % kw * windows.dilations[1])[:, None, None]
    y0 = np.broadcast_to(y0, (taps, oh, ow)).astype(np.float32)
    x0 = np.broadcast_to(x0, (taps, oh, ow)).astype(np.float32)
    at_y = offset[:, :, :, 0] + call.constant(y0).astype(x.dtype)
    at_x = offset[:, :, :, 1] + call.constant(x0).astype(x.dtype)
    images = x.reshape((n * offset_groups, c // offset_groups, height * width))
    shape = (n * offset_groups, taps * oh * ow)
    values = bilinear(images, at_y.reshape(shape), at_x.reshape(shape), height, width)
    values = values.reshape((n, offset_groups, c // offset_groups, taps, oh * ow))
    if mask is not None:
        values = values * mask.reshape((n, offset_groups, 1, taps, oh * ow))
    values = values.reshape((n, groups, c // groups * taps, oh * ow))
    weight = w.reshape((1, groups, out // groups, inner * taps))
    result = xp.matmul(weight, values).reshape((n, out, oh, ow)).astype(x.dtype)
    return result if bias is None else result + bias.reshape((1, -1, 1, 1))


def bilinear(images: Value, y: Value, x: Value, height: int, width: int) -> Value:
    """Return images (n, c, height * width) at points (n, m), zero outside: (n, c, m)."""
    top, left = xp.floor(y), xp.floor(x)
    total: Any = 0
    for dy in (0, 1):
        for dx in (0, 1):
            row, column = top + dy, left + dx
            weight = (1 - xp.abs(y - row)) * (1 - xp.abs(x - column))
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            at = (xp.clip(row, 0, height - 1) * width + xp.clip(column, 0, width - 1)).astype(
                "int64"
            )
            shape = (images.shape[0], images.shape[1], at.shape[1])
            found = xp.gather(images, 2, xp.broadcast_to(xp.expand_dims(at, 1), shape))
            total = total + found * xp.expand_dims(xp.where(inside, weight, 0), 1)
    return total


def _col2im(call: Call) -> Value:
    """Return images to which columns of windows are added."""
    x = call.tensor(0)
    sizes, taps = call.numbers(1) or [], call.numbers(2) or []
    windows = windows_of(call, sizes, taps)
    spatial = len(sizes)
    n, c = x.shape[0], x.shape[1] // math.prod(taps)
    x = x.reshape((n, c, *taps, *windows.counts))
    padded = [s + sum(p) + o for s, p, o in zip(sizes, windows.pads, windows.overhang, strict=True)]
    result: Any = None
    for tap in np.ndindex(*taps):
        part = x[(slice(None), slice(None), *(int(t) for t in tap))]
        begin = [int(t) * d for t, d in zip(tap, windows.dilations, strict=True)]
        part = _spread(part, windows.strides, begin, padded)
        result = part if result is None else result + part
    crops = [(-before, -after - o) for (before, after), o in
             zip(windows.pads, windows.overhang, strict=True)]  # fmt: skip
    assert spatial == len(crops)
    return xp.pad(result, [(0, 0), (0, 0), *crops])


def _spread(x: Value, strides: Sequence[int], begin: Sequence[int], sizes: Sequence[int]) -> Value:
    """Return x with its elements `stride` apart from `begin` on, among zeros."""
    for k, (stride, start, size) in enumerate(zip(strides, begin, sizes, strict=True)):
        axis = k + 2
        count = x.shape[axis]
        if stride > 1:
            x = xp.expand_dims(x, axis + 1)
            pads = [(0, stride - 1) if a == axis + 1 else (0, 0) for a in range(x.ndim)]
            x = xp.pad(x, pads)
            x = x.reshape((*x.shape[:axis], count * stride, *x.shape[axis + 2 :]))
        after = size - start - x.shape[axis]
        x = xp.pad(x, [(start, after) if a == axis else (0, 0) for a in range(x.ndim)])
    return x


# -- pools -----------------------------------------------------------------------------------------


def _view(call: Call, x: Value, outside: Any) -> tuple[Value, Windows]:
    """Return the windows of x as a tensor (batch, channels, counts…, taps…)."""
    windows = windows_of(call, x.shape[2:], call.ints("kernel_shape"))
    pads = [(a, b + o) for (a, b), o in zip(windows.pads, windows.overhang, strict=True)]
    if any(map(any, pads)):
        x = xp.pad(x, [(0, 0), (0, 0), *pads], value=outside)
    axes = range(2, x.ndim)
    view = sliding_windows(x.node, axes, windows.taps, windows.strides, windows.dilations)
    return Tensor(view), windows


def _tap_axes(windows: Windows) -> tuple[int, ...]:
    spatial = len(windows.taps)
    return tuple(range(2 + spatial, 2 + 2 * spatial))


def _max_pool(call: Call) -> Value:
    x = call.tensor(0)
    lowest = -np.inf if x.dtype.base.is_float else x.dtype.base.min
    view, windows = _view(call, x, lowest)
    axes = _tap_axes(windows)
    result = xp.max(view, axis=axes)
    if call.output_count < 2:
        return result
    spatial = len(windows.taps)
    best = xp.argmax(view.reshape((*view.shape[: 2 + spatial], -1)), axis=-1)
    return result, _flat_positions(call, best, windows, x.shape)


def _flat_positions(call: Call, best: Value, windows: Windows, shape: tuple[int, ...]) -> Value:
    """Return the position in the whole input of each window's largest element."""
    spatial = len(windows.taps)
    column_major = bool(call.integer("storage_order"))
    strides = [1] * spatial
    order = range(1, spatial) if column_major else range(spatial - 2, -1, -1)
    for k in order:
        near = k - 1 if column_major else k + 1
        strides[k] = strides[near] * shape[2 + near]
    n, c = shape[:2]
    area = math.prod(shape[2:])
    total = xp.arange(n * c).reshape((n, c, *[1] * spatial)) * area
    for k in range(spatial):
        inner = math.prod(windows.taps[k + 1 :])
        tap = xp.remainder(xp.floor_divide(best, inner), windows.taps[k])
        steps = [1] * (2 + spatial)
        steps[2 + k] = windows.counts[k]
        start = xp.arange(windows.counts[k]).reshape(tuple(steps)) * windows.strides[k]
        position = start - windows.pads[k][0] + tap * windows.dilations[k]
        total = total + position * strides[k]
    return total.astype("int64")


def _average_pool(call: Call) -> Value:
    x = call.tensor(0)
    view, windows = _view(call, x, 0)
    wide = view.astype("float32") if x.dtype in (xp.float16, xp.bfloat16) else view
    total = xp.sum(wide, axis=_tap_axes(windows))
    counts = _element_counts(call, windows, x.shape[2:], bool(call.integer("count_include_pad")))
    return (total / counts).astype(x.dtype)


def _element_counts(call: Call, windows: Windows, sizes: Sequence[int], with_padding: bool) -> Any:
    """Return how many elements each window has; a number if all have as many."""
    result: Any = np.ones((), np.float32)
    for k, size in enumerate(sizes):
        before, after = windows.pads[k]
        starts = np.arange(windows.counts[k]) * windows.strides[k]
        at = starts[:, None] + np.arange(windows.taps[k]) * windows.dilations[k]
        low, high = (0, before + size + after) if with_padding else (before, before + size)
        inside = ((at >= low) & (at < high)).sum(axis=1).astype(np.float32)
        result = result[..., None] * inside
    if result.size and (result == result.flat[0]).all():
        return float(result.flat[0])
    return call.constant(result)


def _lp_pool(call: Call) -> Value:
    x = call.tensor(0)
    order = call.number("p", 2.0)
    view, windows = _view(call, x, 0)
    powers = xp.abs(view) if order == 1 else xp.pow(xp.abs(view), order)
    return xp.pow(xp.sum(powers, axis=_tap_axes(windows)), 1 / order).astype(x.dtype)


def _global_pool(function: str) -> Any:
    def build(call: Call) -> Value:
        x = call.tensor(0)
        axes = tuple(range(2, x.ndim))
        return getattr(xp, function)(x, axis=axes, keepdims=True)

    return build


def _global_lp_pool(call: Call) -> Value:
    x = call.tensor(0)
    order = call.number("p", 2.0)
    powers = xp.pow(xp.abs(x), order)
    total = xp.sum(powers, axis=tuple(range(2, x.ndim)), keepdims=True)
    return xp.pow(total, 1 / order)


def _max_unpool(call: Call) -> Value:
    x, index = call.tensor(0), call.tensor(1)
    taps = call.ints("kernel_shape")
    spatial = len(taps)
    strides = call.ints("strides", [1] * spatial)
    flat = call.ints("pads", [0] * 2 * spatial)
    sizes = [
        (n - 1) * s + k - a - b
        for n, s, k, a, b in zip(
            x.shape[2:], strides, taps, flat[:spatial], flat[spatial:], strict=True
        )
    ]
    inferred = [*x.shape[:2], *sizes]
    shape = check_shape(call, call.numbers(2) or inferred, 4)
    if [*shape] != inferred:  # positions are in the inferred shape
        index = _moved(index, inferred, shape)
    zeros = xp.full((math.prod(shape),), 0, dtype=x.dtype)
    return xp.scatter(zeros, 0, index.reshape(-1), x.reshape(-1)).reshape(shape)


def _moved(index: Value, old: Sequence[int], new: Sequence[int]) -> Value:
    """Return positions in one shape as positions in another that is as large or larger."""
    total: Any = 0
    for k in range(len(old)):
        at = xp.remainder(xp.floor_divide(index, math.prod(old[k + 1 :])), old[k])
        total = total + at * math.prod(new[k + 1 :])
    return total


OPERATORS: Final = (
    Operator("Conv", _conv),
    Operator("ConvInteger", _conv_integer),
    Operator("ConvTranspose", _conv_transpose),
    Operator("DeformConv", _deform_conv),
    Operator("Col2Im", _col2im),
    Operator("MaxPool", _max_pool),
    Operator("AveragePool", _average_pool),
    Operator("LpPool", _lp_pool),
    Operator("GlobalAveragePool", _global_pool("mean")),
    Operator("GlobalMaxPool", _global_pool("max")),
    Operator("GlobalLpPool", _global_lp_pool),
    Operator("MaxUnpool", _max_unpool),
)
"""The rows of this module."""
