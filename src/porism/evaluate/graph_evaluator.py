"""Graph evaluator: tensor graphs and ranged graphs, for all iterations at once.

A RANGE is an axis of every array that depends on it. A REDUCE folds such axes, a BUFFERIZE turns
them into the dims of a tensor, a STORE writes the elements of all iterations. The extent of a range
may depend on other ranges: its axis then has the largest extent, and iterations beyond their own
extent are masked; they reduce nothing, store nothing and cannot fail.

No iteration can read here what another one stores; `needs_steps` says which graphs do that.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import numpy as np

from porism.base.dtypes import Kind
from porism.evaluate import op_evaluation
from porism.evaluate.array_access import write
from porism.evaluate.evaluator import SHARED, Entry, Evaluator, Handler, Session
from porism.evaluate.faults import Fault, check_loops_closed, describe, failure
from porism.evaluate.movement_ops import apply_movement, gather, reduce_tensor_axes
from porism.evaluate.pointers import Pointer
from porism.evaluate.threads.tracked_memory import Memory
from porism.evaluate.varying_value import (
    Aligned,
    Axes,
    AxisName,
    Value,
    align_axes,
    broadcast_axes,
    union_axes,
)
from porism.ir import ops
from porism.ir.axis import SEQUENTIAL_AXES
from porism.ir.facts.effect_scopes import (
    Nest,
    Scope,
    closed_nest,
    enclosing_nests,
    loaded_indices,
    own_nodes,
    ranges_before_effects,
    scopes,
)
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.ops import Op


class GraphEvaluator(Evaluator):
    """The evaluation of one graph for all iterations at once."""

    refusal = "all iterations are evaluated at once, and it needs an order of execution"

    def __init__(self, session: Session, root: UOp) -> None:
        self.order = own_nodes(root)
        effects = any(n.op in (ops.STORE, ops.CALL, ops.ASSIGN) for n in self.order)
        if effects:
            self.order = ranges_before_effects(self.order)
        super().__init__(session, loaded_indices(self.order, [root]))
        self.root = root
        self.limits: dict[UOp, Value] = {}  # for ranges of varying extent, which iterations run
        self.assigned: list[UOp] = []
        self.scopes: dict[UOp, Scope] = scopes(self.order) if effects else {}
        self.nests: dict[UOp, Nest] = enclosing_nests(self.order) if effects else {}
        self.snapshots = effects  # memory may change after it was read as a whole

    def run(self) -> Entry:
        """Evaluate the graph, and return the entry of its root."""
        if self.root.dtype.kind is Kind.VOID:
            open_loops = self.scopes.get(self.root, frozenset())
            check_loops_closed(self.root, frozenset(r for r in open_loops if _is_sequential(r)))
        uses = Counter(s for node in self.order for s in node.src)
        uses[self.root] += 1
        if self.root.op is ops.SINK:
            uses.update(self.root.src)
        keep_all = any(node.op is ops.ASSIGN for node in self.order)  # for `_overwrite`
        for node in self.order:
            self.env[node] = self.execute(node)
            for source in node.src:
                uses[source] -= 1
                if not uses[source] and not keep_all:
                    # large arrays are not kept longer than they are needed
                    self.env.pop(source, None)
        self._overwrite()
        return self.env[self.root]

    def result(self, node: UOp) -> Value:
        """Return the value of a root, with an axis for every open range; raise its faults."""
        value = self.value(node)
        open_ranges = tuple(r for r in node.ranges if r in self.sizes)
        value = broadcast_axes(value, open_ranges, self.sizes)
        active = self.active(value.axes, value.rank)
        self.faults.demand_valid(value, node, "the result is INVALID", active)
        return value

    # -- iterations --------------------------------------------------------------------------------

    def active(self, axes: Axes, rank: int = 0) -> Array | None:
        """Return which iterations along these axes run; None if all do."""
        outcome: Array | None = None
        for axis in axes:
            limit = self.limits.get(axis) if isinstance(axis, UOp) else None
            if limit is None:
                continue
            # an iteration runs if it does in some iteration of a range that is not among the axes
            others = tuple(k for k, name in enumerate(limit.axes) if name not in axes)
            own = tuple(name for name in limit.axes if name in axes)
            mask = align_axes(np.asarray(limit.data.any(axis=others)), own, 0, axes, rank)
            outcome = mask if outcome is None else outcome & mask
        return outcome

    def range_axis(self, node: UOp) -> Value:
        """Evaluate a RANGE or SPECIAL: a named axis, unless a value was given for it."""
        pinned = self.session.inputs.pinned(node)
        if pinned is not None:
            return op_evaluation.number(node.dtype, pinned)
        end = self.value(node.src[0])
        active = self.active(end.axes)
        self.faults.demand_valid(end, node, f"the end of {describe(node)} is INVALID", active)
        ends = end.data
        if active is not None:
            ends = np.where(active, ends, 0)
        size = max(int(ends.max()), 0) if ends.size else 0
        self.sizes[node] = size
        counted = np.arange(size).reshape(-1, 1)
        value = Value(counted.astype(node.dtype.numpy), (node,))
        if ends.size > 1 or end.axes:
            aligned = Aligned((Value(counted, (node,)), Value(ends, end.axes)), node)
            here, last = aligned.data
            self.limits[node] = Value(np.asarray(here < last, np.bool_), aligned.axes)
        return value

    def closed_axes(self, node: UOp) -> list[AxisName]:
        """Return the axes that a REDUCE closes, outermost first; unrolled ones are innermost."""
        outcome: list[AxisName] = [r for r in closed_nest(node) if r in self.sizes]
        for source in node.src[1:]:
            if source.op is not ops.RANGE:
                outcome += [axis for axis in self.value(source).axes if isinstance(axis, int)]
        return outcome

    def reduce(self, node: UOp) -> Value:
        """Evaluate a REDUCE over ranges and unrolled axes."""
        value = self.value(node.src[0])
        if len(node.src) == 1:
            return value
        axes = self.closed_axes(node)
        limits = [self.limits[a] for a in axes if isinstance(a, UOp) and a in self.limits]
        active: Value | None = None
        if limits:
            aligned = Aligned(limits, node)
            active = Value(np.logical_and.reduce(np.broadcast_arrays(*aligned.data)), aligned.axes)
        return op_evaluation.reduce_over(
            node, node.arg, value, axes, self.sizes, active, self.faults
        )

    def bufferize(self, node: UOp) -> Value:
        """Evaluate a BUFFERIZE: the values of all iterations, with the ranges as dims.

        The value of an index that is no RANGE (of one iteration, or an unrolled axis) is the
        position along its dim.
        """
        value = self.scalar_value(node)
        indices = [self.value(s) for s in node.src[1:]]
        dims = [
            self.sizes[s] if s in self.sizes else int(v.data.max(initial=0)) + 1
            for s, v in zip(node.src[1:], indices, strict=True)
        ]
        closed = union_axes(v.axes for v in indices)
        limits = [self.limits[a].axes for a in closed if isinstance(a, UOp) and a in self.limits]
        value = broadcast_axes(value, union_axes((closed, *limits)), self.sizes)
        elements = op_evaluation.BufferizedElements(node, dims, value, closed)
        elements.put(value, indices, self.active(value.axes))
        return elements.value(node, self.faults)

    # -- effects -----------------------------------------------------------------------------------

    def store(self, node: UOp) -> None:
        """Evaluate a STORE for each iteration of the ranges around it."""
        pointer, value = self.pointer(node.src[0]), self.value(node.src[1])
        open_loops = tuple(r for r in self.scopes[node] if r in self.sizes)
        address = broadcast_axes(
            pointer.address, union_axes([(r,) for r in open_loops]), self.sizes
        )
        write(
            node,
            Pointer(pointer.memory, address, pointer.gate),
            value,
            self.faults,
            active=self.active,
            ordered=_is_sequential,
            nest=self.nests.get(node, ()),
        )

    def assign(self, node: UOp) -> Value:
        """Return the new value of an ASSIGN; `_overwrite` changes the memory at the end."""
        self.assigned.append(node)
        aligned = Aligned(self.values(node), node)
        target, data = aligned.data
        shape = np.broadcast_shapes(target.shape, data.shape)
        return aligned.value(np.broadcast_to(data, shape), aligned.states[1])

    def _overwrite(self) -> None:
        """Write the values of all ASSIGNs to the memory of their targets."""
        for node in self.assigned:
            views = []
            base = node.src[0]
            while base.op.group is ops.MOVEMENT or base.op in (ops.AFTER, ops.ASSIGN):
                views.append(base)
                base = base.src[0]
            memory = self.env.get(base)
            if not isinstance(memory, Memory) or memory.dims is None:
                raise failure(
                    Fault(
                        node,
                        f"{describe(base)} is assigned to",
                        "only memory can be overwritten: a PARAM, a BUFFER, or a view of one",
                        "assign to the buffer that holds the value",
                    )
                )
            # the element numbers, from 1 on, in the view that is assigned to; padding has number 0
            count = node.dtype.count
            numbers = np.arange(1, len(memory.data) // count + 1).reshape((*memory.dims, 1))
            view = Value(numbers, (), len(memory.dims))
            for view_op in reversed(views):
                if view_op.op.group is ops.MOVEMENT:
                    view = apply_movement(
                        view_op, view, [self.scalar(s, view_op) for s in view_op.src[1:]]
                    )
            chosen = view.data[..., 0]
            value = self.value(node)
            self.faults.demand_valid(value, node, "INVALID is assigned as a value")
            data = np.broadcast_to(value.data, (*view.dims, count))
            rows = memory.data.reshape(-1, count)
            rows[chosen[chosen > 0] - 1] = data[chosen > 0]
            if memory.written is not None:
                memory.written.reshape(-1, count)[chosen[chosen > 0] - 1] = True

    # -- tensors -----------------------------------------------------------------------------------

    def movement(self, node: UOp) -> Value:
        """Evaluate a movement op."""
        sizes = [self.scalar(s, node) for s in node.src[1:]]
        return apply_movement(node, self.value(node.src[0]), sizes)

    def reduce_axes(self, node: UOp) -> Value:
        """Evaluate a REDUCE_AXIS."""
        return reduce_tensor_axes(node, self.value(node.src[0]), self.faults)

    def iota(self, node: UOp) -> Value:
        """Evaluate an IOTA: the position of each element along the axis."""
        dims = [self.scalar(s, node) for s in node.src]
        along = [-1 if axis == node.arg else 1 for axis in range(len(dims))]
        data = np.broadcast_to(np.arange(dims[node.arg]).reshape(along), dims)
        return Value(data[..., None], (), len(dims))

    def gather(self, node: UOp) -> Value:
        """Evaluate a GATHER."""
        values = self.values(node)
        return gather(node, values[0], values[1:])

    def unchanged(self, node: UOp) -> Value:
        """Evaluate a CONTIGUOUS, COPY or PULLBACK: the same value."""
        return self.value(node.src[0])

    handlers: ClassVar[dict[Op, Handler]] = {}


def _is_sequential(axis: AxisName) -> bool:
    """Return whether an axis is a loop that runs one iteration after the other."""
    return isinstance(axis, UOp) and axis.op is ops.RANGE and axis.arg[1] in SEQUENTIAL_AXES


GraphEvaluator.handlers.update(
    {
        **SHARED,
        ops.RANGE: GraphEvaluator.range_axis,
        ops.SPECIAL: GraphEvaluator.range_axis,
        ops.REDUCE: GraphEvaluator.reduce,
        ops.BUFFERIZE: GraphEvaluator.bufferize,
        ops.STORE: GraphEvaluator.store,
        ops.BARRIER: GraphEvaluator.nothing,
        ops.ASSIGN: GraphEvaluator.assign,
        ops.REDUCE_AXIS: GraphEvaluator.reduce_axes,
        ops.GATHER: GraphEvaluator.gather,
        ops.IOTA: GraphEvaluator.iota,
        ops.CONTIGUOUS: GraphEvaluator.unchanged,
        ops.COPY: GraphEvaluator.unchanged,
        ops.PULLBACK: GraphEvaluator.unchanged,
        **{op: GraphEvaluator.movement for op in ops.table() if op.group is ops.MOVEMENT},
    }
)
