"""Address hoisting: each term of an index is added to the address in the loop it depends on.

    Before    for i: for j: load p + 4*(i*64 + j + 3)
    After     for i: q = p + 256*i;  for j: load q + 4*j + 12

An index is a sum of induction variables with coefficients, other values, and a constant. A term is
added to the address in its own loop, once for all accesses that share it; the innermost loop is
left with an induction variable and a constant, which addressing modes encode. Arithmetic that only
computes indices is not emitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from porism.backends.llvm.llvm_arithmetic import cannot_overflow
from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.node import UOp

Constant = int | tuple[int, ...]
"""A constant offset in elements: the same for every lane, or one for each."""


@dataclass(frozen=True, slots=True)
class AffineIndex:
    """An index in elements: values with their coefficients, and a constant."""

    terms: dict[UOp, int]
    constant: Constant

    def plus(self, other: AffineIndex, factor: int = 1) -> AffineIndex:
        terms = dict(self.terms)
        for value, coefficient in other.terms.items():
            terms[value] = terms.get(value, 0) + coefficient * factor
        return AffineIndex(terms, _added(self.constant, _scaled(other.constant, factor)))

    def times(self, factor: int) -> AffineIndex:
        terms = {value: times * factor for value, times in self.terms.items()}
        return AffineIndex(terms, _scaled(self.constant, factor))


class AddressParts:
    """The indices of a linear kernel as affine sums, and which arithmetic is still emitted."""

    def __init__(self, instructions: Sequence[UOp]) -> None:
        self.sums = _affine_indices(instructions)
        """The affine index of each INDEX, relative to its base."""
        parts = {value for total in self.sums.values() for value in total.terms}
        self.loops = {value for value in parts if value.op is ops.RANGE}
        """The loops whose induction variables are terms of addresses."""
        self.needed = parts - self.loops
        """Nodes that are needed as values, also if they are part of an index."""
        for node in reversed(instructions):
            if node.op is ops.INDEX:
                self.needed.add(node.src[0])
                self.needed.update(node.src[2:])
            elif node.op in _ORDER_OPS:
                self.needed.update(s for s in node.src if s.op is not ops.RANGE)
            elif node.op not in _INDEX_OPS or node in self.needed:
                self.needed.update(node.src)

    def is_index_only(self, node: UOp) -> bool:
        """Return whether a node is used in indices only, so that it is not emitted."""
        return node.op in _INDEX_OPS and node not in self.needed


def _affine_indices(instructions: Sequence[UOp]) -> dict[UOp, AffineIndex]:
    in_index: set[UOp] = set()
    for node in reversed(instructions):
        if node.op is ops.INDEX:
            in_index.add(node.src[1])
        elif node in in_index and node.op in _INDEX_OPS:
            in_index.update(node.src)
    parts: dict[UOp, AffineIndex] = {}
    indices: dict[UOp, AffineIndex] = {}
    for node in instructions:
        if node in in_index:
            parts[node] = _affine_index(node, parts)
        elif node.op is ops.INDEX:
            index = node.src[1]
            indices[node] = (
                parts[index] if _is_addressable(parts[index]) else AffineIndex({index: 1}, 0)
            )
    return indices


def _affine_index(node: UOp, parts: dict[UOp, AffineIndex]) -> AffineIndex:
    """Return a value as an affine sum; a value that is none is its own only term."""
    op, src = node.op, node.src
    if op in (ops.CONST, ops.VCONST):
        return AffineIndex({}, node.arg)
    lane = node.dtype.element if node.dtype.count > 1 else node.dtype
    if lane.kind is not Kind.SIGNED or op not in _INDEX_OPS:
        return AffineIndex({node: 1}, 0)
    if op is ops.VECTORIZE:
        return parts[src[0]] if len(set(src)) == 1 else AffineIndex({node: 1}, 0)
    if op is ops.CAST:
        return parts[src[0]] if _is_lossless_cast(src[0], lane) else AffineIndex({node: 1}, 0)
    (x, y), (a, b) = src, (parts[s] for s in src)
    if cannot_overflow(op, x, y, lane):
        if op is ops.ADD:
            return a.plus(b)
        if op is ops.SUB:
            return a.plus(b, -1)
        for factor, scaled in ((a, b), (b, a)):
            if not factor.terms and isinstance(factor.constant, int):
                return scaled.times(factor.constant)
    return AffineIndex({node: 1}, 0)


def _is_lossless_cast(source: UOp, lane: DType) -> bool:
    """Return whether a cast to a signed type keeps every value."""
    before = source.dtype.element if source.dtype.count > 1 else source.dtype
    return before.kind is Kind.SIGNED and before.bits <= lane.bits


def _is_addressable(total: AffineIndex) -> bool:
    """Return whether at most one term is a vector, with coefficient 1 and a scalar constant."""
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


_INDEX_OPS: Final = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.CAST, ops.VECTORIZE})
_ORDER_OPS: Final = frozenset({ops.AFTER, ops.END, ops.GROUP, ops.SINK})
