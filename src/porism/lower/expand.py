"""Expand: UPCAST and UNROLL ranges become vector lanes and unrolled copies.

    before                              after, for vectors of 4 lanes
    u < 8, UPCAST: y[u] = x[u] * a      y[0:4] = x[0:4] * (a, a, a, a); y[4:8] = x[4:8] * …

Of the ranges that a value depends on, one becomes the lanes of vectors: one of stride 1. The
others, and the multiple of a vector that an extent is, become copies of the nodes that depend on
them. A node is not copied for a range that it does not depend on: for a 6 x 32 register tile of a
matrix product with 16 lanes, 6 scalars and 2 vectors are loaded, and 12 products are computed.

An access of stride 1 from lane to lane is one vector access; one of stride 0 is a scalar, broadcast
to all lanes. A load of another small stride, or whose unrolled copies are contiguous, is made of
vector loads (`shuffles`); any other has an index for each lane. A reduction combines the copies in
the loop, and the lanes after the loop.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from porism.base.dtypes import Kind, index
from porism.base.errors import LevelError
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.axis import EXPANDED_AXES
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.lower.interleaved_stores import interleave, interleaved_accesses
from porism.lower.lane_prefixes import Prefixes, last_lane, prefix_reduce, prefix_reductions
from porism.lower.lane_ranges import (
    MAX_LANE_STRIDE,
    MIN_TILE_COLUMNS,
    lane_ranges,
    scope_of,
    split_masks,
)
from porism.lower.shuffles import (
    Windows,
    broadcast,
    expression_at,
    is_arithmetic,
    iteration_vector,
    transpose,
    vectorize_node,
)
from porism.rules.addresses.strides import stride

Iteration = tuple[int, ...]
"""Which copy of a node: the number of each of the ranges that the node is copied for."""


def expand(kernel: UOp, max_lanes: int, *, is_simd: bool = True) -> UOp:
    """Return the kernel without UPCAST and UNROLL ranges; vectors have at most `max_lanes`.

    `is_simd` says whether arithmetic on vectors is faster than on scalars, and not accesses alone.
    """
    order = toposort(kernel)
    expanded = [r for r in order if r.op is ops.RANGE and r.arg[1] in EXPANDED_AXES]
    if not expanded:
        return kernel
    return _Expander(order, expanded, max_lanes, is_simd=is_simd).run(kernel)


_SPECIAL: Final = frozenset({ops.INDEX, ops.REDUCE, ops.END})
"""Ops with a rule of their own; a copy of another op is the op on copies of its sources."""


class _Layout(NamedTuple):
    """The indices of an access without masks, and how they change from lane to lane."""

    width: int
    """The number of lanes."""
    indices: list[UOp]
    conditions: list[UOp]
    contiguous: bool
    """Whether the stride from lane to lane is 1."""
    varies: bool
    """Whether the stride from lane to lane is not 0."""


class _Expander:
    """The state of one expansion: the lanes, and the copies of each node that were made."""

    def __init__(
        self, order: Sequence[UOp], expanded: Sequence[UOp], max_lanes: int, *, is_simd: bool
    ) -> None:
        self.prefixes = prefix_reductions(order)
        if self.prefixes:
            order = toposort(*(p.value for p in self.prefixes.values()), order[-1])
        self.order = order
        self.expanded = set(expanded)
        interleaved = interleaved_accesses(order, expanded)
        self.lanes = lane_ranges(order, expanded, max_lanes, interleaved, is_simd=is_simd)
        self.parts = {
            access: part
            for access, (lane, part) in interleaved.items()
            if self.lanes.get(lane) == int(lane.vmax) + 1
        }
        """For each access of an interleaved store the range of its parts."""
        self.store_targets = {n.src[0] for n in order if n.op is ops.STORE}
        self.copies: dict[UOp, dict[Iteration, UOp]] = {}
        self.copied_for: dict[UOp, tuple[UOp, ...]] = {}
        """The ranges that a node is copied for."""
        self.tiles: dict[tuple[UOp, tuple[tuple[UOp, int], ...]], list[UOp]] = {}
        """The columns of tiles that were loaded and transposed."""
        self.prefix_vectors: dict[tuple[ops.Op, UOp, tuple[tuple[UOp, int], ...]], list[UOp]] = {}
        """Prefix reductions that were computed, one vector for each copy."""
        self.layouts: dict[UOp, _Layout] = {}
        self.lane_nodes: dict[UOp, list[UOp]] = {}
        """The nodes of an index that depend on a lane range, in topological order."""

    def run(self, kernel: UOp) -> UOp:
        """Return the expanded kernel."""
        expanded, copies = self.expanded, self.copies
        if settings.check:
            self._check_lanes()
        for node in self.order:
            copied_for = tuple([r for r in node.ranges if r in expanded]) if node.ranges else ()
            self.copied_for[node] = copied_for
            is_interleaved = node.op is ops.STORE and node.src[0] in self.parts
            if node in expanded or node.op in _SPECIAL or is_interleaved:
                copies[node] = {
                    iteration: self._copy(node, dict(zip(copied_for, iteration, strict=True)))
                    for iteration in self._iterations(copied_for)
                }
            else:
                copies[node] = self._copies_of(node, copied_for)
        return copies[kernel][()]

    def _check_lanes(self) -> None:
        """Raise where lanes of two ranges are in one vector: a vector does not say which it has."""
        for node in self.order:
            lanes = [show(r) for r in scope_of(node) if r in self.lanes]
            if len(lanes) > 1:
                raise LevelError(
                    f"stage 'expand' has a {node.op.name} with lanes of {' and '.join(lanes)}",
                    where=show(node, limit=300),
                    why="the lanes of a vector are the iterations of one range",
                )

    def _copies_of(self, node: UOp, copied_for: tuple[UOp, ...]) -> dict[Iteration, UOp]:
        """Return the copies of a node that needs no rule of its own."""
        width = self._lane_count(node)
        if not copied_for:
            src = tuple([self.copies[s][()] for s in node.src])
            return {(): self._rebuild(node, src, width)}
        numbers = {r: k for k, r in enumerate(copied_for)}
        sources = [(self.copies[s], [numbers[r] for r in self.copied_for[s]]) for s in node.src]
        return {
            iteration: self._rebuild(
                node,
                tuple([made[tuple([iteration[k] for k in own])] for made, own in sources]),
                width,
            )
            for iteration in self._iterations(copied_for)
        }

    def _rebuild(self, node: UOp, src: tuple[UOp, ...], width: int) -> UOp:
        """Return a node on copies of its sources, with `width` lanes."""
        if node.op is ops.STORE:
            if _is_masked_out(src[0]):
                return ops.NOOP()
            return ops.STORE(src[0], broadcast(src[1], src[0].dtype.count), arg=node.arg)
        if width == 1 or node.dtype.kind in (Kind.VOID, Kind.POINTER):
            return node.replace(src)
        assert node.op is not ops.BUFFERIZE, "a local buffer has scalar elements"
        return vectorize_node(node, src, width)

    # -- which copies there are --------------------------------------------------------------------

    def _iterations(self, loops: Iterable[UOp]) -> Iterator[Iteration]:
        return itertools.product(*(range(self._copy_count(r)) for r in loops))

    def _copy_count(self, loop: UOp) -> int:
        return (int(loop.vmax) + 1) // self.lanes.get(loop, 1)

    def _copy_at(self, node: UOp, values: dict[UOp, int]) -> UOp:
        """Return the copy of a node at these iterations of ranges."""
        return self.copies[node][tuple([values[r] for r in self.copied_for[node]])]

    def _lane_count(self, node: UOp) -> int:
        """Return the number of lanes of the copies of a node."""
        loop = self._lane_range(node)
        return 1 if loop is None else self.lanes[loop]

    def _lane_range(self, node: UOp) -> UOp | None:
        """Return the lane range of a node; `lane_ranges` leaves one at most."""
        return next((r for r in node.ranges if r in self.lanes), None)

    # -- one copy ----------------------------------------------------------------------------------

    def _copy(self, node: UOp, values: dict[UOp, int]) -> UOp:
        """Return one copy of a range, an INDEX, a REDUCE, an END or an interleaved STORE."""
        if node in self.expanded:
            return self._range_value(node, values[node])
        if node.op is ops.STORE:
            return self._interleaved_store(node, values)
        if node.op is ops.INDEX:
            access = self._access(node, values)
            if node not in self.store_targets and _is_masked_out(access):
                return UOp.const(access.dtype, 0)
            return access
        return self._reduce(node, values) if node.op is ops.REDUCE else self._end(node, values)

    def _range_value(self, node: UOp, number: int) -> UOp:
        width = self.lanes.get(node)
        if width is None:
            return UOp.const(node.dtype, number)
        first = number * width
        numbers = tuple(range(first, first + width))
        return UOp(ops.VCONST, node.dtype.vec(width), (), numbers)

    def _access(self, node: UOp, values: dict[UOp, int]) -> UOp:
        """Return a copy of an INDEX: one vector access where its lanes are contiguous."""
        layout = self._layout(node)
        buffer, width = self._copy_at(node.src[0], values), layout.width
        if width == 1:
            at = [self._copy_at(s, values) for s in node.src[1:]]
            return buffer.index(*at, dtype=node.dtype)
        indices, conditions, contiguous = layout.indices, layout.conditions, layout.contiguous
        if not contiguous and layout.varies:
            shuffled = self._shuffled_load(node, buffer, indices, conditions, values)
            if shuffled is not None:
                return shuffled
            at = [broadcast(self._copy_at(s, values), width) for s in node.src[1:]]
            return buffer.index(*at, dtype=node.dtype.vec(width))
        at = [self._first_lane(i, values) for i in indices]
        gate: UOp | None = None
        for condition in conditions:
            part = self._copy_at(condition, values)
            gate = part if gate is None else _conjunction(gate, part)
        gates = [] if gate is None else [gate]
        if contiguous:
            return buffer.index(*at, *gates, dtype=node.dtype.vec(width))
        if gate is None or gate.dtype.count == 1:
            return broadcast(buffer.index(*at, *gates, dtype=node.dtype), width)
        at = [broadcast(i, width) for i in at]
        return buffer.index(*at, gate, dtype=node.dtype.vec(width))

    def _layout(self, node: UOp) -> _Layout:
        """Return the layout of an access, which is the same in all copies."""
        layout = self.layouts.get(node)
        if layout is None:
            indices, conditions = split_masks(node.src[1:])
            loop = self._lane_range(node)
            strides = [] if loop is None else [stride(i, loop) for i in indices]
            contiguous = bool(strides) and strides[-1] == 1 and not any(strides[:-1])
            varies = any(s != 0 for s in strides)
            layout = _Layout(self._lane_count(node), indices, conditions, contiguous, varies)
            self.layouts[node] = layout
        return layout

    def _interleaved_store(self, node: UOp, values: dict[UOp, int]) -> UOp:
        """Return the store of all parts for the first one, and nothing for the others."""
        access, value = node.src
        part = self.parts[access]
        if values[part]:
            return ops.NOOP()
        copies = [self._copy_at(value, values | {part: k}) for k in range(self._copy_count(part))]
        width = self._lane_count(access)
        together = interleave([broadcast(copy, width) for copy in copies])
        at = self._first_lane(access.src[1], values)
        target = self._copy_at(access.src[0], values).index(
            at, dtype=access.dtype.vec(together.dtype.count)
        )
        return ops.STORE(target, together, arg=node.arg)

    # -- loads whose lanes are not contiguous ------------------------------------------------------

    def _shuffled_load(
        self,
        node: UOp,
        buffer: UOp,
        indices: Sequence[UOp],
        conditions: Sequence[UOp],
        values: dict[UOp, int],
    ) -> UOp | None:
        """Return a load made of vector loads and shuffles; None where scalar loads are better."""
        lane = self._lane_range(node)
        assert lane is not None
        if node in self.store_targets or len(indices) != 1:
            return None
        lane_stride = stride(indices[0], lane)
        if lane_stride is None or not all(is_arithmetic(c, lane) for c in conditions):
            return None
        column = self._contiguous_range(node, indices[0], conditions)
        if column is not None:
            return self._load_tile(node, indices[0], conditions, values, column)
        if lane_stride == -1 or 2 <= abs(lane_stride) <= MAX_LANE_STRIDE:
            return self._load_windows(node, buffer, indices[0], conditions, values, lane_stride)
        return None

    def _contiguous_range(self, node: UOp, address: UOp, conditions: Sequence[UOp]) -> UOp | None:
        """Return a range along which the copies of a load are contiguous, or None."""
        for loop in self.copied_for[node]:
            if loop in self.lanes or stride(address, loop) != 1:
                continue
            if math.gcd(self._copy_count(loop), self._lane_count(node)) < MIN_TILE_COLUMNS:
                continue
            if all(is_arithmetic(c, loop) for c in conditions):
                return loop
        return None

    def _load_windows(
        self,
        node: UOp,
        buffer: UOp,
        address: UOp,
        conditions: Sequence[UOp],
        values: dict[UOp, int],
        lane_stride: int,
    ) -> UOp:
        """Return a load of a constant lane stride, shuffled from consecutive vector loads."""
        lane, width = self._lane_range(node), self._lane_count(node)
        assert lane is not None
        windows = Windows(lane_stride, width)
        first = self._first_lane(address, values) + windows.lowest
        loads = []
        for start in windows.starts:
            lanes = windows.lanes_of(start)
            numbers = [values[lane] * width + (k or 0) for k in lanes]
            gate = self._gate(conditions, values, {lane: iteration_vector(lane, numbers)})
            if gate is not None and gate.dtype.count > 1:
                needed = UOp(ops.VCONST, gate.dtype, (), tuple(k is not None for k in lanes))
                gate = gate & needed
            gates = [] if gate is None else [gate]
            loads.append(buffer.index(first + start, *gates, dtype=node.dtype.vec(width)))
        return windows.shuffle(loads)

    def _load_tile(
        self,
        node: UOp,
        address: UOp,
        conditions: Sequence[UOp],
        values: dict[UOp, int],
        column: UOp,
    ) -> UOp:
        """Return a column of a tile, whose rows (one for each lane) are loaded and transposed."""
        lane, width = self._lane_range(node), self._lane_count(node)
        assert lane is not None
        columns = math.gcd(self._copy_count(column), width)
        first_column = values[column] // columns * columns
        key = (node, tuple((values | {column: first_column}).items()))
        if key not in self.tiles:
            buffer = self._filled_buffer(
                node.src[0], values, column, range(first_column, first_column + columns)
            )
            rows = []
            for number in range(values[lane] * width, (values[lane] + 1) * width):
                chosen = {
                    lane: UOp.const(index, number),
                    column: iteration_vector(column, range(first_column, first_column + columns)),
                }
                gate = self._gate(conditions, values, chosen)
                gates = [] if gate is None else [gate]
                starts = {lane: chosen[lane], column: UOp.const(index, first_column)}
                at = self._expression_at(address, values, starts)
                rows.append(buffer.index(at, *gates, dtype=node.dtype.vec(columns)))
            self.tiles[key] = transpose(rows)
        return self.tiles[key][values[column] - first_column]

    def _filled_buffer(
        self, memory: UOp, values: dict[UOp, int], loop: UOp, numbers: Iterable[int]
    ) -> UOp:
        """Return the buffer of a load that reads for several iterations of a range.

        A local buffer that is filled inside of the range is read AFTER the stores of all of these
        iterations.
        """
        copies = dict.fromkeys(self._copy_at(memory, values | {loop: k}) for k in numbers)
        base, *others = copies
        if not others:
            return base
        effects: dict[UOp, None] = {}
        for copy in copies:
            base = copy
            while base.op is ops.AFTER:
                effects |= dict.fromkeys(base.src[1:])
                base = base.src[0]
        return base.after(*effects)

    def _gate(
        self, conditions: Sequence[UOp], values: dict[UOp, int], chosen: dict[UOp, UOp]
    ) -> UOp | None:
        """Return the conjunction of conditions, with chosen values in the place of ranges."""
        gate: UOp | None = None
        for condition in conditions:
            part = self._expression_at(condition, values, chosen)
            gate = part if gate is None else _conjunction(gate, part)
        return gate

    def _expression_at(
        self, expression: UOp, values: dict[UOp, int], chosen: dict[UOp, UOp]
    ) -> UOp:
        """Return an expression with chosen values of some ranges, and those of this copy."""
        if not any(r in chosen for r in expression.ranges):
            return self._copy_at(expression, values)
        return expression_at(expression, chosen, lambda node: self._copy_at(node, values))

    def _first_lane(self, expression: UOp, values: dict[UOp, int]) -> UOp:
        """Return the index of the first lane."""
        order = self.lane_nodes.get(expression)
        if order is None:
            lanes = self.lanes.keys()
            order = toposort(expression, within=lambda n: not lanes.isdisjoint(n.ranges))
            self.lane_nodes[expression] = order
        if not order:
            return self._copy_at(expression, values)
        new: dict[UOp, UOp] = {}
        for node in order:
            if node in self.lanes:
                new[node] = UOp.const(index, values[node] * self.lanes[node])
            else:
                src = [new[s] if s in new else self._copy_at(s, values) for s in node.src]
                new[node] = node.replace(tuple(src))
        return new[expression]

    def _reduce(self, node: UOp, values: dict[UOp, int]) -> UOp:
        """Return a reduction of the copies, over the remaining loops, and then of the lanes."""
        op, (value, *ranges) = node.arg, node.src
        prefixes = self.prefixes.get(node)
        if prefixes is not None and prefixes.lane in self.lanes:
            parts = self._prefix_vectors(op, prefixes, values)
            if prefixes.lane not in self.copied_for[node]:
                return last_lane(parts[-1])
            return parts[values[prefixes.lane]]
        inner = [r for r in ranges if r in self.expanded]
        loops = [self._copy_at(r, values) for r in ranges if r not in self.expanded]
        parts = [
            self._copy_at(value, values | dict(zip(inner, iteration, strict=True)))
            for iteration in self._iterations(inner)
        ]
        folded = next((r for r in inner if r in self.lanes), None)
        if folded is None:
            whole = _reduce_in_order(op, parts)
        else:  # a value that does not depend on the range is still reduced once per iteration
            whole = _reduce_as_tree(op, [broadcast(part, self.lanes[folded]) for part in parts])
        whole = whole.reduce(op, *loops) if loops else whole
        if folded is not None:
            while whole.dtype.count > 1:
                half = whole.dtype.count // 2
                low, high = tuple(range(half)), tuple(range(half, 2 * half))
                whole = op(whole.gep(*low), whole.gep(*high))
        return whole

    def _prefix_vectors(self, op: ops.Op, prefixes: Prefixes, values: dict[UOp, int]) -> list[UOp]:
        """Return the prefix reductions of all copies along a range."""
        others = {r: values[r] for r in self.copied_for[prefixes.value] if r is not prefixes.lane}
        key = op, prefixes.value, tuple(others.items())
        if key not in self.prefix_vectors:
            copies = range(self._copy_count(prefixes.lane))
            vectors = [self._copy_at(prefixes.value, {**others, prefixes.lane: k}) for k in copies]
            width = self.lanes[prefixes.lane]
            self.prefix_vectors[key] = prefix_reduce(
                op, [broadcast(vector, width) for vector in vectors]
            )
        return self.prefix_vectors[key]

    def _end(self, node: UOp, values: dict[UOp, int]) -> UOp:
        """Return a copy of an END, of the effects of all its expanded iterations."""
        effect, *ranges = node.src
        inner = [r for r in ranges if r in self.expanded]
        loops = [self._copy_at(r, values) for r in ranges if r not in self.expanded]
        parts = [
            self._copy_at(effect, values | dict(zip(inner, iteration, strict=True)))
            for iteration in self._iterations(inner)
        ]
        whole = parts[0] if len(parts) == 1 else ops.GROUP(*parts)
        return whole.end(*loops) if loops else whole


def _is_masked_out(access: UOp) -> bool:
    """Return whether an access is masked out: a copy of an iteration beyond the end."""
    return access.op is ops.INDEX and any(s.op is ops.INVALID for s in access.src[1:])


def _conjunction(a: UOp, b: UOp) -> UOp:
    width = max(a.dtype.count, b.dtype.count)
    return broadcast(a, width) & broadcast(b, width)


def _reduce_in_order(op: ops.Op, parts: list[UOp]) -> UOp:
    """Reduce in the order of the loop, so that each product is added by one fused instruction."""
    whole = parts[0]
    for part in parts[1:]:
        whole = op(whole, part)
    return whole


def _reduce_as_tree(op: ops.Op, parts: list[UOp]) -> UOp:
    """Reduce as a tree, which shortens the chain of dependent operations."""
    while len(parts) > 1:
        pairs = [op(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, *parts[len(pairs) * 2 :]]
    return parts[0]
