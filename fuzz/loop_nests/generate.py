"""Nest kernels: random small loop nests, as the schedule would make them, with their data.

A nest has one to four output loops and values made of reads (of all of the loops around or some,
with strides, offsets and masks, backwards, gathered), reductions (nested, one after the other, over
what depends on the reduced axis or does not), prefixes (scans), and values that are materialized
locally and read by other reductions. Loops of one iteration are among them. All numbers are whole
and so small that every order of a sum gives the same one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from fuzz.loop_nests.choices import Choices
from porism.base import dtypes
from porism.base.dtypes import DType, Kind, Space, index
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.reduction_identity import identity
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.rules.addresses.validity import masked

SIZES: Final = (2, 1, 3, 4, 8, 5, 6, 7, 16, 2, 1, 3, 4, 9, 10, 12, 15, 20, 11, 13, 17, 19, 27, 28,
                30, 32, 33, 40)  # fmt: skip
"""Extents of loops, the simplest first and the usual ones twice."""

DEPTH: Final = 3
"""Of reductions and local values in each other."""
MOST_ITERATIONS: Final = (200, 100, 300, 700)
"""Of nested loops."""
MOST_ELEMENTS: Final = 2000

TYPES: Final = (dtypes.f32, dtypes.i32, dtypes.f32, dtypes.f64, dtypes.f16, dtypes.i8, dtypes.u8,
                dtypes.boolean, dtypes.i64)  # fmt: skip

EXACT: Final = {dtypes.f16: 2**11, dtypes.f32: 2**24, dtypes.f64: 2**40}
"""Up to where whole numbers are exact."""

LARGEST: Final = 2**20
"""Of integers, which wrap beyond their type: no more than what is exact in f32."""

Scope = tuple[UOp, ...]


@dataclass(frozen=True)
class Some:
    """A value, and the largest absolute value that it may have."""

    node: UOp
    most: int


@dataclass
class Nest:
    """A kernel, and the data of its buffers; those it writes are filled as well."""

    kernel: UOp
    data: dict[int, Array]
    outputs: tuple[int, ...]
    is_for_cores: bool = False
    """Whether it is a product of matrices of the sizes that tensor cores have."""

    @property
    def size(self) -> int:
        """The elements of all buffers."""
        return sum(array.size for array in self.data.values())


@dataclass
class Builder:
    """A nest being made."""

    choices: Choices
    most: int = 0
    """Iterations of nested loops."""
    axes: int = 0
    data: dict[int, Array] = field(default_factory=dict)
    pool: list[Some] = field(default_factory=list)
    """What was made so far, and may be used again."""
    local: list[tuple[UOp, Scope, int]] = field(default_factory=list)
    """What is materialized locally, inside of which loops, and how large its elements may be."""

    # -- loops -------------------------------------------------------------------------------------

    def range(self, kind: Axis, scope: Scope, size: int | None = None) -> UOp:
        if size is None:
            size = self.choices.one_of(SIZES)
        around = math.prod(_extent(r) for r in scope)
        while size > 1 and around * size > self.most:
            size //= 2
        self.axes += 1
        return UOp.range(size, self.axes - 1, kind)

    def ranges(self, kind: Axis, scope: Scope, most: int) -> Scope:
        found: Scope = ()
        for _ in range(1 + self.choices.below(most)):
            found = (*found, self.range(kind, (*scope, *found)))
        return found

    # -- reads -------------------------------------------------------------------------------------

    def buffer(self, dtype: DType, size: int, most: int) -> UOp:
        number = len(self.data)
        self.data[number] = numbers(dtype, size, number, most)
        return UOp(ops.PARAM, dtype.pointer(size=size), (), number)

    def used(self, scope: Scope) -> list[UOp]:
        """Some of the loops around, in some order: often all, in theirs."""
        if self.choices.below(3) != 1:
            found = list(scope)
        else:
            found = [r for r in scope if self.choices.below(2)]
        return self.choices.shuffled(found) if self.choices.seldom(3) else found

    def axis(self, scope: Scope, counter: UOp) -> tuple[UOp, int, UOp | None]:
        """An index along one axis, the extent of that axis, and where the index is inside."""
        size = _extent(counter)
        how = self.choices.below(12)
        if how < 6:
            return counter, size, None
        if how == 6:  # backwards
            return (size - 1) - counter, size, None
        if how == 7:  # every element several times
            times = 2 + self.choices.below(2)
            return counter // times, -(-size // times), None
        if how == 8:  # every second or third element
            step = 2 + self.choices.below(2)
            return counter * step, size * step, None
        if how == 9 and scope:  # a window
            other = self.choices.one_of(scope)
            if other is not counter:
                return counter + other, size + _extent(other) - 1, None
        before = self.choices.below(3)
        if how == 10:  # padded
            inner = max(size - before - self.choices.below(3), 1)
            at = counter - before
            return at, inner, (at >= 0) & (at < inner)
        return counter + before, size + before + self.choices.below(3), None

    def read(self, dtype: DType, scope: Scope) -> Some:
        """An element of a new buffer."""
        at, size, inside = self.address(scope)
        most = 3 if dtype is not dtypes.boolean else 1
        buffer = self.buffer(dtype, size, most)
        return Some(self.element(buffer, at, inside), most)

    def address(self, scope: Scope) -> tuple[UOp, int, UOp | None]:
        at, size, inside = UOp.const(index, 0), 1, None
        for counter in reversed(self.used(scope)):
            along, extent, condition = self.axis(scope, counter)
            if size * extent > MOST_ELEMENTS:
                continue
            at, size = along * size + at, size * extent
            if condition is not None:
                inside = condition if inside is None else inside & condition
        if size <= 40 and self.choices.seldom(12):
            return self.gathered(at, size, inside)
        return at, size, inside

    def gathered(self, at: UOp, size: int, inside: UOp | None) -> tuple[UOp, int, UOp | None]:
        """An index that is read; some of those are outside."""
        table = self.buffer(dtypes.i32, size, size)
        found = self.element(table, at, inside).cast(index)
        clipped = ops.MIN(ops.MAX(found, UOp.const(index, -1)), UOp.const(index, size))
        is_element = (clipped >= 0) & (clipped < size)
        return clipped, size, is_element if inside is None else is_element & inside

    def element(self, buffer: UOp, at: UOp, inside: UOp | None) -> UOp:
        if inside is None:
            return buffer.index(at)
        found = buffer.index(masked(inside, at))
        return inside.where(found, UOp.const(found.dtype, 0))

    # -- values ------------------------------------------------------------------------------------

    def value(self, dtype: DType, scope: Scope, depth: int) -> Some:
        """A value in a scope of loops."""
        how = self.choices.below(4 if depth == 0 else 10 if depth < DEPTH else 16)
        if how in (1, 10) and depth > 0:
            return self.binary(dtype, scope, depth)
        if how in (4, 5, 11, 12):
            return self.reduced(dtype, scope, depth)
        if how in (6, 13, 14, 15):
            return self.kept(dtype, scope, depth)
        if how == 7:
            return self.prefix(dtype, scope, depth)
        if how == 8:
            return self.softened(dtype, scope, depth)
        if how == 9:
            return self.chosen(dtype, scope, depth)
        if how == 3:
            return self.simple(dtype, scope)
        if how == 2:
            again = [v for v in self.pool if v.node.dtype is dtype and _fits(v.node, scope)]
            if again:
                return self.choices.one_of(again)
        return self.noted(self.read(dtype, scope))

    def noted(self, value: Some) -> Some:
        self.pool.append(value)
        return value

    def simple(self, dtype: DType, scope: Scope) -> Some:
        """A number, or the iteration of a loop."""
        if scope and dtype is not dtypes.boolean and self.choices.below(2):
            counter = self.choices.one_of(scope)
            return Some(counter.cast(dtype), _extent(counter) - 1)
        number = self.choices.below(3)
        most = 1 if dtype is dtypes.boolean else number
        return Some(UOp.const(dtype, bool(number) if most == 1 else number), most)

    def binary(self, dtype: DType, scope: Scope, depth: int) -> Some:
        a = self.value(dtype, scope, depth - 1)
        b = self.value(dtype, scope, depth - 1)
        return self.combined(dtype, a, b)

    def combined(self, dtype: DType, a: Some, b: Some) -> Some:
        if dtype is dtypes.boolean:
            return Some(self.choices.one_of((ops.AND, ops.OR, ops.XOR))(a.node, b.node), 1)
        how = self.choices.below(6)
        if how == 0 and a.most + b.most <= _limit(dtype):
            return Some(a.node + b.node, a.most + b.most)
        if how in (1, 2) and a.most * b.most <= _limit(dtype):
            return Some(a.node * b.node, a.most * b.most)
        if how == 3 and a.most + b.most <= _limit(dtype):
            return Some(a.node - b.node, a.most + b.most)
        op = ops.MAX if how != 5 else ops.MIN
        return Some(op(a.node, b.node), max(a.most, b.most))

    def chosen(self, dtype: DType, scope: Scope, depth: int) -> Some:
        """One of two values, by a comparison of loops or of values; or in another type."""
        if self.choices.below(3) == 2:
            other = self.choices.one_of(TYPES)
            if other is not dtype:
                return self.converted(self.value(other, scope, depth - 1), dtype)
        a = self.value(dtype, scope, depth - 1)
        b = self.value(dtype, scope, depth - 1)
        if scope and self.choices.below(2):
            counter = self.choices.one_of(scope)
            condition = counter < self.choices.below(_extent(counter) + 1)
        else:
            kind = self.choices.one_of(TYPES)
            condition = ops.LT(self.value(kind, scope, 0).node, self.value(kind, scope, 0).node)
        return Some(condition.where(a.node, b.node), max(a.most, b.most))

    def converted(self, value: Some, dtype: DType) -> Some:
        source = value.node.dtype
        if source.kind is Kind.UNSIGNED:  # a difference below 0 is a large number
            value = Some(value.node, (1 << source.bits) - 1)
        if value.most > _limit(dtype):
            value = Some(ops.MIN(value.node, UOp.const(value.node.dtype, 3)), value.most)
            value = Some(ops.MAX(value.node, UOp.const(value.node.dtype, 0)), 3)
        return Some(value.node.cast(dtype), 1 if dtype is dtypes.boolean else value.most)

    # -- reductions --------------------------------------------------------------------------------

    def reducer(self, dtype: DType, value: Some, times: int) -> tuple[Op, int]:
        if dtype is dtypes.boolean:
            return self.choices.one_of((ops.OR, ops.AND)), 1
        how = self.choices.below(6)
        if how < 4 and value.most * times <= _limit(dtype):
            return ops.ADD, value.most * times
        if how == 5 and value.most <= 1:
            return ops.MUL, 1
        return (ops.MIN if how == 4 else ops.MAX), value.most

    def reduced(self, dtype: DType, scope: Scope, depth: int) -> Some:
        """A reduction; in one of four its terms do not depend on the loops it is over."""
        inner = self.ranges(Axis.REDUCE, scope, 2)
        seen = inner if self.choices.below(4) else inner[1:] if self.choices.below(2) else ()
        value = self.value(dtype, (*scope, *seen), depth - 1)
        return self.folded(dtype, value, inner)

    def folded(self, dtype: DType, value: Some, inner: Scope) -> Some:
        op, most = self.reducer(dtype, value, math.prod(_extent(r) for r in inner))
        return self.noted(Some(value.node.reduce(op, *inner), most))

    def kept(self, dtype: DType, scope: Scope, depth: int) -> Some:
        """An element of a value that is materialized locally for loops of its own.

        It is often read in a reduction over all of it.
        """
        buffer, most = self.materialized(dtype, scope, depth)
        own = buffer.src[1:]
        if self.choices.below(3):
            inner: Scope = ()
            for r in own:
                inner = (*inner, self.range(Axis.REDUCE, (*scope, *inner), _extent(r)))
            if all(_extent(a) == _extent(b) for a, b in zip(own, inner, strict=True)):
                element = Some(buffer.index(*inner), most)
                if self.choices.below(2):
                    other = self.value(dtype, (*scope, *inner), depth - 1)
                    element = self.combined(dtype, element, other)
                return self.folded(dtype, element, inner)
        at, inside = [], None
        for r in own:
            along, condition = self.within(scope, _extent(r))
            at.append(along)
            if condition is not None:
                inside = condition if inside is None else inside & condition
        if inside is None:
            return Some(buffer.index(*at), most)
        element_node = buffer.index(*(masked(inside, i) for i in at))
        return Some(inside.where(element_node, UOp.const(dtype, 0)), most)

    def materialized(self, dtype: DType, scope: Scope, depth: int) -> tuple[UOp, int]:
        """A value that is kept for loops of its own: a new one, or one that is there."""
        there = [b for b in self.local if b[0].dtype is dtype and set(b[1]) <= set(scope)]
        if there and self.choices.below(2):
            buffer, _, most = self.choices.one_of(there)
            return buffer, most
        outer = tuple(r for r in scope if r.arg[1] is not Axis.REDUCE and self.choices.below(4))
        own = self.ranges(Axis.LOOP, outer, 2)
        value = self.value(dtype, (*outer, *own), depth - 1)
        buffer = UOp(ops.BUFFERIZE, dtype, (value.node, *own), Space.LOCAL)
        self.local.append((buffer, outer, value.most))
        return buffer, value.most

    def within(self, scope: Scope, size: int) -> tuple[UOp, UOp | None]:
        """An index below a size, or one with a condition for that."""
        alike = [r for r in scope if _extent(r) <= size]
        if alike and self.choices.below(3):
            return self.choices.one_of(alike), None
        if scope and self.choices.below(2):
            counter = self.choices.one_of(scope)
            at = counter - self.choices.below(2)
            if _extent(counter) <= size + 1 and self.choices.below(2):
                return at, (at >= 0) & (at < size)
            return counter % size, None
        return UOp.const(index, self.choices.below(size)), None

    def prefix(self, dtype: DType, scope: Scope, depth: int) -> Some:
        """A reduction of what comes up to the iteration of a loop."""
        outer = [r for r in scope if r.arg[1] is Axis.LOOP]
        if not outer:
            return self.reduced(dtype, scope, depth)
        along = self.choices.one_of(outer)
        inner = self.range(Axis.REDUCE, scope, _extent(along))
        others = tuple(r for r in scope if r is not along)
        value = self.value(dtype, (*others, inner), depth - 1)
        op, most = self.reducer(dtype, value, _extent(inner))
        whole = op in (ops.MAX, ops.MIN) or not self.choices.seldom(3)  # or nothing to begin with
        limit = along if whole else along - 1
        first = UOp.const(dtype, identity(op, dtype))
        node = (inner <= limit).where(value.node, first).reduce(op, inner)
        return self.noted(Some(node, max(most, 1) if op is not ops.MUL else 1))

    def softened(self, dtype: DType, scope: Scope, depth: int) -> Some:
        """Reductions of one value, each of which needs the one before, as in softmax."""
        if dtype.kind is Kind.BOOL or not scope:
            return self.reduced(dtype, scope, depth)
        inner = self.range(Axis.REDUCE, scope)
        value = self.value(dtype, (*scope, inner), depth - 1)
        largest = value.node.reduce(ops.MAX, inner)
        times = _extent(inner)
        if 2 * value.most * times > _limit(dtype):
            return self.noted(Some(largest, value.most))
        if self.choices.below(2):  # the second pass over the same loop
            total = (value.node - largest).reduce(ops.ADD, inner)
            return self.noted(Some(total, 2 * value.most * times))
        second = self.range(Axis.REDUCE, scope, times)
        if _extent(second) != times:
            return self.noted(Some(largest, value.most))
        from porism.ir.traversal import substitute

        again = substitute(value.node, {inner: second}) - largest
        return self.noted(Some(again.reduce(ops.ADD, second), 2 * value.most * times))

    # -- outputs -----------------------------------------------------------------------------------

    def stored(self, number: int, dtype: DType, scope: Scope, value: UOp) -> UOp:
        at, size = UOp.const(index, 0), 1
        for counter in self.choices.shuffled(scope) if self.choices.seldom(3) else reversed(scope):
            gap = self.choices.below(3) if self.choices.seldom(8) else 0
            at = counter * size + at
            size *= _extent(counter) + gap
        if scope and self.choices.seldom(8):
            counter = self.choices.one_of(scope)
            at = masked(counter < self.choices.below(_extent(counter) + 1), at)
        self.data[number] = numbers(dtype, size, number, 3)
        buffer = UOp(ops.PARAM, dtype.pointer(size=size), (), number)
        return buffer.index(at).store(value)


def nest(choices: Choices) -> Nest:
    """A random nest."""
    builder = Builder(choices, choices.one_of(MOST_ITERATIONS))
    shape = choices.below(16)
    if shape == 13:
        return _product(builder)
    if shape == 14:
        return _scan(builder)
    if shape == 15 and choices.seldom(4):
        return _scattered(builder)
    count = 2 if choices.seldom(12) else 1
    for number in range(count):
        builder.data[number] = np.zeros(0)
    effects = []
    for number in range(count):
        dtype = choices.one_of(TYPES)
        scope = builder.ranges(Axis.LOOP, (), 4) if not choices.seldom(10) else ()
        value = builder.value(dtype, scope, DEPTH)
        effects.append(_ended(builder, builder.stored(number, dtype, scope, value.node), scope))
    return Nest(ops.SINK(*effects), builder.data, tuple(range(count)))


def _single(builder: Builder, dtype: DType, scope: Scope, value: UOp) -> Nest:
    """A nest that stores one value."""
    effect = builder.stored(0, dtype, scope, value)
    return Nest(ops.SINK(_ended(builder, effect, scope)), builder.data, (0,))


def _ended(builder: Builder, effect: UOp, scope: Scope) -> UOp:
    """A store in its loops, which one END closes, or one each."""
    if not scope:
        return effect
    if len(scope) > 1 and builder.choices.seldom(12):
        for counter in reversed(scope):
            effect = effect.end(counter)
        return effect
    return effect.end(*scope)


def _product(builder: Builder) -> Nest:
    """A sum of products of what depends on some of the loops each, and what follows it."""
    choices = builder.choices
    builder.data[0] = np.zeros(0)
    if choices.seldom(8):
        return _core_product(builder)
    dtype = choices.one_of((dtypes.f32, dtypes.i32, dtypes.f64))
    scope = builder.ranges(Axis.LOOP, (), 3)
    inner = builder.ranges(Axis.REDUCE, scope, 2)
    left = builder.read(dtype, (*scope[:-1], *inner))
    right = builder.read(dtype, (*scope[-1:], *inner))
    total = builder.folded(dtype, Some(left.node * right.node, left.most * right.most), inner)
    if choices.below(2):
        total = builder.combined(dtype, total, builder.value(dtype, scope, choices.below(2)))
    return _single(builder, dtype, scope, total.node)


def _core_product(builder: Builder) -> Nest:
    """A product of matrices of the sizes that tensor cores have."""
    i, j = builder.range(Axis.LOOP, (), 8), builder.range(Axis.LOOP, (), 8)
    k = builder.range(Axis.REDUCE, (i, j), 4 + 4 * builder.choices.below(2))
    left, right = (builder.buffer(dtypes.f64, 8 * _extent(k), 3) for _ in range(2))
    product = left.index(i * _extent(k) + k) * right.index(k * 8 + j)
    return replace(
        _single(builder, dtypes.f64, (i, j), product.reduce(ops.ADD, k)), is_for_cores=True
    )


def _scan(builder: Builder) -> Nest:
    """Reductions up to the iteration of an output loop, and what follows them."""
    choices = builder.choices
    builder.data[0] = np.zeros(0)
    dtype = choices.one_of(TYPES)
    scope = builder.ranges(Axis.LOOP, (), 3)
    found = builder.prefix(dtype, scope, 2)
    if choices.below(2):
        found = builder.combined(dtype, found, builder.value(dtype, scope, 1))
    return _single(builder, dtype, scope, found.node)


def _scattered(builder: Builder) -> Nest:
    """Values that are reduced into the elements that indices name."""
    choices = builder.choices
    builder.data[0] = np.zeros(0)
    dtype = choices.one_of((dtypes.f32, dtypes.i32))
    size, count = choices.one_of((32, 33, 40)), choices.one_of((32, 36, 45))
    element = UOp.range(size, 0, Axis.LOOP)
    terms = UOp.range(count, 1, Axis.REDUCE)
    builder.axes = 2
    scope: Scope = (element,)
    if choices.below(2):
        scope = (element, builder.range(Axis.LOOP, (), choices.one_of((2, 1, 3))))
    where = builder.buffer(dtypes.i32, count, size + 2).index(terms).cast(index)
    value = builder.read(dtype, (*scope[1:], terms))
    op, _ = builder.reducer(dtype, value, count)
    start = UOp.const(dtype, identity(op, dtype))
    chosen = ops.EQ(element, where).where(value.node, start)
    return _single(builder, dtype, scope, chosen.reduce(op, terms))


def numbers(dtype: DType, size: int, seed: int, most: int) -> Array:
    """Small whole numbers, different from one element to the next."""
    low = 0 if dtype.kind in (Kind.UNSIGNED, Kind.BOOL) else -most
    spread = most - low + 1
    steps = np.arange(size) * 7 + np.arange(size) // 3 + np.arange(size) ** 2 // 5 + seed
    return np.asarray(steps % spread + low).astype(dtype.numpy)


def _extent(counter: UOp) -> int:
    return int(counter.vmax) + 1


def _fits(node: UOp, scope: Scope) -> bool:
    return set(node.ranges) <= set(scope)


def _limit(dtype: DType) -> int:
    return EXACT.get(dtype, LARGEST)
