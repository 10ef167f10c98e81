"""Powers with a known small exponent."""

from porism.base.dtypes import Theory
from porism.ir import ops
from porism.rewrite.rule import RuleSet, rule
from porism.rewrite.terms import literal, x

POWERS = RuleSet(
    "powers",
    theory=(Theory.INTEGERS, Theory.FIXED_WIDTH, Theory.FLOATS),
    rules=(
        # also of zero and of NaN
        rule("pow-zero", ops.POW(x, literal(0)), 1, seeds="002.15.1"),
        rule("pow-one", ops.POW(x, literal(1)), x, seeds="002.15.1"),
    ),
)
