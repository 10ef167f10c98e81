"""Machine: one thread that goes through the steps of a kernel.

Loops are loops, a register is memory of the thread, local memory belongs to its block. The thread
stops at a BARRIER and is continued by `threads`, when all threads of the block have reached it.
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
from porism.evaluate.faults import position
from porism.evaluate.pointers import Place
from porism.evaluate.threads.kernel_steps import Action, Step
from porism.evaluate.threads.tracked_memory import Memory, lane_of
from porism.evaluate.varying_value import Aligned, AxisName, Value, merge, spread, union
from porism.ir import ops
from porism.ir.facts.effect_scopes import closed_ranges
from porism.ir.fragments import is_shared
from porism.ir.node import UOp
from porism.ir.ops import Op

GARBAGE: Final = 91
"""What integers in memory are before they are written, if they are something; floats are NaN."""

Element = tuple[Value, list[Value]]
"""A value, and the indices at which it is kept."""


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel in order, and what is known of its nodes."""

    steps: list[Step]
    wanted: set[UOp]
    """The INDEX nodes whose element is used."""
    idle: Mapping[UOp, tuple[UOp, ...]]
    """For a STORE, the launched ranges it is not inside of: only their first thread does it."""


class Machine(Evaluator):
    """A thread, with its own entries and registers."""

    refusal = "it runs kernels, with loops, memory, registers and threads"

    def __init__(
        self,
        session: Session,
        program: Program,
        place: Mapping[UOp, int],
        shared: dict[UOp, Memory],
        touch: Touch | None,
    ) -> None:
        super().__init__(session, program.wanted)
        self.program = program
        self.at = place  # the values of the counters that make this thread
        self.shared = shared  # the local memory of its block
        self.registers: dict[UOp, Memory] = {}
        self.touch = touch
        self.counts: dict[UOp, int] = {}
        self.gathered: dict[UOp, Value] = {}  # a REDUCE so far
        self.kept: dict[UOp, list[Element]] = {}  # a BUFFERIZE so far
        for node, number in place.items():
            self.env[node] = op_evaluation.number(node.dtype, number)

    def run(self) -> Iterator[UOp]:
        """Go through the steps; yields each BARRIER, and each WMMA of a warp."""
        steps = self.program.steps
        ends: dict[UOp, int] = {}
        at = 0
        while at < len(steps):
            step = steps[at]
            node, action = step.node, step.action
            at += 1
            if action is Action.RUN:
                if node.op is ops.BARRIER:
                    yield node
                elif is_shared(node):
                    yield node  # what this thread has of the product is set in between
                    continue
                self.env[node] = self.execute(node)
            elif action is Action.OPEN:
                end = self.scalar(node.src[0], node)
                if end <= 0:  # no iteration, or an IF whose condition does not hold
                    at = step.partner + 1
                elif node.op is ops.RANGE:
                    ends[node] = end
                    self.count(node, 0)
                else:
                    self.env[node] = None
            elif action is Action.CLOSE:
                if node.op is ops.RANGE:
                    if self.counts[node] + 1 < ends[node]:
                        self.count(node, self.counts[node] + 1)
                        at = step.partner + 1
                    else:
                        del self.counts[node]
            elif action is Action.RESET:
                self.gathered.pop(node, None)
                self.kept.pop(node, None)
            elif action is Action.FOLD:
                if node.op is ops.BUFFERIZE:
                    self.kept.setdefault(node, []).append(self.element(node))
                else:
                    self.gathered[node] = self.fold(node)
            else:
                is_kept = node.op is ops.BUFFERIZE
                self.env[node] = self.bufferize(node) if is_kept else self.finish(node)

    def count(self, node: UOp, number: int) -> None:
        self.counts[node] = number
        self.env[node] = op_evaluation.number(node.dtype, number)

    def entry(self, node: UOp) -> Entry:
        # lists need not name leaves such as constants
        if node not in self.env and not node.src:
            self.env[node] = self.execute(node)
        return self.env[node]

    def thread(self) -> str:
        where = {**self.at, **self.counts}
        return position(tuple(where), tuple(where.values()))

    # -- reductions --------------------------------------------------------------------------------

    def fold(self, node: UOp) -> Value:
        """Take the value of this iteration into a REDUCE."""
        value = self.reduce(node)
        before = self.gathered.get(node)
        if before is None:
            return value
        aligned = Aligned((before, value), node)
        data = op_evaluation.meaning(node.arg, node.dtype.element, *aligned.data)
        return aligned.value(data, merge(aligned.states))

    def finish(self, node: UOp) -> Value:
        found = self.gathered.pop(node, None)
        if found is not None:
            return found
        nothing = np.zeros((0, node.dtype.count), node.dtype.numpy)
        data, state = op_evaluation.reduced(node, node.arg, nothing, None, None, self.faults)
        return Value(data, state=state)

    def reduce(self, node: UOp) -> Value:
        """A REDUCE over unrolled axes, which are here all at once."""
        value = self.value(node.src[0])
        ends = [s for s in node.src[1:] if s.op is not ops.RANGE]
        if not ends and node.src[1:]:
            axes: list[AxisName] = []
        elif not ends:
            return value
        else:
            axes = [a for s in ends for a in self.value(s).axes if isinstance(a, int)]
        return op_evaluation.reduce_over(node, node.arg, value, axes, self.sizes, None, self.faults)

    # -- values kept for their ranges --------------------------------------------------------------

    def element(self, node: UOp) -> Element:
        """What a BUFFERIZE keeps of this iteration, and its indices."""
        indices = [self.value(s) for s in node.src[1:]]
        closed = union(v.axes for v in indices)
        return spread(self.scalar_value(node), closed, self.sizes), indices

    def bufferize(self, node: UOp) -> Value:
        """A BUFFERIZE, when its loops are over; without loops, of the one iteration there is."""
        elements = self.kept.pop(node, [])
        if not closed_ranges(node):
            elements = [self.element(node)]
        dims = [
            max((int(where[k].data.max(initial=0)) + 1 for _, where in elements), default=0)
            for k in range(len(node.src) - 1)
        ]
        nothing = Value(np.zeros(node.dtype.count, node.dtype.numpy))
        example, indices = elements[0] if elements else (nothing, [])
        kept = op_evaluation.Kept(node, dims, example, union(v.axes for v in indices))
        for value, where in elements:
            kept.put(value, where, None)
        return kept.value(node, self.faults)

    # -- memory ------------------------------------------------------------------------------------

    def local(self, node: UOp) -> Memory:
        found = self.shared.get(node)
        if found is None:
            found = self.shared[node] = _allocated(node, Space.LOCAL, garbage=self.session.garbage)
        return found

    def register(self, node: UOp) -> Memory:
        found = self.registers.get(node)
        if found is None:
            found = self.registers[node] = _allocated(
                node, Space.REGISTER, garbage=self.session.garbage
            )
        return found

    def read(self, node: UOp, place: Place, alternative: Value | None = None) -> Value:
        touch = None if place.memory.space is Space.REGISTER else self.touch
        return read(node, place, node.dtype, alternative, self.faults, touch)

    def store(self, node: UOp) -> None:
        place, value = self.place(node.src[0]), self.value(node.src[1])
        touch: Touch | None = None
        if place.memory.space is not Space.REGISTER:
            if any(self.at[r] for r in self.program.idle.get(node, ())):
                return
            touch = self.touch
        write(node, place, value, self.faults, touch=touch, ordered=_never, thread=self.thread)

    handlers: ClassVar[dict[Op, Handler]] = {}


def _never(axis: AxisName) -> bool:
    """No axis that is still there is a loop: lanes and unrolled axes have no order."""
    return False


def _allocated(node: UOp, space: Space, *, garbage: bool) -> Memory:
    memory = Memory.empty(node.dtype.element, node.dtype.size, space)
    if garbage:
        memory.data.fill(np.nan if lane_of(node.dtype).is_float else GARBAGE)
        memory.written = None
    return memory


Machine.handlers.update(
    {
        **SHARED,
        ops.DEFINE_LOCAL: Machine.local,
        ops.DEFINE_REG: Machine.register,
        ops.REDUCE: Machine.reduce,
        ops.BUFFERIZE: Machine.bufferize,
        ops.STORE: Machine.store,
        ops.BARRIER: Machine.nothing,
        ops.ENDIF: Machine.nothing,
    }
)
