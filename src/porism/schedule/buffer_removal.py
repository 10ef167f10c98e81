"""Buffers: a second look at what is stored, once values are simplified.

`rangeify` decides where a value lives from what it costs as it is written. After simplification
many a value is cheaper than it was: a mask has become a constant, a sum over ones a number. With
the whole graph at hand, from the inputs to the outputs,

- a buffer of a constant is not read;
- a buffer that is a copy of another one is that one;
- an axis along which all elements are the same, or of which one element is read, is dropped;
- a buffer is removed, and its value computed where it is read, by this tree:

      an output, or asked for (CONTIGUOUS, COPY)                       keep
      read by one copy of it, element by element                       remove
      its value holds a reduction, or values kept for some loops
          PORISM_BUFFER_LEVEL is 3, and it is so many times larger
          (PORISM_BUFFER_RATIO) than what it is computed from          remove
          else                                                         keep
      a kernel would read more buffers than PORISM_KERNEL_BUFFERS      keep
      level 1: one load at most, and cheaper than a trip to memory     remove
      level 2: always, but arithmetic that a reduction would repeat    remove

An output keeps its shape, whatever its value is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from porism.base.dtypes import Space
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.rules.buffers import buffer_rules as reading
from porism.schedule.loops.initial_symbolic import is_no_element
from porism.schedule.rangeify import placement_cost

CHEAP: Final = placement_cost.STORE_GLOBAL + placement_cost.LOAD_GLOBAL
"""What an element may cost to be computed instead of being stored and read."""

MOST_NODES: Final = 64
"""Values of more nodes are not looked at: they are not cheap."""

MEMORY: Final = frozenset({ops.PARAM, ops.BUFFER})


class Buffers(NamedTuple):
    """A graph with fewer buffers."""

    sink: UOp
    becomes: dict[UOp, UOp]
    """Each BUFFERIZE that is left, as it was and as it is."""


def remove_buffers(sink: UOp, keep: Collection[UOp] = ()) -> Buffers:
    """The graph without the buffers that are not worth their memory; those in `keep` stay."""
    order = toposort(sink)
    if not any(n.op is ops.INDEX and n.src[0].op is ops.BUFFERIZE for n in order):
        return Buffers(sink, {n: n for n in order if n.op is ops.BUFFERIZE})
    return _Removal(sink, order, keep).run()


class _Value(NamedTuple):
    """What one element of a value takes to compute."""

    cost: float
    loads: int
    memory: frozenset[UOp]
    gathers: bool
    """Whether it holds a reduction, or values kept for some loops."""


class _Removal:
    def __init__(self, sink: UOp, order: Sequence[UOp], keep: Collection[UOp]) -> None:
        self.sink = sink
        self.order = order
        self.reads: dict[UOp, list[UOp]] = {}
        self.pinned = set(keep)  # read as a whole, or wanted
        self.copies: dict[UOp, UOp] = {}  # an INDEX that is all of the value of a BUFFERIZE
        uses: dict[UOp, int] = {}
        self.assigned: set[UOp] = set()
        for node in order:
            for place, source in enumerate(node.src):
                uses[source] = uses.get(source, 0) + 1
                if source.op is ops.BUFFERIZE:
                    if node.op is ops.INDEX and place == 0:
                        self.reads.setdefault(source, []).append(node)
                    else:
                        self.pinned.add(source)
            if node.op is ops.BUFFERIZE and node.src[0].op is ops.INDEX:
                self.copies[node.src[0]] = node
            if node.op is ops.ASSIGN:
                self.assigned.update(toposort(node.src[0]))
        self.copies = {read: copy for read, copy in self.copies.items() if uses[read] == 1}
        self.new: dict[UOp, UOp] = {}
        self.dropped: dict[UOp, tuple[int, ...]] = {}
        self.removed: set[UOp] = set()
        self.kernels: dict[UOp, list[set[UOp]]] | None = None

    def run(self) -> Buffers:
        new = self.new
        for node in self.order:
            made = node.replace(tuple([new[s] for s in node.src]))
            if node.op is ops.BUFFERIZE:
                made = self._buffer(node, made)
            elif node.op is ops.INDEX and node.src[0].op is ops.BUFFERIZE:
                made = self._read(node, made)
            new[node] = UOp.const(made.dtype, 0) if is_no_element(made) else made
        left = set(toposort(new[self.sink]))
        stays = {n: new[n] for n in self.order if n.op is ops.BUFFERIZE and new[n] in left}
        return Buffers(new[self.sink], stays)

    # -- reads -------------------------------------------------------------------------------------

    def _read(self, node: UOp, made: UOp) -> UOp:
        """An element of a buffer that is there, that lost axes, or that is not there any more."""
        base, buffer = node.src[0], made.src[0]
        found = reading.constant_read(made)
        if found is not None:
            return found
        axes = self.dropped.get(base, ())
        if base in self.removed:
            return self._inlined(made, buffer, axes)
        if axes:
            found = reading.read_without_axes(made, buffer, axes)
            made = UOp.const(made.dtype, 0) if found is None else found
        if buffer.arg is Space.LOCAL and made.op is ops.INDEX:
            found = reading.same_element(made)
        return made if found is None else found

    def _inlined(self, made: UOp, buffer: UOp, axes: Sequence[int]) -> UOp:
        read = reading.read_of(made)
        if read is None:
            return UOp.const(made.dtype, 0)
        at = tuple(i for axis, i in enumerate(read.at) if axis not in axes)
        value = reading.inlined(buffer, reading.Read(at, read.valid))
        if value is not None:
            return value
        found = reading.read_without_axes(made, buffer, axes)
        assert found is not None
        return found

    # -- buffers -----------------------------------------------------------------------------------

    def _buffer(self, node: UOp, made: UOp) -> UOp:
        if node in self.pinned or made.op is not ops.BUFFERIZE:
            return made
        made = self._narrower(node, made)
        same = reading.copied(made)
        if same is not None:
            return same
        if made.arg is Space.GLOBAL and self._goes(node, made):
            self.removed.add(node)
        return made

    def _narrower(self, node: UOp, made: UOp) -> UOp:
        """Without the axes that are dead, and those of which one element is read."""
        value, *places = made.src
        fixed: dict[UOp, UOp] = {}
        reads = [reading.read_of(read) for read in self.reads.get(node, ())]
        for axis, r in enumerate(places):
            wanted = {None if read is None else read.at[axis] for read in reads}
            if r.op is ops.RANGE and len(wanted) == 1:
                (at,) = wanted
                if at is not None and at.op is ops.CONST and 0 <= at.arg < r.src[0].vmin:
                    fixed[r] = at
        if fixed:
            made = ops.BUFFERIZE(substitute(value, fixed), *places, arg=made.arg)
        axes = reading.dead_axes(made)
        if not axes:
            return made
        self.dropped[node] = axes
        return reading.without_axes(made, axes)

    def _goes(self, node: UOp, made: UOp) -> bool:
        level = settings.buffer_level
        reads = self.reads.get(node, [])
        if level == 0 or not reads:
            return False
        value = _value_of(made.src[0])
        if value is None and not self._is_copied(node, reads):
            return False
        memory = _memory_of(made.src[0]) if value is None else value.memory
        if not self.assigned.isdisjoint(memory):
            return False  # it is read before something overwrites what it is computed from
        if self._is_copied(node, reads):
            return True
        assert value is not None
        here = placement_cost.count(shape(made))
        if value.gathers:
            source = sum(placement_cost.elements(m) for m in memory)
            if level < 3 or here < settings.buffer_ratio * source:
                return False
            return self._within_limit(reads, memory)
        times = sum(placement_cost.trips(read.ranges) for read in reads)
        if level == 1:
            each = value.cost + value.loads * placement_cost.READ
            inline = times * each
            stored = (
                here * (each + placement_cost.STORE_GLOBAL) + times * placement_cost.LOAD_GLOBAL
            )
            return value.loads <= 1 and each <= CHEAP and inline <= stored
        repeats = times > here and any(r.arg[1] is Axis.REDUCE for n in reads for r in n.ranges)
        if repeats and value.cost > 0:
            return False
        return self._within_limit(reads, memory)

    def _is_copied(self, node: UOp, reads: Sequence[UOp]) -> bool:
        """Whether all that is done with a buffer is to copy it, each element once."""
        if len(reads) != 1 or reads[0] not in self.copies:
            return False
        reader, indices = self.copies[reads[0]], reads[0].src[1:]
        loops = [i for i in indices if i.op is ops.RANGE]
        if reader.arg is not Space.GLOBAL or len(set(loops)) < len(loops):
            return False
        if not set(loops) <= set(reader.src[1:]):
            return False
        return all(
            i.src[0] is r.src[0] if i.op is ops.RANGE is r.op else i is r
            for i, r in zip(indices, node.src[1:], strict=True)
        )

    def _within_limit(self, reads: Sequence[UOp], memory: frozenset[UOp]) -> bool:
        """Whether no kernel reads too many buffers if a value is computed where it is read."""
        if len(memory) <= 1:
            return True
        if self.kernels is None:
            self.kernels = _kernels(self.order)
        read_by = [k for read in reads for k in self.kernels.get(read, ())]
        if any(len(k | memory) > settings.kernel_buffers for k in read_by):
            return False
        for k in read_by:
            k |= memory
        return True


def _is_memory(node: UOp) -> bool:
    return node.op in MEMORY or (node.op is ops.BUFFERIZE and node.arg is Space.GLOBAL)


def _memory_of(value: UOp) -> frozenset[UOp]:
    """The buffers that a value is computed from."""
    body = toposort(value, within=lambda n: not _is_memory(n))
    return frozenset(s for n in body for s in n.src if _is_memory(s))


def _value_of(value: UOp) -> _Value | None:
    """What a value takes; None if it is large."""
    total, loads, gathers = 0.0, 0, False
    memory: dict[UOp, None] = {}
    seen = {value}
    stack = [value]
    while stack:
        node = stack.pop()
        if _is_memory(node):
            memory[node] = None
            continue
        if len(seen) > MOST_NODES:
            return None
        if node.op is ops.INDEX:
            loads += 1
        elif node.op is ops.REDUCE or node.op is ops.BUFFERIZE:
            gathers = True
        elif node.op is ops.RANGE:
            continue
        elif node.op.elementwise and node.dtype.is_float:
            total += placement_cost.OP_COSTS.get(node.op, 1.0)
        elif node.op in (ops.IDIV, ops.MOD):
            total += placement_cost.OP_COSTS[node.op]
        for s in node.src:
            if s not in seen:
                seen.add(s)
                stack.append(s)
    return _Value(total, loads, frozenset(memory), gathers)


def _kernels(order: Sequence[UOp]) -> dict[UOp, list[set[UOp]]]:
    """For each read of a buffer, what the kernels that it is in read."""
    found: dict[UOp, list[set[UOp]]] = {}
    for root in order:
        if root.op is ops.BUFFERIZE and root.arg is Space.GLOBAL:
            body = toposort(root.src[0], within=lambda n: not _is_memory(n))
            reads = [n for n in body if n.op is ops.INDEX]
            memory = {n.src[0] for n in reads if _is_memory(n.src[0])}
            for n in reads:
                found.setdefault(n, []).append(memory)
    return found
