"""Thread machine: loops, registers, local memory, threads, gates, vectors and lists."""

from __future__ import annotations

import numpy as np
import pytest

from porism.base.dtypes import Space, f32, i32, index
from porism.evaluate import Memory, run_arrays, run_kernel, run_list
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from tests.evaluate.programs import (
    accumulated,
    arange,
    at,
    barrier,
    group,
    load,
    local,
    num,
    pointer,
    register,
    sink,
    special,
    tiled_matmul,
    tree_sum,
)

# -- loops and registers ---------------------------------------------------------------------------


def test_accumulator_in_a_register() -> None:
    i, k = UOp.range(3, 0), UOp.range(4, 1)
    total = accumulated(load(pointer(1, 12), i * 4 + k), k, i)
    out = np.zeros(3, np.float32)
    run_kernel(sink(at(pointer(0, 3), i).store(total).end(i)), [out, arange(12)])
    np.testing.assert_array_equal(out, arange(3, 4).sum(axis=1))


def test_two_reductions_share_a_loop_or_follow_each_other() -> None:
    """Softmax: a maximum, and a sum that depends on it, in loops over the same range."""
    i, k = UOp.range(2, 0), UOp.range(5, 1)
    x = pointer(1, 10).index(i * 5 + k)
    largest = x.reduce(ops.MAX, k)
    powers = ops.EXP2(x - largest)
    total = powers.reduce(ops.ADD, k)
    count = num(1.0, f32).reduce(ops.ADD, k)  # independent of the first: one loop for both
    value = powers / total * count
    kernel = sink(pointer(0, 10).index(i * 5 + k).store(value).end(i, k))
    rng = np.random.default_rng(0)
    data = rng.normal(size=(2, 5)).astype(np.float32)
    expected = np.exp2(data - data.max(axis=1, keepdims=True))
    expected = expected / expected.sum(axis=1, keepdims=True) * 5
    for run in (run_kernel, run_arrays):
        out = np.zeros((2, 5), np.float32)
        run(kernel, [out, data])
        np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_the_extent_of_an_inner_loop_depends_on_an_outer_one() -> None:
    i = UOp.range(4, 0)
    k = UOp.range(i + 1, 1)
    total = k.cast(f32).reduce(ops.ADD, k)
    kernel = sink(pointer(0, 4).index(i).store(total).end(i))
    for run in (run_kernel, run_arrays):
        out = np.full(4, -1, np.float32)
        run(kernel, [out])
        np.testing.assert_array_equal(out, [0, 1, 3, 6])


def test_a_store_in_a_triangle_of_iterations() -> None:
    i = UOp.range(3, 0)
    k = UOp.range(i, 1)
    kernel = sink(pointer(0, 9).index(i * 3 + k).store((i * 10 + k).cast(f32)).end(i, k))
    for run in (run_kernel, run_arrays):
        out = np.full(9, -1, np.float32)
        run(kernel, [out])
        np.testing.assert_array_equal(out, [-1, -1, -1, 10, -1, -1, 20, 21, -1])


def test_the_last_iteration_of_a_loop_wins() -> None:
    i = UOp.range(5, 0)
    kernel = sink(pointer(0, 2).index(i % 2).store(i.cast(f32)).end(i))
    for run in (run_kernel, run_arrays):
        out = np.zeros(2, np.float32)
        run(kernel, [out])
        np.testing.assert_array_equal(out, [4, 3])


def test_loops_nest_in_the_order_of_their_end() -> None:
    i, j = UOp.range(2, 0), UOp.range(3, 1)
    store = pointer(0, 4).index(i + j).store((i * 10 + j).cast(f32))
    for run in (run_kernel, run_arrays):
        for nest, expected in (((i, j), [0, 10, 11, 12]), ((j, i), [0, 1, 2, 12])):
            out = np.zeros(4, np.float32)
            run(sink(store.end(*nest)), [out])
            np.testing.assert_array_equal(out, expected)


def test_a_reduction_runs_its_loops_in_the_order_of_its_sources() -> None:
    i, j = UOp.range(2, 0, Axis.REDUCE), UOp.range(2, 1, Axis.REDUCE)
    term = pointer(1, 4).index(i * 2 + j)
    for run in (run_kernel, run_arrays):
        for nest, expected in (((i, j), 1), ((j, i), 2)):
            buffers = [np.zeros(1, np.float32), np.array([1e8, 1, -1e8, 1], np.float32)]
            total = term.reduce(ops.ADD, *nest)
            run(sink(pointer(0, 1).index(num(0)).store(total)), buffers)
            assert buffers[0][0] == expected


