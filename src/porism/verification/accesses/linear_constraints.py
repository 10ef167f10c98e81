"""Linear constraints: indices as linear combinations of symbols, conditions as inequalities.

Equal sums are equal, and what holds at the ends of all intervals holds. That decides most
conjectures without a solver. A quotient or remainder by a constant is a term like a symbol, once
its known part has been taken out:

    (8*a + b) // 4      2*a + b // 4
    (8*a + b) % 4       b % 4

A condition is `True`, `False`, or a hashable form that is equal for equal conditions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.verification.accesses.index_evaluation import Buffer, Unknown

Term = tuple[Any, ...]
"""A term of a sum: a symbol, a quotient, a choice …; its last two items are its least and largest
value, so that equal terms are equal tuples."""


@dataclass(frozen=True, slots=True)
class LinearSum:
    """A constant and terms with their coefficients."""

    constant: int
    coefficients: frozenset[tuple[Term, int]] = frozenset()
    """No coefficient is 0."""

    @property
    def low(self) -> float | int:
        total: float | int = self.constant
        for term, coefficient in self.coefficients:
            total += coefficient * (term[-2] if coefficient > 0 else term[-1])
        return total

    @property
    def high(self) -> float | int:
        total: float | int = self.constant
        for term, coefficient in self.coefficients:
            total += coefficient * (term[-1] if coefficient > 0 else term[-2])
        return total

    def plus(self, other: LinearSum, times: int = 1) -> LinearSum:
        coefficients = dict(self.coefficients)
        for term, coefficient in other.coefficients:
            coefficients[term] = coefficients.get(term, 0) + coefficient * times
        return _linear_sum(self.constant + other.constant * times, coefficients.items())

    def times(self, number: int) -> LinearSum:
        if not number:
            return LinearSum(0)
        return LinearSum(
            self.constant * number, frozenset((t, f * number) for t, f in self.coefficients)
        )


def _linear_sum(constant: int, coefficients: Iterable[tuple[Term, int]]) -> LinearSum:
    return LinearSum(constant, frozenset(row for row in coefficients if row[1]))


class LinearDomain:
    """The domain of linear sums."""

    def constant(self, dtype: DType, value: bool | int | float) -> Any:
        if dtype.kind is Kind.BOOL:
            return bool(value)
        if dtype.is_float:
            raise Unknown("a float in an index")
        return LinearSum(int(value))

    def symbol(self, node: UOp, copy: int, low: int, end: LinearSum) -> LinearSum:
        if end.high == math.inf:
            raise Unknown("a loop without a bound")
        name = node.key.hex()
        return _term("symbol", name, copy, corners=(low, end.high - 1))

    def element(self, buffer: Buffer, dtype: DType, address: LinearSum) -> Any:
        if dtype.kind is Kind.BOOL:
            return ("holds", buffer, address)
        return _term("element", buffer, address, corners=(int(dtype.min), int(dtype.max)))

    def cast(self, value: Any, source: DType, target: DType) -> Any:
        if source.kind is Kind.BOOL:
            if isinstance(value, bool):
                return self.constant(target, value)
            return value if target.kind is Kind.BOOL else _choice(value, LinearSum(1), LinearSum(0))
        if target.kind is Kind.BOOL:
            return _not(self._equal(value, LinearSum(0)))
        if target.is_float or source.is_float:
            raise Unknown("a float in an index")
        return _require_no_overflow(value, target)

    def apply(self, op: Op, dtype: DType, *operands: Any) -> Any:
        if op is ops.WHERE:
            return _choice(*operands)
        if dtype.kind is Kind.BOOL:
            return self._logic(op, *operands)
        if op.group is ops.COMPARISON:
            return self._comparison(op, *operands)
        return _require_no_overflow(self._number(op, *operands), dtype)

    # -- numbers -----------------------------------------------------------------------------------

    def _number(self, op: Op, *operands: LinearSum) -> LinearSum:
        """Return the sum that an op on integers gives."""
        a, b = operands[0], operands[-1]
        match op:
            case ops.NEG:
                return a.times(-1)
            case ops.ADD:
                return a.plus(b)
            case ops.SUB:
                return a.plus(b, -1)
            case ops.MUL if not b.coefficients:
                return a.times(b.constant)
            case ops.MUL if not a.coefficients:
                return b.times(a.constant)
            case ops.MUL:
                return _term("product", frozenset((a, b)), corners=_corner_products(a, b))
            case ops.MULACC:
                return self._number(ops.MUL, a, operands[1]).plus(b)
            case ops.MAX | ops.MIN:
                return self._minmax(op, a, b)
        if not b.coefficients:
            return self._divide_or_shift(op, a, b.constant)
        raise Unknown(f"{op.name} in an index")

    def _divide_or_shift(self, op: Op, a: LinearSum, number: int) -> LinearSum:
        """Return a sum divided or shifted by a constant."""
        match op:
            case ops.SHL if 0 <= number < 64:
                return a.times(1 << number)
            case ops.SHR if 0 <= number < 64:
                return _quotient(a, 1 << number)
            case ops.IDIV if number > 0:
                return _quotient(a, number)
            case ops.MOD if number > 0:
                return _remainder(a, number)
            case ops.CDIV if number > 0 and a.low >= 0:
                return _quotient(a, number)
            case ops.CMOD if number > 0 and a.low >= 0:
                return _remainder(a, number)
        raise Unknown(f"{op.name} in an index")

    def _minmax(self, op: Op, a: LinearSum, b: LinearSum) -> LinearSum:
        """Return the larger or smaller sum; a term if neither is always that."""
        distance = a.plus(b, -1)
        if distance.low >= 0:
            return a if op is ops.MAX else b
        if distance.high <= 0:
            return b if op is ops.MAX else a
        pick = max if op is ops.MAX else min
        ends = (pick(a.low, b.low), pick(a.high, b.high))
        return _term(op.name, frozenset((a, b)), corners=ends)

    # -- conditions -------------------------------------------------------------------------------

    def _comparison(self, op: Op, a: LinearSum, b: LinearSum) -> Any:
        """Return a comparison of two sums."""
        match op:
            case ops.LT:
                return _at_least_zero(b.plus(a, -1).plus(LinearSum(-1)))
            case ops.LE:
                return _at_least_zero(b.plus(a, -1))
            case ops.GT:
                return _at_least_zero(a.plus(b, -1).plus(LinearSum(-1)))
            case ops.GE:
                return _at_least_zero(a.plus(b, -1))
            case ops.EQ:
                return self._equal(a, b)
            case ops.NE:
                return _not(self._equal(a, b))
        raise Unknown(f"{op.name} in a condition")

    def _equal(self, a: LinearSum, b: LinearSum) -> Any:
        """Return the condition that two sums are equal."""
        difference = a.plus(b, -1)
        if difference.low > 0 or difference.high < 0:
            return False
        if not difference.coefficients:
            return difference.constant == 0
        return ("zero", frozenset((difference, difference.times(-1))))

    def _logic(self, op: Op, *operands: Any) -> Any:
        """Return an op on conditions."""
        match op:
            case ops.NOT:
                return _not(operands[0])
            case ops.AND | ops.MIN:
                return _both(*operands)
            case ops.OR | ops.MAX:
                return _not(_both(*map(_not, operands)))
            case ops.EQ if operands[0] == operands[1]:
                return True
            case ops.XOR | ops.NE if operands[0] == operands[1]:
                return False
        raise Unknown(f"{op.name} in a condition")


def _require_no_overflow(value: LinearSum, dtype: DType) -> LinearSum:
    """Return a value, or raise Unknown if it may wrap in its type."""
    if dtype.kind is not Kind.INDEX and not (dtype.min <= value.low and value.high <= dtype.max):
        raise Unknown(f"what may wrap in {dtype}")
    return value


def _term(name: str, *parts: Any, corners: Iterable[float | int]) -> LinearSum:
    """Return a sum of one term, whose value lies between its corners."""
    ends = list(corners)
    return LinearSum(0, frozenset({((name, *parts, min(ends), max(ends)), 1)}))


def _corner_products(a: LinearSum, b: LinearSum) -> list[float | int]:
    return [x * y for x in (a.low, a.high) for y in (b.low, b.high)]


def _divide(a: LinearSum, number: int) -> tuple[LinearSum, LinearSum]:
    """Split a sum into a multiple of a number and a rest with smaller coefficients."""
    whole = [(t, f // number) for t, f in a.coefficients]
    rest = [(t, f % number) for t, f in a.coefficients]
    return _linear_sum(a.constant // number, whole), _linear_sum(a.constant % number, rest)


def _quotient(a: LinearSum, number: int) -> LinearSum:
    """Return floor(a / number), with the multiples of the number taken out."""
    whole, rest = _divide(a, number)
    if rest.low == -math.inf or rest.high == math.inf:
        raise Unknown("a quotient without bounds")
    ends = (int(rest.low) // number, int(rest.high) // number)
    if ends[0] == ends[1]:
        return whole.plus(LinearSum(ends[0]))
    return whole.plus(_term("quotient", rest, number, corners=ends))


def _remainder(a: LinearSum, number: int) -> LinearSum:
    """Return a modulo a number."""
    _, rest = _divide(a, number)
    return rest.plus(_quotient(rest, number), -number)


def _choice(condition: Any, yes: Any, no: Any) -> Any:
    """Return a WHERE of numbers or conditions."""
    if condition is True or yes == no:
        return yes
    if condition is False:
        return no
    if not isinstance(yes, LinearSum):
        return _both(_not(_both(condition, _not(yes))), _not(_both(_not(condition), _not(no))))
    ends = (yes.low, no.low, yes.high, no.high)
    return _term("choice", condition, yes, no, corners=ends)


def _at_least_zero(a: LinearSum) -> Any:
    """Return the condition a >= 0, with coefficients divided by their gcd."""
    if a.low >= 0:
        return True
    if a.high < 0:
        return False
    coefficient = math.gcd(*(f for _, f in a.coefficients))
    scaled = frozenset((t, f // coefficient) for t, f in a.coefficients)
    return ("at least 0", LinearSum(a.constant // coefficient, scaled))


def _not(a: Any) -> Any:
    """Return the negation of a condition."""
    if isinstance(a, bool):
        return not a
    if a[0] == "not":
        return a[1]
    if a[0] == "at least 0":
        return _at_least_zero(a[1].times(-1).plus(LinearSum(-1)))
    return ("not", a)


def _both(a: Any, b: Any) -> Any:
    """Return the conjunction of two conditions."""
    if a is False or b is False:
        return False
    if a is True or b is True:
        return b if a is True else a
    parts: set[Any] = set()
    for side in (a, b):
        parts.update(side[1] if side[0] == "all" else (side,))
    if any(_not(part) in parts for part in parts):
        return False
    return ("all", frozenset(parts)) if len(parts) > 1 else parts.pop()


def is_injective(total: LinearSum, apart: Iterable[LinearSum]) -> bool:
    """Return whether a sum differs whenever one of some symbols does, like a positional number."""
    terms = sorted(total.coefficients, key=lambda row: abs(row[1]))
    reach: float | int = 0
    for term, coefficient in terms:
        if term[0] != "symbol" or abs(coefficient) <= reach:
            return False
        reach += abs(coefficient) * (term[-1] - term[-2])
    own = {term for term, _ in terms}
    return all({t for t, _ in symbol.coefficients} <= own for symbol in apart)
