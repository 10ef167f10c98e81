"""Commutativity: lemmas that allow the operands of commutative ops to be sorted at every node.

Sorting is no rule but a step of `porism.rewrite.construction`, named "commute" in traces. The
equations that it rests on are stated and proved here, for every op that the table of ops calls
commutative.
"""

from porism.base.dtypes import Theory
from porism.ir import ops
from porism.rewrite.rule import RuleSet, family
from porism.rewrite.terms import p, q, x, y

SEEDS = "000.6.1 002.18.1"

COMMUTATIVITY = RuleSet(
    "commuting",
    theory=(Theory.INTEGERS, Theory.FIXED_WIDTH, Theory.FLOATS),
    lemmas=True,
    doc="Ops on numbers.",
    rules=family(
        "commute-{op}",
        (ops.ADD, ops.MUL, ops.MAX, ops.MIN, ops.EQ, ops.NE),
        lambda op: (op(x, y), op(y, x)),
        seeds=SEEDS,
    ),
)

BITWISE_COMMUTATIVITY = RuleSet(
    "commuting-bits",
    theory=(Theory.INTEGERS, Theory.FIXED_WIDTH),
    lemmas=True,
    doc="Bitwise ops on integers.",
    rules=family(
        "commute-bits-{op}",
        (ops.AND, ops.OR, ops.XOR),
        lambda op: (op(x, y), op(y, x)),
        seeds=SEEDS,
    ),
)

BOOLEAN_COMMUTATIVITY = RuleSet(
    "commuting-truths",
    theory=Theory.BOOLEANS,
    lemmas=True,
    doc="Ops on conditions.",
    rules=family(
        "commute-truths-{op}",
        (ops.AND, ops.OR, ops.XOR, ops.MAX, ops.MIN, ops.EQ, ops.NE),
        lambda op: (op(p, q), op(q, p)),
        seeds=SEEDS,
    ),
)
