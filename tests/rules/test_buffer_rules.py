"""Buffers: what is read of them, and what becomes of those that are not worth their memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.base.dtypes import Space, f32, index
from porism.base.settings import settings
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.node_shape import shape
from porism.ir.levels import RANGED, check
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import find, toposort
from porism.rewrite.graph_rewrite import rewrite
from porism.rules.buffers.buffer_rules import (
    BUFFERS,
    Access,
    access_of,
    copied_buffer,
    inline_buffer,
)
from porism.rules.rule_sets import SYMBOLIC
from porism.schedule.buffer_removal import RemainingBuffers, remove_buffers
from porism.schedule.rangeify.rangeify import rangeify
from porism.tensor import primitive as p
from tests.evaluate.programs import Array, num, tensor
from tests.graphs import examples, parameters, ranged_graphs, tensor_graphs
from tests.rewrite.test_preserves import same


def loop(size: int, axis: int, kind: Axis = Axis.LOOP) -> UOp:
    return UOp.range(size, axis, kind)


def stored(value: UOp, *ranges: UOp, space: Space = Space.GLOBAL) -> UOp:
    return ops.BUFFERIZE(value, *ranges, arg=space)


def guarded(condition: UOp, at: UOp) -> UOp:
    return ops.WHERE(condition, at, ops.INVALID(dtype=index))


def data_for(graph: UOp, seed: int = 0) -> dict[Any, Any]:
    """Random contents for every parameter of a graph with dims."""
    rng = np.random.default_rng(seed)
    actual: dict[Any, Any] = {}
    for node in parameters(graph):
        dims = [int(d.vmax) for d in shape(node)]
        if node.dtype.is_float:
            actual[node.arg] = rng.normal(size=dims).astype(node.dtype.numpy)
        else:
            low, high = (0, 2) if node.dtype.bits == 1 else (max(int(node.dtype.min), -9), 9)
            actual[node.arg] = rng.integers(low, high, dims).astype(node.dtype.numpy)
    return actual


def results(graph: UOp, data: dict[Any, Any]) -> list[Array]:
    with np.errstate(all="ignore"):
        return evaluate(graph, data)


def equal(before: UOp, after: UOp, data: dict[Any, Any] | None = None) -> bool:
    data = data_for(before) if data is None else data
    old, new = results(before, data), results(after, data)
    return len(old) == len(new) and all(map(same, old, new))


def buffers_of(graph: UOp, space: Space = Space.GLOBAL) -> list[UOp]:
    return list(find(graph, lambda n: n.op is ops.BUFFERIZE and n.arg is space))


def removed(graph: UOp, keep: Sequence[UOp] = (), **values: int) -> RemainingBuffers:
    with settings.override(**values):
        after = remove_buffers(graph, keep)
    check(after.sink, RANGED, "remove buffers")
    assert equal(graph, after.sink)
    return after


# -- random graphs ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("level", range(4))
def test_removing_buffers_preserves_random_graphs(level: int) -> None:
    @given(ranged_graphs(), st.integers(0, 99))
    @examples(40)
    def run(graph: UOp, seed: int) -> None:
        sink = ops.SINK(graph)
        with settings.override(buffer_level=level, buffer_ratio=1):
            after = remove_buffers(sink)
        check(after.sink, RANGED)
        data = data_for(graph, seed)
        assert equal(sink, after.sink, data), f"{show(sink)}\n{show(after.sink)}"
        assert len(buffers_of(after.sink)) <= len(buffers_of(sink))
        for old, new in after.replacements.items():
            assert old.op is new.op is ops.BUFFERIZE
        (output,) = after.sink.src
        assert shape(output) == shape(graph)

    run()


@given(tensor_graphs(), st.integers(0, 99), st.integers(0, 3))
@examples(60)
def test_removing_buffers_preserves_random_tensors(graph: UOp, seed: int, level: int) -> None:
    # small kernels, so that there are some to be removed
    with settings.override(kernel_nodes=2, buffer_level=level, buffer_ratio=1):
        sink = rangeify(ops.SINK(graph)).sink
        after = remove_buffers(sink).sink
        again = remove_buffers(after).sink
    data = data_for(graph, seed)
    assert equal(sink, after, data), f"{show(sink)}\n{show(after)}"
    assert equal(sink, again, data)


@given(ranged_graphs(), st.integers(0, 99))
@examples(40)
def test_the_rules_preserve_random_graphs(graph: UOp, seed: int) -> None:
    local = ops.SINK(_inside(graph))
    after = rewrite(local, BUFFERS)
    assert equal(local, after, data_for(graph, seed))


def _inside(graph: UOp) -> UOp:
    """The graph with all buffers but the output in the memory of a kernel."""
    new: dict[UOp, UOp] = {}
    for node in toposort(graph):
        src = tuple(new[s] for s in node.src)
        arg = Space.LOCAL if node.op is ops.BUFFERIZE and node is not graph else node.arg
        new[node] = UOp(node.op, node.dtype_given, src, arg)
    return new[graph]


# -- constants -------------------------------------------------------------------------------------


def test_padding_around_ones_is_zero() -> None:
    """003.buf.2: ones((3,)).pad((0, 1)) is not all ones."""
    r, s = loop(4, 0), loop(3, 1)
    ones = stored(num(1.0, f32), s)
    graph = ops.SINK(stored(ones.index(guarded(r < 3, r)), r))
    for after in (rewrite(graph, BUFFERS), remove_buffers(graph).sink):
        assert len(buffers_of(after)) == 1
        np.testing.assert_array_equal(results(after, {})[0], [1, 1, 1, 0])


def test_an_output_that_is_constant_is_written() -> None:
    """003.buf.1: there must be something that writes it."""
    graph = ops.SINK(stored(num(1.0, f32), loop(3, 0)))
    assert rewrite(graph, BUFFERS) is graph
    assert remove_buffers(graph).sink is graph


# -- elements --------------------------------------------------------------------------------------


def test_a_value_read_in_its_own_iteration_is_not_kept() -> None:
    """003.buf.3: in the same order, from the memory of the same kernel."""
    r, s = loop(3, 0), loop(3, 1)
    value = tensor(0, 3, 3).index(r, s)
    kept = stored(value, r, s, space=Space.LOCAL)
    assert rewrite(kept.index(r, s), BUFFERS) is value
    assert rewrite(kept.index(s, r), BUFFERS) is kept.index(s, r)
    other = stored(value, r, s)
    assert rewrite(other.index(r, s), BUFFERS) is other.index(r, s)


def test_a_copy_is_what_it_copies() -> None:
    """003.buf.4: only in the same memory and of the same layout."""
    r, s, i, j = loop(3, 0), loop(2, 1), loop(3, 2), loop(2, 3)
    value = ops.EXP2(tensor(0, 3, 2).index(r, s))
    inner = stored(value, r, s, space=Space.LOCAL)
    assert copied_buffer(stored(inner.index(i, j), i, j, space=Space.LOCAL)) is inner
    assert copied_buffer(stored(inner.index(i, j), j, i, space=Space.LOCAL)) is None
    assert copied_buffer(stored(inner.index(i, j), i, j)) is None
    longer = loop(4, 2)
    assert copied_buffer(stored(inner.index(longer, j), longer, j, space=Space.LOCAL)) is None


def test_copies_in_memory() -> None:
    r, s, t = loop(3, 0), loop(3, 1), loop(3, 2)
    costly = tensor(0, 3, 9).index(r, loop(9, 8, Axis.REDUCE)).reduce(
        ops.ADD, loop(9, 8, Axis.REDUCE)
    )  # fmt: skip
    first = stored(costly, r)
    copy = stored(first.index(s), s)
    reader = stored(copy.index(t) + copy.index(num(2) - t), t)
    after = removed(ops.SINK(reader))
    assert len(buffers_of(after.sink)) == 2
    # both are outputs: two buffers, or who changes one changes the other
    assert removed(ops.SINK(first, copy)).sink is ops.SINK(first, copy)
    # a copy of what nobody else reads is computed at once
    assert len(buffers_of(removed(ops.SINK(copy)).sink)) == 1
    assert removed(ops.SINK(copy), keep=[first]).sink is ops.SINK(copy)
    # but not twice
    other = stored(ops.SQRT(first.index(s)), s)
    assert removed(ops.SINK(copy, other)).sink is ops.SINK(copy, other)


# -- inlining --------------------------------------------------------------------------------------


def test_a_value_at_other_indices() -> None:
    r, i = loop(4, 0), loop(2, 1)
    x = tensor(0, 4)
    kept = stored(ops.EXP2(x.index(r)), r)
    assert inline_buffer(kept, Access((i * 2,), None)) is ops.EXP2(x.index(i * 2))


def test_what_is_not_wanted_is_not_loaded() -> None:
    """A value that is chosen by a mask is loaded under it, not only selected."""
    r, i = loop(4, 0), loop(8, 1)
    x = tensor(0, 4)
    kept = stored(ops.EXP2(x.index(r)), r)
    read = access_of(kept.index(guarded(i < 4, i)))
    assert read is not None
    actual = inline_buffer(kept, read)
    assert actual is (i < 4).where(ops.EXP2(x.index(guarded(i < 4, i))), 0)


def test_a_range_of_the_same_name_is_not_caught() -> None:
    """The sum over k is not over the k of the reader."""
    r, k = loop(4, 0), loop(4, 1, Axis.REDUCE)
    kept = stored(tensor(0, 4, 4).index(r, k).reduce(ops.ADD, k), r)
    assert inline_buffer(kept, Access((k,), None)) is None
    graph = ops.SINK(stored(kept.index(k).reduce(ops.ADD, k)))
    with settings.override(buffer_level=3, buffer_ratio=1):
        assert equal(graph, remove_buffers(graph).sink)


# -- the tree --------------------------------------------------------------------------------------


def pipeline(value: UOp, r: UOp, *, times: int = 1) -> tuple[UOp, UOp]:
    """A value stored for a range, and an output that reads it so many times."""
    kept = stored(value, r)
    s, t = loop(int(r.vmax) + 1, 20), loop(times, 21)
    loops = (s,) if times == 1 else (t, s)
    return kept, ops.SINK(stored(ops.SQRT(kept.index(s)), *loops))


def test_what_is_cheap_is_computed_again() -> None:
    r = loop(8, 0)
    kept, graph = pipeline(-tensor(0, 8).index(r), r, times=4)
    assert len(buffers_of(removed(graph).sink)) == 1
    assert removed(graph, keep=[kept]).sink is graph
    assert removed(graph, buffer_level=0).sink is graph


def test_what_is_dear_or_loads_more_stays() -> None:
    r = loop(8, 0)
    x = tensor(0, 8).index(r)
    _, graph = pipeline(ops.EXP2(ops.SIN(x)), r, times=4)
    assert removed(graph).sink is graph
    assert len(buffers_of(removed(graph, buffer_level=2).sink)) == 1
    _, graph = pipeline(x + tensor(1, 8).index(r), r)
    assert removed(graph).sink is graph
    assert len(buffers_of(removed(graph, buffer_level=2).sink)) == 1


def test_a_kernel_reads_so_many_buffers() -> None:
    r = loop(8, 0)
    value = tensor(0, 8).index(r) + tensor(1, 8).index(r) + tensor(2, 8).index(r)
    _, graph = pipeline(value, r)
    assert removed(graph, buffer_level=2, kernel_buffers=2).sink is graph
    assert len(buffers_of(removed(graph, buffer_level=2, kernel_buffers=4).sink)) == 1


def test_reductions_are_stored_unless_they_are_large() -> None:
    r, s, k = loop(8, 0), loop(8, 1), loop(2, 2, Axis.REDUCE)
    product = tensor(0, 8, 2).index(r, k) * tensor(1, 8, 2).index(s, k)
    kept = stored(product.reduce(ops.ADD, k), r, s)
    i, j = loop(8, 3), loop(8, 4)
    graph = ops.SINK(stored(ops.SQRT(kept.index(i, j)) + kept.index(j, i), i, j))
    assert removed(graph).sink is graph
    assert removed(graph, buffer_level=2).sink is graph
    assert removed(graph, buffer_level=3, buffer_ratio=10).sink is graph
    assert len(buffers_of(removed(graph, buffer_level=3, buffer_ratio=2).sink)) == 1


def test_a_reduction_does_not_repeat_what_was_computed() -> None:
    """The seed's argmax(-x): a negation is not computed in each iteration of every row."""
    r, i, k = loop(8, 0), loop(4, 1), loop(8, 2, Axis.REDUCE)
    weights = tensor(1, 4, 8).index(i, k)
    for value, count in ((ops.SIN(tensor(0, 8).index(r)), 2), (tensor(0, 8).index(r), 1)):
        kept = stored(value, r)
        used = ops.MUL(kept.index((k + i) % 8), weights)
        graph = ops.SINK(stored(used.reduce(ops.ADD, k), i))
        assert len(buffers_of(removed(graph, buffer_level=2).sink)) == count


