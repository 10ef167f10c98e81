"""Index examples: small graphs for the procedures that give indices a width and gates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import boolean, f32, i8, i32, i64, index
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.prove.example_variations import Example
from tests.examples.example_graphs import (
    DATA,
    MEMORY,
    NONE,
    ORDERS,
    TOTAL,
    A,
    B,
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

# -- index dtype -----------------------------------------------------------------------------------

_WORD, _LONG = given(18, i32), made(ops.MOD, given(19, i64), number(1 << 32, i64))
_SMALL: Final = made(ops.CAST, K, dtype=index)
_NARROW: Final = made(ops.CAST, _WORD, dtype=index)
_WIDE: Final = made(ops.CAST, _LONG, dtype=index)
_OPERANDS: Final = tuple(
    itertools.permutations((_SMALL, _NARROW, _WIDE, number(1 << 31), number(7)), 2)
)


def _in_words(graphs: list[UOp]) -> Iterator[Example]:
    """Each graph on the edges of what its words hold."""
    for graph in graphs:
        for a, b in itertools.product((i32.min, -7, 0, 3, i32.max), (0, 5, (1 << 40) + 3, -1)):
            words = {18: np.int32(a), 19: np.int64(b), 5: np.int8(a % 200 - 100)}
            yield graph, {**words, 0: np.bool_(b > 0), 6: DATA}


def word_arithmetic() -> Iterator[Example]:
    graphs = [made(op, *pair) for op in (*TOTAL, ops.OR) for pair in _OPERANDS]
    graphs += [made(op, s) for op in (ops.NEG, ops.NOT) for s in (_SMALL, _NARROW, _WIDE)]
    graphs += [made(ops.ADD, made(ops.CAST, A, dtype=index), s) for s in (_SMALL, _WIDE)]
    graphs += [made(ops.MULACC, _SMALL, _NARROW, _WIDE), made(ops.SHL, _WIDE, number(5))]
    yield from _in_words([*graphs, made(ops.SHR, _NARROW, number(70))])


def word_comparisons() -> Iterator[Example]:
    yield from _in_words([made(op, *pair) for op in ORDERS for pair in _OPERANDS])


def word_choices() -> Iterator[Example]:
    yield from _in_words([made(ops.WHERE, A, *pair) for pair in _OPERANDS])


def word_lanes() -> Iterator[Example]:
    narrow, wide = (made(ops.VECTORIZE, s, _SMALL, number(4)) for s in (_NARROW, _WIDE))
    words = made(ops.CAST, made(ops.VECTORIZE, _WORD, _WORD), dtype=index.vec(2))
    unrolled = made(ops.UNROLL, words, arg=((0, 2),))
    graphs = [narrow, wide, made(ops.CAT, words, _WIDE), made(ops.GEP, words, arg=(1,))]
    yield from _in_words([*graphs, unrolled, made(ops.CONTRACT, unrolled, arg=((0, 2),))])


def word_casts() -> Iterator[Example]:
    twice = made(ops.CAST, made(ops.CAST, K, dtype=i64), dtype=index)
    sources = (_SMALL, _NARROW, _WIDE, twice, number(1 << 31))
    types = (i8, dtypes.u16, i32, i64, f32, boolean)
    graphs = [made(ops.CAST, s, dtype=t) for s in sources for t in types]
    truth = made(ops.CAST, A, dtype=index)
    yield from _in_words(
        [*graphs, made(ops.CAST, _NARROW, dtype=index), made(ops.CAST, truth, dtype=i8)]
    )


def word_accesses() -> Iterator[Example]:
    inside = [made(ops.MOD, s, number(4, s.dtype)) for s in (_WORD, _LONG)]
    inside += [made(ops.MAX, made(ops.MIN, _WORD, number(3, i32)), number(0, i32)), number(2, i8)]
    far = made(ops.SUB, _WORD, made(ops.SUB, _WORD, number(1, i32)))
    graphs = []
    none = made(ops.MUL, _WORD, number(0, i32))
    for size, value in (*itertools.product((4, -1), (*inside, far)), (1, none)):
        at = made(ops.CAST, value, dtype=index)
        memory = buffer(6, size)
        graphs.append(made(ops.INDEX, memory, at))
        graphs.append(made(ops.LOAD, made(ops.INDEX, memory, at, A, dtype=memory.dtype)))
        again = made(ops.CAST, memory, dtype=memory.dtype)
        graphs.append(made(ops.LOAD, made(ops.INDEX, again, at, dtype=memory.dtype)))
    tensor = made(ops.PARAM, number(4), dtype=f32, arg=6)
    graphs += [made(ops.INDEX, tensor, made(ops.CAST, s, dtype=index)) for s in inside]
    yield from _in_words([*graphs, made(ops.INDEX, MEMORY, number(3)), *graphs])
    # a gate that is closed, since there is no element
    at, nothing = made(ops.CAST, inside[0], dtype=index), buffer(6, 0)
    closed = made(ops.LOAD, made(ops.INDEX, nothing, at, A, dtype=nothing.dtype))
    yield closed, {18: np.int32(5), 0: np.bool_(False), 6: DATA[:0]}


_LEAST: Final = ((int(i32.min), 0), (int(i32.min) - 1, 0), (int(i32.min), int(i32.max)))


def word_variables() -> Iterator[Example]:
    for low, high in ((-5, 9), (0, i32.max), (0, 1 << 31), (i64.min, i64.max), *_LEAST):
        node, *words = (made(ops.VARIABLE, dtype=t, arg=("n", low, high)) for t in (index, i64))
        if high <= i32.max and i32.min <= low:
            words.append(made(ops.VARIABLE, dtype=i32, arg=("n", low, high)))
        for value in (low, high):
            yield node, dict.fromkeys([node, *words], value)


def word_bindings() -> Iterator[Example]:
    for high, value in ((9, number(7)), (i32.max, _SMALL), (9, _NARROW), (1 << 40, _WIDE)):
        variable = made(ops.VARIABLE, dtype=index, arg=("n", -200, high))
        for graph, inputs in _in_words([made(ops.BIND, variable, value)]):
            if value is not _NARROW or -200 <= inputs[18] <= high:
                yield graph, inputs


def word_loops() -> Iterator[Example]:
    i = made(ops.RANGE, number(4), arg=((0,), Axis.LOOP))
    j = made(ops.RANGE, made(ops.CAST, given(5, i8), dtype=index), arg=((1,), Axis.REDUCE))
    total = made(ops.REDUCE, j, j, arg=ops.ADD)
    values = [number(9, f32), made(ops.CAST, total, dtype=f32)]
    for value, target in itertools.product(values, (MEMORY, made(ops.AFTER, MEMORY, i))):
        stored = made(ops.STORE, made(ops.INDEX, target, i), value)
        yield made(ops.SINK, made(ops.END, stored, i)), {6: DATA, 5: np.int8(3)}
    total = made(ops.REDUCE, made(ops.INDEX, MEMORY, i), i, arg=ops.ADD)
    stored = made(ops.STORE, made(ops.INDEX, MEMORY, number(0)), total)
    yield made(ops.SINK, stored), {6: DATA}
    thread = made(ops.SPECIAL, number(4), arg="thread0")
    stored = made(ops.STORE, made(ops.INDEX, MEMORY, thread), values[0])
    yield made(ops.SINK, stored), {6: DATA}
    yield made(ops.AFTER, _NARROW, stored), {6: DATA, 18: np.int32(5)}


# -- gates -----------------------------------------------------------------------------------------


def masked_lanes() -> Iterator[Example]:
    m, n = masked(A, X), masked(B, Y)
    pair, both = made(ops.VECTORIZE, X, Y), made(ops.VECTORIZE, A, B)
    vectors = [masked(A, pair), masked(both, pair)]
    graphs = [made(ops.VECTORIZE, *s) for s in ((m, n), (m, Y), (X, NONE), (NONE, NONE))]
    graphs += [made(ops.GEP, vectors[1], arg=(1,)), made(ops.CAT, vectors[1], n), vectors[0]]
    unrolled = [made(ops.UNROLL, s, arg=((0, 2),)) for s in (pair, both)]
    graphs += [made(ops.UNROLL, vectors[1], arg=((0, 2),)), made(ops.AFTER, m, made(ops.NOOP))]
    graphs.append(made(ops.CONTRACT, masked(unrolled[1], unrolled[0]), arg=((0, 2),)))
    yield from on(graphs)


def masked_accesses() -> Iterator[Example]:
    x, y = made(ops.MOD, X, number(4)), made(ops.MOD, Y, number(4))
    lanes = made(ops.VECTORIZE, x, y), made(ops.VECTORIZE, A, B)
    graphs = [made(ops.INDEX, MEMORY, s) for s in (masked(A, x), NONE)]
    graphs.append(made(ops.INDEX, MEMORY, masked(A, x), B))
    graphs += [
        made(ops.INDEX, MEMORY, masked(c, lanes[0]), dtype=f32.vec(2)) for c in (A, lanes[1])
    ]
    for other in ((), (lanes[1],)):
        pointer = made(ops.INDEX, MEMORY, masked(lanes[1], lanes[0]), *other, dtype=MEMORY.dtype)
        graphs.append(made(ops.LOAD, pointer, dtype=f32.vec(2)))
    tensor = made(ops.PARAM, number(2), number(2), dtype=f32, arg=6)
    halves = [made(ops.MOD, s, number(2)) for s in (X, Y)]
    graphs.append(made(ops.INDEX, tensor, masked(A, halves[0]), masked(B, halves[1])))
    for graph, inputs in on(graphs):
        data = DATA.reshape(2, 2) if tensor in graph.src else DATA
        yield graph, {**inputs, 6: data}


def masked_data() -> Iterator[Example]:
    """What looks at a masked index only where it is valid."""
    m = masked(A, X)
    graphs = [made(ops.AND, A, made(op, m, Y)) for op in ORDERS]
    graphs += [made(ops.AND, made(ops.EQ, Y, NONE), number(False, boolean))]
    graphs += [
        made(ops.WHERE, A, made(ops.CAST, m, dtype=t), number(0, t)) for t in (f32, i64, index)
    ]
    yield from on(graphs)


def divisions() -> Iterator[Example]:
    divisors = made(ops.MAX, Y, number(0)), made(ops.MIN, Y, number(0)), Y
    graphs = [made(op, X, d) for op in (ops.IDIV, ops.MOD, ops.CDIV) for d in divisors]
    least = made(ops.MAX, K, number(0, i8)), made(ops.MIN, K, number(0, i8)), K
    graphs += [made(op, K, d) for op in (ops.IDIV, ops.MOD, ops.CDIV) for d in least]
    yield from on(graphs, (-2, -1, 0, 1, 3))


INDEX_EXAMPLES: Final[Mapping[str, Callable[[], Iterator[Example]]]] = {
    "mask-lanes": masked_lanes,
    "index-gate": masked_accesses,
    "mask-off": masked_data,
    "index-divisor": divisions,
    "index-bind": word_bindings,
    "index-variable": word_variables,
    "index-loop": word_loops,
    "index-arithmetic": word_arithmetic,
    "index-comparison": word_comparisons,
    "index-choice": word_choices,
    "index-lanes": word_lanes,
    "index-cast": word_casts,
    "index-access": word_accesses,
}
"""The name of each procedure of the lowering, and what it is tried on."""
