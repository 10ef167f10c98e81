"""Closed-form sums: the sum over a loop as an expression without the loop.

A sum over a range `r` of N iterations is rewritten from the root down. Terms without `r` are
opaque; conditions are solved for the iterations in which they hold (`condition_intervals`):

    x                        x * N
    r < cut ? x : 0          x * max(min(N, cut) - 0, 0)
    r < cut ? 0 : x          x * max(N - max(cut, 0), 0)
    idx == r ? f(r) : 0      0 <= idx < N ? f(idx) : 0, where f reads nothing if idx is outside
    a + b                    the sum of a and the sum of b, if both have a closed form
    r                        N*(N - 1)//2

On fixed-width integers all of this is exact, since both sides wrap alike; ends of intervals are
computed on `index`, which does not wrap. On floats only the fourth line is exact. A sum of floats
that are integers, and small enough, is exact in every order: it is computed on `index` and cast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from porism.base.dtypes import DType, Kind, boolean, i32, i64, index
from porism.ir import ops
from porism.ir.facts.open_ranges import CLOSERS
from porism.ir.node import UOp, construct
from porism.ir.traversal import toposort
from porism.rules.addresses.opaque_terms import simplify_opaque
from porism.rules.addresses.validity import is_masked, masked, may_be_invalid
from porism.rules.addresses.where_on_load import clauses
from porism.rules.reductions.condition_intervals import (
    ZERO,
    Iterations,
    may_fail,
    negate,
    solve_for_range,
)
from porism.rules.reductions.selected_terms import has_mask, is_zero, selection_of
from porism.rules.reductions.whole_numbers import EXACT_OPS, common_unit, holds_sum, whole_number

MOST_SPLITS: Final = 16
"""How many conditions of a sum are followed at most; chosen by hand."""

_TRUE: Final = UOp.const(boolean, True)
_DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD, ops.SHL, ops.SHR})


def closed_form_sum(value: UOp, r: UOp, *, as_reals: bool = False) -> UOp | None:
    """Return the sum of an integer over all iterations of a range; None without a closed form.

    With `as_reals`, floats are treated as real numbers.
    """
    return _ClosedForm(r, as_reals).sum(value, Iterations())


def closed_form_gather(value: UOp, r: UOp) -> UOp | None:
    """Return the sum of terms of which at most one is not 0; None if there may be more."""
    return _ClosedForm(r).single_term(value)


def closed_form_float_sum(value: UOp, r: UOp, trip_count: int) -> UOp | None:
    """Return the sum of floats that are integers, if a sum of `trip_count` of them is exact."""
    first = value
    while first.op in EXACT_OPS:
        first = first.src[0]
    if first.op is ops.INDEX:  # the common case
        return None
    unit = common_unit(value)
    whole = None if unit is None else whole_number(value, r, unit)
    if whole is None or unit is None or not holds_sum(value.dtype, whole, trip_count):
        return None
    integer_sum = closed_form_sum(whole, r)
    if integer_sum is None:
        return None
    total = integer_sum.cast(value.dtype)
    return total if unit == 1 else total * unit


def closed_form_any(value: UOp, r: UOp) -> UOp | None:
    """Return the condition that another one holds in some iteration of a range."""
    return _ClosedForm(r).any_iteration(value)


class _Clauses(NamedTuple):
    """The clauses of a condition, solved for the range."""

    invariant: list[UOp]  # clauses that do not depend on the range
    varying: list[UOp]  # clauses that do, or that may fail where other clauses decide
    where: Iterations  # the iterations that the solved clauses allow
    solution: UOp | None  # the clause that determines the one iteration
    unsolved: list[UOp]


class _ClosedForm:
    """Closed forms of sums over one range."""

    def __init__(self, r: UOp, as_reals: bool = False) -> None:
        self.r = r
        self.extent = r.src[0]
        self.as_reals = as_reals
        self.splits = MOST_SPLITS

    # -- values ------------------------------------------------------------------------------------

    def sum(self, value: UOp, span: Iterations) -> UOp | None:
        """Return the sum of a value over the iterations of a span."""
        r, op, src = self.r, value.op, value.src
        if r not in value.ranges:
            return None if may_be_invalid(value) else self._invariant(value, span)
        if value is r:
            return self._iteration_numbers(span)
        if op is ops.ADD or op is ops.SUB:
            first = self.sum(src[0], span)
            second = None if first is None else self.sum(src[1], span)
            return None if first is None or second is None else op(first, second)
        if op is ops.NEG:
            inner = self.sum(src[0], span)
            return None if inner is None else -inner
        if op is ops.MUL:
            return self._product(value, span)
        if op is ops.CAST:
            return self._cast(value, span)
        if op is ops.WHERE:
            return self._select(value, span)
        if op is ops.INDEX and has_mask(value):
            return self._under(value.src[1].src[0], value, span)
        return None

    def _invariant(self, value: UOp, span: Iterations) -> UOp:
        if is_zero(value):
            return value
        count = self.count(span)
        return count.cast(value.dtype) * self._where_any(span, value)

    def _where_any(self, span: Iterations, value: UOp) -> UOp:
        """Return an invariant value; 0 if a span has no iterations and it may fail."""
        if not may_fail(value, accesses=True):
            return value
        count = self.count(span)
        return value if count.vmin >= 1 else (count > 0).where(value, 0)

    def _iteration_numbers(self, span: Iterations) -> UOp:
        """Return the sum of the range itself over a span."""
        low, high = self.ends(span)
        if not _is_proved(low <= high):
            high = high.maximum(low)
        return (high * (high - 1) - low * (low - 1)) // 2

    def _product(self, value: UOp, span: Iterations) -> UOp | None:
        a, b = value.src
        for x, y in ((a, b), (b, a)):
            if self.r not in x.ranges:
                inner = None if may_be_invalid(x) else self.sum(y, span)
                return None if inner is None else inner * self._where_any(span, x)
        for x, y in ((a, b), (b, a)):
            if x.op is ops.CAST and x.src[0].dtype is boolean:
                return self._under(x.src[0], y, span)
            if x.op is ops.WHERE and is_zero(x.src[2]):
                return self._under(x.src[0], x.src[1] * y, span)
        return None

    def _cast(self, value: UOp, span: Iterations) -> UOp | None:
        inner, dtype = value.src[0], value.dtype
        if inner.dtype is boolean:
            return self._under(inner, UOp.const(dtype, 1), span)
        if not inner.dtype.is_integer or (dtype.is_float and not self.as_reals):
            return None
        selection = None if inner.op is ops.INDEX else selection_of(inner)
        if selection is not None:
            return self._under(selection.condition, selection.value.cast(dtype), span)
        if inner.dtype is not index and _may_exceed(dtype, inner.dtype):
            # the sum may overflow the narrow type, so it is not computed there
            whole = whole_number(inner, self.r)
            if whole is None:
                return None
            inner = whole
        total = self.sum(inner, span)
        return None if total is None else total.cast(dtype)

    def _select(self, value: UOp, span: Iterations) -> UOp | None:
        condition, yes, no = value.src
        if self.r not in condition.ranges:
            first = self.sum(yes, span)
            second = None if first is None else self.sum(no, span)
            if first is None or second is None:
                return None
            return self._where_any(span, condition).where(first, second)
        if may_be_invalid(no):
            return None
        if is_zero(no):
            return self._under(condition, yes, span)
        if is_zero(yes):
            return self._under(negate(condition), no, span)
        first = self._under(condition, yes, span)
        second = None if first is None else self._under(negate(condition), no, span)
        return None if first is None or second is None else first + second

    # -- conditions --------------------------------------------------------------------------------

    def _under(self, condition: UOp, value: UOp, span: Iterations) -> UOp | None:
        """Return the sum of a value over the iterations in which a condition holds."""
        self.splits -= 1
        if self.splits < 0 or self._is_varying_load(condition, value):
            return None
        parts = self._solve(condition, span)
        if parts.where.point is not None:
            total = self._at_point(parts, value)
        elif parts.unsolved:
            total = self._split(parts, value, span)
        else:
            total = self.sum(value, parts.where)
        return None if total is None else _where_all(parts.invariant, total)

    def _is_varying_load(self, condition: UOp, value: UOp) -> bool:
        """Whether a different element is loaded in many iterations, which has no closed form."""
        if value.op is not ops.INDEX or self.r not in value.ranges:
            return False
        return not any(c.op is ops.EQ and self.r in c.ranges for c in _clauses(condition))

    def _solve(self, condition: UOp, span: Iterations) -> _Clauses:
        """Solve the clauses of a condition for the range, within a span."""
        invariant: list[UOp] = []
        varying: list[UOp] = []
        unsolved: list[UOp] = []
        solution: UOp | None = None
        lows, highs, point = span.lows, span.highs, span.point
        for clause in _clauses(condition):
            is_varying = self.r in clause.ranges
            if not is_varying and not may_fail(clause):
                invariant.append(clause)
                continue
            varying.append(clause)
            solved = solve_for_range(clause, self.r) if is_varying else None
            if solved is None or (solved.point is not None and point is not None):
                unsolved.append(clause)
                continue
            if solved.point is not None:
                point, solution = simplify_opaque(solved.point), clause
            lows, highs = lows + solved.lows, highs + solved.highs
            invariant += solved.when
        return _Clauses(invariant, varying, Iterations(lows, highs, point), solution, unsolved)

    def _split(self, parts: _Clauses, value: UOp, span: Iterations) -> UOp | None:
        """Split a sum at a clause `a | b` or `a != b` into the sums of two disjoint conditions."""
        clause = next((c for c in parts.unsolved if c.op in (ops.OR, ops.NE)), None)
        if clause is None:
            return None
        others = [c for c in parts.varying if c is not clause]
        if clause.op is ops.OR:
            a, b = clause.src
            first = self._under(_conjunction([*others, a]), value, span)
            only_b = _conjunction([*others, negate(a), b])
            second = None if first is None else self._under(only_b, value, span)
            return None if first is None or second is None else first + second
        equal = self._under(_conjunction([*others, negate(clause)]), value, span)
        whole = None if equal is None else self._under(_conjunction(others), value, span)
        return None if equal is None or whole is None else whole - equal

    def _at_point(self, parts: _Clauses, value: UOp) -> UOp | None:
        """Return the value in the only iteration that a condition allows, 0 outside the loop."""
        point = parts.where.point
        assert point is not None
        gate = self._is_iteration(parts.where)
        known: dict[UOp, UOp] = {} if parts.solution is None else {parts.solution: _TRUE}
        for clause in parts.unsolved:
            holds = self._substitute(clause, point, gate, known)
            if holds is None:
                return None
            known[clause] = _TRUE
            gate = [*gate, holds]
        term = self._substitute(value, point, gate, known)
        if term is None:
            return None
        if value.op is ops.INDEX and self.r in value.ranges:
            return term  # a masked load, which is 0 where the gate is closed
        return _where_all(gate, term)

    def _is_iteration(self, where: Iterations) -> list[UOp]:
        """Return the conditions under which the point is an iteration of the span."""
        point = where.point
        assert point is not None
        clamped = self._clamp(point)
        needed = [point >= ZERO, *(clamped >= low for low in where.lows)]
        needed += [point < self.extent, *(clamped < high for high in where.highs)]
        return [c for c in dict.fromkeys(map(_simplified, needed)) if c is not _TRUE]

    def _substitute(
        self, value: UOp, point: UOp, gate: Sequence[UOp], known: dict[UOp, UOp]
    ) -> UOp | None:
        """Return a value at the point, its loads masked by the gate; None if that is not safe."""
        r = self.r
        if r not in value.ranges:
            return value
        new: dict[UOp, UOp] = {r: self._clamp(point), **known}
        for node in toposort(value, within=lambda n: r in n.ranges and n not in new):
            op = node.op
            if op is ops.RANGE or op is ops.BUFFERIZE or node.dtype.kind is Kind.POINTER:
                return None
            if op in CLOSERS and any(s in point.ranges for s in node.src[1:]):
                return None
            if op in _DIVISIONS and r in node.src[1].ranges:
                return None
            src = tuple(new.get(s, s) for s in node.src)
            if op is ops.INDEX and gate:
                src = _add_gate(src, gate)
            new[node] = construct(op, node.dtype_given, src, node.arg)
        return new[value]

    def _clamp(self, point: UOp) -> UOp:
        """Return the point where the gate is open, elsewhere some iteration of the loop.

        Index arithmetic on a loaded point may exceed 64 bits, also where its result is not used. It
        is clamped in i64: the gate is no fact about that value, so no rule removes the clamp.
        """
        if i32.min <= point.vmin and point.vmax <= i32.max:
            return point
        last = (self.extent - 1).maximum(0).cast(i64)
        return point.cast(i64).maximum(0).minimum(last).cast(index)

    # -- counting ----------------------------------------------------------------------------------

    def ends(self, span: Iterations) -> tuple[UOp, UOp]:
        """Return the first iteration of a span, and its end, which may be smaller."""
        lows = _without_redundant(span.lows, ZERO, lambda a, b: a <= b)
        highs = _without_redundant(span.highs, self.extent, lambda a, b: a >= b)
        low, high = lows[0], highs[0]
        for bound in lows[1:]:
            low = low.maximum(bound)
        for bound in highs[1:]:
            high = high.minimum(bound)
        return low, high

    def count(self, span: Iterations) -> UOp:
        """Return the number of iterations of a span."""
        low, high = self.ends(span)
        count = simplify_opaque(high - low)
        return count if count.vmin >= 0 or _is_proved(low <= high) else count.maximum(0)

    # -- one term, and existence ------------------------------------------------------------------

    def single_term(self, value: UOp) -> UOp | None:
        """Return the sum of a value that is not 0 in at most one iteration."""
        selection = selection_of(value)
        if selection is None:
            return None
        condition, yes = selection
        if not any(c.op is ops.EQ and self.r in c.ranges for c in _clauses(condition)):
            return None
        parts = self._solve(condition, Iterations())
        if parts.where.point is None or may_be_invalid(yes):
            return None
        term = self._at_point(parts, yes)
        return None if term is None else _where_all(parts.invariant, term)

    def any_iteration(self, condition: UOp) -> UOp | None:
        """Return the condition that another one holds in some iteration."""
        if self.r not in condition.ranges:
            return condition
        if condition.op is ops.NOT:
            opposite = negate(condition.src[0])
            return None if opposite.op is ops.NOT else self.any_iteration(opposite)
        if condition.op is ops.OR:
            first = self.any_iteration(condition.src[0])
            second = None if first is None else self.any_iteration(condition.src[1])
            return None if first is None or second is None else first | second
        parts = self._solve(condition, Iterations())
        if parts.where.point is not None:
            holds = self._at_point(parts, _TRUE)
            return None if holds is None else _conjunction([*parts.invariant, holds])
        if len(parts.varying) == 1 and parts.unsolved and condition.op is ops.NE:
            equal = self.count_of(negate(condition))
            return None if equal is None else equal < self.extent
        if parts.unsolved:
            return None
        low, high = self.ends(parts.where)
        return _conjunction([*parts.invariant, _simplified(low < high)])

    def count_of(self, condition: UOp) -> UOp | None:
        """Return the number of iterations in which a condition holds."""
        return self._under(condition, UOp.const(index, 1), Iterations())


# -- conditions and masks --------------------------------------------------------------------------


def _may_exceed(a: DType, b: DType) -> bool:
    """Whether sums in type `a` may exceed the type `b` of their terms."""
    return a.is_float or a is index or a.bits > b.bits


def _clauses(condition: UOp) -> list[UOp]:
    """Return the clauses of a conjunction, with NOT pushed into comparisons."""
    parts = clauses(condition)
    if any(c.op is ops.NOT for c in parts):
        plain = [negate(c.src[0]) if c.op is ops.NOT else c for c in parts]
        parts = [part for c in plain for part in clauses(c)]
    return parts


def _conjunction(parts: Sequence[UOp]) -> UOp:
    whole = _TRUE
    for part in parts:
        whole = whole & part
    return whole


def _where_all(conditions: Sequence[UOp], value: UOp) -> UOp:
    return _conjunction(conditions).where(value, 0) if conditions else value


def _add_gate(src: tuple[UOp, ...], gate: Sequence[UOp]) -> tuple[UOp, ...]:
    """Return the sources of an INDEX with a gate added to its mask."""
    buffer, first, *others = src
    valid = _conjunction(gate)
    if is_masked(first):
        valid, first = valid & first.src[0], first.src[1]
    return buffer, masked(valid, first), *others


def _is_proved(condition: UOp) -> bool:
    return _simplified(condition) is _TRUE


def _simplified(condition: UOp) -> UOp:
    if condition.vmin == 1:
        return _TRUE
    return condition if condition.op is ops.CONST else simplify_opaque(condition)


def _without_redundant(
    ends: tuple[UOp, ...], own: UOp, is_implied: Callable[[UOp, UOp], UOp]
) -> list[UOp]:
    """Return the ends of an interval, with the loop's own, that no other end implies."""
    kept: list[UOp] = []
    candidates = list(dict.fromkeys([own, *map(simplify_opaque, ends)]))
    for number, end in enumerate(candidates):
        others = [*kept, *candidates[number + 1 :]]
        if not any(_is_proved(is_implied(end, other)) for other in others):
            kept.append(end)
    return kept
