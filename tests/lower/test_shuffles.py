"""Shuffles: vectors of elements that are not contiguous, from vector loads."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.dtypes import boolean, i32, i64, index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.lower.shuffles import Windows, expression_at, iteration_vector, transpose


def numbers(node: UOp) -> list[int]:
    """Return the lanes of constant vectors and shuffles of them."""
    if node.op is ops.GEP:
        lanes = numbers(node.src[0])
        return [lanes[k] for k in node.arg]
    if node.op is ops.CAT:
        return [n for s in node.src for n in numbers(s)]
    assert node.op is ops.VCONST
    return list(node.arg)


def vector(values: list[int]) -> UOp:
    return UOp(ops.VCONST, index.vec(len(values)), (), tuple(values))


@pytest.mark.parametrize("step", [-4, -3, -2, -1, 2, 3, 4, 7])
@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_windows_cover_every_lane_and_read_nothing_beyond(step: int, width: int) -> None:
    windows = Windows(step, width)
    wanted = [100 + lane * step for lane in range(width)]
    first = 100 + windows.lowest
    loads = [list(range(first + s, first + s + width)) for s in windows.starts]
    assert numbers(windows.shuffle([vector(load) for load in loads])) == wanted
    assert min(map(min, loads)) == min(wanted)
    assert max(map(max, loads)) == max(wanted)
    for start, load in zip(windows.starts, loads, strict=True):
        for lane, number in zip(windows.lanes_of(start), load, strict=True):
            assert lane is None or wanted[lane] == number


@pytest.mark.parametrize(
    ("rows", "columns"), list(itertools.product((2, 4, 8, 16, 32), (2, 4, 8, 16)))
)
def test_tiles_are_transposed(rows: int, columns: int) -> None:
    matrix = np.arange(rows * columns).reshape(rows, columns)
    actual = transpose([vector([int(n) for n in row]) for row in matrix])
    assert [numbers(column) for column in actual] == matrix.T.tolist()


def kernel_of(tensor: Any) -> Any:
    (kernel,) = porism.kernels(tensor)
    return kernel


def random_tensor(*shape: int, dtype: str = "float32") -> Any:
    values = np.random.default_rng(0).integers(-90, 90, shape)
    return porism.asarray((values > 0) if dtype == "bool" else values.astype(dtype))


TILES = [
    [porism.Upcast("r1", 16), porism.Upcast("r0", 16)],
    [porism.Upcast("r1", 16), porism.Upcast("r0", 8)],
    [porism.Upcast("r1", 4), porism.Upcast("r0", 16)],
    [porism.Upcast("r0", 4), porism.Upcast("r1", 4)],
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "bool"])
@pytest.mark.parametrize("actions", TILES, ids=str)
def test_transposed_tile(dtype: str, actions: list[Any]) -> None:
    x = random_tensor(48, 32, dtype=dtype)
    scheduled = porism.opt(kernel_of(~x.T if dtype == "bool" else x.T + x.T), actions)
    assert scheduled.check() == 0


def test_transposed_tile_with_padding() -> None:
    kernel = kernel_of(random_tensor(29, 37).T * 2)
    pad = [porism.PadTo("r1", 16), porism.PadTo("r0", 8)]
    scheduled = porism.opt(kernel, [*pad, porism.Upcast("r1", 16), porism.Upcast("r0", 8)])
    assert scheduled.check() == 0


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("stride", [2, 3, 4, 5])
def test_strided_loads_of_a_pool(lanes: int, stride: int) -> None:
    """Strided loads with padding, and extents that are no multiple of the lanes."""
    x = random_tensor(2, 9, 16 * stride + 1)
    kernel = kernel_of(porism.max_pool1d(x, 3, stride, 1))
    name = kernel.text.split("output0[")[1].split("]")[0]
    along = next(n for n in ("r1", "r2", "r0") if n in name and f"{n} *" not in name)
    actions = [porism.PadTo(along, lanes), porism.Upcast(along, lanes)]
    if porism.opt(kernel, []).text.count(f"{along} < 16:"):
        actions = actions[1:]
    assert porism.opt(kernel, actions).check() == 0


def test_reversed_loads() -> None:
    kernel = kernel_of(porism.flip(random_tensor(64), 0) * 2)
    assert porism.opt(kernel, [porism.Upcast("r0", 16)]).check() == 0


@pytest.mark.parametrize("shape", [
    (30, 50), (7, 64, 5), pytest.param((3, 20, 17, 16), marks=pytest.mark.slow),
])  # fmt: skip
def test_permutations_by_the_heuristic(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    for order in itertools.permutations(range(len(shape))):
        actual = (porism.asarray(values).permute(*order) * 2).numpy()
        np.testing.assert_array_equal(actual, values.transpose(order) * 2)


def test_expressions_in_lanes_keep_their_types() -> None:
    """A CAST keeps its element type in lanes, and a node without lanes stays a scalar."""
    lane, row = UOp.range(4, 0), UOp.range(3, 1)
    loaded = UOp(ops.PARAM, i32.pointer(), (), 1).index(row, dtype=i32)
    condition = (lane.cast(i64) * 2).cast(index) < loaded.cast(index)
    actual = expression_at(
        condition, {lane: iteration_vector(lane, [0, 1, 2, 3])}, lambda node: node
    )
    assert actual.dtype is boolean.vec(4)
    assert loaded in toposort(actual)
    assert lane not in actual.ranges


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2, 3, 5, 6, 7])
@pytest.mark.parametrize("columns", [2, 3, 4])
@pytest.mark.parametrize("reduce", ["sum", "max"])
def test_gathered_columns_are_reduced(rows: int, columns: int, reduce: str) -> None:
    """The lanes of a load have a stride, and its mask depends on an index that is loaded."""
    values = np.random.default_rng(2).integers(-9, 9, (rows, 4)).astype(np.float32)
    chosen = np.arange(columns)[::-1].copy()
    actual = getattr(porism, reduce)(porism.asarray(values)[:, porism.asarray(chosen)], axis=1)
    np.testing.assert_array_equal(actual.numpy(), getattr(np, reduce)(values[:, chosen], axis=1))
