"""Index lemmas: the equations that justify the normal form of index arithmetic, each proved.

The simplifier does not match these equations; it computes with linear forms. But every step that it
takes is an instance of one of them, and so are the rewrites on index arithmetic that other
compilers try one by one.
"""

from porism.base.dtypes import Theory
from porism.rewrite.rule import RuleSet, rule
from porism.rewrite.terms import (
    FALSE,
    TRUE,
    c0,
    c1,
    c2,
    divides,
    hi,
    literal,
    lo,
    maximum,
    minimum,
    w,
    where,
    x,
    y,
    z,
)

RING = RuleSet(
    "ring",
    theory=Theory.INTEGERS,
    lemmas=True,
    doc="Sums and products of forms: addition of coefficients.",
    rules=(
        rule("form-commute-sum", x + y, y + x, seeds="000.6.1 002.18.1"),
        rule("form-commute-product", x * y, y * x, seeds="000.6.1 002.18.1"),
        rule("form-distribute", (x + y) * c0, x * c0 + y * c0, seeds="000.4.6 002.19.22"),
        rule("form-double", x + x, x * 2, seeds="002.7.1"),
        rule("form-combine", x * c0 + x * c1, x * (c0 + c1), seeds="002.7.2 002.7.3"),
        rule("form-add-constants", (x + c0) + c1, x + (c0 + c1), seeds="002.8.1"),
        rule("form-scale-twice", (x * c0) * c1, x * (c0 * c1), seeds="002.8.2"),
        rule("form-sub-add-constants", (x - c0) + c1, x + (c1 - c0), seeds="002.8.3"),
        rule("form-add-sub-constants", (x + c0) - c1, x + (c0 - c1), seeds="002.8.4"),
        rule("form-sub-constants", (x - c0) - c1, x - (c0 + c1), seeds="002.8.5"),
        rule("form-constant-last", (x + c0) + y, (x + y) + c0, seeds="002.8.6"),
        rule("form-sub-sub", x - (y - z), z + (x - y), seeds="002.8.7"),
    ),
)

