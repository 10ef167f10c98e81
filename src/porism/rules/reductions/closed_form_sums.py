"""Closed sums: what a loop adds up, without the loop.

A sum over a range `r` of N iterations is closed from the outside in. What does not depend on `r` is
opaque; conditions say in which iterations something is added (`condition_intervals`):

    x                        x * N
    r < cut ? x : 0          x * max(min(N, cut) - 0, 0)
    r < cut ? 0 : x          x * max(N - max(cut, 0), 0)
    idx == r ? f(r) : 0      0 <= idx < N ? f(idx) : 0, where f reads nothing if idx is outside
    a + b                    the sum of a and the sum of b, if both can be closed
    r                        N*(N - 1)//2

On words all of this is exact, since they wrap alike on both sides; ends of intervals are computed
on `index`, which does not wrap. On floats only the fourth line is. A sum of floats that are whole
numbers, and few enough, is exact in every order: it is closed on `index` and converted.
"""

from __future__ import annotations

import math
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
from porism.rules.reductions.condition_intervals import ZERO, Iterations, may_fail, negated, solved
from porism.rules.reductions.selected_terms import has_mask, is_zero, selected

MOST_SPLITS: Final = 16
"""How often a sum may be taken apart at a condition that is no interval."""

_TRUE: Final = UOp.const(boolean, True)
_DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD, ops.SHL, ops.SHR})


def closed_sum(value: UOp, r: UOp, *, as_reals: bool = False) -> UOp | None:
    """The sum of an integer over all iterations of a range; None if it needs the loop.

    With `as_reals`, floats are taken for real numbers.
    """
    return _Sum(r, as_reals).total(value, Iterations())


def closed_gather(value: UOp, r: UOp) -> UOp | None:
    """The sum of what is added in one iteration at most; None if it may be in more."""
    return _Sum(r).only(value)


def closed_count(value: UOp, r: UOp, times: int) -> UOp | None:
    """The sum of floats that are whole numbers, which is exact if `times` of them are added."""
    first = value
    while first.op in _WHOLE:
        first = first.src[0]
    if first.op is ops.INDEX:  # as nearly always
        return None
    unit = _unit(value)
    whole = None if unit is None else whole_number(value, r, unit)
    if whole is None or unit is None or not _holds(value.dtype, whole, times):
        return None
    found = closed_sum(whole, r)
    if found is None:
        return None
    total = found.cast(value.dtype)
    return total if unit == 1 else total * unit


def closed_any(value: UOp, r: UOp) -> UOp | None:
    """Whether a condition holds in some iteration of a range that has one."""
    return _Sum(r).some(value)


class _Parts(NamedTuple):
    """A condition, taken apart."""

    outside: list[UOp]  # clauses that do not depend on the range
    inside: list[UOp]  # and those that do
    where: Iterations  # the iterations that those of them allow which can be solved
    solution: UOp | None  # the clause that says which iteration it is
    rest: list[UOp]  # clauses that cannot be solved


