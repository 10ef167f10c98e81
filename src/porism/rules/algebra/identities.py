"""Identities: neutral and absorbing operands, chains of constants, and small powers."""

from __future__ import annotations

from typing import Any

from porism.base.dtypes import DType, Theory
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.rewrite.rule import RuleSet, family, procedure, rule
from porism.rewrite.terms import c0, c1, literal, maximum, minimum, w, x, y

WHOLE = (ops.FLOOR, ops.CEIL, ops.TRUNC, ops.ROUND)

INTEGERS = (Theory.INTEGERS, Theory.FIXED_WIDTH)

IDENTITIES = RuleSet(
    "identities",
    theory=INTEGERS,
    rules=(
        rule("add-zero", x + 0, x, seeds="002.2.1"),
        rule("sub-zero", x - 0, x, seeds="002.2.5"),
        rule("mul-one", x * 1, x, seeds="002.2.2"),
        rule("mul-zero", x * 0, 0, seeds="002.2.10"),
        rule("div-one", x // 1, x, seeds="002.2.6"),
        rule("mod-one", x % 1, 0, seeds="002.2.8"),
        rule("or-zero", x | 0, x, seeds="002.2.3"),
        rule("xor-zero", x ^ 0, x, seeds="002.2.3"),
        rule("and-zero", x & 0, 0, seeds="002.2.11"),
        rule("neg-neg", ops.NEG(-x), x, seeds="002.15.1"),
        rule("sub-self", x - x, 0),
        family(
            "{op}-self",
            (ops.AND, ops.OR, ops.MAX, ops.MIN),
            lambda op: (op(x, x), x),
            seeds="002.3.4 002.11.1",
        ),
        rule("xor-self", x ^ x, 0, seeds="002.9.2"),
        rule("bits-not-not", ~~x, x, seeds="002.9.1"),
        # rounding an integer does nothing
        family("{op}-whole", WHOLE, lambda op: (op(x), x), seeds="002.2.9"),
    ),
)

# Only what holds for NaN, infinities and both zeros: x + 0 is not among them, since -0 + 0 is +0.
FLOAT_IDENTITIES = RuleSet(
    "float-identities",
    theory=Theory.FLOATS,
    rules=(
        rule("float-add-minus-zero", x + literal(-0.0), x),
        rule("float-sub-zero", x - 0.0, x, seeds="002.2.5"),
        rule("float-mul-one", x * 1.0, x, seeds="002.2.2"),
        rule("float-div-one", x / 1.0, x, seeds="002.2.7"),
        rule("float-neg-neg", ops.NEG(-x), x, seeds="002.15.1"),
        rule("float-max-self", maximum(x, x), x, seeds="002.11.1"),
        rule("float-min-self", minimum(x, x), x),
    ),
)

CHAINS = RuleSet(
    "chains",
    theory=INTEGERS,
    rules=(
        rule("add-chain", (x + c0) + c1, x + (c0 + c1), seeds="002.8.1"),
        rule("mul-chain", (x * c0) * c1, x * (c0 * c1), seeds="002.8.2"),
        rule("add-same", x + x, x * 2, seeds="002.7.1"),
        rule("add-multiple", x * c0 + x, x * (c0 + 1), seeds="002.7.2"),
        rule("add-multiples", x * c0 + x * c1, x * (c0 + c1), seeds="002.7.2 002.7.3"),
        rule("add-chain-constants", (x + c0) + (w + c1), (x + w) + (c0 + c1), seeds="002.8.6"),
        # x - c becomes x + -c, so that the rules for chains of sums apply to differences too
        rule("sub-to-add", x - c0, x + (-c0), seeds="002.8.3 002.8.4 002.8.5"),
        rule("sub-add-cancel", (x + y) - y, x),
        rule("sub-from-add", (c0 - x) + c1, (c0 + c1) - x, seeds="002.8.3"),
        rule("sub-of-add", c0 - (x + c1), (c0 - c1) - x, seeds="002.8.4"),
        rule("sub-of-constants", c0 - (c1 - x), x + (c0 - c1), seeds="002.8.5 002.8.7"),
        rule("sub-of-sub", x - (y - w), w + (x - y), seeds="002.8.7"),
    ),
)


@procedure("add-constant-out", (ops.ADD,), seeds="002.8.6", on_sources=True)
def add_constant_out(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Move a constant to the outermost sum: (x + 3) + y becomes (x + y) + 3."""
    for addend, other in (src, src[::-1]):
        if addend.op is ops.ADD and not _is_constant(other):
            inner, constant = addend.src
            if _is_constant(inner):
                inner, constant = constant, inner
            if _is_constant(constant) and not _is_constant(inner):
                return (inner + other) + constant
    return None


def _is_constant(node: UOp) -> bool:
    return node.op is ops.CONST or node.op is ops.VCONST


# Both sides are equal in the termination order. Rewriting still ends: each constant only moves
# towards the root, and two constants that meet are folded into one.
CONSTANTS_OUT = RuleSet("constants-out", theory=INTEGERS, rules=(add_constant_out,))

POWERS = RuleSet(
    "powers",
    theory=(Theory.INTEGERS, Theory.FIXED_WIDTH, Theory.FLOATS),
    rules=(
        # holds for x = 0 and x = NaN too
        rule("pow-zero", ops.POW(x, literal(0)), 1, seeds="002.15.1"),
        rule("pow-one", ops.POW(x, literal(1)), x, seeds="002.15.1"),
    ),
)