def test_iterations_see_what_earlier_ones_stored() -> None:
    """A prefix sum in memory."""
    i = UOp.range(4, 0)
    out = pointer(0, 5)
    kernel = sink(at(out, i + 1).store(load(out, i) + load(pointer(1, 4), i)).end(i))
    buffers = [np.zeros(5, np.float32), arange(4)]
    run_kernel(kernel, buffers)
    np.testing.assert_array_equal(buffers[0], [0, 0, 1, 3, 6])


def test_extents_may_be_variables() -> None:
    n = UOp.variable("n", 0, 4)
    i = UOp.range(n, 0)
    kernel = sink(pointer(0, 4).index(i).store(num(1.0, f32)).end(i))
    out = np.zeros(4, np.float32)
    run_kernel(kernel, [out], {"n": 3})
    np.testing.assert_array_equal(out, [1, 1, 1, 0])


# -- threads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
def test_tree_reduction_in_local_memory(reverse: bool) -> None:
    out = np.zeros(2, np.float32)
    data = np.random.default_rng(1).integers(-9, 9, 16).astype(np.float32)
    run_kernel(tree_sum(8), [out, data], reverse=reverse)
    np.testing.assert_array_equal(out, data.reshape(2, 8).sum(axis=1))


@pytest.mark.parametrize("reverse", [False, True])
def test_tiled_matmul(reverse: bool) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-4, 4, (6, 6)).astype(np.float32) for _ in range(2))
    out = np.zeros((6, 6), np.float32)
    run_kernel(tiled_matmul(6, 3), [out, a, b], reverse=reverse)
    np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize("kind", [Axis.GLOBAL, Axis.THREAD, Axis.LOCAL, Axis.WARP, Axis.GROUP])
def test_parallel_ranges_are_threads(kind: Axis) -> None:
    i, j = UOp.range(4, 0, kind), UOp.range(3, 1)
    value = load(pointer(1, 12), i * 3 + j) * 2.0
    out = np.zeros(12, np.float32)
    run_kernel(sink(at(pointer(0, 12), i * 3 + j).store(value).end(i, j)), [out, arange(12)])
    np.testing.assert_array_equal(out, arange(12) * 2)


def test_threads_of_a_block_share_local_memory() -> None:
    """Each block reverses its row: a range of kind LOCAL is the threads."""
    g, t = UOp.range(2, 0, Axis.GLOBAL), UOp.range(4, 1, Axis.LOCAL)
    row = local(4)
    filled = at(row, t).store(load(pointer(1, 8), g * 4 + t))
    value = load(row.after(barrier(filled)), 3 - t)
    out = np.zeros(8, np.float32)
    run_kernel(sink(at(pointer(0, 8), g * 4 + t).store(value).end(g, t)), [out, arange(8)])
    np.testing.assert_array_equal(out, [3, 2, 1, 0, 7, 6, 5, 4])


def test_a_store_outside_of_a_parallel_range_runs_once() -> None:
    t = UOp.range(4, 0, Axis.LOCAL)
    many = at(pointer(0, 4), t).store(t.cast(f32)).end(t)
    once = at(pointer(1, 1), 0).store(num(7.0, f32))  # by every thread it would be a race
    data = np.zeros(1, np.float32)
    run_kernel(sink(many, once), [np.zeros(4, np.float32), data])
    assert data[0] == 7


def test_a_parallel_range_that_a_reduction_closes_is_a_loop() -> None:
    g = UOp.range(4, 0, Axis.GROUP)
    total = pointer(1, 4).index(g).reduce(ops.ADD, g)
    out = np.zeros(1, np.float32)
    run_kernel(sink(pointer(0, 1).index(num(0)).store(total)), [out, arange(4)])
    assert out[0] == 6


# -- gates, vectors, pointers ----------------------------------------------------------------------


def test_gated_stores_and_loads_with_an_alternative() -> None:
    i = UOp.range(6, 0)
    small = i < 4
    value = at(pointer(1, 4), i, small).load(num(-1.0, f32))
    kernel = sink(at(pointer(0, 6), i, i.ne(2)).store(value).end(i))
    out = np.full(6, 9, np.float32)
    run_kernel(kernel, [out, arange(4)])
    np.testing.assert_array_equal(out, [0, 1, 9, 3, -1, -1])


