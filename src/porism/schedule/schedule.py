"""Schedule: kernels in order, the buffers that they read and write, and what each waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.facts.node_shape import Shape, shape
from porism.ir.node import UOp
from porism.schedule import memory_plan
from porism.schedule.inplace_outputs import overwritable_parameter, overwrites_safely
from porism.schedule.kernel_batches import batch_order
from porism.schedule.kernel_order import order_by_memory
from porism.schedule.memory_plan import Lifetime, Plan
from porism.schedule.rangeify.placement_cost import element_count

Parameters = tuple[int, ...]
"""The buffers of a kernel by position in the schedule, first those that it writes."""

_NO_KERNEL: Final = ops.SINK()


class Role(Enum):
    """What a buffer is for."""

    INPUT = "input"
    OUTPUT = "output"
    TEMPORARY = "temporary"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that kernels read or write."""

    role: Role
    number: int
    """Of an input the number of its PARAM; outputs and temporaries are numbered from 0."""
    dtype: DType
    dims: Shape

    @property
    def size(self) -> int:
        """The number of elements; an upper bound if sizes are symbolic."""
        return element_count(self.dims)

    @property
    def bytes(self) -> int:
        return self.size * self.dtype.numpy.itemsize

    @property
    def is_symbolic(self) -> bool:
        """Whether its size depends on variables."""
        return any(dim.op is not ops.CONST for dim in self.dims)

    @property
    def name(self) -> str:
        return f"{self.role.value}{self.number}"


@dataclass(frozen=True, slots=True)
class Step:
    """A kernel to be run."""

    kernel: UOp
    buffers: tuple[int, ...]
    """For each parameter its buffer, by position in `Schedule.buffers`: first what it writes."""
    after: tuple[int, ...]
    """Earlier steps that it waits for; it may run at the same time as all others."""
    reason: str
    """Why its result is stored."""
    writes: int = 1
    """How many of its buffers it writes, the first ones."""
    batch: int = -1
    """Consecutive steps of one batch run as one launch; -1 is a launch of its own."""
    _read_kernel: Callable[[], UOp] | None = field(default=None, repr=False, compare=False)
    """What reads the kernel of a step that comes from disk, at its first use."""

    def __getattr__(self, name: str) -> UOp:
        """Return the kernel of a step that was made without it."""
        if name != "kernel" or self._read_kernel is None:
            raise AttributeError(f"a step has no {name!r}")
        kernel = self._read_kernel()
        object.__setattr__(self, "kernel", kernel)
        return kernel

    @property
    def written(self) -> tuple[int, ...]:
        """The buffers that it writes."""
        return self.buffers[: self.writes]

    @property
    def read(self) -> tuple[int, ...]:
        """The buffers that it reads."""
        return self.buffers[self.writes :]


def deferred_step(
    read_kernel: Callable[[], UOp],
    buffers: Sequence[int],
    after: Sequence[int],
    reason: str,
    writes: int,
    batch: int,
) -> Step:
    """Return a step whose kernel is read at its first use."""
    step = Step(_NO_KERNEL, tuple(buffers), tuple(after), reason, writes, batch, read_kernel)
    object.__delattr__(step, "kernel")
    return step


