"""Loop guards: loops are shortened to the iterations that have an effect.

    sum of WHERE(r < 5, x[r], 0) for r < 8        sum of WHERE(r < 5, x[r], 0) for r < 5
    y[WHERE(r >= 2, r, INVALID)] = … for r < 8    the same with r + 2 for r, and r < 6

An iteration of an END has no effect if all its stores are masked off, one of a REDUCE if the value
is the identity of the reduction. The masks bound the loop: each clause says that a sum is at least
0, which bounds the loop by what the other terms of the sum can be. The masks themselves stay; they
are simplified afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from porism.base.dtypes import Kind, index
from porism.ir import ops
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.text.argument_text import key
from porism.ir.traversal import toposort
from porism.rules.addresses.where_on_load import clauses
from porism.rules.buffers.buffer_rules import access_of
from porism.schedule.affine_forms import Affine, affine_forms
from porism.schedule.loops.initial_symbolic import simplify_symbolically
from porism.schedule.loops.range_transforms import (
    closers_of,
    extent,
    is_transformable,
    replace_loops,
)

MAX_DEPTH: Final = 8
"""How many nested ops of a value are searched for masks; chosen by hand."""


class Span(NamedTuple):
    """Iterations of a loop: from `low` up to, and without, `high`."""

    low: int
    high: int

    def intersect(self, other: Span) -> Span:
        """Return the iterations of both spans."""
        return Span(max(self.low, other.low), min(self.high, other.high))

    def hull(self, other: Span) -> Span:
        """Return the smallest span that contains both."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        return Span(min(self.low, other.low), max(self.high, other.high))

    @property
    def is_empty(self) -> bool:
        return self.low >= self.high


def shrink_ranges(sink: UOp) -> UOp:
    """Return the graph with loops shortened to the iterations that have an effect, simplified."""
    order = toposort(sink)
    if not any(n.op.group is ops.COMPARISON for n in order):
        return sink
    guards = _Guards(order)
    values: dict[UOp, UOp] = {}
    loops: dict[UOp, tuple[UOp, ...]] = {}
    for loop in guards.closers:
        span = guards.span(loop)
        if span is not None:
            iterations = UOp.const(index, span.high - span.low)
            shorter = ops.RANGE(iterations, arg=loop.arg)
            values[loop], loops[loop] = shorter + span.low, (shorter,)
    return simplify_symbolically(replace_loops(sink, values, loops)) if values else sink


