"""Decompose: ops and types that a machine lacks, in terms of those that it has.

    EXP2(x)         a polynomial, and integer arithmetic on the exponent
    x // 10         x*m >> s, over the bounds of x
    MAX(x, y)       x where x > y, else y; NaN if either is
    bf16            u16 in memory, f32 in arithmetic

Three passes: small floats first, since what they become is decomposed too; then all that takes a
formula; then single ops. None of them may be followed by rules that change float results: the
formulas rest on the order of additions.
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
"""Each only where its op is missing, but for what keeps divisions safe."""

EDGES = RuleSet("edges", rules=[*SHIFTS, *SATURATION])
"""Where an op is there, but not for all values."""

SINGLE = RuleSet(
    "single", rules=[*MISSING, *MISSING_WORDS, *MISSING_FLOATS, *MISSING_TRUTHS, *ROUNDING]
)
"""Each only where its op is missing."""

DECOMPOSITIONS = RuleSet("decompositions", rules=[*FUSED, *WIDEN, *FORMULAS, *EDGES, *SINGLE])
"""All of them: what is listed, and established."""

ALWAYS = frozenset(
    ("divide-safely", "divide-by-power", "truncate-by-constant", "quotient-by-power",
     "word-trunc", "word-floor", "word-ceil", "word-round", "word-mulacc-as-sum")
)  # fmt: skip
"""What is used although its op is there: for other types, or since it is cheaper."""


def decompose(root: UOp, machine: Machine, trace: Trace | None = None) -> UOp:
    """A kernel of the target level in what the machine has.

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
    formulas, single = _needed(machine.target)
    root = rewrite(root, formulas, machine, trace=trace)
    return rewrite(root, single, machine, trace=trace)


@lru_cache(maxsize=64)
def _needed(target: Target) -> tuple[RuleSet, RuleSet]:
    """The rules for what a target lacks."""
    formulas = RuleSet("formulas", rules=[*_for_missing(FORMULAS, target), *EDGES])
    return formulas, RuleSet("single", rules=list(_for_missing(SINGLE, target)))


def _for_missing(rules: RuleSet, target: Target) -> Iterator[Rewrite]:
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
