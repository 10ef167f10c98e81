"""Programs of people that only move data: no loop of theirs divides."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import porism
from porism import Tensor
from porism.engine.run.realize import request
from porism.ir import ops
from porism.ir.levels import KERNEL, check
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.rewrite.graph_rewrite import rewrite
from porism.rules.index.normalize import division_count
from porism.rules.rule_sets import SYMBOLIC
from porism.schedule.buffer_removal import remove_buffers
from porism.schedule.kernel_split import split_kernels
from porism.schedule.rangeify.rangeify import rangeify
from tests.evaluate.test_agreement import buffers_for
from tests.schedule.test_range_transforms import equal, finished


def x(*sizes: int) -> Tensor:
    return porism.asarray(np.zeros(sizes, np.float32))


PROGRAMS: dict[str, Callable[[], Tensor]] = {
    "transpose": lambda: porism.reshape(porism.permute(x(4, 6, 8), (2, 0, 1)), (32, 6)),
    "head split": lambda: porism.permute(porism.reshape(x(2, 6, 12), (2, 6, 3, 4)), (0, 2, 1, 3)),
    "head merge": lambda: porism.reshape(porism.permute(x(2, 3, 6, 4), (0, 2, 1, 3)), (2, 6, 12)),
    "pixel shuffle": lambda: porism.pixel_shuffle(x(1, 8, 4, 4), 2),
    "pixel unshuffle": lambda: porism.pixel_unshuffle(x(1, 2, 6, 6), 2),
    "convolution": lambda: porism.conv2d(x(1, 2, 7, 7), x(4, 2, 3, 3)),
    "padded convolution": lambda: porism.conv2d(x(1, 2, 7, 7), x(4, 2, 3, 3), padding=1),
    "convolution by steps": lambda: porism.conv2d(x(1, 2, 7, 7), x(4, 2, 3, 3), stride=2),
    "convolution of groups": lambda: porism.conv2d(x(1, 4, 7, 7), x(4, 2, 3, 3), groups=2),
    "transposed convolution": lambda: porism.conv_transpose2d(
        x(1, 2, 5, 5), x(2, 3, 2, 2), stride=2
    ),
    "maxima": lambda: porism.max_pool2d(x(1, 2, 8, 8), 2),
    "means": lambda: porism.avg_pool2d(x(1, 2, 7, 7), 3, stride=2),
    "roll": lambda: porism.roll(x(12, 10), (3, 2), axis=(0, 1)),
    "roll of all": lambda: porism.roll(x(12, 10), 7),
    "concatenation": lambda: porism.concat([x(4, 6), x(5, 6)], axis=0),
    "stack": lambda: porism.stack([x(4, 6), x(4, 6)], axis=1),
    "flip": lambda: porism.flip(porism.reshape(porism.permute(x(6, 4), (1, 0)), (24,)), axis=0),
    "repeat": lambda: porism.repeat(x(6, 4), 3),
    "tile": lambda: porism.tile(x(6, 4), (2, 3)),
    "steps": lambda: porism.reshape(x(20, 10)[3:18:3, ::2], (25,)),
    "triangle": lambda: porism.tril(x(6, 6)),
    "diagonal": lambda: porism.diagonal(x(6, 6)),
    "softmax": lambda: porism.softmax(x(8, 12)),
    "product": lambda: porism.matmul(x(3, 4, 5), x(5, 2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_loop_divides(name: str) -> None:
    graph = request([PROGRAMS[name]().node]).graph
    sink = remove_buffers(rewrite(rangeify(graph).sink, SYMBOLIC)).sink
    for call in split_kernels(sink, {}):
        after = finished(call.kernel)
        check(after, KERNEL)
        assert division_count(after) == 0, show(after)
        assert equal(call.kernel, after, buffers_for(call.kernel, 0))


@pytest.mark.parametrize(
    ("program", "loops"),
    [
        (lambda: porism.exp(x(4, 6, 8)), 1),
        (lambda: porism.sum(x(4, 6, 8)), 1),
        (lambda: porism.sum(x(4, 6, 8), axis=2), 2),
        (lambda: porism.matmul(x(3, 4, 5), x(5, 2)), 3),
        (lambda: porism.concat([x(4, 6), x(5, 6)], axis=0), 1),
        (lambda: porism.reshape(x(4, 6), (3, 8)) + 1, 1),
    ],
)
def test_neighbouring_loops_are_one(program: Callable[[], Tensor], loops: int) -> None:
    (call,) = split_kernels(rangeify(request([program().node]).graph).sink, {})
    after = finished(call.kernel)
    assert len([n for n in toposort(after) if n.op is ops.RANGE]) == loops, show(after)