class _Sum:
    """A sum over one range."""

    def __init__(self, r: UOp, as_reals: bool = False) -> None:
        self.r = r
        self.size = r.src[0]
        self.as_reals = as_reals
        self.splits = MOST_SPLITS

    # -- values ------------------------------------------------------------------------------------

    def total(self, value: UOp, span: Iterations) -> UOp | None:
        """The sum over the iterations of a span."""
        r, op, src = self.r, value.op, value.src
        if r not in value.ranges:
            return None if may_be_invalid(value) else self._times(value, span)
        if value is r:
            return self._positions(span)
        if op is ops.ADD or op is ops.SUB:
            first = self.total(src[0], span)
            second = None if first is None else self.total(src[1], span)
            return None if first is None or second is None else op(first, second)
        if op is ops.NEG:
            inner = self.total(src[0], span)
            return None if inner is None else -inner
        if op is ops.MUL:
            return self._product(value, span)
        if op is ops.CAST:
            return self._converted(value, span)
        if op is ops.WHERE:
            return self._choice(value, span)
        if op is ops.INDEX and has_mask(value):
            return self._under(value.src[1].src[0], value, span)
        return None

    def _times(self, value: UOp, span: Iterations) -> UOp:
        if is_zero(value):
            return value
        count = self.count(span)
        if count.vmin < 1 and may_fail(value, accesses=True):
            value = (count > 0).where(value, 0)
        return count.cast(value.dtype) * value

    def _positions(self, span: Iterations) -> UOp:
        """The sum of the numbers of the iterations."""
        low, high = self.ends(span)
        if not _is_true(low <= high):
            high = high.maximum(low)
        return (high * (high - 1) - low * (low - 1)) // 2

    def _product(self, value: UOp, span: Iterations) -> UOp | None:
        a, b = value.src
        for x, y in ((a, b), (b, a)):
            if self.r not in x.ranges:
                inner = None if may_be_invalid(x) else self.total(y, span)
                return None if inner is None else inner * x
        for x, y in ((a, b), (b, a)):
            if x.op is ops.CAST and x.src[0].dtype is boolean:
                return self._under(x.src[0], y, span)
            if x.op is ops.WHERE and is_zero(x.src[2]):
                return self._under(x.src[0], x.src[1] * y, span)
        return None

    def _converted(self, value: UOp, span: Iterations) -> UOp | None:
        inner, dtype = value.src[0], value.dtype
        if inner.dtype is boolean:
            return self._under(inner, UOp.const(dtype, 1), span)
        if not inner.dtype.is_integer or (dtype.is_float and not self.as_reals):
            return None
        chosen = None if inner.op is ops.INDEX else selected(inner)
        if chosen is not None:
            return self._under(chosen.condition, chosen.value.cast(dtype), span)
        if inner.dtype is not index and _is_wider(dtype, inner.dtype):
            # the sum may be too large for the narrow type, so that it must not be made there
            whole = whole_number(inner, self.r)
            if whole is None:
                return None
            inner = whole
        found = self.total(inner, span)
        return None if found is None else found.cast(dtype)

    def _choice(self, value: UOp, span: Iterations) -> UOp | None:
        condition, yes, no = value.src
        if self.r not in condition.ranges:
            first = self.total(yes, span)
            second = None if first is None else self.total(no, span)
            return None if first is None or second is None else condition.where(first, second)
        if may_be_invalid(no):
            return None
        if is_zero(no):
            return self._under(condition, yes, span)
        if is_zero(yes):
            return self._under(negated(condition), no, span)
        first = self._under(condition, yes, span)
        second = None if first is None else self._under(negated(condition), no, span)
        return None if first is None or second is None else first + second

    # -- conditions --------------------------------------------------------------------------------

    def _under(self, condition: UOp, value: UOp, span: Iterations) -> UOp | None:
        """The sum of a value in the iterations in which a condition holds."""
        self.splits -= 1
        if self.splits < 0 or self._is_read(condition, value):
            return None
        parts = self._parts(condition, span)
        if parts.where.point is not None:
            found = self._at_point(parts, value)
        elif parts.rest:
            found = self._split(parts, value, span)
        else:
            found = self.total(value, parts.where)
        return None if found is None else _where(parts.outside, found)

    def _is_read(self, condition: UOp, value: UOp) -> bool:
        """Whether a value is read anew in each of many iterations: nothing can be done about it."""
        if value.op is not ops.INDEX or self.r not in value.ranges:
            return False
        return not any(c.op is ops.EQ and self.r in c.ranges for c in _clauses(condition))

    def _parts(self, condition: UOp, span: Iterations) -> _Parts:
        outside: list[UOp] = []
        inside: list[UOp] = []
        rest: list[UOp] = []
        solution: UOp | None = None
        lows, highs, point = span.lows, span.highs, span.point
        for clause in _clauses(condition):
            if self.r not in clause.ranges:
                outside.append(clause)
                continue
            inside.append(clause)
            found = solved(clause, self.r)
            if found is None or (found.point is not None and point is not None):
                rest.append(clause)
                continue
            if found.point is not None:
                point, solution = simplify_opaque(found.point), clause
            lows, highs = lows + found.lows, highs + found.highs
            outside += found.when
        return _Parts(outside, inside, Iterations(lows, highs, point), solution, rest)

    def _split(self, parts: _Parts, value: UOp, span: Iterations) -> UOp | None:
        """Take a sum apart where a clause is `a | b` or `a != b`."""
        clause = next((c for c in parts.rest if c.op in (ops.OR, ops.NE)), None)
        if clause is None:
            return None
        others = [c for c in parts.inside if c is not clause]
        if clause.op is ops.OR:
            first, second = clause.src
            one = self._under(_all([*others, first]), value, span)
            two = [*others, negated(first), second]
            other = None if one is None else self._under(_all(two), value, span)
            return None if one is None or other is None else one + other
        equal = self._under(_all([*others, negated(clause)]), value, span)
        whole = None if equal is None else self._under(_all(others), value, span)
        return None if equal is None or whole is None else whole - equal

    def _at_point(self, parts: _Parts, value: UOp) -> UOp | None:
        """The value in the only iteration there is, if that is one of the loop."""
        point = parts.where.point
        assert point is not None
        gate = self._inside(parts.where)
        known: dict[UOp, UOp] = {} if parts.solution is None else {parts.solution: _TRUE}
        for clause in parts.rest:
            placed = self._placed(clause, point, gate, known)
            if placed is None:
                return None
            known[clause] = _TRUE
            gate = [*gate, placed]
        found = self._placed(value, point, gate, known)
        if found is None:
            return None
        if value.op is ops.INDEX and self.r in value.ranges:
            return found  # it reads nothing, and so is 0, where the gate is closed
        return _where(gate, found)

    def _inside(self, where: Iterations) -> list[UOp]:
        """The conditions under which the point is an iteration of the loop."""
        point = where.point
        assert point is not None
        inside = self._bounded(point)
        needed = [point >= ZERO, *(inside >= low for low in where.lows)]
        needed += [point < self.size, *(inside < high for high in where.highs)]
        return [c for c in dict.fromkeys(map(_simpler, needed)) if c is not _TRUE]

    def _placed(
        self, value: UOp, point: UOp, gate: Sequence[UOp], known: dict[UOp, UOp]
    ) -> UOp | None:
        """The value at the point; what it reads is masked by the gate. None if that is not sure."""
        r = self.r
        if r not in value.ranges:
            return value
        new: dict[UOp, UOp] = {r: self._bounded(point), **known}
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
                src = _gated(src, gate)
            new[node] = construct(op, node.dtype_given, src, node.arg)
        return new[value]

    def _bounded(self, point: UOp) -> UOp:
        """The point where the gate is open; elsewhere some iteration of the loop.

        A point that was loaded may be any number, and index arithmetic of it may not fit the words
        of a machine, whether its result is wanted or not. It is clamped as a number of a width: the
        gate tells nothing of that, so nothing takes the clamp away again.
        """
        if i32.min <= point.vmin and point.vmax <= i32.max:
            return point
        last = (self.size - 1).maximum(0).cast(i64)
        return point.cast(i64).maximum(0).minimum(last).cast(index)

    # -- counting ----------------------------------------------------------------------------------

    def ends(self, span: Iterations) -> tuple[UOp, UOp]:
        """The first iteration of a span, and the one after the last; the second may be smaller."""
        lows = _pruned(span.lows, ZERO, lambda a, b: a <= b)
        highs = _pruned(span.highs, self.size, lambda a, b: a >= b)
        low, high = lows[0], highs[0]
        for each in lows[1:]:
            low = low.maximum(each)
        for each in highs[1:]:
            high = high.minimum(each)
        return low, high

    def count(self, span: Iterations) -> UOp:
        low, high = self.ends(span)
        count = simplify_opaque(high - low)
        return count if count.vmin >= 0 or _is_true(low <= high) else count.maximum(0)

    # -- one iteration, and some -------------------------------------------------------------------

    def only(self, value: UOp) -> UOp | None:
        """The sum of a value that differs from 0 in one iteration at most."""
        selection = selected(value)
        if selection is None:
            return None
        condition, yes = selection
        if not any(c.op is ops.EQ and self.r in c.ranges for c in _clauses(condition)):
            return None
        parts = self._parts(condition, Iterations())
        if parts.where.point is None or may_be_invalid(yes):
            return None
        found = self._at_point(parts, yes)
        return None if found is None else _where(parts.outside, found)

    def some(self, condition: UOp) -> UOp | None:
        """Whether a condition holds in some iteration."""
        if self.r not in condition.ranges:
            return condition
        if condition.op is ops.NOT:
            opposite = negated(condition.src[0])
            return None if opposite.op is ops.NOT else self.some(opposite)
        if condition.op is ops.OR:
            first = self.some(condition.src[0])
            second = None if first is None else self.some(condition.src[1])
            return None if first is None or second is None else first | second
        parts = self._parts(condition, Iterations())
        if parts.where.point is not None:
            found = self._at_point(parts, _TRUE)
            return None if found is None else _all([*parts.outside, found])
        if len(parts.inside) == 1 and parts.rest and condition.op is ops.NE:
            equal = self.count_of(negated(condition))
            return None if equal is None else equal < self.size
        if parts.rest:
            return None
        low, high = self.ends(parts.where)
        return _all([*parts.outside, _simpler(low < high)])

    def count_of(self, condition: UOp) -> UOp | None:
        """In how many iterations a condition holds."""
        return self._under(condition, UOp.const(index, 1), Iterations())


