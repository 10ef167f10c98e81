"""Conditionals: WHERE with a known condition, with equal branches, and nested in another WHERE."""

from __future__ import annotations

from typing import Any

from porism.base.dtypes import DType, Theory
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.rewrite.rule import RuleSet, procedure, rule
from porism.rewrite.terms import FALSE, TRUE, p, q, where, x, y
from porism.rules.addresses.validity import may_be_invalid

EVERYWHERE = (Theory.INTEGERS, Theory.FIXED_WIDTH, Theory.FLOATS, Theory.BOOLEANS)

WHERE_RULES = RuleSet(
    "choices",
    theory=EVERYWHERE,
    rules=(
        rule("where-true", where(TRUE, x, y), x, seeds="002.12.1 002.12.3"),
        rule("where-false", where(FALSE, x, y), y, seeds="002.12.1 002.12.3"),
        rule("where-same", where(p, x, x), x, seeds="002.12.5"),
    ),
)

# A scalar condition may select between vectors, and INVALID must stay in the false branch. A rule
# can ask for neither lanes nor INVALID, so procedures apply these equations.
WHERE_LEMMAS = RuleSet(
    "choice-lemmas",
    theory=EVERYWHERE,
    lemmas=True,
    rules=(
        rule("where-not-lemma", where(~p, x, y), where(p, y, x)),
        rule("where-where-lemma", where(p, where(q, x, y), y), where(p & q, x, y)),
        rule("where-else-where-lemma", where(p, x, where(q, x, y)), where(p | q, x, y)),
    ),
)
BOOLEAN_WHERE_LEMMAS = RuleSet(
    "truth-lemmas",
    theory=Theory.BOOLEANS,
    lemmas=True,
    rules=(
        rule("where-truth-lemma", where(p, TRUE, FALSE), p),
        rule("where-untruth-lemma", where(p, FALSE, TRUE), ~p),
    ),
)


@procedure("where-decided", (ops.WHERE,), seeds="002.12.1", on_sources=True)
def where_decided(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Replace a WHERE whose condition is constant by its bounds with the selected branch."""
    condition, yes, no = src
    if condition.vmin != condition.vmax:
        return None
    return yes if condition.vmin else no


@procedure("where-truth", (ops.WHERE,), seeds="002.12.6", on_sources=True)
def where_truth(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Replace WHERE(p, true, false) by p, and WHERE(p, false, true) by ~p."""
    condition, yes, no = src
    if condition.dtype is not dtype or yes.op is not ops.CONST or no.op is not ops.CONST:
        return None
    if yes.arg == no.arg:
        return None
    return condition if yes.arg else ~condition


@procedure("where-not", (ops.WHERE,), seeds="002.12.8", on_sources=True)
def where_not(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Swap the branches of a WHERE with a negated condition, unless the second may be INVALID."""
    condition, yes, no = src
    if condition.op is not ops.NOT or may_be_invalid(no):
        return None
    return ops.WHERE(condition.src[0], no, yes)


@procedure("where-where", (ops.WHERE,), seeds="002.12.9", on_sources=True)
def where_where(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Merge two nested WHEREs that have a common branch."""
    condition, yes, no = src
    if yes.op is ops.WHERE and yes.src[2] is no and yes.src[0].dtype is condition.dtype:
        return ops.WHERE(condition & yes.src[0], yes.src[1], no)
    if no.op is ops.WHERE and no.src[1] is yes and no.src[0].dtype is condition.dtype:
        return ops.WHERE(condition | no.src[0], yes, no.src[2])
    return None


WHERE_PROCEDURES = RuleSet(
    "joined-choices",
    theory=EVERYWHERE,
    rules=(where_decided, where_truth, where_not, where_where),
)