def test_a_load_through_invalid_gives_the_alternative() -> None:
    i = UOp.range(4, 0)
    masked = (i < 2).where(i, UOp(ops.INVALID))
    with_other = at(pointer(1, 2), masked).load(num(-1.0, f32))
    without = load(pointer(1, 2), masked)
    kernel = sink(at(pointer(0, 4), i).store(with_other * 10.0 + without).end(i))
    for run in (run_kernel, run_arrays):
        out = np.zeros(4, np.float32)
        run(kernel, [out, arange(2) + 1])
        np.testing.assert_array_equal(out, [11, 22, -10, -10])


def test_gates_of_pointers_to_pointers() -> None:
    """An undefined gate does not fail where another gate is closed."""
    i = UOp.range(4, 0)
    outer = at(pointer(0, 4), 0, i.ne(0))
    inner = UOp(ops.INDEX, outer.dtype, (outer, i, ops.IDIV(num(6), i) < 6))
    kernel = sink(inner.store(num(1.0, f32)).end(i))
    for run in (run_kernel, run_arrays):
        out = np.zeros(4, np.float32)
        run(kernel, [out])
        np.testing.assert_array_equal(out, [0, 0, 1, 1])


def test_parallel_ranges_in_a_list() -> None:
    g, i = UOp.range(2, 0, Axis.GLOBAL), UOp.range(3, 1)
    place, value = at(pointer(0, 6), g * 3 + i), (g * 10 + i).cast(f32)
    store = place.store(value)
    inner = store.end(i)
    outer = inner.end(g)
    data = np.zeros(6, np.float32)
    run_list([*toposort(store), inner, outer, sink(outer)], [data])
    np.testing.assert_array_equal(data, [0, 1, 2, 10, 11, 12])


def test_if_and_endif_in_a_list() -> None:
    i = UOp.range(4, 0)
    condition = i.ne(1)
    gate = UOp(ops.IF, None, (condition,))
    out = pointer(0, 4)
    place, value = at(out, i), i.cast(f32)
    store = place.store(value)
    endif = UOp(ops.ENDIF, None, (gate, store))
    end = endif.end(i)
    listed = [out, i.src[0], i, condition, value, place, gate, store, endif, end, sink(end)]
    data = np.full(4, 9, np.float32)
    run_list(listed, [data])
    np.testing.assert_array_equal(data, [0, 9, 2, 3])


def test_if_in_a_graph_holds_what_depends_on_it() -> None:
    i = UOp.range(4, 0)
    gate = UOp(ops.IF, None, (i < 2,))
    store = at(pointer(0, 2).after(gate), i).store(i.cast(f32))  # out of bounds without the IF
    data = np.full(2, 9, np.float32)
    run_kernel(sink(UOp(ops.ENDIF, None, (gate, store)).end(i)), [data])
    np.testing.assert_array_equal(data, [0, 1])


def test_vector_loads_and_stores() -> None:
    i = UOp.range(2, 0)
    wide = f32.vec(4).pointer(Space.GLOBAL)
    source, target = (at(pointer(n, 8), i * 4).cast(wide) for n in (1, 0))
    vector = source.load()
    assert vector.dtype is f32.vec(4)
    out = np.zeros(8, np.float32)
    run_kernel(sink(target.store(vector.gep(3, 2, 1, 0)).end(i)), [out, arange(8)])
    np.testing.assert_array_equal(out, [3, 2, 1, 0, 7, 6, 5, 4])


def test_a_wide_load_through_a_scalar_pointer() -> None:
    """Elements of a buffer may be vectors; the offset of an INDEX is in elements."""
    vectors = UOp(ops.PARAM, f32.vec(4).pointer(Space.GLOBAL, 2), (), 1)
    picked = UOp(ops.INDEX, vectors.dtype, (vectors, num(1))).load().gep(2)
    four = UOp(ops.LOAD, f32.vec(2), (at(pointer(1, 8), 3),)).gep(1)
    out = np.zeros(2, np.float32)
    stores = [at(pointer(0, 2), k).store(v) for k, v in enumerate((picked, four))]
    run_kernel(sink(*stores), [out, arange(8)])
    np.testing.assert_array_equal(out, [6, 4])