# -- conditions and masks --------------------------------------------------------------------------


def _is_wider(a: DType, b: DType) -> bool:
    """Whether numbers of the second type may add up to more in the first than in their own."""
    return a.is_float or a is index or a.bits > b.bits


def _clauses(condition: UOp) -> list[UOp]:
    """The conditions that must all hold, without NOT where there is another way to say it."""
    found = clauses(condition)
    if any(c.op is ops.NOT for c in found):
        plain = [negated(c.src[0]) if c.op is ops.NOT else c for c in found]
        found = [part for c in plain for part in clauses(c)]
    return found


def _all(parts: Sequence[UOp]) -> UOp:
    whole = _TRUE
    for part in parts:
        whole = whole & part
    return whole


def _where(conditions: Sequence[UOp], value: UOp) -> UOp:
    return _all(conditions).where(value, 0) if conditions else value


def _gated(src: tuple[UOp, ...], gate: Sequence[UOp]) -> tuple[UOp, ...]:
    """The sources of an INDEX that reads nothing unless the gate is open."""
    buffer, first, *others = src
    valid = _all(gate)
    if is_masked(first):
        valid, first = valid & first.src[0], first.src[1]
    return buffer, masked(valid, first), *others


def _is_true(condition: UOp) -> bool:
    return _simpler(condition) is _TRUE


