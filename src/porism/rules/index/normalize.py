"""Normalize: index expressions and conditions simplified, each part under the facts in its scope.

In `WHERE(mask, x, y)` the value x is used only where the mask holds, so each clause of the mask is
a fact when x is simplified, and each clause is simplified under the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from porism.base import dtypes
from porism.base.dtypes import Kind
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.rewrite.rewrite_trace import Trace, process_trace
from porism.rules.index import conditions
from porism.rules.index.extraction import Make, Writer, construct_node, count_uses
from porism.rules.index.form_arena import Arena
from porism.rules.index.lemma_steps import Quotient, Step
from porism.rules.index.linear_form import Clause, Form
from porism.rules.index.nodes_to_forms import Reader

DEEPEST = 32  # nested WHEREs that are simplified; chosen by hand
MOST_STEPS = 200  # quotient steps that are written to a trace
MOST_CLAUSES = 32  # clauses of a mask that are used as facts for each other

COSTS = {ops.IDIV: 8, ops.MOD: 8, ops.CDIV: 8, ops.CMOD: 8, ops.MUL: 2}
"""The cost of a node in additions, chosen by hand; other ops cost 1, leaves 0."""


def simplify(
    root: UOp,
    *,
    facts: Sequence[UOp] = (),
    trace: Trace | None = None,
    make: Make | None = None,
) -> UOp:
    """Return an equal expression wherever the facts hold, never a costlier one.

    With `make`, the nodes of the result are built by it, whatever they cost. Then expressions that
    differ only in the order of operands have the same `order`, which alone decides the result.
    """
    trace = process_trace() if trace is None else trace
    if root.dtype not in (dtypes.index, dtypes.boolean):
        return root
    try:
        work = _Simplifier(facts, make, trace is not None)
        result = work.whole(root)
    except OverflowError:  # an int beyond every float met a bound that is infinite
        return root
    if make is None and result.src and not _costs_at_least(root, cost(result)):
        return root
    if trace is not None and result is not root:
        work.record(trace, root, result)
    return result


class Derivation(NamedTuple):
    """An expression before and after simplification, and the steps between."""

    before: UOp
    after: UOp
    facts: Sequence[UOp]
    steps: list[Step]


def derive(root: UOp, facts: Sequence[UOp] = ()) -> Derivation:
    """Simplify an expression of type `index` or bool, and return it with all steps."""
    work = _Simplifier(facts, with_steps=True)
    after = work.whole(root)
    return Derivation(root, after, facts, work.arena.budget.steps or [])


def division_count(root: UOp) -> int:
    """Return the number of distinct divisions and remainders of an expression."""
    return sum(node.op in (ops.IDIV, ops.MOD) for node in toposort(root))


def cost(root: UOp) -> tuple[int, int]:
    """Return the cost of an expression: the number of divisions, then the total by `COSTS`."""
    return _cost(root, inf)


def _costs_at_least(root: UOp, price: tuple[int, int]) -> bool:
    return _cost(root, price[0]) >= price


def _cost(root: UOp, enough: float) -> tuple[int, int]:
    """Return the cost; stop counting once there are more divisions than `enough`."""
    total = divided = 0
    seen = {root}
    stack = [root]
    while stack:
        node = stack.pop()
        op = node.op
        if node.src and op is not ops.RANGE:
            total += COSTS.get(op, 1)
            if op is ops.IDIV or op is ops.MOD:
                divided += 1
                if divided > enough:
                    break
            for s in node.src:
                if s not in seen:
                    seen.add(s)
                    stack.append(s)
    return divided, total


class _Simplifier(Reader):
    """Simplifies one expression."""

    def __init__(
        self, facts: Sequence[UOp], make: Make | None = None, with_steps: bool = False
    ) -> None:
        super().__init__(in_order=make is not None)
        self.make = construct_node if make is None else make
        if with_steps:
            self.arena.budget.steps = []
        self.depth = 0
        self.here: list[Form] = []  # facts of the current scope
        everywhere = []
        for fact in facts:
            for part in conjuncts(fact):
                clause = self.clause(part)
                if clause is not None:
                    everywhere += _as_facts(self.arena, clause)
        if everywhere:
            self.arena.assume_everywhere(everywhere)

    def whole(self, root: UOp) -> UOp:
        """Return a simplified expression of type `index` or bool."""
        return self.condition(root) if root.dtype is dtypes.boolean else self.value(root)

    def value(self, node: UOp) -> UOp:
        """Return a simplified `index` value."""
        if node.op is ops.WHERE:
            return self._choice(node)
        a = self.form(node)
        return Writer(self.arena, count_uses([a]), self.make).node(a)

    def opaque(self, node: UOp) -> UOp:
        """Return a node that is a leaf of forms, with its operands simplified."""
        if self.depth >= DEEPEST:
            return node
        if node.op is ops.WHERE:
            return self._nested(lambda: self._choice(node))
        if node.op.elementwise and node.src and all(s.dtype is dtypes.index for s in node.src):
            return self._nested(lambda: self.make(node.op, self._operands(node)))
        return node

    def _operands(self, node: UOp) -> tuple[UOp, ...]:
        return tuple(self.value(s) for s in node.src)

    def _nested(self, work: Callable[[], UOp]) -> UOp:
        """Run a function that changes the facts, and restore those of this scope."""
        scope, here = self.arena.here, self.here
        self.depth += 1
        try:
            return work()
        finally:
            self.depth -= 1
            self.arena.here, self.here = scope, here

    # -- conditions --------------------------------------------------------------------------------

    def condition(self, node: UOp) -> UOp:
        """Return a simplified bool: a conjunction as a mask, other logic part by part."""
        clauses = self._mask(node)
        return clauses if isinstance(clauses, UOp) else self._written(clauses)

    def _mask(self, node: UOp) -> list[Clause | UOp] | UOp:
        """Return the clauses of a conjunction, each simplified under the others, or a constant."""
        parts: list[Clause | UOp] = []
        for conjunct in self._ordered(conjuncts(node)):
            clause = self.clause(conjunct)
            parts.append(self._logic(conjunct) if clause is None else clause)
        return self._together(parts, False)

    def _ordered(self, parts: list[UOp]) -> list[UOp]:
        return sorted(parts, key=_order) if self.in_order else parts

    def _either(self, node: UOp) -> UOp:
        """Return a simplified disjunction, as the negated conjunction of its negated clauses."""
        parts: list[Clause | UOp] = []
        for part in self._ordered(parts_of(node, ops.OR)):
            clause = self.clause(part)
            parts.append(self._logic(part) if clause is None else clause.negated(self.arena))
        clauses = self._together(parts, True)
        if isinstance(clauses, UOp):
            return clauses
        return self._written(
            [c.negated(self.arena) if isinstance(c, Clause) else c for c in clauses], join=ops.OR
        )

    def _together(self, work: list[Clause | UOp], decided: bool) -> list[Clause | UOp] | UOp:
        """Simplify each condition under the clauses of all others.

        `decided` is the value of the whole as soon as one clause is false, or another part has that
        value; the whole is its negation if no condition is left.
        """
        kept: list[Clause | UOp] = []
        for i, part in enumerate(work):
            if isinstance(part, UOp):
                if part.op is ops.CONST and part.arg is decided:
                    self._assume([])
                    return part
                if part.op is not ops.CONST and part not in kept:
                    kept.append(part)
                continue
            others = [c for c in [*kept, *work[i + 1 :]][:MOST_CLAUSES] if isinstance(c, Clause)]
            self._assume(others)
            equal = [c.form for c in others if c.relation == "=="]
            simpler = conditions.simplify(self.arena, part, equal)
            if simpler is False:
                self._assume([])
                return UOp.const(dtypes.boolean, decided)
            if isinstance(simpler, Clause) and simpler not in kept:
                kept.append(simpler)
        self._assume([])
        return kept or UOp.const(dtypes.boolean, not decided)

    def _assume(self, clauses: list[Clause]) -> None:
        facts = [fact for clause in clauses for fact in _as_facts(self.arena, clause)]
        self.arena.assume([*self.here, *facts])

    def _logic(self, node: UOp) -> UOp:
        """Return a simplified part of a mask that is no comparison of integers."""
        if self.depth >= DEEPEST or node.dtype is not dtypes.boolean:
            return node
        if node.op is ops.OR:
            return self._nested(lambda: self._either(node))
        if node.op in (ops.NOT, ops.XOR):
            return self._nested(
                lambda: self.make(node.op, tuple(self.condition(s) for s in node.src))
            )
        return node

    def _written(
        self, clauses: list[Clause | UOp], writer: Writer | None = None, join: Op = ops.AND
    ) -> UOp:
        """Return the clauses of a mask as one condition."""
        if writer is None:
            writer = Writer(self.arena, count_uses(_forms(clauses)), self.make)
        whole: UOp | None = None
        for clause in clauses:
            part = writer.condition(clause) if isinstance(clause, Clause) else clause
            whole = part if whole is None else self.make(join, (whole, part))
        assert whole is not None
        return whole

    def _choice(self, node: UOp) -> UOp:
        """Return a simplified WHERE on `index` values."""
        test, yes, no = node.src
        if test.dtype is not dtypes.boolean:
            return node
        clauses = self._mask(test)
        if isinstance(clauses, UOp):
            return self._branch(yes if clauses.arg else no)
        facts = [c for c in clauses if isinstance(c, Clause)]
        outside = list(self.here)
        if no.op is not ops.INVALID:
            opposite = _negated_fact(self.arena, clauses)
            self.here = [*outside, *([opposite] if opposite is not None else [])]
            self.arena.assume(self.here)
            no = self._branch(no)
        self.here = [*outside, *(f for c in facts for f in _as_facts(self.arena, c))]
        self.arena.assume(self.here)
        chosen = self._chosen(clauses, yes, no)
        self.here = outside
        self.arena.assume(outside)
        return chosen

    def _chosen(self, clauses: list[Clause | UOp], yes: UOp, no: UOp) -> UOp:
        if yes.op is ops.WHERE:
            return self.make(ops.WHERE, (self._written(clauses), self._branch(yes), no))
        a = self.form(yes)
        writer = Writer(self.arena, count_uses([*_forms(clauses), a]), self.make)
        return self.make(ops.WHERE, (self._written(clauses, writer), writer.node(a), no))

    def _branch(self, node: UOp) -> UOp:
        return self._nested(lambda: self.value(node)) if self.depth < DEEPEST else node

    def record(self, trace: Trace, before: UOp, after: UOp) -> None:
        """Record the lemmas that were applied to quotients, then the whole."""
        steps = self.arena.budget.steps or []
        writer = Writer(self.arena, {}, self.make)
        exactly = self.make if self.in_order else _raw
        self.arena.budget.steps = None
        divided = [step for step in steps if isinstance(step.before, Quotient)]
        for step in divided[:MOST_STEPS]:
            if isinstance(step.before, Quotient) and isinstance(step.after, Form):
                numerator, divisor = step.before
                if isinstance(divisor, int):
                    divisor = self.arena.constant(divisor)
                old = exactly(ops.IDIV, (writer.node(numerator), writer.node(divisor)))
                new = writer.node(step.after)
                if new is not old:
                    trace.record(step.lemma, old, new)
        trace.record("index-normal-form", before, after)


def _raw(op: Op, src: tuple[UOp, ...]) -> UOp:
    return raw(op, None, src, None)


def _order(node: UOp) -> int:
    return node.order


def conjuncts(node: UOp) -> list[UOp]:
    """Return the parts of a conjunction, from left to right."""
    return parts_of(node, ops.AND)


def parts_of(node: UOp, op: Op) -> list[UOp]:
    """Return the parts of a conjunction or disjunction, from left to right."""
    parts: list[UOp] = []
    stack = [node]
    while stack:
        part = stack.pop()
        if part.op is op and part.dtype.kind is Kind.BOOL:
            stack += reversed(part.src)
        else:
            parts.append(part)
    return parts


def _forms(clauses: list[Clause | UOp]) -> list[Form]:
    return [clause.form for clause in clauses if isinstance(clause, Clause)]


def _as_facts(arena: Arena, clause: Clause) -> list[Form]:
    """Return a clause as forms that are <= 0."""
    if clause.relation == "<=":
        return [clause.form]
    if clause.relation == "==":
        return [clause.form, arena.scale(clause.form, -1)]
    return []


def _negated_fact(arena: Arena, clauses: list[Clause | UOp]) -> Form | None:
    """Return the fact that holds where a mask F <= 0 does not: 1 - F <= 0."""
    if len(clauses) != 1 or not isinstance(clauses[0], Clause) or clauses[0].relation != "<=":
        return None
    return arena.add(arena.constant(1), clauses[0].form, -1)
