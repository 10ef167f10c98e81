"""Buffer removal: recompute stored values that simplification has made cheap.

`rangeify` places values by what they cost before simplification. Afterwards many are cheaper: a
mask has become a constant, a sum of ones a number. On the whole graph, from the inputs to the
outputs,

- a buffer of a constant is not read;
- a buffer that is a copy of another one is replaced by that one;
- an axis along which all elements are equal, or of which one element is read, is dropped;
- a buffer is removed, and its value recomputed where it is read, by this decision tree:

      an output, or pinned (CONTIGUOUS, COPY, scatter)                 keep
      read by one copy of it, element by element                       remove
      its value contains a reduction or a local buffer
          PORISM_BUFFER_LEVEL is 3, and the buffer is larger by
          PORISM_BUFFER_RATIO than what it is computed from            remove
          else                                                         keep
      a kernel would read more buffers than PORISM_KERNEL_BUFFERS      keep
      level 1: one load at most, and cheaper than storing it           remove
      level 2: always, except arithmetic that a reduction repeats      remove

An output keeps its shape, whatever its value is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from porism.base.dtypes import Space
from porism.base.settings import settings
from porism.base.target import GENERIC_CPU, Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.rules.buffers import buffer_rules as reading
from porism.schedule.loops.initial_symbolic import is_invalid_element
from porism.schedule.rangeify import placement_cost

MAX_NODES: Final = 64
"""Values of more nodes are taken for expensive without counting; chosen by hand."""

MEMORY: Final = frozenset({ops.PARAM, ops.BUFFER})


class RemainingBuffers(NamedTuple):
    """A graph with fewer buffers."""

    sink: UOp
    replacements: dict[UOp, UOp]
    """For each BUFFERIZE that is left, the node that it has become."""


def remove_buffers(
    sink: UOp, pinned: Collection[UOp] = (), target: Target = GENERIC_CPU
) -> RemainingBuffers:
    """Return the graph without the buffers that cost more than they save, but with `pinned`."""
    order = toposort(sink)
    if not any(n.op is ops.INDEX and n.src[0].op is ops.BUFFERIZE for n in order):
        return RemainingBuffers(sink, {n: n for n in order if n.op is ops.BUFFERIZE})
    return _Removal(sink, order, pinned, target).run()


class _ElementCost(NamedTuple):
    """What computing one element of a value takes."""

    cost: float
    """In additions, without its loads."""
    loads: int
    buffers: frozenset[UOp]
    """What it is loaded from."""
    has_loops: bool
    """Whether it contains a reduction or a local buffer."""


class _Removal:
    def __init__(
        self, sink: UOp, order: Sequence[UOp], pinned: Collection[UOp], target: Target
    ) -> None:
        self.sink = sink
        self.order = order
        self.storage = target.storage
        self.reads: dict[UOp, list[UOp]] = {}  # of a BUFFERIZE: its INDEX nodes
        self.pinned = set(pinned)  # and those that are used other than by an INDEX
        self.copies: dict[UOp, UOp] = {}  # an INDEX that is the whole value of a BUFFERIZE
        uses: dict[UOp, int] = {}
        self.assigned: set[UOp] = set()
        for node in order:
            for number, source in enumerate(node.src):
                uses[source] = uses.get(source, 0) + 1
                if source.op is ops.BUFFERIZE:
                    if node.op is ops.INDEX and number == 0:
                        self.reads.setdefault(source, []).append(node)
                    else:
                        self.pinned.add(source)
            if node.op is ops.BUFFERIZE and node.src[0].op is ops.INDEX:
                self.copies[node.src[0]] = node
            if node.op is ops.ASSIGN:
                self.assigned.update(toposort(node.src[0]))
        self.copies = {read: copy for read, copy in self.copies.items() if uses[read] == 1}
        self.new: dict[UOp, UOp] = {}
        self.dropped: dict[UOp, tuple[int, ...]] = {}  # the axes that a buffer has lost
        self.removed: set[UOp] = set()
        self.kernel_buffers: dict[UOp, list[set[UOp]]] | None = None

    def run(self) -> RemainingBuffers:
        new = self.new
        for node in self.order:
            rebuilt = node.replace(tuple([new[s] for s in node.src]))
            if node.op is ops.BUFFERIZE:
                rebuilt = self._buffer(node, rebuilt)
            elif node.op is ops.INDEX and node.src[0].op is ops.BUFFERIZE:
                rebuilt = self._read(node, rebuilt)
            new[node] = UOp.const(rebuilt.dtype, 0) if is_invalid_element(rebuilt) else rebuilt
        left = set(toposort(new[self.sink]))
        buffers = {n: new[n] for n in self.order if n.op is ops.BUFFERIZE and new[n] in left}
        return RemainingBuffers(new[self.sink], buffers)

    # -- reads -------------------------------------------------------------------------------------

    def _read(self, node: UOp, rebuilt: UOp) -> UOp:
        """Return an element of a buffer that has stayed, has lost axes, or has been removed."""
        base, buffer = node.src[0], rebuilt.src[0]
        simpler = reading.constant_element(rebuilt)
        if simpler is not None:
            return simpler
        axes = self.dropped.get(base, ())
        if base in self.removed:
            return self._inlined(rebuilt, buffer, axes)
        if axes:
            simpler = reading.read_without_axes(rebuilt, buffer, axes)
            rebuilt = UOp.const(rebuilt.dtype, 0) if simpler is None else simpler
        if buffer.arg is Space.LOCAL and rebuilt.op is ops.INDEX:
            simpler = reading.forwarded_value(rebuilt)
        return rebuilt if simpler is None else simpler

    def _inlined(self, rebuilt: UOp, buffer: UOp, axes: Sequence[int]) -> UOp:
        """Return the value of a removed buffer at the indices by which it was read."""
        read = reading.access_of(rebuilt)
        if read is None:
            return UOp.const(rebuilt.dtype, 0)
        at = tuple(i for axis, i in enumerate(read.indices) if axis not in axes)
        value = reading.inline_buffer(buffer, reading.Access(at, read.valid))
        if value is not None:
            return value
        narrowed = reading.read_without_axes(rebuilt, buffer, axes)
        assert narrowed is not None
        return narrowed

    # -- buffers -----------------------------------------------------------------------------------

    def _buffer(self, node: UOp, rebuilt: UOp) -> UOp:
        """Return a buffer with fewer axes, or what it is a copy of; note whether it is removed."""
        if node in self.pinned or rebuilt.op is not ops.BUFFERIZE:
            return rebuilt
        rebuilt = self._drop_axes(node, rebuilt)
        original = reading.copied_buffer(rebuilt)
        if original is not None:
            return original
        if rebuilt.arg is Space.GLOBAL and self._is_removable(node, rebuilt):
            self.removed.add(node)
        return rebuilt

    def _drop_axes(self, node: UOp, rebuilt: UOp) -> UOp:
        """Return a buffer without dead axes, and without those of which one element is read."""
        value, *loops = rebuilt.src
        fixed: dict[UOp, UOp] = {}
        reads = [reading.access_of(read) for read in self.reads.get(node, ())]
        for axis, loop in enumerate(loops):
            indices = {None if read is None else read.indices[axis] for read in reads}
            if loop.op is ops.RANGE and len(indices) == 1:
                (i,) = indices
                if i is not None and i.op is ops.CONST and 0 <= i.arg < loop.src[0].vmin:
                    fixed[loop] = i
        if fixed:
            value = substitute(value, fixed, within=lambda n: not fixed.keys().isdisjoint(n.ranges))
            rebuilt = ops.BUFFERIZE(value, *loops, arg=rebuilt.arg)
        axes = reading.dead_axes(rebuilt)
        if not axes:
            return rebuilt
        self.dropped[node] = axes
        return reading.without_axes(rebuilt, axes)

    def _is_removable(self, node: UOp, rebuilt: UOp) -> bool:
        """Return whether a buffer is removed, by the decision tree of this module."""
        level = settings.buffer_level
        reads = self.reads.get(node, [])
        if level == 0 or not reads:
            return False
        value = _element_cost(rebuilt.src[0])
        if value is None and not self._is_copied(node, reads):
            return False
        buffers = _buffers_of(rebuilt.src[0]) if value is None else value.buffers
        if not self.assigned.isdisjoint(buffers):
            return False  # it is read before something overwrites what it is computed from
        if self._is_copied(node, reads):
            return True
        assert value is not None
        elements = placement_cost.element_count(shape(rebuilt))
        uses = sum(placement_cost.trip_count(read.ranges) for read in reads)
        if value.has_loops:
            source_elements = sum(placement_cost.tensor_size(b) for b in buffers)
            removable = level >= 3 and elements >= settings.buffer_ratio * source_elements
        elif level == 1:
            return value.loads <= 1 and self._is_cheap(value, elements, uses)
        else:
            in_reduction = any(r.arg[1] is Axis.REDUCE for n in reads for r in n.ranges)
            removable = uses <= elements or not in_reduction or value.cost <= 0
        return removable and self._is_within_limit(reads, buffers)

    def _is_cheap(self, value: _ElementCost, elements: int, uses: int) -> bool:
        """Return whether recomputing a value costs no more than storing it and reading it back."""
        each = value.cost + value.loads * placement_cost.READ_COST
        stored = placement_cost.stored_cost(each, elements, uses, self.storage)
        once = self.storage.store_global + self.storage.load_global
        return each <= once and placement_cost.recomputed_cost(each, uses) <= stored

    def _is_copied(self, node: UOp, reads: Sequence[UOp]) -> bool:
        """Return whether a buffer is only copied, each element once."""
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

    def _is_within_limit(self, reads: Sequence[UOp], buffers: frozenset[UOp]) -> bool:
        """Return whether no reader reads too many buffers if it reads these ones instead.

        If so, they are added to the buffers of the kernels that read the value.
        """
        if len(buffers) <= 1:
            return True
        if self.kernel_buffers is None:
            self.kernel_buffers = _buffers_by_read(self.order)
        readers = [kernel for read in reads for kernel in self.kernel_buffers.get(read, ())]
        if any(len(kernel | buffers) > settings.kernel_buffers for kernel in readers):
            return False
        for kernel in readers:
            kernel |= buffers
        return True


def _is_memory(node: UOp) -> bool:
    return node.op in MEMORY or (node.op is ops.BUFFERIZE and node.arg is Space.GLOBAL)


def _buffers_of(value: UOp) -> frozenset[UOp]:
    """Return the buffers that a value is computed from."""
    body = toposort(value, within=lambda n: not _is_memory(n))
    return frozenset(s for n in body for s in n.src if _is_memory(s))


def _element_cost(value: UOp) -> _ElementCost | None:
    """Return what computing an element of a value takes; None if it has more than MAX_NODES."""
    total, loads, has_loops = 0.0, 0, False
    buffers: dict[UOp, None] = {}
    seen = {value}
    stack = [value]
    while stack:
        node = stack.pop()
        if _is_memory(node):
            buffers[node] = None
            continue
        if len(seen) > MAX_NODES:
            return None
        if node.op is ops.INDEX:
            loads += 1
        elif node.op is ops.REDUCE or node.op is ops.BUFFERIZE:
            has_loops = True
        elif node.op is ops.RANGE:
            continue
        elif (node.op.elementwise and node.dtype.is_float) or node.op in (ops.IDIV, ops.MOD):
            total += node.op.cost
        for s in node.src:
            if s not in seen:
                seen.add(s)
                stack.append(s)
    return _ElementCost(total, loads, frozenset(buffers), has_loops)


def _buffers_by_read(order: Sequence[UOp]) -> dict[UOp, list[set[UOp]]]:
    """Return for each INDEX the sets of buffers read by the kernels that contain it."""
    kernels: dict[UOp, list[set[UOp]]] = {}
    for root in order:
        if root.op is ops.BUFFERIZE and root.arg is Space.GLOBAL:
            body = toposort(root.src[0], within=lambda n: not _is_memory(n))
            reads = [n for n in body if n.op is ops.INDEX]
            buffers = {n.src[0] for n in reads if _is_memory(n.src[0])}
            for n in reads:
                kernels.setdefault(n, []).append(buffers)
    return kernels
