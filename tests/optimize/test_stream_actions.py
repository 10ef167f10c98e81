"""Stores past the caches: where they are legal, and that they store the same."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import porism
from porism.backends.table import native
from porism.base.dtypes import DType, f32, i8
from porism.base.errors import ActionError
from porism.base.target import GENERIC_CPU, H200, Target
from porism.engine import memory
from porism.engine.trial import Trial
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.walk import toposort
from porism.optimize import heuristic
from porism.optimize.accesses import widest
from porism.optimize.actions import Action, PadTo, Upcast, apply_all
from porism.optimize.stream_actions import Stream


def pointer(number: int, size: int, dtype: DType = f32) -> UOp:
    return UOp(ops.PARAM, dtype.pointer(size=size), (), number)


def rows(m: int, n: int, dtype: DType = f32, *, read: bool = False) -> UOp:
    """A matrix times 2, or added to what is there."""
    i, j = UOp.range(m, 0), UOp.range(n, 1)
    place = pointer(0, m * n, dtype).index(i * n + j)
    source = pointer(0 if read else 1, m * n, dtype).index(i * n + j if not read else j)
    return ops.SINK(place.store(source + source).end(i, j))


REFUSED = [
    (rows(6, 16), [Upcast("r1", 16), Stream(1)], "nothing is stored in buffer 1"),
    (rows(6, 16), [Stream(0)], "not stored in vectors"),
    (rows(6, 18), [Upcast("r1", 2), Stream(0)], "not stored in vectors"),
    (rows(6, 10), [Upcast("r0", 2), Stream(0)], "not stored in vectors"),
    (rows(6, 10, i8), [Upcast("r1", 10), Stream(0)], "not stored in vectors"),
    (rows(6, 15), [PadTo("r1", 16), Upcast("r1", 16), Stream(0)], "a part of the vectors"),
    (rows(6, 16, read=True), [Upcast("r1", 16), Stream(0)], "is read again in the kernel"),
    (rows(6, 16), [Upcast("r1", 16), Stream(0), Stream(0)], "said already"),
]


@pytest.mark.parametrize(("kernel", "actions", "message"), REFUSED)
def test_refused_with_a_reason(kernel: UOp, actions: list[Action], message: str) -> None:
    with pytest.raises(ActionError, match=message):
        apply_all(kernel, actions, GENERIC_CPU)


def test_not_on_a_gpu() -> None:
    with pytest.raises(ActionError, match="the target is a GPU"):
        Stream(0).apply(Upcast("r1", 16).apply(rows(6, 16), H200), H200)


@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
@pytest.mark.parametrize("length", [32, 96])
def test_the_same_is_stored(lanes: int, length: int) -> None:
    x = porism.asarray(np.ones((5, length), np.float32))
    (kernel,) = porism.kernels(x * 3)
    arranged = porism.opt(kernel, [porism.Upcast("r0", lanes), porism.Stream(0)])
    assert "# stream" in arranged.text
    assert arranged.check() == 0


@pytest.mark.parametrize("offset", [0, 1, 4, 8])
def test_memory_that_is_not_aligned(offset: int) -> None:
    """A user's array may begin anywhere."""
    kernel = apply_all(rows(8, 64), [Upcast("r1", 16), Stream(0)], native().target())
    whole = memory.new_array(8 * 64 + 16, np.dtype(np.float32))[0]
    data = {0: whole[offset : offset + 8 * 64], 1: np.arange(8 * 64, dtype=np.float32)}
    whole[...] = -1
    Trial(kernel, native()).run(data, {})
    np.testing.assert_array_equal(data[0], 2 * data[1])
    assert (whole[:offset] == -1).all()
    assert (whole[offset + 8 * 64 :] == -1).all()


def cached(size: int) -> Target:
    known = dataclasses.replace(GENERIC_CPU.memory, l3=size)
    return dataclasses.replace(GENERIC_CPU, memory=known)


def test_only_results_that_exceed_the_cache() -> None:
    kernel = rows(64, 64)
    assert Stream(0) in heuristic.chosen(kernel, cached(1 << 14))
    assert Stream(0) not in heuristic.chosen(kernel, cached(1 << 20))
    odd = rows(64, 63)
    assert Stream(0) not in heuristic.chosen(odd, cached(1 << 10))


def halves(m: int, n: int, first: int) -> UOp:
    """Rows that are put together of two parts, the first of so many elements."""
    i, j = UOp.range(m, 0), UOp.range(n, 1)
    one, other = (pointer(k, m * n).index(i * n + j) for k in (1, 2))
    value = (j < first).where(one + one, other * other)
    return ops.SINK(pointer(0, m * n).index(i * n + j).store(value).end(i, j))


def test_no_loop_where_vectors_are_computed_in_other_ways() -> None:
    width = widest(toposort(halves(64, 64, 32)), GENERIC_CPU)
    size = 12 * width
    assert Upcast("r1", size) in heuristic.chosen(halves(64, size, 3 * width), GENERIC_CPU)
    assert Upcast("r1", size) not in heuristic.chosen(halves(64, size, 3 * width + 1), GENERIC_CPU)
    assert Upcast("r1", size) not in heuristic.chosen(rows(64, size), GENERIC_CPU)
    long = 64 * width
    assert Upcast("r1", long) not in heuristic.chosen(halves(64, long, 3 * width), GENERIC_CPU)
