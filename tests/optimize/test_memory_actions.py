"""Non-temporal stores and prefetches: where they are legal, and that results stay the same."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import porism
from porism.backends.backend_table import BACKENDS, native_backend
from porism.base.dtypes import DType, f32, i8
from porism.base.errors import ActionError
from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU, Target
from porism.engine.run import array_allocator
from porism.engine.tune.kernel_trial import CompiledTrial
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.actions.memory.software_prefetch import Prefetch
from porism.optimize.actions.memory.streaming_stores import NonTemporal
from porism.optimize.analysis.loop_strides import lanes_of_widest_type
from porism.optimize.strategy import heuristic
from porism.pipeline import lower_kernel


def pointer(number: int, size: int, dtype: DType = f32) -> UOp:
    return UOp(ops.PARAM, dtype.pointer(size=size), (), number)


def rows(m: int, n: int, dtype: DType = f32, *, read: bool = False) -> UOp:
    """Return a kernel that doubles a matrix, or with `read` the first row of its own output."""
    i, j = UOp.range(m, 0), UOp.range(n, 1)
    place = pointer(0, m * n, dtype).index(i * n + j)
    source = pointer(0 if read else 1, m * n, dtype).index(i * n + j if not read else j)
    return ops.SINK(place.store(source + source).end(i, j))


def line(size: int) -> UOp:
    """Return a kernel that doubles a vector."""
    i = UOp.range(size, 1)
    source = pointer(1, size).index(i)
    return ops.SINK(pointer(0, size).index(i).store(source + source).end(i))


REFUSED = [
    (rows(6, 16), [Upcast("r1", 16), NonTemporal(1)], "nothing is stored in buffer 1"),
    (rows(6, 16), [NonTemporal(0)], "not stored in vectors"),
    (rows(6, 18), [Upcast("r1", 2), NonTemporal(0)], "not stored in vectors"),
    (rows(6, 10), [Upcast("r0", 2), NonTemporal(0)], "not stored in vectors"),
    (rows(6, 10, i8), [Upcast("r1", 10), NonTemporal(0)], "not stored in vectors"),
    (rows(6, 15), [PadTo("r1", 16), Upcast("r1", 16), NonTemporal(0)], "not stored in vectors"),
    (rows(6, 16, read=True), [Upcast("r1", 16), NonTemporal(0)], "is read again in the kernel"),
    (rows(6, 16), [Upcast("r1", 16), NonTemporal(0), NonTemporal(0)], "non-temporal already"),
    (rows(6, 16), [Prefetch(2, "r0", 1)], "nothing is read from buffer 2"),
    (rows(6, 16), [Prefetch(0, "r0", 1)], "nothing is read from buffer 0"),
    (rows(6, 16), [Prefetch(1, "r2", 1)], "there is no loop r2"),
    (rows(6, 16), [Prefetch(1, "r0", 0)], "0 iterations ahead"),
    (rows(6, 16), [Upcast("r1", 16), Prefetch(1, "r1_1", 1)], "of the kind upcast"),
    (rows(6, 16, read=True), [Prefetch(0, "r0", 1)], "the addresses of later iterations"),
    (rows(6, 16), [Prefetch(1, "r0", 1), Prefetch(1, "r1", 1)], "prefetched already"),
    (rows(6, 16), [Prefetch(1, "r0", 1, ("r2",))], "there is no loop r2"),
]


@pytest.mark.parametrize(("kernel", "actions", "message"), REFUSED)
def test_an_illegal_action_is_refused_with_a_reason(
    kernel: UOp, actions: list[Action], message: str
) -> None:
    with pytest.raises(ActionError, match=message):
        apply_all(kernel, actions, GENERIC_CPU)


def test_not_on_a_gpu() -> None:
    with pytest.raises(ActionError, match="the target is a GPU"):
        NonTemporal(0).apply(Upcast("r1", 16).apply(rows(6, 16), H200), H200)
    with pytest.raises(ActionError, match="the target is a GPU"):
        Prefetch(1, "r0", 1).apply(rows(6, 16), H200)


@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
@pytest.mark.parametrize("length", [32, 96])
def test_non_temporal_stores_keep_the_result(lanes: int, length: int) -> None:
    x = porism.asarray(np.ones((5, length), np.float32))
    (kernel,) = porism.kernels(x * 3)
    scheduled = porism.opt(kernel, [porism.Upcast("r0", lanes), porism.NonTemporal(0)])
    assert "# stream" in scheduled.text
    assert scheduled.check() == 0


@pytest.mark.parametrize("size", [17, 61, 128, 1003])
@pytest.mark.parametrize("lanes", [4, 16, 64])
def test_a_partial_last_vector_is_stored_as_usual(lanes: int, size: int) -> None:
    """And nothing is stored beyond it."""
    pad = [PadTo("r1", lanes)] if size % lanes else []
    kernel = apply_all(
        line(size), [*pad, Upcast("r1", lanes), NonTemporal(0)], native_backend().target()
    )
    whole = array_allocator.new_array(size + lanes, np.dtype(np.float32))[0]
    whole[...] = -1
    data = {0: whole[:size], 1: np.arange(size, dtype=np.float32)}
    CompiledTrial(kernel, native_backend()).run(data, {})
    np.testing.assert_array_equal(data[0], 2 * data[1])
    assert (whole[size:] == -1).all()
    lines = lower_kernel(kernel, native_backend().target(), scheduled=True)
    text = BACKENDS["llvm"].source(lines, "kernel")  # type: ignore[misc]
    assert ("!nontemporal" in text) == (size >= lanes)
    assert ("llvm.vector.reduce.and" in text) == (bool(pad) and size >= lanes)


@pytest.mark.parametrize("offset", [0, 1, 4, 8])
def test_non_temporal_stores_to_unaligned_memory(offset: int) -> None:
    """A user's array may begin anywhere."""
    kernel = apply_all(rows(8, 64), [Upcast("r1", 16), NonTemporal(0)], native_backend().target())
    whole = array_allocator.new_array(8 * 64 + 16, np.dtype(np.float32))[0]
    data = {0: whole[offset : offset + 8 * 64], 1: np.arange(8 * 64, dtype=np.float32)}
    whole[...] = -1
    CompiledTrial(kernel, native_backend()).run(data, {})
    np.testing.assert_array_equal(data[0], 2 * data[1])
    assert (whole[:offset] == -1).all()
    assert (whole[offset + 8 * 64 :] == -1).all()


