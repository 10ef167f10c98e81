"""Rangeify: from tensors with axes to values at the iterations of ranges.

First from the outputs to the inputs: each node learns which of its elements are asked for, where
(`loops.Use`), and `placement` decides where its value lives. Then from the inputs to the outputs:
the value of each of these elements is built. What is left is

    BUFFERIZE(value, ranges…)     a value that is stored, or kept inside some loops
    INDEX(BUFFERIZE, indices…)    an element of it
    REDUCE(value, ranges…)        a reduction, with ranges of its own

and no movement op. Every node is visited once in each direction, and a few times from the outputs
on where axes turn out to be taken apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.base.dtypes import Space, i64, index
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.traversal import substitute, toposort
from porism.rules.reductions.reduction_splitting import Varying
from porism.schedule.loops.scatter_stores import names_elements
from porism.schedule.rangeify.buffer_limit import crowded
from porism.schedule.rangeify.movement_indices import ZERO, Element, is_size_one, moved, simplified
from porism.schedule.rangeify.nest_position import Nest, Use
from porism.schedule.rangeify.placement import Kernel, Local, Place, Placement, Stored
from porism.schedule.rangeify.placement_cost import LOWERED, likely_kept

ALWAYS_STORED = frozenset({ops.CONTIGUOUS, ops.COPY})
LEAVES = frozenset({ops.PARAM, ops.BUFFER})


MOST_PASSES: Final = 3
"""Times that a graph is gone through because axes were taken apart."""

Parts = Mapping[int, tuple[int, ...]]
"""For an axis of a stored value the sizes of its parts, the outermost first."""


@dataclass(frozen=True)
class Ranged:
    """A graph in ranges, and why its values are stored."""

    sink: UOp
    reasons: dict[UOp, str]
    """For each BUFFERIZE in memory, why it is there."""
    asked: frozenset[UOp]
    """Those that a CONTIGUOUS or COPY asked for, or whose elements indices name: they stay."""
    tensors: dict[UOp, UOp] = field(default_factory=dict)
    """For a BUFFERIZE in memory the node of the tensor graph whose elements it has, in order."""


def rangeify(sink: UOp) -> Ranged:
    """The graph with ranges instead of axes; the sources of the SINK are values to be stored.

    Where an axis of a stored value is taken apart by // and %, it gets a range for each part, and
    the graph is gone through once more: loops that were hidden may then be shared.
    """
    parts: dict[UOp, Parts] = {}
    for _ in range(MOST_PASSES):
        work = _Rangeify(sink, parts)
        work.place()
        more = work.taken_apart()
        if not more:
            break
        parts |= more
    return work.build()


class _Rangeify:
    def __init__(self, sink: UOp, parts: Mapping[UOp, Parts]) -> None:
        self.parts = parts
        self.roots = list(sink.src)
        found = tensors(self.roots)
        self.numbers = dict.fromkeys(root for root in self.roots if root not in found)
        """Outputs that are the same number everywhere: each is stored, and nothing reads it."""
        self.order = [*found, *self.numbers]
        self.stored = dict.fromkeys(self.roots, "it is an output")
        self.asked = {node for node in self.order if node.op in ALWAYS_STORED}
        known: dict[UOp, Varying] = {}
        for node in self.order:
            if node.op is ops.REDUCE_AXIS and names_elements(node, known):
                whole = self._whole_output(node)
                self.stored.setdefault(whole, "indices name its elements")
                self.asked.add(whole)
            if node.op in ALWAYS_STORED and node.src[0].op not in LEAVES:
                self.stored.setdefault(node, f"{node.op.name} asks for it")
            if node.op is ops.GATHER and node.src[0].op not in LEAVES and not _is_view(node.src[0]):
                self.stored.setdefault(node.src[0], "it is read at places that are computed")
        self.placement = Placement(self.order)
        kept = likely_kept(self.order, self.placement.costs) | set(self.stored)
        for node in crowded(self.order, settings.kernel_buffers, kept):
            self.stored.setdefault(node, "a kernel reads only so many buffers")
        self.uses: dict[UOp, dict[Use, None]] = {n: {} for n in self.order}
        self.wanted: dict[UOp, list[Use]] = {}  # the elements of a node that are to be built
        self.places: dict[UOp, Local | Stored | None] = {}
        self.indices: dict[UOp, tuple[UOp, ...]] = {}  # of what is kept: its ranges, 0 for size 1
        self.reductions: dict[tuple[UOp, Element], tuple[tuple[UOp, ...], Nest]] = {}
        self.opaque: dict[UOp, tuple[UOp, Use]] = {}  # a variable for the value of an index tensor
        self.axes = itertools.count()
        self.axis_of: dict[UOp, tuple[UOp, int]] = {}  # a range -> the axis that it goes along
        self.built: dict[tuple[UOp, Element], UOp] = {}
        self.kept: dict[UOp, UOp] = {}

    def _whole_output(self, node: UOp) -> UOp:
        """The output that is a node under other dims, if it is used for nothing else, or itself."""
        found = node
        while found not in self.roots:
            users = [n for n in self.order if found in n.src]
            if len(users) != 1 or users[0].op is not ops.RESHAPE:
                return node
            found = users[0]
        return found

    def place(self) -> None:
        """Decide where every value lives."""
        for node in reversed(self.order):
            self._place(node)

    def taken_apart(self) -> dict[UOp, Parts]:
        """The stored nodes whose axes are divided by constants, and into which parts."""
        divisors: dict[UOp, set[int]] = {}
        names = dict.fromkeys(
            at for uses in self.wanted.values() for u in uses for at in u.element.at
        )
        for node in toposort(*(at for at in names if at.op is not ops.RANGE)):
            if node.op in (ops.IDIV, ops.MOD) and node.src[0] in self.axis_of:
                counter, divisor = node.src
                known = divisor.op is counter.src[0].op is ops.CONST
                if known and divisor.arg > 1 and (counter.vmax + 1) % divisor.arg == 0:
                    divisors.setdefault(counter, set()).add(divisor.arg)
        found: dict[UOp, Parts] = {}
        for counter, numbers in divisors.items():
            node, axis = self.axis_of[counter]
            parts = dict(found.get(node, self.parts.get(node, {})))
            parts[axis] = _factors(int(counter.vmax) + 1, numbers)
            found[node] = parts
        return found

    def build(self) -> Ranged:
        """The graph in ranges."""
        for node in self.order:
            self._build(node)
        sink = ops.SINK(*(self.kept[root] for root in self.roots))
        reasons = {
            self.kept[node]: place.why
            for node, place in self.places.items()
            if isinstance(place, Stored)
        }
        asked = [self.kept[n] for n in self.order if n in self.asked and n in self.kept]
        tensors = {self.kept[node]: node for node, place in self.places.items()
                   if isinstance(place, Stored)}  # fmt: skip
        if self.opaque:
            sink, *rest = self._transparent(sink, *reasons, *asked)
            tensors = dict(zip(rest, tensors.values(), strict=False))
            reasons = dict(zip(rest, reasons.values(), strict=False))
            asked = rest[len(reasons) :]
        return Ranged(sink, reasons, frozenset(asked), tensors)

    # -- what is asked of each node ----------------------------------------------------------------

    def _place(self, node: UOp) -> None:
        """Decide where the value of a node lives, and ask its sources for what it needs."""
        uses = list(self.uses.pop(node))
        why = self.stored.get(node)
        place: Place = Stored(why) if why is not None else None
        if place is None:
            if not uses:  # only sizes depend on it
                self.wanted[node] = []
                self.places[node] = None
                return
            place = self.placement.decide(node, uses)
        self.places[node] = place
        if isinstance(place, Stored):
            uses = [self._stored_use(node)]
        elif isinstance(place, Local):
            uses = [self._local_use(node, place, uses[0])]
        self.wanted[node] = uses
        for use in uses:
            self.placement.kernels[use.nest.kernel].nodes += LOWERED.get(node.op, 1)
            for source, element, nest in self._asked(node, use):
                self._ask(source, element, nest)

    def _ask(self, source: UOp, element: Element, nest: Nest) -> Use | None:
        """Note that an element is needed; None if the source is no tensor."""
        if source not in self.uses:
            return None
        ranges = self._ranges(element)
        use = Use(element, ranges, nest.around_of(ranges))
        self.uses[source][use] = None
        return use

    def _ranges(self, element: Element) -> frozenset[UOp]:
        """All ranges that an element depends on, also through the value of an index tensor."""
        parts = [*element.at, *([] if element.valid is None else [element.valid])]
        found = {r for part in parts for r in part.ranges}
        if self.opaque:
            for part in parts:
                for node in toposort(part):
                    if node in self.opaque:
                        found |= self.opaque[node][1].ranges
        return frozenset(found)

    def _new_range(self, size: UOp, kind: Axis = Axis.LOOP) -> UOp:
        return ZERO if is_size_one(size) else UOp.range(size, next(self.axes), kind)

    def _stored_use(self, node: UOp) -> Use:
        parts = self.parts.get(node, {})
        ranges: list[UOp] = []
        at: list[UOp] = []
        for axis, dim in enumerate(shape(node)):
            sizes = [UOp.const(index, n) for n in parts[axis]] if axis in parts else [dim]
            new = [self._new_range(size) for size in sizes]
            if axis not in parts and new[0] is not ZERO:
                self.axis_of[new[0]] = node, axis
            ranges += new
            number = ZERO
            for counter, size in zip(new, sizes, strict=True):
                number = number * size + counter
            at.append(number)
        self.indices[node] = tuple(ranges)
        loops = frozenset(r for r in ranges if r is not ZERO)
        self.placement.kernels[node] = Kernel(loops, frozenset(at))
        return Use(Element(tuple(at)), loops, Nest(node, loops))

    def _local_use(self, node: UOp, place: Local, use: Use) -> Use:
        dims = shape(node)
        new = {axis: self._new_range(dims[axis]) for axis in place.free}
        self.indices[node] = tuple(new.values())
        at = tuple(new.get(axis, i) for axis, i in enumerate(use.element.at))
        element = Element(at)
        for i, dim in zip(at, dims, strict=True):  # a use may be valid in some iterations only
            for condition in (i >= 0, i < dim):
                element = element.under(None if condition.vmin == 1 else condition)
        ranges = self._ranges(element)
        outer = use.nest.outermost
        level = ranges - set(new.values())
        inner = frozenset(new.values())
        around = Use(Element(()), level, outer).times
        return Use(element, ranges, Nest(outer.kernel, inner, outer, around))

    def _asked(self, node: UOp, use: Use) -> Iterator[tuple[UOp, Element, Nest]]:
        """Which elements of its sources a node needs for one of its own."""
        element, op = use.element, node.op
        if op in LEAVES or op is ops.IOTA:
            return
        if op.group is Group.MOVEMENT:
            yield node.src[0], moved(node, element).element, use.nest
        elif op is ops.REDUCE_AXIS:
            inner, nest = self._reduction(node, use)
            yield node.src[0], inner, nest
        elif op is ops.GATHER:
            for source in node.src[1:]:
                yield source, element, use.nest
            yield node.src[0], self._gathered(node, use), use.nest
        elif op is ops.ASSIGN:  # the target is only written to
            yield node.src[1], element, use.nest
        else:
            for source in node.src:
                yield source, element if shape(source) else Element(()), use.nest

    def _reduction(self, node: UOp, use: Use) -> tuple[Element, Nest]:
        """The element that a reduction reads, at ranges of its own."""
        key = (node, use.element)
        dims, axes = shape(node.src[0]), node.arg[1]
        found = self.reductions.get(key)
        if found is None:
            ranges = tuple(self._new_range(dims[axis], Axis.REDUCE) for axis in axes)
            loops = frozenset(r for r in ranges if r is not ZERO)
            found = ranges, Nest(use.nest.kernel, loops, use.nest, use.times)
            self.reductions[key] = found
        new = dict(zip(axes, found[0], strict=True))
        at = tuple(new.get(axis, i) for axis, i in enumerate(use.element.at))
        return Element(at, use.element.valid), found[1]

    def _gathered(self, node: UOp, use: Use) -> Element:
        """The element that a GATHER reads, with a variable for each index that is computed."""
        at = []
        inside: UOp | None = None
        for dim, tensor in zip(shape(node.src[0]), node.src[1:], strict=True):
            place = self._index_value(tensor, use)
            for condition in (place >= 0, place < dim):
                if condition.vmin != 1:
                    inside = condition if inside is None else inside & condition
            if place.vmin < -1 or place.vmax > dim.vmax:  # it may not fit the machine's words
                place = place.maximum(0).minimum((dim - 1).maximum(0))
            at.append(ZERO if is_size_one(dim) else place)
        return Element(tuple(at), use.element.valid).under(inside)

    def _index_value(self, tensor: UOp, use: Use) -> UOp:
        """The value of an index tensor: itself if it is arithmetic of positions, else a variable"""
        if all(n.op not in LEAVES and n.op is not ops.REDUCE_AXIS and n.op is not ops.GATHER
               and n not in self.stored for n in toposort(tensor)):  # fmt: skip
            return _position_value(tensor, use.element)
        key = (tensor, use)
        for variable, known in self.opaque.items():
            if known == key:
                return variable
        low = None if tensor.vmin == -float("inf") else int(tensor.vmin)
        high = None if tensor.vmax == float("inf") else int(tensor.vmax)
        variable = UOp.variable(f"index {len(self.opaque)}", low, high)
        self.opaque[variable] = key
        return variable

    # -- building the values -----------------------------------------------------------------------

    def _build(self, node: UOp) -> None:
        for use in self.wanted[node]:
            key = (node, use.element)
            if key not in self.built:
                self.built[key] = self._value(node, use)
        place = self.places[node]
        if place is not None:
            value = self.built[node, self.wanted[node][0].element]
            space = Space.GLOBAL if isinstance(place, Stored) else Space.LOCAL
            if node.dtype is index:  # memory has integers of a width
                value = value.cast(i64)
            self.kept[node] = ops.BUFFERIZE(value, *self.indices[node], arg=space)

    def _read(self, node: UOp, element: Element) -> UOp:
        """The value of an element, built before."""
        if node not in self.places or node in self.numbers:
            return node
        place = self.places[node]
        if place is None:
            return self.built[node, element]
        if isinstance(place, Local):
            element = Element(tuple(element.at[axis] for axis in place.free), element.valid)
        elif node in self.parts:
            element = _apart(element, self.parts[node])
        found = self.kept[node].index(*element.masked())
        return _as_index(found, node) if node.dtype is index else found

    def _value(self, node: UOp, use: Use) -> UOp:
        element, op = use.element, node.op
        if op in LEAVES:
            return node.index(*element.masked())
        if op is ops.IOTA:
            axis: int = node.arg
            return element.at[axis]
        if op.group is Group.MOVEMENT:
            source, inside = moved(node, element)
            value = self._read(node.src[0], source)
            return value if inside is None else inside.where(value, 0)
        if op is ops.REDUCE_AXIS:
            return self._reduced(node, use)
        if op is ops.GATHER:
            source = self._gathered(node, use)
            value = self._read(node.src[0], source)
            valid = source.valid
            return value if valid is None else valid.where(value, 0)
        if op is ops.ASSIGN:
            return self._read(node.src[1], element)
        values = [self._read(s, element if shape(s) else Element(())) for s in node.src]
        if op in ALWAYS_STORED:
            return values[0]
        if op is ops.CAST and node.dtype is index:
            return _as_index(values[0], node)
        return op(*values, dtype=node.dtype_given, arg=node.arg)

    def _reduced(self, node: UOp, use: Use) -> UOp:
        inner, _ = self._reduction(node, use)
        ranges = [r for r in self.reductions[node, use.element][0] if r is not ZERO]
        value, op = self._read(node.src[0], inner), node.arg[0]
        if ranges:
            return value.reduce(op, *ranges)
        # a sum begins with 0, and 0 + -0.0 is 0.0
        return value + 0.0 if op is ops.ADD and node.dtype.is_float else value

    def _transparent(self, *nodes: UOp) -> tuple[UOp, ...]:
        """Nodes with the values of index tensors instead of the variables that stood for them."""
        values = {v: self._read(tensor, use.element) for v, (tensor, use) in self.opaque.items()}
        whole = ops.SINK(*nodes)
        while any(node in values for node in toposort(whole)):  # values may have variables too
            whole = substitute(whole, values)
        return whole.src


def _as_index(value: UOp, node: UOp) -> UOp:
    """A value as an index, with the bounds that the graph knows of it, which memory forgets."""
    found = value.cast(index)
    if node.vmin > found.vmin and node.vmin.__class__ is int:
        found = found.maximum(node.vmin)
    if node.vmax < found.vmax and node.vmax.__class__ is int:
        found = found.minimum(node.vmax)
    return found


def _factors(size: int, divisors: set[int]) -> tuple[int, ...]:
    """The parts of an axis, the largest steps first: divisors that divide one another.

    >>> _factors(24, {4, 12})
    (2, 3, 4)
    """
    steps = [size]
    for divisor in sorted(divisors, reverse=True):
        if 1 < divisor < steps[-1] and steps[-1] % divisor == 0:
            steps.append(divisor)
    return tuple(a // b for a, b in itertools.pairwise([*steps, 1]))


def _apart(element: Element, parts: Parts) -> Element:
    """The name of an element in axes that were taken apart."""
    at: list[UOp] = []
    for axis, number in enumerate(element.at):
        if axis not in parts:
            at.append(number)
            continue
        sizes = parts[axis]
        step = 1
        found: list[UOp] = []
        for place, size in reversed(list(enumerate(sizes))):
            part = number // step
            found.append(simplified(part % size if place else part, element.valid))
            step *= size
        at += reversed(found)
    return Element(tuple(at), element.valid)


def _is_view(node: UOp) -> bool:
    while node.op.group is Group.MOVEMENT:
        node = node.src[0]
    return node.op in LEAVES


def _position_value(tensor: UOp, element: Element) -> UOp:
    """The value of arithmetic of positions: nothing of it is in memory."""
    built: dict[tuple[UOp, Element], UOp] = {}
    stack: list[tuple[UOp, Element]] = [(tensor, element)]
    while stack:
        node, at = key = stack[-1]
        if key in built:
            stack.pop()
            continue
        if not node.shaped:
            built[key] = node
        elif node.op is ops.IOTA:
            built[key] = at.at[node.arg]
        elif node.op.group is Group.MOVEMENT:
            source, inside = moved(node, at)
            below = (node.src[0], source)
            if below not in built:
                stack.append(below)
                continue
            value = built[below]
            built[key] = value if inside is None else inside.where(value, 0)
        else:
            belows = [(s, at if shape(s) else Element(())) for s in node.src]
            missing = [b for b in belows if b not in built]
            if missing:
                stack += missing
                continue
            values = [built[b] for b in belows]
            built[key] = node.op(*values, dtype=node.dtype_given, arg=node.arg)
    return built[tensor, element]


def tensors(roots: Sequence[UOp]) -> dict[UOp, None]:
    """The nodes whose value depends on memory or on a position, sources before users."""
    found: dict[UOp, None] = {}
    for node in toposort(*roots):
        if node.shaped or node.op in LEAVES or any(s in found for s in node.src):
            found[node] = None
    return found
