"""Errors: programs without a meaning are refused, with the node that causes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from porism.base.dtypes import f32, i8, index
from porism.base.errors import EvaluationError
from porism.evaluate import Memory, evaluate, run_arrays, run_kernel, run_list
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from tests.evaluate.programs import (
    accumulated,
    arange,
    at,
    barrier,
    load,
    local,
    num,
    pointer,
    register,
    sink,
    special,
    tensor,
    tiled_matmul,
    tree_sum,
    unwrapped,
)

I = UOp.range(4, 0)  # noqa: E741 - as it is written in a message
INVALID = UOp(ops.INVALID)
ONE = num(1.0, f32)
OUT = pointer(0, 4)

BOTH = [run_arrays, run_kernel]


def refused(run: Callable[[], Any], what: str, *where: str) -> EvaluationError:
    """Return the error of a run, after checking that it has all its parts."""
    with pytest.raises(EvaluationError) as caught:
        run()
    error = caught.value
    assert what in error.what
    for part in where:
        assert part in (error.where or ""), str(error)
    assert error.why
    assert error.fix
    return error


def floats(*sizes: int) -> list[Any]:
    return [np.zeros(n, np.float32) for n in sizes]


# -- bounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", BOTH)
def test_a_store_out_of_bounds(run: Any) -> None:
    kernel = sink(at(OUT, I + 1).store(ONE).end(I))
    refused(
        lambda: run(kernel, floats(4)),
        "element 4 of 4 is accessed",
        "STORE: STORE(p0[r0 + 1], 1.0)",
        "r0 = 3",
    )


@pytest.mark.parametrize("run", BOTH)
def test_a_load_out_of_bounds(run: Any) -> None:
    kernel = sink(at(OUT, I).store(load(pointer(1, 4), I - 1)).end(I))
    refused(lambda: run(kernel, floats(4, 4)), "element -1 of 4", "LOAD(p1[r0 - 1])", "r0 = 0")


@pytest.mark.parametrize("run", BOTH)
def test_an_unused_load_is_executed(run: Any) -> None:
    """An INDEX that is not used does not fail; a LOAD is an instruction, and does."""
    element = pointer(1, 2).index(I)
    chosen = (I < 2).where(element, num(0.0, f32))
    run(sink(at(OUT, I).store(chosen).end(I)), floats(4, 2))
    loaded = (I < 2).where(load(pointer(1, 2), I), num(0.0, f32))
    kernel = sink(at(OUT, I).store(loaded).end(I))
    refused(lambda: run(kernel, floats(4, 2)), "element 2 of 2", "LOAD")


def test_an_index_outside_of_one_dimension() -> None:
    """It is an error although the flat address would be inside."""
    element = tensor(0, 2, 4).index(num(0), I + 1)
    refused(
        lambda: evaluate(element, {0: arange(2, 4)}),
        "outside of the dims (2, 4)",
        "INDEX: p0[0, r0 + 1]",
        "r0 = 3",
    )


def test_the_declared_size_is_the_bound() -> None:
    refused(lambda: evaluate(pointer(0, 3).index(I), {0: arange(9)}), "element 3 of 3")
    refused(lambda: evaluate(pointer(0, 9).index(I), {0: arange(3)}), "a buffer of 3 elements")


# -- unwritten memory ------------------------------------------------------------------------------


@pytest.mark.parametrize("run", BOTH)
def test_an_output_is_read_before_it_is_written(run: Any) -> None:
    kernel = sink(at(OUT, I).store(load(OUT, I) + 1.0).end(I))
    run(kernel, floats(4))
    refused(
        lambda: run(kernel, [Memory.empty(f32, 4)]),
        "element 0 is read before it was written",
        "LOAD: LOAD(p0[r0])",
    )


@pytest.mark.parametrize("place", [register(), local(1)])
def test_registers_and_local_memory_start_unwritten(place: UOp) -> None:
    kernel = sink(at(pointer(0, 1), 0).store(load(place, 0)))
    refused(lambda: run_kernel(kernel, floats(1)), "read before it was written", "LOAD")


def test_an_accumulator_without_its_first_value() -> None:
    k = UOp.range(3, 1)
    place = register()
    inside = at(place.after(k), 0)
    end = inside.store(inside.load() + 1.0).end(k)
    kernel = sink(at(pointer(0, 1), 0).store(load(place.after(end), 0)))
    refused(lambda: run_kernel(kernel, floats(1)), "read before it was written", "LOAD")


def test_a_result_that_is_not_written_everywhere() -> None:
    kernel = sink(at(OUT, I, I < 3).store(ONE).end(I))
    refused(lambda: evaluate(kernel), "element 3 of PARAM: p0 was never written")
    actual = unwrapped(evaluate(kernel, {0: np.zeros(4, np.float32)}))
    assert actual.tolist() == [1, 1, 1, 0]


# -- order -----------------------------------------------------------------------------------------


def test_without_after_a_read_comes_too_early() -> None:
    middle = pointer(1, 4)
    first = at(middle, I).store(ONE).end(I)
    j = UOp.range(4, 1)

    def kernel(base: UOp) -> UOp:
        return sink(first, at(OUT, j).store(load(base, j)).end(j))

    out, middle_data = np.zeros(4, np.float32), Memory.empty(f32, 4)
    run_kernel(kernel(middle.after(first)), [out, middle_data])
    assert out.tolist() == [1, 1, 1, 1]
    early = sink(at(OUT, j).store(load(middle, j)).end(j), first)
    refused(lambda: run_kernel(early, [*floats(4), Memory.empty(f32, 4)]), "read before")


def test_an_accumulator_that_is_not_reset() -> None:
    """The identity must be stored inside the outer loop, which AFTER(register, range) ensures."""
    i, k = UOp.range(2, 0), UOp.range(3, 1)
    value = load(pointer(1, 6), i * 3 + k)
    totals = []
    for outer in ((i,), ()):
        out = np.zeros(2, np.float32)
        kernel = sink(at(pointer(0, 2), i).store(accumulated(value, k, *outer)).end(i))
        run_kernel(kernel, [out, arange(6)])
        totals.append(out.tolist())
    assert totals == [[3, 12], [3, 15]]


def test_a_range_that_nothing_closes() -> None:
    kernel = sink(at(OUT, I).store(ONE))
    refused(lambda: run_kernel(kernel, floats(4)), "RANGE: r0 is never closed", "RANGE: r0")


def test_a_store_in_two_loops() -> None:
    store = at(OUT, I).store(ONE)
    once = store.end(I)
    again = at(OUT.after(once, store), I).store(ONE).end(I)
    refused(lambda: run_kernel(sink(again), floats(4)), "is in two loops", "STORE")


# -- lists -----------------------------------------------------------------------------------------


def listed() -> list[UOp]:
    store = at(OUT, I).store(I.cast(f32))
    return [*toposort(store), store.end(I)]


def test_a_list_in_order_runs() -> None:
    data = np.zeros(4, np.float32)
    run_list(listed(), [data])
    assert data.tolist() == [0, 1, 2, 3]


def test_a_list_with_a_source_too_late() -> None:
    nodes = listed()
    cast = next(n for n in nodes if n.op is ops.CAST)
    nodes.remove(cast)
    nodes.append(cast)
    refused(lambda: run_list(nodes, floats(4)), "is used where it is not known", "CAST", "STORE")


def test_a_list_with_an_open_loop() -> None:
    refused(lambda: run_list(listed()[:-1], floats(4)), "never closed", "RANGE: r0")


def test_a_list_that_closes_the_wrong_loop() -> None:
    j = UOp.range(2, 1)
    store = at(OUT, I + j).store(ONE)
    nodes = [*toposort(store), store.end(I)]
    refused(lambda: run_list(nodes, floats(4)), "not the innermost")


# -- races -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
def test_a_missing_barrier_is_a_race(reverse: bool) -> None:
    thread = special("thread0", 4)
    stored = at(OUT, thread).store(ONE)

    def kernel(waited: UOp) -> UOp:
        return sink(at(pointer(1, 4), thread).store(load(OUT.after(waited), 3 - thread)))

    run_kernel(kernel(barrier(stored)), floats(4, 4), reverse=reverse)
    error = refused(
        lambda: run_kernel(kernel(stored), floats(4, 4), reverse=reverse),
        "a data race on element",
        "LOAD: LOAD(AFTER(p0",
        "STORE: STORE(p0[thread0], 1.0)",
    )
    assert "thread0 = " in (error.why or "")


def test_a_missing_barrier_leaves_local_memory_unwritten() -> None:
    """The first thread reads before another one has written."""
    run_kernel(tree_sum(4), floats(2, 8))
    kernel = tree_sum(4, with_barrier=False)
    error = refused(lambda: run_kernel(kernel, floats(2, 8)), "read before it was written", "LOAD")
    assert "BARRIER" in (error.fix or "")


@pytest.mark.parametrize("reverse", [False, True])
def test_a_tile_is_overwritten_while_others_read_it(reverse: bool) -> None:
    kernel = tiled_matmul(4, 2, last_barrier=False)
    refused(lambda: run_kernel(kernel, floats(16, 16, 16), reverse=reverse), "data race", "STORE")


@pytest.mark.parametrize("name", ["block0", "thread0"])
def test_threads_that_write_one_element(name: str) -> None:
    kernel = sink(at(OUT, special(name, 4) // 2).store(ONE))
    error = refused(lambda: run_kernel(kernel, floats(4)), "a data race on element 0", "STORE")
    assert f"{name} = 0 writes it and {name} = 1 writes it" in (error.why or "")


def test_a_barrier_does_not_order_blocks() -> None:
    block = special("block0", 2)
    store = at(OUT, block).store(ONE)
    other = load(OUT.after(barrier(store)), 1 - block)
    kernel = sink(at(pointer(1, 2), block).store(other))
    refused(lambda: run_kernel(kernel, floats(4, 2)), "data race", "STORE", "LOAD")


def test_a_race_through_two_names_of_one_buffer() -> None:
    thread = special("thread0", 4)
    data = np.zeros(4, np.float32)
    kernel = sink(at(OUT, thread).store(load(pointer(1, 4), 3 - thread)))
    refused(lambda: run_kernel(kernel, [data, data]), "data race")


@pytest.mark.parametrize("kind", [Axis.GLOBAL, Axis.THREAD, Axis.LOCAL, Axis.WARP, Axis.GROUP])
def test_parallel_iterations_that_write_one_element(kind: Axis) -> None:
    i = UOp.range(4, 0, kind)
    kernel = sink(at(OUT, i % 3).store(ONE).end(i))
    refused(
        lambda: run_arrays(kernel, floats(4)),
        "two iterations write the same element, 0",
        "STORE: STORE(p0[",
        "r0 = 0",
        "r0 = 3",
    )
    refused(lambda: run_kernel(kernel, floats(4)), "data race")


def test_parallel_iterations_that_all_do_the_same() -> None:
    """The store is inside the range, although it does not depend on it."""
    i = UOp.range(4, 0, Axis.GLOBAL)
    kernel = sink(at(OUT, 0).store(ONE).end(i))
    refused(lambda: run_arrays(kernel, floats(4)), "two iterations write the same element")
    refused(lambda: run_kernel(kernel, floats(4)), "data race")


@pytest.mark.parametrize("run", BOTH)
def test_lanes_that_write_one_element(run: Any) -> None:
    lanes = UOp(ops.VCONST, index.vec(2), (), (3, 3))
    kernel = sink(UOp(ops.INDEX, f32.vec(2), (OUT, lanes)).store(num(1.0, f32.vec(2))))
    refused(lambda: run(kernel, floats(4)), "two iterations write the same element, 3", "lane")


def test_a_barrier_that_some_threads_miss() -> None:
    thread = special("thread0", 4)
    gate = UOp(ops.IF, None, (thread < 2,))
    inside = barrier(at(local(4).after(gate), thread).store(ONE))
    kernel = sink(UOp(ops.ENDIF, None, (gate, inside)))
    refused(lambda: run_kernel(kernel, []), "a barrier that not every thread", "BARRIER")


# -- INVALID ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", BOTH)
def test_a_store_through_invalid_does_nothing(run: Any) -> None:
    data = np.zeros(4, np.float32)
    run(sink(at(OUT, (I < 2).where(I + 2, INVALID)).store(ONE).end(I)), [data])
    assert data.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("run", BOTH)
def test_an_open_gate_on_an_invalid_index(run: Any) -> None:
    masked = (I < 2).where(I, INVALID)
    run(sink(at(OUT, masked, I < 2).store(ONE).end(I)), floats(4))
    kernel = sink(at(OUT, masked, I < 3).store(ONE).end(I))
    refused(lambda: run(kernel, floats(4)), "a store through INVALID with an open gate", "r0 = 2")


@pytest.mark.parametrize("run", BOTH)
def test_invalid_as_data(run: Any) -> None:
    value = (I < 3).where(I, INVALID).cast(f32)
    run(sink(at(OUT, I, I < 3).store(value).end(I)), floats(4))
    kernel = sink(at(OUT, I).store(value).end(I))
    refused(lambda: run(kernel, floats(4)), "INVALID is stored as a value", "STORE", "r0 = 3")


def test_invalid_as_a_result() -> None:
    refused(lambda: evaluate((I < 3).where(I, INVALID)), "the result is INVALID", "WHERE")


# -- what is masked off never fails ----------------------------------------------------------------


@pytest.mark.parametrize("run", BOTH)
def test_a_masked_off_lane_never_fails(run: Any) -> None:
    """Division by zero, elements outside, a negative shift, memory that was never written."""
    ok = I.eq(2)
    outside = pointer(1, 3).index(I * 100 - 198)
    quotient = ops.IDIV(num(12), I - (I.ne(2)).where(I, num(1)))
    shifted = ops.SHL(num(1), (I - 2) * ok.where(num(1), I - 5))
    wild = outside + quotient.cast(f32) + shifted.cast(f32) + pointer(2, 4).index(I * 2 - 4)
    kernel = sink(at(OUT, I).store(ok.where(wild, num(-1.0, f32))).end(I))
    unwritten = Memory.empty(f32, 4)
    unwritten.data[0] = 1000
    assert unwritten.written is not None
    unwritten.written[0] = True
    out = np.zeros(4, np.float32)
    run(kernel, [out, arange(3), unwritten])
    assert out.tolist() == [-1, -1, 2 + 12 + 1 + 1000, -1]
    gated = sink(at(OUT, I, ok).store(wild).end(I))
    run(gated, [out, arange(3), unwritten])
    refused(lambda: run(sink(at(OUT, I).store(wild).end(I)), [out, arange(3), unwritten]), "")


@pytest.mark.parametrize("run", BOTH)
def test_an_undefined_condition_counts_where_it_matters(run: Any) -> None:
    condition = ops.IDIV(num(4), I).eq(2)
    chosen = condition.where(ONE, num(0.0, f32))
    guarded = I.ne(0).where(chosen, num(9.0, f32))
    out = np.zeros(4, np.float32)
    run(sink(at(OUT, I).store(guarded).end(I)), [out])
    assert out.tolist() == [9, 0, 1, 0]
    refused(lambda: run(sink(at(OUT, I).store(chosen).end(I)), [out]), "IDIV by zero", "4 // r0")
    refused(lambda: run(sink(at(OUT, I, condition).store(ONE).end(I)), [out]), "IDIV by zero")
    address = sink(at(OUT, ops.MOD(num(3), I)).store(ONE).end(I))
    refused(lambda: run(address, [out]), "MOD by zero", "3 % r0", "used by STORE")


@pytest.mark.parametrize("op", [ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD])
def test_division_by_zero_of_an_index(op: ops.Op) -> None:
    refused(lambda: evaluate(op(num(5), I)), f"{op.name} by zero", "r0 = 0")
    small = num(5, i8)
    assert unwrapped(evaluate(op(small, I.cast(i8))))[0] == 0


@pytest.mark.parametrize("op", [ops.SHL, ops.SHR])
def test_a_negative_shift_of_an_index(op: ops.Op) -> None:
    refused(lambda: evaluate(op(num(5), I - 1)), "by a negative amount", "r0 = 0")


# -- variables, unknown ops ------------------------------------------------------------------------


@pytest.mark.parametrize("run", BOTH)
def test_variables(run: Any) -> None:
    n = UOp.variable("n", 0, 3)
    kernel = sink(at(OUT, n).store(ONE))
    run(kernel, floats(4), {"n": 3})
    refused(lambda: run(kernel, floats(4)), "the variable n has no value", "VARIABLE: n")
    refused(lambda: run(kernel, floats(4), {"n": 4}), "n = 4 is outside of its bounds", "n")
    refused(lambda: evaluate(UOp(ops.BIND, None, (n, num(7)))), "n = 7 is outside", "BIND")
    bound = UOp(ops.BIND, None, (n, num(2)))
    assert unwrapped(evaluate(bound, {}, {"n": 2})) == 2
    refused(lambda: evaluate(bound, {}, {"n": 1}), "n is bound to 2 and given as 1", "BIND")
    refused(lambda: evaluate(I, {I: 4}), "4 is given for RANGE: r0")


def test_an_op_that_is_not_evaluated() -> None:
    hole = UOp(ops.HOLE, None, (), "x")
    refused(lambda: evaluate(hole), "HOLE cannot be evaluated", "HOLE")
    flipped = UOp(ops.FLIP, None, (tensor(1, 4),), (0,)).index(I)
    kernel = sink(at(OUT, I).store(flipped).end(I))
    run_arrays(kernel, floats(4, 4))
    refused(lambda: run_kernel(kernel, floats(4, 4)), "FLIP cannot be evaluated", "FLIP")


def test_names_of_threads() -> None:
    kernel = sink(at(OUT, special("warp0", 2)).store(ONE))
    refused(lambda: run_kernel(kernel, floats(4)), "no index of blocks or threads", "SPECIAL")
    two = sink(at(OUT, special("thread0", 2) + special("thread0", 3)).store(ONE))
    refused(lambda: run_kernel(two, floats(4)), "thread0 has 2 values and 3", "SPECIAL")


def test_values_pointers_and_effects_are_distinguished() -> None:
    stored = tensor(0, 4) + 1.0
    kernel = sink(UOp(ops.STORE, None, (stored, ONE)))
    refused(lambda: run_arrays(kernel, floats(4)), "used as a pointer", "ADD")
    refused(lambda: evaluate(tensor(0, 4).index(I, I), {0: arange(4)}), "2 indices for a buffer")
    refused(lambda: evaluate(pointer(0, 4).index(I, I), {0: arange(4)}), "2 indices for a buffer")


def test_buffers_are_contiguous() -> None:
    kernel = sink(at(OUT, I).store(ONE).end(I))
    with pytest.raises(EvaluationError, match="not contiguous"):
        run_kernel(kernel, [np.zeros((4, 2), np.float32)[:, 0]])


def test_memory_of_another_size_of_elements() -> None:
    narrow = at(OUT, 0).cast(i8.pointer())
    kernel = sink(narrow.store(num(1, i8)))
    refused(lambda: run_kernel(kernel, floats(4)), "float32 memory is accessed as i8", "STORE")


def test_a_wmma_of_the_wrong_size() -> None:
    a = num(1.0, f32.vec(4))
    refused(lambda: evaluate(UOp(ops.WMMA, None, (a, a, a), ("x",))), "a WMMA of 4, 4 and 4")


def test_axes_unrolled_twice() -> None:
    lanes = UOp(ops.VCONST, index.vec(4), (), (0, 1, 2, 3))
    one = UOp(ops.UNROLL, None, (lanes,), ((0, 4),))
    two = UOp(ops.UNROLL, None, (lanes,), ((0, 2),))
    with pytest.raises(EvaluationError, match="axis 0 is unrolled twice"):
        evaluate(one + two.gep(0))
