"""Mutants of rules: the guard of a rule weakened, which its own proof must refute.

a & b       a, b                     a < b     a <= b            a <= b    a <= b + 1
a == b      a <= b, a >= b           a > b     a >= b            a >= b    a >= b - 1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.prove.rule_proof import Status, prove
from porism.rewrite import terms
from porism.rewrite.rule import Rewrite, Rule

MILLISECONDS = 2_000
"""How long the solver may take for one question."""


@dataclass(frozen=True, slots=True)
class RuleMutant:
    """A rule whose guard is weakened."""

    rule: Rule
    name: str
    """The rule, and what becomes of which part of its guard."""


def rule_mutants(known: Iterable[Rewrite]) -> Iterator[RuleMutant]:
    """Every rule with a guard, weakened in every way."""
    for item in known:
        if isinstance(item, Rule) and item.when is not None:
            parts = list(terms.conjuncts(item.when))
            for place, part in enumerate(parts):
                rest = [*parts[:place], *parts[place + 1 :]]
                for looser in (None, *_looser(part)):
                    left = rest if looser is None else [*rest, looser]
                    told = "True" if looser is None else show(looser)
                    name = f"{item.name}: {show(part)} -> {told}"
                    yield RuleMutant(replace(item, when=terms.conjunction(left)), name)


def _looser(part: UOp) -> Iterator[UOp]:
    if part.op not in (ops.LT, ops.GT, ops.LE, ops.GE, ops.EQ):
        return
    a, b = part.src
    if part.op is ops.LT:
        yield ops.LE(a, b)
    elif part.op is ops.GT:
        yield ops.GE(a, b)
    elif part.op is ops.LE:
        yield ops.LE(a, b + 1)
    elif part.op is ops.GE:
        yield ops.GE(a, b - 1)
    else:
        yield ops.LE(a, b)
        yield ops.GE(a, b)


def refuted(mutant: RuleMutant) -> tuple[str, str]:
    """The counterexample of a weakened rule, or else why there is none."""
    proof = prove(mutant.rule, milliseconds=MILLISECONDS)
    for result in proof.results:
        if result.status is Status.REFUTED:
            return f"{result.types}: {result.counterexample}", ""
    if any(result.status is Status.UNKNOWN for result in proof.results):
        return "", "the solver does not know"
    return "", "it holds without it"
