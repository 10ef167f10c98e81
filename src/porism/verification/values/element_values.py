"""Element values: the values of some elements of a graph, at its real sizes.

A tensor graph, a graph in ranges and the kernel that is cut out of it are all functions from the
place of an element to its value. Here the value is found from that definition, for some elements at
once and without computing the others: a movement op changes the place, a reduction adds an axis.
So stages can be compared at the sizes that a program has. Where most of a tensor is asked for, all
of it is computed, once.

    ElementEvaluator(memory, variables).value(node, places)

Nothing here is shared with `schedule`, which it checks.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from porism.base.dtypes import Kind
from porism.evaluate.op_evaluation import meaning
from porism.evaluate.varying_value import narrow_integers
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.facts.node_shape import shape
from porism.ir.facts.reduction_identity import identity
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.verification.values import rounding_bounds
from porism.verification.values.element_indices import (
    ZERO,
    Indices,
    addressable,
    any_of,
    renumbered,
    with_unknown,
)
from porism.verification.values.rounding_bounds import Bound
from porism.verification.values.synthetic_inputs import TooLarge

PIECE: Final = 1 << 20
"""Elements that a reduction processes at a time; chosen by hand."""

MOST: Final = 1 << 27
"""Elements that are computed in all before it gives up: some seconds."""

WHOLE: Final = 4
"""A tensor is computed as a whole if it has at most so many times the requested elements."""

_DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD})


@dataclass(frozen=True, slots=True)
class Bounded:
    """Values, each with a bound for its rounding, and where there is none (an INVALID index)."""

    data: Array
    bound: Bound = None
    missing: Array | None = None


_Key = tuple[UOp, Indices, Mapping[UOp, Array]]
_Steps = Generator[_Key, Bounded, Bounded]


class ElementEvaluator:
    """Values of elements of graphs over some memory."""

    def __init__(self, memory: Mapping[UOp, Array], variables: Mapping[str, int]) -> None:
        self.memory = memory
        """For a PARAM, or any other value that is taken as given, its elements in order."""
        self.variables = variables
        self.left = MOST
        self._known: dict[Any, tuple[Bounded, _Key]] = {}
        self._grids: dict[tuple[int, ...], Indices] = {}

    def value(
        self, node: UOp, places: Indices = (), ranges: Mapping[UOp, Array] | None = None
    ) -> Bounded:
        """The elements of a node at some places, at some values of the ranges that are open.

        The node itself is computed, also if its memory is given.
        """
        with np.errstate(all="ignore"):
            return self._run((node, places, ranges or {}))

    def dims(self, node: UOp) -> tuple[int, ...]:
        """The shape of a node in this run."""
        return tuple(self.number(dim) for dim in shape(node))

    def number(self, node: UOp) -> int:
        """The value of a size in this run."""
        return int(node.arg) if node.op is ops.CONST else int(self.value(node).data)

    # -- going through a graph ---------------------------------------------------------------------

    def _run(self, first: _Key) -> Bounded:
        """Follow what is asked for; no recursion, since graphs are deep."""
        stack: list[tuple[Any, _Steps, _Key]] = [(None, self._steps(first, root=True), first)]
        answer: Bounded | None = None
        while stack:
            key, steps, asked = stack[-1]
            try:
                wanted = steps.send(answer)  # type: ignore[arg-type]  # None at the beginning
            except StopIteration as end:
                stack.pop()
                answer = end.value
                assert answer is not None
                self._count(answer.data.size)
                if key is not None:
                    self._known[key] = answer, asked  # its arrays live as long as their ids
                continue
            new = self._key(wanted)
            known = self._known.get(new)
            if known is None:
                stack.append((new, self._steps(wanted), wanted))
                answer = None
            else:
                answer = known[0]
        assert answer is not None
        return answer

    def _key(self, wanted: _Key) -> Any:
        node, places, ranges = wanted
        own = tuple([id(ranges[r]) for r in node.ranges if r in ranges])
        return node, tuple(map(id, places)), own

    def _count(self, size: int) -> None:
        self.left -= max(size, 1)
        if self.left < 0 or size > MOST >> 2:
            raise TooLarge

    def _steps(self, wanted: _Key, *, root: bool = False) -> _Steps:
        node, places, ranges = wanted
        op = node.op
        if not root and (node in self.memory or op in (ops.PARAM, ops.BUFFER)):
            return self._memory(node, places)
        if (
            places
            and not root
            and op.group is not ops.MOVEMENT
            and op is not ops.IOTA
            and not any(r in ranges for r in node.ranges)
        ):
            dims = self.dims(node)
            asked = math.prod(np.broadcast_shapes(*(p.shape for p in places)))
            if places is not self._grids.get(dims) and math.prod(dims) <= WHOLE * asked:
                return self._whole(node, dims, places)
        if op.elementwise:
            return self._elementwise(node, places, ranges)
        return self._HANDLERS[op](self, node, places, ranges)

    def _whole(self, node: UOp, dims: tuple[int, ...], places: Indices) -> _Steps:
        grid = self._grids.get(dims)
        if grid is None:
            grid = tuple(np.ogrid[tuple(slice(n) for n in dims)])
            self._grids[dims] = grid
        found = yield node, grid, {}

        def chosen(array: Array) -> Array:
            return np.asarray(np.broadcast_to(array, dims)[places])

        bound = None if found.bound is None else chosen(found.bound)
        return Bounded(chosen(found.data), bound)

    # -- leaves and memory -------------------------------------------------------------------------

    def _constant(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        return Bounded(np.asarray(semantics.array_of(node.dtype, node.arg)))
        yield

    def _variable(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        return Bounded(np.asarray(self.variables[node.arg[0]], np.int64))
        yield

    def _range(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        return Bounded(ranges[node])
        yield

    def _position(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        return Bounded(places[node.arg])
        yield

    def _nowhere(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        return Bounded(np.asarray(0), None, np.asarray(True))
        yield

    def _memory(self, node: UOp, places: Indices) -> _Steps:
        """The elements of a tensor that is given."""
        flat: Array = np.asarray(0)
        for place, size in zip(places, self.dims(node), strict=True):
            flat = flat * size + place
        return Bounded(self._at(node, flat))
        yield

    def _at(self, buffer: UOp, flat: Array) -> Array:
        data = self.memory[buffer]
        if not data.size:
            return np.zeros(flat.shape, data.dtype)
        return np.asarray(data[np.clip(flat, 0, data.size - 1)])

    def _index(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """An element of a buffer, or of a value that is kept for the iterations of its ranges."""
        base, *at = node.src
        gate: Bounded | None = None
        if at and at[-1].dtype.kind is Kind.BOOL:
            gate = yield at.pop(), (), ranges
        indices: list[Bounded] = []
        for index in at:
            indices.append((yield index, (), ranges))
        absent = [i.missing for i in indices if i.missing is not None]
        if gate is not None:
            absent.append(~gate.data)
        missing = None if not absent else any_of(absent)
        numbers = tuple(addressable(i.data, missing) for i in indices)
        if base.dtype.kind is Kind.POINTER:
            found = Bounded(self._at(base, numbers[0]))
        else:
            found = yield base, numbers, ranges
        bound = with_unknown(found.bound, [i.bound for i in indices])
        if missing is None:
            return Bounded(found.data, bound)
        bound = None if bound is None else np.where(missing, 0.0, bound)
        return Bounded(np.where(missing, np.zeros_like(found.data), found.data), bound)

    # -- arithmetic --------------------------------------------------------------------------------

    def _elementwise(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        values: list[Bounded] = []
        for source in node.src:
            values.append((yield source, places if places and shape(source) else (), ranges))
        data = [v.data for v in values]
        lane = node.src[-1].dtype.element
        if node.op is ops.WHERE:
            return self._choice(node, values)
        absent = [v.missing for v in values if v.missing is not None]
        if lane.kind is Kind.INDEX and node.op in _DIVISIONS:
            data[1] = np.where(data[1] == 0, 1, data[1])
        result = meaning(node.op, lane, *data)
        bounds = [v.bound for v in values]
        made = node.dtype.element
        if made.is_float or any(b is not None for b in bounds):
            bound = rounding_bounds.of_op(node.op, lane, data, bounds, result, made)
        else:
            bound = None
        return Bounded(result, bound, any_of(absent) if absent else None)

    def _choice(self, node: UOp, values: Sequence[Bounded]) -> Bounded:
        condition, yes, no = values
        lane = node.dtype.element
        result = meaning(ops.WHERE, lane, condition.data, yes.data, no.data)
        bound: Bound = None
        if any(v.bound is not None for v in values):
            data = [v.data for v in values]
            bound = rounding_bounds.of_op(
                ops.WHERE, lane, data, [v.bound for v in values], result, lane
            )
        if yes.missing is None and no.missing is None:
            return Bounded(result, bound)
        true, false = (np.asarray(False) if v.missing is None else v.missing for v in (yes, no))
        return Bounded(result, bound, np.where(condition.data, true, false))

    def _cast(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        value = yield node.src[0], places, ranges
        source, target = node.src[0].dtype.element, node.dtype.element
        if node.op is ops.BITCAST:
            data = np.asarray(semantics.bitcast(source, target, value.data))
            bound = value.bound
            return Bounded(data, None if bound is None else np.where(bound > 0, np.inf, 0.0))
        data = np.asarray(semantics.cast(source, target, value.data))
        if target.kind is Kind.INDEX:
            data = narrow_integers(data)
        bound = rounding_bounds.of_cast(source, target, value.data, value.bound, data)
        return Bounded(data, bound, value.missing)

    def _kept(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """A value that is kept for the iterations of ranges."""
        own = {r: at for r, at in zip(node.src[1:], places, strict=True) if r.op is ops.RANGE}
        return (yield node.src[0], (), {**ranges, **own})

    def _same(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        return (yield node.src[0], places, ranges)

    def _second(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        return (yield node.src[1], places, ranges)

    # -- movement ----------------------------------------------------------------------------------

    def _reshape(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Axes are numbered anew in blocks of equal size: an axis that stays keeps its array."""
        new, old = self.dims(node), self.dims(node.src[0])
        at: list[Array] = []
        i = j = 0
        while j < len(old):
            begin, first = i, j
            j += 1
            wide, size = math.prod(new[begin:i]), old[first]
            while wide != size:
                if wide < size and i < len(new):
                    wide *= new[i]
                    i += 1
                elif j < len(old):
                    size *= old[j]
                    j += 1
                else:  # an axis of no element
                    i, j = len(new), len(old)
                    break
            at += renumbered(places[begin:i], new[begin:i], old[first:j])
        return (yield node.src[0], tuple(at), ranges)

    def _permute(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        at = [np.asarray(0)] * len(places)
        for place, axis in zip(places, node.arg, strict=True):
            at[axis] = place
        return (yield node.src[0], tuple(at), ranges)

    def _expand(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        sizes = self.dims(node.src[0])
        at = [ZERO if n == 1 else p for p, n in zip(places, sizes, strict=True)]
        return (yield node.src[0], tuple(at), ranges)

    def _pad(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        outside: list[Array] = []
        at: list[Array] = []
        befores = node.src[1::2]
        for place, before, size in zip(places, befores, self.dims(node.src[0]), strict=True):
            inner = place - self.number(before) if self.number(before) else place
            beyond = (inner < 0) | (inner >= size)
            if beyond.any():
                outside.append(beyond)
                inner = np.clip(inner, 0, max(size - 1, 0))
            at.append(inner)
        if 0 in self.dims(node.src[0]):
            return Bounded(np.zeros(np.broadcast_shapes(*(p.shape for p in places)),
                                  node.dtype.numpy))  # fmt: skip
        found = yield node.src[0], tuple(at), ranges
        if not outside:
            return found
        away = any_of(outside)
        bound = None if found.bound is None else np.where(away, 0.0, found.bound)
        return Bounded(np.where(away, np.zeros_like(found.data), found.data), bound)

    def _shrink(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        begins = [self.number(begin) for begin in node.src[1::2]]
        at = [p + b if b else p for p, b in zip(places, begins, strict=True)]
        return (yield node.src[0], tuple(at), ranges)

    def _flip(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        sizes = self.dims(node)
        at = [sizes[k] - 1 - p if k in node.arg else p for k, p in enumerate(places)]
        return (yield node.src[0], tuple(at), ranges)

    def _gather(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        at: list[Bounded] = []
        for source in node.src[1:]:
            at.append((yield source, places, ranges))
        sizes = self.dims(node.src[0])
        outside = any_of(
            [(i.data < 0) | (i.data >= n) for i, n in zip(at, sizes, strict=True)]
            + [i.missing for i in at if i.missing is not None]
        )
        if 0 in sizes:
            return Bounded(np.zeros(outside.shape, node.dtype.numpy))
        inner = tuple(addressable(i.data, outside) for i in at)
        found = yield node.src[0], inner, ranges
        bound = with_unknown(found.bound, [i.bound for i in at])
        return Bounded(np.where(outside, np.zeros_like(found.data), found.data), bound)

    # -- reductions --------------------------------------------------------------------------------

    def _reduce_axes(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        op, axes = node.arg
        sizes = self.dims(node.src[0])

        def ask(numbers: Sequence[Array]) -> _Key:
            at = list(places)
            for axis, number in zip(axes, numbers, strict=True):
                at[axis] = number
            return node.src[0], tuple(at), ranges

        return (yield from self._reduced(node, op, [sizes[a] for a in axes], places, ranges, ask))

    def _reduce(self, node: UOp, places: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        own = [s for s in node.src[1:] if s.op is ops.RANGE]
        sizes: list[int] = []
        for r in own:
            size = yield r.src[0], (), ranges
            if size.data.size != 1:
                raise TooLarge  # a loop whose extent depends on others
            sizes.append(int(size.data.reshape(-1)[0]))

        def ask(numbers: Sequence[Array]) -> _Key:
            return node.src[0], (), {**ranges, **dict(zip(own, numbers, strict=True))}

        return (yield from self._reduced(node, node.arg, sizes, (), ranges, ask))

    def _reduced(
        self,
        node: UOp,
        op: Any,
        sizes: Sequence[int],
        places: Indices,
        ranges: Mapping[UOp, Array],
        ask: Any,
    ) -> _Steps:
        """A reduction over axes in front of all others, a piece of it at a time."""
        around = [p.shape for p in places] + [ranges[r].shape for r in node.ranges if r in ranges]
        outer = np.broadcast_shapes(*around)
        count = math.prod(sizes)
        piece = max(PIECE // max(math.prod(outer), 1), 1)
        lane = node.dtype.element
        start = identity(op, lane)
        total: Bounded | None = None
        for begin in range(0, count, piece):
            flat = np.arange(begin, min(begin + piece, count)).reshape(-1, *([1] * len(outer)))
            numbers: list[Array] = []
            for size in reversed(sizes):
                numbers.append(flat % size)
                flat = flat // size
            mark = len(self._known)
            found = yield ask(numbers[::-1])
            whole = np.broadcast_to(
                found.data, np.broadcast_shapes(found.data.shape, (len(flat), *outer))
            )
            data, bound = rounding_bounds.reduce(op, lane, whole, found.bound)
            while count > piece and len(self._known) > mark:
                self._known.popitem()
            if total is not None:
                both = [np.stack(np.broadcast_arrays(total.data, data)), None]
                bounds = [b for b in (total.bound, bound) if b is not None]
                joined = None if not bounds else np.stack(
                    [np.broadcast_to(0.0 if b is None else b, data.shape)
                     for b in (total.bound, bound)]
                )  # fmt: skip
                data, bound = rounding_bounds.reduce(op, lane, np.asarray(both[0]), joined)
            total = Bounded(data, bound)
        if total is None:
            assert start is not None, "a reduction of nothing has a value"
            empty = semantics.array_of(lane, lane.canonical(start))
            return Bounded(np.broadcast_to(empty, outer).astype(node.dtype.numpy))
        if op is ops.ADD and lane.is_float:
            return Bounded(total.data + np.zeros((), total.data.dtype), total.bound)
        return total

    _HANDLERS: Final = {
        ops.CONST: _constant,
        ops.VARIABLE: _variable,
        ops.BIND: _second,
        ops.RANGE: _range,
        ops.IOTA: _position,
        ops.INVALID: _nowhere,
        ops.INDEX: _index,
        ops.CAST: _cast,
        ops.BITCAST: _cast,
        ops.CONTIGUOUS: _same,
        ops.COPY: _same,
        ops.ASSIGN: _second,
        ops.BUFFERIZE: _kept,
        ops.RESHAPE: _reshape,
        ops.PERMUTE: _permute,
        ops.EXPAND: _expand,
        ops.PAD: _pad,
        ops.SHRINK: _shrink,
        ops.FLIP: _flip,
        ops.GATHER: _gather,
        ops.REDUCE_AXIS: _reduce_axes,
        ops.REDUCE: _reduce,
    }