def _simpler(condition: UOp) -> UOp:
    if condition.vmin == 1:
        return _TRUE
    return condition if condition.op is ops.CONST else simplify_opaque(condition)


def _pruned(ends: tuple[UOp, ...], own: UOp, is_idle: Callable[[UOp, UOp], UOp]) -> list[UOp]:
    """The ends of an interval that may matter, the loop's own among them."""
    kept: list[UOp] = []
    candidates = list(dict.fromkeys([own, *map(simplify_opaque, ends)]))
    for place, end in enumerate(candidates):
        others = [*kept, *candidates[place + 1 :]]
        if not any(_is_true(is_idle(end, other)) for other in others):
            kept.append(end)
    return kept


# -- whole numbers ---------------------------------------------------------------------------------


def whole_number(node: UOp, r: UOp, unit: float = 1.0) -> UOp | None:
    """A number on `index`, in units; None if it may be no multiple of it, or may have wrapped.

    The sign of a zero is lost, which no sum can tell.
    """
    dtype, op, src = node.dtype, node.op, node.src
    if dtype is index:
        return None if may_be_invalid(node) else node
    if dtype is boolean:
        return node.where(UOp.const(index, 1), 0)
    if op is ops.CONST:
        return _multiple(node.arg, unit)
    if dtype.is_integer and r not in node.ranges:
        return None if may_be_invalid(node) else node.cast(index)
    if op is ops.CAST:
        if unit != 1 or src[0].dtype.is_float:
            return None
        found = whole_number(src[0], r)
    elif op is ops.WHERE:
        yes = whole_number(src[1], r, unit)
        no = None if yes is None else whole_number(src[2], r, unit)
        found = None if yes is None or no is None else src[0].where(yes, no)
    elif op in _WHOLE and (unit == 1 or op is not ops.MUL):
        first = whole_number(src[0], r, unit)
        second = None if first is None else whole_number(src[-1], r, unit)
        if first is None or second is None:
            return None
        found = -first if op is ops.NEG else op(first, second)
    else:
        return None
    return found if found is not None and _holds(dtype, found, 1) else None


_WHOLE: Final = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.MAX, ops.MIN})


def _multiple(value: float, unit: float) -> UOp | None:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    quotient = value / unit  # exact: the unit is a power of two
    return UOp.const(index, int(quotient)) if quotient == int(quotient) else None


def _holds(dtype: DType, whole: UOp, times: int) -> bool:
    """Whether a type holds every sum of up to so many such numbers exactly."""
    if not dtype.is_float:
        return bool(dtype.min <= whole.vmin and whole.vmax <= dtype.max)
    return bool(times * max(abs(whole.vmin), abs(whole.vmax)) <= 1 << dtype.precision)


def _unit(value: UOp) -> float | None:
    """A power of two of which the constants that a value chooses among are multiples."""
    unit, stack = 1.0, [value]
    while stack:
        node = stack.pop()
        if node.op is ops.WHERE:
            stack += node.src[1:]
        elif node.op is ops.CONST and node.arg and math.isfinite(node.arg):
            fraction, exponent = math.frexp(node.arg)
            while fraction != int(fraction):
                fraction, exponent = fraction * 2, exponent - 1
            unit = min(unit, 2.0**exponent) if exponent > -120 else math.nan
    return unit if unit > 2.0**-100 else None
