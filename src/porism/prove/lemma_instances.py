"""Lemmas as they are used: each step of the normal form against the lemma that it names.

`worked(root)` simplifies an expression and gives the steps that were taken; `faults` checks each of
them at points of its variables, at which the facts of the step hold:

    the bounds that its premises rest on contain the values of the holes,
    the guard of the lemma holds,
    what was rewritten is the left side of the lemma, and what came out is its right side.

The lemma itself is proved for all numbers. What is checked here is that the code does what the
lemma says, with the numbers it says it about.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, Final

from porism.ir import ops
from porism.ir.facts.intervals import Bound
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.rewrite.rule import Rule
from porism.rules.index.index_lemmas import LEMMAS
from porism.rules.index.lemma_steps import Claim, Quotient, Step, Within
from porism.rules.index.linear_form import Form, Monomial
from porism.rules.index.normalize import Worked, worked
from porism.rules.rule_sets import EVERYTHING

POINTS: Final = 96
"""At how many points an expression is looked at."""

CORNERS: Final = 24
"""At how many of them each variable is at one of its ends."""

FAR: Final = 1 << 12
"""How far from zero, or from its other end, a variable without an end is tried."""

Column = list[Any]
"""A value at each point; None where there is none."""


@cache
def lemma(name: str) -> Rule:
    """The lemma of a name."""
    found = next((item for item in (*LEMMAS, *EVERYTHING) if item.name == name), None)
    assert isinstance(found, Rule), f"there is no lemma {name!r}"
    return found


def checked(root: UOp, facts: Sequence[UOp] = ()) -> list[str]:
    """Simplify an expression, and give what is wrong with the steps that were taken."""
    return list(faults(worked(root, facts)))


def faults(done: Worked) -> Iterator[str]:
    """What is wrong with the steps of an expression, and with the whole."""
    table = Table(done)
    for step in done.steps:
        for place in table.live(step.facts):
            fault = _fault(step, table, place)
            if fault:
                yield f"{step.lemma} at {table.told(place)}: {fault}"
                break
    before, after = table.node(done.before), table.node(done.after)
    for place in range(POINTS):
        if table.inside[place] and before[place] not in (None, after[place]):
            yield f"{done.before!r} became {done.after!r}, wrong at {table.told(place)}"
            break


# -- points ----------------------------------------------------------------------------------------


class Table:
    """The values of forms and nodes at the points of an expression."""

    def __init__(self, done: Worked) -> None:
        random = Random(0)
        self.leaves = [n for n in toposort(done.before, *done.facts) if _is_free(n)]
        self._nodes: dict[UOp, Column] = {}
        for leaf in self.leaves:
            low, high = _end(leaf.vmin, leaf.vmax, -1), _end(leaf.vmax, leaf.vmin, 1)
            column = [random.choice((low, high)) for _ in range(CORNERS)]
            column += [random.randint(low, high) for _ in range(POINTS - CORNERS)]
            self._nodes[leaf] = column
        self._monomials: dict[Monomial, Column] = {}
        self._forms: dict[Form, Column] = {}
        self._live: dict[tuple[Form, ...], list[int]] = {}
        given = [self.node(fact) for fact in done.facts]
        self.inside = [all(column[place] for column in given) for place in range(POINTS)]

    def told(self, place: int) -> str:
        """The values of the variables at a point."""
        return ", ".join(f"{leaf!r} = {self._nodes[leaf][place]}" for leaf in self.leaves)

    def live(self, facts: tuple[Form, ...]) -> list[int]:
        """The points at which forms are at most 0, and the facts of the whole hold."""
        found = self._live.get(facts)
        if found is None:
            columns = [self.form(fact) for fact in facts]
            found = self._live[facts] = [
                place
                for place in range(POINTS)
                if self.inside[place]
                and all(c[place] is not None and c[place] <= 0 for c in columns)
            ]
        return found

    def node(self, root: UOp) -> Column:
        """What a node computes; what a choice does not choose need not be defined."""
        for node in toposort(root, within=lambda n: n not in self._nodes):
            if node.op is ops.CONST:
                self._nodes[node] = [node.arg] * POINTS
            else:
                columns = [self._nodes[s] for s in node.src]
                compute = _COMPUTED[node.op]
                rows = zip(*columns, strict=True) if columns else [()] * POINTS
                self._nodes[node] = [compute(*row) for row in rows]
        return self._nodes[root]

    def form(self, a: Form) -> Column:
        """The values of a form."""
        found = self._forms.get(a)
        if found is None:
            found = [a.constant] * POINTS
            for m, k in a.terms.items():
                column = self._monomial(m)
                found = [
                    None if total is None or value is None else total + k * value
                    for total, value in zip(found, column, strict=True)
                ]
            self._forms[a] = found
        return found

    def _monomial(self, m: Monomial) -> Column:
        found = self._monomials.get(m)
        if found is None:
            found = [1] * POINTS
            for atom in m.atoms:
                if atom.node is not None:
                    column = self.node(atom.node)
                else:
                    assert atom.numerator is not None
                    column = self.quotient(
                        atom.numerator, atom.divisor if atom.over is None else atom.over
                    )
                found = [_strict(operator.mul)(a, b) for a, b in zip(found, column, strict=True)]
            self._monomials[m] = found
        return found

    def quotient(self, numerator: Form, divisor: Form | int) -> Column:
        """The values of floor(numerator / divisor)."""
        over = [divisor] * POINTS if isinstance(divisor, int) else self.form(divisor)
        return [_divided(a, b) for a, b in zip(self.form(numerator), over, strict=True)]

    def claim(self, claim: Claim, place: int) -> Any:
        """The value, at a point, of what a step was applied to or has made."""
        if isinstance(claim, Form):
            return self.form(claim)[place]
        if isinstance(claim, UOp):
            return self.node(claim)[place]
        if isinstance(claim, Quotient):
            return self.quotient(*claim)[place]
        if isinstance(claim, int):
            return claim
        value = self.form(claim.form)[place]
        if value is None:
            return None
        if isinstance(claim, Within):
            return claim.low <= value <= claim.high
        return _RELATIONS[claim.relation](value, 0)


def _end(end: Bound, other: Bound, sign: int) -> int:
    if math.isinf(end):
        return sign * FAR if math.isinf(other) else int(other) + sign * FAR
    return int(end)


def _is_free(node: UOp) -> bool:
    """Whether a node has any value within its bounds: nothing is computed for it here."""
    return node.op is ops.RANGE or (node.op is not ops.CONST and node.op not in _COMPUTED)


# -- ops, on values that may be missing ------------------------------------------------------------


def _strict(compute: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: None if None in values else compute(*values)


def _divided(a: int | None, b: int | None) -> int | None:
    return None if a is None or not b else a // b


def _modulo(a: int | None, b: int | None) -> int | None:
    return None if a is None or not b else a % b


def _and(a: Any, b: Any) -> Any:
    if a is False or b is False:
        return False
    return None if a is None or b is None else a & b


def _or(a: Any, b: Any) -> Any:
    if a is True or b is True:
        return True
    return None if a is None or b is None else a | b


_RELATIONS: Final = {"<=": operator.le, "==": operator.eq, "!=": operator.ne}
_STRICT: Final[dict[Op, Callable[..., Any]]] = {
    ops.NEG: operator.neg,
    ops.NOT: lambda a: (not a) if isinstance(a, bool) else ~a,
    ops.ADD: operator.add,
    ops.SUB: operator.sub,
    ops.MUL: operator.mul,
    ops.SHL: lambda a, b: a << b if 0 <= b < 512 else None,
    ops.SHR: lambda a, b: a >> b if b >= 0 else None,
    ops.MAX: max,
    ops.MIN: min,
    ops.XOR: operator.xor,
    ops.LT: operator.lt,
    ops.LE: operator.le,
    ops.GT: operator.gt,
    ops.GE: operator.ge,
    ops.EQ: operator.eq,
    ops.NE: operator.ne,
}
_COMPUTED: Final[dict[Op, Callable[..., Any]]] = {
    **{op: _strict(compute) for op, compute in _STRICT.items()},
    ops.IDIV: _divided,
    ops.MOD: _modulo,
    ops.AND: _and,
    ops.OR: _or,
    ops.WHERE: lambda c, a, b: None if c is None else a if c else b,
    ops.INVALID: lambda: None,
}


# -- one step --------------------------------------------------------------------------------------


def _fault(step: Step, table: Table, place: int) -> str:
    """What is wrong with a step at a point."""
    before, after = table.claim(step.before, place), table.claim(step.after, place)
    if before is None or (after is None and isinstance(step.after, Within)):
        return ""
    if before != after:
        return f"{step.before} is {before}, and what came out is {after}"
    if not step.terms:
        return ""
    holes = {name: table.claim(value, place) for name, value in step.terms.items()}
    if None in holes.values():
        return ""
    for name, (low, high) in step.bounds.items():
        if not low <= holes[name] <= high:
            return f"{name} is {holes[name]}, and was said to be in {low} … {high}"
    stated = lemma(step.lemma)
    if stated.when is not None and not _value(stated.when, holes, step):
        return f"the guard {stated.when!r} does not hold for {holes} with {dict(step.bounds)}"
    left, right = (_value(side, holes, step) for side in (stated.before, stated.after))
    if left != before:
        return f"it was applied to {before}, and the left side of the lemma is {left} for {holes}"
    if right != after:
        return f"it gave {after}, and the right side of the lemma is {right} for {holes}"
    return ""


def _value(term: UOp, holes: Mapping[str, int], step: Step) -> Any:
    """The value of a side of a lemma, or of its guard."""
    if term.op is ops.HOLE:
        return holes[term.arg]
    if term.op is ops.CONST:
        return term.arg
    if term.op is ops.FACT and term.arg in ("lo", "hi"):
        low, high = step.bounds[term.src[0].arg]
        return low if term.arg == "lo" else high
    values = [_value(s, holes, step) for s in term.src]
    if term.op is ops.FACT:
        assert term.arg == "divides", term.arg
        return values[0] != 0 and values[1] % values[0] == 0
    return _COMPUTED[term.op](*values)
