"""Addresses: which parts of an index are computed where.

An index is a sum of counters with factors, of other values, and a constant. Each part is added to
the address in the loop that it belongs to, once for all accesses that share it; what is left inside
is a counter and a constant, which an instruction takes as they are. Arithmetic that only makes
indices is not written at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from porism.backends.llvm.llvm_arithmetic import stays
from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.node import UOp

Constant = int | tuple[int, ...]
"""The same for every lane, or one for each."""


@dataclass(frozen=True, slots=True)
class Sum:
    """An index: values with their factors, and a constant."""

    terms: dict[UOp, int]
    constant: Constant

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        terms = dict(self.terms)
        for value, times in other.terms.items():
            terms[value] = terms.get(value, 0) + times * factor
        return Sum(terms, _added(self.constant, _scaled(other.constant, factor)))

    def times(self, factor: int) -> Sum:
        terms = {value: times * factor for value, times in self.terms.items()}
        return Sum(terms, _scaled(self.constant, factor))


class Addresses:
    """The indices of a linear kernel, and what becomes of the arithmetic in them."""

    def __init__(self, lines: Sequence[UOp]) -> None:
        self.sums = _sums(lines)
        """For each INDEX: what it adds to its base."""
        parts = {value for total in self.sums.values() for value in total.terms}
        self.counters = {value for value in parts if value.op is ops.RANGE}
        """The ranges that addresses are made of."""
        self.needed = parts - self.counters
        """What is needed as a value, also if it is part of an index."""
        for node in reversed(lines):
            if node.op is ops.INDEX:
                self.needed.add(node.src[0])
                self.needed.update(node.src[2:])
            elif node.op in _ORDER:
                self.needed.update(s for s in node.src if s.op is not ops.RANGE)
            elif node.op not in _PARTS or node in self.needed:
                self.needed.update(node.src)

    def is_idle(self, node: UOp) -> bool:
        """Whether a node is only a part of indices."""
        return node.op in _PARTS and node not in self.needed


def _sums(lines: Sequence[UOp]) -> dict[UOp, Sum]:
    inside: set[UOp] = set()
    for node in reversed(lines):
        if node.op is ops.INDEX:
            inside.add(node.src[1])
        elif node in inside and node.op in _PARTS:
            inside.update(node.src)
    parts: dict[UOp, Sum] = {}
    found: dict[UOp, Sum] = {}
    for node in lines:
        if node in inside:
            parts[node] = _sum(node, parts)
        elif node.op is ops.INDEX:
            at = node.src[1]
            found[node] = parts[at] if _is_usable(parts[at]) else Sum({at: 1}, 0)
    return found


def _sum(node: UOp, parts: dict[UOp, Sum]) -> Sum:
    """A value as a sum; of itself alone, if it is none."""
    op, src = node.op, node.src
    if op in (ops.CONST, ops.VCONST):
        return Sum({}, node.arg)
    lane = node.dtype.element if node.dtype.count > 1 else node.dtype
    if lane.kind is not Kind.SIGNED or op not in _PARTS:
        return Sum({node: 1}, 0)
    if op is ops.VECTORIZE:
        return parts[src[0]] if len(set(src)) == 1 else Sum({node: 1}, 0)
    if op is ops.CAST:
        return parts[src[0]] if _is_widened(src[0], lane) else Sum({node: 1}, 0)
    (x, y), (a, b) = src, (parts[s] for s in src)
    if stays(op, x, y, lane):
        if op is ops.ADD:
            return a.plus(b)
        if op is ops.SUB:
            return a.plus(b, -1)
        for one, other in ((a, b), (b, a)):
            if not one.terms and isinstance(one.constant, int):
                return other.times(one.constant)
    return Sum({node: 1}, 0)


def _is_widened(source: UOp, lane: DType) -> bool:
    """Whether a cast to a signed type keeps every value."""
    before = source.dtype.element if source.dtype.count > 1 else source.dtype
    return before.kind is Kind.SIGNED and before.bits <= lane.bits


def _is_usable(total: Sum) -> bool:
    """Whether no more than one vector, as it is, is left beside numbers."""
    vectors = [value for value in total.terms if value.dtype.count > 1]
    if not vectors:
        return True
    return len(vectors) == 1 and total.terms[vectors[0]] == 1 and isinstance(total.constant, int)


def _scaled(constant: Constant, factor: int) -> Constant:
    if isinstance(constant, tuple):
        return tuple(lane * factor for lane in constant)
    return constant * factor


def _added(a: Constant, b: Constant) -> Constant:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, int):
        a, b = b, a
    assert isinstance(a, tuple)
    others = (b,) * len(a) if isinstance(b, int) else b
    return tuple(x + y for x, y in zip(a, others, strict=True))


_PARTS: Final = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.CAST, ops.VECTORIZE})
_ORDER: Final = frozenset({ops.AFTER, ops.END, ops.GROUP, ops.SINK})
