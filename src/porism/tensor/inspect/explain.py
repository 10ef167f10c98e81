"""Explain: the kernels that compute tensors, their loops, and why each kernel is there."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from porism.backends.backend_table import native_backend
from porism.engine.profile import work_counts
from porism.engine.run.buffer_storage import realized_buffer
from porism.engine.run.kernel_source import kind_of, source_of
from porism.engine.run.realize import request, schedule_of
from porism.engine.tune.tuning_cache import tuned_actions
from porism.ir.facts.node_shape import to_text
from porism.ir.node import UOp
from porism.optimize.actions.action import Action
from porism.optimize.strategy import heuristic
from porism.pipeline import optimize_kernel, unscheduled_kernel
from porism.schedule.loop_listing import divisions, listing
from porism.schedule.schedule import Buffer, Role, Schedule
from porism.tensor.jit.jit import Jitted
from porism.tensor.shapes import shape_error
from porism.tensor.tensor import Tensor, device_name
from porism.viewer.stage_diffs import stage_report

SOURCES: Final = {"llvm": "LLVM IR", "assembly": "assembly", "c": "C"}
"""The kinds of source text, and what each is called in print."""


@dataclass(frozen=True)
class Kernel:
    """One kernel of a schedule, which is described and not run."""

    number: int
    """The position in the schedule."""
    node: UOp
    """The kernel as a graph, before its loops are scheduled for a machine."""
    text: str
    """The loops of `node` as a listing."""
    writes: str
    """The output buffer: name, shape and type."""
    reads: tuple[str, ...]
    """The input buffers: name, shape and type of each."""
    why: str
    """Why the result is stored in memory, and not computed where it is used."""
    bytes_written: int
    bytes_read: int
    after: tuple[int, ...]
    """The numbers of the kernels that have to run before; all others may run concurrently."""
    divisions: int
    """How many divisions and remainders are left in the index expressions of the loops."""
    names: tuple[str, ...]
    """The names of the buffers in the listing, the output first."""

    @property
    def name(self) -> str:
        """The name under which `porism.profile()` and `PORISM_DEBUG` report the kernel."""
        return work_counts.kernel_name(self.node)

    def source(self, kind: str | bool = True) -> str:
        """Return the kernel as "llvm", "assembly" or "c"; True is what the backend compiles."""
        return source_of(self.node, kind, f"kernel{self.number}")

    @property
    def scheduled(self) -> str:
        """The loops as they are compiled for this machine, as a listing."""
        backend = native_backend()
        actions = tuned_actions(self.node, backend)
        loops = optimize_kernel(self.node, backend.target(), actions=actions)
        return listing(loops, dict(enumerate(self.names)))

    @property
    def actions(self) -> tuple[Action, ...]:
        """The loop schedule for this machine: as tuned, or else as the heuristic chooses it."""
        tuned = tuned_actions(self.node, native_backend())
        if tuned is not None:
            return tuned
        target = native_backend().target()
        return heuristic.choose_actions(unscheduled_kernel(self.node, target), target)

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.after))
        after = f"; runs after kernel{'s' * (len(self.after) > 1)} {numbers}" if numbers else ""
        reads = ", ".join(self.reads) or "nothing"
        actions = ", ".join(map(str, self.actions)) or "none, the loops stay as they are"
        return "\n".join(
            [
                f"kernel {self.number}: writes {self.writes}",
                f"  reads {reads}{after}",
                f"  {self.why}; {_bytes(self.bytes_written)} written, "
                f"{_bytes(self.bytes_read)} read",
                textwrap.indent(self.text, "    "),
                f"  loop schedule: {actions}",
            ]
        )


def _schedule(nodes: Sequence[UOp]) -> Schedule:
    """Return the schedule of some nodes, for the device of the first."""
    device = device_name(nodes[0])
    return schedule_of(request(nodes, device).graph, (), device)


def kernels(*tensors: Tensor) -> list[Kernel]:
    """Return the kernels that compute some tensors, in order, without running them.

    >>> import porism
    >>> x = porism.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> [kernel.writes for kernel in kernels(x.softmax())]
    ['output0 (2, 2) float32']
    """
    nodes = _unrealized(tensors)
    return _kernels(_schedule(nodes)) if nodes else []


def explain(
    *tensors: Tensor | Jitted[Any, Any], stages: bool = False, source: str | bool = False
) -> None:
    """Print the kernels that compute some tensors.

    With `stages`, first print what each stage of the pipeline changes, as diffs, from the graph of
    tensors down to the instructions of each kernel. `source` is "llvm", "assembly" or "c", and
    prints each kernel as that too; True stands for what the backend compiles. Of a jitted function,
    print the kernels of each traced program, and those that run once for its constants.

    >>> porism.explain(porism.arange(29) * 31)
    kernel 0: writes output0 (29,) int64
      reads nothing
      it is an output; 232 bytes written, 0 bytes read
        for r0 < 29:
            output0[r0] = cast(r0, i64) * 31
      loop schedule: ...
    """
    kind = kind_of(source) if source is not False else None
    for function in tensors:
        if isinstance(function, Jitted):
            _print_function(function, kind)
    others = tuple(tensor for tensor in tensors if not isinstance(tensor, Jitted))
    if tensors and not others:
        return
    nodes = _unrealized(others)
    if not nodes:
        print("nothing is left to be computed: all values are realized")
        return
    device = device_name(nodes[0])
    graph = request(nodes, device).graph
    if stages:
        for block in stage_report(graph):
            print(block)
    _print_schedule(schedule_of(graph, (), device), kind)


def _print_function(function: Jitted[Any, Any], kind: str | None) -> None:
    """Print the programs of a jitted function, one for each signature."""
    for number, program in enumerate(function.programs):
        print(f"program {number} of {function.__name__}")
        if program.schedule is not None:
            _print_schedule(program.schedule, kind)
        constants = program.constants
        once = constants.constant_program
        if once is not None and once.schedule is not None:
            size = _bytes(sum(once.sizes))
            print(f"computed once from constants, {size}, until one of them is assigned to:")
            _print_schedule(once.schedule, kind)
        for copy in () if constants.program is None else constants.program.copies:
            size = _bytes(copy.size * copy.dtype.numpy.itemsize)
            print(
                f"pre-packed once, {size}: input{copy.source}, as kernels read it along "
                f"{', '.join(copy.axes)}"
            )
    if not function.programs:
        print(f"{function.__name__} was not called yet, so it has no programs")


def _print_schedule(schedule: Schedule, kind: str | None) -> None:
    """Print the kernels of a schedule, and the memory that their temporary buffers take."""
    for kernel in _kernels(schedule):
        print(kernel)
        if kind is not None:
            print(f"  as {SOURCES[kind]}:")
            print(textwrap.indent(kernel.source(kind).rstrip("\n"), "    "))
    arena = schedule.arena
    if arena.sum:
        saved = f", {_bytes(arena.sum)} without reuse" if arena.sum > arena.peak else ""
        print(f"temporary buffers take {_bytes(arena.peak)} of memory{saved}")


def _unrealized(tensors: tuple[Tensor, ...]) -> list[UOp]:
    """Return the nodes of the tensors whose values are not in memory yet."""
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise shape_error(
                f"a {type(tensor).__name__} has no kernels",
                "kernels compute tensors",
                "pass tensors, such as porism.asarray(…).exp(), or a jitted function",
            )
    return [t.node for t in tensors if realized_buffer(t.node) is None]


def _kernels(schedule: Schedule) -> list[Kernel]:
    """Return a description of each kernel of a schedule."""
    counts = divisions([step.kernel for step in schedule.steps])
    kernels = []
    for number, step in enumerate(schedule.steps):
        buffers = [schedule.buffers[b] for b in step.buffers]
        names = {k: buffer.name for k, buffer in enumerate(buffers)}
        kernels.append(
            Kernel(
                number,
                step.kernel,
                listing(step.kernel, names),
                ", ".join(_buffer_text(b) for b in buffers[: step.writes]),
                tuple(_buffer_text(b) for b in buffers[step.writes :]),
                _reason(schedule, step.buffers[0], step.reason),
                sum(b.bytes for b in buffers[: step.writes]),
                sum(b.bytes for b in buffers[step.writes :]),
                step.after,
                counts[number],
                tuple(names.values()),
            )
        )
    return kernels


def _reason(schedule: Schedule, buffer: int, why: str) -> str:
    """Return why a buffer is stored, with the kernels that read it if it is a temporary one."""
    readers = [k for k, step in enumerate(schedule.steps) if buffer in step.read]
    if schedule.buffers[buffer].role is Role.TEMPORARY and readers:
        numbers = ", ".join(map(str, readers))
        return f"{why}; read by kernel{'s' * (len(readers) > 1)} {numbers}"
    return why


def _buffer_text(buffer: Buffer) -> str:
    """Return the name, the shape and the type of a buffer."""
    from porism.tensor.promotion import name_of

    return f"{buffer.name} {to_text(buffer.dims)} {name_of(buffer.dtype)}"


def _bytes(count: int) -> str:
    """Return a number of bytes in the largest unit that keeps it at 1 or more."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError
