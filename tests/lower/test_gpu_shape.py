"""GPU lowering: blocks and threads, their limits, masks, shared memory and barriers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from porism.base.dtypes import Space, f16, f32, i32, index
from porism.base.errors import EvaluationError, TargetError
from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU
from porism.evaluate import Memory, run_kernel, run_list
from porism.ir import fragments, levels, ops
from porism.ir.axis import THREAD_AXES, Axis
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.lower.gpu.block_memory import block_memory
from porism.lower.gpu.gpu_dims import gpu_dims, to_blocks
from porism.lower.gpu.group_reduce import group_reduce
from porism.lower.gpu.tensor_core_products import tensor_cores
from porism.lower.linearize import linearize
from porism.lower.local_memory import local_memory
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.gpu.thread_block_actions import Group, Local
from porism.optimize.actions.loop_substitution import ranges_of
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.rules.addresses.grid_dims import assign_slots, fit_dimensions, local_bytes
from porism.rules.addresses.index_dtype import lower_index_dtype
from porism.rules.addresses.launch_dims import launch_of
from tests.block_kernels import (
    CASES,
    SMALL,
    TINY,
    centred,
    kept_row,
    lines_of,
    matrix_product,
    pointer,
    row_sums,
    run_graph,
    run_lines,
    shifted,
    started,
    two_outputs,
)


def number(value: int) -> UOp:
    return UOp.const(index, value)


def kinds(kernel: UOp) -> dict[tuple[int, ...], Axis]:
    return {r.arg[0]: r.arg[1] for r in ranges_of(kernel)}


# -- which loops are blocks ------------------------------------------------------------------------


def test_loops_of_the_output_become_blocks() -> None:
    actual = kinds(to_blocks(matrix_product(2, 4, 6), SMALL))
    assert actual == {(0,): Axis.GLOBAL, (1,): Axis.GLOBAL, (2,): Axis.REDUCE}


def test_a_loop_that_shares_a_reduction_or_a_row_stays() -> None:
    for kernel in (centred(2, 8), started(CASES["kept row"])):
        actual = kinds(to_blocks(kernel, SMALL))
        assert actual[0,] is Axis.GLOBAL
        assert actual[1,] is Axis.LOOP


def test_a_loop_that_reads_what_it_writes_stays() -> None:
    i = UOp.range(4, 0)
    at = (i >= 1).where(i - 1, UOp(ops.INVALID, i.dtype))
    kernel = ops.SINK(pointer(0, 4).index(i).store(pointer(0, 4).index(at) + 1).end(i))
    assert to_blocks(kernel, SMALL) is kernel


def test_a_loop_that_exceeds_the_grid_stays_a_loop() -> None:
    actual = kinds(to_blocks(matrix_product(4, 8, 2), TINY))  # of 24 blocks at most
    assert actual == {(0,): Axis.GLOBAL, (1,): Axis.LOOP, (2,): Axis.REDUCE}


def test_a_cpu_has_no_blocks() -> None:
    kernel = started(CASES["kept row"])
    assert to_blocks(kernel, GENERIC_CPU) is kernel
    assert block_memory(kernel, GENERIC_CPU) is kernel
    assert gpu_dims(kernel, GENERIC_CPU) is kernel


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [(4,), (4, 3), (4, 3, 2), (2, 9, 5), (100, 3, 3)])
def test_sizes_within_the_limits_get_launch_dimensions(limits: tuple[int, ...]) -> None:
    """Every size up to the limits gets launch dimensions, with less than twice the threads."""
    for sizes in itertools.chain(
        ((n,) for n in range(1, math.prod(limits) + 2)),
        itertools.product(range(1, 6), repeat=3),
        itertools.product((1, 2, 3), repeat=4),
    ):
        total = math.prod(sizes)
        actual = fit_dimensions([number(n) for n in sizes], limits)
        assert (actual is None) == (total > math.prod(limits))
        if actual is None:
            continue
        dims = [int(d.arg) for d in actual.dims]
        assert len(dims) <= len(limits)
        assert all(d <= most for d, most in zip(dims, limits, strict=False))
        if actual.groups is not None:
            assert dims == [math.prod(sizes[k] for k in group) for group in actual.groups]
        else:
            assert total <= math.prod(dims) < 2 * total


@pytest.mark.parametrize("size", [1, 4, 5, 7, 11, 12, 13, 22, 23, 24])
def test_blocks_beyond_a_limit_are_split(size: int) -> None:
    """A size without factors within the limits leaves surplus blocks, which store nothing."""
    i = UOp.range(size, 0)
    kernel = ops.SINK(pointer(0, size).index(i).store(i.cast(i32)).end(i))
    lines = lines_of(kernel, TINY)
    grid, _ = launch_of(lines).sizes()
    assert size <= math.prod(grid) <= 24
    for reverse in (False, True):
        cells = Memory.empty(i32, size)
        run_list(lines, [cells], reverse=reverse)
        assert cells.data.tolist() == list(range(size))


def test_threads_beyond_a_limit_are_split() -> None:
    """13 threads where a dimension has 4 take several dimensions, with surplus threads."""
    i, j = UOp.range(3, 0, Axis.GLOBAL), UOp.range(13, 1, Axis.LOCAL)
    kernel = ops.SINK(pointer(0, 39).index(i * 13 + j).store((i * j).cast(i32)).end(i, j))
    lines = lines_of(kernel, TINY)
    _, block = launch_of(lines).sizes()
    assert 13 <= math.prod(block) <= 16
    cells = Memory.empty(i32, 39)
    run_list(lines, [cells])
    assert cells.data.tolist() == [i * j for i in range(3) for j in range(13)]


def test_too_many_threads_are_an_error() -> None:
    i = UOp.range(33, 0, Axis.LOCAL)
    kernel = ops.SINK(pointer(0, 33).index(i).store(i.cast(i32)).end(i))
    with pytest.raises(TargetError, match="33 threads do not fit the target tiny_gpu") as caught:
        gpu_dims(kernel, TINY)
    assert "4 × 4 × 2 at most" in str(caught.value)


def test_launch_dimensions_may_be_symbolic() -> None:
    n = UOp.variable("n", 1, 20)
    i, j = UOp.range(n, 0), UOp.range(3, 1)
    kernel = ops.SINK(pointer(0, 60).index(i * 3 + j).store((i + j).cast(i32)).end(i, j))
    small, tiny = lines_of(kernel, SMALL), lines_of(shifted_by(n), TINY)
    assert launch_of(small).sizes({"n": 7}) == ((3, 7, 1), (1, 1, 1))
    for count in (1, 4, 5, 13, 20):
        cells = Memory.empty(i32, 60)
        run_list(small, [cells], {"n": count})
        assert cells.written is not None
        assert cells.data[cells.written].tolist() == [i + j for i in range(count) for j in range(3)]
        grid, _ = launch_of(tiny).sizes({"n": count})
        assert all(size <= most for size, most in zip(grid, TINY.grid, strict=True))
        assert count <= math.prod(grid) <= 24
        cells = Memory.empty(i32, 20)
        run_list(tiny, [cells], {"n": count})
        assert cells.written is not None
        assert cells.data[cells.written].tolist() == list(range(count))


def shifted_by(n: UOp) -> UOp:
    i = UOp.range(n, 0)
    return ops.SINK(pointer(0, 20).index(i).store(i.cast(i32)).end(i))


# -- places and masks ------------------------------------------------------------------------------


def test_the_range_of_contiguous_loads_is_the_fastest_thread_index() -> None:
    kernel = apply_all(matrix_product(4, 4, 4), [Local("r0", 2), Local("r1", 4)], SMALL)
    assert [slot.extent.arg for slot in assign_slots(kernel, THREAD_AXES).slots] == [4, 2]
    kernel = apply_all(row_sums(6, 8), [Group("r1", 2), Local("r0", 3)], SMALL)
    assert [slot.extent.arg for slot in assign_slots(kernel, THREAD_AXES).slots] == [2, 3]


def test_a_store_outside_of_a_thread_range_runs_once() -> None:
    """Without the mask two threads would write one element."""
    kernel = group_reduce(Group("r1", 4).apply(to_blocks(row_sums(6, 8), SMALL), SMALL))
    lowered = gpu_dims(kernel, SMALL)
    case = CASES["row sums"]
    assert run_graph(case, lowered)[0].tolist() == run_graph(case, case.kernel)[0].tolist()
    (store,) = (n for n in lowered.src if n.op is ops.STORE)
    place, at = store.src[0].src
    bare = substitute(lowered, {store: ops.STORE(place.index(at.src[1]), store.src[1])})
    with pytest.raises(EvaluationError, match="a data race"):
        run_graph(case, bare)


def test_ranges_of_two_outputs_share_an_index() -> None:
    kernel = apply_all(two_outputs(4, 6), [Local("r0", 2), Local("r1", 2)], SMALL)
    lines = lines_of(kernel, SMALL)
    assert launch_of(lines).sizes()[1] == (2, 1, 1)


# -- memory and barriers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "actions", "barriers"),
    [
        ("row sums", [Group("r1", 4)], 1),  # after the partial sums
        ("kept row", [Local("r2", 4)], 1),  # after the row
        ("chained", [Local("r4", 2)], 2),  # before the row and after it, in each step
        ("chained", [Group("r3", 2)], 2),  # before the partial sums and after them
        ("centred", [Group("r2", 4), Group("r3", 2)], 2),  # after both partial sums
    ],
)
def test_each_barrier_is_needed(name: str, actions: list[Action], barriers: int) -> None:
    """Without one of them, the evaluator finds a data race or a read of unwritten memory."""
    case = CASES[name]
    kernel = apply_all(started(case), actions, SMALL)
    lowered = gpu_dims(group_reduce(block_memory(to_blocks(kernel, SMALL), SMALL)), SMALL)
    assert run_graph(case, lowered)[0].tolist() == run_graph(case, case.kernel)[0].tolist()
    actual = [n for n in toposort(lowered) if n.op is ops.BARRIER]
    assert len(actual) == barriers
    for barrier in actual:
        without = substitute(lowered, {barrier: UOp(ops.GROUP, None, barrier.src)})
        with pytest.raises(EvaluationError, match=r"a data race|before it was written"):
            run_graph(case, without)


def test_a_buffer_that_each_thread_fills_for_itself_is_in_registers() -> None:
    kernel = Local("r0", 2).apply(started(CASES["kept row"]), SMALL)
    lines = lines_of(kernel, SMALL)
    assert not any(n.op in (ops.DEFINE_LOCAL, ops.BARRIER) for n in lines)
    assert any(n.op is ops.DEFINE_REG and n.dtype.size == 8 for n in lines)
    assert launch_of(lines).local == 0


def test_a_buffer_that_threads_fill_together_is_shared() -> None:
    kernel = apply_all(started(CASES["kept row"]), [Local("r0", 2), Local("r2", 4)], SMALL)
    lines = lines_of(kernel, SMALL)
    (memory,) = (n for n in lines if n.op is ops.DEFINE_LOCAL)
    assert memory.dtype.size == 2 * 8  # a row for each of the threads outside
    assert launch_of(lines).local == local_bytes(kernel) == 64
    assert sum(n.op is ops.BARRIER for n in lines) == 1


def test_partial_results_have_an_element_for_each_thread_and_lane() -> None:
    actions = [Local("r1", 2), Upcast("r0", 2), Group("r2", 3)]
    kernel = apply_all(matrix_product(2, 4, 6), actions, SMALL)
    (memory,) = (n for n in toposort(group_reduce(kernel)) if n.op is ops.DEFINE_LOCAL)
    assert memory.dtype.size == 2 * 2 * 3
    assert memory.dtype.space is Space.LOCAL
    assert local_bytes(kernel) == 48


def test_each_group_reduction_has_its_own_buffer() -> None:
    kernel = apply_all(centred(2, 8), [Group("r2", 4), Group("r3", 4)], SMALL)
    actual = [n for n in toposort(group_reduce(kernel)) if n.op is ops.DEFINE_LOCAL]
    assert [n.arg for n in actual] == [0, 1]


def test_a_kernel_without_groups_stays() -> None:
    for kernel in (matrix_product(2, 4, 6), shifted(12), started(CASES["kept row"])):
        assert group_reduce(kernel) is kernel
        assert tensor_cores(kernel, H200) is kernel


def test_lanes_around_a_shared_buffer_have_parts_of_their_own() -> None:
    case = CASES["kept row"]
    kernel = apply_all(started(case), [Upcast("r0", 2), Local("r2", 4)], SMALL)
    lines = lines_of(kernel, SMALL)
    assert local_bytes(kernel) == launch_of(lines).local == 64
    assert run_lines(case, lines)[0].tolist() == run_graph(case, case.kernel)[0].tolist()


def test_unused_nodes_are_no_instructions() -> None:
    """A sum of products becomes multiply-adds, and the products alone are not computed."""
    i, r = UOp.range(2, 0), UOp.range(3, 1, Axis.REDUCE)
    x = pointer(1, 6, f32).index(i * 3 + r)
    kernel = ops.SINK(pointer(0, 2, f32).index(i).store((x * x).reduce(ops.ADD, r)).end(i))
    lines = linearize(lower_index_dtype(kernel))
    assert any(n.op is ops.MULACC for n in lines)
    assert not any(n.op is ops.MUL and n.dtype.is_float for n in lines)


def test_a_range_of_two_loops_is_opened_twice() -> None:
    """The second reduction needs the first, and both have the same range."""
    i, r = UOp.range(3, 0), UOp.range(4, 1, Axis.REDUCE)
    x = pointer(1, 12).index(i * 4 + r)
    total = ((x - x.reduce(ops.MAX, r)) * x).reduce(ops.ADD, r)
    kernel = ops.SINK(pointer(0, 3).index(i).store(total).end(i))
    lines = linearize(lower_index_dtype(kernel))
    levels.check_linear(lines)
    assert len({n.arg[0] for n in lines if n.op is ops.RANGE}) == 3
    data = np.array([[3, 1, 4, 1], [5, 9, 2, 6], [5, 3, 5, 8]], np.int32)
    cells = Memory.empty(i32, 3)
    run_list(lines, [cells, Memory.of(data)])
    assert cells.data.tolist() == ((data - data.max(1, keepdims=True)) * data).sum(1).tolist()


# -- products of warps -----------------------------------------------------------------------------


def warp_product(threads: int, k: int = 16) -> UOp:
    """Return a kernel in which each thread loads fragments of two matrices, and stores its own."""
    thread = UOp(ops.SPECIAL, None, (number(threads),), "thread0")
    lane = thread % 32
    row, column = lane // 4, lane % 4
    left = [
        pointer(1, 16 * k, f16).index((row + y) * k + column * 2 + x)
        for y, x in fragments.a_offsets(16, k, 2)
    ]
    right = [
        pointer(2, k * 8, f16).index((column * 2 + y) * 8 + row) for y in fragments.b_offsets(k, 2)
    ]
    zero = UOp.const(f32.vec(4), 0)
    arg = ("product", (16, 8, k), (16, 8, k), 32)
    total = ops.WMMA(ops.VECTORIZE(*left), ops.VECTORIZE(*right), zero, arg=arg)
    out = pointer(0, 128 * (threads // 32), f32)
    stores = [
        out.index((thread // 32) * 128 + (row + y) * 8 + column * 2 + x).store(total.gep(number))
        for number, (y, x) in enumerate(fragments.c_offsets(16))
    ]
    return ops.SINK(*stores)


@pytest.mark.parametrize("threads", [32, 64])
def test_the_threads_of_a_warp_multiply_together(threads: int) -> None:
    generator = np.random.default_rng(0)
    a = generator.integers(-9, 9, (16, 16)).astype(np.float16)
    b = generator.integers(-9, 9, (16, 8)).astype(np.float16)
    for reverse in (False, True):
        cells = Memory.empty(f32, 128 * (threads // 32))
        run_kernel(warp_product(threads), [cells, Memory.of(a), Memory.of(b)], reverse=reverse)
        wanted = a.astype(np.float32) @ b.astype(np.float32)
        for part in cells.data.reshape(-1, 16, 8):
            np.testing.assert_array_equal(part, wanted)


def matrices() -> list[Memory]:
    return [Memory.empty(f32, 128), *(Memory.of(np.zeros(n, np.float16)) for n in (256, 128))]


def test_a_product_needs_whole_warps() -> None:
    buffers = matrices()
    kernel = warp_product(32)
    threads = next(n for n in toposort(kernel) if n.op is ops.SPECIAL)
    fewer = UOp(ops.SPECIAL, None, (number(16),), "thread0")
    with pytest.raises(EvaluationError, match="a WMMA of 32 threads in a block of 16"):
        run_kernel(substitute(kernel, {threads: fewer}), buffers)


def test_each_thread_has_an_equal_fragment() -> None:
    buffers = matrices()
    kernel = warp_product(32)
    product = next(n for n in toposort(kernel) if n.op is ops.WMMA)
    wrong = ops.WMMA(*product.src, arg=("product", (16, 8, 32), (16, 8, 32), 32))
    with pytest.raises(EvaluationError, match="a thread has 8 elements of a matrix of 512"):
        run_kernel(substitute(kernel, {product: wrong}), buffers)


def test_every_element_is_held_once() -> None:
    for m, n, k, w in ((16, 8, 16, 2), (16, 8, 32, 4), (8, 8, 4, 1), (16, 8, 8, 1)):
        warp = list(itertools.product(range(8), range(4)))
        left = [(g + y, t * w + x) for g, t in warp for y, x in fragments.a_offsets(m, k, w)]
        right = [(t * w + y, g) for g, t in warp for y in fragments.b_offsets(k, w)]
        total = [(g + y, 2 * t + x) for g, t in warp for y, x in fragments.c_offsets(m)]
        assert sorted(left) == list(itertools.product(range(m), range(k)))
        assert sorted(right) == list(itertools.product(range(k), range(n)))
        assert sorted(total) == list(itertools.product(range(m), range(n)))


def test_buffers_inside_of_a_loop_are_refilled() -> None:
    """The local buffer of `kept_row` is filled anew in each of three iterations."""
    kernel = kept_row(3, 4)
    data = np.arange(12, dtype=np.int32)
    plain, shaped = Memory.empty(i32, 12), Memory.empty(i32, 12)
    run_kernel(kernel, [plain, Memory.of(data)])
    changed = apply_all(local_memory(kernel), [Local("r2", 2), Local("r1", 2)], SMALL)
    run_list(lines_of(changed, SMALL), [shaped, Memory.of(data)])
    assert plain.data.tolist() == shaped.data.tolist()
