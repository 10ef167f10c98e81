"""The lowering of `index`: widths at their edges, gates, errors, and random kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, boolean, f32, i8, i32, i64, index, u64
from porism.base.errors import EvaluationError, PorismError
from porism.evaluate import evaluate, run_arrays, run_kernel
from porism.ir import levels, ops
from porism.ir.axis import Axis
from porism.ir.node import UOp, raw
from porism.ir.traversal import rebuild, toposort
from porism.prove.structure_rules import same_results
from porism.rewrite.construction import install
from porism.rewrite.graph_rewrite import normalize
from porism.rewrite.rewrite_trace import Trace
from porism.rewrite.rule import RuleSet
from porism.rules.addresses.access_gates import masks_to_gates
from porism.rules.addresses.index_dtype import (
    INDEX_DTYPE,
    lower_by_rules,
    lower_index_dtype,
    lower_to_i32,
)
from porism.rules.rule_sets import ALGEBRA, EVERYTHING
from tests import graphs
from tests.loops import Loops, Target

TOP = 1 << 31


def number(value: int, dtype: DType = index) -> UOp:
    return UOp.const(dtype, value)


def variable(high: int | None, low: int | None = 0, name: str = "n") -> UOp:
    return UOp.variable(name, low, high)


def memory(place: int = 0, size: int = -1, dtype: DType = f32) -> UOp:
    return UOp(ops.PARAM, dtype.pointer(size=size), (), place)


def lowered(value: UOp) -> UOp:
    """What becomes of a value."""
    (result,) = lower_index_dtype(UOp(ops.SINK, None, (value,))).src
    return result


def at(base: UOp, *sources: UOp) -> UOp:
    return UOp(ops.INDEX, base.dtype, (base, *sources))


def masked(condition: UOp, value: UOp) -> UOp:
    return UOp(ops.WHERE, None, (condition, value, UOp(ops.INVALID, value.dtype)))


def casts(root: UOp) -> list[UOp]:
    return [node for node in toposort(root) if node.op is ops.CAST]


# -- widths at their edges -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, TOP - 1, i32),
        (0, TOP, i64),
        (-TOP, 0, i32),
        (-TOP - 1, 0, i64),
        (0, (1 << 63) - 1, i64),
        (-(1 << 63), 0, i64),
    ],
)
def test_a_variable_has_the_width_of_its_bounds(low: int, high: int, dtype: DType) -> None:
    """000.5.P1 and 000.5.sel."""
    actual = lowered(variable(high, low))
    assert actual.op is ops.VARIABLE
    assert actual.dtype is dtype
    assert actual.arg == ("n", low, high)


@pytest.mark.parametrize(
    ("value", "dtype"), [(TOP - 1, i32), (TOP, i64), (-TOP, i32), (-TOP - 1, i64)]
)
def test_a_constant_has_its_own_width(value: int, dtype: DType) -> None:
    assert lowered(number(value)) is number(value, dtype)
    lanes = UOp(ops.VCONST, index.vec(2), (), (0, value))
    assert lowered(lanes).dtype is dtype.vec(2)


def test_a_constant_takes_the_width_beside_it() -> None:
    actual = lowered(variable(TOP) + 1)
    assert actual.dtype is i64
    assert actual.src[1] is number(1, i64)
    assert not casts(actual)


def test_the_result_decides_too() -> None:
    n = variable(TOP - 1)
    assert lowered(n * 1).dtype is i32
    actual = lowered(n + 1)
    assert actual.dtype is i64
    assert [node.src[0].dtype for node in casts(actual)] == [i32]
    assert lowered(-variable(0, -TOP)).dtype is i64


def test_an_intermediate_decides_too() -> None:
    """000.5.sel: the remainder is small, what is divided is not."""
    n, m = variable(1 << 20), variable(1 << 20, name="m")
    actual = lowered((n * m) % 7)
    assert actual.op is ops.MOD
    assert actual.dtype is i64
    assert actual.src[0].dtype is i64
    assert all(node.dtype is i32 for node in toposort(actual) if node.op is ops.VARIABLE)
    further = lowered((n * m) % 7 + n)  # small from here on
    assert further.dtype is i32
    product = UOp(ops.MULACC, None, (n, m, -(n * m)))
    assert lowered(product).dtype is i64


def test_operands_decide_too() -> None:
    """000.5.P2a: the quotient fits i32, the dividend does not."""
    assert lowered(variable(1 << 40) // (1 << 20)).dtype is i64
    assert lowered(variable(1 << 40) < 5).src[0].dtype is i64
    assert lowered(variable(TOP - 1) < variable(TOP, name="m")).src[0].dtype is i64
    assert lowered(variable(TOP - 1) < variable(7, name="m")).src[0].dtype is i32


def test_a_choice_has_the_width_of_both_branches() -> None:
    p = UOp(ops.PARAM, boolean, (), 0)
    actual = lowered(p.where(variable(9), variable(TOP, name="m")))
    assert actual.op is ops.WHERE
    assert actual.dtype is i64
    assert actual.src[1].op is ops.CAST


@pytest.mark.parametrize(("end", "dtype"), [(TOP - 1, i32), (TOP, i64), (1 << 32, i64)])
def test_a_range_and_a_thread_hold_their_end(end: int, dtype: DType) -> None:
    """000.5.P2c: a grid of 2^32 threads has no i32 index."""
    assert lowered(UOp.range(end, 0)).dtype is dtype
    assert lowered(UOp(ops.SPECIAL, None, (number(end),), "block0")).dtype is dtype


def test_lanes_share_a_width() -> None:
    lanes = UOp(ops.VECTORIZE, None, (variable(9), variable(TOP, name="m"), number(3)))
    actual = lowered(lanes)
    assert actual.dtype is i64.vec(3)
    assert actual.src[2] is number(3, i64)
    assert lowered(UOp(ops.GEP, None, (lanes,), (0,))).dtype.element in (i32, i64)


def test_a_bound_variable_holds_its_value() -> None:
    """000.5.P1: and the bounds of a variable are enforced where it is bound."""
    value = UOp(ops.CAST, index, (UOp(ops.PARAM, i32, (), 0),))
    actual = lowered(UOp(ops.BIND, None, (variable(9), value)))
    assert actual.op is ops.BIND
    assert actual.dtype is i32
    assert actual.src[1].op is ops.PARAM
    wide = UOp(ops.BIND, None, (variable(9), value + value))
    assert lowered(wide).dtype is i64
    for graph in (wide, lowered(wide)):
        assert evaluate(graph, {0: np.int32(4)}) == [8]
        with pytest.raises(EvaluationError, match="n = 10 is outside"):
            evaluate(graph, {0: np.int32(5)})


def test_a_sum_over_a_range_has_the_width_of_the_whole() -> None:
    k = UOp.range(1 << 16, 0, Axis.REDUCE)
    actual = lowered(k.reduce(ops.ADD, k))
    assert actual.dtype is i64
    assert actual.src[1].op is ops.RANGE
    assert actual.src[1].dtype is i32


# -- casts -----------------------------------------------------------------------------------------


def test_conversions_are_not_chained() -> None:
    k = UOp(ops.PARAM, i8, (), 0)
    for via in (i32, i64, index):
        value = UOp(ops.CAST, index, (UOp(ops.CAST, via, (k,)),))
        assert lowered(UOp(ops.CAST, i32, (value,))) is k.cast(i32)
        assert lowered(UOp(ops.CAST, i8, (value,))) is k
        assert lowered(UOp(ops.CAST, f32, (value,))) is k.cast(f32)
        assert [node.src[0] for node in casts(lowered(value + 1))] == [k]


def test_a_conversion_that_loses_something_stays() -> None:
    word = UOp(ops.PARAM, i32, (), 0)
    value = word.cast(i8).cast(index)
    assert lowered(UOp(ops.CAST, i32, (value,))) is word.cast(i8).cast(i32)


def test_unsigned_and_truth_values_are_indices_too() -> None:
    word = UOp(ops.PARAM, dtypes.u32, (), 0)
    assert lowered(word.cast(index) + 1).dtype is i64
    truth = UOp(ops.PARAM, boolean, (), 0)
    assert lowered(truth.cast(index) + 1).dtype is i32
    long = UOp(ops.PARAM, u64, (), 0)
    assert lowered((long % UOp.const(u64, 8)).cast(index) + 1).dtype is i32
    with pytest.raises(PorismError, match="does not provably fit 64 bits"):
        lowered(long.cast(index) + 1)


# -- accesses --------------------------------------------------------------------------------------


def test_the_offset_in_bytes_fits() -> None:
    """000.5.P3a: element 2^30 of f32 is 2^32 bytes away, which a backend may compute in i32."""
    i = UOp.range(1 << 30, 0)
    actual = lowered(at(memory(), i + 1)).src[1]
    assert actual.dtype is i64
    assert actual.op is ops.CAST
    assert actual.src[0].dtype is i32
    assert lowered(at(memory(dtype=i8), i + 1)).src[1].dtype is i32
    assert lowered(at(memory(), UOp.range(1 << 29, 0))).src[1].dtype is i32
    assert lowered(at(memory(), UOp.range((1 << 29) + 1, 0))).src[1].dtype is i64


def test_an_index_of_a_width_is_widened_for_its_offset() -> None:
    word = UOp(ops.PARAM, i32, (), 1)
    assert lowered(at(memory(), word)).src[1] is word.cast(i64)
    assert lowered(at(memory(dtype=i8), word)).src[1] is word
    # an access that happens is inside of the memory
    assert lowered(at(memory(size=1 << 29), word)).src[1] is word
    assert lowered(at(memory(size=(1 << 29) + 1), word)).src[1] is word.cast(i64)


def test_a_wide_index_is_used_as_it_is() -> None:
    word = UOp(ops.PARAM, i64, (), 1)
    small = word % UOp.const(i64, 8)
    assert lowered(at(memory(), small.cast(index))).src[1] is small


def gated(root: UOp) -> list[UOp]:
    return [n for n in toposort(root) if n.op is ops.INDEX and n.src[-1].dtype.kind is Kind.BOOL]


def copied(source: UOp, *, size: int = 6) -> tuple[UOp, UOp]:
    """A kernel that stores what it loads from a place, and the kernel lowered."""
    (loop,) = source.ranges
    out = at(memory(0, size), loop)
    store = out.store(source.load())
    kernel = UOp(ops.SINK, None, (store.end(loop),))
    return kernel, lower_index_dtype(kernel)


def check_same(before: UOp, after: UOp, buffers: Sequence[Any], run: Any = run_kernel) -> list[Any]:
    """Both leave the same in each buffer; what that is."""
    results = []
    for kernel in (before, after):
        results.append([buffer.copy() for buffer in buffers])
        run(kernel, results[-1])
    for one, other in zip(*results, strict=True):
        assert same_results(one, other)
    return results[1]


def check_kernel(before: UOp, after: UOp, buffers: Sequence[Any], **variables: int) -> list[Any]:
    """The same, where the lowered one is a target kernel."""
    levels.check(after, levels.TARGET, "index dtype")

    def run(kernel: UOp, given: Sequence[Any]) -> None:
        run_kernel(kernel, given, variables)

    return check_same(before, after, buffers, run)


def test_validity_becomes_the_gate() -> None:
    """000.5.P3b."""
    i = UOp.range(6, 0)
    place = at(memory(1, 4), masked(i < 4, i))
    before, after = copied(place)
    data = np.arange(4, dtype=np.float32) + 1
    result = check_kernel(before, after, [np.full(6, -1, np.float32), data])
    assert result[0].tolist() == [1, 2, 3, 4, 0, 0]
    (access,) = gated(after)
    assert access.src[1].op is ops.RANGE
    assert access.src[2] is (access.src[1] < 4)


def test_validity_and_a_gate_are_joined() -> None:
    i = UOp.range(6, 0)
    place = at(memory(1, 4), masked(i < 4, i), i > 0)
    before, after = copied(place)
    data = np.arange(4, dtype=np.float32) + 1
    result = check_kernel(before, after, [np.full(6, -1, np.float32), data])
    assert result[0].tolist() == [0, 2, 3, 4, 0, 0]
    assert gated(after)[0].src[2].op is ops.AND


def test_a_gate_is_closed_where_it_compares_no_element() -> None:
    i = UOp.range(6, 0)
    index_or_none = masked(i < 4, i)
    for gate in (~(index_or_none < 2), UOp(ops.NE, None, (index_or_none, number(1)))):
        before, after = copied(at(memory(1, 6), i, gate))
        data = np.arange(6, dtype=np.float32) + 1
        result = check_kernel(before, after, [np.full(6, -1, np.float32), data])
        assert result[0].tolist()[4:] == [0, 0]


def test_a_masked_division_never_divides_by_zero() -> None:
    """000.5.P3b: r // n with the condition n > 0 is computed also where n is 0."""
    r, n = UOp.range(6, 0), variable(3)
    place = at(memory(1, 6), masked(n > 0, UOp(ops.IDIV, None, (r, n))))
    before, after = copied(place)
    (division,) = [node for node in toposort(after) if node.op is ops.IDIV]
    assert division.src[1].vmin == 1
    data = np.arange(6, dtype=np.float32) + 1
    for value in range(4):
        zeros = np.full(6, -1, np.float32)
        check_kernel(before, after, [zeros, data], n=value)


