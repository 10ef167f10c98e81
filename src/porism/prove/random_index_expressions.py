"""Random index expressions: the steps of the normal form are checked on them.

Sums of scaled variables are divided repeatedly, as layouts and tilings do it; there are also
variable divisors, minima and maxima, bitwise ops, comparisons of every kind, masks, and WHERE under
masks. Bounds are small, so that they decide comparisons; some variables are unbounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.ops import Op

FACTORS: Final = (1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, -1, -2, -3, -4)
DIVISORS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32)
OFFSETS: Final = (-25, -9, -4, -3, -1, 0, 0, 1, 2, 3, 5, 7, 8, 11, 30)
ORDERS: Final = (ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE)


def random_expressions(count: int, seed: int = 0) -> Iterator[tuple[UOp, list[UOp]]]:
    """Yield expressions of type `index` and bool, each with facts to assume."""
    random = Random(seed)
    for _ in range(count):
        yield _Generator(random).expression()


class _Generator:
    """Builds one expression."""

    def __init__(self, random: Random) -> None:
        self.random = random
        names = "abcd"[: random.randint(1, 4)]
        self.values = [self._variable(name) for name in names]
        self.positive = [UOp.variable("n", 1, random.choice((1, 4, 9, 64)))]
        if random.random() < 0.3:
            self.values.append(self.positive[0])

    def _variable(self, name: str) -> UOp:
        random = self.random
        if random.random() < 0.12:
            return UOp.variable(name, random.choice((None, 0)), None)
        low = random.choice((0, 0, 0, 0, -3, -8, 1, 5))
        return UOp.variable(name, low, low + random.choice((0, 1, 2, 3, 4, 5, 7, 11, 15, 31)))

    def expression(self) -> tuple[UOp, list[UOp]]:
        """Return an expression, and facts to assume."""
        random = self.random
        for _ in range(random.randint(2, 7)):
            self.values.append(self._step())
        facts = [self._condition() for _ in range(random.choice((0, 0, 0, 1, 2)))]
        kind = random.randrange(4)
        if kind == 0:
            return self._mask(), facts
        if kind == 1:
            branches = self.values[-1], random.choice((*self.values, self._number(-1)))
            return raw(ops.WHERE, None, (self._mask(), *branches), None), facts
        return self.values[-1], facts

    def _number(self, value: int) -> UOp:
        return UOp.const(dtypes.index, value)

    def _of(self, op: Op, a: UOp, b: UOp | int) -> UOp:
        return raw(op, None, (a, self._number(b) if isinstance(b, int) else b), None)

    def _any(self) -> UOp:
        """Return one of the last four values."""
        return self.random.choice(self.values[-4:])

    def _step(self) -> UOp:
        random, kind = self.random, self.random.randrange(16)
        a, b = self._any(), random.choice(self.values)
        if kind < 4:
            scaled = self._of(ops.MUL, a, random.choice(FACTORS))
            other = self._of(ops.MUL, b, random.choice(FACTORS))
            total = self._of(random.choice((ops.ADD, ops.ADD, ops.SUB)), scaled, other)
            return self._of(ops.ADD, total, random.choice(OFFSETS))
        if kind < 7:
            return self._of(ops.IDIV, a, random.choice(DIVISORS))
        if kind < 10:
            return self._of(ops.MOD, a, random.choice(DIVISORS))
        if kind == 10:
            inner = self._of(ops.ADD, a, random.choice(OFFSETS))
            return self._of(ops.IDIV, inner, random.choice(DIVISORS))
        if kind == 11:
            size = self.positive[0]
            shifted = self._of(ops.ADD, self._of(ops.MUL, a, size), b)
            return self._of(random.choice((ops.IDIV, ops.MOD)), shifted, size)
        if kind == 12:
            return self._of(random.choice((ops.MAX, ops.MIN)), a, b)
        if kind == 13:
            near = self._of(ops.ADD, a, random.choice(OFFSETS))
            return self._of(random.choice((ops.MAX, ops.MIN)), a, near)
        if kind == 14:
            op = random.choice((ops.SHR, ops.SHL, ops.AND))
            return self._of(op, a, 7 if op is ops.AND else random.choice((0, 1, 2, 3)))
        op, by = random.choice(((ops.IDIV, -4), (ops.MOD, -3), (ops.MUL, b), (ops.IDIV, b)))
        return self._of(op, a, by)

    def _condition(self) -> UOp:
        random = self.random
        a, kind = self._any(), random.randrange(4)
        b: UOp | int = random.choice(OFFSETS) if kind < 2 else random.choice(self.values)
        if kind == 3:
            a = self._of(ops.MUL, a, random.choice(FACTORS))
            b = self._of(ops.ADD, random.choice(self.values), random.choice(OFFSETS))
        return self._of(random.choice(ORDERS), a, b)

    def _mask(self) -> UOp:
        whole = self._condition()
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            whole = self._of(
                self.random.choice((ops.AND, ops.AND, ops.OR)), whole, self._condition()
            )
        return whole
