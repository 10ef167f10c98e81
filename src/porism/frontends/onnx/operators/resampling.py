"""Resampling: images read between their elements, at positions that are known or computed.

Where positions are known (Resize), each axis is a sum of a few slices with weights. Where they are
tensors (GridSample, RoiAlign), elements around each position are gathered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from porism.frontends.onnx.operator_call import Call, Value
from porism.frontends.onnx.operators.data_movement import check_shape
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.tensor_functions import xp

# -- Resize ----------------------------------------------------------------------------------------


def _resize(call: Call) -> Value:
    """Build Resize of versions 10 and later, and Upsample."""
    x = call.tensor(0)
    old = call.version < 11 or call.node.op == "Upsample"
    scales_at, sizes_at = (1, 9) if old else (2, 3)
    scales = list(call.host(scales_at).ravel()) if call.has(scales_at) else []
    if call.node.op == "Upsample" and not scales:
        scales = call.attribute("scales") or []
    sizes = call.numbers(sizes_at) if call.has(sizes_at) else None
    axes = [call.axis(a, x.ndim) for a in call.ints("axes", range(x.ndim))]
    mode = call.text("mode", "nearest")
    transform = "asymmetric" if old else call.text("coordinate_transformation_mode", "half_pixel")
    roi = call.host(1).ravel() if transform == "tf_crop_and_resize" else np.zeros(2 * len(axes))
    targets, factors = _targets(call, x.shape, axes, scales, sizes)
    check_shape(call, targets, 4)
    dtype = x.dtype
    wide = (
        x
        if mode == "nearest" or (dtype.base.is_float and dtype.base.bits >= 32)
        else x.astype("float32")
    )
    outside: Any = None
    for k, axis in enumerate(axes):
        size, target, factor = x.shape[axis], targets[axis], factors[axis]
        if transform != "tf_crop_and_resize" and size == target and factor == 1:
            continue
        begin, end = float(roi[k]), float(roi[k + len(axes)])
        at = _positions(call, size, target, factor, transform, begin, end)
        if mode == "nearest":
            rounding = "floor" if old else call.text("nearest_mode", "round_prefer_floor")
            wide = _take(wide, _rounded(call, at, rounding).clip(0, size - 1), axis)
        else:
            wide = _interpolate(call, wide, axis, at, factor, mode)
        if transform == "tf_crop_and_resize":
            mask = (at < 0) | (at > size - 1)
            shape = [1] * x.ndim
            shape[axis] = target
            outside = mask.reshape(shape) if outside is None else outside | mask.reshape(shape)
    if outside is not None and outside.any():
        mask = call.constant(np.ascontiguousarray(outside))
        wide = xp.where(mask, call.number("extrapolation_value", 0.0), wide)
    if wide.dtype is dtype:
        return wide
    if not dtype.base.is_float:
        wide = xp.clip(xp.round(wide), dtype.base.min, dtype.base.max)
    return wide.astype(dtype)


def _targets(
    call: Call,
    shape: Sequence[int],
    axes: Sequence[int],
    scales: Sequence[Any],
    sizes: Sequence[int] | None,
) -> tuple[list[int], list[float]]:
    """Return the new sizes and the scales of all axes."""
    targets, factors = list(shape), [1.0] * len(shape)
    if sizes is not None and sizes:
        policy = call.text("keep_aspect_ratio_policy", "stretch")
        ratios = [s / shape[a] if shape[a] else 1.0 for s, a in zip(sizes, axes, strict=True)]
        if policy != "stretch":
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            sizes = [math.floor(shape[a] * ratio + 0.5) for a in axes]
            ratios = [ratio] * len(axes)
        for axis, size, ratio in zip(axes, sizes, ratios, strict=True):
            targets[axis], factors[axis] = size, ratio
        return targets, factors
    if len(scales) != len(axes):
        raise call.error(
            f"{call.node.op} with {len(scales)} scales of {len(axes)} axes",
            "there is one scale or size for each axis",
        )
    for axis, scale in zip(axes, scales, strict=True):
        if not 0 < float(scale) < 1e9:
            raise call.error(f"{call.node.op} by {scale}", "a scale is a positive number")
        targets[axis], factors[axis] = math.floor(shape[axis] * float(scale)), float(scale)
    return targets, factors


def _positions(
    call: Call, size: int, target: int, scale: float, transform: str, begin: float, end: float
) -> Any:
    """Return the position in the input of each element of the output, along an axis."""
    out = np.arange(target, dtype=np.float64)
    whole = size * scale  # which may have a fraction
    if transform == "align_corners":
        return out * ((size - 1) / (whole - 1)) if whole != 1 else out * 0
    if transform == "asymmetric":
        return out / scale
    if transform == "half_pixel":
        return (out + 0.5) / scale - 0.5
    if transform == "pytorch_half_pixel":
        return (out + 0.5) / scale - 0.5 if target > 1 else out * 0
    if transform == "tf_half_pixel_for_nn":
        return (out + 0.5) / scale
    if transform == "half_pixel_symmetric":
        adjustment = target / (scale * size)
        offset = size / 2 * (1 - adjustment)
        return offset + (out + 0.5) / scale - 0.5
    if transform == "tf_crop_and_resize":
        if target > 1:
            return begin * (size - 1) + out * ((end - begin) * (size - 1) / (whole - 1))
        return out * 0 + 0.5 * (begin + end) * (size - 1)
    raise call.error(f"Resize with the coordinates {transform!r}", "there is no such mode")


def _rounded(call: Call, at: Any, mode: str) -> Any:
    table: dict[str, Callable[[Any], Any]] = {
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    if mode not in table:
        raise call.error(f"Resize with nearest_mode {mode!r}", "there is no such mode")
    return table[mode](at).astype(np.int64)


def _take(x: Value, index: Any, axis: int) -> Value:
    """Return elements at known indices; those that repeat evenly, as a view."""
    size, target = x.shape[axis], len(index)
    if size and target % size == 0 and (index == np.arange(target) // (target // size)).all():
        times = target // size
        if times == 1:
            return x
        shape = x.shape
        wide = xp.expand_dims(x, axis + 1)
        wide = xp.broadcast_to(wide, (*shape[: axis + 1], times, *shape[axis + 1 :]))
        return wide.reshape((*shape[:axis], target, *shape[axis + 1 :]))
    steps = np.unique(np.diff(index)) if target > 1 else np.array([1])
    if len(steps) == 1 and steps[0] > 0:
        stop = int(index[-1]) + 1
        return x[(*[slice(None)] * axis, slice(int(index[0]), stop, int(steps[0])))]
    return xp.take(x, index, axis=axis)


def _linear_weight(distance: Any) -> Any:
    return np.maximum(1 - np.abs(distance), 0)


def _cubic_weight(distance: Any, a: float) -> Any:
    x = np.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _interpolate(call: Call, x: Value, axis: int, at: Any, scale: float, mode: str) -> Value:
    """Return x at known positions along an axis: a sum of few elements with weights."""
    size, target = x.shape[axis], len(at)
    stretch = 1 / scale if call.integer("antialias") and scale < 1 else 1.0
    radius = (2 if mode == "cubic" else 1) * stretch
    a = call.number("cubic_coeff_a", -0.75)
    first = np.floor(at - radius).astype(np.int64) + 1
    taps = math.ceil(2 * radius)
    if stretch != 1:
        taps += 1
    matrix: list[tuple[Any, Any]] = []
    for k in range(taps):
        index = first + k
        distance = (index - at) / stretch
        weight = _cubic_weight(distance, a) if mode == "cubic" else _linear_weight(distance)
        if call.integer("exclude_outside"):
            weight = np.where((index < 0) | (index >= size), 0, weight)
        matrix.append((index, weight))
    total = sum(weight for _, weight in matrix)
    if call.integer("exclude_outside") or stretch != 1:
        matrix = [(index, weight / np.where(total == 0, 1, total)) for index, weight in matrix]
    shape = [1] * x.ndim
    shape[axis] = target
    result: Any = None
    for index, weight in matrix:
        if not weight.any():
            continue
        inner = _take(x, index.clip(0, size - 1), axis)
        factors = call.constant(weight.astype(x.dtype.numpy).reshape(shape))
        part = inner * factors
        result = part if result is None else result + part
    return result if result is not None else _take(x, first.clip(0, size - 1), axis) * 0


# -- GridSample ------------------------------------------------------------------------------------


def _grid_sample(call: Call) -> Value:
    x, grid = call.tensor(0), call.tensor(1)
    spatial = x.ndim - 2
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(m := call.text("mode", "linear"), m)
    padding = call.text("padding_mode", "zeros")
    align = bool(call.integer("align_corners"))
    sizes = x.shape[2:]
    points = grid.reshape((grid.shape[0], -1, spatial))
    coordinates = []
    for k, size in enumerate(sizes):
        at = points[:, :, spatial - 1 - k]
        at = (at + 1) * ((size - 1) / 2) if align else ((at + 1) * size - 1) / 2
        coordinates.append(at)
    if mode == "nearest":
        corners = [[(xp.round(at), None)] for at in coordinates]
    elif mode == "cubic":
        corners = [_cubic_corners(at) for at in coordinates]
    else:
        corners = []
        for at in coordinates:
            low = xp.floor(at)
            corners.append([(low, 1 - (at - low)), (low + 1, at - low)])
    images = x.reshape((*x.shape[:2], math.prod(sizes)))
    result = _sum_corners(images, sizes, corners, padding, align)
    return result.reshape((*x.shape[:2], *grid.shape[1:-1])).astype(x.dtype)


def _cubic_corners(at: Value) -> list[tuple[Value, Value]]:
    a = -0.75
    low = xp.floor(at)
    corners = []
    for k in (-1, 0, 1, 2):
        x = xp.abs(at - low - k)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        corners.append((low + k, near if k in (0, 1) else far))
    return corners


def _sum_corners(
    images: Value, sizes: Sequence[int], corners: Any, padding: str, align: bool
) -> Value:
    """Return the weighted sum of the elements at all corners around each point."""
    counts = [len(axis) for axis in corners]
    result: Any = None
    for choice in np.ndindex(*counts):
        weight: Any = None
        flat: Any = None
        inside: Any = None
        for k, size in enumerate(sizes):
            at, own = corners[k][choice[k]]
            if padding == "zeros":
                within = (at >= 0) & (at <= size - 1)
                inside = within if inside is None else inside & within
            elif padding == "reflection":
                at = _reflected(at, size, align)
            index = xp.clip(at, 0, size - 1).astype("int64")
            flat = index if flat is None else flat * size + index
            if own is not None:
                weight = own if weight is None else weight * own
        shape = (images.shape[0], images.shape[1], flat.shape[1])
        found = xp.gather(images, 2, xp.broadcast_to(xp.expand_dims(flat, 1), shape))
        if inside is not None:
            found = xp.where(xp.expand_dims(inside, 1), found, 0)
        if weight is not None:
            found = found * xp.expand_dims(weight, 1)
        result = found if result is None else result + found
    return result


def _reflected(at: Value, size: int, align: bool) -> Value:
    """Return positions reflected at the borders: at centres of elements, or at their edges."""
    low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
    if span <= 0:
        return at * 0
    folded = xp.remainder(xp.abs(at - low), 2 * span)
    return xp.where(folded > span, 2 * span - folded, folded) + low


def _affine_grid(call: Call) -> Value:
    theta = call.tensor(0)
    size = call.numbers(1) or []
    align = bool(call.integer("align_corners"))
    spatial = size[2:]
    check_shape(call, size, 4)
    lines = []
    for n in spatial:
        if align:
            line = np.linspace(-1, 1, n) if n > 1 else np.zeros(n)
        else:
            line = (2 * np.arange(n) + 1) / n - 1
        lines.append(line)
    mesh = np.meshgrid(*lines, indexing="ij")
    points = np.stack([*mesh[::-1], np.ones_like(mesh[0])], axis=-1)
    points = points.reshape(-1, len(spatial) + 1).astype(theta.dtype.numpy)
    grid = xp.matmul(call.constant(np.ascontiguousarray(points)), theta.mT)
    return grid.reshape((size[0], *spatial, len(spatial))).astype(theta.dtype)


# -- RoiAlign --------------------------------------------------------------------------------------


def _roi_align(call: Call) -> Value:
    x, rois, batch = call.tensor(0), call.tensor(1), call.tensor(2)
    out_h, out_w = call.integer("output_height", 1), call.integer("output_width", 1)
    scale = call.number("spatial_scale", 1.0)
    default = "half_pixel" if call.version >= 16 else "output_half_pixel"
    half = call.text("coordinate_transformation_mode", default) == "half_pixel"
    boxes = rois * scale - (0.5 if half else 0.0)
    x0, y0, x1, y1 = (boxes[:, k] for k in range(4))
    box_w, box_h = x1 - x0, y1 - y0
    if not half:
        box_w, box_h = xp.maximum(box_w, 1), xp.maximum(box_h, 1)
    ratio = call.integer("sampling_ratio")
    if ratio > 0:
        return _roi_samples(call, x, batch, y0, x0, box_h / out_h, box_w / out_w, ratio, ratio)
    parts = []  # as many samples as elements, another number for each box
    known = call.host(1) * scale
    limits = (known[:, 3] - known[:, 1], known[:, 2] - known[:, 0])
    for k in range(rois.shape[0]):
        rows, columns = (
            max(int(np.ceil(max(float(side[k]), 0.0 if half else 1.0) / out)), 1)
            for side, out in zip(limits, (out_h, out_w), strict=True)
        )
        one = slice(k, k + 1)
        parts.append(
            _roi_samples(
                call,
                x,
                batch[one],
                y0[one],
                x0[one],
                box_h[one] / out_h,
                box_w[one] / out_w,
                rows,
                columns,
            )
        )
    if not parts:
        return xp.full((0, x.shape[1], out_h, out_w), 0, dtype=x.dtype)
    return xp.concat(parts, axis=0) if len(parts) > 1 else parts[0]


def _roi_samples(
    call: Call, x: Value, batch: Value, y0: Value, x0: Value, bin_h: Value, bin_w: Value,
    rows: int, columns: int,
) -> Value:  # fmt: skip
    """Return the mean or maximum of a grid of samples in each bin of each box."""
    out_h, out_w = call.integer("output_height", 1), call.integer("output_width", 1)
    n, channels, height, width = x.shape
    count = batch.shape[0]
    along_y = call.constant(((np.arange(out_h * rows) + 0.5) / rows).astype(np.float32))
    along_x = call.constant(((np.arange(out_w * columns) + 0.5) / columns).astype(np.float32))
    y = y0.reshape((-1, 1)) + along_y.reshape((1, -1)) * bin_h.reshape((-1, 1))
    at_x = x0.reshape((-1, 1)) + along_x.reshape((1, -1)) * bin_w.reshape((-1, 1))
    shape = (count, out_h * rows, out_w * columns)
    y = xp.broadcast_to(y.reshape((count, -1, 1)), shape)
    at_x = xp.broadcast_to(at_x.reshape((count, 1, -1)), shape)
    inside = (y >= -1) & (y <= height) & (at_x >= -1) & (at_x <= width)
    y, at_x = xp.clip(y, 0, height - 1), xp.clip(at_x, 0, width - 1)
    low_y, low_x = xp.floor(y), xp.floor(at_x)
    base = batch.astype("int64").reshape((-1, 1, 1)) * (height * width)
    flat = x.permute((0, 2, 3, 1)).reshape((n * height * width, channels))
    parts = []
    for row, wy in ((low_y, 1 - (y - low_y)), (xp.minimum(low_y + 1, height - 1), y - low_y)):
        for column, wx in (
            (low_x, 1 - (at_x - low_x)),
            (xp.minimum(low_x + 1, width - 1), at_x - low_x),
        ):
            at = base + (row * width + column).astype("int64")
            weight = xp.where(inside, wy * wx, 0)
            parts.append(flat[at] * xp.expand_dims(weight, -1))
    grid = (count, out_h, rows, out_w, columns, channels)
    if call.text("mode", "avg") == "max":
        best = parts[0]
        for part in parts[1:]:
            best = xp.maximum(best, part)
        return xp.max(best.reshape(grid), axis=(2, 4)).permute((0, 3, 1, 2))
    total = parts[0] + parts[1] + parts[2] + parts[3]
    return xp.mean(total.reshape(grid), axis=(2, 4)).permute((0, 3, 1, 2))


OPERATORS: Final = (
    Operator("Resize", _resize),
    Operator("Upsample", _resize),
    Operator("GridSample", _grid_sample),
    Operator("AffineGrid", _affine_grid),
    Operator("RoiAlign", _roi_align),
)
"""The rows of this module."""