def test_lanes_have_gates_of_their_own() -> None:
    i = UOp.range(3, 0)
    places = UOp(ops.VECTORIZE, None, (masked(i < 2, i * 2), masked(i > 0, i * 2 + 1)))
    target = at(memory(0, 6), UOp(ops.VECTORIZE, None, (i * 2, i * 2 + 1)))
    value = UOp(ops.LOAD, f32.vec(2), (at(memory(1, 6), places),))
    before = UOp(ops.SINK, None, (target.store(value).end(i),))
    after = lower_index_dtype(before)
    data = np.arange(6, dtype=np.float32) + 1
    result = check_kernel(before, after, [np.full(6, -1, np.float32), data])
    assert result[0].tolist() == [1, 0, 3, 4, 0, 6]
    (access,) = gated(after)
    assert access.src[1].dtype is i32.vec(2)
    assert access.src[2].dtype is boolean.vec(2)


def test_one_condition_for_all_lanes() -> None:
    i = UOp.range(3, 0)
    lanes = UOp(ops.VECTORIZE, None, (i * 2, i * 2 + 1))
    value = UOp(ops.LOAD, f32.vec(2), (at(memory(1, 4), masked(i < 2, lanes)),))
    before = UOp(ops.SINK, None, (at(memory(0, 6), lanes).store(value).end(i),))
    after = lower_index_dtype(before)
    data = np.arange(4, dtype=np.float32) + 1
    result = check_kernel(before, after, [np.full(6, -1, np.float32), data])
    assert result[0].tolist() == [1, 2, 3, 4, 0, 0]


