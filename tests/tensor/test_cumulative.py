"""Scans against NumPy: lengths around the chunk sizes, axes, types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError
from porism.ir import ops
from porism.ir.traversal import toposort
from porism.optimize.actions.loops.scan_loop import Scan
from porism.schedule.algorithms.chunked_scan import ENOUGH_ROWS, MIN_CHUNK
from porism.tensor.api.cumulative import MAX_DIRECT
from tests.tensor.oracle import FLOATS, TYPES, agree, draw, refuses, to_double

NUMPY: dict[str, Callable[..., Any]] = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
}


@pytest.mark.parametrize("size", [0, 1, 2, MAX_DIRECT, MAX_DIRECT + 1, 200, 2100])
@pytest.mark.parametrize("function", NUMPY)
def test_lengths(function: str, size: int) -> None:
    x = draw("int64", (2, size))
    if function == "cumprod":
        x = np.where(x >= 0, 1, -1)
    agree(getattr(porism, function)(x, axis=1), NUMPY[function](x, axis=1))


@pytest.mark.parametrize("function", NUMPY)
def test_axes(function: str) -> None:
    x = draw("float64", (3, 4, 2))
    for axis in (0, 1, -1):
        agree(getattr(porism, function)(x, axis=axis), NUMPY[function](x, axis=axis))


@pytest.mark.parametrize("name", TYPES)
def test_types(name: str) -> None:
    x = draw(name, (7,), scale=1.0)
    kind = name if name in FLOATS else "uint64" if name.startswith("uint") else "int64"
    agree(porism.cumsum(x), np.cumsum(to_double(x), dtype=None if name in FLOATS else kind), kind)
    agree(porism.cummax(x), np.maximum.accumulate(x), name)


def test_half_precision_is_accumulated_in_single() -> None:
    agree(porism.cumsum(np.full(100, 100.0, "float16"))[-1], np.float16(10000))
    # One rounding at the end, where f16 would stay at 2048.
    agree(porism.cumsum(np.ones(2100, "float16"))[-1], np.float16(2100))


def test_infinities_and_nan_stay_where_they_are() -> None:
    x = np.arange(100, dtype="float32")
    x[70], x[90] = np.inf, np.nan
    agree(porism.cumsum(x), np.cumsum(x))
    agree(porism.cummax(x), np.maximum.accumulate(x))


def test_the_array_api_spelling() -> None:
    x = draw("int32", (2, 5))
    sums = porism.cumulative_sum(x, axis=1, include_initial=True)
    agree(sums, np.pad(np.cumsum(x, axis=1, dtype="int64"), ((0, 0), (1, 0))))
    products = porism.cumulative_prod(x, axis=0, include_initial=True, dtype="float32")
    expected = np.pad(np.cumprod(x, axis=0), ((1, 0), (0, 0)), constant_values=1)
    agree(products, expected.astype("float32"))


def test_a_constant_needs_no_sum() -> None:
    counted = porism.cumsum(porism.full((2, 1000), 3, dtype="int32"), axis=1)
    agree(counted, np.cumsum(np.full((2, 1000), 3, "int64"), axis=1))
    assert all(node.op is not ops.REDUCE_AXIS for node in toposort(counted.node))


SCANS: dict[str, Callable[[], porism.Tensor]] = {
    "along": lambda: porism.cumsum(random_tensor(64, 100), axis=1),
    "across": lambda: porism.cumsum(random_tensor(100, 64), axis=0),
    "between": lambda: porism.cummax(random_tensor(5, 100, 64), axis=1),
    "backwards": lambda: porism.cumsum(random_tensor(64, 100)[:, ::-1], axis=1)[:, ::-1],
    "a part": lambda: porism.cumprod(random_tensor(64, 200)[:, 50:150], axis=1),
    "one row": lambda: porism.cumsum(random_tensor(100), axis=0),
    "few rows": lambda: porism.cumsum(random_tensor(2, ENOUGH_ROWS * MIN_CHUNK), axis=1),
    "rows of columns": lambda: porism.cumsum(random_tensor(ENOUGH_ROWS * MIN_CHUNK, 2), axis=0),
    "reshaped": lambda: porism.cumsum(
        random_tensor(10, 64, 10).permute_dims((1, 0, 2)).reshape(64, 100), 1
    ),
    "repeated": lambda: porism.cumsum(
        porism.broadcast_to(random_tensor(64, 1, 100), (64, 3, 100)), axis=2
    ),
    "computed": lambda: porism.cumsum(porism.exp(random_tensor(64, 100)) * 2, axis=1) + 1,
    "padded": lambda: porism.cumsum(porism.pad(random_tensor(64, 100), ((0, 0), (3, 4))), axis=1),
    "other types": lambda: porism.cumsum(porism.asarray(np.ones((64, 100), np.int8)), axis=1),
}


def random_tensor(*shape: int) -> porism.Tensor:
    return porism.asarray(np.ones(shape, np.float32))


@pytest.mark.parametrize("name", SCANS)
def test_work_is_not_quadratic(name: str) -> None:
    for kernel in porism.kernels(SCANS[name]()):
        masked = "<=" in kernel.text
        assert masked == any(isinstance(action, Scan) for action in kernel.actions), kernel.text


def test_rows_are_read_once() -> None:
    (kernel,) = porism.kernels(porism.cumsum(random_tensor(1024, 1024), axis=1))
    assert kernel.bytes_read == kernel.bytes_written == 4 << 20


def test_a_row_in_chunks_is_read_twice() -> None:
    x = random_tensor(ENOUGH_ROWS * MIN_CHUNK)
    *before, last = porism.kernels(porism.cumsum(x, axis=0))
    assert sum(kernel.bytes_written for kernel in before) < last.bytes_written / 100
    agree(porism.cumsum(x, axis=0), np.arange(1, ENOUGH_ROWS * MIN_CHUNK + 1, dtype=np.float32))


def test_a_computed_input_is_materialized_once() -> None:
    x = porism.asarray(np.ones((4, 1024), np.float32))
    texts = [kernel.text for kernel in porism.kernels(porism.cumsum(porism.exp(x), axis=1))]
    assert sum("exp" in text for text in texts) == 1


@pytest.mark.parametrize("size", [16, 17, 23, 24, 25, 40, 63, 64, 65, 100, 519, 4096, 4097])
@pytest.mark.parametrize("axis", [0, 1])
def test_full_and_partial_vectors(size: int, axis: int) -> None:
    x = draw("int32", (3, size) if axis else (size, 3))
    agree(porism.cumsum(x, axis=axis), np.cumsum(x, axis=axis, dtype="int64"))
    agree(porism.cummax(x, axis=axis), np.maximum.accumulate(x, axis=axis))


def test_errors() -> None:
    with refuses(ShapeError, "cummax of a tensor of shape (2, 3) without an axis"):
        porism.cummax(porism.zeros((2, 3)))
    with refuses(ShapeError, "there is no axis 1 in a tensor of 1 axis"):
        porism.cummax(porism.zeros(3), axis=1)
