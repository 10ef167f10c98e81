"""Division: floor division and modulo on unbounded integers, and the identity that ties them."""

from porism.base.dtypes import Theory
from porism.rewrite.rule import RuleSet, rule
from porism.rewrite.terms import c0, c1, divides, hi, lo, x, y

DIVMOD = RuleSet(
    "divmod",
    theory=Theory.INTEGERS,
    rules=(
        # the value already fits below the divisor
        rule("mod-small", x % c0, x, when=(lo(x) >= 0) & (hi(x) < c0), seeds="000.2.1 002.19.1"),
        rule("div-small", x // c0, 0, when=(lo(x) >= 0) & (hi(x) < c0), seeds="000.2.4"),
        # a multiple of the divisor comes out
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
        # put back together
        rule("recombine", (x // c0) * c0 + x % c0, x, seeds="000.1.1 002.19.13 004.4.1"),
    ),
)
