"""Intervals: for each op, bounds that contain every value the node can take.

A bound is an int, or an infinity on `index` where nothing is known. The functions here compute on
unbounded integers; `clip` then returns the interval in a fixed-width type: the same if it fits, the
type's limits if the operation may wrap. Of floats only constants have bounds.
Each function is checked against exhaustive evaluation on small boxes, for every op of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from porism.base.dtypes import INFINITY, DType, Kind

if TYPE_CHECKING:
    from porism.ir.node import UOp

Bound = int | float
Interval = tuple[Bound, Bound]
Sources = tuple["UOp", ...]

ANYTHING: Interval = (-INFINITY, INFINITY)
HUGE = 1 << 512  # a bound beyond it becomes infinite; chosen by hand, far above any index
LARGEST_SHIFT = 512  # bits; a shift by more than that has an infinite bound


def clip(dtype: DType, low: Bound, high: Bound) -> Interval:
    """Return the interval in `dtype` of values from `low` to `high`, which wrap around."""
    if dtype.bits:
        return (low, high) if low >= dtype.min and high <= dtype.max else (dtype.min, dtype.max)
    if low < -HUGE:
        low = -INFINITY
    elif low > HUGE:
        low = HUGE
    if high > HUGE:
        high = INFINITY
    elif high < -HUGE:
        high = -HUGE
    return low, high


def unknown(dtype: DType, src: Sources, arg: Any) -> Interval:
    """Return the limits of the type."""
    return dtype.min, dtype.max


def first(dtype: DType, src: Sources, arg: Any) -> Interval:
    """Return the bounds of the first source."""
    return src[0].vmin, src[0].vmax


def hull(dtype: DType, src: Sources, arg: Any) -> Interval:
    """Return the smallest interval that contains the bounds of all sources."""
    return min(s.vmin for s in src), max(s.vmax for s in src)


# -- arithmetic of bounds: ints and infinities, where 0 times infinity is 0 ------------------------


def plus(a: Bound, b: Bound) -> Bound:
    """Return a + b for bounds that are not opposite infinities."""
    try:
        return a + b
    except OverflowError:  # an infinity and an int too large for a float
        return a if isinstance(a, float) else b


def times(a: Bound, b: Bound) -> Bound:
    """Return a * b, where 0 times infinity is 0."""
    if a == 0 or b == 0:
        return 0
    try:
        return a * b
    except OverflowError:
        return INFINITY if (a > 0) == (b > 0) else -INFINITY


def floor_quotient(a: Bound, b: Bound) -> Bound:
    """Return floor(a / b) for b != 0, with the limits at infinity."""
    if isinstance(a, float):
        return a if b > 0 else -a
    if isinstance(b, float):
        return 0 if a == 0 or (a > 0) == (b > 0) else -1
    return a // b


def truncated_quotient(a: Bound, b: Bound) -> Bound:
    """Return a / b towards zero for b != 0, with the limits at infinity."""
    if isinstance(a, float):
        return a if b > 0 else -a
    if isinstance(b, float):
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b >= 0) else -quotient


def corners(function: Any, a: Interval, b: Interval) -> Interval:
    """Return the extremes of a function on a box; it is monotone in each argument."""
    values = [function(x, y) for x in a for y in b]
    return min(values), max(values)


def add(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    try:
        low, high = a.vmin + b.vmin, a.vmax + b.vmax
    except OverflowError:
        low, high = plus(a.vmin, b.vmin), plus(a.vmax, b.vmax)
    if not dtype.bits and low > -HUGE and high < HUGE:
        return low, high
    return clip(dtype, low, high)


def sub(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    return clip(dtype, plus(a.vmin, -b.vmax), plus(a.vmax, -b.vmin))


def mul(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    a_low, a_high, b_low, b_high = a.vmin, a.vmax, b.vmin, b.vmax
    if b_low == b_high and b_low > 0:  # the common case: by a positive constant
        try:
            low, high = a_low * b_low, a_high * b_low
        except OverflowError:
            low, high = times(a_low, b_low), times(a_high, b_low)
        if not dtype.bits and low > -HUGE and high < HUGE:
            return low, high
        return clip(dtype, low, high)
    if a_low >= 0 and b_low >= 0:
        return clip(dtype, times(a_low, b_low), times(a_high, b_high))
    return clip(dtype, *corners(times, (a_low, a_high), (b_low, b_high)))


def neg(dtype: DType, src: Sources, arg: Any) -> Interval:
    return clip(dtype, -src[0].vmax, -src[0].vmin)


def maximum(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    return max(a.vmin, b.vmin), max(a.vmax, b.vmax)


def minimum(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    return min(a.vmin, b.vmin), min(a.vmax, b.vmax)


def _division(dtype: DType, src: Sources, quotient: Any) -> Interval:
    """Return the bounds of a division; by zero a fixed-width result is 0."""
    a, b = src
    if b.vmin == b.vmax and b.vmin > 0:  # the common case: by a positive constant
        return quotient(a.vmin, b.vmin), quotient(a.vmax, b.vmin)
    extremes: list[Bound] = []
    if b.vmin < 0:
        extremes += corners(quotient, (a.vmin, a.vmax), (b.vmin, min(b.vmax, -1)))
    if b.vmax > 0:
        extremes += corners(quotient, (a.vmin, a.vmax), (max(b.vmin, 1), b.vmax))
    if b.vmin <= 0 <= b.vmax and (dtype.kind is not Kind.INDEX or not extremes):
        extremes.append(0)
    return clip(dtype, min(extremes), max(extremes))


def idiv(dtype: DType, src: Sources, arg: Any) -> Interval:
    return _division(dtype, src, floor_quotient)


def cdiv(dtype: DType, src: Sources, arg: Any) -> Interval:
    return _division(dtype, src, truncated_quotient)


def mod(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    low, high = a.vmin, a.vmax
    if b.vmin == b.vmax and b.vmin != 0:
        bucket = floor_quotient(low, b.vmin)
        if isinstance(bucket, int) and bucket == floor_quotient(high, b.vmin):
            return low - bucket * b.vmin, high - bucket * b.vmin
    most: Bound = 0
    if b.vmax > 0:
        most = plus(b.vmax, -1) if low < 0 or b.vmin < 0 else min(plus(b.vmax, -1), high)
    least: Bound = 0
    if b.vmin < 0:
        least = plus(b.vmin, 1) if high > 0 or b.vmax > 0 else max(plus(b.vmin, 1), low)
    return clip(dtype, least, most)


def cmod(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    most = max(plus(max(abs(b.vmin), abs(b.vmax)), -1), 0)  # by zero it is 0
    return clip(dtype, max(min(a.vmin, 0), -most), min(max(a.vmax, 0), most))


def _powers_of_two(low: Bound, high: Bound) -> Interval:
    """Return the bounds of 2 to a power; the lower bound is an int, since the power is an int."""
    return 1 << int(min(low, LARGEST_SHIFT)), INFINITY if high > LARGEST_SHIFT else 1 << int(high)


def shl(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    if b.vmin < 0 or (dtype.bits and b.vmax >= dtype.bits):
        return dtype.min, dtype.max
    powers = _powers_of_two(b.vmin, b.vmax)
    return clip(dtype, *corners(times, (a.vmin, a.vmax), powers))


def shr(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    low, high = b.vmin, b.vmax
    if low < 0:  # a negative shift moves all bits out, as a very large one does
        low, high = 0, INFINITY
    return corners(floor_quotient, (a.vmin, a.vmax), _powers_of_two(low, high))


def _bits(*bounds: Bound) -> int:
    """Return how many bits, without the sign, hold each of these ints."""
    return max(int(b if b >= 0 else ~int(b)).bit_length() for b in bounds)


def bit_and(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    if a.vmin >= 0 and b.vmin >= 0:
        if dtype.kind is Kind.BOOL:
            return min(a.vmin, b.vmin), min(a.vmax, b.vmax)
        if a.vmin == a.vmax and b.vmin == b.vmax:
            both = int(a.vmin) & int(b.vmin)
            return both, both
        return 0, min(a.vmax, b.vmax)
    if a.vmin >= 0:
        return 0, a.vmax
    if b.vmin >= 0:
        return 0, b.vmax
    if isinstance(a.vmin, float) or isinstance(b.vmin, float):
        return dtype.min, max(a.vmax, b.vmax) if max(a.vmin, b.vmin) < 0 else dtype.max
    return -1 << _bits(a.vmin, b.vmin), max(a.vmax, b.vmax)


def bit_or(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    if dtype.kind is Kind.BOOL:
        return max(a.vmin, b.vmin), max(a.vmax, b.vmax)
    ends = (a.vmin, a.vmax, b.vmin, b.vmax)
    if any(isinstance(end, float) for end in ends):
        return (
            (max(a.vmin, b.vmin), dtype.max)
            if min(a.vmin, b.vmin) >= 0
            else unknown(dtype, src, arg)
        )
    high = (1 << _bits(*(end for end in ends if end >= 0))) - 1 if max(ends) >= 0 else -1
    if a.vmax < 0 or b.vmax < 0:
        high = -1
    return min(a.vmin, b.vmin) if min(ends) < 0 else max(a.vmin, b.vmin), high


def bit_xor(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    ends = (a.vmin, a.vmax, b.vmin, b.vmax)
    if any(isinstance(end, float) for end in ends):
        return (0, dtype.max) if min(a.vmin, b.vmin) >= 0 else unknown(dtype, src, arg)
    if a.vmin == a.vmax and b.vmin == b.vmax:
        both = int(a.vmin) ^ int(b.vmin)
        return both, both
    top = 1 << _bits(*ends)
    return (0 if min(ends) >= 0 else -top), top - 1


def bit_not(dtype: DType, src: Sources, arg: Any) -> Interval:
    low, high = src[0].vmin, src[0].vmax
    if dtype.kind in (Kind.BOOL, Kind.UNSIGNED):
        return dtype.max - high, dtype.max - low
    return plus(-high, -1), plus(-low, -1)


# -- comparisons and choices -----------------------------------------------------------------------

FALSE, TRUE, EITHER = (0, 0), (1, 1), (0, 1)


def lt(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    if a.dtype.is_float:
        return EITHER
    if a.vmax < b.vmin:
        return TRUE
    return FALSE if a.vmin >= b.vmax or a is b else EITHER


def le(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    if a.dtype.is_float:
        return EITHER
    if a.vmax <= b.vmin or a is b:
        return TRUE
    return FALSE if a.vmin > b.vmax else EITHER


def gt(dtype: DType, src: Sources, arg: Any) -> Interval:
    return lt(dtype, (src[1], src[0]), arg)


def ge(dtype: DType, src: Sources, arg: Any) -> Interval:
    return le(dtype, (src[1], src[0]), arg)


def eq(dtype: DType, src: Sources, arg: Any) -> Interval:
    a, b = src
    if a.dtype.is_float:
        return EITHER
    if a is b or a.vmin == a.vmax == b.vmin == b.vmax:
        return TRUE
    return FALSE if a.vmax < b.vmin or b.vmax < a.vmin else EITHER


def ne(dtype: DType, src: Sources, arg: Any) -> Interval:
    low, high = eq(dtype, src, arg)
    return 1 - high, 1 - low


def where(dtype: DType, src: Sources, arg: Any) -> Interval:
    condition, yes, no = src
    if condition.vmin == condition.vmax:
        chosen = yes if condition.vmin else no
        return chosen.vmin, chosen.vmax
    if no.op.name == "INVALID":  # the index has a value only where it is valid
        return yes.vmin, yes.vmax
    return min(yes.vmin, no.vmin), max(yes.vmax, no.vmax)


def mulacc(dtype: DType, src: Sources, arg: Any) -> Interval:
    low, high = mul(dtype, src[:2], arg)
    return clip(dtype, plus(low, src[2].vmin), plus(high, src[2].vmax))


def cast(dtype: DType, src: Sources, arg: Any) -> Interval:
    value = src[0]
    if dtype.is_float or value.dtype.is_float or value.dtype.theory is dtype.theory is None:
        return dtype.min, dtype.max
    low, high = value.vmin, value.vmax
    if dtype.kind is Kind.BOOL:
        if low > 0 or high < 0:
            return TRUE
        return FALSE if low == high == 0 else EITHER
    return clip(dtype, low, high)


# -- leaves, loops, memory -------------------------------------------------------------------------


def const(dtype: DType, src: Sources, arg: Any) -> Interval:
    if arg != arg or isinstance(arg, bool):
        return (-INFINITY, INFINITY) if arg != arg else (int(arg), int(arg))
    return arg, arg


def vconst(dtype: DType, src: Sources, arg: Any) -> Interval:
    if any(lane != lane for lane in arg):
        return ANYTHING
    lanes = [int(lane) if isinstance(lane, bool) else lane for lane in arg]
    return min(lanes), max(lanes)


def variable(dtype: DType, src: Sources, arg: Any) -> Interval:
    _, low, high = arg
    return (-INFINITY if low is None else low), (INFINITY if high is None else high)


def loop_index(dtype: DType, src: Sources, arg: Any) -> Interval:
    """Return 0 … end-1; an empty range has no value, and then any interval is right."""
    return 0, max(plus(src[0].vmax, -1), 0)


def iota(dtype: DType, src: Sources, arg: Any) -> Interval:
    """Return 0 … dim-1 for an IOTA along its axis."""
    return loop_index(dtype, src[arg : arg + 1], None)


def bind(dtype: DType, src: Sources, arg: Any) -> Interval:
    """Return the bounds of the variable: a kernel must work for every value that it may have."""
    variable, value = src
    if variable.vmin <= value.vmin and value.vmax <= variable.vmax:
        return variable.vmin, variable.vmax
    # a value that the variable cannot have makes no sense, but an empty interval would be worse
    return value.vmin, value.vmax


def reduce_ranges(dtype: DType, src: Sources, arg: Any) -> Interval:
    """Return the bounds of a REDUCE, from those of its value and the extents of its ranges."""
    value, ranges = src[0], src[1:]
    if dtype.is_float:
        return ANYTHING
    if arg.name in ("MAX", "MIN", "AND", "OR"):
        # a range of no iterations gives the identity, which may lie outside
        if all(r.op.name == "RANGE" and r.src[0].vmin >= 1 for r in ranges):
            combined = {"AND": bit_and, "OR": bit_or}.get(arg.name)
            if combined is not None and dtype.kind is not Kind.BOOL:
                return combined(dtype, (value, value), None)  # of two values, so of any number
            return value.vmin, value.vmax
    elif arg.name == "ADD" and dtype.kind is not Kind.BOOL:
        most: Bound = 1
        for r in ranges:
            most = times(most, max(r.src[0].vmax, 0) if r.op.name == "RANGE" else INFINITY)
        low, high = times(most, min(value.vmin, 0)), times(most, max(value.vmax, 0))
        return clip(dtype, low, high)
    return dtype.min, dtype.max


def zero_padded(dtype: DType, src: Sources, arg: Any) -> Interval:
    return min(src[0].vmin, 0), max(src[0].vmax, 0)
