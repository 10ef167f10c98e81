"""Large expressions: simplified in pieces, so that the time stays bounded.

The time that simplification takes grows faster than an expression does. Expressions of the size
that people and compilers write are simplified whole. A larger one is cut: a
subexpression that is too large is simplified on its own, and replaced by a variable with the same
bounds. The cuts depend on the expression alone, so the result is deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp, construct, raw
from porism.ir.traversal import rebuild, toposort
from porism.rewrite.graph_rewrite import normalize
from porism.rewrite.rewrite_trace import Trace
from porism.rules import index

_DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD})
_LOGIC: Final = frozenset({ops.AND, ops.OR, ops.XOR, ops.NOT})


@dataclass(frozen=True, slots=True)
class Size:
    """How much work simplifying an expression may be, in four counts."""

    divisions: int = 0
    """Divisions and remainders, shared ones counted once for each use."""
    depth: int = 0
    """Divisions nested inside one another."""
    terms: int = 1
    """Terms of the sum that its products expand to."""
    degree: int = 1
    """Factors of the longest product."""

    def within(self, limit: Size) -> bool:
        """Whether no count is above that of a limit."""
        return (
            self.divisions <= limit.divisions
            and self.depth <= limit.depth
            and self.terms <= limit.terms
            and self.degree <= limit.degree
        )


WHOLE: Final = Size(divisions=150, depth=20, terms=2000, degree=40)
"""An expression up to this size is simplified whole; chosen by hand."""

PIECE: Final = Size(divisions=40, depth=5, terms=300, degree=16)
"""The largest size of a piece of a larger expression; chosen by hand."""

MOST_DIVISIONS: Final = 3000
"""With more divisions, only the construction-time rules are applied; chosen by hand."""

_SATURATED: Final = 1 << 30
"""Where counting stops."""


def simplify(root: UOp, *, facts: Sequence[UOp] = (), trace: Trace | None = None) -> UOp:
    """Return the simplified expression; one that is too large is simplified in pieces."""
    size, divisions = expression_size(root)
    if divisions > MOST_DIVISIONS:
        return normalize(root)
    if size.within(WHOLE):
        return index.simplify(root, facts=facts, trace=trace)
    return _PiecewiseSimplifier(facts, trace).run(root)


def fits(root: UOp) -> bool:
    """Whether an expression is simplified whole."""
    return expression_size(root)[0].within(WHOLE)


def expression_size(root: UOp) -> tuple[Size, int]:
    """Return the size of an expression, and its divisions with each of them counted once."""
    sizes: dict[UOp, Size] = {}
    divisions = 0
    for node in toposort(root):
        sizes[node] = _size(node, [sizes[s] for s in node.src])
        divisions += node.op in _DIVISIONS
    own = sizes[root]
    depth = max(size.depth for size in sizes.values())
    terms = max(size.terms for size in sizes.values())
    degree = max(size.degree for size in sizes.values())
    return Size(min(divisions, own.divisions), depth, terms, degree), divisions


def _size(node: UOp, parts: Sequence[Size]) -> Size:
    """Return the size of a node whose sources have the given sizes."""
    divisions = min(sum(part.divisions for part in parts), _SATURATED)
    depth = max((part.depth for part in parts), default=0)
    if node.op in _DIVISIONS:
        return Size(divisions + 1, depth + 1)
    if node.op in (ops.ADD, ops.SUB):
        terms = min(parts[0].terms + parts[1].terms, _SATURATED)
        # A long sum is normalized in one go; only a product of sums is expensive.
        return Size(divisions, depth, terms, max(part.degree for part in parts))
    if node.op is ops.NEG:
        return parts[0]
    if node.op is ops.MUL:
        if any(s.op is ops.CONST for s in node.src):
            return parts[0] if node.src[1].op is ops.CONST else parts[1]
        terms = min(parts[0].terms * parts[1].terms, _SATURATED)
        return Size(divisions, depth, terms, min(parts[0].degree + parts[1].degree, _SATURATED))
    return Size(divisions, depth)


class _PiecewiseSimplifier:
    """The simplification of one large expression in pieces."""

    def __init__(self, facts: Sequence[UOp], trace: Trace | None) -> None:
        self.facts = facts
        self.trace = trace
        self.new_nodes: dict[UOp, UOp] = {}
        self.sizes: dict[UOp, Size] = {}
        self.piece_of: dict[UOp, UOp] = {}  # a variable -> the piece that it stands for
        self.variable_of: dict[UOp, UOp] = {}  # the inverse

    def run(self, root: UOp) -> UOp:
        """Return the simplified expression."""
        for node in toposort(root):
            self.new_nodes[node] = self.process(node)
        result = self.new_nodes[root]
        if root.dtype is dtypes.index:
            result = self.simplified(result)
        return self.substitute_back(result)

    def process(self, node: UOp) -> UOp:
        """Return a node on its new sources; a condition is simplified, a number may grow."""
        if not node.src:
            return self.with_size(node, Size())
        src = tuple(self.new_nodes[s] for s in node.src)
        if node.dtype is dtypes.boolean:
            if node.op in _LOGIC:
                return construct(node.op, None, src)
            return self.simplified(self.bounded(node, src))
        if node.op is ops.WHERE:
            condition, *values = src
            values = [self.simplified(value) for value in values]
            return self.variable_for(construct(ops.WHERE, None, (condition, *values)))
        return self.bounded(node, src)

    def bounded(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        """Return the node on its sources, or on variables for them if it would be too large."""
        parts = [self.sizes.get(s, Size()) for s in src]
        size = _size(node, parts)
        if not _is_small(node, size):
            largest = sorted(range(len(src)), key=lambda i: _weight(parts[i]), reverse=True)
            new = list(src)
            for i in largest:  # as few variables as needed
                new[i] = self.variable_for(self.simplified(new[i]))
                parts[i] = Size()
                size = _size(node, parts)
                if _is_small(node, size):
                    break
            src = tuple(new)
        return self.with_size(raw(node.op, node.dtype_given, src, node.arg), size)

    def with_size(self, node: UOp, size: Size) -> UOp:
        """Note the size of a node, and return the node."""
        self.sizes[node] = size
        return node

    def simplified(self, node: UOp) -> UOp:
        """Return the normal form of a piece."""
        return index.simplify(node, facts=self.facts, trace=self.trace) if node.src else node

    def variable_for(self, node: UOp) -> UOp:
        """Return a variable with the bounds of a piece, to stand for it."""
        if not node.src or node.dtype is dtypes.boolean:
            return node
        variable = self.variable_of.get(node)
        if variable is None:
            bounds = (b if isinstance(b, int) else None for b in (node.vmin, node.vmax))
            name = f"${len(self.variable_of)}"  # a name that no text can have
            variable = raw(ops.VARIABLE, dtypes.index, (), (name, *bounds))
            self.variable_of[node] = variable
            self.piece_of[variable] = node
        return self.with_size(variable, Size())

    def substitute_back(self, root: UOp) -> UOp:
        """Return the expression with each variable replaced by its piece, inner pieces first."""
        replacements: dict[UOp, UOp] = {}

        def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
            if node in replacements:
                return replacements[node]
            return node if src == node.src else raw(node.op, node.dtype_given, src, node.arg)

        for variable, piece in self.piece_of.items():
            replacements[variable] = rebuild(piece, change)
        return rebuild(root, change)


def _is_small(node: UOp, size: Size) -> bool:
    """Whether a piece may be this large; the terms of a sum are not limited."""
    if node.op in (ops.ADD, ops.SUB):
        size = Size(size.divisions, size.depth, 1, size.degree)
    return size.within(PIECE)


def _weight(size: Size) -> tuple[int, int, int, int]:
    """Return the key by which the most expensive source is found."""
    return (size.depth, size.divisions, size.terms, size.degree)
