"""Closed form examples: sums that have none, and sums at the limits of the types they use.

They are for the guards of the closed forms: a part of a term or of a condition that cannot be
solved, at each place where one may stand; sums and products up to the ends of narrow types, and one
beyond; numbers that a float rounds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from porism.base.dtypes import (
    DType,
    Space,
    bf16,
    boolean,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    index,
    u8,
)
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.prove.example_variations import LARGEST_DATA, Example
from tests.examples.example_graphs import buffer, given, made, masked, number

SIZE: Final = 4
_CUT, _OTHER = given(21), given(22)
_WORD, _SMALL = given(23, i32), given(31, i8)
_TRUTH: Final = given(25, boolean)
_FLOAT: Final = given(26, f32)
_TABLE: Final = buffer(27, SIZE)
_INTEGERS: Final = buffer(28, SIZE, i32)
_BYTES: Final = buffer(32, SIZE, i8)
_TRUTHS: Final = buffer(33, SIZE, boolean)
_FIRST: Final = given(0, i32)
_EXTENT: Final = UOp.variable("extent", 1, 6)
_UNBOUNDED: Final = UOp.variable("unbounded", 1, None)
_THREAD: Final = made(ops.SPECIAL, number(SIZE), dtype=index, arg="thread0")
"""No loop: each thread has a value of its own."""


_UNVARIED: Final = {34: np.zeros(LARGEST_DATA + 1)}
"""Inputs of examples that are not varied: one of them is large."""


def _loop(size: int | UOp = SIZE, place: int = 0) -> UOp:
    extent = number(size) if isinstance(size, int) else size
    return made(ops.RANGE, extent, arg=((place,), Axis.REDUCE))


def _reduced(value: UOp, *ranges: UOp, op: Op = ops.ADD) -> UOp:
    return made(ops.REDUCE, value, *ranges, arg=op)


def _chosen(condition: UOp, value: UOp, other: float = 0) -> UOp:
    return made(ops.WHERE, condition, value, number(other, value.dtype))


def _cast(value: UOp, dtype: DType) -> UOp:
    return made(ops.CAST, value, dtype=dtype)


def _between(value: UOp, low: int, high: int) -> UOp:
    limits = number(low, value.dtype), number(high, value.dtype)
    return made(ops.MIN, made(ops.MAX, value, limits[0]), limits[1])


def _inputs() -> Iterator[dict[Any, Any]]:
    for cut, other in ((-2, 5), (0, 2), (1, 1), (1, 2), (2, -1), (3, 3), (9, 2)):
        for word, small in ((2, 1), (i32.max, 127), (i32.min, -128)):
            yield {
                0: np.int32(word),
                21: cut,
                22: other,
                23: np.int32(word),
                25: np.bool_(cut % 2),
                26: np.float32((math.nan, 0.25, math.inf)[cut % 3]),
                27: np.asarray([1.5, math.nan, -math.inf, -2.5], np.float32),
                28: np.asarray([word, 3, -7, i32.max], np.int32),
                31: np.int8(small),
                32: np.asarray([small, 100, -100, 127], np.int8),
                33: np.asarray([True, False, cut == 2, True]),
                _EXTENT: 5,
                _UNBOUNDED: 3,
            }


def _on(*graphs: UOp) -> Iterator[Example]:
    for graph in graphs:
        for values in _inputs():
            yield graph, values


# -- conditions ------------------------------------------------------------------------------------


def narrow_conditions(r: UOp) -> Iterator[UOp]:
    """Comparisons in narrow types, up to their ends and beyond; and some that have no solution."""
    byte, unsigned = _cast(r, i8), _cast(r, u8)
    limit = number(126, i8)
    for op in (ops.LT, ops.GE, ops.EQ):
        for offset in (124, 125):
            yield made(op, made(ops.ADD, byte, number(offset, i8)), limit)
            yield made(op, made(ops.SUB, number(-offset, i8), byte), number(-126, i8))
        for factor in (42, 43, -42, -43):
            yield made(op, made(ops.MUL, byte, number(factor, i8)), number(84, i8))
        yield made(op, made(ops.NEG, unsigned), number(254, u8))
        yield made(op, made(ops.NEG, byte), number(-2, i8))
        for sum_op, last in itertools.product((ops.ADD, ops.SUB), (-3, 3)):
            yield made(op, made(sum_op, byte, _SMALL), number(last, i8))
            yield made(op, made(sum_op, _SMALL, byte), number(last, i8))
        twice = made(ops.MUL, byte, number(2, i8))
        yield made(op, made(ops.ADD, byte, _SMALL), twice)
        half = made(ops.IDIV, r, number(2))
        yield made(op, made(ops.ADD, half, r), _OTHER)
        yield made(op, half, made(ops.SUB, r, _CUT))
        yield made(op, r, made(ops.SUB, made(ops.MUL, r, number(2)), _CUT))
        for divisor in (1, -1, -2):
            yield made(op, made(ops.IDIV, r, number(divisor)), _CUT)
        yield made(op, _cast(made(ops.MUL, r, number(100)), i8), number(44, i8))
        yield made(op, _cast(made(ops.MUL, _cast(r, f32), number(1.5, f32)), i32), _WORD)
        yield made(op, made(ops.MUL, number(3), r), _CUT)
        yield made(op, made(ops.NEG, r), _CUT)
        yield made(op, _cast(r, f32), _FLOAT)
        even = made(ops.MOD, r, number(2))
        for unsolved in (
            *(even, made(ops.NEG, even), made(ops.MUL, even, number(3))),
            *(made(ops.ADD, even, _CUT), made(ops.ADD, _CUT, even)),
            *(made(ops.IDIV, even, number(2)), made(ops.MUL, r, _CUT)),
        ):
            yield made(op, unsolved, _OTHER)
        nothing = made(ops.SUB, r, r)
        yield made(op, made(ops.IDIV, made(ops.ADD, nothing, _CUT), number(2)), _OTHER)
        for factor in (2, -2, 3, -3):
            quotient = made(ops.IDIV, r, number(2))
            yield made(op, made(ops.MUL, quotient, number(factor)), _OTHER)
        yield made(op, r, made(ops.IDIV, number(12), _CUT))
        yield made(op, r, made(ops.IDIV, _CUT, number(3)))
        yield made(op, _cast(r, i32), made(ops.IDIV, number(12, i32), _WORD))
        yield made(op, r, _cast(made(ops.INDEX, _INTEGERS, number(1)), index))
        s = _loop(3, 1)
        yield made(op, r, _reduced(made(ops.MUL, s, _CUT), s))
        yield made(op, made(ops.ADD, r, _cast(made(ops.LT, _CUT, _OTHER), index)), _CUT)
        loaded = made(ops.INDEX, _TRUTHS, number(1))
        yield made(op, r, made(ops.WHERE, loaded, _CUT, _OTHER))


def unsolved_conditions(r: UOp) -> Iterator[UOp]:
    """Conditions of which a part cannot be solved, or not together with another part."""
    low, high, point = made(ops.GE, r, _CUT), made(ops.LT, r, _OTHER), made(ops.EQ, r, _CUT)
    even = made(ops.EQ, made(ops.MOD, r, number(2)), number(0))
    divides = made(ops.GT, made(ops.IDIV, number(12), made(ops.ADD, r, number(1))), number(3))
    loaded = made(ops.LT, made(ops.INDEX, _TABLE, r), number(0.5, f32))
    truth = made(ops.INDEX, _TRUTHS, r)
    odd = _cast(made(ops.MOD, r, number(2)), boolean)
    for other in (even, divides, loaded, truth, odd, made(ops.EQ, r, _OTHER)):
        yield from (other, made(ops.NOT, other))
        yield from (made(ops.AND, point, other), made(ops.AND, other, low))
        yield from (made(ops.OR, other, low), made(ops.OR, low, other))
        yield made(ops.NOT, made(ops.XOR, low, other))
    yield made(ops.NOT, made(ops.XOR, low, high))
    yield from (
        made(ops.AND, point, made(op, r, _OTHER)) for op in (ops.GE, ops.GT, ops.LT, ops.LE)
    )
    yield made(ops.AND, made(ops.NE, r, _CUT), made(ops.NE, r, _OTHER))
    bounded = _between(_CUT, 0, 5)
    yield from (made(ops.GE, r, bounded), made(ops.LT, r, bounded))
    yield made(ops.EQ, _cast(made(ops.LT, r, number(2)), i32), number(1, i32))
    yield made(
        ops.AND, made(ops.GE, r, bounded), made(ops.LT, r, made(ops.ADD, bounded, number(2)))
    )
    least, most = int(i32.min), int(i32.max)
    for low_end, high_end in ((least, most), (least - 1, most), (least, most + 1)):
        yield made(ops.EQ, r, _between(_CUT, low_end, high_end))


def more_conditions() -> Iterator[Example]:
    """Any and all of conditions; reductions of what is none."""
    r = _loop()
    for condition in (*narrow_conditions(r), *unsolved_conditions(r)):
        for op in (ops.OR, ops.AND):
            yield from itertools.islice(_on(_reduced(condition, r, op=op)), 0, None, 5)
    for op in (ops.OR, ops.AND, ops.MAX):
        yield from _on(_reduced(_cast(r, i32), r, op=op), _reduced(_WORD, r, op=op))


# -- sums ------------------------------------------------------------------------------------------


def _terms(r: UOp) -> Iterator[UOp]:
    """Integers, most of which have a closed form in one part, and none in another."""
    low, wide = made(ops.LT, r, _CUT), _cast(r, i32)
    point = made(ops.EQ, r, _CUT)
    even = made(ops.MOD, r, number(2))
    element = made(ops.INDEX, _INTEGERS, r)
    divided = made(ops.IDIV, number(12), made(ops.ADD, r, number(1)))
    differs = made(ops.NE, r, _CUT)
    either = made(ops.OR, low, made(ops.GE, r, _OTHER))
    for a, b in ((even, r), (r, even)):
        yield from (made(ops.ADD, a, b), made(ops.WHERE, _TRUTH, a, b), made(ops.WHERE, low, a, b))
    for condition in (low, point, differs, either):
        yield from (_chosen(condition, even), _chosen(condition, divided))
        yield _chosen(condition, element)
        for small in (_chosen(condition, _WORD), made(ops.MUL, _cast(condition, i32), _WORD)):
            yield from (_cast(small, i64), made(ops.MUL, small, wide), made(ops.MUL, wide, small))
        either_way = made(ops.WHERE, condition, number(3, i32), number(5, i32))
        yield from (made(ops.MUL, either_way, wide), made(ops.MUL, wide, either_way))
        load = made(ops.INDEX, _INTEGERS, masked(condition, r))
        yield from (_cast(load, i64), made(ops.ADD, load, wide), made(ops.ADD, wide, load))
    equal = made(ops.EQ, _CUT, _OTHER)
    yield _chosen(made(ops.AND, low, equal), element)
    yield from (made(ops.MUL, wide, wide), made(ops.MUL, wide, element))
    yield from (made(ops.NEG, wide), made(ops.NEG, even), _cast(even, i32), _cast(even, i8))
    for factor in (0.5, 1.5):
        yield _cast(made(ops.MUL, _cast(r, f32), number(factor, f32)), i32)
    yield from (_chosen(c, number(1)) for c in narrow_conditions(r))
    yield from (_chosen(c, number(1)) for c in unsolved_conditions(r))
    yield from (made(ops.WHERE, c, number(0), r) for c in unsolved_conditions(r))
    yield made(ops.WHERE, low, wide, _FIRST)
    # sums of narrow numbers in a wider type
    byte, small = _cast(r, i8), _between(_SMALL, 0, 3)
    for narrow in (
        *(made(ops.ADD, byte, small), made(ops.ADD, byte, made(ops.INDEX, _BYTES, r))),
        *(made(ops.ADD, byte, _SMALL), made(ops.ADD, small, byte), made(ops.MAX, byte, small)),
    ):
        yield from (_cast(narrow, i16), _cast(narrow, i64), _cast(narrow, index))
        yield _cast(narrow, u8)
    hidden = _cast(masked(_TRUTH, _between(_CUT, 0, 3)), i8)
    yield _cast(made(ops.ADD, byte, hidden), i16)
    large = made(ops.MUL, _cast(r, i64), number(1 << 60, i64))
    yield from (_cast(large, index), _cast(made(ops.ADD, large, large), index))
    # what is masked
    yield made(ops.MUL, r, masked(_TRUTH, _CUT))
    yield made(ops.ADD, made(ops.MAX, r, masked(low, r)), r)
    yield _cast(masked(low, r), i32)


def _partial_terms(r: UOp) -> Iterator[UOp]:
    """Quotients that are undefined where no iteration, or no other clause, asks for them."""
    last = made(ops.LT, r, _OTHER)
    zero_or_more = made(ops.ADD, _OTHER, number(1))
    for quotient in (
        *(made(op, number(12), zero_or_more) for op in (ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD)),
        *(made(op, number(12), _between(_OTHER, -9, 9)) for op in (ops.SHL, ops.SHR)),
        *(made(ops.SHR, number(12), _between(_OTHER, low, 9)) for low in (0, 1, -1)),
        *(made(ops.IDIV, number(12), _between(_OTHER, *ends)) for ends in ((-9, -1), (-9, 0))),
        *(made(ops.IDIV, number(12), _between(_OTHER, *ends)) for ends in ((1, 9), (0, 9))),
        made(ops.IDIV, number(12), number(0)),
    ):
        large = made(ops.GT, quotient, number(3))
        yield from (_chosen(last, made(ops.MUL, r, quotient)), _chosen(last, quotient))
        yield _chosen(last, made(ops.WHERE, large, r, number(1)))
        for condition in (made(ops.AND, large, last), made(ops.AND, last, large)):
            yield from (_chosen(condition, r), made(ops.WHERE, condition, number(0), r))
            either = made(ops.OR, made(ops.EQ, r, _CUT), made(ops.GE, r, number(3)))
            yield _chosen(made(ops.AND, condition, either), r)


def _many(r: UOp, count: int) -> UOp:
    """A sum of as many conditions as are followed, or one more."""
    whole = _chosen(made(ops.LT, r, _CUT), number(1))
    for offset in range(1, count):
        end = made(ops.ADD, _CUT, number(offset))
        whole = made(ops.ADD, whole, _chosen(made(ops.LT, r, end), number(offset + 1)))
    return whole


def more_sums() -> Iterator[Example]:
    r = _loop()
    for term in _terms(r):
        yield from itertools.islice(_on(_reduced(term, r)), 0, None, 2)
    yield from _on(*(_reduced(term, r) for term in _partial_terms(r)))
    above = made(ops.ADD, _cast(r, i64), number(2**53 + 1, i64))  # no float is
    yield _reduced(_cast(above, index), r), {}
    yield from _on(*(_reduced(_many(r, count), r) for count in (16, 17, 18)))
    longer = _loop(made(ops.MAX, _EXTENT, number(3)))
    behind = made(ops.GE, longer, _EXTENT)
    yield from _on(_reduced(_chosen(behind, number(1)), longer))
    # from 3*(x//4) to x, which is never less
    ten, end = _loop(10), _between(_CUT, 0, 9)
    start = made(ops.MUL, made(ops.IDIV, end, number(4)), number(3))
    inside = made(ops.AND, made(ops.GE, ten, start), made(ops.LT, ten, end))
    yield from _on(_reduced(_chosen(inside, number(1)), ten))
    for one in (number(1), number(1.0, f32)):
        yield from _on(_reduced(_chosen(made(ops.LT, _THREAD, _CUT), one), _THREAD))
    yield from _float_sums()
    for size in (_EXTENT, _UNBOUNDED):
        s = _loop(size)
        yield from _on(_reduced(_chosen(made(ops.LT, s, _CUT), number(1.0, f32)), s))
        yield from _on(_reduced(_chosen(made(ops.LT, s, _CUT), number(1)), s))
    yield from _on(_reduced(made(ops.AND, made(ops.LT, r, _CUT), _TRUTH), r))
    truths = made(ops.WHERE, made(ops.LT, r, _CUT), _TRUTH, number(0, boolean))
    yield from _on(_reduced(truths, r))


def more_fast_sums() -> Iterator[Example]:
    """Sums in a narrow type that are cast to floats; and integers, which need no fast math."""
    r = _loop()
    low = made(ops.LT, r, _CUT)
    for dtype, factor in ((i32, 1 << 29), (i8, 40), (i16, 1 << 13)):
        scaled = made(ops.MUL, _cast(r, dtype), number(factor, dtype))
        yield from ((_reduced(_cast(scaled, kind), r), {}) for kind in (f32, f64))
    yield from _on(_reduced(_cast(r, i32), r), _reduced(_chosen(low, _WORD), r))


def more_fast_factors() -> Iterator[Example]:
    r = _loop()
    yield from _on(_reduced(made(ops.MUL, made(ops.INDEX, _INTEGERS, r), _WORD), r))


def more_fast_nested() -> Iterator[Example]:
    r, s = _loop(), _loop(3, 1)
    element = made(ops.MUL, made(ops.INDEX, _INTEGERS, r), _cast(s, i32))
    yield from _on(_reduced(_reduced(element, r), s))


def _float_sums() -> Iterator[Example]:
    r = _loop()
    low, high = made(ops.LT, r, _CUT), made(ops.GE, r, _OTHER)
    for exponent, dtype in itertools.product((-99, -100, -101, -119, -120, -121), (f32, f64)):
        yield from _on(_reduced(_chosen(low, number(2.0**exponent, dtype)), r))
    third = _loop(3)
    for size in (682.0, 683.0):  # three times the second is 2049, which f16 rounds
        yield from _on(_reduced(_chosen(made(ops.LT, third, _CUT), number(size, f16)), third))
    first = made(ops.WHERE, low, number(1.5, f32), number(0.5, f32))
    second = made(ops.WHERE, high, number(2.0, f32), number(0.5, f32))
    truth = _cast(high, f32)
    for value in (
        *(made(ops.MUL, first, second), made(ops.ADD, first, second), made(ops.SUB, first, truth)),
        *(truth, made(ops.NEG, first), made(ops.MAX, first, second), _cast(first, f64)),
        *(made(ops.INDEX, _TABLE, r), _cast(r, f32), _cast(masked(low, r), f32)),
        _cast(made(ops.ADD, _cast(r, i8), _between(_SMALL, 0, 3)), f32),
    ):
        for other in (0.5, 0.25, 1.0, 2.0**-110):
            yield from _on(_reduced(made(ops.WHERE, low, value, number(other, value.dtype)), r))
        yield from _on(_reduced(made(ops.ADD, value, number(1.0, value.dtype)), r))


# -- single terms ----------------------------------------------------------------------------------


def more_gathers() -> Iterator[Example]:
    r, s, t = _loop(), _loop(3, 1), _loop(2, 2)
    point = made(ops.EQ, r, _CUT)
    element = made(ops.INDEX, _TABLE, r)
    below = made(ops.LT, element, number(0.5, f32))
    other = made(ops.OR, made(ops.NE, r, _CUT), below)
    yield from _on(_reduced(made(ops.WHERE, other, number(0, i32), _WORD), r))
    for condition in unsolved_conditions(r):
        both = made(ops.AND, point, condition)
        yield from itertools.islice(_on(_reduced(_chosen(both, element), r)), 0, None, 3)
    # what the only iteration computes is a loop, a buffer, or behind a pointer
    triangle = _loop(made(ops.ADD, r, number(1)), 3)
    kept = made(ops.BUFFERIZE, made(ops.ADD, r, s), s, arg=Space.REGISTER)
    pointer = made(ops.INDEX, _TABLE, r, dtype=_TABLE.dtype)
    inner = _reduced(made(ops.ADD, r, s), s)
    for value in (_reduced(triangle, triangle), made(ops.INDEX, kept, number(1)), inner):
        yield from _on(_reduced(_chosen(point, value), r))
    yield from _on(_reduced(_chosen(point, made(ops.LOAD, pointer)), r))
    # the iteration is that of a loop which the value has too
    for value in (inner, _reduced(made(ops.ADD, made(ops.ADD, r, s), t), s, t)):
        yield from _on(_reduced(_chosen(made(ops.EQ, r, s), value), r, s))
    truths = made(ops.WHERE, point, _TRUTH, number(0, boolean))
    yield from _on(_reduced(truths, r))
    hidden = masked(made(ops.LT, r, _OTHER), r)
    yield from _on(_reduced(_chosen(point, hidden), r))
    alone = made(ops.PARAM, dtype=f32, arg=26)
    yield from _on(_reduced(made(ops.INDEX, alone), r))
    yield from _on(_reduced(made(ops.WHERE, point, _WORD, _FIRST), r))
    deep = _chosen(point, _WORD)
    for dtype in (i64, i32, i64, i32, i64, i32):
        deep = _cast(deep, dtype)
        yield from _on(_reduced(deep, r))
    yield from (pair for term in _finite(point) for pair in _on(_reduced(term, r)))


def _finite(point: UOp) -> Iterator[UOp]:
    """Products of a condition and a float that is finite, or almost always is."""
    for dtype, limit in itertools.product((f16, bf16, f32), (2047, 2048, 2049, 65519, 65520)):
        bounded = _cast(_between(_WORD, -limit, limit), dtype)
        yield made(ops.MUL, _cast(point, dtype), bounded)
    truth, one = _cast(point, f32), number(1.0, f32)
    between = made(ops.MIN, made(ops.MAX, _FLOAT, number(0.0, f32)), one)
    yield made(ops.MUL, _cast(point, f64), _cast(between, f64))
    yield made(ops.MUL, _cast(point, f64), _cast(_FLOAT, f64))
    yield made(ops.MUL, truth, made(ops.WHERE, _TRUTH, one, number(2.0, f32)))
    yield made(ops.MUL, truth, made(ops.WHERE, _TRUTH, one, _FLOAT))
    deep = _cast(_WORD, f32)
    for _ in range(6):
        deep = made(ops.NEG, deep)
        yield made(ops.MUL, truth, deep)


# -- factors, and loops in loops -------------------------------------------------------------------


def more_factors() -> Iterator[Example]:
    r = _loop()
    element = made(ops.INDEX, _BYTES, r)
    for low, high, factor in (
        *((-42, 42, 3), (-43, 42, 3), (-42, 43, 3), (-64, 63, 2), (-64, 64, 2), (-65, 63, 2)),
    ):
        product = made(ops.MUL, _between(element, low, high), number(factor, i8))
        yield from _on(*(_reduced(product, r, op=op) for op in (ops.MAX, ops.MIN)))
    s = _loop(3, 1)
    for product in (made(ops.MUL, element, _cast(s, i8)), made(ops.MUL, _cast(s, i8), element)):
        yield from _on(*(_reduced(product, r, s, op=op) for op in (ops.ADD, ops.MAX)))
    hidden = masked(made(ops.LT, r, _CUT), r)
    yield from _on(_reduced(made(ops.MUL, hidden, _OTHER), r))
    yield from _on(_reduced(made(ops.MUL, r, masked(_TRUTH, _OTHER)), r))


def more_nested() -> Iterator[Example]:
    r, s, t = _loop(3), _loop(SIZE, 1), _loop(2, 2)
    triangle = _loop(made(ops.ADD, r, number(1)), 3)
    both = made(ops.ADD, triangle, t)
    yield from _on(_reduced(_reduced(both, triangle), r, t))
    yield from _on(_reduced(_reduced(both, triangle, s), t, r))
    # the extent of the outer loop depends on a range of that name further out
    yield from _on(_reduced(_reduced(_reduced(r, r), triangle), r))
    element = made(ops.INDEX, _INTEGERS, s)
    yield from _on(_reduced(_reduced(element, s)), _reduced(_reduced(element), s))
    yield from _on(_reduced(_reduced(element, s), s), _reduced(_reduced(element, s, t), s))


def more_unparented() -> Iterator[Example]:
    for size, op in itertools.product((_EXTENT, _UNBOUNDED), (ops.ADD, ops.MUL, ops.MAX)):
        yield from _on(_reduced(_WORD, _loop(size), op=op), _reduced(_WORD, _THREAD, op=op))
    # the extent of the inner loop depends on the outer one, and the value does not
    r = _loop(3)
    triangle = _loop(made(ops.ADD, r, number(1)), 3)
    for ranges, value in itertools.product(((r, triangle), (triangle, r)), (number(5), triangle)):
        for op in (ops.ADD, ops.MUL):
            yield _reduced(value, *ranges, op=op), _UNVARIED
