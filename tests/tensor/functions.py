"""Functions of tensors on random sizes, for the fuzzer of compiled kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

import porism
from porism.base import dtypes
from porism.base.dtypes import DType
from tests.backends.running import small_numbers

SIZES: Final = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65)
"""Sizes around vector widths, and less often between them."""

SMOOTH: Final = (
    "exp", "exp2", "log1p", "tanh", "sigmoid", "gelu", "silu", "erf", "sin", "cos", "atan", "sqrt",
    "softplus", "floor",
)  # fmt: skip

Maker = Callable[[st.DataObject, DType], Any]


def size(data: st.DataObject, most: int = 65) -> int:
    return int(data.draw(st.sampled_from([n for n in SIZES if n <= most])))


def tensor(data: st.DataObject, dtype: DType, *shape: int) -> Any:
    """Draw a tensor of small integers."""
    count = int(np.prod(shape))
    seed = data.draw(st.integers(0, 99))
    return porism.asarray(small_numbers(dtype, count, seed).reshape(shape))


def indices(data: st.DataObject, most: int, *shape: int) -> Any:
    """Draw a tensor of indices, some of them out of range."""
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    return porism.asarray(generator.integers(-most, most, shape))


def matmul(data: st.DataObject, dtype: DType) -> Any:
    m, n, k = (size(data, 33) for _ in range(3))
    a, b = tensor(data, dtype, m, k), tensor(data, dtype, k, n)
    kind = data.draw(st.integers(0, 3))
    if kind == 0:
        return a @ tensor(data, dtype, n, k).transpose(0, 1)
    if kind == 1:
        return (a @ b + tensor(data, dtype, n)).maximum(tensor(data, dtype, m, 1))
    if kind == 2:
        return tensor(data, dtype, k, m).transpose(0, 1) @ b
    return a @ b


def batched_matmul(data: st.DataObject, dtype: DType) -> Any:
    m, n, k, many = size(data, 17), size(data, 17), size(data, 17), size(data, 5)
    return tensor(data, dtype, many, m, k) @ tensor(data, dtype, many, k, n)


def reduction(data: st.DataObject, dtype: DType) -> Any:
    shape = [size(data, 33) for _ in range(data.draw(st.integers(1, 3)))]
    while np.prod(shape) > 5000:
        shape.pop()
    names = ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "count_nonzero"]
    function = getattr(porism, data.draw(st.sampled_from(names)))
    x = tensor(data, dtype, *shape)
    if dtype is dtypes.boolean:
        x = x.astype("uint8")
    return function(x, axis=data.draw(st.integers(0, len(shape) - 1)))


def long_sum(data: st.DataObject, dtype: DType) -> Any:
    count = data.draw(st.integers(100, 5000))
    return porism.sum(tensor(data, dtype, count) * 2)


def normalization(data: st.DataObject, dtype: DType) -> Any:
    rows, columns = size(data, 17), size(data)
    x = tensor(data, dtype, rows, columns)
    x = x if dtype.is_float else x.astype("float32")
    names = ["softmax", "log_softmax", "layer_norm", "rms_norm"]
    name = data.draw(st.sampled_from(names))
    if name.endswith("norm"):
        x = x + porism.arange(columns).astype(x.dtype) * 0.5
        return getattr(porism, name)(x, axis=-1)
    return getattr(porism, name)(x, axis=data.draw(st.integers(0, 1)))


def scan(data: st.DataObject, dtype: DType) -> Any:
    x = tensor(data, dtype, size(data, 9), size(data))
    x = x.astype("uint8") if dtype is dtypes.boolean else x
    name = data.draw(st.sampled_from(("cumsum", "cumprod", "cummax", "cummin")))
    return getattr(porism, name)(x, axis=data.draw(st.integers(0, 1)))


def indexing(data: st.DataObject, dtype: DType) -> Any:
    rows, columns, many = size(data), size(data, 17), size(data, 17)
    x = tensor(data, dtype, rows, columns)
    kind = data.draw(st.integers(0, 3))
    if kind == 0:
        return porism.take(x, indices(data, rows, many), axis=0)
    if kind == 1:
        return porism.take_along_axis(x, indices(data, columns, rows, many), axis=1)
    if kind == 2:
        return porism.index_add(x, 0, indices(data, rows, many), tensor(data, dtype, many, columns))
    y = porism.Tensor(x.node)
    y[indices(data, rows, many)] = tensor(data, dtype, columns)
    return y


def scatter(data: st.DataObject, dtype: DType) -> Any:
    """Draw a scatter with so many indices and elements that it is inverted to stores."""
    rows, columns, many = 30 + size(data, 9), size(data, 5), 30 + size(data, 9)
    values, kind = tensor(data, dtype, many, columns), data.draw(st.integers(0, 4))
    if kind == 0:
        return porism.bincount(indices(data, rows, many), length=rows)
    x = tensor(data, dtype, rows, columns)
    if kind == 1:
        y = porism.Tensor(x.node)
        y[indices(data, rows, many)] = values
        return y
    if kind == 2:
        return porism.index_add(x, 0, indices(data, rows, many), values)
    named = indices(data, rows, many, columns)
    if kind == 3:
        return porism.scatter_max(x, 0, named, values)
    return porism.scatter_add(x, 0, named, values)


def sorted_rows(data: st.DataObject, dtype: DType) -> Any:
    x = tensor(data, dtype, size(data, 5), size(data, 33))
    name = data.draw(st.sampled_from(("sort", "argsort")))
    return getattr(porism, name)(x, axis=data.draw(st.integers(0, 1)))


def convolution(data: st.DataObject, dtype: DType) -> Any:
    channels, outputs, side = size(data, 4), size(data, 9), data.draw(st.integers(3, 12))
    kernel = data.draw(st.integers(1, 3))
    return porism.conv2d(
        tensor(data, dtype, data.draw(st.integers(1, 2)), channels, side, side + 1),
        tensor(data, dtype, outputs, channels, kernel, kernel),
        stride=data.draw(st.integers(1, 2)),
        padding=data.draw(st.integers(0, 1)),
    )


def pooling(data: st.DataObject, dtype: DType) -> Any:
    x = tensor(data, dtype, 1, size(data, 9), data.draw(st.integers(3, 17)), 9)
    x = x if dtype.is_float else x.astype("float32")
    name = data.draw(st.sampled_from(("max_pool2d", "avg_pool2d")))
    return getattr(porism, name)(x, data.draw(st.integers(2, 3)))


def elementwise(data: st.DataObject, dtype: DType) -> Any:
    x = tensor(data, dtype, size(data, 17), size(data))
    x = x if dtype.is_float else x.astype("float32")
    first, second = (getattr(porism, data.draw(st.sampled_from(SMOOTH))) for _ in range(2))
    return first(x) * second(x * 0.25 + 1)


def movement(data: st.DataObject, dtype: DType) -> Any:
    rows, columns = size(data, 33), size(data, 33)
    x = tensor(data, dtype, rows, columns)
    kind = data.draw(st.integers(0, 4))
    if kind == 0:
        return x.transpose(0, 1).reshape(rows, columns)
    if kind == 1:
        return porism.concat([x, tensor(data, dtype, size(data, 9), columns)], axis=0).flip(0)
    if kind == 2:
        return x.pad(((1, 2), (0, 3)), value=1)[:, ::2]
    if kind == 3:
        return x.roll(data.draw(st.integers(-9, 9)), 1).transpose(0, 1)
    return porism.stack([x, x + x, x], axis=2)


def symbolic(data: st.DataObject, dtype: DType) -> Any:
    most = size(data)
    n = porism.Variable("n", 1, most).bind(data.draw(st.integers(1, most)))
    x = tensor(data, dtype, most, size(data, 9))
    kind = data.draw(st.integers(0, 2))
    part = x[:n]
    if kind == 0:
        return part + part
    return porism.sum(part, axis=kind - 1)


FUNCTIONS: Final[dict[str, Maker]] = {
    f.__name__: f
    for f in (
        matmul, batched_matmul, reduction, long_sum, normalization, scan, indexing, scatter,
        sorted_rows, convolution, pooling, elementwise, movement, symbolic,
    )
}  # fmt: skip