def test_no_element_at_all() -> None:
    i = UOp.range(6, 0)
    lanes = UOp(ops.VECTORIZE, None, (UOp(ops.INVALID, index), UOp(ops.INVALID, index)))
    value = UOp(ops.LOAD, f32.vec(2), (at(memory(1, 4), lanes),))
    place = at(memory(0, 6), UOp(ops.VECTORIZE, None, (masked(i < 3, i), masked(i > 2, i))))
    before = UOp(ops.SINK, None, (place.store(value).end(i),))
    after = lower_index_dtype(before)
    buffers = [np.full(6, -1, np.float32), np.ones(4, np.float32)]
    assert not check_kernel(before, after, buffers)[0].any()


def test_a_padded_index_as_data() -> None:
    """Where the index is no element, another value is chosen."""
    i = UOp.range(6, 0)
    valid = i < 4
    place = masked(valid, i)
    value = valid.where(place.cast(f32), UOp.const(f32, 0))
    other = valid.where((place < 2).cast(f32), UOp.const(f32, -1))
    before = UOp(ops.SINK, None, (at(memory(0, 6), i).store(value + other).end(i),))
    after = lower_index_dtype(before)
    result = check_kernel(before, after, [np.zeros(6, np.float32)])
    assert result[0].tolist() == [1, 2, 2, 3, -1, -1]


