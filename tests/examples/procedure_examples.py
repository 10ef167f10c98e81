"""Examples: for each procedure about structure, all small graphs on which it is tried.

A graph is evaluated before and after the procedure, on each of its inputs. Nodes are made exactly
as stated, so that nothing but the procedure changes them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import DType, boolean, f32, i8, i16, i32, i64, index
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.prove.example_variations import Example
from tests.examples.buffer_examples import BUFFER_EXAMPLES
from tests.examples.example_graphs import (
    DATA,
    MEMORY,
    NONE,
    ORDERS,
    TOTAL,
    TRUTHS,
    A,
    B,
    C,
    K,
    X,
    Y,
    buffer,
    given,
    made,
    masked,
    number,
    on,
)
from tests.examples.index_examples import INDEX_EXAMPLES
from tests.examples.reduction_examples import REDUCTION_EXAMPLES

# -- validity --------------------------------------------------------------------------------------


def operands() -> Iterator[Example]:
    m = masked(A, X)
    graphs = [made(op, *pair) for op in TOTAL for pair in ((m, Y), (Y, m), (m, masked(B, Y)))]
    graphs += [made(op, *pair) for op in TOTAL for pair in ((NONE, Y), (Y, NONE))]
    graphs += [made(ops.NEG, m), made(ops.MULACC, Y, m, masked(B, Y)), made(ops.NEG, NONE)]
    graphs += [made(ops.MUL, m, number(0)), made(ops.MUL, number(0), m)]
    graphs.append(made(ops.MUL, masked(A, K), K))
    yield from on(graphs)


def invalid_casts() -> Iterator[Example]:
    m = masked(A, X)
    yield from on([made(ops.CAST, s, dtype=t) for s in (m, NONE) for t in (i8, i64, f32)])


def invalid_choices() -> Iterator[Example]:
    m, n = masked(B, X), masked(C, Y)
    pairs = [(m, NONE), (NONE, m), (m, Y), (Y, m), (m, n), (NONE, Y), (NONE, NONE)]
    yield from on([made(ops.WHERE, A, *pair) for pair in pairs])
    x, y, both = (made(ops.VECTORIZE, *pair) for pair in ((X, Y), (Y, X), (A, B)))
    for outer, inner in ((C, both), (both, C)):  # conditions of other lanes
        branches = (masked(inner, x), y), (y, masked(inner, x))
        yield from on([made(ops.WHERE, outer, *pair) for pair in branches])


def _conditions() -> list[UOp]:
    m = masked(A, X)
    compared = [made(op, m, number(1)) for op in ORDERS]
    compared += [made(ops.LT, number(1), m), made(ops.LT, m, masked(B, Y)), made(ops.LT, NONE, Y)]
    first = compared[0]
    joined = [made(op, first, C) for op in (ops.AND, ops.OR)]
    joined += [made(op, C, first) for op in (ops.AND, ops.OR)]
    joined += [made(op, first, made(ops.LT, masked(B, Y), Y)) for op in (ops.AND, ops.OR)]
    return [*compared, *joined, made(ops.NOT, first), made(ops.NOT, joined[0])]


def invalid_conditions() -> Iterator[Example]:
    yield from on([made(ops.WHERE, c, X, Y) for c in _conditions()])
    yield from on([masked(c, Y) for c in _conditions()])
    yield from on([made(ops.WHERE, c, number(1, f32), number(2, f32)) for c in _conditions()[:2]])
    x, y = made(ops.VECTORIZE, X, Y), made(ops.VECTORIZE, Y, X)
    for condition in (A, made(ops.VECTORIZE, A, B)):
        compared = made(ops.LT, masked(condition, x), y)
        yield from on([made(ops.WHERE, compared, x, y)])


def gates() -> Iterator[Example]:
    target = MEMORY.dtype
    for condition in _conditions():
        element = made(ops.INDEX, MEMORY, number(1), condition)
        pointer = made(ops.INDEX, MEMORY, number(2), condition, dtype=target)
        yield from on([element, made(ops.LOAD, pointer)])


def _pointers() -> list[UOp]:
    direct = made(ops.INDEX, MEMORY, NONE, dtype=MEMORY.dtype)
    gated = made(ops.INDEX, MEMORY, NONE, A, dtype=MEMORY.dtype)
    return [direct, gated, made(ops.CAST, direct, dtype=f32.pointer(size=4))]


def loads() -> Iterator[Example]:
    other = number(-math.inf, f32)
    graphs = [made(ops.LOAD, p) for p in _pointers()]
    graphs += [made(ops.LOAD, p, other) for p in _pointers()]
    yield from on(graphs, (0,))


def stores() -> Iterator[Example]:
    """Through no element and through elements, by themselves and beside others."""
    place = made(ops.MOD, X, number(4))
    nothing = (*_pointers(), made(ops.INDEX, MEMORY, NONE))
    something = [made(ops.INDEX, MEMORY, s) for s in (number(0), place, masked(A, place))]
    gated = made(ops.INDEX, MEMORY, place, A, dtype=MEMORY.dtype)
    pointers = (*nothing, *something, gated, made(ops.CAST, gated, dtype=MEMORY.dtype))
    values = number(7, f32), made(ops.CAST, X, dtype=f32)
    for pointer, value in itertools.product(pointers, values):
        store = made(ops.STORE, pointer, value)
        other = made(ops.STORE, made(ops.INDEX, MEMORY, number(1)), number(8, f32))
        for sink in (made(ops.SINK, store, other), made(ops.SINK, other, store)):
            for a, x in itertools.product(TRUTHS, (-2, 1, 3)):
                yield sink, {0: np.bool_(a), 3: x, 6: DATA}


# -- choices and conversions -----------------------------------------------------------------------


def decided() -> Iterator[Example]:
    small = made(ops.MOD, X, number(3))
    conditions = [made(ops.LT, small, number(3)), made(ops.LT, small, number(0))]
    yield from on([made(ops.WHERE, c, X, Y) for c in conditions])


def truths() -> Iterator[Example]:
    yes, no = number(True, boolean), number(False, boolean)
    graphs = [made(ops.WHERE, A, yes, no), made(ops.WHERE, A, no, yes)]
    for dtype in (i8, boolean.vec(2)):  # not the type of the condition
        yes, no = number(True, dtype), number(False, dtype)
        graphs += [made(ops.WHERE, A, yes, no), made(ops.WHERE, A, no, yes)]
    yield from on(graphs, (0,))


def negations() -> Iterator[Example]:
    branches = [(X, Y), (masked(B, X), Y)]
    yield from on([made(ops.WHERE, made(ops.NOT, A), *pair) for pair in branches])


def joined() -> Iterator[Example]:
    divided = made(ops.EQ, made(ops.IDIV, X, Y), number(0))
    for condition in (B, divided):
        inner = made(ops.WHERE, condition, X, Y)
        outer = made(ops.NE, Y, number(0)) if condition is divided else A
        yield from on([made(ops.WHERE, outer, inner, Y)])
        yield from on([made(ops.WHERE, outer, X, inner)])
    x, y, both = (made(ops.VECTORIZE, *pair) for pair in ((X, Y), (Y, X), (A, B)))
    for outer, condition in ((C, both), (both, C)):  # of other lanes
        inner = made(ops.WHERE, condition, x, y)
        yield from on([made(ops.WHERE, outer, inner, y), made(ops.WHERE, outer, x, inner)])


_EDGES: Final[dict[DType, tuple[float, ...]]] = {
    boolean: (False, True),
    f32: (-0.0, 1.5, math.inf, math.nan, 16777217.0, -3e9),
    dtypes.f64: (-0.0, 1.5, math.inf, math.nan, 16777217.0, 1e300),
    dtypes.f16: (-0.0, 1.5, math.inf, math.nan, 65504.0),
    dtypes.bf16: (-0.0, 1.5, math.inf, math.nan, 3e38),
}


def conversions() -> Iterator[Example]:
    """Chains of two casts, for every three types."""
    types = (boolean, i8, dtypes.u8, i32, dtypes.u64, dtypes.f16, dtypes.bf16, f32, index)
    for first, second, third in itertools.product(types, repeat=3):
        edges: tuple[float, ...] = (-5, 0, 7, 1 << 40)
        if first.is_integer and first.bits:
            edges = (int(first.min), int(first.max), 0, 7)
        graph = made(ops.CAST, made(ops.CAST, given(0, first), dtype=second), dtype=third)
        for value in _EDGES.get(first, edges):
            yield graph, {0: value if first is index else np.asarray(value).astype(first.numpy)}


def conversion_chains() -> Iterator[Example]:
    yield from conversions()
    pointers = [f32.vec(count).pointer(size=4) for count in (2, 4)]
    twice = made(ops.CAST, made(ops.CAST, MEMORY, dtype=pointers[0]), dtype=pointers[1])
    yield made(ops.LOAD, twice), {6: DATA}


def cast_choices() -> Iterator[Example]:
    choice = made(ops.WHERE, A, X, Y)
    yield from on([made(ops.CAST, choice, dtype=t) for t in (i8, f32, boolean)])


def sums() -> Iterator[Example]:
    for x, y in ((X, Y), (K, made(ops.NEG, K))):
        inner = made(ops.ADD, x, number(100, x.dtype))
        yield from on([made(ops.ADD, inner, y), made(ops.ADD, y, inner)])
    x, y = made(ops.VECTORIZE, X, Y), made(ops.VECTORIZE, Y, X)
    lanes = made(ops.VCONST, dtype=index.vec(2), arg=(3, -4))
    for other in (y, number(7, index.vec(2)), lanes):
        yield from on(
            [made(ops.ADD, made(ops.ADD, *pair), other) for pair in ((x, lanes), (lanes, x))]
        )


def bounded() -> Iterator[Example]:
    small, large = (
        made(ops.MOD, X, number(3)),
        made(ops.ADD, made(ops.MOD, Y, number(3)), number(3)),
    )
    pairs = ((small, large), (large, small), (small, number(1)), (masked(A, small), number(3)))
    yield from on([made(op, *pair) for op in ORDERS for pair in pairs])


# -- loops -----------------------------------------------------------------------------------------


def _sizes() -> Iterator[list[UOp]]:
    """One range, and two, of no, one and two iterations; None for one that was replaced by 0."""
    for count in (1, 2):
        for sizes in itertools.product((None, 0, 1, 2), repeat=count):
            yield [
                number(0) if n is None else made(ops.RANGE, number(n), arg=((place,), Axis.LOOP))
                for place, n in enumerate(sizes)
            ]


def _bounded_extents() -> Iterator[Example]:
    """Loops whose extents vary within bounds; a loop that begins after another."""
    for low, high in ((0, 1), (1, 2), (1, 1), (0, 0)):
        extent = made(ops.MAX, made(ops.MIN, X, number(high)), number(low))
        r = made(ops.RANGE, extent, arg=((0,), Axis.LOOP))
        store = made(ops.STORE, made(ops.INDEX, MEMORY, r), number(9, f32))
        for x in (low, high):
            yield made(ops.SINK, made(ops.END, store, r)), {6: DATA, 3: x}
    for effect in (made(ops.NOOP), made(ops.STORE, made(ops.INDEX, MEMORY, X), number(7, f32))):
        r = made(ops.RANGE, number(1), effect, arg=((0,), Axis.LOOP))
        store = made(ops.STORE, made(ops.INDEX, MEMORY, r), number(9, f32))
        yield made(ops.SINK, made(ops.END, store, r)), {6: DATA, 3: 2}


def _address(ranges: list[UOp]) -> UOp:
    address = number(0)
    for r in ranges:
        address = made(ops.ADD, made(ops.MUL, address, number(2)), r)
    return address


def ends() -> Iterator[Example]:
    for ranges in _sizes():
        element = made(ops.INDEX, MEMORY, _address(ranges))
        store = made(ops.STORE, element, number(9, f32))
        yield made(ops.SINK, made(ops.END, store, *ranges)), {6: DATA}
    yield from _bounded_extents()


def reductions() -> Iterator[Example]:
    for ranges in _sizes():
        for op in (ops.ADD, ops.MUL, ops.MAX, ops.MIN):
            for dtype, data in (
                (f32, DATA),
                (f32, -0.0 * DATA),
                (i32, np.arange(4, dtype=np.int32)),
            ):
                element = made(ops.INDEX, buffer(7, dtype=dtype), _address(ranges))
                yield made(ops.REDUCE, element, *ranges, arg=op), {7: data}
        for op in (ops.MAX, ops.MIN):  # which have no identity on index
            yield made(ops.REDUCE, _address(ranges), *ranges, arg=op), {}
        element = made(ops.INDEX, buffer(7, dtype=boolean), _address(ranges))
        for op in (ops.AND, ops.OR):
            yield made(ops.REDUCE, element, *ranges, arg=op), {7: np.asarray([False, True] * 2)}


def waiting() -> Iterator[Example]:
    """A value after nothing, after a store, and after another value that was."""
    element = made(ops.INDEX, MEMORY, number(1))
    store = made(ops.STORE, element, number(9, f32))
    for value in (X, A, K, element, made(ops.VECTORIZE, X, Y)):
        alone = made(ops.AFTER, value)
        waiting = (alone, made(ops.AFTER, alone), made(ops.AFTER, value, store))
        for graph in (*waiting, made(ops.AFTER, waiting[2], store), made(ops.AFTER, waiting[2])):
            for values in ({3: 5, 4: -7}, {3: 0, 4: 1 << 40}):
                yield graph, {**values, 0: np.bool_(True), 5: np.int8(-128), 6: DATA}
    later = made(ops.AFTER, MEMORY, store)
    for place in range(4):  # of what is stored, one element is read
        for memory in (made(ops.AFTER, MEMORY), later):
            yield made(ops.INDEX, memory, number(place)), {6: DATA}
        read = made(ops.INDEX, made(ops.AFTER, later), number(place))
        second = made(ops.STORE, made(ops.INDEX, MEMORY, number(3)), read)
        yield made(ops.SINK, store, second), {6: DATA}


# -- lanes -----------------------------------------------------------------------------------------

_LANES: Final = (given(10), given(11), given(12), given(13))
_SHORTS: Final = tuple(given(place, i16) for place in range(14, 18))
_VALUES: Final = {
    **dict(zip(range(10, 14), (5, -7, 0, 11), strict=True)),
    **dict(zip(range(14, 18), np.asarray([300, -7, 0, 40], np.int16), strict=True)),
    0: np.bool_(True),
}
VECTOR: Final = made(ops.VECTORIZE, *_LANES)
SHORT: Final = made(ops.VECTORIZE, *_SHORTS)
_CHOSEN: Final = ((0,), (2,), (3, 1), (0, 1, 2, 3), (1, 1), (3, 2, 1, 0), (0, 1))


def _picked(*sources: UOp) -> Iterator[Example]:
    for source, lanes in itertools.product(sources, _CHOSEN):
        if max(lanes) < source.dtype.count:
            yield made(ops.GEP, source, arg=lanes), _VALUES


def whole() -> Iterator[Example]:
    """Every choice of lanes of one to four, of integers and of floats; of pointers and effects."""
    yield from _picked(VECTOR, _LANES[0])
    yield made(ops.GEP, MEMORY, arg=(0,)), {6: DATA}
    store = made(ops.STORE, made(ops.INDEX, MEMORY, number(1)), number(9, f32))
    yield made(ops.SINK, made(ops.GEP, store, arg=(0,))), {6: DATA}
    for count in range(1, 5):
        for kind in (_LANES, _SHORTS):
            source = made(ops.VECTORIZE, *kind[:count])
            for size in range(1, count + 1):
                for lanes in itertools.product(range(count), repeat=size):
                    yield made(ops.GEP, source, arg=lanes), _VALUES
            for op in (ops.ADD, ops.SUB, ops.MUL, ops.MAX):
                computed = made(op, source, source)
                for lanes in (tuple(range(count)), tuple(reversed(range(count)))):
                    yield made(ops.GEP, computed, arg=lanes), _VALUES


def lanes_of_lanes() -> Iterator[Example]:
    yield from _picked(*[made(ops.GEP, VECTOR, arg=lanes) for lanes in _CHOSEN])
    pointers = made(ops.GEP, made(ops.PTRCAT, MEMORY, buffer(7), MEMORY), arg=(2, 1))
    yield made(ops.GEP, pointers, arg=(1,)), {6: DATA, 7: DATA}


def lanes_of_vectors() -> Iterator[Example]:
    yield from _picked(VECTOR, made(ops.VECTORIZE, *[_LANES[0]] * 4))


def lanes_of_constants() -> Iterator[Example]:
    constants = [made(ops.VCONST, dtype=f32.vec(4), arg=(0.0, -0.0, math.nan, 2.0))]
    constants.append(made(ops.VCONST, dtype=index.vec(4), arg=(1, 1, 2, 3)))
    yield from _picked(*constants, number(3, index.vec(4)))


def lanes_of_arithmetic() -> Iterator[Example]:
    other = made(ops.GEP, VECTOR, arg=(3, 2, 1, 0))
    sources = [made(op, VECTOR, other) for op in (ops.ADD, ops.SUB, ops.MUL, ops.MAX)]
    sources += [made(ops.NEG, VECTOR), made(ops.MULACC, VECTOR, other, VECTOR)]
    sources += [made(ops.WHERE, c, VECTOR, other) for c in (A, made(ops.LT, VECTOR, other))]
    yield from _picked(*sources)
    scalars = made(ops.ADD, *_LANES[:2]), made(ops.WHERE, A, *_LANES[:2])
    yield from ((made(ops.GEP, source, arg=(0, 0)), _VALUES) for source in scalars)


def lanes_of_joined() -> Iterator[Example]:
    parts = (made(ops.GEP, VECTOR, arg=(2, 1)), _LANES[3], VECTOR)
    whole = made(ops.CAT, *parts)
    for lanes in ((0,), (1,), (2,), (3,), (6,), (1, 0), (3, 6), (1, 2), (2, 2)):
        yield made(ops.GEP, whole, arg=lanes), _VALUES


def lanes_of_conversions() -> Iterator[Example]:
    sources = [made(ops.CAST, SHORT, dtype=t.vec(4)) for t in (i8, i64, f32)]
    yield from _picked(*sources, made(ops.BITCAST, SHORT, dtype=dtypes.u16.vec(4)))
    scalar = made(ops.CAST, _SHORTS[0], dtype=i64)
    yield from ((made(ops.GEP, scalar, arg=lanes), _VALUES) for lanes in ((0,), (0, 0)))
    yield (
        made(ops.GEP, made(ops.CAST, MEMORY, dtype=f32.vec(4).pointer(size=4)), arg=(0,)),
        {6: DATA},
    )


def lanes_of_unrolled() -> Iterator[Example]:
    for arg in (((0, 2),), ((0, 4),), ((0, 2), (1, 2))):
        unrolled = made(ops.UNROLL, VECTOR, arg=arg)
        for lanes in ((0,), (1,), (1, 0), (0, 0)):
            if max(lanes) < unrolled.dtype.count:
                yield made(ops.GEP, unrolled, arg=lanes), _VALUES


def lanes_of_products() -> Iterator[Example]:
    """Products of 2x1 and 1x2 matrices and tiles of one element, and of 2x2 ones."""
    pair, other = made(ops.GEP, SHORT, arg=(0, 1)), made(ops.GEP, SHORT, arg=(3, 1))
    outer = made(ops.WMMA, pair, other, SHORT, arg=("outer", (2, 2, 1), (1, 1, 1)))
    full = made(ops.WMMA, SHORT, SHORT, SHORT, arg=("full", (2, 2, 2), (1, 2, 1)))
    yield from _picked(outer, full)
    for tile in ((2, 1, 1), (1, 2, 1), (2, 2, 2)):
        yield from _picked(made(ops.WMMA, SHORT, SHORT, SHORT, arg=("tiled", (2, 2, 2), tile)))
    yield (
        made(ops.GEP, made(ops.WMMA, SHORT, SHORT, SHORT, arg=("bare", (2, 2, 2))), arg=(0,)),
        _VALUES,
    )
    yield made(ops.GEP, made(ops.WMMA, SHORT, SHORT, SHORT, arg=("bare",)), arg=(0,)), _VALUES


def gathered() -> Iterator[Example]:
    # of a vector that is no VECTORIZE itself
    source = made(ops.ADD, SHORT, SHORT)
    for lanes in itertools.product(range(4), repeat=2):
        parts = [made(ops.GEP, source, arg=(lane,)) for lane in lanes]
        yield made(ops.VECTORIZE, *parts), _VALUES
        yield made(ops.VECTORIZE, parts[0], made(ops.GEP, SHORT, arg=lanes[1:])), _VALUES
        yield made(ops.VECTORIZE, parts[0], _SHORTS[lanes[1]]), _VALUES
    single = made(ops.GEP, _SHORTS[0], arg=(0,))
    yield made(ops.VECTORIZE, single, single), _VALUES


# -- masked loads ----------------------------------------------------------------------------------


def masked_loads() -> Iterator[Example]:
    i = made(ops.RANGE, number(6), arg=((0,), Axis.LOOP))
    j = made(ops.RANGE, number(2), arg=((1,), Axis.LOOP))
    inside = made(ops.LT, i, number(4))
    above = made(ops.GT, i, j)
    zero = number(0, f32)
    loaded = made(ops.LT, zero, made(ops.INDEX, buffer(8, 6), i))
    values = {6: DATA, 8: np.asarray([1, -1, 2, -2, 3, -3], np.float32), 0: np.float32(7.5)}
    for at in (i, masked(inside, i)):
        element = made(ops.INDEX, MEMORY, at)
        for other in (above, loaded, made(ops.AND, above, loaded)):
            both = made(ops.AND, inside, other)
            for condition in (inside, both, made(ops.AND, both, inside)):
                yield made(ops.WHERE, condition, element, zero), values
                yield made(ops.WHERE, made(ops.NOT, condition), zero, element), values
                yield made(ops.WHERE, condition, element, number(-0.0, f32)), values
                yield made(ops.WHERE, condition, element, given(0, f32)), values
    yield from _other_masked_loads(zero)


def _other_masked_loads(zero: UOp) -> Iterator[Example]:
    """Of a tensor without axes, and of vectors, whose conditions have one lane or as many."""
    alone = made(ops.PARAM, dtype=f32, arg=9)
    elements = made(ops.INDEX, alone), made(ops.INDEX, alone, B)
    for element, a, b in itertools.product(elements, TRUTHS, TRUTHS):
        values = {0: np.bool_(a), 1: np.bool_(b), 9: np.asarray(2.5, np.float32)}
        yield made(ops.WHERE, A, element, zero), values
    lanes = made(ops.VECTORIZE, *[made(ops.MOD, s, number(4)) for s in (X, Y)])
    pair = made(ops.INDEX, MEMORY, lanes, dtype=f32.vec(2))
    both = made(ops.VECTORIZE, A, B)
    yield from on([made(ops.WHERE, c, pair, number(0, f32.vec(2))) for c in (A, both)])


EXAMPLES: Final[Mapping[str, Callable[[], Iterator[Example]]]] = {
    "invalid-operand": operands,
    "invalid-cast": invalid_casts,
    "invalid-choice": invalid_choices,
    "invalid-condition": invalid_conditions,
    "invalid-gate": gates,
    "invalid-load": loads,
    "invalid-store": stores,
    "where-decided": decided,
    "where-truth": truths,
    "where-not": negations,
    "where-where": joined,
    "cast-cast": conversion_chains,
    "cast-where": cast_choices,
    "add-constant-out": sums,
    "compare-by-bounds": bounded,
    "range-single": ends,
    "end-dead": ends,
    "reduce-dead": reductions,
    "after-nothing": waiting,
    "gep-all": whole,
    "gep-gep": lanes_of_lanes,
    "gep-vectorize": lanes_of_vectors,
    "gep-constant": lanes_of_constants,
    "gep-arithmetic": lanes_of_arithmetic,
    "gep-cat": lanes_of_joined,
    "gep-cast": lanes_of_conversions,
    "gep-unroll": lanes_of_unrolled,
    "gep-wmma": lanes_of_products,
    "vectorize-geps": gathered,
    "where-on-load": masked_loads,
    **INDEX_EXAMPLES,
    **REDUCTION_EXAMPLES,
    **BUFFER_EXAMPLES,
}
"""The name of each procedure, and what it is tried on."""

TYPED: Final = ("gep-pointers",)
"""Procedures about pointers as lanes, which the evaluator has no value for: tested by shape."""
