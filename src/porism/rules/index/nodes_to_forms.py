"""Nodes to forms: index nodes converted to linear forms, comparisons to clauses."""

from __future__ import annotations

from collections.abc import Container
from math import inf

from porism.base.dtypes import Kind
from porism.ir import ops
from porism.ir.node import UOp
from porism.rules.index.form_arena import Arena
from porism.rules.index.lemma_steps import bind
from porism.rules.index.linear_form import Clause, Form, Monomial, Relation
from porism.rules.index.quotients import divide_by_form, floor_divide
from porism.rules.index.scoped_facts import merge

_LEMMAS = {
    **dict.fromkeys((ops.ADD, ops.SUB, ops.NEG, ops.SHL), "form-combine"),
    **dict.fromkeys((ops.MOD, ops.AND), "form-modulo"),
    **dict.fromkeys((ops.IDIV, ops.SHR), "quotient-multiples"),
    ops.MUL: "form-distribute",
    ops.MAX: "compare-larger",
    ops.MIN: "compare-smaller",
}
"""The lemma by which an op is converted; a sum is converted at once, by the ring axioms."""

DIVISIONS = frozenset({ops.IDIV, ops.MOD})
CHOICES = frozenset({ops.MAX, ops.MIN})
ARITHMETIC = frozenset({ops.ADD, ops.SUB, ops.NEG, ops.MUL, ops.IDIV, ops.MOD})
BITS = frozenset({ops.SHR, ops.AND})

LARGEST_SHIFT = 512  # bits; larger shifts stay opaque
MOST_PRODUCTS = 64  # terms of a product that is multiplied out; chosen by hand
HIGHEST_DEGREE = 8  # factors of a monomial; chosen by hand

Parts = dict[UOp, int]
"""Nodes with the factors by which they are added."""


def _creation_order(part: tuple[UOp, int]) -> int:
    """Return the sort key of a part."""
    return part[0].order


class Reader:
    """Converts nodes to forms of one arena."""

    def __init__(self, in_order: bool = False) -> None:
        self.arena = Arena()
        self.in_order = in_order
        """Whether operands are read sorted by `order`, and not as they are written."""

    def opaque(self, node: UOp) -> UOp:
        """Return the leaf for an opaque node."""
        return node

    def form(self, root: UOp) -> Form:
        """Return the form of an `index` node under the current facts, without recursion."""
        known = self.arena.here.forms
        stack: list[tuple[UOp, Parts | None]] = [(root, None)]
        while stack:
            node, parts = stack.pop()
            if node in known:
                continue
            if parts is None:
                parts = _operands_with_factors(node, known)
                if self.in_order and len(parts) > 1:
                    parts = dict(sorted(parts.items(), key=_creation_order))
                waiting: list[tuple[UOp, Parts | None]] = []
                for part in parts:
                    if part not in known and part.op is not ops.CONST:
                        if part.src:
                            waiting.append((part, None))
                        else:
                            known[part] = self.arena.leaf(part)
                if waiting:
                    stack.append((node, parts))
                    stack += waiting
                    continue
            known[node] = self._form(node, parts, known)
            if self.arena.budget.steps is not None and node.op in _LEMMAS:
                self.arena.here.note(_LEMMAS[node.op], node, known[node], {})
        return known[root]

    def _form(self, node: UOp, parts: Parts, known: dict[UOp, Form]) -> Form:
        """Return the form of a node whose operands have forms."""
        arena, op = self.arena, node.op
        if not parts:
            return self._leaf(node)
        if op in DIVISIONS:
            return self._division(node, known)
        if op in CHOICES:
            chosen = self._larger_or_smaller(node, known)
            return self._leaf(node) if chosen is None else chosen
        if op in BITS:
            a, size = self._operand(node.src[0], known), _power_of_two(node)
            quotient = floor_divide(arena, a, size)
            return quotient if op is ops.SHR else arena.add(a, quotient, -size)
        if op is ops.MUL and not _addends(node):
            a, b = known[node.src[0]], known[node.src[1]]
            return arena.leaf(node) if _is_large_product(a, b) else arena.multiply(a, b)
        terms: dict[Monomial, int] = {}
        constant = 0
        for part, times in parts.items():
            if part.op is ops.CONST:
                constant += times * part.arg
            else:
                a = known[part]
                merge(terms, a.terms, times)
                constant += times * a.constant
        return arena.form(constant, terms)

    def _division(self, node: UOp, known: dict[UOp, Form]) -> Form:
        """Return the form of a `//` or `%`; a division by 0 is opaque."""
        arena = self.arena
        a, divisor = self._operand(node.src[0], known), node.src[1]
        if divisor.op is ops.CONST and divisor.arg > 0:
            quotient = floor_divide(arena, a, divisor.arg)
            return quotient if node.op is ops.IDIV else arena.add(a, quotient, -divisor.arg)
        b = self._operand(divisor, known)
        if b.is_constant and b.constant == 0:
            return self._leaf(node)
        quotient = divide_by_form(arena, a, b)
        if node.op is ops.IDIV:
            return quotient
        return arena.add(a, arena.multiply(quotient, b), -1)

    def _larger_or_smaller(self, node: UOp, known: dict[UOp, Form]) -> Form | None:
        """Return the operand that `min` or `max` selects everywhere; None if neither is proved."""
        arena = self.arena
        a, b = self._operand(node.src[0], known), self._operand(node.src[1], known)
        low, high = (a, b) if node.op is ops.MIN else (b, a)
        if arena.here.at_most(arena.add(low, high, -1), 0):
            chosen, other = a, b
        elif arena.here.at_most(arena.add(high, low, -1), 0):
            chosen, other = b, a
        else:
            return None
        if arena.budget.steps is not None:
            small, large = (chosen, other) if node.op is ops.MIN else (other, chosen)
            terms = bind(x=small, y=arena.add(large, small, -1))
            arena.here.note(_LEMMAS[node.op], node, chosen, terms, y=(0, inf))
        return chosen

    def _operand(self, node: UOp, known: dict[UOp, Form]) -> Form:
        """Return the form of an operand, which may be a constant."""
        return self.arena.constant(node.arg) if node.op is ops.CONST else known[node]

    def _leaf(self, node: UOp) -> Form:
        """Return the form of a constant, or of an opaque node after `opaque` has rewritten it."""
        if node.op is ops.CONST:
            return self.arena.constant(node.arg)
        leaf = self.opaque(node)
        if leaf is not node and (leaf.op in ARITHMETIC or leaf.op is ops.CONST):
            return self.form(leaf) if leaf.src else self.arena.constant(leaf.arg)
        return self.arena.leaf(leaf)

    # -- conditions --------------------------------------------------------------------------------

    def clause(self, node: UOp) -> Clause | None:
        """Return a comparison of `index` values as a clause; None for any other node."""
        if node.op.group is not ops.COMPARISON or node.src[0].dtype.kind is not Kind.INDEX:
            return None
        arena, op = self.arena, node.op
        a, b = self.form(node.src[0]), self.form(node.src[1])
        if op in (ops.GT, ops.GE):
            a, b = b, a
        if op in (ops.LT, ops.GT):
            a = arena.add(a, arena.constant(1))
        relation: Relation = "==" if op is ops.EQ else "!=" if op is ops.NE else "<="
        clause = Clause(relation, arena.add(a, b, -1))
        if arena.budget.steps is not None:
            bindings = bind(x=a, w=arena.scale(b, -1), y=0) if relation == "<=" else bind()
            arena.here.note("compare-moved", node, clause, bindings)
        return clause


