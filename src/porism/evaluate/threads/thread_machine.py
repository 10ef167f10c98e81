"""Thread machine: one thread that executes the steps of a kernel.

Registers are memory of the thread, local memory belongs to its block. The thread stops at a BARRIER
and is resumed by `thread_blocks` when all threads of the block have reached it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from porism.base.dtypes import Space
from porism.evaluate import op_evaluation
from porism.evaluate.array_access import Touch, read, write
from porism.evaluate.evaluator import SHARED, Entry, Evaluator, Handler, Session
from porism.evaluate.faults import iteration_text
from porism.evaluate.pointers import Pointer
from porism.evaluate.threads.kernel_steps import Step, StepKind
from porism.evaluate.threads.tracked_memory import Memory, lane_of
from porism.evaluate.varying_value import (
    Aligned,
    AxisName,
    Value,
    broadcast_axes,
    merge_states,
    union_axes,
)
from porism.ir import ops
from porism.ir.facts.effect_scopes import closed_ranges
from porism.ir.fragments import is_warp_product
from porism.ir.node import UOp
from porism.ir.ops import Op

GARBAGE: Final = 91
"""The arbitrary contents of unwritten integers, under `garbage`; floats are NaN."""

Element = tuple[Value, list[Value]]
"""An element of a BUFFERIZE, and its indices."""


@dataclass(frozen=True, slots=True)
class Program:
    """The steps of a kernel, and facts of its nodes."""

    steps: list[Step]
    wanted: set[UOp]
    """The INDEX nodes whose element is used."""
    outside_ranges: Mapping[UOp, tuple[UOp, ...]]
    """For a STORE, the launched ranges that are not around it: only their first thread runs it."""


class ThreadMachine(Evaluator):
    """The evaluation of a kernel by one thread, with its own entries and registers."""

    refusal = "kernels run here, with loops, memory, registers and threads"

    def __init__(
        self,
        session: Session,
        program: Program,
        indices: Mapping[UOp, int],
        shared: dict[UOp, Memory],
        touch: Touch | None,
    ) -> None:
        super().__init__(session, program.wanted)
        self.program = program
        self.at = indices  # the block and thread indices of this thread
        self.shared = shared  # the local memory of its block
        self.registers: dict[UOp, Memory] = {}
        self.touch = touch
        self.counts: dict[UOp, int] = {}
        self.accumulators: dict[UOp, Value] = {}  # the accumulator of a REDUCE
        self.elements: dict[UOp, list[Element]] = {}  # the elements of a BUFFERIZE
        for node, number in indices.items():
            self.env[node] = op_evaluation.number(node.dtype, number)

    def run(self) -> Iterator[UOp]:
        """Execute the steps; yield at each BARRIER, and at each WMMA of a warp."""
        steps = self.program.steps
        extents: dict[UOp, int] = {}
        at = 0
        while at < len(steps):
            step = steps[at]
            node, kind = step.node, step.kind
            at += 1
            if kind is StepKind.RUN:
                if node.op is ops.BARRIER:
                    yield node
                elif is_warp_product(node):
                    yield node  # the caller sets the fragment of this thread
                    continue
                self.env[node] = self.execute(node)
            elif kind is StepKind.OPEN:
                extent = self.scalar(node.src[0], node)
                if extent <= 0:  # no iteration, or an IF whose condition does not hold
                    at = step.partner + 1
                elif node.op is ops.RANGE:
                    extents[node] = extent
                    self.count(node, 0)
                else:
                    self.env[node] = None
            elif kind is StepKind.CLOSE:
                if node.op is ops.RANGE:
                    if self.counts[node] + 1 < extents[node]:
                        self.count(node, self.counts[node] + 1)
                        at = step.partner + 1
                    else:
                        del self.counts[node]
            elif kind is StepKind.RESET:
                self.accumulators.pop(node, None)
                self.elements.pop(node, None)
            elif kind is StepKind.FOLD:
                if node.op is ops.BUFFERIZE:
                    self.elements.setdefault(node, []).append(self.element(node))
                else:
                    self.accumulators[node] = self.fold(node)
            else:
                is_buffer = node.op is ops.BUFFERIZE
                self.env[node] = self.bufferize(node) if is_buffer else self.finish(node)

    def count(self, node: UOp, number: int) -> None:
        """Set the iteration of a loop."""
        self.counts[node] = number
        self.env[node] = op_evaluation.number(node.dtype, number)

    def entry(self, node: UOp) -> Entry:
        """Return the entry of a node; a list need not contain constants and other leaves."""
        if node not in self.env and not node.src:
            self.env[node] = self.execute(node)
        return self.env[node]

    def thread(self) -> str:
        """Return the indices of this thread and its loops as text."""
        where = {**self.at, **self.counts}
        return iteration_text(tuple(where), tuple(where.values()))

    # -- reductions --------------------------------------------------------------------------------

    def fold(self, node: UOp) -> Value:
        """Return the accumulator of a REDUCE combined with the value of this iteration."""
        value = self.reduce(node)
        before = self.accumulators.get(node)
        if before is None:
            return value
        aligned = Aligned((before, value), node)
        data = op_evaluation.meaning(node.arg, node.dtype.element, *aligned.data)
        return aligned.value(data, merge_states(aligned.states))

    def finish(self, node: UOp) -> Value:
        """Return the result of a REDUCE; its identity if there was no iteration."""
        total = self.accumulators.pop(node, None)
        if total is not None:
            return total
        nothing = np.zeros((0, node.dtype.count), node.dtype.numpy)
        data, state = op_evaluation.reduce_first_axis(
            node, node.arg, nothing, None, None, self.faults
        )
        return Value(data, state=state)

    def reduce(self, node: UOp) -> Value:
        """Return the reduction over unrolled axes, whose iterations are evaluated at once."""
        value = self.value(node.src[0])
        unrolled = [s for s in node.src[1:] if s.op is not ops.RANGE]
        if not unrolled and node.src[1:]:
            axes: list[AxisName] = []
        elif not unrolled:
            return value
        else:
            axes = [a for s in unrolled for a in self.value(s).axes if isinstance(a, int)]
        return op_evaluation.reduce_over(node, node.arg, value, axes, self.sizes, None, self.faults)

    # -- materialized values -----------------------------------------------------------------------

    def element(self, node: UOp) -> Element:
        """Return the element of a BUFFERIZE in this iteration, and its indices."""
        indices = [self.value(s) for s in node.src[1:]]
        closed = union_axes(v.axes for v in indices)
        return broadcast_axes(self.scalar_value(node), closed, self.sizes), indices

    def bufferize(self, node: UOp) -> Value:
        """Return a BUFFERIZE after its loops; without loops, that of its one element."""
        elements = self.elements.pop(node, [])
        if not closed_ranges(node):
            elements = [self.element(node)]
        dims = [
            max((int(where[k].data.max(initial=0)) + 1 for _, where in elements), default=0)
            for k in range(len(node.src) - 1)
        ]
        nothing = Value(np.zeros(node.dtype.count, node.dtype.numpy))
        example, indices = elements[0] if elements else (nothing, [])
        buffer = op_evaluation.BufferizedElements(
            node, dims, example, union_axes(v.axes for v in indices)
        )
        for value, where in elements:
            buffer.put(value, where, None)
        return buffer.value(node, self.faults)

    # -- memory ------------------------------------------------------------------------------------

    def local(self, node: UOp) -> Memory:
        """Return the local memory of the block; the first thread allocates it."""
        memory = self.shared.get(node)
        if memory is None:
            memory = _allocate(node, Space.LOCAL, garbage=self.session.garbage)
            self.shared[node] = memory
        return memory

    def register(self, node: UOp) -> Memory:
        """Return the register of the thread."""
        memory = self.registers.get(node)
        if memory is None:
            memory = _allocate(node, Space.REGISTER, garbage=self.session.garbage)
            self.registers[node] = memory
        return memory

    def read(self, node: UOp, pointer: Pointer, alternative: Value | None = None) -> Value:
        """Return the elements at a pointer; accesses to registers are not recorded."""
        touch = None if pointer.memory.space is Space.REGISTER else self.touch
        return read(node, pointer, node.dtype, alternative, self.faults, touch)

    def store(self, node: UOp) -> None:
        """Evaluate a STORE, in the first thread of each range that is not around it."""
        pointer, value = self.pointer(node.src[0]), self.value(node.src[1])
        touch: Touch | None = None
        if pointer.memory.space is not Space.REGISTER:
            if any(self.at[r] for r in self.program.outside_ranges.get(node, ())):
                return
            touch = self.touch
        write(node, pointer, value, self.faults, touch=touch, ordered=_never, thread=self.thread)

    handlers: ClassVar[dict[Op, Handler]] = {}


def _never(axis: AxisName) -> bool:
    """Return False: the remaining axes are lanes and unrolled axes, which have no order."""
    return False


def _allocate(node: UOp, space: Space, *, garbage: bool) -> Memory:
    """Return new memory of a DEFINE_LOCAL or DEFINE_REG."""
    memory = Memory.empty(node.dtype.element, node.dtype.size, space)
    if garbage:
        memory.data.fill(np.nan if lane_of(node.dtype).is_float else GARBAGE)
        memory.written = None
    return memory


ThreadMachine.handlers.update(
    {
        **SHARED,
        ops.DEFINE_LOCAL: ThreadMachine.local,
        ops.DEFINE_REG: ThreadMachine.register,
        ops.REDUCE: ThreadMachine.reduce,
        ops.BUFFERIZE: ThreadMachine.bufferize,
        ops.STORE: ThreadMachine.store,
        ops.BARRIER: ThreadMachine.nothing,
        ops.ENDIF: ThreadMachine.nothing,
    }
)
