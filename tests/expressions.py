"""Random expressions: hypothesis strategies for one value of any dtype. See `tests.graphs`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, Scalar
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp, raw
from porism.ir.ops import Op

Make = Callable[[Op, DType | None, tuple[UOp, ...], Any], UOp]

LIMIT: Final = 1 << 48
"""Index expressions stay below it, so that tests may evaluate them in 64 bits."""

# -- numbers ---------------------------------------------------------------------------------------


def numbers(dtype: DType) -> SearchStrategy[Scalar]:
    """Values of a scalar type: small ones, edge cases, and any."""
    lane = dtype.element
    if lane.kind is Kind.BOOL:
        return st.booleans()
    if lane.kind is Kind.INDEX:
        return st.integers(-9, 9) | st.sampled_from((16, 32, 100, -128, 1 << 20))
    if lane.is_integer:
        low, high = int(lane.min), int(lane.max)
        edges = sorted({low, low + 1, low // 2, 0, 1, 2, high // 2, high - 1, high})
        return st.integers(max(low, -4), 9) | st.sampled_from(edges) | st.integers(low, high)
    special = (0.0, -0.0, 1.0, -1.0, 0.5, math.nan, math.inf, -math.inf, 1e-7, 65504.0, 3e38)
    return st.sampled_from(special) | st.floats(width=32) | st.integers(-8, 8).map(float)


def constants(dtype: DType, make: Make = raw) -> SearchStrategy[UOp]:
    """Constants of a type; of a vector, with equal or with different lanes."""
    same = numbers(dtype).map(lambda n: make(ops.CONST, dtype, (), n))
    if dtype.count == 1:
        return same
    lanes = st.tuples(*[numbers(dtype)] * dtype.count)
    return same | lanes.map(lambda n: make(ops.VCONST, dtype, (), n))


# -- expressions -----------------------------------------------------------------------------------

INTEGER_OPS: Final = (
    *(ops.ADD, ops.SUB, ops.MUL, ops.IDIV, ops.MOD, ops.NEG, ops.MAX, ops.MIN),
    *(ops.SHL, ops.SHR, ops.AND, ops.OR, ops.XOR, ops.NOT, ops.MULACC, ops.WHERE, ops.POW),
)
TRUNCATING_OPS: Final = (ops.CDIV, ops.CMOD)
FLOAT_OPS: Final = (
    *(ops.ADD, ops.SUB, ops.MUL, ops.FDIV, ops.NEG, ops.MAX, ops.MIN, ops.WHERE, ops.MULACC),
    *(op for op in ops.table() if op.approximate),
    *(ops.SQRT, ops.RECIPROCAL),
    *(ops.TRUNC, ops.FLOOR, ops.CEIL, ops.ROUND),
)
BOOL_OPS: Final = (ops.AND, ops.OR, ops.XOR, ops.NOT, ops.WHERE, ops.MAX, ops.MIN)
COMPARISONS: Final = (ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE)
DIVISIONS: Final = (ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD)


def arithmetic_ops(dtype: DType, *, truncating: bool = False) -> tuple[Op, ...]:
    """The elementwise ops on values of a type with results of that type."""
    if dtype.kind is Kind.BOOL:
        return BOOL_OPS
    if dtype.is_float:
        return FLOAT_OPS
    more = (ops.THREEFRY,) if dtype.element is dtypes.u64 else ()
    return INTEGER_OPS + (TRUNCATING_OPS if truncating else ()) + more


@dataclass
class Growth:
    """An expression being grown: operands are chosen among what is there, so nodes are shared."""

    draw: DrawFn
    dtype: DType
    nodes: list[UOp]
    make: Make = raw
    limit: int = LIMIT
    truncating: bool = False
    casts: bool = True
    rearranging: bool = True  # GEP and CAT, which a target kernel does not have

    def pick(self, dtype: DType) -> UOp:
        """A node of this type, the youngest most often, or a new constant."""
        found: list[UOp | None] = [n for n in self.nodes if n.dtype is dtype]
        weights = [*found, None, *found[-1:] * max(3, len(found))]
        chosen = self.draw(st.sampled_from(weights))
        return chosen if chosen is not None else self.draw(constants(dtype, self.make))

    def number(self, lowest: int, highest: int) -> UOp:
        value = self.draw(st.integers(lowest, highest))
        return self.make(ops.CONST, self.dtype, (), value)

    def step(self) -> None:
        """Add one node."""
        choices = [*arithmetic_ops(self.dtype, truncating=self.truncating), *COMPARISONS]
        if self.dtype.mask is not self.dtype:
            choices += [ops.AND, ops.OR, ops.NOT]
        if self.dtype.count > 1 and self.rearranging:
            choices += [ops.GEP, ops.CAT]
        if self.casts:
            choices.append(ops.CAST)
        made = self.apply(self.draw(st.sampled_from(choices)))
        if made is not None and self.fits(made):
            self.nodes.append(made)

    def apply(self, op: Op) -> UOp | None:
        """The op on chosen operands."""
        t = self.dtype
        if op is ops.CAST:
            return self.converted()
        if op in (ops.GEP, ops.CAT):
            return self.rearranged(op)
        logic = op in (ops.AND, ops.OR, ops.NOT)
        operand = t.mask if logic and (t.is_float or self.draw(st.booleans())) else t
        src: tuple[UOp, ...]
        if op is ops.WHERE:
            condition = self.pick(self.draw(st.sampled_from((t.mask, t.mask.element))))
            src = (condition, self.pick(t), self.pick(t))
        elif t.kind is Kind.INDEX and op in (*DIVISIONS, ops.SHL, ops.SHR, ops.POW):
            src = (self.pick(t), self.defined(op))
        else:
            src = tuple(self.pick(operand) for _ in range(op.arity))
        if op.group is ops.BINARY and t.is_float and op is ops.POW:
            src = (src[0], self.number(-3, 3))
        return self.make(op, None, src, None)

    def fits(self, node: UOp) -> bool:
        """Whether an index stays within the limit; so must others where one was asked for."""
        if not node.dtype.is_integer or (node.dtype.bits and self.limit == LIMIT):
            return True
        return -self.limit <= node.vmin and node.vmax <= self.limit

    def defined(self, op: Op) -> UOp:
        """A second operand for which the op is defined on `index`."""
        if op in (ops.SHL, ops.SHR):
            return self.number(0, 9)
        if op is ops.POW:
            return self.number(0, 3)
        nonzero = [n for n in self.nodes if n.dtype is self.dtype and (n.vmin > 0 or n.vmax < 0)]
        constant = st.sampled_from((1, 2, 3, 4, 5, 7, 8, 12, 16, -1, -2, -3, -4))
        divisor = constant.map(lambda n: self.make(ops.CONST, self.dtype, (), n))
        return self.draw(st.sampled_from(nonzero) | divisor if nonzero else divisor)

    def converted(self) -> UOp | None:
        """A value taken to another type and back, or a mask as a number."""
        t = self.dtype
        if t.mask is not t and self.draw(st.booleans()):
            return self.make(ops.CAST, t, (self.pick(t.mask),), None)
        between = [d for d in dtypes.scalars() if d.kind is not Kind.INDEX]
        other = self.draw(st.sampled_from(between)).vec(t.count)
        if t.kind is Kind.INDEX and other.is_float:
            return None
        there = self.make(ops.CAST, other, (self.pick(t),), None)
        return self.make(ops.CAST, t, (there,), None)

    def rearranged(self, op: Op) -> UOp:
        """The lanes of vectors in another order."""
        t = self.dtype
        picks = st.lists(st.integers(0, t.count - 1), min_size=t.count, max_size=t.count)
        if op is ops.GEP:
            return self.make(op, None, (self.pick(t),), tuple(self.draw(picks)))
        cut = self.draw(st.integers(1, t.count - 1))
        sides = (range(cut), range(cut, t.count))
        parts = [self.make(ops.GEP, None, (self.pick(t),), tuple(side)) for side in sides]
        return self.make(ops.CAT, None, tuple(parts), None)

    def grow(self, most: int) -> None:
        for _ in range(self.draw(st.integers(0, most))):
            self.step()

    def last(self, dtype: DType) -> UOp:
        """The youngest node of a type; where there is none, one made for the purpose."""
        for node in reversed(self.nodes):
            if node.dtype is dtype:
                return node
        if dtype is self.dtype.mask:
            compare = self.draw(st.sampled_from(COMPARISONS))
            return self.make(compare, None, (self.pick(self.dtype), self.pick(self.dtype)), None)
        return self.pick(dtype)


@st.composite
def _leaves_for(draw: DrawFn, dtype: DType, make: Make, unbounded: bool) -> list[UOp]:
    """Variables, ranges or parameters of a scalar type; names and axes do not repeat."""
    lane = dtype.element
    found: list[UOp] = []
    if lane.is_float or lane.kind is Kind.BOOL:
        count = draw(st.integers(1, 3))
        return [make(ops.PARAM, lane, (), n) for n in range(count)]
    for name in ("a", "b", "c")[: draw(st.integers(1, 3))]:
        if lane.kind is Kind.INDEX:
            ends = sorted((draw(st.integers(-12, 20)), draw(st.integers(-12, 20))))
        else:
            ends = sorted(int(draw(numbers(lane))) for _ in range(2))
        bounds: list[int | None] = [*ends]
        if unbounded and lane.kind is Kind.INDEX and draw(st.booleans()):
            bounds[draw(st.integers(0, 1))] = None
        found.append(make(ops.VARIABLE, lane, (), (name, *bounds)))
    for axis in range(draw(st.integers(0, 2)) if lane.kind is Kind.INDEX else 0):
        end = make(ops.CONST, lane, (), draw(st.integers(1, 8)))
        found.append(make(ops.RANGE, None, (end,), ((axis,), Axis.LOOP)))
    return found


@st.composite
def expressions(
    draw: DrawFn,
    dtype: DType,
    *,
    of: DType | None = None,
    steps: int = 16,
    leaves: Sequence[UOp] | None = None,
    make: Make = raw,
    limit: int = LIMIT,
    unbounded: bool = False,
    truncating: bool = False,
    casts: bool = True,
) -> UOp:
    """An expression of a type, `of` operands of that or another type.

    `leaves` are used instead of fresh variables; `unbounded` lets some variables have an infinite
    bound; `truncating` adds CDIV and CMOD; `limit` is how large an index may get.
    """
    operand = dtype if of is None else of
    scalars = list(leaves) if leaves is not None else draw(_leaves_for(operand, make, unbounded))
    pool = list(scalars)
    if operand.count > 1:
        for scalar in scalars:
            pool.append(make(ops.VECTORIZE, None, (scalar,) * operand.count, None))
        if all(s.dtype is operand.element for s in scalars) and scalars:
            lanes = draw(st.tuples(*[st.sampled_from(scalars)] * operand.count))
            pool.append(make(ops.VECTORIZE, None, lanes, None))
    growth = Growth(draw, operand, pool, make, limit, truncating, casts)
    growth.grow(steps)
    return growth.last(dtype)
