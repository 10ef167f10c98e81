"""Random tensor graphs: parameters with dims, elementwise ops, movement, reductions over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from porism.base import dtypes
from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.ops import Op
from tests.expressions import COMPARISONS, Make, arithmetic_ops, numbers

MOST_ELEMENTS: Final = 64

VALUE_TYPES: Final = (dtypes.i32, dtypes.f32, dtypes.u8, dtypes.boolean, dtypes.f16, dtypes.i64)


def _dims(make: Make, sizes: Sequence[int]) -> tuple[UOp, ...]:
    return tuple(make(ops.CONST, dtypes.index, (), n) for n in sizes)


Shape = tuple[int, ...]


@dataclass
class Tensors:
    """A tensor graph being grown; every node with its shape."""

    draw: DrawFn
    make: Make
    types: Sequence[DType]
    smallest: int
    pool: list[tuple[UOp, Shape]] = field(default_factory=list)
    parameters: int = 0

    def shape(self) -> Shape:
        sizes = self.draw(st.lists(st.integers(self.smallest, 4), max_size=3))
        return tuple(sizes)

    def parameter(self, dtype: DType, shape: Shape) -> UOp:
        node = self.make(ops.PARAM, dtype, _dims(self.make, shape), self.parameters)
        self.parameters += 1
        self.pool.append((node, shape))
        return node

    def constant(self, dtype: DType, shape: Shape) -> UOp:
        """A number in every element, said with movement ops."""
        node = self.draw(numbers(dtype).map(lambda n: self.make(ops.CONST, dtype, (), n)))
        if shape:
            ones = _dims(self.make, [1] * len(shape))
            node = self.make(ops.RESHAPE, None, (node, *ones), None)
            node = self.make(ops.EXPAND, None, (node, *_dims(self.make, shape)), None)
        return node

    def pick(self, dtype: DType, shape: Shape) -> UOp:
        found = [n for n, s in self.pool if s == shape and n.dtype is dtype]
        which = self.draw(st.integers(0, len(found) + 1))
        if which < len(found):
            return found[which]
        return (self.constant if which == len(found) else self.parameter)(dtype, shape)

    def elementwise(self, x: UOp, shape: Shape) -> UOp:
        t = x.dtype
        op = self.draw(st.sampled_from((*arithmetic_ops(t), *COMPARISONS, ops.CAST)))
        if op is ops.CAST:
            return self.make(op, self.draw(st.sampled_from(list(self.types))), (x,), None)
        first = (self.pick(dtypes.boolean, shape), x) if op is ops.WHERE else (x,)
        rest = tuple(self.pick(t, shape) for _ in range(op.arity - len(first)))
        return self.make(op, None, (*first, *rest), None)

    def moved(self, x: UOp, shape: Shape) -> tuple[UOp, Shape]:
        draw, make, axes = self.draw, self.make, range(len(shape))
        op = draw(st.sampled_from(_MOVEMENT))
        if op is ops.PERMUTE:
            order = tuple(draw(st.permutations(axes)))
            return make(op, None, (x,), order), tuple(shape[a] for a in order)
        if op is ops.FLIP:
            chosen = tuple(sorted(draw(st.sets(st.sampled_from(list(axes)))))) if shape else ()
            return make(op, None, (x,), chosen), shape
        if op is ops.RESHAPE:
            new = draw(st.sampled_from(_factorings(shape)))
            return make(op, None, (x, *_dims(make, new)), None), new
        if op is ops.EXPAND:
            new = tuple(draw(st.integers(1, 3)) if n == 1 else n for n in shape)
            new = new if math.prod(new) <= MOST_ELEMENTS else shape
            return make(op, None, (x, *_dims(make, new)), None), new
        pairs: list[int] = []
        sizes: list[int] = []
        for n in shape:
            if op is ops.PAD:
                pair = [draw(st.integers(0, 2)), draw(st.integers(0, 2))]
                sizes.append(n + sum(pair))
            else:
                pair = sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n))))
                if pair[1] - pair[0] < self.smallest:
                    pair = [0, n]
                sizes.append(pair[1] - pair[0])
            pairs += pair
        if math.prod(sizes) > MOST_ELEMENTS:
            return x, shape
        return make(op, None, (x, *_dims(make, pairs)), None), tuple(sizes)

    def reduced(self, x: UOp, shape: Shape) -> tuple[UOp, Shape]:
        axes = self.draw(st.sets(st.sampled_from(range(len(shape))))) if shape else set()
        arg = (self.draw(st.sampled_from(reducers(x.dtype))), tuple(sorted(axes)))
        new = tuple(1 if a in axes else n for a, n in enumerate(shape))
        return self.make(ops.REDUCE_AXIS, None, (x,), arg), new

    def step(self) -> None:
        x, shape = self.draw(st.sampled_from([*self.pool, *self.pool[-1:] * len(self.pool)]))
        kind = self.draw(st.sampled_from(("elementwise", "moved", "moved", "reduced", "kept")))
        if kind == "elementwise":
            self.pool.append((self.elementwise(x, shape), shape))
        elif kind == "moved":
            self.pool.append(self.moved(x, shape))
        elif kind == "reduced":
            self.pool.append(self.reduced(x, shape))
        else:
            self.pool.append((self.make(ops.CONTIGUOUS, None, (x,), None), shape))


_MOVEMENT: Final = (ops.RESHAPE, ops.PERMUTE, ops.EXPAND, ops.PAD, ops.SHRINK, ops.FLIP)


def reducers(dtype: DType) -> tuple[Op, ...]:
    """The ops that a type can be reduced by."""
    if dtype.kind is Kind.BOOL:
        return (ops.AND, ops.OR, ops.MAX, ops.MIN)
    numeric = (ops.ADD, ops.MUL, ops.MAX, ops.MIN)
    return numeric if dtype.is_float else (*numeric, ops.AND, ops.OR)


def _factorings(shape: Shape) -> list[Shape]:
    """Some other shapes with as many elements."""
    total = math.prod(shape)
    found = [shape, (total,), (1, *shape), (*shape, 1), tuple(n for n in shape if n != 1)]
    found += [(d, total // d) for d in range(2, total) if total % d == 0]
    return [s for s in found if math.prod(s) == total]


@st.composite
def tensor_graphs(
    draw: DrawFn,
    *,
    types: Sequence[DType] = VALUE_TYPES,
    steps: int = 12,
    empty: bool = False,
    make: Make = raw,
) -> UOp:
    """A tensor; with `empty`, some dimensions are 0."""
    tensors = Tensors(draw, make, types, smallest=0 if empty else 1)
    tensors.parameter(draw(st.sampled_from(list(types))), tensors.shape())
    for _ in range(draw(st.integers(0, steps))):
        tensors.step()
    return tensors.pool[-1][0]
