"""Reduction examples: small loops for the procedures that do without them.

Among them are those for which the rules of the seeds, as they are written, are wrong: ends outside
of the loop, loops that do not run, words that wrap, infinities that are not added, and -0.0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from porism.base.dtypes import boolean, f16, f32, i8, i32, i64, u8
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.prove.example_variations import Example
from tests.examples import closed_form_examples
from tests.examples.example_graphs import (
    ORDERS,
    buffer,
    given,
    made,
    masked,
    number,
)
from tests.examples.long_reduction_examples import long_reductions

SIZE: Final = 4
_VALUES: Final = given(20, i32)
_CUT, _OTHER = given(21), given(22)
_WORD, _LONG = given(23, i32), given(24, i64)
_TRUTH: Final = given(25, boolean)
_FLOAT: Final = given(26, f32)
TABLE: Final = buffer(27, SIZE)
INTEGERS: Final = buffer(28, SIZE, i32)


def loop(size: int = SIZE, place: int = 0) -> UOp:
    return made(ops.RANGE, number(size), arg=((place,), Axis.REDUCE))


def _reduced(value: UOp, *ranges: UOp, op: Op = ops.ADD) -> UOp:
    return made(ops.REDUCE, value, *ranges, arg=op)


def _sum(value: UOp, r: UOp) -> UOp:
    return _reduced(value, r)


def _chosen(condition: UOp, value: UOp, other: float = 0) -> UOp:
    return made(ops.WHERE, condition, value, number(other, value.dtype))


def _inputs() -> Iterator[dict[Any, Any]]:
    """Ends inside and outside of a loop, words at their limits, floats of every kind."""
    floats = [math.inf, -0.0, math.nan, 0.1]
    tables = [np.asarray([1.5, -0.0, math.inf, -2.5]), np.asarray([-0.0, math.nan, 3.5, 1e30])]
    for cut, other in itertools.product((-2, 0, 1, 3, 9, 1 << 40), (-1, 2, 5)):
        for word in (0, 2, i32.max, i32.min):
            yield {
                20: np.int32(word + 3 if word <= 2 else word),
                21: cut,
                22: other,
                23: np.int32(word),
                24: np.int64(cut if other == 2 else (1 << 32) + cut),
                25: np.bool_(cut % 2),
                26: np.float32(floats[cut % 4]),
                27: tables[cut % 2].astype(np.float32),
                28: np.asarray([word, 3, -7, i32.max], np.int64).astype(np.int32),
            }


def _on(*graphs: UOp) -> Iterator[Example]:
    for graph in graphs:
        for values in _inputs():
            yield graph, values


# -- what does not depend on the loop --------------------------------------------------------------


def unparented() -> Iterator[Example]:
    every = (ops.ADD, ops.MUL, ops.MAX, ops.MIN, ops.AND, ops.OR)
    for size, op in itertools.product((0, 1, 3, 13), every):
        r, other = loop(size), loop(SIZE, 1)
        kinds = {_VALUES, _CUT, _FLOAT} if op in every[:4] else {_VALUES, _TRUTH}
        for value in (v for v in (_VALUES, _CUT, _FLOAT, _TRUTH) if v in kinds):
            yield from _on(_reduced(value, r, op=op))
        element = made(ops.INDEX, INTEGERS, other)
        yield from _on(_reduced(element, r, other, op=op))
    # of more than a hundred million iterations, few of which are here
    words = given(29, i8)
    for word in (-128, -3, 0, 127):
        yield _reduced(words, loop(300)), {29: np.int8(word)}
        yield _reduced(words, loop(300), op=ops.MUL), {29: np.int8(word)}
    yield from closed_form_examples.more_unparented()


def nested() -> Iterator[Example]:
    r, s = loop(3), loop(SIZE, 1)
    for op in (ops.ADD, ops.MUL, ops.MAX, ops.MIN):
        element = made(ops.ADD, made(ops.INDEX, INTEGERS, s), made(ops.CAST, r, dtype=i32))
        yield from _on(_reduced(_reduced(element, s, op=op), r, op=op))
        yield from _on(_reduced(_reduced(element, s, op=op), r, op=ops.MAX))
        yield from _on(_reduced(_reduced(made(ops.INDEX, INTEGERS, s), s, op=op), s, op=op))
    triangle = made(ops.RANGE, made(ops.ADD, r, number(1)), arg=((1,), Axis.REDUCE))
    yield from _on(_reduced(_reduced(triangle, triangle), r))
    floats = made(ops.MUL, made(ops.INDEX, TABLE, s), made(ops.CAST, r, dtype=f32))
    yield from _on(_reduced(_reduced(floats, s, op=ops.MAX), r, op=ops.MAX))
    yield from closed_form_examples.more_nested()


def factors() -> Iterator[Example]:
    r = loop()
    element, floats = made(ops.INDEX, INTEGERS, r), made(ops.INDEX, TABLE, r)
    for op, factor in itertools.product((ops.ADD, ops.MAX, ops.MIN), (-1, 0, 3)):
        constant = number(factor, i32)
        yield from _on(_reduced(made(ops.MUL, element, constant), r, op=op))
        yield from _on(_reduced(made(ops.MUL, r, number(factor)), r, op=op))
        product = made(ops.MUL, made(ops.MUL, r, r), made(ops.MAX, _CUT, number(factor)))
        yield from _on(_reduced(product, r, op=op))
        yield from _on(_reduced(made(ops.MUL, floats, number(factor, f32)), r, op=op))
    yield from _on(_sum(made(ops.MUL, _WORD, element), r))
    small = made(ops.MOD, element, number(5, i32))
    yield from _on(_reduced(made(ops.MUL, small, number(7, i32)), r, op=ops.MAX))
    yield from _on(_reduced(made(ops.MUL, r, number(2)), loop(0), op=ops.ADD))
    for s in (loop(0), r):
        quotient = made(ops.IDIV, number(12), _CUT)
        yield from _on(_sum(made(ops.MUL, made(ops.MUL, s, s), quotient), s))
        t = loop(3, 1)
        yield from _on(_reduced(made(ops.MUL, made(ops.MUL, s, t), quotient), s, t))
    yield from _products_at_limits()
    yield from closed_form_examples.more_factors()


def _products_at_limits() -> Iterator[Example]:
    """Elements and factors at the limits of their types, in loops that may not run."""
    for dtype, op, size in itertools.product((i8, u8, f32), (ops.MAX, ops.MIN), (0, 1, 2)):
        r = loop(size)
        element = made(ops.INDEX, buffer(30, 2, dtype), r)
        # of which one end alone may be too far out
        halves = [made(bound, element, number(0, dtype)) for bound in (ops.MIN, ops.MAX)]
        constants = (0, 1, 2, 3, -1) if dtype is not f32 else (0.0, 0.5, -1.0, math.inf, math.nan)
        pairs = ((127, 64), (130, 206)) if dtype is not f32 else ((-0.0, 0.0), (math.inf, -1.5))
        for rest, constant, pair in itertools.product((element, *halves), constants, pairs):
            data = np.asarray(pair).astype(dtype.numpy)
            graph = _reduced(made(ops.MUL, rest, number(constant, dtype)), r, op=op)
            yield graph, {30: data}
            yield graph, {30: -data}


# -- conditions ------------------------------------------------------------------------------------


def _conditions(r: UOp) -> Iterator[UOp]:
    """Every kind of comparison of a loop's counter with something."""
    for op in ORDERS:
        yield made(op, r, _CUT)
        yield made(op, _CUT, made(ops.MUL, r, number(-2)))
        yield made(op, made(ops.ADD, r, _CUT), _OTHER)
        yield made(op, made(ops.SUB, _OTHER, made(ops.MUL, r, number(3))), _CUT)
        yield made(op, made(ops.IDIV, made(ops.ADD, r, _CUT), number(2)), _OTHER)
        yield made(op, made(ops.CAST, r, dtype=i64), _LONG)
        yield made(op, made(ops.CAST, r, dtype=i32), _WORD)
        yield made(op, made(ops.ADD, made(ops.CAST, r, dtype=i32), _WORD), number(2, i32))
        yield made(op, made(ops.SUB, _WORD, made(ops.CAST, r, dtype=i32)), number(-1, i32))
    low, high = made(ops.GE, r, _CUT), made(ops.LT, r, _OTHER)
    yield made(ops.AND, low, high)
    yield made(ops.OR, low, high)
    yield made(ops.NOT, low)
    yield made(ops.NOT, made(ops.AND, low, high))
    yield made(ops.AND, _TRUTH, made(ops.OR, low, made(ops.NE, r, _OTHER)))
    yield made(ops.AND, low, made(ops.EQ, made(ops.MOD, r, number(2)), number(0)))