@pytest.mark.parametrize("ahead", [1, 7, 1 << 20])
def test_a_prefetch_keeps_the_result(ahead: int) -> None:
    """Also far beyond the end, where there is no memory; and no other element is accessed."""
    x = porism.asarray(np.ones((6, 70), np.float32))
    (kernel,) = porism.kernels(porism.softmax(x, -1))
    scheduled = porism.opt(kernel, [porism.Prefetch(1, "r0", ahead)])
    assert f"# prefetch input0, {70 * ahead} elements ahead" in scheduled.text
    assert scheduled.check() < 1e-6
    scheduled.verify()


def test_a_prefetch_is_emitted_for_each_line() -> None:
    kernel = apply_all(
        rows(8, 64), [Upcast("r1", 32), Prefetch(1, "r0", 3)], native_backend().target()
    )
    lines = lower_kernel(kernel, native_backend().target(), scheduled=True)
    text = BACKENDS["llvm"].source(lines, "kernel")  # type: ignore[misc]
    assert text.count("call void @llvm.prefetch") == 2  # a line each
    assert "i64 192" in text
    assert "i64 208" in text
    assert "i32 0, i32 2, i32 1" in text  # not into the first cache, which other lines are in
    in_c = BACKENDS["c"].source(lines, "kernel")  # type: ignore[misc]
    assert "__builtin_prefetch(&" in in_c
    assert ", 0, 2);" in in_c


@pytest.mark.parametrize(("within", "count"), [((), 2), (("r1",), 1), (("r2_0",), 1)])
def test_a_prefetch_within_some_loops(within: tuple[str, ...], count: int) -> None:
    i, j, k = UOp.range(8, 0), UOp.range(64, 1), UOp.range(64, 2, Axis.REDUCE)
    x = pointer(1, 8 * 64)
    total = x.index(i * 64 + k).reduce(ops.ADD, k)
    store = pointer(0, 8 * 64).index(i * 64 + j).store(x.index(i * 64 + j) - total)
    actions = [Unroll("r2", 16), Prefetch(1, "r0", 1, within), Upcast("r1", 16)]
    kernel = apply_all(ops.SINK(store.end(i, j)), actions, native_backend().target())
    lines = lower_kernel(kernel, native_backend().target(), scheduled=True)
    for name, text in (("llvm", "call void @llvm.prefetch"), ("c", "__builtin_prefetch(")):
        assert BACKENDS[name].source(lines, "kernel").count(text) == count  # type: ignore[misc]


