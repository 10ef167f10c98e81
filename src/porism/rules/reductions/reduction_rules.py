"""Reductions: loops that add, multiply or compare what could be had without them.

    sum of x                   x * N, if x does not depend on the loop
    sum of (r < cut ? x : 0)   x * max(min(N, cut), 0)
    sum of (idx == r ? w[r])   w[idx] where that is inside, else 0
    any of (r == x)            0 <= x < N
    sum of x * c               (sum of x) * c
    sum of sums                one sum

Each is tried on every REDUCE of every kernel, so that what cannot fire is left at once.
`REDUCTIONS` changes no result. What changes float results is in `FAST_REDUCTIONS`, for whoever
allows it: a product instead of a sum, or the sum of two sums, is rounded in other places, and makes
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
    closed_any,
    closed_count,
    closed_gather,
    closed_sum,
)
from porism.rules.reductions.condition_intervals import negated
from porism.rules.reductions.selected_terms import has_mask

_IDEMPOTENT: Final = frozenset({ops.MAX, ops.MIN, ops.AND, ops.OR})
_SOME: Final = frozenset({ops.OR, ops.MAX, ops.ADD})  # of conditions: whether one of them holds

_EXTREMES: Final = frozenset({ops.MAX, ops.MIN})

MOST_MULTIPLICATIONS: Final = 64
"""Of a power that takes the place of a product over a loop."""


def _runs(r: UOp) -> bool:
    """Whether a range surely has an iteration."""
    return r.op is ops.RANGE and r.src[0].vmin >= 1


def _without(value: UOp, op: Op, left: Sequence[UOp]) -> UOp:
    """The value, reduced over the ranges that are left."""
    return value.reduce(op, *left) if left else value


def _one_by_one(node: UOp, close: Callable[[UOp, UOp], UOp | None]) -> UOp | None:
    """Take the first range for which there is a way out of a reduction."""
    value, *ranges = node.src
    for place, r in enumerate(ranges):
        left = [*ranges[:place], *ranges[place + 1 :]]
        if not _runs(r) or any(r in other.ranges for other in left):
            continue
        found = close(value, r)
        if found is not None:
            return _without(found, node.arg, left)
    return None


def _times(ranges: Sequence[UOp]) -> int:
    """How often a loop runs at most; 0 if that is not known."""
    most = 1
    for r in ranges:
        size = r.src[0].vmax if r.op is ops.RANGE else math.inf
        most *= 0 if size == math.inf else int(size)
    return most


# -- what does not depend on the loop --------------------------------------------------------------


def _unparented(node: UOp) -> tuple[UOp, list[UOp]] | None:
    """A range of a reduction that nothing in it depends on, and the others."""
    value, *ranges = node.src
    if len(ranges) == 1 and ranges[0] in value.ranges:  # as nearly always
        return None
    for place, r in enumerate(ranges):
        left = [*ranges[:place], *ranges[place + 1 :]]
        if r.op is not ops.RANGE or r in value.ranges or any(r in s.ranges for s in left):
            continue
        return None if may_be_invalid(value) else (r, left)
    return None


@procedure("reduce-unparented", (ops.REDUCE,), seeds="003.unpar.add 003.unpar.mul 003.unpar.max")
def reduce_unparented(node: UOp) -> UOp | None:
    """Reduce what is the same in every iteration without the loop, where that is exact."""
    found = _unparented(node)
    if found is None:
        return None
    (r, left), value, op = found, node.src[0], node.arg
    if op in _IDEMPOTENT or value.dtype.kind is Kind.BOOL:
        return _without(value, op, left) if _runs(r) else None
    if value.dtype.is_float or not _runs(r):
        return None
    if op is ops.ADD:
        return _without(r.src[0].cast(value.dtype) * value, op, left)
    power = _power(value, r.src[0])
    return None if power is None else _without(power, op, left)


def _power(value: UOp, exponent: UOp) -> UOp | None:
    """An integer multiplied by itself so often, by squaring: exact, and wraps like the product."""
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
    """Reduce over two loops at once what is reduced over one inside the other."""
    inner = node.src[0]
    if inner.op is not ops.REDUCE or inner.arg is not node.arg:
        return None
    return None if node.dtype.is_float and node.arg not in _EXTREMES else _merged(node)


def _merged(node: UOp) -> UOp | None:
    inner, *outer = node.src
    if inner.op is not ops.REDUCE or inner.arg is not node.arg or not outer:
        return None
    own = inner.src[1:]
    if not own or any(s in outer or any(r in s.ranges for r in outer) for s in own):
        return None
    return inner.src[0].reduce(node.arg, *outer, *own)


# -- sums ------------------------------------------------------------------------------------------


@procedure("reduce-gather", (ops.REDUCE,), seeds="003.rc.ne")
def reduce_gather(node: UOp) -> UOp | None:
    """Read the only element that a sum adds, if there is one, instead of looking for it."""
    value = node.src[0]
    if node.arg is not ops.ADD or value.dtype.kind is Kind.BOOL or value.op not in _SELECTING:
        return None
    if value.op is ops.INDEX and not has_mask(value):  # as often
        return None
    found = _one_by_one(node, closed_gather)
    # a sum begins with 0, and 0 + -0.0 is 0.0
    if found is not None and len(node.src) == 2 and value.dtype.is_float:
        return found + 0.0
    return found


_SELECTING: Final = frozenset({ops.WHERE, ops.INDEX, ops.CAST, ops.MUL, ops.NEG})


_CLOSABLE: Final = frozenset(
    {ops.WHERE, ops.CAST, ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.RANGE, ops.CONST}
)


@procedure(
    "reduce-collapse",
    (ops.REDUCE,),
    seeds="003.loadcollapse 003.rc.lower 003.rc.upper 003.rc.two 004.2.1",
)
def reduce_collapse(node: UOp) -> UOp | None:
    """Count the iterations in which a sum adds something, instead of going through them."""
    value = node.src[0]
    if node.arg is not ops.ADD or value.op not in _CLOSABLE or value.dtype.kind is Kind.BOOL:
        return None
    if not value.dtype.is_float:
        return _one_by_one(node, closed_sum)
    times = _times(node.src[1:])
    if not times:
        return None
    return _one_by_one(node, lambda value, r: closed_count(value, r, times))


@procedure("reduce-distribute", (ops.REDUCE,), seeds="003.distr")
def reduce_distribute(node: UOp) -> UOp | None:
    """Take those terms of a sum of integers out of its loop that need no loop."""
    value, *ranges = node.src
    if node.arg is not ops.ADD or value.op not in (ops.ADD, ops.SUB) or value.dtype.is_float:
        return None
    if value.dtype.kind is Kind.BOOL or len(ranges) != 1 or not _runs(ranges[0]):
        return None
    for place, term in enumerate(value.src):
        closed = closed_sum(term, ranges[0])
        if closed is not None:
            rest = value.src[1 - place].reduce(ops.ADD, ranges[0])
            return value.op(closed, rest) if place == 0 else value.op(rest, closed)
    return None


@procedure("reduce-factor", (ops.REDUCE,), seeds="004.4.3")
def reduce_factor(node: UOp) -> UOp | None:
    """Multiply the result of a reduction by what every element of it is multiplied by."""
    value, *ranges = node.src
    if value.op is not ops.MUL:
        return None
    found = _factor(value, ranges)
    if found is None:
        return None
    factor, rest = found
    if node.arg is ops.ADD:
        good = not value.dtype.is_float
    elif node.arg in _EXTREMES and all(_runs(r) for r in ranges):
        good = _keeps_order(factor, rest)
    else:
        good = False
    return rest.reduce(node.arg, *ranges) * factor if good else None


def _factor(value: UOp, ranges: Sequence[UOp]) -> tuple[UOp, UOp] | None:
    """A factor of a product that depends on none of the ranges, and the other one."""
    for factor, rest in ((value.src[1], value.src[0]), value.src):
        if not any(r in factor.ranges for r in ranges):
            return None if may_be_invalid(factor) or may_be_invalid(rest) else (factor, rest)
    return None


def _keeps_order(factor: UOp, rest: UOp) -> bool:
    """Whether multiplying by a factor does not change which of several values is the largest."""
    if factor.dtype.is_float:  # rounding keeps the order; 0 times infinity does not
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
    """Say when a condition holds in some iteration, or in all, without going through them."""
    value = node.src[0]
    if value.dtype.kind is not Kind.BOOL or value.op is ops.INDEX:
        return None
    if node.arg in _SOME:
        return _one_by_one(node, closed_any)
    return _one_by_one(node, _always)


def _always(value: UOp, r: UOp) -> UOp | None:
    opposite = negated(value)
    found = None if opposite.op is ops.NOT else closed_any(opposite, r)
    return None if found is None else negated(found)


# -- where float results may change ----------------------------------------------------------------

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
    """Close a sum of floats as if they were real numbers."""
    value = node.src[0]
    if node.arg is not ops.ADD or not value.dtype.is_float:
        return None
    return _one_by_one(node, lambda value, r: closed_sum(value, r, as_reals=True))


@procedure("fast-reduce-factor", (ops.REDUCE,), seeds="004.4.3", fast_math=ROUNDS)
def fast_reduce_factor(node: UOp) -> UOp | None:
    """Multiply a sum of floats once instead of each of its terms."""
    value, *ranges = node.src
    if node.arg is not ops.ADD or value.op is not ops.MUL or not value.dtype.is_float:
        return None
    found = _factor(value, ranges)
    return None if found is None else found[1].reduce(ops.ADD, *ranges) * found[0]


@procedure("fast-reduce-nested", (ops.REDUCE,), fast_math=ROUNDS)
def fast_reduce_nested(node: UOp) -> UOp | None:
    """Sum floats over two loops at once that are summed over one inside the other."""
    return _merged(node) if node.dtype.is_float else None


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

# What conditions are solved by. On words an inequality is not, since sums wrap; an equation is.
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