def test_ptrcat_gathers_lanes_with_their_own_gates() -> None:
    base = pointer(1, 8)
    gate = UOp.variable("n", 0, 9) < 5
    lanes = [at(base, 6), at(base, 1), at(base, 99, gate)]
    vector = UOp(ops.LOAD, f32.vec(3), (UOp(ops.PTRCAT, None, tuple(lanes)),))
    picked = UOp(ops.LOAD, f32.vec(2), (UOp(ops.PTRCAT, None, tuple(lanes)).gep(1, 0),))
    pairs = [at(base, n).cast(f32.vec(2).pointer()) for n in (4, 0)]
    four = UOp(ops.LOAD, f32.vec(4), (UOp(ops.PTRCAT, f32.vec(4).pointer(), tuple(pairs)),))
    wanted = ((0, vector), (3, four), (7, picked))
    stores = [UOp(ops.STORE, None, (at(pointer(0, 9), n), v)) for n, v in wanted]
    out = np.full(9, 9, np.float32)
    run_kernel(sink(*stores), [out, arange(8)], {"n": 7})
    np.testing.assert_array_equal(out, [6, 1, 0, 4, 5, 0, 1, 1, 6])


def test_memory_seen_as_another_type_of_the_same_size() -> None:
    bits = at(pointer(1, 4), 2).cast(i32.pointer()).load()
    out = np.zeros(1, np.int32)
    run_kernel(sink(at(pointer(0, 1, i32), 0).store(bits)), [out, np.ones(4, np.float32)])
    assert out[0] == 0x3F800000


def test_wmma() -> None:
    m, n, k = 2, 3, 4

    def matrix(number: int, size: int) -> UOp:
        return UOp(ops.LOAD, f32.vec(size), (at(pointer(number, size), 0),))

    product = UOp(
        ops.WMMA,
        None,
        (matrix(1, m * k), matrix(2, k * n), matrix(3, m * n)),
        ("small", (m, n, k)),
    )
    a, b, c = arange(m, k), arange(k, n) - 5, arange(m, n) * 100
    out = np.zeros((m, n), np.float32)
    run_kernel(sink(at(pointer(0, m * n), 0).store(product)), [out, a, b, c])
    np.testing.assert_array_equal(out, a @ b + c)


def test_unrolled_axes_are_stored_element_by_element() -> None:
    i = UOp.range(2, 0)
    lane = UOp(ops.UNROLL, None, (UOp(ops.VCONST, index.vec(3), (), (0, 1, 2)),), ((7, 3),))
    place = i * 3 + lane
    total = (place.cast(f32) * 2.0).reduce(ops.ADD, lane)
    single = pointer(0, 6).index(place).store(place.cast(f32)).end(i)
    summed = pointer(1, 2).index(i).store(total).end(i)
    for run in (run_kernel, run_arrays):
        one, two = np.zeros(6, np.float32), np.zeros(2, np.float32)
        run(sink(single, summed), [one, two])
        np.testing.assert_array_equal(one, arange(6))
        np.testing.assert_array_equal(two, [6, 24])


def test_a_value_materialized_for_its_ranges() -> None:
    """A BUFFERIZE of a row for each `i`, read in reverse; also unrolled."""
    i, j, k = UOp.range(2, 0), UOp.range(4, 1), UOp.range(4, 2)
    lane = UOp(ops.UNROLL, None, (UOp(ops.VCONST, index.vec(2), (), (0, 1)),), ((7, 2),))
    doubled = pointer(1, 8).index(i * 4 + j) * 2.0 + lane.cast(f32)
    row = UOp(ops.BUFFERIZE, None, (doubled, j, num(0), lane), Space.LOCAL)
    value = row.index(3 - k, num(0), num(1))
    kernel = sink(pointer(0, 8).index(i * 4 + k).store(value).end(i, k))
    for run in (run_kernel, run_arrays):
        out = np.zeros((2, 4), np.float32)
        run(kernel, [out, arange(8)])
        np.testing.assert_array_equal(out, arange(2, 4)[:, ::-1] * 2 + 1)


