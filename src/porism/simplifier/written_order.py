"""Arrange: an expression in the order in which people write one.

The normal form sorts operands so that equal nodes meet; that order means nothing to a reader. Here
sums get their largest strides first, subtractions after additions, and the constant last:

    Before: 3 + (v + r * 8) + w * -1        After: r * 8 + v - w + 3

Products, comparisons and conjunctions follow: constants stand on the right, and variables in the
order in which their bounds were given. A condition that keeps a divisor from being zero comes
before the division. Values stay the same; the graph is made exactly as stated.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.simplifier.light_nodes import Make, made, number

LINEAR: Final = frozenset({ops.ADD, ops.SUB, ops.NEG, ops.MUL})
_FLAT: Final = frozenset({ops.MAX, ops.MIN, ops.AND, ops.OR, ops.XOR})
_SCALED: Final = frozenset({ops.MUL, ops.NEG, ops.CONST})  # what has factors
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
"""A sum with more terms, since it shares parts, is left as it is."""

Factors = tuple[UOp, ...]
Term = tuple[int, Factors]
"""A coefficient and what it multiplies."""

_LAST: Final = 1 << 60  # the rank of what has no variable


def arrange(
    root: UOp, names: Sequence[str] = (), kept: Container[UOp] = (), make: Make = made
) -> UOp:
    """The same value, written in a readable order; sums and the like in `kept` stay in one piece.

    >>> r, v = UOp.variable("r", 0, 3), UOp.variable("v", 0, 2)
    >>> arrange(UOp(ops.ADD, None, (r.lift(3), UOp(ops.ADD, None, (v, r.lift(8) * r)))), "rv")
    UOp(ADD index r * 8 + v + 3)
    """
    return _Arranging(names, kept, make).run(root)


class _Arranging:
    def __init__(self, names: Sequence[str], kept: Container[UOp], make: Make) -> None:
        self.kept = kept
        self.make = make
        self.position = {name: number for number, name in enumerate(names)}
        self.made: dict[UOp, UOp] = {}
        self.ranks: dict[UOp, int] = {}
        self.terms: dict[UOp, list[Term]] = {}
        self.too_long: set[UOp] = set()
        self.known_hazards: dict[UOp, int] = {}

    def run(self, root: UOp) -> UOp:
        """Parts first, each once; sums and conjunctions as a whole, not by their inner nodes."""
        if not root.src:
            return root
        done = self.made
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            waiting = [part for part in self.parts(node) if part.src and part not in done]
            if waiting:
                stack += reversed(waiting)
                continue
            stack.pop()
            done[node] = made = self.written(node)
            self.rank(made)
        return done[root]

    def parts(self, node: UOp) -> Sequence[UOp]:
        """The nodes to arrange before this one."""
        if node.op in LINEAR:
            if node in self.too_long:
                return node.src
            if node not in self.terms:
                found = terms_of(node, self.kept)
                if found is None:
                    seen = self.too_long  # its parts are not tried one after the other
                    seen.update(toposort(node, within=lambda n: n.op in LINEAR and n not in seen))
                    return node.src
                self.terms[node] = found
            return [factor for _, factors in self.terms[node] for factor in factors]
        if node.op in _FLAT:
            return operands_of(node, self.kept)
        return node.src

    def written(self, node: UOp) -> UOp:
        """An arranged node; what has no sources is arranged as it is."""
        op, made = node.op, self.made
        if op in LINEAR and node in self.terms:
            return self.sum(self.terms.pop(node))
        if op in _FLAT:
            parts = [made.get(part, part) for part in operands_of(node, self.kept)]
            if op is not ops.XOR:
                parts = list(dict.fromkeys(parts))
            parts.sort(key=self.place)
            if op is not ops.XOR and node.dtype is dtypes.boolean:
                parts.sort(key=self.hazards)
            return self.folded(op, parts)
        src = tuple([made.get(s, s) for s in node.src])
        if op is ops.NOT and src[0].op in _OPPOSITE and src[0].src[0].dtype.is_integer:
            op, src = _OPPOSITE[src[0].op], src[0].src
        if op in _FLIPPED and self.is_backward(op, *src):
            op, src = _FLIPPED[op], src[::-1]
        if not op.elementwise or node.arg is not None:
            return raw(op, None if op.elementwise else node.dtype, src, node.arg)
        return self.make(op, src)

    def is_backward(self, op: Op, a: UOp, b: UOp) -> bool:
        """Whether a comparison is to be turned: a constant goes right, the first variable left."""
        if a.op is ops.CONST or b.op is ops.CONST:
            return b.op is not ops.CONST
        if op in (ops.EQ, ops.NE):
            return self.place(b) < self.place(a)
        ranks = self.rank(a), self.rank(b)
        return ranks[1] < ranks[0] or (ranks[1] == ranks[0] and op in (ops.GT, ops.GE))

    # -- order -------------------------------------------------------------------------------------

    def rank(self, node: UOp) -> int:
        """The position of the first variable in an arranged node."""
        found = self.ranks.get(node)
        if found is None:
            if node.op is ops.VARIABLE:
                found = self.position.get(node.arg[0], len(self.position))
            else:
                stack = list(node.src)
                found = _LAST
                while stack:  # inner nodes of a sum have no rank of their own
                    part = stack.pop()
                    known = self.ranks.get(part)
                    if known is None and part.op is not ops.VARIABLE:
                        stack += part.src
                    else:
                        found = min(found, self.rank(part) if known is None else known)
            self.ranks[node] = found
        return found

    def place(self, node: UOp) -> tuple[bool, int, int]:
        """Where an operand stands among others: constants last."""
        return (node.op is ops.CONST, self.rank(node), node.order)

    def hazards(self, root: UOp) -> int:
        """How many operations inside one another may have no value, such as a division by zero.

        A conjunction is read from left to right only until it is decided: what keeps a divisor
        from being zero stands before the division.
        """
        known = self.known_hazards
        for node in toposort(root, within=lambda n: n not in known):
            inside = max((known[s] for s in node.src), default=0)
            known[node] = inside + may_have_no_value(node)
        return known[root]

    # -- sums --------------------------------------------------------------------------------------

    def sum(self, terms: list[Term]) -> UOp:
        """A sum of terms with arranged factors; equal terms are put together."""
        total: dict[Factors, int] = {}
        for times, factors in terms:
            single: list[UOp] = []
            for factor in factors:  # a sum may have turned out to be a product
                arranged = self.made.get(factor, factor)
                if arranged.op not in _SCALED or factor in self.kept:
                    single.append(arranged)
                    continue
                scale, parts = _factors(arranged, 1)
                times *= scale
                single += parts
            key = tuple(sorted(single, key=self.place) if len(single) > 1 else single)
            total[key] = total.get(key, 0) + times
        constant = total.pop((), 0)
        ordered = sorted(
            (self.gathered(times, factors) for factors, times in total.items() if times),
            key=lambda term: (term[0] < 0, -_stride(term), *self.places(term[1])),
        )
        whole: UOp | None = None
        if constant and (not ordered or (constant > 0 and ordered[0][0] < 0)):
            whole, constant = number(constant), 0  # 3 - x
        for times, factors in ordered:
            if whole is None:
                whole = self.scaled(times, factors)
            elif times > 0:
                whole = self.make(ops.ADD, (whole, self.scaled(times, factors)))
            else:
                whole = self.make(ops.SUB, (whole, self.scaled(-times, factors)))
        if whole is None:
            return number(constant)
        if constant:
            op = ops.ADD if constant > 0 else ops.SUB
            whole = self.make(op, (whole, number(abs(constant))))
        return whole

    def folded(self, op: Op, parts: Sequence[UOp]) -> UOp:
        whole = parts[0]
        for part in parts[1:]:
            whole = self.make(op, (whole, part))
        return whole

    def gathered(self, times: int, factors: Factors) -> Term:
        """A choice of numbers takes the coefficient: (1 if c else 0) * 4 is (4 if c else 0)."""
        if abs(times) == 1 or len(factors) != 1 or not chooses_numbers(factors[0]):
            return times, factors
        condition, *numbers = factors[0].src
        src = (condition, *(number(abs(times) * n.arg) for n in numbers))
        return (1 if times > 0 else -1), (self.make(ops.WHERE, src),)

    def scaled(self, times: int, factors: Factors) -> UOp:
        product = self.folded(ops.MUL, factors)
        if times == 1:
            return product
        if times == -1:
            return self.make(ops.NEG, (product,))
        return self.make(ops.MUL, (product, number(times)))

    def places(self, factors: Factors) -> tuple[tuple[bool, int, int], ...]:
        return tuple(self.place(factor) for factor in factors)


def may_have_no_value(node: UOp) -> bool:
    """Whether a node may divide by zero, or shift by less than nothing."""
    if node.op in (ops.IDIV, ops.MOD):
        return node.src[1].vmin <= 0 <= node.src[1].vmax
    return node.op in (ops.SHL, ops.SHR) and node.src[1].vmin < 0


def terms_of(root: UOp, kept: Container[UOp] = ()) -> list[Term] | None:
    """The terms of a sum, with the factors as they were; None if there are too many."""
    found: list[Term] = []
    stack: list[tuple[UOp, int]] = [(root, 1)]
    while stack:
        node, times = stack.pop()
        if (not node.src and node.op is not ops.CONST) or (node is not root and node in kept):
            found.append((times, (node,)))
        elif node.op is ops.ADD:
            stack += [(node.src[1], times), (node.src[0], times)]
        elif node.op is ops.SUB:
            stack += [(node.src[1], -times), (node.src[0], times)]
        elif node.op is ops.NEG:
            stack.append((node.src[0], -times))
        else:
            found.append(_factors(node, times, kept))
        if len(found) + len(stack) > MOST_TERMS:
            return None
    return found


def _factors(root: UOp, times: int, kept: Container[UOp] = ()) -> Term:
    """The factors of a product, constants apart. A sum among them stays as it is."""
    factors: list[UOp] = []
    stack = [root]
    while stack and len(stack) + len(factors) < MOST_TERMS:
        node = stack.pop()
        if node is not root and node in kept:
            factors.append(node)
        elif node.op is ops.MUL:
            stack += reversed(node.src)
        elif node.op is ops.CONST:
            times *= node.arg
        elif node.op is ops.NEG:
            times = -times
            stack.append(node.src[0])
        else:
            factors.append(node)
    return times, tuple(factors + stack)


def operands_of(root: UOp, kept: Container[UOp] = ()) -> list[UOp]:
    """The operands of a conjunction and the like, whose inner nodes have the same op."""
    found: list[UOp] = []
    stack = [root]
    seen = {root}
    shares = root.op is not ops.XOR  # elsewhere a repeated operand changes nothing
    while stack:
        node = stack.pop()
        opened = node is root or node not in kept
        if opened and node.op is root.op and node.dtype is root.dtype and len(found) < MOST_TERMS:
            for s in reversed(node.src):
                if not shares or s not in seen:
                    seen.add(s)
                    stack.append(s)
        else:
            found.append(node)
    return found


def _stride(term: Term) -> int:
    """How far a term moves an address: its coefficient, and the numbers that it chooses from."""
    times, factors = term
    if len(factors) == 1 and chooses_numbers(factors[0]):
        return abs(times) * max(abs(int(s.arg)) for s in factors[0].src[1:])
    if len(factors) == 1 and abs(times) == 1 and factors[0].op in LINEAR:
        first = factors[0]  # kept in one piece, it stands where its first term would
        while first.op in LINEAR and first.op is not ops.MUL:
            first = first.src[0]
        return _stride(_factors(first, 1))
    return abs(times)


def chooses_numbers(node: UOp) -> bool:
    """`(4 if c else 0)`, as a quotient of two values is written."""
    return node.op is ops.WHERE and all(s.op is ops.CONST for s in node.src[1:])
