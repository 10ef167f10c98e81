"""Masked loads are made near their buffers, also where no lane is read.

Not to read where there is no memory takes a processor a thousand cycles.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.typing import NDArray

import porism
from porism.backends.backend_table import BACKENDS
from porism.pipeline import lower_kernel, optimize_kernel

LLVM = BACKENDS["llvm"]
LOAD = re.compile(r"@llvm\.masked\.load\S+\(ptr align \d+ (%\w+),")


def joined(rows: int, axis: int) -> tuple[porism.Tensor, NDArray[np.float32]]:
    parts = [np.arange(rows * 40, dtype=np.float32).reshape(rows, 40) + k for k in (0.0, 0.5)]
    actual = porism.concat([porism.asarray(part) for part in parts], axis=axis)
    return actual, np.concatenate(parts, axis)


def test_a_load_that_may_be_far_outside_is_moved_to_its_buffer() -> None:
    actual, _ = joined(2048, 0)
    (kernel,) = porism.kernels(actual)
    target = LLVM.target()
    loops = optimize_kernel(kernel.node, target, actions=[porism.Upcast("r0", 64)])
    assert LLVM.source is not None
    text = LLVM.source(lower_kernel(loops, target, scheduled=True), "kernel")
    loads = LOAD.findall(text)
    assert len(loads) == 2 * 512 // max(target.vector_bits)
    for pointer in loads:
        assert re.search(rf"{pointer} = select i1 %\w+, ptr %\w+, ptr %p[12]\n", text)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("rows", [3, 2048])
def test_both_parts_of_what_is_put_together_are_right(rows: int, axis: int) -> None:
    actual, wanted = joined(rows, axis)
    np.testing.assert_array_equal(actual.numpy(), wanted)