# -- errors ----------------------------------------------------------------------------------------


def test_beyond_64_bits_is_an_error() -> None:
    with pytest.raises(PorismError) as caught:
        lowered(variable((1 << 63) - 1) + 1)
    assert str(caught.value) == (
        "an index does not provably fit 64 bits\n"
        "  where: n + 1\n"
        "  why: it may be as low as 1 and may be as high as 9223372036854775808, and machines "
        "count from -9223372036854775808 to 9223372036854775807\n"
        "  fix: give each variable in it both of its bounds, cast what is no integer to i32 or "
        "i64 first, or keep the value small with % or min and max"
    )


@pytest.mark.parametrize(
    "value",
    [
        variable(None),
        variable(5, None),
        variable(1 << 63),
        UOp.range(variable(None), 0),
        UOp(ops.PARAM, index, (), 0) % 8,
        UOp(ops.PARAM, f32, (), 0).cast(index) % 8,
        (variable(1 << 40) * variable(1 << 40, name="m")) % 8,
        UOp(ops.LOAD, None, (at(memory(dtype=index), number(0)),)) % 8,
        UOp(ops.MIN, None, (number(1 << 63), variable(9))) + 1,
    ],
    ids=repr,
)
def test_what_does_not_provably_fit_is_an_error(value: UOp) -> None:
    with pytest.raises(PorismError, match="does not provably fit 64 bits"):
        lowered(value)