@dataclass(frozen=True, slots=True)
class Schedule:
    """The kernels of a graph, in an order in which they can run."""

    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    """For each root of the graph the position of its buffer."""
    arena: Plan
    """The offsets of the temporaries, in the order of their numbers."""
    in_place: tuple[tuple[int, int], ...] = ()
    """Outputs and the inputs in whose memory they may be written, by position in `buffers`."""
    key: str = field(default="", compare=False)
    """The name of its entry on disk, by which entries of what was made from it are found."""


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel and the values that are its parameters."""

    kernel: UOp
    """A SINK at the KERNEL level."""
    values: tuple[UOp, ...]
    """The values of its parameters: first the BUFFERIZE that it computes, then what it reads, each
    a BUFFERIZE in global memory, a PARAM or a BUFFER."""
    reason: str
    """Why its result is stored."""
    parts: tuple[Call, ...] = ()
    """The kernels that were merged to it; it computes one value for each of them."""

    @property
    def writes(self) -> int:
        """How many values it computes: the first ones."""
        return len(self.parts) or 1


@dataclass(frozen=True, slots=True)
class Assigned:
    """A value that is copied to its target, which exists already, after all other kernels."""

    root: int
    """The position of the value among the roots."""
    memory: UOp
    """The PARAM or BUFFER that is overwritten."""
    kernel: UOp
    """The kernel that copies."""
    reason: str = "it is assigned"


Replaced = tuple[tuple[int, int], ...]
"""Roots that are new values of inputs: positions of roots, and numbers of PARAMs."""


def ordered_calls(
    sink: UOp, calls: Sequence[Call], waits: Mapping[int, Collection[int]] | None = None
) -> list[Call]:
    """Return kernels in the order in which they run; some also wait for others, by position."""
    used = [(call.values[: call.writes], call.values[call.writes :]) for call in calls]
    return [calls[k] for k in order_by_memory(used, frozenset(sink.src), waits)]


def schedule(
    sink: UOp,
    calls: Sequence[Call],
    assigned: Sequence[Assigned] = (),
    replaced: Replaced = (),
) -> Schedule:
    """Order kernels by what they read and write, and allocate the temporaries.

    The inputs that are `replaced` by outputs are overwritten where kernels can work in place.
    """
    positions: dict[UOp, int] = {}
    buffers: list[Buffer] = []

    def position(value: UOp) -> int:
        if value not in positions:
            positions[value] = len(buffers)
            buffers.append(_buffer(value, numbers))
        return positions[value]

    roots = dict.fromkeys(sink.src)
    numbers = {root: k for k, root in enumerate(roots)}
    overwriting = find_overwriting(sink, calls, replaced)
    ordered, batches = calls_in_batches(sink, calls, overwriting.waits)
    steps = [(call, tuple(position(value) for value in call.values)) for call in ordered]
    for root in roots:
        position(root)
    copies = []
    for copy in assigned:
        value = sink.src[copy.root]
        call = Call(copy.kernel, (), copy.reason)
        copies.append((call, (position(copy.memory), position(value))))
    writer = {b: k for k, (call, used) in enumerate(steps) for b in used[: call.writes]}
    readers: dict[int, list[int]] = {}
    for k, (call, used) in enumerate(steps):
        for b in used[call.writes :]:
            readers.setdefault(b, []).append(k)
    first_copy = len(steps)
    steps += copies
    numbered = _number_temporaries(buffers)
    arena = _plan(numbered, _lifetimes(numbered, writer, steps))
    waits = [{writer[b] for b in used[call.writes :] if b in writer} for call, used in steps]
    for k, (_, used) in enumerate(copies, first_copy):
        waits[k].update(readers.get(used[0], ()))  # those that read what is overwritten come first
    for later, earlier in arena.waits:
        waits[later].add(earlier)
    in_place = tuple((positions[new], positions[old]) for new, old in overwriting.pairs)
    for new, old in in_place:
        waits[writer[new]].update(k for k in readers[old] if k != writer[new])
    batches += [-1] * len(copies)
    for k, others in enumerate(waits):  # what waits for a step is not launched together with it
        if any(batches[other] == batches[k] for other in others):
            batches[k] = -1
    return Schedule(
        tuple(numbered),
        tuple(
            Step(call.kernel, used, tuple(sorted(earlier)), call.reason, call.writes, batch)
            for (call, used), earlier, batch in zip(steps, waits, batches, strict=True)
        ),
        tuple(positions[root] for root in sink.src),
        arena,
        in_place,
    )


def calls_in_batches(
    sink: UOp, calls: Sequence[Call], waits_for: Mapping[int, frozenset[int]]
) -> tuple[list[Call], list[int]]:
    """Return kernels in the order in which they run, and the batch of each; -1 if it is alone.

    Some kernels wait for others besides those that compute what they read, by position.
    """
    ordered = ordered_calls(sink, calls, waits_for)
    position = {call: k for k, call in enumerate(ordered)}
    waits = {
        position[calls[k]]: [position[calls[other]] for other in others]
        for k, others in waits_for.items()
    }
    order, batches = batch_order(
        [call.kernel for call in ordered],
        [(call.values[: call.writes], call.values[call.writes :]) for call in ordered],
        frozenset(sink.src),
        waits,
    )
    sizes = Counter(batches)
    return [ordered[k] for k in order], [b if sizes[b] > 1 else -1 for b in batches]


def launches(steps: Sequence[Step]) -> list[list[int]]:
    """Return the positions of the steps of each launch, in order."""
    found: list[list[int]] = []
    for k, step in enumerate(steps):
        if k and step.batch >= 0 and step.batch == steps[k - 1].batch:
            found[-1].append(k)
        else:
            found.append([k])
    return found


def _buffer(value: UOp, outputs: Mapping[UOp, int]) -> Buffer:
    if value.op is ops.PARAM:
        return Buffer(Role.INPUT, value.arg, value.dtype, shape(value))
    if value in outputs:
        return Buffer(Role.OUTPUT, outputs[value], value.dtype, shape(value))
    return Buffer(Role.TEMPORARY, -1, value.dtype, shape(value))


def _number_temporaries(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Return the buffers with the temporaries numbered in the order in which they are written."""
    numbered, temporaries = [], 0
    for buffer in buffers:
        if buffer.role is Role.TEMPORARY:
            buffer = Buffer(buffer.role, temporaries, buffer.dtype, buffer.dims)
            temporaries += 1
        numbered.append(buffer)
    return numbered


