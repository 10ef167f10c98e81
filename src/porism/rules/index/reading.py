"""Reading: nodes as forms and clauses."""

from __future__ import annotations

from collections.abc import Callable

from porism.base.dtypes import Kind
from porism.ir import ops
from porism.ir.node import UOp
from porism.rules.index.arena import Arena, merge
from porism.rules.index.comparisons import Clause
from porism.rules.index.form import Form, Monomial
from porism.rules.index.quotients import divide_by_form, floor_divide

LINEAR = frozenset({ops.ADD, ops.SUB, ops.NEG})
LARGEST_SHIFT = 512
MOST_PRODUCTS = 64
HIGHEST_DEGREE = 8


class Reader:
    """Reads nodes into one arena. `opaque(node)` is told of each node to look into no further."""

    def __init__(self, arena: Arena, opaque: Callable[[UOp], UOp]) -> None:
        self.arena = arena
        self.opaque = opaque
        self.epoch = arena.epoch
        self.known: dict[UOp, Form] = {}
        self.sums: dict[UOp, dict[UOp, int]] = {}  # of nodes whose turn has not come yet

    def form(self, root: UOp) -> Form:
        """The form of an `index` node; no recursion."""
        if self.epoch != self.arena.epoch:
            self.known, self.epoch = {}, self.arena.epoch
        known = self.known
        stack = [root]
        while stack:
            node = stack[-1]
            if node in known:
                stack.pop()
                continue
            needed = self._needed(node)
            waiting = [s for s in needed if s not in known]
            if waiting:
                stack += waiting
                continue
            known[node] = self._form(node)
            stack.pop()
        return known[root]

    def _needed(self, node: UOp) -> list[UOp]:
        """The nodes whose forms a node's form is made of."""
        if _is_linear(node):
            parts = self.sums.get(node)
            if parts is None:
                parts = self.sums[node] = self._sum(node)
            return [n for n in parts if n is not node]
        if node.op in (ops.MUL, ops.IDIV, ops.MOD) or _shifts(node):
            return [s for s in node.src if s.op is not ops.CONST]
        return []

    def _sum(self, root: UOp) -> dict[UOp, int]:
        """The parts of a sum and how often each is in it; constants under the root itself.

        A long sum is read in one go, since adding its terms one by one takes quadratic time.
        """
        order: list[UOp] = []
        seen: set[UOp] = set()
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                order.append(node)
            elif node not in seen and (
                node is root or (node not in self.known and _is_linear(node))
            ):
                seen.add(node)
                stack.append((node, True))
                stack += [(s, False) for s in node.src]
        share = dict.fromkeys(order, 0)
        share[root] = 1
        parts: dict[UOp, int] = {root: 0}
        for node in reversed(order):
            times = share[node]
            for s, k in _parts(node):
                if s in share:
                    share[s] += times * k
                elif s.op is ops.CONST:
                    parts[root] += times * k * s.arg
                else:
                    parts[s] = parts.get(s, 0) + times * k
        return parts

    def _form(self, node: UOp) -> Form:
        arena = self.arena
        if node.op is ops.CONST:
            return arena.constant(node.arg)
        if _is_linear(node):
            terms: dict[Monomial, int] = {}
            parts = self.sums.pop(node)
            constant = parts.pop(node)
            for part, times in parts.items():
                a = self.known[part]
                merge(terms, a.terms, times)
                constant += times * a.constant
            return arena.form(constant, terms)
        if node.op is ops.MUL:
            a, b = self._operand(node.src[0]), self._operand(node.src[1])
            if _is_large_product(a, b):
                return arena.leaf(node)
            return arena.multiply(a, b)
        if node.op in (ops.IDIV, ops.MOD):
            a, over = self._operand(node.src[0]), self._operand(node.src[1])
            if over.is_constant and over.constant == 0:
                return arena.leaf(self.opaque(node))
            quotient = divide_by_form(arena, a, over)
            if node.op is ops.IDIV:
                return quotient
            return arena.add(a, arena.multiply(quotient, over), -1)
        if _shifts(node):
            a, size = self._operand(node.src[0]), _size(node)
            quotient = floor_divide(arena, a, size)
            return quotient if node.op is ops.SHR else arena.add(a, quotient, -size)
        return arena.leaf(self.opaque(node))

    def _operand(self, node: UOp) -> Form:
        return self.arena.constant(node.arg) if node.op is ops.CONST else self.known[node]

    # -- conditions --------------------------------------------------------------------------------

    def clause(self, node: UOp) -> Clause | None:
        """A comparison of `index` values as a clause; None if it is something else."""
        if node.op.group is not ops.COMPARISON or node.src[0].dtype.kind is not Kind.INDEX:
            return None
        arena = self.arena
        a, b = self.form(node.src[0]), self.form(node.src[1])
        match node.op:
            case ops.LT:
                return Clause("<=", arena.add(arena.add(a, b, -1), arena.constant(1)))
            case ops.LE:
                return Clause("<=", arena.add(a, b, -1))
            case ops.GT:
                return Clause("<=", arena.add(arena.add(b, a, -1), arena.constant(1)))
            case ops.GE:
                return Clause("<=", arena.add(b, a, -1))
            case ops.EQ:
                return Clause("==", arena.add(a, b, -1))
        return Clause("!=", arena.add(a, b, -1))


def _is_large_product(a: Form, b: Form) -> bool:
    """Whether multiplying out would make more terms, or longer ones, than it is worth."""
    if a.is_constant or b.is_constant:
        return False
    degree = max(len(m.atoms) for m in a.terms) + max(len(m.atoms) for m in b.terms)
    return len(a.terms) * len(b.terms) > MOST_PRODUCTS or degree > HIGHEST_DEGREE


def _scales(node: UOp) -> bool:
    """A product with a constant."""
    if node.op is ops.MUL:
        return any(s.op is ops.CONST for s in node.src)
    if node.op is ops.SHL:
        amount = node.src[1]
        return amount.op is ops.CONST and 0 <= amount.arg <= LARGEST_SHIFT
    return False


def _is_linear(node: UOp) -> bool:
    return node.op in LINEAR or _scales(node)


def _parts(node: UOp) -> list[tuple[UOp, int]]:
    """The sources of a linear node with their factors."""
    match node.op:
        case ops.ADD:
            return [(node.src[0], 1), (node.src[1], 1)]
        case ops.SUB:
            return [(node.src[0], 1), (node.src[1], -1)]
        case ops.NEG:
            return [(node.src[0], -1)]
        case ops.SHL:
            return [(node.src[0], 1 << node.src[1].arg)]
    a, b = node.src
    return [(a, b.arg)] if b.op is ops.CONST else [(b, a.arg)]


def _shifts(node: UOp) -> bool:
    """A shift or mask that is a division by a power of two, or its remainder."""
    if node.op not in (ops.SHR, ops.AND):
        return False
    return _size(node) > 0


def _size(node: UOp) -> int:
    """2^k for `x >> k` and for `x & (2^k - 1)`; else 0."""
    amount = node.src[1]
    if amount.op is not ops.CONST:
        return 0
    if node.op is ops.SHR:
        return 1 << amount.arg if 0 <= amount.arg <= LARGEST_SHIFT else 0
    return amount.arg + 1 if amount.arg > 0 and amount.arg & (amount.arg + 1) == 0 else 0