def test_no_bound_is_said_so() -> None:
    with pytest.raises(PorismError) as caught:
        lowered(variable(None))
    assert "may be as low as 0 and has no upper bound" in str(caught.value)


def test_memory_of_index_is_an_error() -> None:
    store = at(memory(dtype=index), number(0)).store(number(1))
    with pytest.raises(PorismError) as caught:
        lower_index_dtype(UOp(ops.SINK, None, (store,)))
    assert "memory holds integers of a width" in str(caught.value)
    assert "cast what is stored" in str(caught.value)


def test_an_access_that_hides_a_mask_is_an_error() -> None:
    i = UOp.range(6, 0)
    hidden = UOp(ops.CAST, boolean, (masked(i < 3, i),))
    place = at(memory(1, 6), i, hidden)
    with pytest.raises(PorismError) as caught:
        copied(place)
    assert "depends on an index that may be no element" in str(caught.value)
    assert "into the gate" in str(caught.value)


# -- random ----------------------------------------------------------------------------------------


def no_chains(root: UOp) -> bool:
    """No conversion follows one that loses nothing."""
    return not any(
        node.src[0].op is ops.CAST
        and node.dtype.is_integer
        and node.src[0].dtype.is_integer
        and not node.src[0].src[0].dtype.is_float
        and node.src[0].src[0].dtype.fits_in(node.src[0].dtype)
        for node in casts(root)
    )


@graphs.examples(300)
@given(st.data())
def test_expressions(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from((index, index, index.vec(2), boolean)))
    limit = data.draw(st.sampled_from((1 << 20, 1 << 34, 1 << 70)))
    root = UOp(ops.SINK, None, (data.draw(graphs.expressions(dtype, of=index, limit=limit)),))
    leaves = graphs.leaves(root)
    try:
        after = lower_index_dtype(root)
    except PorismError:
        nodes = [n for n in toposort(root) if n.dtype.kind is Kind.INDEX]
        assert any(n.vmin < i64.min or n.vmax > i64.max for n in nodes)
        return
    assert not any(n.dtype.kind is Kind.INDEX for n in toposort(after))
    assert no_chains(after)
    for _ in range(3):
        values = {leaf: data.draw(graphs.values(leaf)) for leaf in leaves}
        named = {(leaf.op, leaf.arg): value for leaf, value in values.items()}
        moved = {leaf: named[leaf.op, leaf.arg] for leaf in graphs.leaves(after)}
        (old,), (new,) = evaluate(root, values), evaluate(after, moved)
        assert np.array_equal(old.astype(object), new.astype(object))


class Indexed(Target):
    """A target kernel before its indices have a width: with masks, and one END for all ranges."""

    def guarded(self, index: UOp, condition: UOp | None) -> tuple[UOp, ...]:
        return Loops.guarded(self, index, condition)


@st.composite
def indexed_kernels(draw: DrawFn) -> UOp:
    loops = Indexed(draw, raw, graphs.VALUE_TYPES, counter=index, parameters=1)
    if draw(st.integers(0, 3)) == 3:
        return loops.sink(loops.shared(0))
    scope = loops.ranges(Axis.LOOP, 0, 2)
    return loops.sink(loops.end(loops.stored(0, scope), scope))


def filled(kernel: UOp, seed: int) -> list[Any]:
    """A buffer of small numbers for each parameter."""
    random = np.random.default_rng(seed)
    known = {p.arg: p.dtype for p in graphs.parameters(kernel)}
    kinds = [known.get(place, f32.pointer(size=1)) for place in range(max(known) + 1)]
    return [
        random.integers(0, 5, kind.size * kind.element.count).astype(kind.element.numpy)
        for kind in kinds
    ]


