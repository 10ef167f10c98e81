"""Readable order: an expression with its operands in the order in which people write them.

The normal form sorts operands so that equal nodes meet; that order means nothing to a reader. Here
sums get their largest strides first, subtractions after additions, and the constant last:

    Before: 3 + (v + r * 8) + w * -1        After: r * 8 + v - w + 3

Products, comparisons and conjunctions follow: constants stand on the right, and variables in the
order in which their bounds were given. A condition that keeps a divisor from being zero comes
before the division. Values stay the same; no rule is applied to the new nodes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.simplifier.light_nodes import Make, make_uop, number

LINEAR: Final = frozenset({ops.ADD, ops.SUB, ops.NEG, ops.MUL})
_FLAT: Final = frozenset({ops.MAX, ops.MIN, ops.AND, ops.OR, ops.XOR})
_SCALED: Final = frozenset({ops.MUL, ops.NEG, ops.CONST})  # ops of products
_FLIPPED: Final[dict[Op, Op]] = {
    ops.LT: ops.GT,
    ops.LE: ops.GE,
    ops.GT: ops.LT,
    ops.GE: ops.LE,
    ops.EQ: ops.EQ,
    ops.NE: ops.NE,
}
_OPPOSITE: Final[dict[Op, Op]] = {
    ops.LT: ops.GE,
    ops.LE: ops.GT,
    ops.GT: ops.LE,
    ops.GE: ops.LT,
    ops.EQ: ops.NE,
    ops.NE: ops.EQ,
}
MOST_TERMS: Final = 50_000
"""A sum that expands to more terms, because it shares nodes, keeps its order; by hand."""

Factors = tuple[UOp, ...]
Term = tuple[int, Factors]
"""A coefficient and the factors that it multiplies."""

_LAST: Final = 1 << 60  # the rank of an expression without variables


def reorder(
    root: UOp, names: Sequence[str] = (), kept: Container[UOp] = (), make: Make = make_uop
) -> UOp:
    """Return an equal expression in a readable order; nodes in `kept` are not taken apart.

    >>> r, v = UOp.variable("r", 0, 3), UOp.variable("v", 0, 2)
    >>> reorder(UOp(ops.ADD, None, (r.lift(3), UOp(ops.ADD, None, (v, r.lift(8) * r)))), "rv")
    UOp(ADD index r * 8 + v + 3)
    """
    return _Reordering(names, kept, make).run(root)


class _Reordering:
    """The reordering of one expression."""

    def __init__(self, names: Sequence[str], kept: Container[UOp], make: Make) -> None:
        self.kept = kept
        self.make = make
        self.position = {name: number for number, name in enumerate(names)}
        self.reordered: dict[UOp, UOp] = {}
        self.ranks: dict[UOp, int] = {}
        self.terms: dict[UOp, list[Term]] = {}
        self.too_long: set[UOp] = set()
        self.known_hazards: dict[UOp, int] = {}

    def run(self, root: UOp) -> UOp:
        """Reorder operands first, each once; a sum or a conjunction is reordered as a whole."""
        if not root.src:
            return root
        done = self.reordered
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            pending = [part for part in self.operands(node) if part.src and part not in done]
            if pending:
                stack += reversed(pending)
                continue
            stack.pop()
            done[node] = new = self.readable(node)
            self.rank(new)
        return done[root]

    def operands(self, node: UOp) -> Sequence[UOp]:
        """Return the nodes to reorder before this one."""
        if node.op in LINEAR:
            if node in self.too_long:
                return node.src
            if node not in self.terms:
                terms = terms_of(node, self.kept)
                if terms is None:
                    too_long = self.too_long  # the sums inside are not expanded either
                    linear = toposort(node, within=lambda n: n.op in LINEAR and n not in too_long)
                    too_long.update(linear)
                    return node.src
                self.terms[node] = terms
            return [factor for _, factors in self.terms[node] for factor in factors]
        if node.op in _FLAT:
            return operands_of(node, self.kept)
        return node.src

    def readable(self, node: UOp) -> UOp:
        """Return a node on its reordered operands, in a readable order."""
        op, reordered = node.op, self.reordered
        if op in LINEAR and node in self.terms:
            return self.sum(self.terms.pop(node))
        if op in _FLAT:
            parts = [reordered.get(part, part) for part in operands_of(node, self.kept)]
            if op is not ops.XOR:
                parts = list(dict.fromkeys(parts))
            parts.sort(key=self.sort_key)
            if op is not ops.XOR and node.dtype is dtypes.boolean:
                parts.sort(key=self.hazards)
            return self.chain(op, parts)
        src = tuple([reordered.get(s, s) for s in node.src])
        if op is ops.NOT and src[0].op in _OPPOSITE and src[0].src[0].dtype.is_integer:
            op, src = _OPPOSITE[src[0].op], src[0].src
        if op in _FLIPPED and self.is_backward(op, *src):
            op, src = _FLIPPED[op], src[::-1]
        if not op.elementwise or node.arg is not None:
            return raw(op, None if op.elementwise else node.dtype, src, node.arg)
        return self.make(op, src)

    def is_backward(self, op: Op, a: UOp, b: UOp) -> bool:
        """Whether to swap a comparison: a constant goes right, the first variable left."""
        if a.op is ops.CONST or b.op is ops.CONST:
            return b.op is not ops.CONST
        if op in (ops.EQ, ops.NE):
            return self.sort_key(b) < self.sort_key(a)
        ranks = self.rank(a), self.rank(b)
        return ranks[1] < ranks[0] or (ranks[1] == ranks[0] and op in (ops.GT, ops.GE))

    # -- order -------------------------------------------------------------------------------------

    def rank(self, node: UOp) -> int:
        """Return the position of the first variable in a reordered node."""
        rank = self.ranks.get(node)
        if rank is None:
            if node.op is ops.VARIABLE:
                rank = self.position.get(node.arg[0], len(self.position))
            else:
                stack = list(node.src)
                rank = _LAST
                while stack:  # inner nodes of a sum have no rank of their own
                    part = stack.pop()
                    known = self.ranks.get(part)
                    if known is None and part.op is not ops.VARIABLE:
                        stack += part.src
                    else:
                        rank = min(rank, self.rank(part) if known is None else known)
            self.ranks[node] = rank
        return rank

    def sort_key(self, node: UOp) -> tuple[bool, int, int]:
        """Return the key by which operands are sorted: constants last."""
        return (node.op is ops.CONST, self.rank(node), node.order)

    def hazards(self, root: UOp) -> int:
        """Return how many nested operations may be undefined, such as a division by zero.

        A conjunction is read from left to right only until it is decided: what keeps a divisor
        from being zero stands before the division.
        """
        known = self.known_hazards
        for node in toposort(root, within=lambda n: n not in known):
            nested = max((known[s] for s in node.src), default=0)
            known[node] = nested + may_be_undefined(node)
        return known[root]

    # -- sums --------------------------------------------------------------------------------------

    def sum(self, terms: list[Term]) -> UOp:
        """Return the sum of terms with reordered factors; equal terms are added up."""
        total: dict[Factors, int] = {}
        for coefficient, factors in terms:
            flat: list[UOp] = []
            for factor in factors:  # a sum may have turned out to be a product
                reordered = self.reordered.get(factor, factor)
                if reordered.op not in _SCALED or factor in self.kept:
                    flat.append(reordered)
                    continue
                scale, parts = _factors(reordered, 1)
                coefficient *= scale
                flat += parts
            key = tuple(sorted(flat, key=self.sort_key) if len(flat) > 1 else flat)
            total[key] = total.get(key, 0) + coefficient
        constant = total.pop((), 0)
        terms = [self.absorb_coefficient(k, factors) for factors, k in total.items() if k]
        ordered = sorted(
            terms,
            key=lambda term: (term[0] < 0, -_stride(term), *map(self.sort_key, term[1])),
        )
        whole: UOp | None = None
        if constant and (not ordered or (constant > 0 and ordered[0][0] < 0)):
            whole, constant = number(constant), 0  # 3 - x
        for coefficient, factors in ordered:
            if whole is None:
                whole = self.scaled(coefficient, factors)
            elif coefficient > 0:
                whole = self.make(ops.ADD, (whole, self.scaled(coefficient, factors)))
            else:
                whole = self.make(ops.SUB, (whole, self.scaled(-coefficient, factors)))
        if whole is None:
            return number(constant)
        if constant:
            op = ops.ADD if constant > 0 else ops.SUB
            whole = self.make(op, (whole, number(abs(constant))))
        return whole

    def chain(self, op: Op, parts: Sequence[UOp]) -> UOp:
        """Return the operands joined by an op, from left to right."""
        whole = parts[0]
        for part in parts[1:]:
            whole = self.make(op, (whole, part))
        return whole

    def absorb_coefficient(self, coefficient: int, factors: Factors) -> Term:
        """Return a term whose choice of numbers has the coefficient: 4 if c else 0."""
        if abs(coefficient) == 1 or len(factors) != 1 or not is_choice_of_numbers(factors[0]):
            return coefficient, factors
        condition, *numbers = factors[0].src
        src = (condition, *(number(abs(coefficient) * n.arg) for n in numbers))
        return (1 if coefficient > 0 else -1), (self.make(ops.WHERE, src),)

    def scaled(self, coefficient: int, factors: Factors) -> UOp:
        """Return a term as a node."""
        product = self.chain(ops.MUL, factors)
        if coefficient == 1:
            return product
        if coefficient == -1:
            return self.make(ops.NEG, (product,))
        return self.make(ops.MUL, (product, number(coefficient)))


def may_be_undefined(node: UOp) -> bool:
    """Whether a node may divide by zero, or shift by a negative amount."""
    if node.op in (ops.IDIV, ops.MOD):
        return node.src[1].vmin <= 0 <= node.src[1].vmax
    return node.op in (ops.SHL, ops.SHR) and node.src[1].vmin < 0


def terms_of(root: UOp, kept: Container[UOp] = ()) -> list[Term] | None:
    """Return the terms of a sum, with the factors as they are; None if there are too many."""
    terms: list[Term] = []
    stack: list[tuple[UOp, int]] = [(root, 1)]
    while stack:
        node, coefficient = stack.pop()
        if (not node.src and node.op is not ops.CONST) or (node is not root and node in kept):
            terms.append((coefficient, (node,)))
        elif node.op is ops.ADD:
            stack += [(node.src[1], coefficient), (node.src[0], coefficient)]
        elif node.op is ops.SUB:
            stack += [(node.src[1], -coefficient), (node.src[0], coefficient)]
        elif node.op is ops.NEG:
            stack.append((node.src[0], -coefficient))
        else:
            terms.append(_factors(node, coefficient, kept))
        if len(terms) + len(stack) > MOST_TERMS:
            return None
    return terms


def _factors(root: UOp, coefficient: int, kept: Container[UOp] = ()) -> Term:
    """Return the coefficient and the factors of a product; a sum among them stays whole."""
    factors: list[UOp] = []
    stack = [root]
    while stack and len(stack) + len(factors) < MOST_TERMS:
        node = stack.pop()
        if node is not root and node in kept:
            factors.append(node)
        elif node.op is ops.MUL:
            stack += reversed(node.src)
        elif node.op is ops.CONST:
            coefficient *= node.arg
        elif node.op is ops.NEG:
            coefficient = -coefficient
            stack.append(node.src[0])
        else:
            factors.append(node)
    return coefficient, tuple(factors + stack)


def operands_of(root: UOp, kept: Container[UOp] = ()) -> list[UOp]:
    """Return the operands of a chain of one associative op, such as a conjunction."""
    operands: list[UOp] = []
    stack = [root]
    seen = {root}
    shares = root.op is not ops.XOR  # elsewhere a repeated operand changes nothing
    while stack:
        node = stack.pop()
        same = node.op is root.op and node.dtype is root.dtype
        if same and (node is root or node not in kept) and len(operands) < MOST_TERMS:
            for s in reversed(node.src):
                if not shares or s not in seen:
                    seen.add(s)
                    stack.append(s)
        else:
            operands.append(node)
    return operands


def _stride(term: Term) -> int:
    """Return the stride of a term: its coefficient times the largest number it chooses from."""
    coefficient, factors = term
    if len(factors) == 1 and is_choice_of_numbers(factors[0]):
        return abs(coefficient) * max(abs(int(s.arg)) for s in factors[0].src[1:])
    if len(factors) == 1 and abs(coefficient) == 1 and factors[0].op in LINEAR:
        first = factors[0]  # kept in one piece, it stands where its first term would
        while first.op in LINEAR and first.op is not ops.MUL:
            first = first.src[0]
        return _stride(_factors(first, 1))
    return abs(coefficient)


def is_choice_of_numbers(node: UOp) -> bool:
    """Whether a node is a choice of two constants, `(4 if c else 0)`."""
    return node.op is ops.WHERE and all(s.op is ops.CONST for s in node.src[1:])
