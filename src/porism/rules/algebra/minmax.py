"""Maximum and minimum: decided by bounds; MIN and MAX recognized from negated operands."""

from porism.base.dtypes import Theory
from porism.rewrite.rule import RuleSet, rule
from porism.rewrite.terms import hi, lo, maximum, minimum, x, y

MINMAX = RuleSet(
    "minmax",
    theory=(Theory.INTEGERS, Theory.FIXED_WIDTH),
    rules=(
        rule("max-larger", maximum(x, y), x, when=lo(x) >= hi(y), seeds="002.11.2 002.11.3"),
        rule("min-smaller", minimum(x, y), x, when=hi(x) <= lo(y), seeds="002.11.2 002.11.3"),
    ),
)

# Fixed-width negation wraps at the least value, so -max(-x, -y) is the minimum on unbounded
# integers only; the bitwise complement never wraps.
INDEX_MINMAX = RuleSet(
    "index-minmax",
    theory=Theory.INTEGERS,
    rules=(
        rule("min-by-negation", -maximum(-x, -y), minimum(x, y), seeds="002.11.4"),
        rule("max-by-negation", -minimum(-x, -y), maximum(x, y)),
    ),
)

WRAPPING_MINMAX = RuleSet(
    "wrapping-minmax",
    theory=Theory.FIXED_WIDTH,
    rules=(
        rule("min-by-complement", ~maximum(~x, ~y), minimum(x, y), seeds="002.11.4"),
        rule("max-by-complement", ~minimum(~x, ~y), maximum(x, y)),
    ),
)
