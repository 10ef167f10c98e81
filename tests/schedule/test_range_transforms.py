"""Ranges of kernels: split, flattened, merged, shrunk; the evaluator sees no difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.base.dtypes import Space, f32, i32, index
from porism.evaluate import evaluate, run_arrays
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.levels import KERNEL, check
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import find, toposort
from porism.rules.index.normalize import division_count
from porism.schedule.kernel_split import split_kernels
from porism.schedule.loops.initial_symbolic import simplify_indices, simplify_symbolically
from porism.schedule.loops.loop_guards import shrink_ranges
from porism.schedule.loops.range_transforms import (
    MAX_EXTENT,
    divisor_chain,
    extent,
    flatten_ends,
    merge_ranges,
    split_ranges,
)
from porism.schedule.rangeify.rangeify import rangeify
from porism.tensor import primitive as p
from tests.evaluate.programs import Array, num, pointer, sink, tensor
from tests.evaluate.test_agreement import buffers_for, copies
from tests.graphs import examples, kernels, ranged_graphs, tensor_graphs
from tests.rewrite.test_preserves import same
from tests.rules.test_buffer_rules import data_for

Pass = Callable[[UOp], UOp]

PASSES: Mapping[str, Pass] = {
    "flatten": flatten_ends,
    "split": split_ranges,
    "symbolic": simplify_symbolically,
    "indices": simplify_indices,
    "shrink": shrink_ranges,
    "merge": merge_ranges,
}
STAGES = (
    flatten_ends,
    split_ranges,
    simplify_symbolically,
    shrink_ranges,
    merge_ranges,
    split_ranges,
    simplify_symbolically,
)


def finished(kernel: UOp) -> UOp:
    for stage in STAGES:
        kernel = stage(kernel)
    return kernel


def loop(size: int, axis: int, kind: Axis = Axis.LOOP) -> UOp:
    return UOp.range(size, axis, kind)


def total(size: int, axis: int) -> UOp:
    return UOp.range(size, axis, Axis.REDUCE)


def loops_of(kernel: UOp) -> list[UOp]:
    return list(find(kernel, lambda n: n.op is ops.RANGE))


def sizes(kernel: UOp) -> list[int | None]:
    ordered = sorted(loops_of(kernel), key=lambda r: r.arg[0])
    return [extent(r) for r in ordered]


def copied(place: UOp, source: UOp, *ranges: UOp) -> UOp:
    """p0[place] = p1[source] in some loops."""
    return sink(pointer(0, 64).index(place).store(pointer(1, 64).index(source)).end(*ranges))


def equal(before: UOp, after: UOp, buffers: list[Array]) -> bool:
    """Whether two kernels leave the same in all buffers."""
    old, new = copies(buffers), copies(buffers)
    with np.errstate(all="ignore"):
        run_arrays(before, old)
        run_arrays(after, new)
    return all(map(same, old, new))


def on_numbers(before: UOp, after: UOp) -> bool:
    """Whether two kernels write the same, given numbers that are all different."""
    actual = {
        n.arg: np.arange(n.dtype.size, dtype=n.dtype.element.numpy) * 2 + n.arg
        for n in toposort(before)
        if n.op is ops.PARAM
    }
    return equal(before, after, [actual[k] for k in range(len(actual))])


# -- random kernels --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_preserves_random_kernels(name: str) -> None:
    @given(kernels(), st.integers(0, 99))
    @examples(40)
    def run(kernel: UOp, seed: int) -> None:
        after = PASSES[name](kernel)
        check(after, KERNEL, name)
        assert equal(kernel, after, buffers_for(kernel, seed)), f"{show(kernel)}\n{show(after)}"

    run()


@given(ranged_graphs(), st.integers(0, 99))
@examples(40)
def test_symbolic_preserves_random_ranged_graphs(graph: UOp, seed: int) -> None:
    data = data_for(graph, seed)
    with np.errstate(all="ignore"):
        old, new = evaluate(graph, data), evaluate(simplify_symbolically(graph), data)
    assert all(map(same, old, new)), show(graph)


def kernels_of(graph: UOp) -> list[UOp]:
    return [call.kernel for call in split_kernels(rangeify(ops.SINK(graph)).sink, {})]


@given(tensor_graphs(types=(i32, f32)), st.integers(0, 99))
@examples(60)
def test_all_passes_preserve_the_kernels_of_random_tensors(graph: UOp, seed: int) -> None:
    for kernel in kernels_of(graph):
        inputs = buffers_for(kernel, seed)
        current = kernel
        for stage in STAGES:
            after = stage(current)
            check(after, KERNEL, stage.__name__)
            assert equal(current, after, inputs), f"{stage.__name__}: {show(current)}"
            current = after
        assert division_count(current) <= division_count(kernel)
        assert finished(current) is current


@st.composite
def views(draw: st.DrawFn) -> UOp:
    """Axes of a tensor split, put in another order, and joined in any way."""
    sizes = draw(st.lists(st.sampled_from((2, 3, 4, 6)), min_size=1, max_size=3))
    view = tensor(0, *sizes)
    for _ in range(draw(st.integers(1, 4))):
        rank = len(sizes)
        step = draw(st.sampled_from(("permute", "join", "split", "flip")))
        at = draw(st.integers(0, rank - 1))
        if step == "permute":
            order = draw(st.permutations(range(rank)))
            view, sizes = p.permute(view, tuple(order)), [sizes[a] for a in order]
        elif step == "flip":
            view = p.flip(view, (at,))
        elif step == "join" and at + 1 < rank:
            sizes = [*sizes[:at], sizes[at] * sizes[at + 1], *sizes[at + 2 :]]
            view = p.reshape(view, tuple(sizes))
        elif step == "split":
            parts = [n for n in range(2, sizes[at]) if sizes[at] % n == 0]
            if parts:
                part = draw(st.sampled_from(parts))
                sizes = [*sizes[:at], sizes[at] // part, part, *sizes[at + 1 :]]
                view = p.reshape(view, tuple(sizes))
    return view


@given(views())
@examples(80)
def test_views_of_whole_axes_need_no_division(view: UOp) -> None:
    (kernel,) = kernels_of(view)
    after = finished(kernel)
    assert on_numbers(kernel, after)
    assert division_count(after) == 0, show(after)


# -- no division is left ---------------------------------------------------------------------------


def heads_apart() -> UOp:
    return p.permute(p.reshape(tensor(0, 2, 8, 12), (2, 8, 3, 4)), (0, 2, 1, 3))


def heads_together() -> UOp:
    return p.reshape(p.permute(tensor(0, 2, 3, 8, 4), (0, 2, 1, 3)), (2, 8, 12))


def pixel_shuffle() -> UOp:
    parts = p.reshape(tensor(0, 1, 12, 5, 5), (1, 3, 2, 2, 5, 5))
    return p.reshape(p.permute(parts, (0, 1, 4, 2, 5, 3)), (1, 3, 10, 10))


def transposed() -> UOp:
    return p.reshape(p.permute(tensor(0, 4, 6), (1, 0)), (24,))


def three_axes() -> UOp:
    parts = p.reshape(tensor(0, 24), (2, 3, 4))
    return p.reshape(p.permute(parts, (2, 0, 1)), (6, 4))


def repeated() -> UOp:
    return p.reshape(p.expand(p.reshape(tensor(0, 4), (4, 1)), (4, 6)), (24,))


def tiled() -> UOp:
    return p.reshape(p.expand(p.reshape(tensor(0, 4), (1, 4)), (6, 4)), (24,))


def backwards() -> UOp:
    return p.flip(transposed(), (0,))


def a_part() -> UOp:
    return p.reshape(p.shrink(tensor(0, 5, 6), ((1, 4), (2, 6))), (12,))


def other_dims() -> UOp:
    return p.reshape(tensor(0, 4, 6), (3, 8))


def sum_of_columns() -> UOp:
    return p.reduce(p.reshape(p.permute(tensor(0, 4, 6), (1, 0)), (24,)), ops.ADD, (0,))


@pytest.mark.parametrize(
    "program",
    [
        heads_apart,
        heads_together,
        pixel_shuffle,
        transposed,
        three_axes,
        repeated,
        tiled,
        backwards,
        a_part,
        other_dims,
        sum_of_columns,
    ],
)
def test_no_division_is_left(program: Callable[[], UOp]) -> None:
    for kernel in kernels_of(program()):
        after = finished(kernel)
        assert division_count(after) == 0, show(after)
        assert on_numbers(kernel, after)


def test_an_elementwise_kernel_has_one_loop() -> None:
    (kernel,) = kernels_of(ops.EXP2(tensor(0, 4, 6, 5)))
    after = finished(kernel)
    r = loop(120, 0)
    assert after is sink(pointer(0, 120).index(r).store(ops.EXP2(pointer(1, 120).index(r))).end(r))


# -- split -----------------------------------------------------------------------------------------


def test_the_remainder_becomes_the_inner_range() -> None:
    """003.split and 004.3.1: r % 4 is not o * 4 + i, but i; all users change at once."""
    r = loop(12, 0)
    kernel = copied(r, r % 4 + r // 4 * 5, r)
    after = split_ranges(kernel)
    outer = ops.RANGE(num(3), arg=((0, 0), Axis.LOOP))
    inner = ops.RANGE(num(4), arg=((0, 1), Axis.LOOP))
    assert after is copied(outer * 4 + inner, inner + outer * 5, outer, inner)
    assert on_numbers(kernel, after)


def test_what_does_not_divide_is_not_split() -> None:
    r = loop(10, 0)
    kernel = copied(r, r % 4, r)
    assert split_ranges(kernel) is kernel


def test_several_divisors_make_several_parts() -> None:
    r = loop(24, 0)
    kernel = copied(r, r % 4 * 6 + r // 4 % 3 * 2 + r // 12, r)
    after = split_ranges(kernel)
    assert sizes(after) == [2, 3, 4]
    assert division_count(simplify_symbolically(after)) == 0
    assert on_numbers(kernel, after)


def test_the_choice_of_parts_does_not_depend_on_the_order() -> None:
    """4 and 6 do not fit together: what saves more is taken, then what is smaller."""
    assert divisor_chain({4: 1, 6: 1}) == divisor_chain({6: 1, 4: 1}) == (4,)
    assert divisor_chain({4: 1, 6: 2}) == divisor_chain({6: 2, 4: 1}) == (6,)
    r = loop(12, 0)
    one = copied(r, r % 4 * 6 + r % 6, r)
    other = copied(r, r % 6 + r % 4 * 6, r)
    assert sizes(split_ranges(one)) == sizes(split_ranges(other)) == [3, 4]


def test_a_division_that_stays_does_not_split() -> None:
    r = loop(12, 0)
    kernel = copied(r, (r + 1) % 4, r)
    assert split_ranges(kernel) is kernel


def test_dims_of_a_buffer_are_not_split() -> None:
    """The range of a BUFFERIZE is a dim of it: readers would have to divide."""
    r, s = loop(12, 0), loop(12, 1)
    row = ops.BUFFERIZE(pointer(1, 64).index(s % 4 * 3 + s // 4), s, arg=Space.LOCAL)
    kernel = sink(pointer(0, 64).index(r).store(row.index(r)).end(r))
    assert split_ranges(kernel) is kernel


def test_a_float_sum_is_added_up_in_the_same_order() -> None:
    r = total(12, 0)
    kernel = sink(pointer(0, 1).index(num(0)).store(
        pointer(1, 12).index(r % 4 * 3 + r // 4).reduce(ops.ADD, r)
    ))  # fmt: skip
    after = split_ranges(kernel)
    assert sizes(after) == [3, 4]
    data = np.asarray([1e8, 1, -1e8, 3, 1e-3, 7, 1e8, -1e8, 5, 0.1, 0.2, 0.3], np.float32)
    assert equal(kernel, after, [np.zeros(1, np.float32), data])


# -- merge -----------------------------------------------------------------------------------------


def test_neighbours_that_make_one_number_are_merged() -> None:
    """004.5.1"""
    i, j = loop(4, 0), loop(8, 1)
    assert merge_ranges(copied(i * 8 + j, i * 16 + j * 2, i, j)) is copied(
        loop(32, 0), loop(32, 0) * 2, loop(32, 0)
    )


def test_a_merge_that_would_divide_is_not_made() -> None:
    i, j = loop(4, 0), loop(8, 1)
    for source in (i, j, j * 4 + i, i * 9 + j):
        kernel = copied(i * 8 + j, source, i, j)
        assert merge_ranges(kernel) is kernel


def test_a_merge_may_take_a_division_along() -> None:
    i, j = loop(4, 0), loop(6, 1)
    kernel = copied(i * 6 + j, (i * 6 + j) // 5, i, j)
    after = merge_ranges(kernel)
    assert sizes(after) == [24]
    assert division_count(after) == 1
    assert on_numbers(kernel, after)


def test_a_merge_may_save_a_comparison() -> None:
    i, j = loop(4, 0), loop(6, 1)
    kernel = copied(i * 6 + j, ops.WHERE(i < 2, i * 6 + j, ops.INVALID(dtype=index)), i, j)
    after = merge_ranges(kernel)
    assert sizes(after) == [24]
    assert on_numbers(kernel, after)


def test_a_merge_that_would_add_a_division_is_taken_back() -> None:
    i, j = loop(4, 0), loop(6, 1)
    kernel = copied(i * 6 + j, guarded(i.ne(1), i * 6 + j), i, j)
    assert merge_ranges(kernel) is kernel


def test_a_range_that_a_word_cannot_count_is_not_made() -> None:
    """003.merge: 65536 * 65536 iterations would be none in 32 bits."""
    i, j = loop(65536, 0), loop(65536, 1)
    big = UOp(ops.PARAM, f32.pointer(size=1 << 32), (), 0)
    kernel = sink(big.index(i * 65536 + j).store(num(1.0, f32)).end(i, j))
    assert merge_ranges(kernel) is kernel
    j = loop(32767, 1)
    kernel = sink(big.index(i * 32767 + j).store(num(1.0, f32)).end(i, j))
    assert sizes(merge_ranges(kernel)) == [65536 * 32767]
    assert MAX_EXTENT == 2**31 - 1


def test_kinds_and_scopes_are_not_mixed() -> None:
    i, j = loop(4, 0, Axis.GLOBAL), loop(8, 1)
    kernel = copied(i * 8 + j, i * 8 + j, i, j)
    assert merge_ranges(kernel) is kernel
    i, k = total(4, 0), total(8, 1)
    inner = pointer(1, 64).index(i * 8 + k).reduce(ops.ADD, k)
    nested = sink(pointer(0, 1).index(num(0)).store(ops.MUL(inner, inner).reduce(ops.ADD, i)))
    assert merge_ranges(nested) is nested


def test_ranges_that_are_closed_together_are_merged() -> None:
    """Another sum is over i alone: i stays."""
    i, k = total(4, 0), total(8, 1)
    both = pointer(1, 32).index(i * 8 + k).reduce(ops.ADD, i, k)
    count = UOp(ops.REDUCE, None, (num(1.0, f32), i), ops.ADD)
    kernel = sink(pointer(0, 1).index(num(0)).store(ops.ADD(both, count)))
    assert merge_ranges(kernel) is kernel


def test_neighbours_in_one_sum_and_not_in_the_other_are_not_merged() -> None:
    i, j, k = total(3, 0), total(5, 1), total(4, 2)
    first = pointer(1, 12).index(i * 4 + k)
    second = ops.MUL(first, pointer(2, 5).index(j))
    both = ops.ADD(first.reduce(ops.ADD, i, k), second.reduce(ops.ADD, i, j, k))
    kernel = sink(pointer(0, 1).index(num(0)).store(both))
    assert merge_ranges(kernel) is kernel


def test_only_neighbours_of_a_float_sum_are_merged() -> None:
    """003.merge: i and k would be one number, but j is between them: the order would change."""
    i, j, k = total(3, 0), total(5, 1), total(4, 2)
    value = ops.MUL(pointer(1, 12).index(i * 4 + k), pointer(2, 5).index(j))
    kernel = sink(pointer(0, 1).index(num(0)).store(value.reduce(ops.ADD, i, j, k)))
    assert merge_ranges(kernel) is kernel
    value = pointer(1, 60).index(i * 20 + j * 4 + k)
    kernel = sink(pointer(0, 1).index(num(0)).store(value.reduce(ops.ADD, i, j, k)))
    after = merge_ranges(kernel)
    assert sizes(after) == [60]
    data = np.random.default_rng(0).standard_normal(60).astype(np.float32)
    assert equal(kernel, after, [np.zeros(1, np.float32), data])


def test_a_loop_level_is_not_lost() -> None:
    """A sum of a row is computed once a row: its loop does not become a loop over elements."""
    i, j, k = loop(4, 0), loop(6, 1), total(6, 2)
    row = pointer(1, 64).index(i * 6 + k).reduce(ops.ADD, k)
    value = ops.ADD(pointer(1, 64).index(i * 6 + j), row)
    kernel = sink(pointer(0, 24).index(i * 6 + j).store(value).end(i, j))
    assert merge_ranges(kernel) is kernel
    guarded = pointer(1, 64).index(ops.WHERE(i < 2, k, ops.INVALID(dtype=index)))
    value = ops.ADD(pointer(1, 64).index(i * 6 + j), guarded.reduce(ops.ADD, k))
    kernel = sink(pointer(0, 24).index(i * 6 + j).store(value).end(i, j))
    assert merge_ranges(kernel) is kernel


# -- flatten ---------------------------------------------------------------------------------------


def test_an_end_of_ends_is_one() -> None:
    """003.flatten: the loops nest as they did."""
    i, j, k = loop(2, 0), loop(3, 1), loop(4, 2)
    store = pointer(0, 24).index(i * 12 + j * 4 + k).store(num(1.0, f32))
    assert flatten_ends(sink(store.end(k).end(j).end(i))) is sink(store.end(i, j, k))


def test_loops_in_another_order_than_their_axes_stay() -> None:
    """The last store wins: it is that of i = 1, j = 2 here, and of j = 2, i = 1 there."""
    i, j = loop(2, 0), loop(3, 1)
    store = pointer(0, 1).index(num(0)).store((j + i * 3).cast(f32))
    kernel = sink(store.end(i).end(j))
    assert flatten_ends(kernel) is kernel


def test_an_end_that_something_else_waits_for_stays() -> None:
    i, j = loop(2, 0), loop(3, 1)
    place = pointer(0, 6)
    inner = place.index(i * 3 + j).store(num(1.0, f32)).end(j)
    read = place.after(inner).index(num(0))
    other = pointer(1, 2).index(i).store(read)
    kernel = sink(inner.end(i), other.end(i))
    assert flatten_ends(kernel) is kernel


# -- shrink ----------------------------------------------------------------------------------------


def guarded(condition: UOp, at: UOp) -> UOp:
    return ops.WHERE(condition, at, ops.INVALID(dtype=index))


@pytest.mark.parametrize(
    ("low", "high", "size"),
    [(0, 5, 5), (2, 8, 6), (2, 5, 3), (0, 8, 8), (-1, 9, 8)],
)
def test_a_store_that_is_masked_off_is_not_run(low: int, high: int, size: int) -> None:
    r = loop(8, 0)
    place = pointer(0, 64).index(guarded((r < high) & (r >= low), r))
    kernel = sink(place.store(pointer(1, 64).index(r)).end(r))
    after = simplify_symbolically(shrink_ranges(kernel))
    assert sizes(after) == [size]
    assert on_numbers(kernel, after)
    assert not any(n.op is ops.INVALID for n in toposort(after))


@pytest.mark.parametrize("op", [ops.ADD, ops.MAX, ops.MIN, ops.MUL], ids=lambda op: op.name)
def test_iterations_that_add_nothing_are_not_run(op: Any) -> None:
    start = {ops.ADD: 0.0, ops.MAX: -np.inf, ops.MIN: np.inf, ops.MUL: 1.0}[op]
    r = total(8, 0)
    value = (r < 5).where(pointer(1, 8).index(guarded(r < 5, r)), num(start, f32))
    kernel = sink(pointer(0, 1).index(num(0)).store(value.reduce(op, r)))
    after = simplify_symbolically(shrink_ranges(kernel))
    assert sizes(after) == [5]
    assert on_numbers(kernel, after)


def test_a_masked_load_is_nothing_to_a_sum_only() -> None:
    r = total(8, 0)
    element = pointer(1, 8).index(guarded(r < 5, r))
    for op, size in ((ops.ADD, 5), (ops.MAX, 8), (ops.MUL, 8)):
        kernel = sink(pointer(0, 1).index(num(0)).store(element.reduce(op, r)))
        assert sizes(shrink_ranges(kernel)) == [size]


def test_zero_times_something_is_nothing_only_to_integers() -> None:
    """0 * inf is NaN."""
    for dtype, size in ((f32, 8), (i32, 5)):
        r = total(8, 0)
        masked = pointer(1, 8, dtype).index(guarded(r < 5, r))
        product = ops.MUL(masked, pointer(2, 8, dtype).index(r))
        kernel = sink(pointer(0, 1, dtype).index(num(0)).store(product.reduce(ops.ADD, r)))
        assert sizes(shrink_ranges(kernel)) == [size]
    buffers: list[Array] = [np.zeros(1), np.ones(8), np.full(8, np.inf)]
    r = total(8, 0)
    product = ops.MUL(pointer(1, 8).index(guarded(r < 5, r)), pointer(2, 8).index(r))
    kernel = sink(pointer(0, 1).index(num(0)).store(product.reduce(ops.ADD, r)))
    assert equal(kernel, shrink_ranges(kernel), [b.astype(np.float32) for b in buffers])


def test_a_bound_by_another_range() -> None:
    """r + s < 5 holds for no s where r is 5 or more."""
    r, s = loop(8, 0), loop(3, 1)
    place = pointer(0, 64).index(guarded(r + s < 5, r * 3 + s))
    kernel = sink(place.store(num(1.0, f32)).end(r, s))
    after = shrink_ranges(kernel)
    assert sizes(after) == [5, 3]
    assert on_numbers(kernel, after)


def test_all_sums_count() -> None:
    r = total(8, 0)
    first = pointer(1, 8).index(guarded(r < 6, r)).reduce(ops.ADD, r)
    second = pointer(2, 8).index(guarded(r < 5, r)).reduce(ops.ADD, r)
    for a, b in ((first, second), (second, first)):
        kernel = sink(pointer(0, 1).index(num(0)).store(ops.SUB(a, b)))
        after = shrink_ranges(kernel)
        assert sizes(after) == [6]
        assert on_numbers(kernel, after)


def test_all_stores_count() -> None:
    r = loop(8, 0)
    first = pointer(0, 8).index(guarded(r < 5, r)).store(num(1.0, f32))
    second = pointer(1, 8).index(guarded(r >= 3, r)).store(num(2.0, f32))
    group = ops.GROUP(first, second)
    kernel = sink(group.end(r))
    assert shrink_ranges(kernel) is kernel
    other = pointer(1, 8).index(guarded(r < 6, r)).store(num(2.0, f32))
    after = shrink_ranges(sink(ops.GROUP(first, other).end(r)))
    assert sizes(after) == [6]


# -- symbolic --------------------------------------------------------------------------------------


def test_an_index_is_simplified_under_its_own_mask() -> None:
    r = loop(24, 0)
    small, whole = copied(r, guarded(r < 6, r % 6), r), copied(r, r % 6, r)
    assert division_count(simplify_indices(small)) == 0
    assert division_count(simplify_indices(whole)) == 1
    assert on_numbers(small, simplify_indices(small))


def test_an_access_of_no_element_is_none() -> None:
    r = loop(24, 0)
    never = guarded(r // 24 > 0, r)
    read = simplify_symbolically(copied(r, never, r))
    assert read is sink(pointer(0, 64).index(r).store(num(0.0, f32)).end(r))
    written = simplify_symbolically(copied(never, r, r))
    assert not any(n.op is ops.STORE for n in toposort(written))
    check(written, KERNEL)


def test_a_kernel_without_divisions_is_left_alone() -> None:
    r = loop(12, 0)
    kernel = copied(r, r * 2, r)
    assert simplify_indices(kernel) is kernel
    assert split_ranges(kernel) is kernel
