"""Explain: which kernels a tensor needs, what they do, and why each is there."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from porism.backends.backend_table import native
from porism.engine.profile import work_counts
from porism.engine.run.buffer_storage import realized
from porism.engine.run.kernel_source import kind_of, source_of
from porism.engine.run.realize import request, schedule_of
from porism.engine.tune.tuning_cache import tuned_actions
from porism.ir.facts.node_shape import to_text
from porism.ir.levels import Level
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.loop_actions import Action
from porism.optimize.strategy import heuristic
from porism.pipeline import to_loops, to_schedule, watched
from porism.rewrite.rewrite_trace import Trace
from porism.schedule.loop_listing import divisions, listing
from porism.schedule.schedule import Buffer, Role, Schedule
from porism.tensor.jit.jit import Jitted
from porism.tensor.shapes import refuse
from porism.tensor.tensor import Tensor

SOURCES: Final = {"llvm": "LLVM IR", "assembly": "assembly", "c": "C"}
"""What the kinds of source are called."""


@dataclass(frozen=True)
class Kernel:
    """One kernel of a computation, without running it."""

    number: int
    node: UOp
    """The kernel itself, as a graph."""
    text: str
    """Its loops, to be read."""
    writes: str
    reads: tuple[str, ...]
    why: str
    """Why its result is stored, and not computed where it is used."""
    bytes_written: int
    bytes_read: int
    after: tuple[int, ...]
    """The kernels that it waits for; all others may run at the same time."""
    divisions: int
    """Divisions and remainders of indices that are left in its loops."""
    names: tuple[str, ...]
    """What its buffers are called in the text."""

    @property
    def name(self) -> str:
        """What it is called where it is timed: by `porism.profile()` and under `PORISM_DEBUG`."""
        return work_counts.name_of(self.node)

    def source(self, kind: str | bool = True) -> str:
        """Its text for this machine: "llvm", "assembly" or "c"; True is what is compiled."""
        return source_of(self.node, kind, f"kernel{self.number}")

    @property
    def arranged(self) -> str:
        """Its loops as they are compiled for this machine, to be read."""
        backend = native()
        actions = tuned_actions(self.node, backend)
        loops = to_loops(self.node, backend.target(), actions=actions)
        return listing(loops, dict(enumerate(self.names)))

    @property
    def actions(self) -> tuple[Action, ...]:
        """What Porism does to its loops for this machine: as it was tuned, or by the heuristic."""
        tuned = tuned_actions(self.node, native())
        if tuned is not None:
            return tuned
        target = native().target()
        return heuristic.choose_actions(to_loops(self.node, target, arrange=False), target)

    def __str__(self) -> str:
        waits = ", ".join(map(str, self.after))
        reads = ", ".join(self.reads) or "nothing"
        return "\n".join(
            [
                f"kernel {self.number}: writes {self.writes}",
                f"  reads {reads}" + (f"; after {waits}" if waits else ""),
                f"  {self.why}; {_bytes(self.bytes_written)} written, "
                f"{_bytes(self.bytes_read)} read",
                textwrap.indent(self.text, "    "),
                f"  arranged by {', '.join(map(str, self.actions)) or 'nothing: the loops stay'}",
            ]
        )


def kernels(*tensors: Tensor) -> list[Kernel]:
    """The kernels that compute some tensors, in order, without running them.

    >>> import porism
    >>> x = porism.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> [kernel.writes for kernel in kernels(x.softmax())]
    ['output0 (2, 2) float32']
    """
    nodes = _missing(tensors)
    if not nodes:
        return []
    schedule = schedule_of(request(nodes).graph)
    return _described(schedule)


def explain(
    *tensors: Tensor | Jitted[Any, Any], stages: bool = False, source: str | bool = False
) -> None:
    """Print the kernels that compute some tensors, and with `stages` how they came about.

    `source` is "llvm", "assembly" or "c", and prints each kernel as that too; True stands for what
    the backend compiles. Of a jitted function, the kernels of each of its programs are printed, and
    what was computed once.
    """
    kind = kind_of(source) if source is not False else None
    for function in tensors:
        if isinstance(function, Jitted):
            _print_function(function, kind)
    rest = tuple(tensor for tensor in tensors if not isinstance(tensor, Jitted))
    if tensors and not rest:
        return
    nodes = _missing(rest)
    if not nodes:
        print("nothing is left to be computed: the values are there already")
        return
    graph = request(nodes).graph
    if stages:
        _print_stages(graph)
    _print_schedule(schedule_of(graph), kind)


def _print_function(function: Jitted[Any, Any], kind: str | None) -> None:
    """The programs of a jitted function, one for each signature."""
    for number, program in enumerate(function.programs):
        print(f"program {number} of {function.__name__}")
        if program.schedule is not None:
            _print_schedule(program.schedule, kind)
        lasting = program.lasting
        if lasting.once is not None:
            size = _bytes(sum(lasting.once.sizes))
            print(f"computed once, {size}, until a tensor from outside is assigned to:")
            _print_schedule(lasting.once.schedule, kind)
        for copy in () if lasting.program is None else lasting.program.copies:
            size = _bytes(copy.size * copy.dtype.numpy.itemsize)
            print(
                f"laid out once, {size}: input{copy.source}, as kernels read it along "
                f"{', '.join(copy.axes)}"
            )
    if not function.programs:
        print(f"{function.__name__} was not called yet: it has no programs")


def _print_schedule(schedule: Schedule, kind: str | None) -> None:
    for kernel in _described(schedule):
        print(kernel)
        if kind is not None:
            print(f"  as {SOURCES[kind]}:")
            print(textwrap.indent(kernel.source(kind).rstrip("\n"), "    "))
    arena = schedule.arena
    if arena.sum:
        saved = f", of {_bytes(arena.sum)} without sharing" if arena.sum > arena.peak else ""
        print(f"between the kernels {_bytes(arena.peak)} of memory are needed{saved}")


def _missing(tensors: tuple[Tensor, ...]) -> list[UOp]:
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise refuse(
                f"a {type(tensor).__name__} has no kernels",
                "kernels compute tensors",
                "pass tensors, such as porism.asarray(…).exp(), or a jitted function",
            )
    return [t.node for t in tensors if realized(t.node) is None]


def _described(schedule: Schedule) -> list[Kernel]:
    counts = divisions([step.kernel for step in schedule.steps])
    found = []
    for number, step in enumerate(schedule.steps):
        buffers = [schedule.buffers[b] for b in step.buffers]
        names = {k: buffer.name for k, buffer in enumerate(buffers)}
        found.append(
            Kernel(
                number,
                step.kernel,
                listing(step.kernel, names),
                _described_buffer(buffers[0]),
                tuple(_described_buffer(b) for b in buffers[1:]),
                _reason(schedule, step.buffers[0], step.why),
                buffers[0].bytes,
                sum(b.bytes for b in buffers[1:]),
                step.after,
                counts[number],
                tuple(names.values()),
            )
        )
    return found


def _reason(schedule: Schedule, place: int, why: str) -> str:
    readers = [k for k, step in enumerate(schedule.steps) if place in step.buffers[1:]]
    if schedule.buffers[place].role is Role.TEMPORARY and readers:
        return f"{why}, by kernel{'s' * (len(readers) > 1)} {', '.join(map(str, readers))}"
    return why


def _described_buffer(buffer: Buffer) -> str:
    from porism.tensor.promotion import name_of

    return f"{buffer.name} {to_text(buffer.dims)} {name_of(buffer.dtype)}"


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def _print_stages(graph: UOp) -> None:
    trace = Trace()
    before: Counter[str] = Counter()

    def see(name: str, level: Level, now: UOp) -> None:
        nonlocal before
        counts = Counter(trace.counts())
        fired = counts - before
        before = counts
        print(f"after {name}: {len(toposort(now))} nodes, level {level.name}")
        print(textwrap.indent(show(now, limit=2000), "    "))
        if fired:
            rules = ", ".join(f"{rule} x{count}" for rule, count in fired.most_common())
            print(f"    rules: {rules}")

    with watched(see, trace):
        to_schedule(graph, cached=False)
