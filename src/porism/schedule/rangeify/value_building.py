"""Value building: the value of every used element, from the inputs to the outputs.

A materialized value becomes a BUFFERIZE over its loops, and a use of it an INDEX of that; any other
value is an expression of its loops. No movement op is left.
"""

from __future__ import annotations

from porism.base.dtypes import Space, i64, index
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.traversal import substitute_chained
from porism.schedule.rangeify.axis_splitting import split_indices
from porism.schedule.rangeify.movement_indices import ZERO, Element
from porism.schedule.rangeify.nest_position import Use
from porism.schedule.rangeify.placement import Local, Stored
from porism.schedule.rangeify.required_stores import ALWAYS_STORED, LEAVES
from porism.schedule.rangeify.use_analysis import UseAnalysis


class ValueBuilder:
    """The values of the tensors of a graph at the elements that are used."""

    def __init__(self, analysis: UseAnalysis) -> None:
        self.analysis = analysis
        self.buffers: dict[UOp, UOp] = {}
        """For each materialized tensor its BUFFERIZE."""
        self._values: dict[tuple[UOp, Element], UOp] = {}

    def run(self) -> None:
        """Build every value, sources before users."""
        for node in self.analysis.graph.order:
            self._build(node)

    def _build(self, node: UOp) -> None:
        uses, place = self.analysis.uses[node], self.analysis.places[node]
        for use in uses:
            key = (node, use.element)
            if key not in self._values:
                self._values[key] = self._value(node, use)
        if place is not None:
            value = self._values[node, uses[0].element]
            space = Space.GLOBAL if isinstance(place, Stored) else Space.LOCAL
            if node.dtype is index:  # memory has integers of a width
                value = value.cast(i64)
            axes = self.analysis.buffer_axes[node]
            self.buffers[node] = ops.BUFFERIZE(value, *axes, arg=space)

    def _read(self, node: UOp, element: Element) -> UOp:
        """Return the value of an element of a node that has been built."""
        analysis = self.analysis
        if node not in analysis.places or node in analysis.graph.constants:
            return node
        place = analysis.places[node]
        if place is None:
            return self._values[node, element]
        if isinstance(place, Local):
            element = Element(tuple(element.indices[axis] for axis in place.axes), element.valid)
        elif node in analysis.splits:
            element = split_indices(element, analysis.splits[node])
        value = self.buffers[node].index(*element.masked_indices())
        return _cast_to_index(value, node) if node.dtype is index else value

    def _value(self, node: UOp, use: Use) -> UOp:
        """Return the value of a node at the element of a use."""
        element, op = use.element, node.op
        if op in LEAVES:
            return node.index(*element.masked_indices())
        if op is ops.IOTA:
            axis: int = node.arg
            return element.indices[axis]
        if op.group is Group.MOVEMENT:
            source, inside = self.analysis.source_element(node, element)
            value = self._read(node.src[0], source)
            return value if inside is None else inside.where(value, 0)
        if op is ops.REDUCE_AXIS:
            return self._reduced(node, use)
        if op is ops.GATHER:
            source = self.analysis.gathered_element(node, use)
            value = self._read(node.src[0], source)
            valid = source.valid
            return value if valid is None else valid.where(value, 0)
        if op is ops.ASSIGN:
            return self._read(node.src[1], element)
        values = [self._read(s, element if shape(s) else Element(())) for s in node.src]
        if op in ALWAYS_STORED:
            return values[0]
        if op is ops.CAST and node.dtype is index:
            return _cast_to_index(values[0], node)
        return op(*values, dtype=node.dtype_given, arg=node.arg)

    def _reduced(self, node: UOp, use: Use) -> UOp:
        loops, element, _ = self.analysis.reduction(node, use)
        value, op = self._read(node.src[0], element), node.arg[0]
        loops = tuple(loop for loop in loops if loop is not ZERO)
        if loops:
            return value.reduce(op, *loops)
        # a sum begins with 0, and 0 + -0.0 is 0.0
        return value + 0.0 if op is ops.ADD and node.dtype.is_float else value

    def with_index_values(self, *nodes: UOp) -> tuple[UOp, ...]:
        """Return nodes with the values of index tensors for the variables that stand for them."""
        tensors = self.analysis.index_tensors
        values = {v: self._read(tensor, use.element) for v, (tensor, use) in tensors.items()}
        return substitute_chained(ops.SINK(*nodes), values).src  # values may have variables too


def _cast_to_index(value: UOp, node: UOp) -> UOp:
    """Return a value as an index, clamped to the bounds of the node, which memory does not keep."""
    cast = value.cast(index)
    if node.vmin > cast.vmin and node.vmin.__class__ is int:
        cast = cast.maximum(node.vmin)
    if node.vmax < cast.vmax and node.vmax.__class__ is int:
        cast = cast.minimum(node.vmax)
    return cast
