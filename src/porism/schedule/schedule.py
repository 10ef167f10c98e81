"""The schedule: kernels in an order, the buffers they work on, and what each waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.facts.node_shape import Shape, shape
from porism.ir.node import UOp
from porism.schedule import memory_plan
from porism.schedule.inplace_outputs import replaceable
from porism.schedule.kernel_split import Call
from porism.schedule.memory_plan import Life, Plan
from porism.schedule.rangeify.placement_cost import count


class Role(Enum):
    """What a buffer is for."""

    INPUT = "input"
    OUTPUT = "output"
    TEMPORARY = "temporary"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that kernels work on."""

    role: Role
    number: int
    """Of an input: its PARAM. Of an output or a temporary: which one."""
    dtype: DType
    dims: Shape

    @property
    def size(self) -> int:
        """Elements, at most."""
        return count(self.dims)

    @property
    def bytes(self) -> int:
        return self.size * self.dtype.numpy.itemsize

    @property
    def name(self) -> str:
        return f"{self.role.value}{self.number}"


@dataclass(frozen=True, slots=True)
class Step:
    """A kernel to be run."""

    kernel: UOp
    buffers: tuple[int, ...]
    """The places in `Schedule.buffers` of its parameters; it writes the first."""
    after: tuple[int, ...]
    """Earlier steps that must be over, all others may run at the same time."""
    why: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """What to run, on what."""

    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    """For each root of the graph the place of its buffer."""
    arena: Plan
    """Where the temporaries are, in the order of their numbers."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A value that is copied over memory at the end."""

    root: int
    """Which of the roots it is."""
    memory: UOp
    kernel: UOp
    why: str = "it is assigned"


Used = tuple[int, ...]
"""The buffers of a kernel by their places, the one that it writes first."""


def schedule(sink: UOp, calls: Sequence[Call], assigned: Sequence[Assigned] = ()) -> Schedule:
    """Order kernels by what they read and write, and give temporaries their memory."""
    places: dict[UOp, int] = {}
    buffers: list[Buffer] = []

    def place(value: UOp) -> int:
        if value not in places:
            places[value] = len(buffers)
            buffers.append(_buffer(value, numbers))
        return places[value]

    roots = dict.fromkeys(sink.src)
    numbers = {root: k for k, root in enumerate(roots)}
    steps = [(call, tuple(place(value) for value in call.values)) for call in calls]
    for root in roots:
        place(root)
    copies = []
    for copy in assigned:
        value = sink.src[copy.root]
        copies.append((Call(copy.kernel, (), copy.why), (place(copy.memory), place(value))))
    writer = {used[0]: k for k, (_, used) in enumerate(steps)}
    readers: dict[int, list[int]] = {}
    for k, (_, used) in enumerate(steps):
        for b in used[1:]:
            readers.setdefault(b, []).append(k)
    first_copy = len(steps)
    steps += copies
    numbered = _numbered(buffers)
    arena = memory_plan.plan(_lives(numbered, writer, steps))
    waits: dict[int, set[int]] = {k: set() for k in range(len(steps))}
    for k, (_, used) in enumerate(steps):
        waits[k].update(writer[b] for b in used[1:] if b in writer)
        if k >= first_copy:  # those that read what is overwritten come first
            waits[k].update(readers.get(used[0], ()))
    for later, earlier in arena.waits:
        waits[later].add(earlier)
    return Schedule(
        tuple(numbered),
        tuple(
            Step(call.kernel, used, tuple(sorted(waits[k])), call.why)
            for k, (call, used) in enumerate(steps)
        ),
        tuple(places[root] for root in sink.src),
        arena,
    )


def _buffer(value: UOp, outputs: Mapping[UOp, int]) -> Buffer:
    if value.op is ops.PARAM:
        return Buffer(Role.INPUT, value.arg, value.dtype, shape(value))
    if value in outputs:
        return Buffer(Role.OUTPUT, outputs[value], value.dtype, shape(value))
    return Buffer(Role.TEMPORARY, -1, value.dtype, shape(value))


def _numbered(buffers: Sequence[Buffer]) -> list[Buffer]:
    """The buffers with numbers for the temporaries, in the order in which they are written."""
    found, temporaries = [], 0
    for buffer in buffers:
        if buffer.role is Role.TEMPORARY:
            buffer = Buffer(buffer.role, temporaries, buffer.dtype, buffer.dims)
            temporaries += 1
        found.append(buffer)
    return found


def _lives(
    buffers: Sequence[Buffer], writer: Mapping[int, int], steps: Sequence[tuple[Call, Used]]
) -> list[Life]:
    readers: dict[int, list[int]] = {}
    for k, (_, used) in enumerate(steps):
        for b in used[1:]:
            readers.setdefault(b, []).append(k)
    temporaries = [b for b, buffer in enumerate(buffers) if buffer.role is Role.TEMPORARY]
    numbers = {b: number for number, b in enumerate(temporaries)}
    lives = []
    for b in temporaries:
        k, size = writer[b], buffers[b].bytes
        call, used = steps[k]
        last = {  # what nobody reads later
            n: numbers[other]
            for n, other in enumerate(used)
            if n and other in numbers and readers[other][-1] == k and buffers[other].bytes == size
            if used.count(other) == 1
        }
        over = replaceable(call.kernel, last) if last else None
        lives.append(Life(size, k, tuple(readers.get(b, ())), None if over is None else last[over]))
    return lives
