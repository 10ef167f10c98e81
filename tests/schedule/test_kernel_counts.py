"""How many kernels programs need, what is left in their loops, and how work grows with size."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import porism
from benchmarks import models
from benchmarks.models import data
from porism import Tensor
from porism.base.settings import settings
from porism.engine.run.realize import request
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.pipeline import schedule_graph
from porism.schedule.schedule import Schedule


def counts() -> Tensor:
    """A sum that turns out to be a formula, of whose loop a product would do without."""
    places = porism.arange(512)
    return porism.matmul((places[:, None] < places).sum(1).astype("float32"), data(512, 512))


def mixed(y: Tensor) -> Tensor:
    """A matrix whose rows and columns are read at other rows and columns than they are written."""
    rows = porism.asarray([(k * 7) % 64 for k in range(64)])
    return y[rows] * y.T[rows]


LEVELS: dict[int, tuple[Callable[[], Tensor], list[int]]] = {
    1: (counts, [2, 1, 1, 1]),
    2: (lambda: mixed(data(64, 64) * data(64)), [3, 2, 1, 1]),
    3: (lambda: mixed(porism.matmul(data(64, 2), data(2, 64))), [3, 2, 2, 1]),
}


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_of_buffers_has_a_program_that_tells(level: int) -> None:
    """Its kernels at levels 0 to 3; that level is the first with fewer than the one before."""
    program, kernels = LEVELS[level]
    assert kernels[level] < kernels[level - 1]
    results = []
    for each, count in enumerate(kernels):
        with settings.override(buffer_level=each):
            assert len(porism.kernels(program())) == count
            results.append(program().numpy())
    for actual in results[1:]:
        np.testing.assert_allclose(actual, results[0], rtol=1e-5)


def chain() -> Tensor:
    x = data(64, 64)
    y = x
    for k in range(20):
        y = porism.tanh(y * 1.5 + x) if k % 2 else porism.where(y > 0, y, x - y)
    return y


def two_products() -> Tensor:
    hidden = porism.relu(porism.matmul(data(512, 768), data(768, 3072)))
    return porism.matmul(hidden, data(3072, 768))


MOST = {
    "elementwise chain": (chain, 1),
    "matmul + bias + gelu": (models.dense(), 1),
    "two products": (two_products, 2),
    "sum of 64M elements": (lambda: porism.sum(data(1 << 26)), 2),
    "sum of 64M elements in rows": (lambda: porism.sum(data(1 << 13, 1 << 13)), 2),
    "softmax": (models.softmax(), 1),
    "layer norm": (models.layer_norm(), 1),
    "rms norm": (models.rms_norm(), 1),
    "convolution": (models.convolution(), 1),
    "attention": (models.attention(), 3),
    "GPT-2 block": (models.blocks(1), 8),
    "12 GPT-2 blocks": (models.blocks(12), 12 * 8),
    "ResNet-50": (models.resnet_50(), 56),
}


@pytest.mark.parametrize("name", MOST)
def test_kernels_are_few(name: str) -> None:
    program, most = MOST[name]
    actual = porism.kernels(program())
    assert 1 <= len(actual) <= most, "\n".join(f"{k.writes}: {k.why}" for k in actual)


def test_a_large_sum_is_done_in_parallel() -> None:
    first, second = porism.kernels(porism.sum(data(1 << 26)))
    assert 8 <= first.bytes_written // 4 <= 1 << 22
    assert second.after == (first.number,)


def _made_by(kernel: UOp, op: Op) -> int:
    return sum(node.op is op for node in toposort(kernel))


def test_softmax_computes_each_power_once() -> None:
    (kernel,) = porism.kernels(models.softmax()())
    assert _made_by(kernel.node, ops.EXP2) == 1
    assert _made_by(kernel.node, ops.REDUCE) == 2
    assert "local0" in kernel.text


def test_the_scores_of_attention_are_not_in_memory() -> None:
    scores = models.HEADS * models.LENGTH**2 * 4
    for kernel in porism.kernels(models.attention()()):
        assert kernel.bytes_written < scores, str(kernel)


def test_the_scores_of_a_block_are_not_in_memory() -> None:
    scores = models.HEADS * models.LENGTH**2 * 4
    for kernel in porism.kernels(models.blocks(1)()):
        assert kernel.bytes_written < scores, str(kernel)


def test_equal_layers_are_one_kernel() -> None:
    actual = porism.kernels(models.dense_layers(20)())
    assert len(actual) == 20
    assert len({kernel.node for kernel in actual}) == 1


@pytest.mark.parametrize("name", models.MOVEMENTS)
def test_loops_of_movements_do_not_divide(name: str) -> None:
    for kernel in porism.kernels(models.MOVEMENTS[name]()()):
        assert kernel.divisions == 0, str(kernel)


def test_loops_of_a_block_do_not_divide() -> None:
    for kernel in porism.kernels(models.blocks(1)()):
        assert kernel.divisions == 0, str(kernel)


def test_loops_of_resnet_do_not_divide() -> None:
    for kernel in porism.kernels(models.resnet_50()()):
        assert kernel.divisions == 0, str(kernel)


# -- large graphs ----------------------------------------------------------------------------------


def deep(count: int) -> Tensor:
    x = data(64, 64)
    y = x
    for _ in range(count // 2):
        y = (y + x) * 0.5
    return y


def diamonds(count: int) -> Tensor:
    """Each value is used twice: computing it at each use would double the work at each step."""
    y = data(64, 64)
    for _ in range(count // 3):
        y = porism.abs(y) + y * 0.5
    return y


def rows(count: int) -> Tensor:
    """Reductions under reductions."""
    y = data(64, 64)
    for _ in range(count // 4):
        y = y - porism.mean(y, axis=1, keepdims=True)
    return y


def views(count: int) -> Tensor:
    y = data(8, 12)
    for _ in range(count // 3):
        y = porism.reshape(porism.permute(y, (1, 0)), (8, 12)) + 1
    return y


def wide(count: int) -> Tensor:
    """Very many inputs, added in pairs."""
    values = [data(16) * 2.0 for _ in range(count // 2)]
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        values = [a + b for a, b in pairs] + values[len(values) // 2 * 2 :]
    return values[0]


def products(count: int) -> Tensor:
    y = data(32, 32)
    for _ in range(count // 4):
        y = porism.matmul(y, data(32, 32))
    return y


def work(graph: UOp) -> tuple[int, Schedule]:
    """How many functions are called for a schedule, and the schedule."""
    calls = 0

    def see(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.collect()
    gc.disable()  # else what other tests left behind is counted when it is taken away
    sys.setprofile(see)
    try:
        actual = schedule_graph(graph, cached=False)
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls, actual


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "count"),
    [(deep, 2500), (diamonds, 2500), (rows, 600), (views, 600), (wide, 600), (products, 600)],
)
def test_work_grows_with_the_size_of_a_graph(program: Callable[[int], Tensor], count: int) -> None:
    """Four times the ops are about four times the work, not sixteen times, and no stack overflows.

    Calls are counted instead of seconds: they are the same in every run.
    """
    calls, sizes = [], []
    for size in (count, 4 * count):
        graph = request([program(size).node]).graph
        sizes.append(len(toposort(graph)))
        actual, schedule = work(graph)
        calls.append(actual)
        assert len(schedule.steps) <= size // 20 + 4
    assert sizes[1] > 3.5 * sizes[0]
    assert calls[1] < 5.5 * calls[0], calls