def _plan(buffers: Sequence[Buffer], lifetimes: Sequence[Lifetime]) -> Plan:
    """Return the arena of the temporaries; laid out by each run if some sizes are symbolic."""
    symbolic = any(b.is_symbolic for b in buffers if b.role is Role.TEMPORARY)
    return memory_plan.plan_slots(lifetimes) if symbolic else memory_plan.plan_memory(lifetimes)


def _lifetimes(
    buffers: Sequence[Buffer], writer: Mapping[int, int], steps: Sequence[tuple[Call, Parameters]]
) -> list[Lifetime]:
    """Return the lifetime of each temporary, and which other one its kernel may overwrite."""
    readers: dict[int, list[int]] = {}
    for k, (call, used) in enumerate(steps):
        for b in used[call.writes :]:
            readers.setdefault(b, []).append(k)
    temporaries = [b for b, buffer in enumerate(buffers) if buffer.role is Role.TEMPORARY]
    numbers = {b: number for number, b in enumerate(temporaries)}
    lifetimes = []
    for b in temporaries:
        k, size = writer[b], buffers[b].bytes
        call, used = steps[k]
        last_read = {  # temporaries that no later step reads
            n: numbers[other]
            for n, other in enumerate(used)
            if n and other in numbers and readers[other][-1] == k and buffers[other].bytes == size
            if used.count(other) == 1 and buffers[other].is_symbolic == buffers[b].is_symbolic
        }
        parameter = overwritable_parameter(call.kernel, last_read) if last_read else None
        overwrites = None if parameter is None else last_read[parameter]
        lifetimes.append(Lifetime(size, k, tuple(readers.get(b, ())), overwrites))
    return lifetimes


# -- outputs in the memory of inputs ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Overwriting:
    """Outputs that may overwrite inputs."""

    pairs: tuple[tuple[UOp, UOp], ...]
    """The values of the outputs, and the PARAMs."""
    waits: Mapping[int, frozenset[int]]
    """Kernels that overwrite an input, and those that have to read it before, by position."""


def find_overwriting(sink: UOp, calls: Sequence[Call], replaced: Replaced) -> Overwriting:
    """Return the outputs that kernels can write in the memory of the inputs that they replace.

    The kernel of such an output reads the input at the index that it stores at, and waits for all
    others that read it; so it must not compute what one of them reads.
    """
    if not replaced:
        return Overwriting((), {})
    writer = {v: k for k, call in enumerate(calls) for v in call.values[: call.writes]}
    readers: dict[UOp, set[int]] = {}
    for k, call in enumerate(calls):
        for value in call.values[call.writes :]:
            readers.setdefault(value, set()).add(k)
    parameters = {int(v.arg): v for v in readers if v.op is ops.PARAM}
    followers = [
        {reader for v in call.values[: call.writes] for reader in readers.get(v, ())}
        for call in calls
    ]
    pairs: list[tuple[UOp, UOp]] = []
    waits: dict[int, frozenset[int]] = {}
    for root, number in replaced:
        new, old = sink.src[root], parameters.get(number)
        k = writer.get(new, -1)
        if old is None or k < 0 or sink.src.count(new) > 1 or shape(old) != shape(new):
            continue
        values = calls[k].values
        if old not in values or not overwrites_safely(
            calls[k].kernel, values.index(new), values.index(old)
        ):
            continue
        others = frozenset(readers[old] - {k})
        if others.isdisjoint(_reachable(followers, k)):
            pairs.append((new, old))
            waits[k] = waits.get(k, frozenset()) | others
            for other in others:
                followers[other].add(k)
    return Overwriting(tuple(pairs), waits)


def _reachable(followers: Sequence[Collection[int]], start: int) -> set[int]:
    """Return the kernels that have to run after one."""
    found: set[int] = set()
    pending = list(followers[start])
    while pending:
        k = pending.pop()
        if k not in found:
            found.add(k)
            pending += followers[k]
    return found
