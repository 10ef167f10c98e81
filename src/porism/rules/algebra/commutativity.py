"""Commuting: the lemmas by which the engine puts operands in order, by structure, at every node.

No rule states that order: it is a step of `porism.rewrite.construction`, named "commute" in traces.
What it rests on is stated here, and proved, for every op that the table of ops calls commutative.
"""

from porism.base.dtypes import Theory
from porism.ir import ops
from porism.rewrite.rule import RuleSet, family
from porism.rewrite.terms import p, q, x, y

SEEDS = "000.6.1 002.18.1"

COMMUTING = RuleSet(
    "commuting",
    theory=(Theory.INTEGERS, Theory.FIXED_WIDTH, Theory.FLOATS),
    lemmas=True,
    doc="Of numbers.",
    rules=family(
        "commute-{op}",
        (ops.ADD, ops.MUL, ops.MAX, ops.MIN, ops.EQ, ops.NE),
        lambda op: (op(x, y), op(y, x)),
        seeds=SEEDS,
    ),
)

COMMUTING_BITS = RuleSet(
    "commuting-bits",
    theory=(Theory.INTEGERS, Theory.FIXED_WIDTH),
    lemmas=True,
    doc="Of the bits of integers.",
    rules=family(
        "commute-bits-{op}",
        (ops.AND, ops.OR, ops.XOR),
        lambda op: (op(x, y), op(y, x)),
        seeds=SEEDS,
    ),
)

COMMUTING_TRUTHS = RuleSet(
    "commuting-truths",
    theory=Theory.BOOLEANS,
    lemmas=True,
    doc="Of conditions.",
    rules=family(
        "commute-truths-{op}",
        (ops.AND, ops.OR, ops.XOR, ops.MAX, ops.MIN, ops.EQ, ops.NE),
        lambda op: (op(p, q), op(q, p)),
        seeds=SEEDS,
    ),
)
