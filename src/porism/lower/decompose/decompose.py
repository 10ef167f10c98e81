"""Decompose: ops and types that a machine lacks are expressed by those that it has.

    before          after
    EXP2(x)         a polynomial, and integer arithmetic on the exponent
    x // 10         x*m >> s, with m and s chosen for the bounds of x
    MAX(x, y)       WHERE(x > y, x, y), or NaN if either is
    bf16            u16 in memory, f32 in arithmetic

Three passes: small floats first, since their replacements are decomposed too; then ops that take a
formula; then ops that take one or two others. No pass that changes float results may follow: the
formulas depend on the order of their additions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from porism.base.target import Target
from porism.ir.node import UOp
from porism.lower.decompose.decomposition_options import Machine
from porism.lower.decompose.integer_division import DIVISION, SHIFTS
from porism.lower.decompose.missing_ops import (
    FUSED,
    MISSING,
    MISSING_FLOATS,
    MISSING_TRUTHS,
    MISSING_WORDS,
    ROUNDING,
    SATURATION,
)
from porism.lower.decompose.small_floats import WIDEN, emulate
from porism.lower.decompose.threefry import RANDOM_BITS
from porism.lower.decompose.transcendental import TRANSCENDENTAL
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rewrite_trace import Trace
from porism.rewrite.rule import Rewrite, Rule, RuleSet

FORMULAS = RuleSet("formulas", rules=[*TRANSCENDENTAL, *DIVISION, *RANDOM_BITS])
"""Rules that are applied where the target lacks the op; those in ALWAYS are applied anyway."""

EDGES = RuleSet("edges", rules=[*SHIFTS, *SATURATION])
"""Rules for ops that a target has, but whose result is undefined for some operands."""

SINGLE = RuleSet(
    "single", rules=[*MISSING, *MISSING_WORDS, *MISSING_FLOATS, *MISSING_TRUTHS, *ROUNDING]
)
"""Rules that are applied where the target lacks the op."""

DECOMPOSITIONS = RuleSet("decompositions", rules=[*FUSED, *WIDEN, *FORMULAS, *EDGES, *SINGLE])
"""All rules of this stage, for the catalogue and the prover."""

ALWAYS = frozenset(
    ("divide-safely", "divide-by-power", "truncate-by-constant", "quotient-by-power",
     "word-trunc", "word-floor", "word-ceil", "word-round", "word-mulacc-as-sum")
)  # fmt: skip
"""Names of rules that are applied although the target has the op: they are cheaper or safer."""


def decompose(root: UOp, machine: Machine, trace: Trace | None = None) -> UOp:
    """Return a kernel that uses only ops and types of the machine.

    >>> from porism.base.dtypes import i32
    >>> from porism.base.target import GENERIC_CPU
    >>> from porism.ir import ops
    >>> x = UOp(ops.PARAM, i32, (), 0)
    >>> decompose(x // 8, Machine(target=GENERIC_CPU)).op
    SHR
    """
    if machine.fuse and machine.fused:
        root = rewrite(root, FUSED, trace=trace)
    root = emulate(root, machine)
    formulas, single = _rules_for(machine.target)
    root = rewrite(root, formulas, machine, trace=trace)
    return rewrite(root, single, machine, trace=trace)


@lru_cache(maxsize=64)
def _rules_for(target: Target) -> tuple[RuleSet, RuleSet]:
    """Return the rules of the second and the third pass for a target."""
    formulas = RuleSet("formulas", rules=[*_for_missing(FORMULAS, target), *EDGES])
    return formulas, RuleSet("single", rules=list(_for_missing(SINGLE, target)))


def _for_missing(rules: RuleSet, target: Target) -> Iterator[Rewrite]:
    """Yield the rules of ops that a target lacks, and those in ALWAYS."""
    for item in rules:
        if item.name in ALWAYS:
            yield item
        elif isinstance(item, Rule):
            if item.op.name not in target.ops:
                yield item
        else:
            missing = tuple(op for op in item.ops if op.name not in target.ops)
            if missing:
                yield replace(item, ops=missing)
