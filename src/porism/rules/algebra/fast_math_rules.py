"""Fast math: rules that may change float results, each with a note of what it changes.

They are applied only if the setting `fast_math` is on. Rules of this set that change no result
produce operands that the others match.
"""

import math

from porism.base.dtypes import Theory
from porism.rewrite.rule import RuleSet, rule
from porism.rewrite.terms import c0, c1, literal, w, x, y

ROUNDS = "rounded once instead of twice: the last bits differ, and overflow comes earlier or later"

FAST_MATH = RuleSet(
    "fast-math",
    theory=Theory.FLOATS,
    rules=(
        rule("fast-add-zero", x + 0.0, x, seeds="002.2.1", fast_math="-0 + 0 is -0, not 0"),
        rule(
            "fast-mul-zero",
            x * 0.0,
            0.0,
            seeds="002.2.10",
            fast_math="NaN, infinities and negative numbers times 0 are 0",
        ),
        rule("fast-div-self", x / x, 1.0, seeds="002.5.3", fast_math="0/0, inf/inf, NaN/NaN are 1"),
        rule(
            "fast-div-product",
            (x * y) / y,
            x,
            seeds="002.5.4",
            fast_math="exact instead of rounded twice; also where y is 0, infinite or NaN",
        ),
        rule("fast-add-same", x + x, x * 2.0, seeds="002.7.1"),
        rule("fast-add-chain", (x + c0) + c1, x + (c0 + c1), seeds="002.8.1", fast_math=ROUNDS),
        rule("fast-mul-chain", (x * c0) * c1, x * (c0 * c1), seeds="002.8.2", fast_math=ROUNDS),
        rule(
            "fast-add-multiples",
            x * c0 + x * c1,
            x * (c0 + c1),
            seeds="002.7.2 002.7.3",
            fast_math=ROUNDS,
        ),
        rule("fast-sub-add", (x - c0) + c1, x + (c1 - c0), seeds="002.8.3", fast_math=ROUNDS),
        rule("fast-add-sub", (x + c0) - c1, x + (c0 - c1), seeds="002.8.4", fast_math=ROUNDS),
        rule("fast-sub-sub", (x - c0) - c1, x - (c0 + c1), seeds="002.8.5", fast_math=ROUNDS),
        rule("fast-sub-of-sub", x - (y - w), w + (x - y), seeds="002.8.7", fast_math=ROUNDS),
    ),
)

# 0/0 is NaN whatever the signs are, so these rules change no result and are always applied.
FLOAT_DIVISION = RuleSet(
    "float-division",
    theory=Theory.FLOATS,
    rules=tuple(
        rule(
            f"float-zero-by-{name}-zero-{number}",
            (x * literal(zero)) / literal(other),
            literal(math.nan),
            seeds="002.5.2",
        )
        for number, zero in (("a", 0.0), ("b", -0.0))
        for name, other in (("plus", 0.0), ("minus", -0.0))
    ),
)
