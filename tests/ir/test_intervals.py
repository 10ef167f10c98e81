"""Bounds and residues contain every value, checked exhaustively on small boxes of operands."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.base import dtypes
from porism.base.dtypes import DType, Kind
from porism.ir import op_signatures, ops
from porism.ir.axis import Axis
from porism.ir.facts import intervals, residues, semantics
from porism.ir.node import UOp, construct, raw
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from tests import graphs
from tests.tiers import quick_if

HUGE: Final = 10**400


# -- what the values of a node are -----------------------------------------------------------------


def variable(dtype: DType, name: str, low: int | None, high: int | None) -> UOp:
    return raw(ops.VARIABLE, dtype, (), (name, low, high))


def array(dtype: DType, values: Iterable[Any]) -> np.ndarray[Any, Any]:
    return np.array(list(values), dtype=object if dtype.kind is Kind.INDEX else dtype.numpy)


def within(node: UOp, values: Iterable[Any]) -> None:
    """Every value lies inside the bounds and has the residue."""
    modulus, remainder = node.residue
    for value in values:
        number = int(value)
        assert node.vmin <= number <= node.vmax, (node, number, node.vmin, node.vmax)
        if modulus == 0:
            assert number == remainder, (node, number, node.residue)
        else:
            assert number % modulus == remainder % modulus, (node, number, node.residue)


class Box:
    """An operand and all the values that it takes."""

    def __init__(self, node: UOp, values: Sequence[int]) -> None:
        self.node = node
        self.values = values


def boxes(dtype: DType, name: str, seed: random.Random) -> Iterator[Box]:
    """Operands of a type: constants, small variables anywhere, multiples plus an offset."""
    low = -6 if dtype.kind is Kind.INDEX else int(dtype.min)
    high = 12 if dtype.kind is Kind.INDEX else int(dtype.max)
    if dtype.kind is Kind.BOOL:
        yield Box(raw(ops.CONST, dtype, (), False), [0])
        yield Box(raw(ops.CONST, dtype, (), True), [1])
        yield Box(raw(ops.PARAM, dtype, (), 0 if name == "a" else 1), [0, 1])
        return
    edges = {low, low + 3, -2, -1, 0, 1, 2, 3, 8, high - 2, high}
    for value in sorted(v for v in edges if low <= v <= high):
        yield Box(raw(ops.CONST, dtype, (), value), [value])
    for _ in range(9):
        start = seed.choice((low, high - 5, 0, -3, -1, seed.randint(low, high)))
        start = min(max(start, low), high)
        end = min(start + seed.randrange(6), high)
        node = variable(dtype, name, start, end)
        yield Box(node, range(start, end + 1))
        factor, offset = seed.choice((2, 3, 4, 6)), seed.choice((0, 1, 3))
        stretched = [start + k * factor + offset for k in range(end - start + 1)]
        if max(stretched) <= high and low <= 0:
            # factor * x + offset, so that there is a residue to carry on
            inner = variable(dtype, name, 0, end - start)
            scaled = raw(ops.MUL, None, (inner, inner.lift(factor)), None)
            shifted = raw(ops.ADD, None, (scaled, inner.lift(start + offset)), None)
            yield Box(shifted, stretched)


DTYPES: Final = (dtypes.index, dtypes.i8, dtypes.u8, dtypes.boolean)


FLOAT_OPS: Final = (
    *(op for op in ops.table() if op.signature is op_signatures.floating),
    ops.THREEFRY,
)


def accepts(op: Op, dtype: DType) -> bool:
    """Whether the op works on such operands."""
    if dtype.kind is Kind.BOOL:
        return op in (*graphs.arithmetic_ops(dtype), ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE)
    return op not in FLOAT_OPS


ELEMENTWISE: Final = [
    (op, dtype) for op in ops.table() for dtype in DTYPES if op.elementwise and accepts(op, dtype)
]


def defined(op: Op, dtype: DType, row: Sequence[int]) -> bool:
    """Whether the op has a value for these operands."""
    if dtype.kind is not Kind.INDEX:
        return True
    if op in (ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD):
        return row[1] != 0
    return op not in (ops.SHL, ops.SHR, ops.POW) or row[1] >= 0


@pytest.mark.parametrize(
    ("op", "dtype"), ELEMENTWISE, ids=[f"{op}-{dtype}" for op, dtype in ELEMENTWISE]
)
def test_every_value_is_inside(op: Op, dtype: DType) -> None:
    assert op.meaning is not None
    seed = random.Random(f"{op}{dtype}")
    choices = [list(boxes(dtype, name, seed)) for name in "abc"[: op.arity]]
    if op is ops.WHERE:
        choices[0] = list(boxes(dtypes.boolean, "a", seed))
    combinations = list(itertools.product(*choices))
    if op.arity == 3:
        combinations = seed.sample(combinations, min(len(combinations), 600))
    for combination in combinations:
        node = raw(op, None, tuple(box.node for box in combination), None)
        rows = list(itertools.product(*[box.values for box in combination]))
        rows = [row for row in rows if defined(op, dtype, row)]
        if not rows:
            continue
        columns = [array(s.dtype, [row[k] for row in rows]) for k, s in enumerate(node.src)]
        within(node, op.meaning(dtype, *columns))


@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.parametrize("target", [*DTYPES, dtypes.i16, dtypes.u32], ids=str)
def test_casts(source: DType, target: DType) -> None:
    seed = random.Random(f"{source}{target}")
    for box in boxes(source, "a", seed):
        node = raw(ops.CAST, target, (box.node,), None)
        within(node, semantics.cast(source, target, array(source, box.values)))


def test_casts_of_floats_say_nothing_wrong() -> None:
    half = raw(ops.CONST, dtypes.f32, (), 300.5)
    for target in (dtypes.i8, dtypes.u8, dtypes.index, dtypes.boolean):
        node = raw(ops.CAST, target, (half,), None)
        within(node, semantics.cast(dtypes.f32, target, np.array([300.5], np.float32)))


# -- vectors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.i8, dtypes.u8], ids=str)
def test_vectors(dtype: DType) -> None:
    seed = random.Random(str(dtype))
    all_boxes = list(boxes(dtype, "a", seed))
    for _ in range(200):
        parts = seed.sample(all_boxes, 3)
        vector = raw(ops.VECTORIZE, None, tuple(box.node for box in parts), None)
        for box in parts:
            within(vector, box.values)
        picked = raw(ops.GEP, None, (vector,), (2, 0))
        within(picked, [*parts[2].values, *parts[0].values])
        joined = raw(ops.CAT, None, (vector, picked), None)
        for box in parts:
            within(joined, box.values)
        lanes = tuple(seed.choice(box.values) for box in parts)
        constant = raw(ops.VCONST, dtype.vec(3), (), lanes)
        within(constant, constant.arg)
        for op in (ops.ADD, ops.MUL, ops.SUB, ops.MAX):
            node = raw(op, None, (vector, constant), None)
            assert op.meaning is not None
            for box, lane in zip(parts, lanes, strict=True):
                values = array(dtype, box.values)
                within(node, op.meaning(dtype, values, np.full_like(values, lane)))


# -- leaves, loops, memory -------------------------------------------------------------------------


def test_leaves() -> None:
    end = variable(dtypes.index, "n", 0, 9)
    for size in (UOp.const(dtypes.index, 5), end):
        loop = UOp.range(size, 0)
        assert (loop.vmin, loop.vmax) == (0, int(size.vmax) - 1)
    assert (UOp.range(1, 0).vmin, UOp.range(1, 0).vmax) == (0, 0)
    thread = raw(ops.SPECIAL, None, (UOp.const(dtypes.index, 32),), "lidx0")
    assert (thread.vmin, thread.vmax) == (0, 31)
    free = UOp.variable("free")
    assert (free.vmin, free.vmax) == (-math.inf, math.inf)
    assert (UOp.variable("n", 3).vmin, UOp.variable("n", 3).vmax) == (3, math.inf)
    load = raw(ops.PARAM, dtypes.u8, (), 0)
    assert (load.vmin, load.vmax) == (0, 255)


def test_a_bound_variable_has_the_bounds_of_the_variable() -> None:
    size = UOp.variable("n", 1, 10)
    value = UOp.const(dtypes.index, 7)
    bound = raw(ops.BIND, None, (size, value), None)
    assert (bound.vmin, bound.vmax) == (1, 10)
    nonsense = raw(ops.BIND, None, (size, UOp.const(dtypes.index, 70)), None)
    assert nonsense.vmin <= nonsense.vmax


def reduced(op: Op, dtype: DType, values: Sequence[int], start: int) -> int:
    assert op.meaning is not None
    total = array(dtype, [start])
    for value in values:
        total = op.meaning(dtype, total, array(dtype, [value]))
    return int(total[0])


@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.i8, dtypes.u8], ids=str)
@pytest.mark.parametrize("op", [ops.ADD, ops.MUL, ops.MAX, ops.MIN, ops.AND, ops.OR], ids=str)
def test_reductions(op: Op, dtype: DType) -> None:
    """Over ranges of every small size, the empty one included, whose result is the identity."""
    identity = {
        ops.ADD: 0,
        ops.MUL: 1,
        ops.OR: 0,
        ops.AND: -1 if dtype.min < 0 else int(dtype.max),
        ops.MAX: dtype.min,
        ops.MIN: dtype.max,
    }[op]
    seed = random.Random(f"{op}{dtype}")
    for box in boxes(dtype, "a", seed):
        for size, most in ((0, 0), (1, 1), (2, 2), (0, 3), (1, 3)):
            end = variable(dtypes.index, "n", size, most)
            loop = UOp.range(end, 0, Axis.REDUCE)
            node = raw(ops.REDUCE, None, (box.node, loop), op)
            for count in range(size, most + 1):
                if count == 0 and isinstance(identity, float):
                    assert node.vmin <= identity <= node.vmax
                    continue
                for _ in range(5):
                    values = [seed.choice(box.values) for _ in range(count)]
                    value = reduced(op, dtype, values[1:], values[0]) if values else int(identity)
                    within(node, [value])


def test_padding_adds_zeros() -> None:
    dims = tuple(UOp.const(dtypes.index, n) for n in (4,))
    tensor = raw(ops.PARAM, dtypes.u8, dims, 0)
    six = raw(ops.MAX, None, (tensor, raw(ops.EXPAND, None, (tensor.lift(6), *dims), None)), None)
    padded = raw(ops.PAD, None, (six, UOp.const(dtypes.index, 1), UOp.const(dtypes.index, 1)), None)
    assert six.vmin == 6
    within(padded, [0, 6, 255])


def test_an_index_has_a_value_only_where_it_is_valid() -> None:
    i = UOp.variable("i", 0, 7)
    nowhere = raw(ops.INVALID, dtypes.index, (), None)
    valid = raw(ops.WHERE, None, (i < 4, i, nowhere), None)
    assert (valid.vmin, valid.vmax) == (0, 7)


# -- infinities and very long ints -----------------------------------------------------------------


EXTREMES: Final = (
    *((-math.inf, math.inf), (-math.inf, 5), (0, math.inf), (-3, math.inf), (-math.inf, -2)),
    *((-HUGE, HUGE), (0, HUGE), (HUGE, 2 * HUGE), (-HUGE, math.inf), (-math.inf, -HUGE)),
    *((0, 0), (-1, 1), (1, 1), (3, 3), (-4, -4), (0, 600)),
)


def extreme(name: str, low: float, high: float) -> UOp:
    return variable(
        dtypes.index,
        name,
        None if isinstance(low, float) else low,
        None if isinstance(high, float) else high,
    )


INDEX_OPS: Final = [op for op, dtype in ELEMENTWISE if dtype is dtypes.index]


@pytest.mark.parametrize(
    "op", quick_if(lambda op: op is not ops.POW, INDEX_OPS), ids=lambda op: op.name
)
def test_infinite_and_huge_bounds(op: Op) -> None:
    """Nothing overflows, no bound is NaN, and sample values stay inside."""
    assert op.meaning is not None
    seed = random.Random(str(op))
    count = op.arity - (op is ops.WHERE)
    for ends in itertools.product(EXTREMES, repeat=min(count, 2)):
        src = [extreme("abc"[k], *pair) for k, pair in enumerate(ends)]
        if count == 3:
            src.append(extreme("c", *seed.choice(EXTREMES)))
        if op is ops.WHERE:
            src.insert(0, raw(ops.PARAM, dtypes.boolean, (), 0))
        node = raw(op, None, tuple(src), None)
        for bound in (node.vmin, node.vmax):
            assert isinstance(bound, int) or math.isinf(bound)
        assert node.vmin <= node.vmax
        for _ in range(6):
            row = [sample(s, seed) for s in src]
            if op in (ops.SHL, ops.SHR, ops.POW):
                if not src[1].vmin <= (row[1] % 600) <= src[1].vmax:
                    continue
                row[1] %= 600
            if defined(op, dtypes.index, row):
                columns = [array(s.dtype, [v]) for s, v in zip(src, row, strict=True)]
                within(node, op.meaning(dtypes.index, *columns))


def sample(node: UOp, seed: random.Random) -> int:
    """Some value of a leaf, near an end most often."""
    if node.dtype.kind is Kind.BOOL:
        return seed.randrange(2)
    ends = [int(end) for end in (node.vmin, node.vmax) if isinstance(end, int)]
    near = seed.choice(ends) if ends else 0
    far = seed.choice((0, 1, 2, 7, 1000, HUGE, 5 * HUGE))
    value = near + far * seed.choice((1, -1))
    return value if node.vmin <= value <= node.vmax else near


def test_bounds_beyond_what_is_worth_carrying_become_infinite() -> None:
    x = UOp.variable("x", 0, 1 << 300)
    squared = raw(ops.MUL, None, (x, x), None)
    assert (squared.vmin, squared.vmax) == (0, math.inf)
    assert intervals.clip(dtypes.index, -(1 << 600), 1 << 600) == (-math.inf, math.inf)


def test_residues_that_are_too_long_are_dropped() -> None:
    assert residues.canonical(1 << 200, 5) == residues.ANY
    assert residues.canonical(0, 1 << 200) == residues.ANY
    assert residues.canonical(12, 25) == (12, 1)
    x = UOp.variable("x")
    node = x
    for _ in range(100):
        node = raw(ops.MUL, None, (node, node.lift(12)), None)
    assert node.residue == residues.ANY or 0 <= node.residue[1] < node.residue[0]


def test_what_interval_bounds_alone_cannot_see() -> None:
    """4*i + 1 and 4*i lie between the same multiples of 8."""
    i = UOp.variable("i")
    four = raw(ops.MUL, None, (i, i.lift(4)), None)
    one = raw(ops.ADD, None, (four, i.lift(1)), None)
    assert four.residue == (4, 0)
    assert one.residue == (4, 1)
    assert raw(ops.MOD, None, (one, i.lift(4)), None).residue == (0, 1)


# -- whole expressions -----------------------------------------------------------------------------


def evaluate(root: UOp, given_values: dict[UOp, Any]) -> Any:
    """The value of an expression, op by op."""
    arrays: dict[UOp, Any] = {}
    for node in toposort(root):
        src = [arrays[s] for s in node.src]
        if node in given_values:
            arrays[node] = array(node.dtype.element, [given_values[node]] * node.dtype.count)
        elif node.op is ops.CONST:
            arrays[node] = array(node.dtype.element, [node.arg] * node.dtype.count)
        elif node.op is ops.VCONST:
            arrays[node] = array(node.dtype.element, node.arg)
        elif node.op is ops.CAST:
            arrays[node] = semantics.cast(node.src[0].dtype, node.dtype, src[0])
        elif node.op in (ops.VECTORIZE, ops.CAT):
            arrays[node] = np.concatenate(src)
        elif node.op is ops.GEP:
            arrays[node] = src[0][list(node.arg)]
        else:
            assert node.op.meaning is not None, node
            arrays[node] = node.op.meaning(node.src[-1].dtype.element, *src)
    return arrays


def check_expression(data: st.DataObject, root: UOp) -> None:
    leaves = {leaf: data.draw(graphs.values(leaf)) for leaf in graphs.leaves(root)}
    for node, value in evaluate(root, leaves).items():
        if node.dtype.is_integer or node.dtype.kind is Kind.BOOL:
            within(node, np.atleast_1d(value))


@given(st.data(), st.sampled_from((1, 1, 2, 4)))
@graphs.examples(200)
def test_index_expressions(data: st.DataObject, lanes: int) -> None:
    check_expression(data, data.draw(graphs.index_expressions(lanes, unbounded=True)))


@given(st.data(), st.sampled_from([t for t in dtypes.scalars() if t.is_integer and t.bits]))
@graphs.examples(200)
def test_fixed_width_expressions(data: st.DataObject, dtype: DType) -> None:
    check_expression(data, data.draw(graphs.fixed_width_expressions(dtype, truncating=True)))


@given(st.data())
@graphs.examples(120)
def test_conditions(data: st.DataObject) -> None:
    check_expression(data, data.draw(graphs.bool_expressions()))


@given(st.data())
@graphs.examples(80)
def test_normal_forms(data: st.DataObject) -> None:
    check_expression(data, data.draw(graphs.index_expressions(make=construct)))