def test_what_is_overwritten_later_is_read_before() -> None:
    """A value that reads a buffer which is assigned to stays: its reader may come after that."""
    r, s = loop(4, 0), loop(4, 1)
    x = tensor(0, 4)
    kept = stored(x.index(r), r)
    out = stored(kept.index(s), s)
    graph = ops.SINK(out, ops.ASSIGN(x, out))
    assert remove_buffers(graph).sink is graph


# -- axes ------------------------------------------------------------------------------------------


def test_an_axis_without_a_part_in_the_value_is_dropped() -> None:
    """003.deadaxis, with and without a mask."""
    r, s, k = loop(3, 0), loop(4, 1), loop(9, 2, Axis.REDUCE)
    i, j = loop(3, 3), loop(4, 4)
    kept = stored(tensor(0, 3, 9).index(r, k).reduce(ops.ADD, k), r, s)
    for at in (i, guarded(i < 2, i)):
        graph = ops.SINK(stored(ops.SQRT(kept.index(at, j)), i, j))
        after = removed(graph)
        assert sorted(len(b.src) - 1 for b in buffers_of(after.sink)) == [1, 2]
        (narrow,) = (b for b in buffers_of(after.sink) if len(b.src) == 2)
        assert after.replacements[kept] is narrow


def test_one_element_is_still_stored() -> None:
    """The scalar case: a BUFFERIZE of no ranges."""
    r, s, k = loop(3, 0), loop(4, 1), loop(9, 2, Axis.REDUCE)
    i = loop(3, 3)
    kept = stored(tensor(0, 9).index(k).reduce(ops.ADD, k), r, s)
    graph = ops.SINK(stored(ops.SQRT(kept.index(guarded(i < 2, i), num(2))), i))
    after = removed(graph)
    assert sorted(len(b.src) - 1 for b in buffers_of(after.sink)) == [0, 1]