def collapsed() -> Iterator[Example]:
    for size in (1, SIZE):
        r = loop(size)
        for condition in _conditions(r):
            yield from _on(_sum(_chosen(condition, number(1)), r))
        low = made(ops.LT, r, _CUT)
        both = made(ops.AND, made(ops.GE, r, _CUT), made(ops.LT, r, _OTHER))
        for value in (_WORD, number(7, i32), made(ops.INDEX, INTEGERS, number(1))):
            yield from _on(_sum(_chosen(low, value), r))
            yield from _on(_sum(made(ops.WHERE, low, number(0, value.dtype), value), r))
            yield from _on(_sum(made(ops.MUL, made(ops.CAST, both, dtype=i32), value), r))
            yield from _on(_sum(made(ops.WHERE, both, value, made(ops.CAST, r, dtype=i32)), r))
        for dtype in (i8, i64, f32, f16):
            yield from _on(_sum(made(ops.CAST, both, dtype=dtype), r))
            yield from _on(_sum(made(ops.CAST, r, dtype=dtype), r))
        for other in (math.nan, math.inf, -0.0, 0.5, 3.0):
            yield from _on(_sum(_chosen(low, number(other, f32)), r))
        yield from _on(_sum(_chosen(low, _FLOAT), r))
        yield from _on(_sum(_chosen(low, r), r))
        yield from _on(_sum(made(ops.ADD, made(ops.MUL, r, _CUT), _OTHER), r))
    yield from _on(_sum(_chosen(made(ops.GE, loop(0), _CUT), number(1)), loop(0)))
    r, s = loop(), loop(3, 1)
    below = made(ops.LT, made(ops.ADD, r, s), _CUT)
    yield from _on(_reduced(made(ops.CAST, below, dtype=f32), r, s))
    # a narrow sum that is widened before it is added up
    narrow = made(ops.MUL, made(ops.CAST, r, dtype=i8), number(100, i8))
    yield from _on(_sum(made(ops.CAST, narrow, dtype=i32), r))
    # up to the ends of a narrow type, and one beyond them
    for dtype, factor, offset in (
        *((i8, 42, 1), (i8, 42, 2), (i8, -42, -2), (i8, -42, -3)),
        *((u8, 85, 0), (u8, 85, 1)),
    ):
        scaled = made(ops.MUL, made(ops.CAST, r, dtype=dtype), number(factor, dtype))
        shifted = made(ops.ADD, scaled, number(offset, dtype))
        yield from _on(_sum(made(ops.CAST, shifted, dtype=i32), r))
    # a sum that a float rounds at each step
    large = made(ops.WHERE, made(ops.LT, r, _CUT), number(2048.0, f16), number(1.0, f16))
    yield from _on(_sum(large, r))
    # numbers that are no multiples of one
    both = made(ops.AND, made(ops.GE, r, _CUT), made(ops.LT, r, _OTHER))
    for first, second in ((2.5, 1.0), (-3.0, 0.25)):
        chosen = made(ops.WHERE, both, number(first, f16), number(second, f16))
        yield from _on(_sum(chosen, r), _sum(made(ops.CAST, chosen, dtype=f32), r))
        yield from _on(_sum(made(ops.NEG, chosen), r))
    yield from closed_form_examples.more_sums()