@pytest.mark.slow
@graphs.examples(150)
@given(indexed_kernels(), st.integers(0, 1 << 30))
def test_kernels(before: UOp, seed: int) -> None:
    after = lower_index_dtype(before)
    check_kernel(before, after, filled(before, seed))
    assert lower_index_dtype(after) is after


def in_order(root: UOp) -> UOp:
    """The graph with operands of integers and conditions in one order."""

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        if node.op.commutative and not node.dtype.is_float:
            src = tuple(sorted(src, key=lambda s: s.key))
        return raw(node.op, node.dtype_given, src, node.arg)

    return rebuild(root, change)


def check_one_walk(root: UOp) -> bool:
    """What one walk finds, if it finds anything, is what the rules make; whether it does."""
    root = normalize(masks_to_gates(root))
    walked = lower_to_i32(root)
    if walked is None:
        return False
    assert in_order(walked) is in_order(lower_by_rules(root))
    return True


@graphs.examples(200)
@given(st.data())
def test_one_walk_is_as_good_as_the_rules(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from((index, index.vec(2), boolean)))
    limit = data.draw(st.sampled_from((1 << 10, 1 << 20, 1 << 34)))
    value = data.draw(graphs.expressions(dtype, of=index, limit=limit))
    indices = [n for n in toposort(value) if n.dtype.kind is Kind.INDEX]
    if all(i64.min <= n.vmin and n.vmax <= i64.max for n in indices):
        check_one_walk(UOp(ops.SINK, None, (value,)))


@graphs.examples(150)
@given(indexed_kernels() | graphs.lanes_graphs())
def test_one_walk_is_as_good_as_the_rules_on_kernels(kernel: UOp) -> None:
    check_one_walk(kernel)


def test_one_walk_is_for_narrow_indices() -> None:
    """And for a width of its own where memory is reached."""
    i, wide = UOp.range(100, 0), variable(TOP)
    narrow = at(memory(1), i * 4 + variable(9)).load()
    far = at(memory(1, 1 << 30), variable(1 << 30) + i).load()
    assert check_one_walk(UOp(ops.SINK, None, (narrow, i.cast(f32))))
    assert check_one_walk(UOp(ops.SINK, None, (far,)))
    assert not check_one_walk(UOp(ops.SINK, None, (narrow, at(memory(1), i + wide).load())))
    assert not check_one_walk(UOp(ops.SINK, None, (UOp(ops.BIND, None, (variable(9), i)),)))


@pytest.fixture
def _no_algebra() -> Iterator[None]:
    install(RuleSet("nothing"))
    yield
    install(ALGEBRA)


@pytest.mark.usefixtures("_no_algebra")
def test_kernels_without_the_algebra() -> None:
    """The lowering brings the rules on masks that it needs."""

    @graphs.examples(60)
    @given(indexed_kernels())
    def run(before: UOp) -> None:
        levels.check(lower_index_dtype(before), levels.TARGET)

    run()


@graphs.examples(60)
@given(graphs.lanes_graphs() | graphs.kernels())
def test_other_levels(before: UOp) -> None:
    """Unrolled axes, vectors and reductions: no index is left, and what is stored is the same."""
    after = lower_index_dtype(before)
    assert not any(n.dtype.kind is Kind.INDEX or n.op is ops.INVALID for n in toposort(after))
    check_same(before, after, filled(before, 0), run_arrays)


def test_every_procedure_fires_and_is_named() -> None:
    trace = Trace("index dtype")
    i = UOp.range(6, 0)
    bound = UOp(ops.BIND, None, (variable(9), number(4)))
    place = UOp(ops.VECTORIZE, None, (masked(i < bound, i), i // variable(3, name="m")))
    value = UOp(ops.LOAD, f32.vec(2), (at(memory(1, 6), place),))
    total = (i < 4).where(masked(i < 4, i).cast(f32), UOp.const(f32, 0))
    chosen = (i < 2).where(i, variable(9, name="k"))
    wide = UOp(ops.VECTORIZE, None, (total, total))
    target = at(memory(0, 20), UOp(ops.VECTORIZE, None, (chosen * 2, i * 2 + 1)))
    lower_index_dtype(UOp(ops.SINK, None, (target.store(value + wide).end(i),)), trace)
    names = {item.name for item in INDEX_DTYPE if item.name.startswith(("index-", "mask-"))}
    assert names <= set(trace.counts())
    assert {item.name for item in INDEX_DTYPE} <= {item.name for item in EVERYTHING}
