"""Element values: the values of some elements of a graph, at its real sizes.

A tensor graph, a graph in ranges and the kernel that is cut out of it are all functions from the
index of an element to its value. The evaluator computes the value from that definition, for some
elements at once and without the others: a movement op changes the index, a reduction adds an axis.
So stages can be compared at the sizes that a program has. Where most elements of a tensor are
requested, the whole tensor is computed, once.

    ElementEvaluator(memory, variables).value(node, indices)

No code is shared with `schedule`, which this evaluator checks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
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
    array_key,
    reshape_indices,
    with_unknown,
)
from porism.verification.values.rounding_bounds import Bound, Bounded
from porism.verification.values.synthetic_inputs import TooLarge

REDUCTION_CHUNK: Final = 1 << 20
"""Elements that a reduction processes at a time; chosen by hand."""

MAX_COMPUTED: Final = 1 << 27
"""Elements that an evaluator computes before it raises TooLarge: some seconds; chosen by hand."""

STEP_COST: Final = 1 << 8
"""Elements that count for an op however few it has: what a call of NumPy takes; chosen by hand."""

MAX_WHOLE_RATIO: Final = 4
"""A tensor with at most so many elements per requested one is computed whole, also if they are
requested a few at a time: each may be requested in many ways. Chosen by hand."""

_DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD})

_Request = tuple[UOp, Indices, Mapping[UOp, Array]]
"""A node, the indices of the requested elements, and the values of the open ranges."""

_Steps = Generator[_Request, Bounded, Bounded]
"""A coroutine that yields requests, is sent their values, and returns the value of a node."""


class ElementEvaluator:
    """Computes elements of graphs from the contents of their buffers."""

    def __init__(self, memory: Mapping[UOp, Array], variables: Mapping[str, int]) -> None:
        self.memory = memory
        """The elements in row-major order of each PARAM and of other given nodes."""
        self.variables = variables
        self.remaining = MAX_COMPUTED
        """Elements that may still be computed."""
        self._cache: dict[Any, tuple[Bounded, _Request]] = {}
        self._grids: dict[tuple[int, ...], Indices] = {}
        self._requested: Counter[UOp] = Counter()
        """How many elements of each tensor were requested so far."""

    def value(
        self, node: UOp, indices: Indices = (), ranges: Mapping[UOp, Array] | None = None
    ) -> Bounded:
        """Return the elements of a node at some indices, for some values of its open ranges.

        The node itself is computed even if its value is given in `memory`.
        """
        with np.errstate(all="ignore"):
            return self._run((node, indices, ranges or {}))

    def dims(self, node: UOp) -> tuple[int, ...]:
        """Return the shape of a node for these values of the variables."""
        return tuple(self.number(dim) for dim in shape(node))

    def number(self, node: UOp) -> int:
        """Return the value of a scalar, such as a dimension, for these values of the variables."""
        return int(node.arg) if node.op is ops.CONST else int(self.value(node).data)

    # -- evaluation without recursion --------------------------------------------------------------

    def _run(self, first: _Request) -> Bounded:
        """Return the value of a request; with a stack of coroutines, since graphs are deep."""
        stack: list[tuple[Any, _Steps, _Request]] = [(None, self._steps(first, root=True), first)]
        answer: Bounded | None = None
        while stack:
            key, steps, own_request = stack[-1]
            try:
                request = steps.send(answer)  # type: ignore[arg-type]  # None at the beginning
            except StopIteration as end:
                stack.pop()
                answer = end.value
                assert answer is not None
                self._spend(answer.data.size)
                if key is not None:
                    # The request keeps its arrays alive, so that their ids stay unique.
                    self._cache[key] = answer, own_request
                continue
            new = self._cache_key(request)
            known = self._cache.get(new)
            if known is None:
                stack.append((new, self._steps(request), request))
                answer = None
            else:
                answer = known[0]
        assert answer is not None
        return answer

    def _cache_key(self, request: _Request) -> Any:
        """Return the cache key of a request."""
        node, indices, ranges = request
        own = tuple([array_key(ranges[r]) for r in node.ranges if r in ranges])
        return node, tuple(map(array_key, indices)), own

    def _spend(self, size: int) -> None:
        """Subtract computed elements from those that remain; raise TooLarge below zero."""
        self.remaining -= max(size, STEP_COST)
        if self.remaining < 0 or size > MAX_COMPUTED >> 2:
            raise TooLarge

    def _steps(self, request: _Request, *, root: bool = False) -> _Steps:
        """Return the coroutine that computes a request; the root is computed even if given."""
        node, indices, ranges = request
        op = node.op
        if not root and (node in self.memory or op in (ops.PARAM, ops.BUFFER)):
            return self._given_elements(node, indices)
        if (
            indices
            and not root
            and op.group is not ops.MOVEMENT
            and op is not ops.IOTA
            and not any(r in ranges for r in node.ranges)
        ):
            dims = self.dims(node)
            self._requested[node] += math.prod(np.broadcast_shapes(*(p.shape for p in indices)))
            if (
                indices is not self._grids.get(dims)
                and math.prod(dims) <= MAX_WHOLE_RATIO * self._requested[node]
            ):
                return self._select_from_whole(node, dims, indices)
        if op.elementwise:
            return self._elementwise(node, indices, ranges)
        return self._HANDLERS[op](self, node, indices, ranges)

    def _select_from_whole(self, node: UOp, dims: tuple[int, ...], indices: Indices) -> _Steps:
        """Request the whole tensor, and return the elements at the indices."""
        grid = self._grids.get(dims)
        if grid is None:
            grid = tuple(np.ogrid[tuple(slice(n) for n in dims)])
            self._grids[dims] = grid
        whole = yield node, grid, {}

        def chosen(array: Array) -> Array:
            return np.asarray(np.broadcast_to(array, dims)[indices])

        bound = None if whole.bound is None else chosen(whole.bound)
        return Bounded(chosen(whole.data), bound)

    # -- leaves and memory -------------------------------------------------------------------------

    def _constant(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Return the constant."""
        return Bounded(np.asarray(semantics.array_of(node.dtype, node.arg)))
        yield

    def _variable(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Return the value of the variable in this run."""
        return Bounded(np.asarray(self.variables[node.arg[0]], np.int64))
        yield

    def _range(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Return the requested iterations of the range."""
        return Bounded(ranges[node])
        yield

    def _iota(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Return the index along the axis of the IOTA."""
        return Bounded(indices[node.arg])
        yield

    def _invalid(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Return an index that is missing."""
        return Bounded(np.asarray(0), None, np.asarray(True))
        yield

    def _given_elements(self, node: UOp, indices: Indices) -> _Steps:
        """Return elements of a tensor whose value is given in `memory`."""
        flat: Array = np.asarray(0)
        for index, size in zip(indices, self.dims(node), strict=True):
            flat = flat * size + index
        return Bounded(self._load(node, flat))
        yield

    def _load(self, buffer: UOp, flat: Array) -> Array:
        """Return elements of a buffer at flat indices, which are clamped to its bounds."""
        data = self.memory[buffer]
        if not data.size:
            return np.zeros(flat.shape, data.dtype)
        return np.asarray(data[np.clip(flat, 0, data.size - 1)])

    def _index(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Return elements of a buffer or a BUFFERIZE; 0 where the gate or the index masks them."""
        base, *at = node.src
        gate: Bounded | None = None
        if at and at[-1].dtype.kind is Kind.BOOL:
            gate = yield at.pop(), (), ranges
        index_values: list[Bounded] = []
        for index in at:
            index_values.append((yield index, (), ranges))
        missing_parts = [i.missing for i in index_values if i.missing is not None]
        if gate is not None:
            missing_parts.append(~gate.data)
        missing = None if not missing_parts else any_of(missing_parts)
        numbers = tuple(addressable(i.data, missing) for i in index_values)
        if base.dtype.kind is Kind.POINTER:
            elements = Bounded(self._load(base, numbers[0]))
        else:
            elements = yield base, numbers, ranges
        bound = with_unknown(elements.bound, [i.bound for i in index_values])
        if missing is None:
            return Bounded(elements.data, bound)
        bound = None if bound is None else np.where(missing, 0.0, bound)
        return Bounded(np.where(missing, np.zeros_like(elements.data), elements.data), bound)

    # -- arithmetic --------------------------------------------------------------------------------

    def _elementwise(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Return the op applied to the elements of its sources at the same indices."""
        values: list[Bounded] = []
        for source in node.src:
            values.append((yield source, indices if indices and shape(source) else (), ranges))
        data = [v.data for v in values]
        lane = node.src[-1].dtype.element
        if node.op is ops.WHERE:
            return self._where(node, values)
        missing_parts = [v.missing for v in values if v.missing is not None]
        if lane.kind is Kind.INDEX and node.op in _DIVISIONS:
            data[1] = np.where(data[1] == 0, 1, data[1])
        result = meaning(node.op, lane, *data)
        bounds = [v.bound for v in values]
        result_type = node.dtype.element
        if result_type.is_float or any(b is not None for b in bounds):
            bound = rounding_bounds.of_op(node.op, lane, data, bounds, result, result_type)
        else:
            bound = None
        return Bounded(result, bound, any_of(missing_parts) if missing_parts else None)

    def _where(self, node: UOp, values: Sequence[Bounded]) -> Bounded:
        """Return a WHERE; an element is missing if the selected operand is missing there."""
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

    def _cast(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Return the elements of the source converted; the bits are the same for a BITCAST."""
        value = yield node.src[0], indices, ranges
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

    def _bufferize(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Return a materialized value: the indices are iterations of the ranges that it closes."""
        own_ranges = {
            r: index for r, index in zip(node.src[1:], indices, strict=True) if r.op is ops.RANGE
        }
        return (yield node.src[0], (), {**ranges, **own_ranges})

    def _first_source(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Return the elements of the first source at the same indices."""
        return (yield node.src[0], indices, ranges)

    def _second_source(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Return the elements of the second source at the same indices."""
        return (yield node.src[1], indices, ranges)

    # -- movement ----------------------------------------------------------------------------------

    def _reshape(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Convert the indices to those of the source."""
        source_indices = reshape_indices(indices, self.dims(node), self.dims(node.src[0]))
        return (yield node.src[0], source_indices, ranges)

    def _permute(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Move the index of each axis to the axis that it comes from."""
        source_indices = [np.asarray(0)] * len(indices)
        for index, axis in zip(indices, node.arg, strict=True):
            source_indices[axis] = index
        return (yield node.src[0], tuple(source_indices), ranges)

    def _expand(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Index axes of size 1 by 0."""
        sizes = self.dims(node.src[0])
        source_indices = [
            ZERO if n == 1 else index for index, n in zip(indices, sizes, strict=True)
        ]
        return (yield node.src[0], tuple(source_indices), ranges)

    def _pad(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Subtract the padding from the indices; elements in the padding are 0."""
        outside: list[Array] = []
        source_indices: list[Array] = []
        befores = node.src[1::2]
        for index, before, size in zip(indices, befores, self.dims(node.src[0]), strict=True):
            inner = index - self.number(before) if self.number(before) else index
            beyond = (inner < 0) | (inner >= size)
            if beyond.any():
                outside.append(beyond)
                inner = np.clip(inner, 0, max(size - 1, 0))
            source_indices.append(inner)
        if 0 in self.dims(node.src[0]):
            return Bounded(np.zeros(np.broadcast_shapes(*(p.shape for p in indices)),
                                  node.dtype.numpy))  # fmt: skip
        elements = yield node.src[0], tuple(source_indices), ranges
        if not outside:
            return elements
        in_padding = any_of(outside)
        bound = None if elements.bound is None else np.where(in_padding, 0.0, elements.bound)
        return Bounded(np.where(in_padding, np.zeros_like(elements.data), elements.data), bound)

    def _shrink(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Add the begin of each axis to its indices."""
        begins = [self.number(begin) for begin in node.src[1::2]]
        source_indices = [
            index + begin if begin else index for index, begin in zip(indices, begins, strict=True)
        ]
        return (yield node.src[0], tuple(source_indices), ranges)

    def _flip(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Reverse the indices of flipped axes."""
        sizes = self.dims(node)
        source_indices = [
            sizes[k] - 1 - index if k in node.arg else index for k, index in enumerate(indices)
        ]
        return (yield node.src[0], tuple(source_indices), ranges)

    def _gather(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Read at indices that are values themselves; elements out of bounds are 0."""
        index_values: list[Bounded] = []
        for source in node.src[1:]:
            index_values.append((yield source, indices, ranges))
        sizes = self.dims(node.src[0])
        outside = any_of(
            [(i.data < 0) | (i.data >= n) for i, n in zip(index_values, sizes, strict=True)]
            + [i.missing for i in index_values if i.missing is not None]
        )
        if 0 in sizes:
            return Bounded(np.zeros(outside.shape, node.dtype.numpy))
        source_indices = tuple(addressable(i.data, outside) for i in index_values)
        elements = yield node.src[0], source_indices, ranges
        bound = with_unknown(elements.bound, [i.bound for i in index_values])
        return Bounded(np.where(outside, np.zeros_like(elements.data), elements.data), bound)

    # -- reductions --------------------------------------------------------------------------------

    def _reduce_axes(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Reduce axes of a tensor."""
        op, axes = node.arg
        sizes = self.dims(node.src[0])

        def ask(numbers: Sequence[Array]) -> _Request:
            source_indices = list(indices)
            for axis, number in zip(axes, numbers, strict=True):
                source_indices[axis] = number
            return node.src[0], tuple(source_indices), ranges

        return (
            yield from self._reduce_in_chunks(
                node, op, [sizes[a] for a in axes], indices, ranges, ask
            )
        )

    def _reduce(self, node: UOp, indices: Indices, ranges: Mapping[UOp, Array]) -> _Steps:
        """Reduce the iterations of ranges."""
        own = [s for s in node.src[1:] if s.op is ops.RANGE]
        sizes: list[int] = []
        for r in own:
            size = yield r.src[0], (), ranges
            if size.data.size != 1:
                raise TooLarge  # a loop whose extent depends on others
            sizes.append(int(size.data.reshape(-1)[0]))

        def ask(numbers: Sequence[Array]) -> _Request:
            return node.src[0], (), {**ranges, **dict(zip(own, numbers, strict=True))}

        return (yield from self._reduce_in_chunks(node, node.arg, sizes, (), ranges, ask))

    def _reduce_in_chunks(
        self,
        node: UOp,
        op: Any,
        sizes: Sequence[int],
        indices: Indices,
        ranges: Mapping[UOp, Array],
        ask: Any,
    ) -> _Steps:
        """Reduce axes of the given sizes, at most REDUCTION_CHUNK terms at a time.

        `ask` makes a request from the indices along these axes, which come before all others.
        """
        around = [p.shape for p in indices] + [ranges[r].shape for r in node.ranges if r in ranges]
        outer = np.broadcast_shapes(*around)
        count = math.prod(sizes)
        piece = max(REDUCTION_CHUNK // max(math.prod(outer), 1), 1)
        lane = node.dtype.element
        start = identity(op, lane)
        total: Bounded | None = None
        for begin in range(0, count, piece):
            flat = np.arange(begin, min(begin + piece, count)).reshape(-1, *([1] * len(outer)))
            numbers: list[Array] = []
            for size in reversed(sizes):
                numbers.append(flat % size)
                flat = flat // size
            mark = len(self._cache)
            terms = yield ask(numbers[::-1])
            broadcast_terms = np.broadcast_to(
                terms.data, np.broadcast_shapes(terms.data.shape, (len(flat), *outer))
            )
            data, bound = rounding_bounds.reduce(op, lane, broadcast_terms, terms.bound)
            while count > piece and len(self._cache) > mark:
                self._cache.popitem()
            chunk = Bounded(data, bound)
            total = chunk if total is None else rounding_bounds.combine(op, lane, total, chunk)
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
        ops.BIND: _second_source,
        ops.RANGE: _range,
        ops.IOTA: _iota,
        ops.INVALID: _invalid,
        ops.INDEX: _index,
        ops.CAST: _cast,
        ops.BITCAST: _cast,
        ops.CONTIGUOUS: _first_source,
        ops.COPY: _first_source,
        ops.ASSIGN: _second_source,
        ops.BUFFERIZE: _bufferize,
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