def distributed() -> Iterator[Example]:
    r = loop()
    element, floats = made(ops.INDEX, INTEGERS, r), made(ops.INDEX, TABLE, r)
    counted = made(ops.CAST, made(ops.LT, r, _CUT), dtype=i32)
    for op in (ops.ADD, ops.SUB):
        yield from _on(_sum(made(op, element, counted), r), _sum(made(op, counted, element), r))
        yield from _on(_sum(made(op, floats, _FLOAT), r))
        yield from _on(_sum(made(op, element, _WORD), r))


def _selections(equal: UOp, word: UOp, element: UOp) -> Iterator[UOp]:
    """Terms that are 0 but in one iteration; of floats, also some that may be 0 * inf elsewhere."""
    chosen, small = made(ops.CAST, equal, dtype=i32), made(ops.CAST, word, dtype=i8)
    for term in (made(ops.MUL, chosen, word), made(ops.MUL, word, chosen)):
        yield from (term, made(ops.CAST, term, dtype=i64), made(ops.CAST, term, dtype=f32))
    yield made(ops.NEG, made(ops.MUL, _chosen(equal, word), word))
    yield made(ops.MUL, _chosen(equal, element), element)
    truth = made(ops.CAST, equal, dtype=f32)
    for other in (element, made(ops.CAST, word, dtype=f32), made(ops.NEG, number(2.5, f32))):
        yield made(ops.MUL, truth, other)
    half = made(ops.CAST, equal, dtype=f16)
    yield made(ops.CAST, made(ops.MUL, half, made(ops.CAST, small, dtype=f16)), dtype=f32)
    yield made(ops.MUL, half, made(ops.CAST, word, dtype=f16))  # may become infinite