DIGITS = RuleSet(
    "digits",
    theory=Theory.INTEGERS,
    lemmas=True,
    doc="A modulo is its operand less a multiple of the quotient, so digits cancel.",
    rules=(
        rule("form-modulo", x % c0, x - (x // c0) * c0, when=c0.ne(0)),
        rule(
            "form-recombine",
            (x // c0) * c0 + x % c0,
            x,
            seeds="000.1.1 002.19.13 004.4.1",
        ),
        rule(
            "form-recombine-composed",
            (x // c0) % c1 + (x // c2) * c1,
            x // c0,
            when=(c0 * c1).eq(c2) & (c1 > 0),
            seeds="000.1.2 002.19.14",
        ),
        rule(
            "form-recombine-scaled",
            (x % c0) * c1 + (x // c0) * c2,
            x * c1,
            when=(c0 * c1).eq(c2),
            seeds="000.1.3 002.19.15",
        ),
        rule(
            "form-recombine-beside",
            (y + x % c0) + (x // c0) * c0,
            y + x,
            seeds="000.1.4 002.19.16",
        ),
        rule(
            "form-modulo-of-modulo",
            (x % c0 + y) % c1,
            (x + y) % c1,
            when=divides(c1, c0),
            seeds="000.3.2 002.19.7",
        ),
        rule(
            "form-reduce-coefficient",
            (x * c0 + y) % c1,
            (x * (c0 % c1) + y) % c1,
            seeds="000.3.4x 000.4.3",
        ),
    ),
)

QUOTIENTS = RuleSet(
    "quotients",
    theory=Theory.INTEGERS,
    lemmas=True,
    doc="The theorems of quotients.py, and what follows from them.",
    rules=(
        rule(
            "quotient-multiples",
            (x * y + z) // y,
            x + z // y,
            seeds="000.2.3 000.3.7d 002.19.4 002.19.12",
        ),
        rule("modulo-multiples", (x * y + z) % y, z % y, seeds="000.2.2 000.3.7m 002.19.3"),
        rule(
            "quotient-offset",
            (x + c0) // c1,
            (x + c0 % c1) // c1 + c0 // c1,
            seeds="000.2.6",
        ),
        rule(
            "quotient-exact",
            (x * c0 + y * c1) // c2,
            x * (c0 // c2) + y * (c1 // c2),
            when=divides(c2, c0) & divides(c2, c1),
            seeds="000.4.2 000.4.4 002.19.19 002.19.20",
        ),
        rule(
            "quotient-exact-difference",
            (x * c0 - y * c1) // c2,
            x * (c0 // c2) - y * (c1 // c2),
            when=divides(c2, c0) & divides(c2, c1),
            seeds="000.4.5 002.19.21",
        ),
        rule(
            "quotient-common",
            (x * c0 + c1) // c2,
            (x + c1 // c0) // (c2 // c0),
            when=(c0 > 0) & (c2 > 0) & divides(c0, c2),
            seeds="000.3.5d 002.19.10",
        ),
        rule(
            "modulo-common",
            (x * c0 + c1) % c2,
            ((x + c1 // c0) % (c2 // c0)) * c0 + c1 % c0,
            when=(c0 > 0) & (c2 > 0) & divides(c0, c2),
            seeds="000.3.5m 000.3.5k",
        ),
        rule(
            "quotient-common-form",
            (x * z) // (y * z),
            x // y,
            seeds="000.3.6d 002.19.11",
        ),
        rule(
            "quotient-common-rest",
            (x * c0 + c1) // (y * c0),
            (x + c1 // c0) // y,
            when=lo(y) > 0,
        ),
        rule("quotient-of-zero", literal(0) // y, literal(0)),
        rule("modulo-common-form", (x * z) % (y * z), (x % y) * z, seeds="000.3.6m 000.3.6m2"),
        rule(
            "quotient-one-bucket",
            x // c0,
            lo(x) // c0,
            when=(lo(x) // c0).eq(hi(x) // c0),
            seeds="000.2.4 002.19.2 002.19.6",
        ),
        rule(
            "modulo-one-bucket",
            x % c0,
            x - (lo(x) // c0) * c0,
            when=(lo(x) // c0).eq(hi(x) // c0),
            seeds="000.2.1 000.3.1m 000.3.4m 002.19.1 002.19.9",
        ),
        rule(
            "quotient-remainder",
            (x * c0 + y) // c1,
            (x + lo(y) // c0) // (c1 // c0),
            when=(c0 > 0) & (c1 > 0) & divides(c0, c1) & (lo(y) // c0).eq(hi(y) // c0),
            seeds="000.2.5 000.3.4d 002.19.5 000.W.1",
        ),
        rule(
            "quotient-one-bucket-form",
            x // y,
            lo(x) // hi(y),
            when=(lo(x) >= 0) & (lo(y) > 0) & (lo(x) // hi(y)).eq(hi(x) // lo(y)),
            seeds="000.3.1d",
        ),
        rule("quotient-proper", x // (x + y), 0, when=(lo(x) >= 0) & (lo(y) > 0)),
        rule(
            "quotient-one-bucket-below",
            x // y,
            lo(x) // lo(y),
            when=(hi(x) < 0) & (lo(y) > 0) & (lo(x) // lo(y)).eq(hi(x) // hi(y)),
            seeds="000.3.1d",
        ),
        rule("quotient-both-signs", (-x) // (-y), x // y, seeds="000.3.1d"),
        rule(
            "quotient-flatten",
            (x // c0 + y) // c1,
            (x + y * c0) // (c0 * c1),
            when=c1 > 0,
            seeds="000.1.5 002.19.17",
        ),
        rule(
            "quotient-nested",
            (x // c0) // c1,
            x // (c0 * c1),
            when=c1 > 0,
            seeds="000.3.8 000.4.1 002.19.18",
        ),
        rule(
            "quotient-two-values",
            (x * c0 + c1) // c2,
            (x - lo(x)) * (((lo(x) + 1) * c0 + c1) // c2 - (lo(x) * c0 + c1) // c2)
            + (lo(x) * c0 + c1) // c2,
            when=hi(x).eq(lo(x) + 1),
            seeds="000.3.3 002.19.8",
        ),
    ),
)

BOUNDS = RuleSet(
    "quotient-bounds",
    theory=Theory.INTEGERS,
    lemmas=True,
    doc="What bounds a form in which a quotient stands beside its numerator.",
    rules=(
        rule("quotient-below", (x // c0) * c0 <= x, TRUE, when=c0 > 0),
        rule("quotient-above", x < (x // c0) * c0 + c0, TRUE, when=c0 > 0),
        rule("bound-above-by-fact", x * c0 <= x * c0 - y * c1, TRUE, when=(hi(y) <= 0) & (c1 >= 0)),
        rule("bound-below-by-fact", x * c0 >= x * c0 + y * c1, TRUE, when=(hi(y) <= 0) & (c1 >= 0)),
    ),
)

COMPARISONS = RuleSet(
    "comparisons-of-forms",
    theory=Theory.INTEGERS,
    lemmas=True,
    doc="The theorems of comparisons.py, and of `min` and `max` as differences decide them.",
    rules=(
        rule("compare-common", x * c0 <= c1, x <= c1 // c0, when=c0 > 0),
        rule(
            "compare-remainder",
            x * c0 <= y,
            x <= lo(y) // c0,
            when=(c0 > 0) & (lo(y) // c0).eq(hi(y) // c0),
        ),
        rule("compare-lift-below", x // c0 <= y, x < (y + 1) * c0, when=c0 > 0),
        rule("compare-lift-above", y <= x // c0, y * c0 <= x, when=c0 > 0),
        rule("compare-no-multiple", (x * c0).eq(c1), FALSE, when=c0.ne(0) & ~divides(c0, c1)),
        rule(
            "compare-together",
            where(x.eq(literal(0)) & (y * c1 - x * c0).eq(literal(0)), z, w),
            where(x.eq(literal(0)) & y.eq(literal(0)), z, w),
            when=c1.ne(0),
        ),
        rule("compare-opposite", where(y + 1 <= x, w, z), where(x <= y, z, w)),
        rule("equal-common", (x * c0).eq(c1), x.eq(c1 // c0), when=divides(c0, c1)),
        rule("eq-always", x.eq(y), TRUE, when=(lo(x).eq(hi(y))) & (hi(x).eq(lo(y)))),
        rule("eq-never-below", x.eq(y), FALSE, when=lo(x) > hi(y)),
        rule("compare-moved", x + w <= y, x <= y - w),
        rule("compare-larger", maximum(x + y, x), x + y, when=lo(y) >= 0),
        rule("compare-smaller", minimum(x + y, x), x, when=lo(y) >= 0),
    ),
)

LEMMAS = RING + DIGITS + QUOTIENTS + BOUNDS + COMPARISONS