def test_calls_run_kernels_on_buffers() -> None:
    i, n = UOp.range(UOp.variable("n", 0, 4), 0), UOp.variable("n", 0, 4)
    twice = sink(at(pointer(0, 4), i).store(load(pointer(1, 4), i) * 2.0).end(i))
    first, second, third = (UOp(ops.PARAM, f32, (num(4),), k) for k in range(3))
    bound = UOp(ops.BIND, None, (n, num(3)))
    one = UOp(ops.CALL, None, (twice, second, third, bound), "twice")
    two = UOp(ops.CALL, None, (twice, first, second.after(one), bound), "twice")
    buffers = [np.zeros(4, np.float32), np.zeros(4, np.float32), arange(4)]
    for run in (run_arrays, run_kernel):
        run(sink(two), buffers)
        np.testing.assert_array_equal(buffers[0], [0, 4, 8, 0])


def test_a_kernel_in_a_loop_of_kernels() -> None:
    step = UOp.range(3, 0, Axis.OUTER)
    i = UOp.range(2, 0)
    add = sink(at(pointer(0, 2), i).store(load(pointer(0, 2), i) + 1.0).end(i))
    buffer = UOp(ops.PARAM, f32, (num(2),), 0)
    call = UOp(ops.CALL, None, (add, buffer), "add")
    data = np.zeros(2, np.float32)
    run_kernel(sink(call.end(step)), [data])
    np.testing.assert_array_equal(data, [3, 3])


# -- order -----------------------------------------------------------------------------------------


def test_the_graph_of_a_list_gives_the_same() -> None:
    """An accumulator written as a list, in the order a renderer would print it."""
    i, k = UOp.range(2, 0), UOp.range(3, 1)
    x, out, place = pointer(1, 6), pointer(0, 2), register()
    start = at(place.after(i), 0).store(num(0.0, f32))
    inside = at(place.after(start, k), 0)
    update = inside.store(inside.load() + load(x, i * 3 + k))
    end = update.end(k)
    total = load(place.after(end), 0)
    done = at(out, i).store(total).end(i)
    head = [x, out, place, i.src[0], k.src[0], num(3), num(0), num(0.0, f32), i]
    body = [n for n in toposort(update) if n not in (*head, k, *toposort(start))]
    tail = [n for n in toposort(done) if n not in toposort(end)]
    listed = [*head, *[n for n in toposort(start) if n not in head], k, *body, end, *tail]
    root = sink(done)
    listed = [n for n in dict.fromkeys(listed) if n is not root] + [root]
    for run in (run_list, None):
        data = np.zeros(2, np.float32)
        if run is None:
            run_kernel(root, [data, arange(6)])
        else:
            run_list(listed, [data, arange(6)])
        np.testing.assert_array_equal(data, [3, 12])


def test_stores_of_one_loop_are_grouped() -> None:
    i = UOp.range(3, 0)
    one = at(pointer(0, 3), i).store(i.cast(f32))
    two = at(pointer(1, 3), i).store(load(pointer(0, 3).after(one), i) + 1.0)
    buffers = [np.zeros(3, np.float32), np.zeros(3, np.float32)]
    run_kernel(sink(group(one, two).end(i)), buffers)
    np.testing.assert_array_equal(buffers[1], [1, 2, 3])


def test_loops_that_follow_each_other_many_times() -> None:
    """The recursion of the machine is as deep as the loop nest, not as the graph."""
    count = 300
    i = UOp.range(2, 0)
    out = pointer(0, 2)
    here = out
    effect = None
    for _ in range(count):
        effect = at(here, i).store(load(here, i) + 1.0).end(i)
        here = out.after(effect)
    assert effect is not None
    data = np.zeros(2, np.float32)
    run_kernel(sink(effect), [data])
    np.testing.assert_array_equal(data, [count, count])


# -- what threads and buffers are ------------------------------------------------------------------


def test_outputs_start_unwritten() -> None:
    i = UOp.range(3, 0)
    out = Memory.empty(f32, 3)
    run_kernel(sink(at(pointer(0, 3), i, i < 2).store(num(1.0, f32)).end(i)), [out])
    assert out.written is not None
    assert out.written.tolist() == [True, True, False]


def test_special_indices_of_one_name_are_one_index() -> None:
    t = special("thread0", 4)
    same = UOp(ops.SPECIAL, None, (num(2) + num(2),), "thread0")
    out = np.zeros(4, np.float32)
    run_kernel(sink(at(pointer(0, 4), t).store((same * 10).cast(f32))), [out])
    np.testing.assert_array_equal(out, [0, 10, 20, 30])
