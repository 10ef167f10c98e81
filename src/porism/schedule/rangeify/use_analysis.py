"""Use analysis: which elements of each tensor are used, inside which loops.

The graph is walked from the outputs to the inputs. When it is the turn of a node, all its uses are
known, so `placement` decides where its value is materialized; then the elements of its sources that
it reads become uses of those. A stored value and a reduction open loops of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from porism.base.dtypes import index
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.traversal import toposort
from porism.schedule.rangeify.axis_splitting import AxisFactors
from porism.schedule.rangeify.movement_indices import (
    ZERO,
    Element,
    SourceElement,
    is_size_one,
    source_element,
)
from porism.schedule.rangeify.nest_position import Nest, Use
from porism.schedule.rangeify.placement import KernelLoops, Local, Place, Placement, Stored
from porism.schedule.rangeify.placement_cost import size_in_kernel
from porism.schedule.rangeify.required_stores import LEAVES, TensorGraph

_READING: Final = LEAVES | {ops.REDUCE_AXIS, ops.GATHER}
"""Ops whose value is no arithmetic of loops."""


SourceElements = dict[tuple[UOp, Element], SourceElement]
"""The element of its source that each element of a movement op reads, as far as it was asked."""


class UseAnalysis:
    """The uses and the places of all tensors of a graph."""

    def __init__(
        self,
        graph: TensorGraph,
        splits: Mapping[UOp, AxisFactors],
        target: Target,
        source_elements: SourceElements,
    ) -> None:
        self.graph = graph
        self.splits = splits
        self.placement = Placement(graph.costs, target)
        self.places: dict[UOp, Place] = {}
        self.uses: dict[UOp, list[Use]] = {}
        """The uses for which a value is computed: all of them, or the one that fills its buffer."""
        self.buffer_axes: dict[UOp, tuple[UOp, ...]] = {}
        """For each materialized value its loops, one per axis; 0 for an axis of size 1."""
        self.axis_of_loop: dict[UOp, tuple[UOp, int]] = {}
        """For each loop over a stored value the node and its axis."""
        self.index_tensors: dict[UOp, tuple[UOp, Use]] = {}
        """The variables that stand for values of index tensors, with the tensor and its use."""
        self._pending: dict[UOp, dict[Use, None]] = {n: {} for n in graph.order}
        self._reductions: dict[tuple[UOp, Element], tuple[tuple[UOp, ...], Nest]] = {}
        self._axis_numbers = itertools.count()
        self._part_loops: dict[UOp, frozenset[UOp]] = {}
        self._computed_from_loops: dict[UOp, bool] = {}
        self._index_variables: dict[tuple[UOp, Use], UOp] = {}
        self._source_elements = source_elements

    def run(self) -> None:
        """Place every value, users before sources."""
        for node in reversed(self.graph.order):
            self._place(node)

    def indices(self) -> dict[UOp, None]:
        """Return all index expressions by which elements are used."""
        elements = (use.element for uses in self.uses.values() for use in uses)
        return dict.fromkeys(i for element in elements for i in element.indices)

    # -- placing -----------------------------------------------------------------------------------

    def _place(self, node: UOp) -> None:
        """Decide where the value of a node is materialized, and add the uses of its sources."""
        uses = list(self._pending.pop(node))
        reason = self.graph.reasons.get(node)
        place: Place = Stored(reason) if reason is not None else None
        if place is None:
            if not uses:  # only sizes depend on it
                self.uses[node] = []
                self.places[node] = None
                return
            place = self.placement.decide(node, uses)
        self.places[node] = place
        if isinstance(place, Stored):
            uses = [self._stored_use(node)]
        elif isinstance(place, Local):
            uses = [self._local_use(node, place, uses[0])]
        self.uses[node] = uses
        for use in uses:
            self.placement.kernels[use.nest.kernel].ops += size_in_kernel(node.op)
            for source, element, nest in self._read_elements(node, use):
                self._add_use(source, element, nest)

    def _add_use(self, source: UOp, element: Element, nest: Nest) -> None:
        """Note that an element is read inside a nest, if the source is a tensor."""
        if source in self._pending:
            loops = self._loops_of(element)
            self._pending[source][Use(element, loops, nest.innermost_needed(loops))] = None

    def _loops_of(self, element: Element) -> frozenset[UOp]:
        """Return all loops that an element depends on, also through the value of an index tensor"""
        loops: Collection[UOp] = ()
        for part in element.indices if element.valid is None else (*element.indices, element.valid):
            if part.op is not ops.CONST:
                more = self._loops_of_part(part) if self.index_tensors else part.ranges
                if more and more is not loops:
                    loops = {*loops, *more} if loops else more
        return frozenset(loops)

    def _loops_of_part(self, part: UOp) -> frozenset[UOp]:
        """Return all loops that one expression depends on, also through index tensors."""
        known = self._part_loops.get(part)
        if known is None:
            tensors = [self.index_tensors[n] for n in toposort(part) if n in self.index_tensors]
            known = frozenset(part.ranges).union(*[use.loops for _, use in tensors])
            self._part_loops[part] = known
        return known

    def _new_loop(self, extent: UOp, kind: Axis = Axis.LOOP) -> UOp:
        """Return a new loop; the constant 0 instead of a loop of one iteration."""
        return ZERO if is_size_one(extent) else UOp.range(extent, next(self._axis_numbers), kind)

    def _stored_use(self, node: UOp) -> Use:
        """Open the loops over a stored value; return the element that they compute."""
        factors = self.splits.get(node, {})
        axes: list[UOp] = []
        indices: list[UOp] = []
        for axis, dim in enumerate(shape(node)):
            extents = [UOp.const(index, n) for n in factors[axis]] if axis in factors else [dim]
            loops = [self._new_loop(extent) for extent in extents]
            if axis not in factors and loops[0] is not ZERO:
                self.axis_of_loop[loops[0]] = node, axis
            axes += loops
            combined = ZERO
            for loop, extent in zip(loops, extents, strict=True):
                combined = combined * extent + loop
            indices.append(combined)
        self.buffer_axes[node] = tuple(axes)
        opened = frozenset(loop for loop in axes if loop is not ZERO)
        self.placement.kernels[node] = KernelLoops(
            opened,
            frozenset(indices),
            innermost=next((loop for loop in reversed(axes) if loop is not ZERO), None),
            is_scatter=node in self.graph.scattered,
        )
        return Use(Element(tuple(indices)), opened, Nest(node, opened))

    def _local_use(self, node: UOp, place: Local, use: Use) -> Use:
        """Open the loops that fill a local buffer; return the element that they compute."""
        dims = shape(node)
        loops = {axis: self._new_loop(dims[axis]) for axis in place.axes}
        self.buffer_axes[node] = tuple(loops.values())
        indices = tuple(loops.get(axis, i) for axis, i in enumerate(use.element.indices))
        element = Element(indices)
        for i, dim in zip(indices, dims, strict=True):  # a use may be valid in some iterations only
            for condition in (i >= 0, i < dim):
                element = element.restricted(None if condition.vmin == 1 else condition)
        all_loops = self._loops_of(element)
        outer = use.nest.outermost
        outer_loops = all_loops - set(loops.values())
        entries = Use(Element(()), outer_loops, outer).evaluations
        nest = Nest(outer.kernel, frozenset(loops.values()), outer, entries)
        return Use(element, all_loops, nest)

    # -- elements of sources -----------------------------------------------------------------------

    def _read_elements(self, node: UOp, use: Use) -> Iterator[tuple[UOp, Element, Nest]]:
        """Yield the elements of its sources that a node reads for one of its own."""
        element, op = use.element, node.op
        if op in LEAVES or op is ops.IOTA:
            return
        if op.group is Group.MOVEMENT:
            yield node.src[0], self.source_element(node, element).element, use.nest
        elif op is ops.REDUCE_AXIS:
            _, inner, nest = self.reduction(node, use)
            yield node.src[0], inner, nest
        elif op is ops.GATHER:
            for source in node.src[1:]:
                yield source, element, use.nest
            yield node.src[0], self.gathered_element(node, use), use.nest
        elif op is ops.ASSIGN:  # the target is only written to
            yield node.src[1], element, use.nest
        else:
            for source in node.src:
                yield source, element if shape(source) else Element(()), use.nest

    def source_element(self, node: UOp, element: Element) -> SourceElement:
        """Return the element of its source that an element of a movement op reads."""
        key = (node, element)
        found = self._source_elements.get(key)
        if found is None:
            found = self._source_elements[key] = source_element(node, element)
        return found

    def reduction(self, node: UOp, use: Use) -> tuple[tuple[UOp, ...], Element, Nest]:
        """Return the loops of a REDUCE_AXIS for an element, the element it reads, and its nest."""
        key = (node, use.element)
        dims, axes = shape(node.src[0]), node.arg[1]
        opened = self._reductions.get(key)
        if opened is None:
            loops = tuple(self._new_loop(dims[axis], Axis.REDUCE) for axis in axes)
            inner = frozenset(loop for loop in loops if loop is not ZERO)
            opened = loops, Nest(use.nest.kernel, inner, use.nest, use.evaluations)
            self._reductions[key] = opened
        loops, nest = opened
        by_axis = dict(zip(axes, loops, strict=True))
        indices = tuple(by_axis.get(axis, i) for axis, i in enumerate(use.element.indices))
        return loops, Element(indices, use.element.valid), nest

    def gathered_element(self, node: UOp, use: Use) -> Element:
        """Return the element that a GATHER reads, with a variable for each computed index."""
        indices = []
        inside: UOp | None = None
        for dim, tensor in zip(shape(node.src[0]), node.src[1:], strict=True):
            i = self._index_value(tensor, use)
            for condition in (i >= 0, i < dim):
                if condition.vmin != 1:
                    inside = condition if inside is None else inside & condition
            if i.vmin < -1 or i.vmax > dim.vmax:  # it may not fit the index width of the machine
                i = i.maximum(0).minimum((dim - 1).maximum(0))
            indices.append(ZERO if is_size_one(dim) else i)
        return Element(tuple(indices), use.element.valid).restricted(inside)

    def _index_value(self, tensor: UOp, use: Use) -> UOp:
        """Return the value of an index tensor: arithmetic of loops, or else a variable for it."""
        computed = self._computed_from_loops.get(tensor)
        if computed is None:
            computed = self._is_computed_from_loops(tensor)
            self._computed_from_loops[tensor] = computed
        if computed:
            return _iota_arithmetic(tensor, use.element)
        key = (tensor, use)
        known = self._index_variables.get(key)
        if known is not None:
            return known
        low = None if tensor.vmin == -float("inf") else int(tensor.vmin)
        high = None if tensor.vmax == float("inf") else int(tensor.vmax)
        variable = UOp.variable(f"index {len(self.index_tensors)}", low, high)
        self.index_tensors[variable] = key
        self._index_variables[key] = variable
        return variable

    def _is_computed_from_loops(self, tensor: UOp) -> bool:
        """Return whether a tensor is arithmetic of IOTAs and constants, and nothing is stored."""
        seen = {tensor}
        stack = [tensor]
        while stack:
            node = stack.pop()
            if node.op in _READING or node in self.graph.reasons:
                return False
            stack += [s for s in node.src if s not in seen]
            seen.update(node.src)
        return True


def _iota_arithmetic(tensor: UOp, element: Element) -> UOp:
    """Return the value of an element of a tensor that is computed from IOTAs and constants only."""
    values: dict[tuple[UOp, Element], UOp] = {}
    stack: list[tuple[UOp, Element]] = [(tensor, element)]
    while stack:
        node, at = key = stack[-1]
        if key in values:
            stack.pop()
            continue
        if not node.shaped:
            values[key] = node
        elif node.op is ops.IOTA:
            values[key] = at.indices[node.arg]
        elif node.op.group is Group.MOVEMENT:
            source, inside = source_element(node, at)
            below = (node.src[0], source)
            if below not in values:
                stack.append(below)
                continue
            value = values[below]
            values[key] = value if inside is None else inside.where(value, 0)
        else:
            sources = [(s, at if shape(s) else Element(())) for s in node.src]
            missing = [source for source in sources if source not in values]
            if missing:
                stack += missing
                continue
            operands = [values[source] for source in sources]
            values[key] = node.op(*operands, dtype=node.dtype_given, arg=node.arg)
    return values[tensor, element]