def test_the_next_row_is_prefetched_if_rows_are_read_twice() -> None:
    i, j = UOp.range(256, 0), UOp.range(256, 1)
    k = UOp.range(256, 2, Axis.REDUCE)
    x = pointer(1, 256 * 256)
    total = x.index(i * 256 + k).reduce(ops.ADD, k)
    store = pointer(0, 256 * 256).index(i * 256 + j).store(x.index(i * 256 + j) - total)
    known = dataclasses.replace(GENERIC_CPU.memory, l2=1 << 16, l3=1 << 14)
    small = dataclasses.replace(GENERIC_CPU, memory=known, cores=2)
    assert Prefetch(1, "r0", 1) in heuristic.choose_actions(ops.SINK(store.end(i, j)), small)
    assert Prefetch(1, "r0", 1) not in heuristic.choose_actions(rows(256, 256), small)
    large = dataclasses.replace(small, memory=dataclasses.replace(known, l3=1 << 20))
    chosen = heuristic.choose_actions(ops.SINK(store.end(i, j)), large)
    assert not any(isinstance(a, Prefetch) for a in chosen)


def cached(size: int) -> Target:
    known = dataclasses.replace(GENERIC_CPU.memory, l3=size)
    return dataclasses.replace(GENERIC_CPU, memory=known)


def test_only_results_that_exceed_the_cache_are_streamed() -> None:
    kernel = rows(64, 64)
    assert NonTemporal(0) in heuristic.choose_actions(kernel, cached(1 << 14))
    assert NonTemporal(0) not in heuristic.choose_actions(kernel, cached(1 << 20))
    odd = rows(64, 63)
    assert NonTemporal(0) not in heuristic.choose_actions(odd, cached(1 << 10))


def test_one_row_of_any_length_is_streamed() -> None:
    chosen = heuristic.choose_actions(line((1 << 14) + 3), cached(1 << 10))
    assert NonTemporal(0) in chosen
    width = lanes_of_widest_type(toposort(line(3)), GENERIC_CPU)
    assert Upcast("r1", 4 * width) in chosen
    assert Upcast("r1", width) in heuristic.choose_actions(line(1001 * width), GENERIC_CPU)


def test_rows_of_half_vectors_are_not_padded() -> None:
    """A padded row would share its last cache line with the next one."""
    half = lanes_of_widest_type(toposort(line(3)), GENERIC_CPU) // 2
    kernel = rows(64, 5 * 25 * half)
    assert {Upcast("r1", 5 * half), NonTemporal(0)} <= set(
        heuristic.choose_actions(kernel, cached(1 << 14))
    )
    assert Upcast("r1", 5 * half) not in heuristic.choose_actions(kernel, cached(1 << 24))


def halves(m: int, n: int, first: int) -> UOp:
    """Return a kernel whose rows have two parts, the first of `first` elements."""
    i, j = UOp.range(m, 0), UOp.range(n, 1)
    one, other = (pointer(k, m * n).index(i * n + j) for k in (1, 2))
    value = (j < first).where(one + one, other * other)
    return ops.SINK(pointer(0, m * n).index(i * n + j).store(value).end(i, j))


def test_rows_of_two_parts_are_unrolled() -> None:
    width = lanes_of_widest_type(toposort(halves(64, 64, 32)), GENERIC_CPU)
    size = 12 * width
    assert Upcast("r1", size) in heuristic.choose_actions(halves(64, size, 3 * width), GENERIC_CPU)
    assert Upcast("r1", size) not in heuristic.choose_actions(
        halves(64, size, 3 * width + 1), GENERIC_CPU
    )
    assert Upcast("r1", size) not in heuristic.choose_actions(rows(64, size), GENERIC_CPU)
    long = 64 * width
    assert Upcast("r1", long) not in heuristic.choose_actions(
        halves(64, long, 3 * width), GENERIC_CPU
    )