def test_an_output_keeps_its_shape() -> None:
    r, s = loop(3, 0), loop(4, 1)
    out = stored(tensor(0, 3).index(r), r, s)
    i = loop(3, 2)
    other = stored(ops.SQRT(out.index(i, num(1))), i)
    after = removed(ops.SINK(out, other))
    assert after.sink.src[0] is out


def test_an_axis_that_is_read_at_one_place() -> None:
    """003.deadaxis: the value is that of compute at 2, and only if nobody reads another place."""
    r, s, k = loop(3, 0), loop(4, 1), loop(9, 2, Axis.REDUCE)
    i = loop(3, 3)
    kept = stored(tensor(0, 3, 4, 9).index(r, s, k).reduce(ops.ADD, k), r, s)
    once = ops.SINK(stored(kept.index(i, num(2)) * kept.index(num(2) - i, num(2)), i))
    after = removed(once)
    assert sorted(len(b.src) - 1 for b in buffers_of(after.sink)) == [1, 1]
    twice = ops.SINK(stored(kept.index(i, num(2)) * kept.index(i, num(1)), i))
    assert removed(twice).sink is twice


# -- after rangeify --------------------------------------------------------------------------------


def test_a_value_that_became_cheap_is_not_stored() -> None:
    """A sum over one iteration is no sum once it is simplified."""
    r, k = loop(8, 0), loop(1, 1, Axis.REDUCE)
    total = UOp(ops.REDUCE, None, (tensor(0, 8).index(r), k), ops.ADD)
    _, graph = pipeline(total, r, times=4)
    assert removed(graph).sink is graph
    after = removed(rewrite(graph, SYMBOLIC)).sink
    assert len(buffers_of(after)) == 1
    assert equal(graph, after)


def test_buffers_of_a_program() -> None:
    """The product, which many elements share, stays; the axis of one element that it had goes."""
    a, b = tensor(0, 8, 32), tensor(1, 32, 8)
    left = p.expand(p.reshape(a, (8, 1, 32)), (8, 8, 32))
    right = p.expand(p.reshape(p.permute(b, (1, 0)), (1, 8, 32)), (8, 8, 32))
    product = p.reshape(p.reduce(ops.MUL(left, right), ops.ADD, (2,)), (8, 8))
    again = p.expand(p.reshape(product, (8, 8, 1)), (8, 8, 64))
    sink = rangeify(ops.SINK(p.reduce(ops.SIN(p.permute(again, (1, 2, 0))), ops.ADD, (2,)))).sink
    after = removed(sink)
    assert [len(b.src) - 1 for b in buffers_of(sink)] == [3, 3]
    assert [len(b.src) - 1 for b in buffers_of(after.sink)] == [2, 3]


def test_a_graph_without_reads_is_left_alone() -> None:
    graph = rangeify(ops.SINK(ops.EXP2(tensor(0, 4, 4)))).sink
    assert remove_buffers(graph).sink is graph
