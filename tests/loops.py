"""Random graphs with loops: ranged graphs, kernels, lanes, and kernels for a target.

`Loops` builds values inside a scope of ranges. What differs between the levels is how an element
is read (`read`), how a value is reduced (`reduced`) and which type counts (`index`, or i32 on a
target).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, Space
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp, raw
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from tests.expressions import Growth, Make, expressions
from tests.tensors import VALUE_TYPES, reducers

Scope = tuple[UOp, ...]

LARGEST_INDEX: Final = 1000


@dataclass
class Loops:
    """A graph with loops being built; ranges and parameters are numbered as they come."""

    draw: DrawFn
    make: Make
    types: Sequence[DType]
    counter: DType = dtypes.index
    lanes: int = 1
    axes: int = 0
    parameters: int = 0

    # -- small pieces ------------------------------------------------------------------------------

    def dtype(self) -> DType:
        return self.draw(st.sampled_from(list(self.types)))

    def number(self, value: int, lanes: int = 1) -> UOp:
        return self.make(ops.CONST, self.counter.vec(lanes), (), value)

    def binary(self, op: Op, a: UOp, b: UOp | int) -> UOp:
        other = self.number(b, a.dtype.count) if isinstance(b, int) else b
        return self.make(op, None, (a, other), None)

    def range(self, kind: Axis, most: int) -> UOp:
        size = self.number(self.draw(st.integers(1, most)))
        node = self.make(ops.RANGE, None, (size,), ((self.axes,), kind))
        self.axes += 1
        return node

    def ranges(self, kind: Axis, least: int, most: int) -> Scope:
        size = 3 if kind is Axis.REDUCE else 4
        return tuple(self.range(kind, size) for _ in range(self.draw(st.integers(least, most))))

    def parameter(self, dtype: DType, size: int) -> UOp:
        pointer = dtype.pointer(Space.GLOBAL, size)
        node = self.make(ops.PARAM, pointer, (), self.parameters)
        self.parameters += 1
        return node

    # -- indices -----------------------------------------------------------------------------------

    def position(self, scope: Scope) -> UOp:
        """Some arithmetic of the ranges in scope."""
        wanted = expressions(
            self.counter.vec(self.lanes),
            leaves=scope,
            steps=4,
            make=self.make,
            limit=LARGEST_INDEX,
            casts=False,
        )
        return self.draw(wanted)

    def inside(self, index: UOp, size: int) -> UOp:
        zero = self.number(0, index.dtype.count)
        return self.binary(
            ops.AND, self.binary(ops.LE, zero, index), self.binary(ops.LT, index, size)
        )

    def aim(self, scope: Scope, size: int | None = None) -> tuple[UOp, int, UOp | None]:
        """An index, the size of what it points into, and the condition for it to be inside."""
        index = self.position(scope)
        if self.draw(st.booleans()):
            size = self.draw(st.integers(1, 8)) if size is None else size
            return index, size, self.inside(index, size)
        low, high = int(index.vmin), int(index.vmax)
        most = 16 if size is None else size
        if high - low >= most:
            index = self.binary(ops.MOD, index, most)
        elif low != 0:
            index = self.binary(ops.SUB, index, low)
        return index, most if size is not None else int(index.vmax) + 1, None

    def masked(self, index: UOp, condition: UOp | None) -> UOp:
        """The index where the condition holds, and no element elsewhere."""
        if condition is None:
            return index
        nowhere = self.make(ops.INVALID, index.dtype, (), None)
        return self.make(ops.WHERE, None, (condition, index, nowhere), None)

    def guarded(self, index: UOp, condition: UOp | None) -> tuple[UOp, ...]:
        """The index and its condition as the sources of an INDEX: as a gate, or as validity."""
        if condition is not None and self.draw(st.booleans()):
            return index, condition
        return (self.masked(index, condition),)

    # -- values ------------------------------------------------------------------------------------

    def read(self, dtype: DType, scope: Scope, depth: int) -> UOp:
        """An element of a new parameter."""
        index, size, condition = self.aim(scope)
        pointer = self.parameter(dtype, size)
        src = (pointer, *self.guarded(index, condition))
        return self.make(ops.INDEX, dtype.vec(self.lanes), src, None)

    def reduced(self, dtype: DType, scope: Scope, depth: int) -> UOp:
        inner = self.ranges(Axis.REDUCE, 1, 2)
        value = self.value(dtype, (*scope, *inner), depth - 1)
        op = self.draw(st.sampled_from(reducers(dtype)))
        return self.make(ops.REDUCE, None, (value, *inner), op)

    def value(self, dtype: DType, scope: Scope, depth: int) -> UOp:
        """Arithmetic of elements, reductions and positions."""
        nodes = [self.read(dtype, scope, depth)]
        if depth > 0 and self.draw(st.booleans()):
            nodes.append(self.reduced(dtype, scope, depth))
        if self.draw(st.booleans()):
            nodes.append(self.read(dtype, scope, depth))
        if self.draw(st.booleans()):
            position = self.position(scope)
            nodes.append(self.make(ops.CAST, dtype.vec(self.lanes), (position,), None))
        growth = Growth(self.draw, dtype.vec(self.lanes), nodes, self.make)
        growth.grow(4)
        return growth.last(growth.dtype)

    # -- outputs -----------------------------------------------------------------------------------

    def row_major(self, scope: Scope) -> tuple[UOp, int]:
        """A different index for every iteration, from 0 on, and how many there are."""
        index, size = self.number(0), 1
        for loop in self.draw(st.permutations(scope)):
            moved = self.binary(ops.MUL, loop, size)
            index = moved if size == 1 else self.binary(ops.ADD, moved, index)
            size *= int(loop.vmax) + 1
        return index, size

    def condition(self, scope: Scope) -> UOp | None:
        if self.draw(st.booleans()):
            return None
        wanted = expressions(
            dtypes.boolean, of=self.counter, leaves=scope, steps=2, make=self.make, casts=False
        )
        return self.draw(wanted)

    def output(self, number: int, dtype: DType, size: int) -> UOp:
        return self.make(ops.PARAM, dtype.pointer(Space.GLOBAL, size), (), number)

    def stored(self, number: int, scope: Scope) -> UOp:
        """A value of each iteration, written to an output of its own."""
        dtype = self.dtype()
        index, size = self.row_major(scope)
        src = (self.output(number, dtype, size), *self.guarded(index, self.condition(scope)))
        target = self.make(ops.INDEX, None, src, None)
        return self.make(ops.STORE, None, (target, self.value(dtype, scope, 2)), None)

    def end(self, effect: UOp, scope: Scope) -> UOp:
        return self.make(ops.END, None, (effect, *scope), None)

    def sink(self, *effects: UOp) -> UOp:
        return self.make(ops.SINK, None, effects, None)


class Ranged(Loops):
    """Tensors with dims are read by one index a dimension, and so are values placed in memory."""

    def read(self, dtype: DType, scope: Scope, depth: int) -> UOp:
        if depth > 0 and self.draw(st.booleans()):
            return self.placed(dtype, scope, depth)
        aims = [self.aim(scope) for _ in range(self.draw(st.integers(1, 2)))]
        dims = tuple(self.number(size) for _, size, _ in aims)
        tensor = self.make(ops.PARAM, dtype, dims, self.parameters)
        self.parameters += 1
        return self.element(tensor, aims)

    def placed(self, dtype: DType, scope: Scope, depth: int) -> UOp:
        """An element of a value that is computed for ranges of its own."""
        inner = self.ranges(Axis.LOOP, 1, 2)
        value = self.value(dtype, inner, depth - 1)
        kept = self.make(ops.BUFFERIZE, None, (value, *inner), Space.GLOBAL)
        return self.element(kept, [self.aim(scope, int(r.vmax) + 1) for r in inner])

    def element(self, tensor: UOp, aims: list[tuple[UOp, int, UOp | None]]) -> UOp:
        aims = [(self.number(0) if size == 1 else at, size, inside) for at, size, inside in aims]
        conditions = [c for _, _, c in aims if c is not None]
        if not conditions or self.draw(st.booleans()):
            indices = tuple(self.masked(index, condition) for index, _, condition in aims)
            return self.make(ops.INDEX, None, (tensor, *indices), None)
        gate = conditions[0]
        for condition in conditions[1:]:
            gate = self.binary(ops.AND, gate, condition)
        return self.make(ops.INDEX, None, (tensor, *[a[0] for a in aims], gate), None)


class Target(Loops):
    """Counters have a width, memory is loaded explicitly, a reduction is a register and a loop."""

    registers: int = 0

    def pointer(self, base: UOp, *index: UOp) -> UOp:
        return self.make(ops.INDEX, base.dtype, (base, *index), None)

    def after(self, node: UOp, *before: UOp) -> UOp:
        return self.make(ops.AFTER, None, (node, *before), None) if before else node

    def load(self, pointer: UOp, *alternative: UOp) -> UOp:
        return self.make(ops.LOAD, None, (pointer, *alternative), None)

    def store(self, pointer: UOp, value: UOp) -> UOp:
        return self.make(ops.STORE, None, (pointer, value), None)

    def guarded(self, index: UOp, condition: UOp | None) -> tuple[UOp, ...]:
        return (index,) if condition is None else (index, condition)

    def read(self, dtype: DType, scope: Scope, depth: int) -> UOp:
        index, size, condition = self.aim(scope)
        pointer = self.pointer(self.parameter(dtype, size), *self.guarded(index, condition))
        if condition is None:
            return self.load(pointer)
        return self.load(pointer, Growth(self.draw, dtype, [], self.make).pick(dtype))

    def reduced(self, dtype: DType, scope: Scope, depth: int) -> UOp:
        op = self.draw(st.sampled_from(reducers(dtype)))
        place = dtype.pointer(Space.REGISTER, 1)
        register = self.make(ops.DEFINE_REG, place, (), self.registers)
        self.registers += 1
        zero = self.number(0)
        first = self.make(ops.CONST, dtype, (), identity(op, dtype))
        start = self.store(self.pointer(self.after(register, *scope), zero), first)
        inner = self.ranges(Axis.REDUCE, 1, 2)
        value = self.value(dtype, (*scope, *inner), depth - 1)
        here = self.pointer(self.after(register, start, *inner), zero)
        update = self.store(here, self.make(op, None, (self.load(here), value), None))
        return self.load(self.pointer(self.after(register, self.end(update, inner)), zero))

    def end(self, effect: UOp, scope: Scope) -> UOp:
        """One END a range, the innermost first."""
        for loop in reversed(scope):
            effect = self.make(ops.END, None, (effect, loop), None)
        return effect

    def stored(self, number: int, scope: Scope) -> UOp:
        dtype = self.dtype()
        width = self.draw(st.sampled_from((1, 1, 2, 4)))
        index, size = self.row_major(scope)
        condition = self.condition(scope)
        base = self.output(number, dtype, size * width)
        if width == 1:
            pointer = self.pointer(base, *self.guarded(index, condition))
            return self.store(pointer, self.value(dtype, scope, 1))
        # one wide access: neighbours are a vector behind a pointer of another type
        wide = dtype.vec(width).pointer(Space.GLOBAL)
        start = self.binary(ops.MUL, index, width)
        pointer = self.pointer(base, *self.guarded(start, condition))
        read = self.pointer(self.parameter(dtype, size * width), start)
        scalars = tuple(self.value(dtype, scope, 0) for _ in range(width))
        nodes = [
            self.load(self.make(ops.CAST, wide, (read,), None)),
            self.make(ops.VECTORIZE, None, scalars, None),
        ]
        growth = Growth(self.draw, dtype.vec(width), nodes, self.make, rearranging=False)
        growth.grow(3)
        target = self.make(ops.CAST, wide, (pointer,), None)
        return self.store(target, growth.last(growth.dtype))

    def shared(self, number: int) -> UOp:
        """Threads that write local memory, wait for each other, and read what others wrote."""
        dtype = self.dtype()
        blocks, threads = (self.number(self.draw(st.integers(1, 4))) for _ in range(2))
        block = self.make(ops.SPECIAL, None, (blocks,), "block0")
        thread = self.make(ops.SPECIAL, None, (threads,), "thread0")
        count = int(thread.vmax) + 1
        local = self.make(ops.DEFINE_LOCAL, dtype.pointer(Space.LOCAL, count), (), 0)
        scope = (block, thread)
        written = self.store(self.pointer(local, thread), self.value(dtype, scope, 1))
        barrier = self.make(ops.BARRIER, None, (written,), None)
        index = self.binary(ops.MOD, self.position((thread,)), count)
        other = self.load(self.pointer(self.after(local, barrier), index))
        growth = Growth(self.draw, dtype, [other], self.make)
        growth.grow(3)
        place, size = self.row_major(scope)
        target = self.pointer(self.output(number, dtype, size), place)
        return self.store(target, growth.last(dtype))


def identity(op: Op, dtype: DType) -> Any:
    """What a reduction by the op starts from."""
    if op is ops.MAX or op is ops.MIN:
        return dtype.min if op is ops.MAX else dtype.max
    if op is ops.AND:
        return True if dtype.kind is Kind.BOOL else -1
    return 1 if op is ops.MUL else 0


# -- strategies ------------------------------------------------------------------------------------


@st.composite
def ranged_graphs(draw: DrawFn, *, types: Sequence[DType] = VALUE_TYPES, make: Make = raw) -> UOp:
    """A value placed in memory; other placed values are read on the way."""
    loops = Ranged(draw, make, types)
    scope = loops.ranges(Axis.LOOP, 0, 3)
    value = loops.value(loops.dtype(), scope, 2)
    return make(ops.BUFFERIZE, None, (value, *scope), Space.GLOBAL)


@st.composite
def kernels(draw: DrawFn, *, types: Sequence[DType] = VALUE_TYPES, make: Make = raw) -> UOp:
    """One or two outputs, in loops of their own or in the same ones."""
    count = draw(st.integers(1, 2))
    loops = Loops(draw, make, types, parameters=count)
    kind = draw(st.sampled_from((Axis.LOOP, Axis.GLOBAL)))
    if count == 1 or draw(st.booleans()):
        effects = []
        for number in range(count):
            scope = loops.ranges(kind, 0, 3)
            effects.append(loops.end(loops.stored(number, scope), scope))
        return loops.sink(*effects)
    scope = loops.ranges(kind, 0, 3)
    stores = tuple(loops.stored(number, scope) for number in range(count))
    return loops.sink(loops.end(make(ops.GROUP, None, stores, None), scope))


@st.composite
def lanes_graphs(draw: DrawFn, *, types: Sequence[DType] = VALUE_TYPES, make: Make = raw) -> UOp:
    """A kernel whose iterations have lanes: values of unrolled axes, or vectors.

    In the first form, lane `n` of an UNROLL is the value at the n-th position of its axes, the last
    axis fastest, and CONTRACT puts the values at those positions back into lanes. In the second,
    an INDEX by a vector of indices reads or writes one element a lane.
    """
    loops = Loops(draw, make, types, parameters=1)
    scope = loops.ranges(Axis.LOOP, 0, 2)
    index, size = loops.row_major(scope)
    sizes = draw(st.sampled_from(((2,), (4,), (2, 2))))
    width = math.prod(sizes)
    dtype = loops.dtype()
    out = loops.output(0, dtype, size * width)
    start = loops.binary(ops.MUL, index, width)
    if draw(st.booleans()):
        named = tuple((loops.axes + k, n) for k, n in enumerate(sizes))
        loops.axes += len(sizes)
        units = []
        place = start
        stride = width
        for axis, n in named:
            steps = make(ops.VCONST, dtypes.index.vec(n), (), tuple(range(n)))
            units.append(make(ops.UNROLL, None, (steps,), ((axis, n),)))
            stride //= n
            moved = loops.binary(ops.MUL, units[-1], stride)
            place = loops.binary(ops.ADD, place, moved)
        value = loops.value(dtype, (*scope, *units), 1)
        where = make(ops.CONTRACT, None, (place,), named)
        value = make(ops.CONTRACT, None, (value,), named)
    else:
        loops.lanes = width
        base = make(ops.VECTORIZE, None, (start,) * width, None)
        steps = make(ops.VCONST, dtypes.index.vec(width), (), tuple(range(width)))
        where = loops.binary(ops.ADD, base, steps)
        value = loops.value(dtype, scope, 1)
    target = make(ops.INDEX, dtype.vec(width), (out, where), None)
    return loops.sink(loops.end(make(ops.STORE, None, (target, value), None), scope))


@st.composite
def target_kernels(
    draw: DrawFn,
    *,
    types: Sequence[DType] = VALUE_TYPES,
    threads: bool = True,
    make: Make = raw,
) -> UOp:
    """A kernel as a renderer would get it; with `threads`, some share local memory."""
    count = draw(st.integers(1, 2))
    loops = Target(draw, make, types, counter=dtypes.i32, parameters=count)
    if threads and draw(st.integers(0, 3)) == 3:
        return loops.sink(loops.shared(0))
    effects = []
    for number in range(count):
        scope = loops.ranges(Axis.LOOP, 0, 2)
        effects.append(loops.end(loops.stored(number, scope), scope))
    return loops.sink(*effects)


@dataclass
class Recorder:
    """A `make` that remembers what it made, in order."""

    made: dict[UOp, None] = field(default_factory=dict)

    def __call__(self, op: Op, dtype: DType | None, src: tuple[UOp, ...], arg: Any) -> UOp:
        node = raw(op, dtype, src, arg)
        self.made[node] = None
        return node


@st.composite
def linear_kernels(
    draw: DrawFn, *, types: Sequence[DType] = VALUE_TYPES, threads: bool = True
) -> list[UOp]:
    """A target kernel as a list: a RANGE opens a loop, its END closes it, sources come first."""
    recorder = Recorder()
    root = draw(target_kernels(types=types, threads=threads, make=recorder))
    used = set(toposort(root))
    # Loops are made from the outside to the inside, so what is made between a RANGE and its END is
    # the loop's body, but for nodes that do not depend on it: they go in front.
    blocks: list[tuple[UOp | None, list[UOp]]] = [(None, [])]
    for node in recorder.made:
        if node not in used:
            continue
        if node.op is ops.RANGE:
            blocks.append((node, [node]))
            continue
        if node.op is ops.END:
            _, body = blocks.pop()
            blocks[-1][1].extend([*body, node])
            continue
        depth = max((k for k, (loop, _) in enumerate(blocks) if loop in node.ranges), default=0)
        blocks[depth][1].append(node)
    return blocks[0][1]
