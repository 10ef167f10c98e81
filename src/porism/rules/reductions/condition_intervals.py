"""Condition intervals: the iterations in which a condition holds, as an interval or one iteration.

    r + y < c           r < c - y                 3*r >= c     r >= (c + 2)//3
    y - r == c          r == y - c                r//4 == c    4*c <= r < 4*c + 4

The comparison is solved for the range `r`; everything that does not depend on `r` is opaque. It is
solved on `index`, where nothing wraps: a fixed-width sum is decomposed only if bounds exclude that
it wraps. Terms of a fixed-width equation may always be moved to the other side, since adding is
injective.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from porism.base.dtypes import Kind, index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.rules.addresses.opaque_terms import nodes_read
from porism.rules.addresses.validity import may_be_invalid

ZERO: Final = UOp.const(index, 0)
NEGATED_COMPARISON: Final = {
    ops.LT: ops.GE,
    ops.GE: ops.LT,
    ops.GT: ops.LE,
    ops.LE: ops.GT,
    ops.EQ: ops.NE,
    ops.NE: ops.EQ,
}
_DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD})
_SHIFTS: Final = frozenset({ops.SHL, ops.SHR})
_ACCESSES: Final = frozenset({ops.INDEX, ops.LOAD})


class Iterations(NamedTuple):
    """The iterations that are >= all `lows`, < all `highs`, and equal to the `point`, if any."""

    lows: tuple[UOp, ...] = ()
    highs: tuple[UOp, ...] = ()
    point: UOp | None = None
    when: tuple[UOp, ...] = ()
    """Conditions without which there are no iterations at all."""


class Linear(NamedTuple):
    """factor * atom + rest; the atom is the range or a quotient that depends on it."""

    factor: int
    atom: UOp | None
    rest: UOp


def solve_for_range(condition: UOp, r: UOp) -> Iterations | None:
    """Return the iterations of a range in which a comparison of integers holds; None if unknown.

    >>> r, y = UOp.range(8, 0), UOp.variable("y", 0, 99)
    >>> solution = solve_for_range((r + y) // 4 >= 5, r)  # where r >= 20 - y
    >>> [(low.vmin, low.vmax) for low in solution.lows], solution.highs, solution.point
    ([(-79, 20)], (), None)
    """
    op = condition.op
    if op.group is not Group.COMPARISON or op is ops.NE or not condition.src[0].dtype.is_integer:
        return None
    a, b = condition.src
    if op is ops.EQ and a.dtype is not index:
        a, b = _isolate(a, b, r)
    left, right = linear(a, r), linear(b, r)
    if left is None or right is None:
        return None
    whole = _add_multiple(left, right, -1)
    if whole is None or whole.atom is None:
        return None
    factor, atom, rest = whole.factor, whole.atom, whole.rest
    match op:
        case ops.LT:
            return _solve_below(factor, atom, -rest, r)
        case ops.LE:
            return _solve_below(factor, atom, 1 - rest, r)
        case ops.GT:
            return _solve_below(-factor, atom, rest, r)
        case ops.GE:
            return _solve_below(-factor, atom, rest + 1, r)
    return _solve_equal(factor, atom, -rest, r)


def negate(condition: UOp) -> UOp:
    """Return the negation of a condition, with NOT pushed into comparisons of integers."""
    if condition.op is ops.NOT:
        return condition.src[0]
    if condition.op in NEGATED_COMPARISON and not condition.src[0].dtype.is_float:
        return NEGATED_COMPARISON[condition.op](*condition.src)
    if condition.op is ops.AND:
        return negate(condition.src[0]) | negate(condition.src[1])
    if condition.op is ops.OR:
        return negate(condition.src[0]) & negate(condition.src[1])
    return ~condition


def may_fail(node: UOp, *, accesses: bool = False) -> bool:
    """Whether a node may be undefined: an index divided by what may be 0, or shifted by less.

    With `accesses`, also whether it reads memory.
    """
    return any(_is_partial(n) or (accesses and n.op in _ACCESSES) for n in nodes_read([node]))


def _is_partial(node: UOp) -> bool:
    if node.dtype.kind is not Kind.INDEX:
        return False
    if node.op in _DIVISIONS:
        return node.src[1].vmin <= 0 <= node.src[1].vmax
    return node.op in _SHIFTS and node.src[1].vmin < 0


# -- linear forms ----------------------------------------------------------------------------------


def linear(node: UOp, r: UOp) -> Linear | None:
    """Return an integer as a multiple of a term that varies with the range, plus an invariant."""
    if node is r:
        return Linear(1, r, ZERO)
    if not node.dtype.is_integer:
        return None
    if r not in node.ranges:
        if may_be_invalid(node) or may_fail(node):
            return None
        return Linear(0, None, node if node.dtype is index else node.cast(index))
    op, src = node.op, node.src
    if op is ops.CAST:
        return linear(src[0], r) if _cannot_wrap(node, src[0].vmin, src[0].vmax) else None
    if op is ops.IDIV:
        good = src[1].op is ops.CONST and src[1].arg > 0
        return Linear(1, node, ZERO) if good else None
    if op is ops.MUL:
        return _linear_product(node, r)
    if op is ops.NEG:
        inner = linear(src[0], r) if _cannot_wrap(node, -src[0].vmax, -src[0].vmin) else None
        return None if inner is None else _add_multiple(Linear(0, None, ZERO), inner, -1)
    if op is not ops.ADD and op is not ops.SUB:
        return None
    a, b = src
    ends = (b.vmin, b.vmax) if op is ops.ADD else (-b.vmax, -b.vmin)
    if not _cannot_wrap(node, a.vmin + ends[0], a.vmax + ends[1]):
        return None
    left, right = linear(a, r), linear(b, r)
    if left is None or right is None:
        return None
    return _add_multiple(left, right, 1 if op is ops.ADD else -1)


def _linear_product(node: UOp, r: UOp) -> Linear | None:
    a, b = node.src
    if a.op is ops.CONST:
        a, b = b, a
    if b.op is not ops.CONST or not b.arg:
        return None
    times = int(b.arg)
    if node.dtype is not index:
        ends = (a.vmin * times, a.vmax * times)
        if not _cannot_wrap(node, min(ends), max(ends)):
            return None
    inner = linear(a, r)
    return None if inner is None else _add_multiple(Linear(0, None, ZERO), inner, times)


def _cannot_wrap(node: UOp, low: float, high: float) -> bool:
    """Whether the type of a node holds all values from low to high."""
    return node.dtype is index or (node.dtype.min <= low and high <= node.dtype.max)


def _add_multiple(a: Linear, b: Linear, times: int) -> Linear | None:
    """Return a + b * times, if both have the same atom."""
    if a.atom is not None and b.atom is not None and a.atom is not b.atom:
        return None
    factor = a.factor + b.factor * times
    atom = None if not factor else b.atom if a.atom is None else a.atom
    rest = a.rest - b.rest if times == -1 else a.rest + b.rest * times
    return Linear(factor, atom, rest)


def _isolate(a: UOp, b: UOp, r: UOp) -> tuple[UOp, UOp]:
    """Return both sides of an equation, with invariant terms moved away from the range."""
    for _ in range(2):
        while r in a.ranges and r not in b.ranges and a.op in (ops.ADD, ops.SUB, ops.NEG):
            if a.op is ops.NEG:
                a, b = a.src[0], -b
            elif r not in a.src[1].ranges:
                moved = a.src[1]
                a, b = a.src[0], b - moved if a.op is ops.ADD else b + moved
            elif r not in a.src[0].ranges:
                moved = a.src[0]
                a, b = a.src[1], b - moved if a.op is ops.ADD else moved - b
            else:
                break
        a, b = b, a
    return a, b


# -- solutions -------------------------------------------------------------------------------------


def _solve_below(factor: int, atom: UOp, bound: UOp, r: UOp) -> Iterations | None:
    """Solve factor * atom < bound."""
    is_high = factor > 0
    if is_high:
        end = bound if factor == 1 else (bound + (factor - 1)) // factor
    else:
        end = 1 - bound if factor == -1 else (-bound) // -factor + 1
    if atom is r:
        return Iterations(highs=(end,)) if is_high else Iterations(lows=(end,))
    numerator, divisor = atom.src
    inner = linear(numerator, r)
    if inner is None or inner.atom is None:
        return None
    # floor(n / d) < end exactly where n < end * d
    edge = end * int(divisor.arg) - inner.rest
    if is_high:
        return _solve_below(inner.factor, inner.atom, edge, r)
    return _solve_below(-inner.factor, inner.atom, 1 - edge, r)


def _solve_equal(factor: int, atom: UOp, value: UOp, r: UOp) -> Iterations | None:
    """Solve factor * atom == value."""
    when: tuple[UOp, ...] = ()
    if abs(factor) == 1:
        point = value * factor
    else:
        when = ((value % abs(factor)).eq(0),)
        point = value // abs(factor) * (1 if factor > 0 else -1)
    if atom is r:
        return Iterations(point=point, when=when)
    low, high = _solve_below(-1, atom, 1 - point, r), _solve_below(1, atom, point + 1, r)
    if low is None or high is None:
        return None
    return Iterations(low.lows + high.lows, low.highs + high.highs, None, when)