def gathered() -> Iterator[Example]:
    for size in (1, SIZE):
        r = loop(size)
        element, word = made(ops.INDEX, TABLE, r), made(ops.INDEX, INTEGERS, r)
        for condition in _conditions(r):
            yield from _on(_sum(_chosen(condition, element), r))
        equal = made(ops.EQ, made(ops.CAST, r, dtype=i64), _LONG)
        other = made(ops.NE, _CUT, r)
        positive = made(ops.AND, equal, made(ops.GT, word, number(0, i32)))
        for condition in (equal, positive, made(ops.AND, positive, _TRUTH)):
            yield from _on(_sum(_chosen(condition, word), r), _sum(_chosen(condition, _FLOAT), r))
            masked_element = made(ops.INDEX, TABLE, masked(condition, r))
            yield from _on(_sum(masked_element, r), _sum(_chosen(condition, masked_element), r))
        yield from _on(_sum(made(ops.WHERE, other, number(0.0, f32), element), r))
        divided = made(ops.IDIV, number(12), made(ops.ADD, r, number(1)))
        yield from _on(_sum(_chosen(made(ops.EQ, r, _CUT), divided), r))
        yield from _on(*(_sum(term, r) for term in _selections(equal, word, element)))
    r, s = loop(), loop(3, 1)
    backwards = made(ops.EQ, made(ops.ADD, r, s), _OTHER)
    yield from _on(_reduced(_chosen(backwards, made(ops.INDEX, TABLE, r)), s, r))
    yield from closed_form_examples.more_gathers()


def conditions() -> Iterator[Example]:
    for size, op in itertools.product((1, SIZE), (ops.OR, ops.AND, ops.MAX, ops.MIN)):
        r = loop(size)
        for condition in _conditions(r):
            whole = _on(_reduced(condition, r, op=op))
            yield from whole if size == SIZE and op is ops.OR else itertools.islice(whole, 0, 99, 5)
    yield from closed_form_examples.more_conditions()


# -- fast math: examples for which it is exact -----------------------------------------------------


def _exact(*graphs: UOp) -> Iterator[Example]:
    for graph, values in _on(*graphs):
        table = np.asarray([1.5, -2.5, 3.5, 0.25], np.float32)
        yield graph, {**values, 26: np.float32(0.5 * abs(values[22])), 27: table}


def fast_sums() -> Iterator[Example]:
    r = loop()
    low, element = made(ops.LT, r, _CUT), made(ops.INDEX, TABLE, r)
    yield from _exact(_sum(_FLOAT, r), _sum(_chosen(low, _FLOAT), r))
    truth = made(ops.CAST, made(ops.EQ, r, _OTHER), dtype=f32)
    yield from _exact(_sum(made(ops.MUL, truth, element), r))
    yield from _exact(_sum(made(ops.ADD, made(ops.MUL, truth, element), _FLOAT), r))
    yield from closed_form_examples.more_fast_sums()


def fast_factors() -> Iterator[Example]:
    r = loop()
    yield from _exact(_sum(made(ops.MUL, made(ops.INDEX, TABLE, r), number(0.5, f32)), r))
    yield from closed_form_examples.more_fast_factors()


def fast_nested() -> Iterator[Example]:
    r, s = loop(), loop(3, 1)
    element = made(ops.MUL, made(ops.INDEX, TABLE, r), made(ops.CAST, s, dtype=f32))
    yield from _exact(_reduced(_reduced(element, r), s))
    yield from closed_form_examples.more_fast_nested()


REDUCTION_EXAMPLES: Final[Mapping[str, Callable[[], Iterator[Example]]]] = {
    "reduce-unparented": unparented,
    "reduce-nested": nested,
    "reduce-gather": gathered,
    "reduce-any": conditions,
    "reduce-collapse": collapsed,
    "reduce-factor": factors,
    "reduce-distribute": distributed,
    "fast-reduce-collapse": fast_sums,
    "fast-reduce-factor": fast_factors,
    "fast-reduce-nested": fast_nested,
    "split-reduction": long_reductions,
}
"""The name of each procedure about reductions, and what it is tried on."""
