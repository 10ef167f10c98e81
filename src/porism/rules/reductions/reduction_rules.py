"""Reductions: loops whose result has a closed form, or that can be merged or shortened.

    sum of x                   x * N, if x does not depend on the loop
    sum of (r < cut ? x : 0)   x * max(min(N, cut), 0)
    sum of (idx == r ? w[r])   w[idx] if 0 <= idx < N, else 0
    any of (r == x)            0 <= x < N
    sum of x * c               (sum of x) * c
    sum of sums                one sum

Each is tried on every REDUCE of every kernel, so each first tests cheaply whether it can fire.
`REDUCTIONS` changes no result. `FAST_REDUCTIONS` changes float results, and needs the setting
`fast_math`: a product instead of a sum, or a sum of two sums, is rounded in other places, and makes
NaN of infinities that would never have been added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from porism.base.dtypes import Kind, Theory
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.rewrite.rule import RuleSet, procedure, rule
from porism.rewrite.terms import T, cast, literal, p, where, x, y, z
from porism.rules.addresses.validity import may_be_invalid
from porism.rules.reductions.closed_form_sums import (
    closed_form_any,
    closed_form_float_sum,
    closed_form_gather,
    closed_form_sum,
)
from porism.rules.reductions.condition_intervals import may_fail, negate
from porism.rules.reductions.selected_terms import has_mask

_IDEMPOTENT: Final = frozenset({ops.MAX, ops.MIN, ops.AND, ops.OR})
_ANY_OPS: Final = frozenset({ops.OR, ops.MAX, ops.ADD})  # on booleans: whether some term is true

_EXTREMES: Final = frozenset({ops.MAX, ops.MIN})

MOST_MULTIPLICATIONS: Final = 64
"""Multiplications of a power that replaces a product over a loop; chosen by hand."""


def _has_iterations(r: UOp) -> bool:
    """Whether a range provably has an iteration."""
    return r.op is ops.RANGE and r.src[0].vmin >= 1


def _reduce_over(value: UOp, op: Op, left: Sequence[UOp]) -> UOp:
    """Return the value reduced over these ranges, if there are any."""
    return value.reduce(op, *left) if left else value


def _remove_a_range(node: UOp, closed_form: Callable[[UOp, UOp], UOp | None]) -> UOp | None:
    """Return a REDUCE without the first range over which the value has a closed form."""
    value, *ranges = node.src
    for number, r in enumerate(ranges):
        others = [*ranges[:number], *ranges[number + 1 :]]
        if not _has_iterations(r) or any(r in other.ranges for other in others):
            continue
        result = closed_form(value, r)
        if result is not None:
            return _reduce_over(result, node.arg, others)
    return None


def _trip_count(ranges: Sequence[UOp]) -> int:
    """Return the largest trip count of ranges; 0 if it is not known."""
    count = 1
    for r in ranges:
        extent = r.src[0].vmax if r.op is ops.RANGE else math.inf
        count *= 0 if extent == math.inf else int(extent)
    return count


# -- loop-invariant values -------------------------------------------------------------------------


def _invariant_range(node: UOp) -> tuple[UOp, list[UOp]] | None:
    """Return a range that the reduced value does not depend on, and the other ranges."""
    value, *ranges = node.src
    if len(ranges) == 1 and ranges[0] in value.ranges:  # the common case
        return None
    for number, r in enumerate(ranges):
        others = [*ranges[:number], *ranges[number + 1 :]]
        if r.op is not ops.RANGE or r in value.ranges or any(r in s.ranges for s in others):
            continue
        return None if may_be_invalid(value) else (r, others)
    return None


@procedure("reduce-unparented", (ops.REDUCE,), seeds="003.unpar.add 003.unpar.mul 003.unpar.max")
def reduce_unparented(node: UOp) -> UOp | None:
    """Reduce a loop-invariant value without the loop, where that is exact."""
    split = _invariant_range(node)
    if split is None:
        return None
    (r, others), value, op = split, node.src[0], node.arg
    if op in _IDEMPOTENT or value.dtype.kind is Kind.BOOL:
        return _reduce_over(value, op, others) if _has_iterations(r) else None
    if value.dtype.is_float or not _has_iterations(r):
        return None
    if op is ops.ADD:
        return _reduce_over(r.src[0].cast(value.dtype) * value, op, others)
    power = _power(value, r.src[0])
    return None if power is None else _reduce_over(power, op, others)


def _power(value: UOp, exponent: UOp) -> UOp | None:
    """Return an integer to a constant power, by squaring; it wraps like the repeated product."""
    if exponent.op is not ops.CONST or exponent.arg.bit_length() * 2 > MOST_MULTIPLICATIONS:
        return None
    result: UOp | None = None
    for bit in bin(exponent.arg)[2:]:
        if result is not None:
            result = result * result
        if bit == "1":
            result = value if result is None else result * value
    return result


@procedure("reduce-nested", (ops.REDUCE,))
def reduce_nested(node: UOp) -> UOp | None:
    """Merge a reduction of a reduction by the same op into one over both loops."""
    inner = node.src[0]
    if inner.op is not ops.REDUCE or inner.arg is not node.arg:
        return None
    return None if node.dtype.is_float and node.arg not in _EXTREMES else _merge_nested(node)


def _merge_nested(node: UOp) -> UOp | None:
    inner, *outer = node.src
    if inner.op is not ops.REDUCE or inner.arg is not node.arg or not outer:
        return None
    own = inner.src[1:]
    if not own or any(s in outer or any(r in s.ranges for r in outer) for s in own):
        return None
    if any(s in r.ranges for r in outer for s in own):
        return None  # the extent of an outer loop would be that of the inner one's iteration
    return inner.src[0].reduce(node.arg, *outer, *own)


# -- sums ------------------------------------------------------------------------------------------


@procedure("reduce-gather", (ops.REDUCE,), seeds="003.rc.ne")
def reduce_gather(node: UOp) -> UOp | None:
    """Replace a sum of which at most one term is not 0 by that term: a gather."""
    value = node.src[0]
    if node.arg is not ops.ADD or value.dtype.kind is Kind.BOOL or value.op not in _SELECTION_OPS:
        return None
    if value.op is ops.INDEX and not has_mask(value):
        return None
    gathered = _remove_a_range(node, closed_form_gather)
    # a sum starts with 0, and 0 + -0.0 is 0.0
    if gathered is not None and len(node.src) == 2 and value.dtype.is_float:
        return gathered + 0.0
    return gathered


_SELECTION_OPS: Final = frozenset({ops.WHERE, ops.INDEX, ops.CAST, ops.MUL, ops.NEG})


_CLOSED_FORM_OPS: Final = frozenset(
    {ops.WHERE, ops.CAST, ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.RANGE, ops.CONST}
)


@procedure(
    "reduce-collapse",
    (ops.REDUCE,),
    seeds="003.loadcollapse 003.rc.lower 003.rc.upper 003.rc.two 004.2.1",
)
def reduce_collapse(node: UOp) -> UOp | None:
    """Replace a sum by its closed form, such as a count of iterations."""
    value = node.src[0]
    if node.arg is not ops.ADD or value.op not in _CLOSED_FORM_OPS or value.dtype.kind is Kind.BOOL:
        return None
    if not value.dtype.is_float:
        return _remove_a_range(node, closed_form_sum)
    trip_count = _trip_count(node.src[1:])
    if not trip_count:
        return None
    return _remove_a_range(node, lambda value, r: closed_form_float_sum(value, r, trip_count))


@procedure("reduce-distribute", (ops.REDUCE,), seeds="003.distr")
def reduce_distribute(node: UOp) -> UOp | None:
    """Move terms that have a closed form out of a sum of integers."""
    value, *ranges = node.src
    if node.arg is not ops.ADD or value.op not in (ops.ADD, ops.SUB) or value.dtype.is_float:
        return None
    if value.dtype.kind is Kind.BOOL or len(ranges) != 1 or not _has_iterations(ranges[0]):
        return None
    for number, term in enumerate(value.src):
        closed = closed_form_sum(term, ranges[0])
        if closed is not None:
            rest = value.src[1 - number].reduce(ops.ADD, ranges[0])
            return value.op(closed, rest) if number == 0 else value.op(rest, closed)
    return None


@procedure("reduce-factor", (ops.REDUCE,), seeds="004.4.3")
def reduce_factor(node: UOp) -> UOp | None:
    """Move a loop-invariant factor out of a reduction."""
    value, *ranges = node.src
    if value.op is not ops.MUL:
        return None
    split = _invariant_factor(value, ranges)
    if split is None:
        return None
    factor, rest = split
    if node.arg is ops.ADD:
        is_exact = not value.dtype.is_float
    elif node.arg in _EXTREMES and all(_has_iterations(r) for r in ranges):
        is_exact = _preserves_order(factor, rest)
    else:
        is_exact = False
    return rest.reduce(node.arg, *ranges) * factor if is_exact else None


def _invariant_factor(value: UOp, ranges: Sequence[UOp]) -> tuple[UOp, UOp] | None:
    """Return a factor of a product that depends on none of the ranges, and the other factor."""
    for factor, rest in ((value.src[1], value.src[0]), value.src):
        if not any(r in factor.ranges for r in ranges):
            if may_be_invalid(factor) or may_be_invalid(rest):
                return None
            is_defined = all(map(_has_iterations, ranges)) or not may_fail(factor)
            return (factor, rest) if is_defined else None
    return None


def _preserves_order(factor: UOp, rest: UOp) -> bool:
    """Whether multiplication by a factor is monotone on all values of `rest`."""
    if factor.dtype.is_float:  # rounding is monotone; 0 times infinity is NaN
        return factor.op is ops.CONST and 0 < factor.arg < math.inf
    if factor.vmin < 0:
        return False
    if factor.dtype.kind is Kind.INDEX:
        return True
    low, high = factor.dtype.min, factor.dtype.max
    return bool(low <= rest.vmin * factor.vmax and rest.vmax * factor.vmax <= high)


# -- conditions ------------------------------------------------------------------------------------


@procedure("reduce-any", (ops.REDUCE,), seeds="003.loadcollapse")
def reduce_any(node: UOp) -> UOp | None:
    """Replace any or all of a condition over a loop by a closed form."""
    value = node.src[0]
    if value.dtype.kind is not Kind.BOOL or value.op is ops.INDEX:
        return None
    if node.arg in _ANY_OPS:
        return _remove_a_range(node, closed_form_any)
    return _remove_a_range(node, _closed_form_all)


def _closed_form_all(value: UOp, r: UOp) -> UOp | None:
    """Return the condition that another one holds in every iteration of a range."""
    opposite = negate(value)
    fails = None if opposite.op is ops.NOT else closed_form_any(opposite, r)
    return None if fails is None else negate(fails)


# -- fast math -------------------------------------------------------------------------------------

ROUNDS: Final = (
    "products and sums are rounded in other places, a sum of nothing times x is 0 times x, "
    "and 0 times infinity or NaN is 0 where a condition is multiplied by it"
)


@procedure(
    "fast-reduce-collapse",
    (ops.REDUCE,),
    seeds="003.unpar.add 003.rc.upper 003.rc.lower 003.rc.two 003.mulbool 003.distr",
    fast_math=ROUNDS,
)
def fast_reduce_collapse(node: UOp) -> UOp | None:
    """Replace a sum of floats by its closed form on real numbers."""
    value = node.src[0]
    if node.arg is not ops.ADD or not value.dtype.is_float:
        return None
    return _remove_a_range(node, lambda value, r: closed_form_sum(value, r, as_reals=True))


@procedure("fast-reduce-factor", (ops.REDUCE,), seeds="004.4.3", fast_math=ROUNDS)
def fast_reduce_factor(node: UOp) -> UOp | None:
    """Move a loop-invariant factor out of a sum of floats."""
    value, *ranges = node.src
    if node.arg is not ops.ADD or value.op is not ops.MUL or not value.dtype.is_float:
        return None
    split = _invariant_factor(value, ranges)
    return None if split is None else split[1].reduce(ops.ADD, *ranges) * split[0]


@procedure("fast-reduce-nested", (ops.REDUCE,), fast_math=ROUNDS)
def fast_reduce_nested(node: UOp) -> UOp | None:
    """Merge a float reduction of a reduction into one over both loops."""
    return _merge_nested(node) if node.dtype.is_float else None


REDUCTIONS = RuleSet(
    "reductions",
    theory=Theory.STRUCTURE,
    rules=(
        reduce_unparented,
        reduce_nested,
        reduce_gather,
        reduce_any,
        reduce_collapse,
        reduce_factor,
        reduce_distribute,
    ),
)

FAST_REDUCTIONS = RuleSet(
    "fast-reductions",
    theory=Theory.STRUCTURE,
    rules=(fast_reduce_collapse, fast_reduce_factor, fast_reduce_nested),
)

# The equations by which conditions are solved for a range. Inequalities only on unbounded integers,
# since fixed-width sums wrap.
LIFTING_LEMMAS = RuleSet(
    "lifting-lemmas",
    theory=Theory.INTEGERS,
    lemmas=True,
    rules=(
        rule("lift-lt", x + y < z, x < z - y, seeds="003.lift.lt"),
        rule("lift-ge", x + y >= z, x >= z - y, seeds="003.lift.ge"),
    ),
)
LIFTING_EQUATIONS = RuleSet(
    "lifting-equations",
    theory=(Theory.INTEGERS, Theory.FIXED_WIDTH),
    lemmas=True,
    rules=(
        rule("lift-eq", (x + y).eq(z), x.eq(z - y), seeds="003.lift.eq"),
        rule("mul-truth", x * cast(p, T), where(p, x, literal(0)), seeds="003.mulbool"),
    ),
)
