"""Division: floor division and modulo of integers, by constants and by any divisor.

On `index`, the unbounded integers, a division by zero has no value, so a rule may assume that the
divisor is not 0. On fixed widths x // 0 is 0, and products wrap; there the guards exclude both.
"""

from porism.base.dtypes import Theory
from porism.rewrite.rule import RuleSet, rule
from porism.rewrite.terms import c0, c1, divides, hi, least, literal, lo, most, x, y

DIVMOD = RuleSet(
    "divmod",
    theory=Theory.INTEGERS,
    rules=(
        # the dividend is between 0 and the divisor
        rule("mod-small", x % c0, x, when=(lo(x) >= 0) & (hi(x) < c0), seeds="000.2.1 002.19.1"),
        rule("div-small", x // c0, 0, when=(lo(x) >= 0) & (hi(x) < c0), seeds="000.2.4"),
        # a term that is a multiple of the divisor is divided by itself
        rule(
            "div-sum",
            (x * c0 + y) // c1,
            x * (c0 // c1) + y // c1,
            when=divides(c1, c0),
            seeds="000.2.3 002.19.4",
        ),
        rule("mod-sum", (x * c0 + y) % c1, y % c1, when=divides(c1, c0), seeds="000.2.2 002.19.3"),
        rule("div-multiple", (x * c0) // c1, x * (c0 // c1), when=divides(c1, c0), seeds="000.4.2"),
        rule("mod-multiple", (x * c0) % c1, 0, when=divides(c1, c0)),
        # nested
        rule("div-div", (x // c0) // c1, x // (c0 * c1), when=(c1 > 0) & c0.ne(0), seeds="000.4.1"),
        rule("mod-mod", (x % c0) % c1, x % c1, when=divides(c1, c0), seeds="002.3.3"),
        # quotient and remainder recombined
        rule("recombine", (x // c0) * c0 + x % c0, x, seeds="000.1.1 002.19.13 004.4.1"),
    ),
)

REPEATED_DIVISION = RuleSet(
    "repeated-division",
    theory=(Theory.INTEGERS, Theory.FIXED_WIDTH),
    rules=(rule("mod-again", (x % y) % y, x % y, seeds="002.3.3"),),
)

INDEX_DIVISION = RuleSet(
    "index-division",
    theory=Theory.INTEGERS,
    rules=(rule("div-product", (x * y) // y, x, seeds="002.5.5"),),
)

# Not applied at construction: 0 // 0 stays as written, so that evaluating it raises an error.
SELF_DIVISION = RuleSet(
    "self-division",
    theory=Theory.INTEGERS,
    rules=(
        rule("div-self", x // x, 1, seeds="002.3.1"),
        rule("mod-self", x % x, 0, seeds="002.4.1"),
    ),
)

WRAPPING_DIVISION = RuleSet(
    "wrapping-division",
    theory=Theory.FIXED_WIDTH,
    rules=(
        rule("word-div-self", x // x, 1, when=(lo(x) > 0) | (hi(x) < 0), seeds="002.3.1"),
        rule("word-mod-self", x % x, 0, seeds="002.4.1"),
        rule(
            "word-div-multiple",
            (x * c0) // c0,
            x,
            when=c0.ne(0)
            & (lo(x) * c0 >= least(x))
            & (lo(x) * c0 <= most(x))
            & (hi(x) * c0 >= least(x))
            & (hi(x) * c0 <= most(x)),
            seeds="002.5.5",
        ),
        rule(
            "word-div-product",
            (x * y) // y,
            x,
            when=(lo(x) >= 0) & (lo(y) > 0) & (hi(x) * hi(y) <= most(x)),
            seeds="002.5.5",
        ),
    ),
)

SIGNED_DIVISION = RuleSet(
    "signed-division",
    theory=Theory.FIXED_WIDTH,
    rules=(
        # never fires on unsigned types, which have no -1
        rule("word-div-minus-one", x // literal(-1), -x, seeds="002.3.2"),
    ),
)
