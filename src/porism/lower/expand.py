"""Expand: iterations of UPCAST and UNROLL ranges side by side, as lanes and as copies.

Of the ranges that a value depends on one becomes the lanes of vectors: the one along which memory
is walked element by element. The others, and what is left of that one where it is longer than a
vector, become copies of the nodes that depend on them. Nothing is copied for a range that it does
not depend on: of a tile of 6 x 32 elements of a matrix product, 6 scalars and 2 vectors are loaded,
and 12 vectors of products are made.

An access whose index grows by one from lane to lane is one wide access; one whose index does not
change is a scalar, repeated in all lanes. A load whose index grows by a little more, or whose other
copies are its neighbours in memory, is made of wide loads (`shuffles`); any other has an index for
each lane. A reduction adds up the copies, and then the lanes, after the loop.
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
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.lower.lane_prefixes import Prefixes, last_lane, prefixes_in, running
from porism.lower.lane_ranges import lane_ranges, scope_of, without_masks
from porism.lower.shuffles import (
    Windows,
    at_values,
    in_lanes,
    is_arithmetic,
    numbered,
    transposed,
)
from porism.lower.shuffles import wide as _wide
from porism.rules.addresses.strides import stride

SIDE_BY_SIDE: Final = frozenset({Axis.UPCAST, Axis.UNROLL})

FARTHEST: Final = 4
"""Elements from lane to lane, up to which wide loads are better than a load for each lane."""

NARROWEST: Final = 4
"""Neighbours, from which on a tile is loaded row by row and transposed."""

Where = tuple[int, ...]
"""A copy: the value of each of the ranges that a node is copied for."""


def expand(kernel: UOp, widest: int) -> UOp:
    """A kernel without UPCAST and UNROLL ranges; vectors have at most `widest` lanes."""
    order = toposort(kernel)
    spread = [r for r in order if r.op is ops.RANGE and r.arg[1] in SIDE_BY_SIDE]
    if not spread:
        return kernel
    return _Expand(order, spread, widest).run(kernel)


_NOT_PLAIN: Final = frozenset({ops.INDEX, ops.REDUCE, ops.END})
"""Ops whose copies are not only made of the copies of their sources."""


class _Layout(NamedTuple):
    """How an access goes through memory from lane to lane."""

    width: int
    places: list[UOp]
    conditions: list[UOp]
    wide: bool
    """Whether its lanes are neighbours."""
    moves: bool
    """Whether not all lanes are at one place."""


class _Expand:
    def __init__(self, order: Sequence[UOp], spread: Sequence[UOp], widest: int) -> None:
        self.prefixes = prefixes_in(order)
        if self.prefixes:
            order = toposort(*(p.value for p in self.prefixes.values()), order[-1])
        self.order = order
        self.spread = set(spread)
        self.lanes = lane_ranges(order, spread, widest)
        self.places = {n.src[0] for n in order if n.op is ops.STORE}
        self.copies: dict[UOp, dict[Where, UOp]] = {}
        self.around: dict[UOp, tuple[UOp, ...]] = {}
        """The ranges that a node is copied for."""
        self.tiles: dict[tuple[UOp, tuple[tuple[UOp, int], ...]], list[UOp]] = {}
        """The columns of tiles that were loaded."""
        self.running: dict[tuple[ops.Op, UOp, tuple[tuple[UOp, int], ...]], list[UOp]] = {}
        """Prefixes that were put together."""
        self.layouts: dict[UOp, _Layout] = {}
        self.with_lanes: dict[UOp, list[UOp]] = {}
        """The parts of an index that are not the same in all lanes, in order."""

    def run(self, kernel: UOp) -> UOp:
        spread, copies = self.spread, self.copies
        if settings.check:
            self._check_lanes()
        for node in self.order:
            around = tuple([r for r in node.ranges if r in spread]) if node.ranges else ()
            self.around[node] = around
            if node in spread or node.op in _NOT_PLAIN:
                copies[node] = {
                    where: self._copy(node, dict(zip(around, where, strict=True)))
                    for where in self._iterations(around)
                }
            else:
                copies[node] = self._plain(node, around)
        return copies[kernel][()]

    def _check_lanes(self) -> None:
        """Refuse lanes of two ranges in one vector: a vector does not say which of them it has."""
        for node in self.order:
            lanes = [show(r) for r in scope_of(node) if r in self.lanes]
            if len(lanes) > 1:
                raise LevelError(
                    f"stage 'expand' has a {node.op.name} with lanes of {' and '.join(lanes)}",
                    where=show(node, limit=300),
                    why="the lanes of a vector are the iterations of one range",
                )

    def _plain(self, node: UOp, around: tuple[UOp, ...]) -> dict[Where, UOp]:
        """The copies of a node that is made of the copies of its sources."""
        width = self._width(node)
        if not around:
            src = tuple([self.copies[s][()] for s in node.src])
            return {(): self._on(node, src, width)}
        numbers = {r: place for place, r in enumerate(around)}
        sources = [(self.copies[s], [numbers[r] for r in self.around[s]]) for s in node.src]
        return {
            where: self._on(
                node,
                tuple([found[tuple([where[k] for k in places])] for found, places in sources]),
                width,
            )
            for where in self._iterations(around)
        }

    def _on(self, node: UOp, src: tuple[UOp, ...], width: int) -> UOp:
        """A node on copies of its sources, in as many lanes."""
        if node.op is ops.STORE:
            if _is_nowhere(src[0]):
                return ops.NOOP()
            return ops.STORE(src[0], _wide(src[1], src[0].dtype.count), arg=node.arg)
        if width == 1 or node.dtype.kind in (Kind.VOID, Kind.POINTER):
            return node.replace(src)
        assert node.op is not ops.BUFFERIZE, "what is kept in a loop has scalar elements"
        return in_lanes(node, src, width)

    # -- which copies there are --------------------------------------------------------------------

    def _iterations(self, counters: Iterable[UOp]) -> Iterator[Where]:
        return itertools.product(*(range(self._count(r)) for r in counters))

    def _count(self, counter: UOp) -> int:
        return (int(counter.vmax) + 1) // self.lanes.get(counter, 1)

    def _at(self, node: UOp, values: dict[UOp, int]) -> UOp:
        """The copy of a node for these values of ranges."""
        return self.copies[node][tuple([values[r] for r in self.around[node]])]

    def _width(self, node: UOp) -> int:
        """The lanes of what a node becomes."""
        counter = self._lane(node)
        return 1 if counter is None else self.lanes[counter]

    def _lane(self, node: UOp) -> UOp | None:
        """The range whose iterations are the lanes of a node: `lane_ranges` leaves one at most."""
        return next((r for r in node.ranges if r in self.lanes), None)

    # -- one copy ----------------------------------------------------------------------------------

    def _copy(self, node: UOp, values: dict[UOp, int]) -> UOp:
        if node in self.spread:
            return self._counter(node, values[node])
        if node.op is ops.INDEX:
            access = self._access(node, values)
            if node not in self.places and _is_nowhere(access):
                return UOp.const(access.dtype, 0)
            return access
        return self._reduce(node, values) if node.op is ops.REDUCE else self._end(node, values)

    def _counter(self, node: UOp, number: int) -> UOp:
        width = self.lanes.get(node)
        if width is None:
            return UOp.const(node.dtype, number)
        first = number * width
        numbers = tuple(range(first, first + width))
        return UOp(ops.VCONST, node.dtype.vec(width), (), numbers)

    def _access(self, node: UOp, values: dict[UOp, int]) -> UOp:
        """INDEX: of a vector, one wide access where its elements are neighbours."""
        layout = self._layout(node)
        buffer, width = self._at(node.src[0], values), layout.width
        if width == 1:
            at = [self._at(s, values) for s in node.src[1:]]
            return buffer.index(*at, dtype=node.dtype)
        places, conditions, wide = layout.places, layout.conditions, layout.wide
        if not wide and layout.moves:
            shuffled = self._shuffled(node, buffer, places, conditions, values)
            if shuffled is not None:
                return shuffled
            at = [_wide(self._at(s, values), width) for s in node.src[1:]]
            return buffer.index(*at, dtype=node.dtype.vec(width))
        at = [self._first_lane(place, values) for place in places]
        gate: UOp | None = None
        for condition in conditions:
            part = self._at(condition, values)
            gate = part if gate is None else _both(gate, part)
        gates = [] if gate is None else [gate]
        if wide:
            return buffer.index(*at, *gates, dtype=node.dtype.vec(width))
        if gate is None or gate.dtype.count == 1:
            return _wide(buffer.index(*at, *gates, dtype=node.dtype), width)
        at = [_wide(i, width) for i in at]
        return buffer.index(*at, gate, dtype=node.dtype.vec(width))

    def _layout(self, node: UOp) -> _Layout:
        """How an access goes through memory from lane to lane: the same in all copies."""
        found = self.layouts.get(node)
        if found is None:
            places, conditions = without_masks(node.src[1:])
            counter = self._lane(node)
            strides = [] if counter is None else [stride(place, counter) for place in places]
            wide = bool(strides) and strides[-1] == 1 and not any(strides[:-1])
            moves = any(s != 0 for s in strides)
            found = _Layout(self._width(node), places, conditions, wide, moves)
            self.layouts[node] = found
        return found

    # -- loads whose lanes are not neighbours ------------------------------------------------------

    def _shuffled(
        self,
        node: UOp,
        buffer: UOp,
        places: Sequence[UOp],
        conditions: Sequence[UOp],
        values: dict[UOp, int],
    ) -> UOp | None:
        """Such a load out of wide ones; None where it is better to load each lane."""
        lane = self._lane(node)
        assert lane is not None
        if node in self.places or len(places) != 1:
            return None
        step = stride(places[0], lane)
        if step is None or not all(is_arithmetic(c, lane) for c in conditions):
            return None
        column = self._column(node, places[0], conditions)
        if column is not None:
            return self._from_tile(node, places[0], conditions, values, column)
        if step == -1 or 2 <= abs(step) <= FARTHEST:
            return self._from_windows(node, buffer, places[0], conditions, values, step)
        return None

    def _column(self, node: UOp, place: UOp, conditions: Sequence[UOp]) -> UOp | None:
        """A range along which the copies of a load are neighbours."""
        for counter in self.around[node]:
            if counter in self.lanes or stride(place, counter) != 1:
                continue
            if math.gcd(self._count(counter), self._width(node)) < NARROWEST:
                continue
            if all(is_arithmetic(c, counter) for c in conditions):
                return counter
        return None

    def _from_windows(
        self,
        node: UOp,
        buffer: UOp,
        place: UOp,
        conditions: Sequence[UOp],
        values: dict[UOp, int],
        step: int,
    ) -> UOp:
        """Lanes with a distance, out of wide loads that follow each other."""
        lane, width = self._lane(node), self._width(node)
        assert lane is not None
        windows = Windows(step, width)
        first = self._first_lane(place, values) + windows.begin
        loads = []
        for start in windows.starts:
            lanes = windows.lanes_of(start)
            numbers = [values[lane] * width + (k or 0) for k in lanes]
            gate = self._gate(conditions, values, {lane: numbered(lane, numbers)})
            if gate is not None and gate.dtype.count > 1:
                needed = UOp(ops.VCONST, gate.dtype, (), tuple(k is not None for k in lanes))
                gate = gate & needed
            gates = [] if gate is None else [gate]
            loads.append(buffer.index(first + start, *gates, dtype=node.dtype.vec(width)))
        return windows.put_together(loads)

    def _from_tile(
        self,
        node: UOp,
        place: UOp,
        conditions: Sequence[UOp],
        values: dict[UOp, int],
        column: UOp,
    ) -> UOp:
        """A column of a tile whose rows are loaded, one for each lane, and transposed."""
        lane, width = self._lane(node), self._width(node)
        assert lane is not None
        across = math.gcd(self._count(column), width)
        begin = values[column] // across * across
        key = (node, tuple((values | {column: begin}).items()))
        if key not in self.tiles:
            buffer = self._memory(node.src[0], values, column, range(begin, begin + across))
            rows = []
            for number in range(values[lane] * width, (values[lane] + 1) * width):
                chosen = {
                    lane: UOp.const(index, number),
                    column: numbered(column, range(begin, begin + across)),
                }
                gate = self._gate(conditions, values, chosen)
                gates = [] if gate is None else [gate]
                starts = {lane: chosen[lane], column: UOp.const(index, begin)}
                at = self._at_numbers(place, values, starts)
                rows.append(buffer.index(at, *gates, dtype=node.dtype.vec(across)))
            self.tiles[key] = transposed(rows)
        return self.tiles[key][values[column] - begin]

    def _memory(
        self, memory: UOp, values: dict[UOp, int], counter: UOp, numbers: Iterable[int]
    ) -> UOp:
        """The memory of a load that reads for several values of a range.

        What is stored in the iteration of each value must be there: local memory that is filled
        inside of the range is read AFTER all of these stores.
        """
        copies = dict.fromkeys(self._at(memory, values | {counter: k}) for k in numbers)
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
        """The conditions of a load together, at some values of ranges."""
        gate: UOp | None = None
        for condition in conditions:
            part = self._at_numbers(condition, values, chosen)
            gate = part if gate is None else _both(gate, part)
        return gate

    def _at_numbers(self, expression: UOp, values: dict[UOp, int], chosen: dict[UOp, UOp]) -> UOp:
        """An expression at some values of ranges, and at those of this copy."""
        if not any(r in chosen for r in expression.ranges):
            return self._at(expression, values)
        return at_values(expression, chosen, lambda node: self._at(node, values))

    def _first_lane(self, expression: UOp, values: dict[UOp, int]) -> UOp:
        """An index as it is in the first lane."""
        order = self.with_lanes.get(expression)
        if order is None:
            lanes = self.lanes.keys()
            order = toposort(expression, within=lambda n: not lanes.isdisjoint(n.ranges))
            self.with_lanes[expression] = order
        if not order:
            return self._at(expression, values)
        new: dict[UOp, UOp] = {}
        for node in order:
            if node in self.lanes:
                new[node] = UOp.const(index, values[node] * self.lanes[node])
            else:
                src = [new[s] if s in new else self._at(s, values) for s in node.src]
                new[node] = node.replace(tuple(src))
        return new[expression]

    def _reduce(self, node: UOp, values: dict[UOp, int]) -> UOp:
        """The copies put together, over the loops that are left, and then the lanes."""
        op, (value, *ranges) = node.arg, node.src
        found = self.prefixes.get(node)
        if found is not None and found.lane in self.lanes:
            parts = self._running(op, found, values)
            if found.lane not in self.around[node]:
                return last_lane(parts[-1])
            return parts[values[found.lane]]
        inner = [r for r in ranges if r in self.spread]
        loops = [self._at(r, values) for r in ranges if r not in self.spread]
        parts = [
            self._at(value, values | dict(zip(inner, where, strict=True)))
            for where in self._iterations(inner)
        ]
        folded = next((r for r in inner if r in self.lanes), None)
        if folded is None:
            whole = _one_by_one(op, parts)
        else:  # a value that is the same in all of its iterations is reduced that often, too
            whole = _put_together(op, [_wide(part, self.lanes[folded]) for part in parts])
        whole = whole.reduce(op, *loops) if loops else whole
        if folded is not None:
            while whole.dtype.count > 1:
                half = whole.dtype.count // 2
                low, high = tuple(range(half)), tuple(range(half, 2 * half))
                whole = op(whole.gep(*low), whole.gep(*high))
        return whole

    def _running(self, op: ops.Op, found: Prefixes, values: dict[UOp, int]) -> list[UOp]:
        """The prefixes of all copies along a range."""
        others = {r: values[r] for r in self.around[found.value] if r is not found.lane}
        key = op, found.value, tuple(others.items())
        if key not in self.running:
            copies = range(self._count(found.lane))
            vectors = [self._at(found.value, {**others, found.lane: k}) for k in copies]
            width = self.lanes[found.lane]
            self.running[key] = running(op, [_wide(vector, width) for vector in vectors])
        return self.running[key]

    def _end(self, node: UOp, values: dict[UOp, int]) -> UOp:
        effect, *ranges = node.src
        inner = [r for r in ranges if r in self.spread]
        loops = [self._at(r, values) for r in ranges if r not in self.spread]
        parts = [
            self._at(effect, values | dict(zip(inner, where, strict=True)))
            for where in self._iterations(inner)
        ]
        whole = parts[0] if len(parts) == 1 else ops.GROUP(*parts)
        return whole.end(*loops) if loops else whole


def _is_nowhere(access: UOp) -> bool:
    """Whether a copy is of an iteration beyond the end, whose accesses do not happen."""
    return access.op is ops.INDEX and any(s.op is ops.INVALID for s in access.src[1:])


def _both(a: UOp, b: UOp) -> UOp:
    width = max(a.dtype.count, b.dtype.count)
    return _wide(a, width) & _wide(b, width)


def _one_by_one(op: ops.Op, parts: list[UOp]) -> UOp:
    """In order, as the loop would: products are then added to a sum in one step each."""
    whole = parts[0]
    for part in parts[1:]:
        whole = op(whole, part)
    return whole


def _put_together(op: ops.Op, parts: list[UOp]) -> UOp:
    """Pairwise, so that no operation waits for all the others."""
    while len(parts) > 1:
        pairs = [op(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, *parts[len(pairs) * 2 :]]
    return parts[0]
