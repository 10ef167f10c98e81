"""Division by what is there already: x // x, (x * y) // y, and their like on every type.

On `index` a division by zero has no value, so that a rule may assume that there is none. On fixed
widths it gives 0, and products wrap; there the guards say that neither happens.
"""

from porism.base.dtypes import Theory
from porism.rewrite.rule import RuleSet, rule
from porism.rewrite.terms import c0, hi, least, literal, lo, most, x, y

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

# Not at construction: 0 // 0 stays as it is written, so that whoever evaluates it is told.
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
        # unsigned types have no -1, so there it never fires
        rule("word-div-minus-one", x // literal(-1), -x, seeds="002.3.2"),
    ),
)
