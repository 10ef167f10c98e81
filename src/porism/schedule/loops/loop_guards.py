"""Guards: loops that do nothing in some of their iterations become shorter.

    sum of WHERE(r < 5, x[r], 0) for r < 8        sum of WHERE(r < 5, x[r], 0) for r < 5
    y[WHERE(r >= 2, r, INVALID)] = … for r < 8    the same with r + 2 for r, and r < 6

An iteration does nothing in an END if all its stores are masked off, in a REDUCE if the value is
what the reduction begins with. What is known of the range there is read off the masks: each clause
is a sum that is at least 0, and bounds the range by what the other parts of the sum can be. The
masks themselves stay; they are simplified afterwards.
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
from porism.rules.buffers.buffer_rules import read_of
from porism.schedule.affine_forms import Affine, affine_forms
from porism.schedule.loops.initial_symbolic import symbolic
from porism.schedule.loops.range_transforms import closers_of, exchanged, is_free, size_of

DEEPEST: Final = 8
"""Ops of a value that are looked through."""


class Span(NamedTuple):
    """Iterations of a range: from `low` up to, and without, `high`."""

    low: int
    high: int

    def both(self, other: Span) -> Span:
        return Span(max(self.low, other.low), min(self.high, other.high))

    def either(self, other: Span) -> Span:
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        return Span(min(self.low, other.low), max(self.high, other.high))

    @property
    def is_empty(self) -> bool:
        return self.low >= self.high


def shrink_ranges(sink: UOp) -> UOp:
    """The graph with ranges as long as something happens in them, and without what that decides."""
    order = toposort(sink)
    if not any(n.op.group is ops.COMPARISON for n in order):
        return sink
    guards = _Guards(order)
    values: dict[UOp, UOp] = {}
    loops: dict[UOp, tuple[UOp, ...]] = {}
    for r in guards.closers:
        span = guards.span(r)
        if span is not None:
            size = UOp.const(index, span.high - span.low)
            shorter = ops.RANGE(size, arg=r.arg)
            values[r], loops[r] = shorter + span.low, (shorter,)
    return symbolic(exchanged(sink, values, loops)) if values else sink


class _Guards:
    def __init__(self, order: Sequence[UOp]) -> None:
        self.closers = closers_of(order)
        self.forms: Mapping[UOp, Affine] = affine_forms(order)
        self.known: dict[tuple[UOp, UOp], Span] = {}

    def span(self, r: UOp) -> Span | None:
        """The iterations in which something happens, if those are not all and not none."""
        if not is_free(r, self.closers):
            return None
        whole = self._whole(r)
        found = Span(0, 0)
        for node in self.closers[r]:
            if node.op is ops.END:
                here = self._of_effect(node.src[0], r)
            else:
                here = self._of_value(node.src[0], r, node.arg)
            found = found.either(here)
            if found == whole:
                return None
        return None if found.is_empty else found

    def _whole(self, r: UOp) -> Span:
        size = size_of(r)
        assert size is not None
        return Span(0, size)

    # -- what happens ------------------------------------------------------------------------------

    def _of_effect(self, effect: UOp, r: UOp) -> Span:
        """When one of the stores inside of an effect happens."""
        whole, found = self._whole(r), Span(0, 0)
        stack, seen = [effect], {effect}
        while stack:
            node = stack.pop()
            if node.op is ops.STORE:
                found = found.either(self._of_access(node.src[0], r))
            elif node.op in (ops.END, ops.GROUP):
                for s in node.src[:1] if node.op is ops.END else node.src:
                    if s not in seen:
                        seen.add(s)
                        stack.append(s)
            elif node.op is not ops.NOOP:
                return whole
        return found

    def _of_access(self, access: UOp, r: UOp) -> Span:
        """Where an INDEX has an element."""
        read = read_of(access) if access.op is ops.INDEX else None
        if read is None or read.valid is None:
            return self._whole(r)
        return self._of_condition(read.valid, r)

    def _of_value(self, value: UOp, r: UOp, op: Op) -> Span:
        """Where a value may be something else than what a reduction begins with."""
        start = identity(op, value.dtype)
        if start is None:
            return self._whole(r)
        return self._other_than(value, r, UOp.const(value.dtype, start), 0)

    def _other_than(self, value: UOp, r: UOp, start: UOp, depth: int) -> Span:
        whole = self._whole(r)
        if value is start:
            return Span(0, 0)
        if depth > DEEPEST:
            return whole
        node = value.op
        if node is ops.WHERE:
            condition, yes, no = value.src
            if _is(no, start):
                inner = self._other_than(yes, r, start, depth + 1)
                return self._of_condition(condition, r).both(inner)
            return whole
        if not _is_zero(start):
            return whole
        if node is ops.INDEX and r in value.ranges:
            return self._of_access(value, r)
        if node is ops.CAST and _keeps_zero(value):
            zero = UOp.const(value.src[0].dtype, 0)
            return self._other_than(value.src[0], r, zero, depth + 1)
        if node is ops.MUL and not value.dtype.is_float:
            a, b = (self._other_than(s, r, start, depth + 1) for s in value.src)
            return a.both(b)
        return whole

    # -- conditions --------------------------------------------------------------------------------

    def _of_condition(self, condition: UOp, r: UOp) -> Span:
        """Iterations in which a condition may hold."""
        found = self.known.get((condition, r))
        if found is None:
            found = self._whole(r)
            for clause in clauses(condition):
                for form in self._at_least_zero(clause):
                    found = found.both(_bounded(form, r, self._whole(r)))
            self.known[condition, r] = found
        return found

    def _at_least_zero(self, clause: UOp) -> Iterator[Affine]:
        """Sums that are at least 0 where a comparison of indices holds."""
        if clause.op is ops.NOT:
            opposite = _OPPOSITES.get(clause.src[0].op)
            sides = clause.src[0].src
        else:
            opposite, sides = clause.op, clause.src
        if opposite is None or not sides or sides[0].dtype.kind is not Kind.INDEX:
            return
        a, b = (self.forms.get(s) for s in sides)
        if a is None or b is None:
            return
        if opposite in (ops.LT, ops.LE, ops.EQ):
            yield _difference(b, a, opposite is ops.LT)
        if opposite in (ops.GT, ops.GE, ops.EQ):
            yield _difference(a, b, opposite is ops.GT)


_OPPOSITES: Final = {
    ops.LT: ops.GE,
    ops.GE: ops.LT,
    ops.GT: ops.LE,
    ops.LE: ops.GT,
    ops.NE: ops.EQ,
}


def _difference(a: Affine, b: Affine, strict: bool) -> Affine:
    factors = dict(a.factors)
    for part, factor in b.factors.items():
        factors[part] = factors.get(part, 0) - factor
    return Affine(factors, a.number - b.number - strict)


def _bounded(form: Affine, r: UOp, whole: Span) -> Span:
    """Where a sum can be at least 0, by what its other parts are at most."""
    factor = form.of(r)
    if factor == 0:
        return whole
    rest: float = form.number
    for part, f in form.factors.items():
        if part is not r:
            rest += f * (part.vmax if f > 0 else part.vmin) if f else 0
    if rest in (float("inf"), -float("inf")) or rest != rest:
        return whole
    most = int(rest)
    if factor > 0:  # factor * r >= -most
        return whole.both(Span(-(most // factor), whole.high))
    return whole.both(Span(whole.low, most // -factor + 1))


def _is(node: UOp, start: UOp) -> bool:
    return node.op is ops.CONST and key(node.arg) == key(start.arg)


def _is_zero(start: UOp) -> bool:
    return bool(start.arg == 0)


def _keeps_zero(cast: UOp) -> bool:
    source = cast.src[0].dtype
    return source.kind is not Kind.POINTER and source.count == 1