class _Guards:
    def __init__(self, order: Sequence[UOp]) -> None:
        self.closers = closers_of(order)
        self.forms: Mapping[UOp, Affine] = affine_forms(order)
        self.known: dict[tuple[UOp, UOp], Span] = {}

    def span(self, r: UOp) -> Span | None:
        """Return the iterations that have an effect, if those are not all and not none."""
        if not is_transformable(r, self.closers):
            return None
        whole = self._whole(r)
        span = Span(0, 0)
        for node in self.closers[r]:
            if node.op is ops.END:
                closed = self._span_of_effect(node.src[0], r)
            else:
                closed = self._span_of_value(node.src[0], r, node.arg)
            span = span.hull(closed)
            if span == whole:
                return None
        return None if span.is_empty else span

    def _whole(self, r: UOp) -> Span:
        iterations = extent(r)
        assert iterations is not None
        return Span(0, iterations)

    # -- effects -----------------------------------------------------------------------------------

    def _span_of_effect(self, effect: UOp, r: UOp) -> Span:
        """Return the iterations in which one of the stores of an effect is executed."""
        whole, span = self._whole(r), Span(0, 0)
        stack, seen = [effect], {effect}
        while stack:
            node = stack.pop()
            if node.op is ops.STORE:
                span = span.hull(self._span_of_access(node.src[0], r))
            elif node.op in (ops.END, ops.GROUP):
                for s in node.src[:1] if node.op is ops.END else node.src:
                    if s not in seen:
                        seen.add(s)
                        stack.append(s)
            elif node.op is not ops.NOOP:
                return whole
        return span

    def _span_of_access(self, access: UOp, r: UOp) -> Span:
        """Return the iterations in which an INDEX is not masked off."""
        read = access_of(access) if access.op is ops.INDEX else None
        if read is None or read.valid is None:
            return self._whole(r)
        return self._span_of_condition(read.valid, r)

    def _span_of_value(self, value: UOp, r: UOp, op: Op) -> Span:
        """Return the iterations in which a value may differ from the identity of a reduction."""
        start = identity(op, value.dtype)
        if start is None:
            return self._whole(r)
        return self._span_other_than(value, r, UOp.const(value.dtype, start), 0)

    def _span_other_than(self, value: UOp, r: UOp, start: UOp, depth: int) -> Span:
        """Return the iterations in which a value may differ from a constant."""
        whole = self._whole(r)
        if value is start:
            return Span(0, 0)
        if depth > MAX_DEPTH:
            return whole
        op = value.op
        if op is ops.WHERE:
            condition, yes, no = value.src
            if _is_constant(no, start):
                inner = self._span_other_than(yes, r, start, depth + 1)
                return self._span_of_condition(condition, r).intersect(inner)
            return whole
        if not _is_zero(start):
            return whole
        if op is ops.INDEX and r in value.ranges:
            return self._span_of_access(value, r)
        if op is ops.CAST and _keeps_zero(value):
            zero = UOp.const(value.src[0].dtype, 0)
            return self._span_other_than(value.src[0], r, zero, depth + 1)
        if op is ops.MUL and not value.dtype.is_float:
            a, b = (self._span_other_than(s, r, start, depth + 1) for s in value.src)
            return a.intersect(b)
        return whole

    # -- conditions --------------------------------------------------------------------------------

    def _span_of_condition(self, condition: UOp, r: UOp) -> Span:
        """Return the iterations in which a condition may hold."""
        span = self.known.get((condition, r))
        if span is None:
            span = self._whole(r)
            for clause in clauses(condition):
                for form in self._at_least_zero(clause):
                    span = span.intersect(_bounded_span(form, r, self._whole(r)))
            self.known[condition, r] = span
        return span

    def _at_least_zero(self, clause: UOp) -> Iterator[Affine]:
        """Yield sums that are at least 0 where a comparison of indices holds."""
        if clause.op is ops.NOT:
            comparison = _OPPOSITES.get(clause.src[0].op)
            sides = clause.src[0].src
        else:
            comparison, sides = clause.op, clause.src
        if comparison is None or not sides or sides[0].dtype.kind is not Kind.INDEX:
            return
        a, b = (self.forms.get(s) for s in sides)
        if a is None or b is None:
            return
        if comparison in (ops.LT, ops.LE, ops.EQ):
            yield _difference(b, a, comparison is ops.LT)
        if comparison in (ops.GT, ops.GE, ops.EQ):
            yield _difference(a, b, comparison is ops.GT)


_OPPOSITES: Final = {
    ops.LT: ops.GE,
    ops.GE: ops.LT,
    ops.GT: ops.LE,
    ops.LE: ops.GT,
    ops.NE: ops.EQ,
}


def _difference(a: Affine, b: Affine, strict: bool) -> Affine:
    """Return a - b, less 1 if the comparison is strict."""
    coefficients = dict(a.coefficients)
    for term, coefficient in b.coefficients.items():
        coefficients[term] = coefficients.get(term, 0) - coefficient
    return Affine(coefficients, a.constant - b.constant - strict)


def _bounded_span(form: Affine, r: UOp, whole: Span) -> Span:
    """Return the iterations in which a sum can be at least 0, its other terms at their maximum."""
    factor = form.coefficient(r)
    if factor == 0:
        return whole
    rest: float = form.constant
    for term, c in form.coefficients.items():
        if term is not r:
            rest += c * (term.vmax if c > 0 else term.vmin) if c else 0
    if rest in (float("inf"), -float("inf")) or rest != rest:
        return whole
    most = int(rest)
    if factor > 0:  # factor * r >= -most
        return whole.intersect(Span(-(most // factor), whole.high))
    return whole.intersect(Span(whole.low, most // -factor + 1))


def _is_constant(node: UOp, start: UOp) -> bool:
    return node.op is ops.CONST and key(node.arg) == key(start.arg)


def _is_zero(start: UOp) -> bool:
    return bool(start.arg == 0)


def _keeps_zero(cast: UOp) -> bool:
    source = cast.src[0].dtype
    return source.kind is not Kind.POINTER and source.count == 1
