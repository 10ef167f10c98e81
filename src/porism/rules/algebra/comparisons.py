"""Comparisons: decided by the bounds of their operands, or without sums, negations and divisions.

On `index`, the unbounded integers, the rules hold without a guard on sizes. A fixed-width sum,
negation or product may wrap, so there the guards require bounds that exclude wrapping.

Bounds say nothing of NaN, so floats are not decided by bounds. The bounds of an index that may be
INVALID hold for its valid values only, and a comparison must not become true where the index is
INVALID. No equation can state that, so deciding by bounds is a procedure; its equations are lemmas.
"""

from __future__ import annotations

from typing import Any

from porism.base.dtypes import DType, Theory
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.rewrite.rule import RuleSet, family, procedure, rule
from porism.rewrite.terms import FALSE, TRUE, c0, c1, hi, least, lo, most, x, y
from porism.rules.addresses.validity import may_be_invalid

INTEGERS = (Theory.INTEGERS, Theory.FIXED_WIDTH)

BOUND_LEMMAS = RuleSet(
    "bound-lemmas",
    theory=INTEGERS,
    lemmas=True,
    rules=(
        rule("lt-always", x < y, TRUE, when=hi(x) < lo(y), seeds="002.10.3 002.12.3"),
        rule("lt-never", x < y, FALSE, when=lo(x) >= hi(y), seeds="002.10.3 002.12.3"),
        rule("le-always", x <= y, TRUE, when=hi(x) <= lo(y), seeds="002.10.3"),
        rule("le-never", x <= y, FALSE, when=lo(x) > hi(y), seeds="002.10.3"),
        rule("gt-always", x > y, TRUE, when=lo(x) > hi(y), seeds="002.10.3"),
        rule("gt-never", x > y, FALSE, when=hi(x) <= lo(y), seeds="002.10.3"),
        rule("ge-always", x >= y, TRUE, when=lo(x) >= hi(y), seeds="002.10.3"),
        rule("ge-never", x >= y, FALSE, when=hi(x) < lo(y), seeds="002.10.3"),
        rule("eq-never", x.eq(y), FALSE, when=hi(x) < lo(y), seeds="002.10.3"),
        rule("ne-always", x.ne(y), TRUE, when=hi(x) < lo(y), seeds="002.10.3"),
    ),
)

ORDERS_AND_EQUALITIES = (ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE)


@procedure("compare-by-bounds", ORDERS_AND_EQUALITIES, seeds="002.10.3 002.12.3", on_sources=True)
def compare_by_bounds(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Replace a comparison of integers by its truth where their bounds decide it.

    Operands that may be INVALID are left alone.
    """
    low, high = op.bounds(dtype, src, arg)
    if low != high or any(may_be_invalid(s) for s in src):
        return None
    return UOp.const(dtype, bool(low))


BY_BOUNDS = RuleSet("comparisons-by-bounds", theory=INTEGERS, rules=(compare_by_bounds,))

ORDERS = ORDERS_AND_EQUALITIES[:4]
EQUALITIES = ORDERS_AND_EQUALITIES[4:]

INDEX_COMPARISONS = RuleSet(
    "index-comparisons",
    theory=Theory.INTEGERS,
    rules=(
        # a constant moves to the right side
        family(
            "{op}-offset",
            ORDERS_AND_EQUALITIES,
            lambda op: (op(x + c0, c1), op(x, c1 - c0)),
            seeds="002.10.4",
        ),
        # floor(x / c0) < c1 exactly where x / c0 < c1, since c1 is an integer
        rule("lt-quotient", x // c0 < c1, x < c1 * c0, when=c0 > 0, seeds="002.10.6a 002.10.6b"),
        rule("ge-quotient", x // c0 >= c1, x >= c1 * c0, when=c0 > 0, seeds="002.10.6a"),
    ),
)

WRAPPING_COMPARISONS = RuleSet(
    "wrapping-comparisons",
    theory=Theory.FIXED_WIDTH,
    rules=(
        family(
            "word-{op}-offset",
            ORDERS,
            lambda op: (
                op(x + c0, c1),
                op(x, c1 - c0),
                (lo(x) + c0 >= least(x))
                & (hi(x) + c0 <= most(x))
                & (c1 - c0 >= least(x))
                & (c1 - c0 <= most(x)),
            ),
            seeds="002.10.4",
        ),
        # adding a constant is injective, also where it wraps
        family(
            "word-{op}-offset",
            EQUALITIES,
            lambda op: (op(x + c0, c1), op(x, c1 - c0)),
            seeds="002.10.4",
        ),
        # negation reverses the order of all values but the least one, which is its own negation
        family(
            "word-{op}-negated",
            ORDERS,
            lambda op: (
                op(-x, -y),
                op(y, x),
                (lo(x) > least(x)) & (lo(y) > least(y)),
            ),
            seeds="002.10.5",
        ),
        rule(
            "word-lt-quotient",
            x // c0 < c1,
            x < c1 * c0,
            when=(c0 > 0) & (c1 * c0 >= least(x)) & (c1 * c0 <= most(x)),
            seeds="002.10.6a 002.10.6b",
        ),
        rule(
            "word-ge-quotient",
            x // c0 >= c1,
            x >= c1 * c0,
            when=(c0 > 0) & (c1 * c0 >= least(x)) & (c1 * c0 <= most(x)),
            seeds="002.10.6a",
        ),
    ),
)

FLOAT_COMPARISONS = RuleSet(
    "float-comparisons",
    theory=Theory.FLOATS,
    rules=(
        family("float-{op}-negated", ORDERS, lambda op: (op(-x, -y), op(y, x)), seeds="002.10.5"),
    ),
)