def _is_large_product(a: Form, b: Form) -> bool:
    """Return whether a product would have too many terms, or monomials of too high a degree."""
    if a.is_constant or b.is_constant:
        return False
    degree = max(len(m.atoms) for m in a.terms) + max(len(m.atoms) for m in b.terms)
    return len(a.terms) * len(b.terms) > MOST_PRODUCTS or degree > HIGHEST_DEGREE


def _operands_with_factors(node: UOp, known: Container[UOp]) -> Parts:
    """Return the nodes whose forms a form is computed from; those of a sum with their factors."""
    op = node.op
    if op in DIVISIONS or op in CHOICES or (op in BITS and _power_of_two(node)):
        return dict.fromkeys(node.src, 1)
    if _addends(node):
        return _flatten_sum(node, known)
    return dict.fromkeys(node.src, 1) if op is ops.MUL else {}


def _flatten_sum(root: UOp, known: Container[UOp]) -> Parts:
    """Return the addends of a sum with their factors, nested sums flattened unless known.

    A long sum is converted at once, since adding its terms one by one takes quadratic time. A
    nested sum is flattened once, when its factor is known from all its uses.
    """
    inner = {root: _addends(root)}
    uses: dict[UOp, int] = {}
    stack = [root]
    while stack:
        for s, _ in inner[stack.pop()]:
            if s in uses:
                uses[s] += 1
                continue
            uses[s] = 1
            addends = _addends(s) if s.src and s not in known else ()
            if addends:
                inner[s] = addends
                stack.append(s)
    parts = {root: 1}
    ready = [root]
    while ready:
        node = ready.pop()
        times = parts.pop(node)
        for s, k in inner[node]:
            parts[s] = parts.get(s, 0) + times * k
            uses[s] -= 1
            if not uses[s] and s in inner:
                ready.append(s)
    return parts


def _addends(node: UOp) -> tuple[tuple[UOp, int], ...]:
    """Return the addends of a sum, with factors, or of a product with a constant; else none."""
    op, src = node.op, node.src
    if op is ops.ADD:
        return (src[0], 1), (src[1], 1)
    if op is ops.MUL:
        a, b = src
        if b.op is ops.CONST:
            return ((a, b.arg),)
        return ((b, a.arg),) if a.op is ops.CONST else ()
    if op is ops.SUB:
        return (src[0], 1), (src[1], -1)
    if op is ops.NEG:
        return ((src[0], -1),)
    if op is ops.SHL and src[1].op is ops.CONST and 0 <= src[1].arg <= LARGEST_SHIFT:
        return ((src[0], 1 << src[1].arg),)
    return ()


def _power_of_two(node: UOp) -> int:
    """Return 2^k for `x >> k` and `x & (2^k - 1)`, which divide by it; 0 for other nodes."""
    amount = node.src[1]
    if amount.op is not ops.CONST:
        return 0
    if node.op is ops.SHR:
        return 1 << amount.arg if 0 <= amount.arg <= LARGEST_SHIFT else 0
    return amount.arg + 1 if amount.arg > 0 and amount.arg & (amount.arg + 1) == 0 else 0
