"""Lemma instances: each step of the normal form is checked against the lemma that it names.

Simplifying an expression records the steps that were taken; `step_faults` evaluates each of them
for values of the variables for which the facts of the step hold:

    the bounds that the step used contain the values of the holes,
    the guard of the lemma holds,
    the term before is the left side of the lemma, and the term after is its right side.

The lemma itself is proved for all numbers. Here it is checked that the code applies it correctly.
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
from porism.rules.index.lemma_steps import Quotient, Step, Term, Within
from porism.rules.index.linear_form import Form, Monomial
from porism.rules.index.normalize import Derivation, derive
from porism.rules.rule_sets import EVERYTHING

POINTS: Final = 96
"""Points (assignments of the variables) at which an expression is evaluated."""

CORNERS: Final = 24
"""Points of these at which each variable is at one of its bounds."""

FAR: Final = 1 << 12
"""Distance from zero, or from its other bound, to which an unbounded variable is tried."""

Column = list[Any]
"""A value at each point; None where there is none."""


@cache
def lemma(name: str) -> Rule:
    """Return the lemma of a name."""
    item = next((item for item in (*LEMMAS, *EVERYTHING) if item.name == name), None)
    assert isinstance(item, Rule), f"there is no lemma {name!r}"
    return item


def check_expression(root: UOp, facts: Sequence[UOp] = ()) -> list[str]:
    """Simplify an expression, and return the faults of the steps that were taken."""
    return list(step_faults(derive(root, facts)))


def step_faults(done: Derivation) -> Iterator[str]:
    """Yield the faults of the steps of an expression, and of the result."""
    table = Evaluation(done)
    for step in done.steps:
        for point in table.live(step.facts):
            fault = _fault(step, table, point)
            if fault:
                yield f"{step.lemma} at {table.describe(point)}: {fault}"
                break
    before, after = table.node(done.before), table.node(done.after)
    for point in range(POINTS):
        if table.inside[point] and before[point] not in (None, after[point]):
            yield f"{done.before!r} became {done.after!r}, wrong at {table.describe(point)}"
            break


# -- points ----------------------------------------------------------------------------------------


class Evaluation:
    """The values of forms and nodes at all points of an expression."""

    def __init__(self, done: Derivation) -> None:
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
        self._quotients: dict[tuple[Form, Form | int], Column] = {}
        self._live: dict[tuple[Form, ...], list[int]] = {}
        given = [self.node(fact) for fact in done.facts]
        self.inside = [all(column[point] for column in given) for point in range(POINTS)]

    def describe(self, point: int) -> str:
        """Return the values of the variables at a point, as text."""
        return ", ".join(f"{leaf!r} = {self._nodes[leaf][point]}" for leaf in self.leaves)

    def live(self, facts: tuple[Form, ...]) -> list[int]:
        """Return the points at which all these forms are <= 0, and the facts of the whole hold."""
        result = self._live.get(facts)
        if result is None:
            columns = [self.form(fact) for fact in facts]
            result = self._live[facts] = [
                point
                for point in range(POINTS)
                if self.inside[point]
                and all(c[point] is not None and c[point] <= 0 for c in columns)
            ]
        return result

    def node(self, root: UOp) -> Column:
        """Return the values of a node; the branch that is not selected need not be defined."""
        for node in toposort(root, within=lambda n: n not in self._nodes):
            if node.op is ops.CONST:
                self._nodes[node] = [node.arg] * POINTS
            else:
                columns = [self._nodes[s] for s in node.src]
                compute = _MEANINGS[node.op]
                rows = zip(*columns, strict=True) if columns else [()] * POINTS
                self._nodes[node] = [compute(*row) for row in rows]
        return self._nodes[root]

    def form(self, a: Form) -> Column:
        """Return the values of a form."""
        result = self._forms.get(a)
        if result is None:
            result = [a.constant] * POINTS
            for m, k in a.terms.items():
                column = self._monomial(m)
                result = [
                    None if total is None or value is None else total + k * value
                    for total, value in zip(result, column, strict=True)
                ]
            self._forms[a] = result
        return result

    def _monomial(self, m: Monomial) -> Column:
        result = self._monomials.get(m)
        if result is None:
            result = [1] * POINTS
            for atom in m.atoms:
                if atom.node is not None:
                    column = self.node(atom.node)
                else:
                    assert atom.numerator is not None
                    column = self.quotient(
                        atom.numerator,
                        atom.divisor if atom.divisor_form is None else atom.divisor_form,
                    )
                result = [_strict(operator.mul)(a, b) for a, b in zip(result, column, strict=True)]
            self._monomials[m] = result
        return result

    def quotient(self, numerator: Form, divisor: Form | int) -> Column:
        """Return the values of floor(numerator / divisor)."""
        found = self._quotients.get((numerator, divisor))
        if found is None:
            over = [divisor] * POINTS if isinstance(divisor, int) else self.form(divisor)
            found = [_divided(a, b) for a, b in zip(self.form(numerator), over, strict=True)]
            self._quotients[numerator, divisor] = found
        return found

    def value(self, term: Term, point: int) -> Any:
        """Return the value of a term of a step at a point."""
        if isinstance(term, Form):
            return self.form(term)[point]
        if isinstance(term, UOp):
            return self.node(term)[point]
        if isinstance(term, Quotient):
            return self.quotient(*term)[point]
        if isinstance(term, int):
            return term
        value = self.form(term.form)[point]
        if value is None:
            return None
        if isinstance(term, Within):
            return term.low <= value <= term.high
        return _RELATIONS[term.relation](value, 0)


def _end(end: Bound, other: Bound, sign: int) -> int:
    if math.isinf(end):
        return sign * FAR if math.isinf(other) else int(other) + sign * FAR
    return int(end)


def _is_free(node: UOp) -> bool:
    """Whether a node is a leaf, with any value within its bounds."""
    return node.op is ops.RANGE or (node.op is not ops.CONST and node.op not in _MEANINGS)


# -- ops on values that may be undefined -----------------------------------------------------------


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
_MEANINGS: Final[dict[Op, Callable[..., Any]]] = {
    **{op: _strict(compute) for op, compute in _STRICT.items()},
    ops.IDIV: _divided,
    ops.MOD: _modulo,
    ops.AND: _and,
    ops.OR: _or,
    ops.WHERE: lambda c, a, b: None if c is None else a if c else b,
    ops.INVALID: lambda: None,
}


# -- one step --------------------------------------------------------------------------------------


def _fault(step: Step, table: Evaluation, point: int) -> str:
    """Return the fault of a step at a point; empty if there is none."""
    before, after = table.value(step.before, point), table.value(step.after, point)
    if before is None or (after is None and isinstance(step.after, Within)):
        return ""
    if before != after:
        return f"{step.before} is {before}, and what came out is {after}"
    if not step.terms:
        return ""
    holes = {name: table.value(value, point) for name, value in step.terms.items()}
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
    """Return the value of a side of a lemma, or of its guard."""
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
    return _MEANINGS[term.op](*values)
