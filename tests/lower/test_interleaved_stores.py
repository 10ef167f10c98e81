"""Interleaved stores: a few vectors are shuffled into one, and stored at once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import porism
from fuzz.loop_nests.cases import Counts
from fuzz.nests import faults_of
from porism import Upcast
from porism.backends.backend_table import BACKENDS
from porism.lower.interleaved_stores import interleave
from porism.pipeline import lower_kernel, optimize_kernel
from tests.lower.test_shuffles import numbers, vector

LLVM = BACKENDS["llvm"]


@pytest.mark.parametrize("parts", [1, 2, 4, 8])
def test_lanes_of_all_parts_take_turns(parts: int) -> None:
    vectors = [vector([10 * lane + part for lane in range(4)]) for part in range(parts)]
    whole = interleave(vectors)
    assert numbers(whole) == [10 * lane + part for lane in range(4) for part in range(parts)]


@pytest.mark.parametrize(("parts", "lanes"), [(2, 32), (4, 16), (2, 8), (8, 16)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
def test_columns_that_become_rows_are_stored_together(parts: int, lanes: int, dtype: str) -> None:
    x = (np.arange(3 * parts * lanes * 2) % 97).astype(dtype).reshape(3, parts, 2 * lanes)
    (kernel,) = porism.kernels(porism.permute(porism.asarray(x), (0, 2, 1)) * 2)
    names = re.findall(r"for (r\d+) <", kernel.text)
    scheduled = porism.opt(kernel, [Upcast(names[-1], parts), Upcast(names[-2], lanes)])
    assert scheduled.check() == 0
    assert scheduled.verify(2).rows


def test_a_vector_is_stored_and_nothing_is_scattered() -> None:
    x = porism.asarray(np.ones((4, 2, 64), np.float32))
    (kernel,) = porism.kernels(porism.permute(x, (0, 2, 1)) * 2)
    names = re.findall(r"for (r\d+) <", kernel.text)
    target = LLVM.target()
    actions = [Upcast(names[-1], 2), Upcast(names[-2], 32)]
    assert list(kernel.actions[:2]) == actions
    assert LLVM.source is not None
    loops = optimize_kernel(kernel.node, target, actions=actions)
    text = LLVM.source(lower_kernel(loops, target, scheduled=True), "kernel")
    assert text.count("store <64 x float>") == 1
    assert "scatter" not in text
    assert "gather" not in text


@pytest.mark.parametrize("lengths", [(2, 40), (3, 64), (2, 29), (8, 8)])
def test_results_of_all_lengths(lengths: tuple[int, int]) -> None:
    """Also of those that cannot be interleaved."""
    parts, columns = lengths
    x = np.arange(5 * parts * columns, dtype=np.float32).reshape(5, parts, columns)
    result = porism.permute(porism.asarray(x), (0, 2, 1)) + 1
    np.testing.assert_array_equal(result.numpy(), x.transpose(0, 2, 1) + 1)


def test_a_local_buffer_that_is_read_for_one_part_is_not_interleaved() -> None:
    """Each part has a buffer of its own there, and is read before the next one is computed."""
    assert not list(faults_of(900_004, Counts(), only="Upcast"))


def test_enlarged_images_repeat_without_indices() -> None:
    x = np.random.default_rng(0).random((2, 3, 8, 32), dtype=np.float32)
    result = porism.interpolate(porism.asarray(x), scale_factor=2)
    (kernel,) = porism.kernels(result)
    assert "where" not in kernel.text
    assert any(isinstance(a, Upcast) and a.amount == 32 for a in kernel.actions)
    np.testing.assert_array_equal(result.numpy(), x.repeat(2, 2).repeat(2, 3))
