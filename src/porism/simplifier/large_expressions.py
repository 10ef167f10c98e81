"""Pieces: a very large expression is simplified part by part, so that it never takes too long.

The time that simplification takes grows faster than an expression does. Expressions of the size
that people and compilers write are simplified whole. A larger one is cut: a part that is too large
for its surroundings is simplified on its own, and stands there as a variable with its bounds. The
cuts depend on the expression alone, so the result is the same every time.
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
    """How much work an expression may be."""

    divisions: int = 0
    depth: int = 0  # divisions inside one another
    terms: int = 1  # of the sum that its products expand to
    degree: int = 1  # of the longest product

    def within(self, limit: Size) -> bool:
        return (
            self.divisions <= limit.divisions
            and self.depth <= limit.depth
            and self.terms <= limit.terms
            and self.degree <= limit.degree
        )


WHOLE: Final = Size(divisions=150, depth=20, terms=2000, degree=40)
"""An expression up to this size is simplified whole."""

PIECE: Final = Size(divisions=40, depth=5, terms=300, degree=16)
"""The pieces of a larger one."""

MOST_DIVISIONS: Final = 3000
"""Beyond this only the rules that apply as nodes are made are used."""

_ENOUGH: Final = 1 << 30  # sizes are not counted further


def simplify(root: UOp, *, facts: Sequence[UOp] = (), trace: Trace | None = None) -> UOp:
    """The simplified expression, found in pieces if it is too large."""
    size, divisions = whole_size(root)
    if divisions > MOST_DIVISIONS:
        return normalize(root)
    if size.within(WHOLE):
        return index.simplify(root, facts=facts, trace=trace)
    return _Cutting(facts, trace).run(root)


def fits(root: UOp) -> bool:
    """Whether an expression is simplified whole."""
    return whole_size(root)[0].within(WHOLE)


def whole_size(root: UOp) -> tuple[Size, int]:
    """The size of an expression, each of its divisions counted once; and that count."""
    sizes: dict[UOp, Size] = {}
    divisions = 0
    for node in toposort(root):
        sizes[node] = _size(node, [sizes[s] for s in node.src])
        divisions += node.op in _DIVISIONS
    found = sizes[root]
    depth = max(size.depth for size in sizes.values())
    terms = max(size.terms for size in sizes.values())
    degree = max(size.degree for size in sizes.values())
    return Size(min(divisions, found.divisions), depth, terms, degree), divisions


def _size(node: UOp, parts: Sequence[Size]) -> Size:
    divisions = min(sum(part.divisions for part in parts), _ENOUGH)
    depth = max((part.depth for part in parts), default=0)
    if node.op in _DIVISIONS:
        return Size(divisions + 1, depth + 1)
    if node.op in (ops.ADD, ops.SUB):
        terms = min(parts[0].terms + parts[1].terms, _ENOUGH)
        # Long sums are read in one go; only what multiplies them makes them costly.
        return Size(divisions, depth, terms, max(part.degree for part in parts))
    if node.op is ops.NEG:
        return parts[0]
    if node.op is ops.MUL:
        if any(s.op is ops.CONST for s in node.src):
            return parts[0] if node.src[1].op is ops.CONST else parts[1]
        terms = min(parts[0].terms * parts[1].terms, _ENOUGH)
        return Size(divisions, depth, terms, min(parts[0].degree + parts[1].degree, _ENOUGH))
    return Size(divisions, depth)


class _Cutting:
    """One large expression, being put together of simplified pieces."""

    def __init__(self, facts: Sequence[UOp], trace: Trace | None) -> None:
        self.facts = facts
        self.trace = trace
        self.made: dict[UOp, UOp] = {}
        self.sizes: dict[UOp, Size] = {}
        self.meaning: dict[UOp, UOp] = {}  # a variable that stands for a piece -> the piece
        self.names: dict[UOp, UOp] = {}  # the other way round

    def run(self, root: UOp) -> UOp:
        for node in toposort(root):
            self.made[node] = self.piece(node)
        result = self.made[root]
        if root.dtype is dtypes.index:
            result = self.simplified(result)
        return self.filled_in(result)

    def piece(self, node: UOp) -> UOp:
        """The node on its pieces; a condition is finished, a number may become part of more."""
        if not node.src:
            return self.sized(node, Size())
        src = tuple(self.made[s] for s in node.src)
        if node.dtype is dtypes.boolean:
            if node.op in _LOGIC:
                return construct(node.op, None, src)
            return self.simplified(self.joined(node, src))
        if node.op is ops.WHERE:
            condition, *values = src
            values = [self.simplified(value) for value in values]
            return self.stand_in(construct(ops.WHERE, None, (condition, *values)))
        return self.joined(node, src)

    def joined(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        """The node on its sources, or on names for them if it would be too large."""
        parts = [self.sizes.get(s, Size()) for s in src]
        size = _size(node, parts)
        if not _small(node, size):
            largest = sorted(range(len(src)), key=lambda i: _weight(parts[i]), reverse=True)
            new = list(src)
            for i in largest:  # as few as needed
                new[i] = self.stand_in(self.simplified(new[i]))
                parts[i] = Size()
                size = _size(node, parts)
                if _small(node, size):
                    break
            src = tuple(new)
        return self.sized(raw(node.op, node.dtype_given, src, node.arg), size)

    def sized(self, node: UOp, size: Size) -> UOp:
        self.sizes[node] = size
        return node

    def simplified(self, node: UOp) -> UOp:
        return index.simplify(node, facts=self.facts, trace=self.trace) if node.src else node

    def stand_in(self, node: UOp) -> UOp:
        """A variable in place of a piece, with the bounds of the piece."""
        if not node.src or node.dtype is dtypes.boolean:
            return node
        found = self.names.get(node)
        if found is None:
            bounds = (b if isinstance(b, int) else None for b in (node.vmin, node.vmax))
            name = f"${len(self.names)}"  # no name that a text can have
            found = raw(ops.VARIABLE, dtypes.index, (), (name, *bounds))
            self.names[node] = found
            self.meaning[found] = node
        return self.sized(found, Size())

    def filled_in(self, root: UOp) -> UOp:
        """The expression with every piece in its place; pieces came before those that use them."""
        done: dict[UOp, UOp] = {}

        def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
            if node in done:
                return done[node]
            return node if src == node.src else raw(node.op, node.dtype_given, src, node.arg)

        for name, node in self.meaning.items():
            done[name] = rebuild(node, change)
        return rebuild(root, change)


def _small(node: UOp, size: Size) -> bool:
    """Whether a piece may be this large; a long sum of few divisions may."""
    if node.op in (ops.ADD, ops.SUB):
        size = Size(size.divisions, size.depth, 1, size.degree)
    return size.within(PIECE)


def _weight(size: Size) -> tuple[int, int, int, int]:
    return (size.depth, size.divisions, size.terms, size.degree)
