"""Booleans: identities of and, or, not, and comparisons of a value with itself."""

from porism.base.dtypes import Theory
from porism.ir import ops
from porism.rewrite.rule import RuleSet, family, rule
from porism.rewrite.terms import FALSE, TRUE, p, q, x

BOOLEANS = RuleSet(
    "booleans",
    theory=Theory.BOOLEANS,
    rules=(
        rule("not-not", ~~p, p, seeds="002.9.1 004.4.2"),
        rule("and-true", p & TRUE, p, seeds="002.9.5"),
        rule("and-false", p & FALSE, FALSE, seeds="002.9.5"),
        rule("or-true", p | TRUE, TRUE, seeds="002.9.5"),
        rule("or-false", p | FALSE, p, seeds="002.9.5 004.4.2"),
        rule("bool-and-self", p & p, p, seeds="002.3.4 004.4.2"),
        rule("bool-or-self", p | p, p, seeds="002.3.4"),
        rule("bool-xor-self", p ^ p, FALSE, seeds="002.9.2"),
        rule("and-not", p & ~p, FALSE, seeds="002.9.3"),
        rule("or-not", p | ~p, TRUE, seeds="002.9.3"),
        rule("de-morgan-and", ~p & ~q, ~(p | q), seeds="002.9.9"),
        rule("de-morgan-or", ~p | ~q, ~(p & q), seeds="002.9.9"),
        rule("absorb-and", p & (p | q), p),
        rule("absorb-or", p | (p & q), p),
    ),
)

SELF_COMPARISONS = RuleSet(
    "self-comparisons",
    theory=(Theory.INTEGERS, Theory.FIXED_WIDTH, Theory.BOOLEANS),
    rules=(
        family(
            "{op}-of-self",
            (ops.LT, ops.GT, ops.NE),
            lambda op: (op(x, x), FALSE),
            seeds="002.4.2 002.4.3 002.10.1",
        ),
        family(
            "{op}-with-self",
            (ops.LE, ops.GE, ops.EQ),
            lambda op: (op(x, x), TRUE),
            seeds="002.10.1",
        ),
    ),
)
