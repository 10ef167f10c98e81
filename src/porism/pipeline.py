"""The pipeline on one page: every stage, in order, with the level of what it leaves.

A stage is a function from graph to graph. After each one the level is checked, and a watcher, if
there is one, sees the graph: that is how `explain` shows the stages, and how tests find the one
that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from porism.base.settings import settings
from porism.base.target import Target
from porism.ir import levels
from porism.ir.levels import GRAPH, KERNEL, RANGED, Level
from porism.ir.node import UOp
from porism.lower.expand import expand
from porism.lower.linearize import linearize
from porism.lower.local_memory import local_memory
from porism.optimize.heuristic import arranged
from porism.rewrite.graph import rewrite
from porism.rewrite.trace import Trace
from porism.rules.algebra import SYMBOLIC, SYMBOLIC_LATE
from porism.rules.index_dtype import lower_index_dtype
from porism.rules.reductions import REDUCTIONS
from porism.schedule import assignments
from porism.schedule.kernels import Call, kernels
from porism.schedule.rangeify import rangeify
from porism.schedule.split_reductions import split_reductions
from porism.schedule.schedule import Assigned, Schedule, schedule

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the pipeline."""

    name: str
    run: Callable[[UOp], UOp]
    leaves: Level


def _symbolic(sink: UOp) -> UOp:
    return rewrite(sink, SYMBOLIC, trace=_trace.get())


def _reductions(sink: UOp) -> UOp:
    return rewrite(sink, REDUCING, trace=_trace.get())


REDUCING: Final = REDUCTIONS + SYMBOLIC

GRAPH_STAGES: Final = (Stage("split reductions", split_reductions, GRAPH),)
"""On tensors with axes."""

RANGED_STAGES: Final = (Stage("simplify reductions", _reductions, RANGED),)
"""On the whole graph in ranges."""

KERNEL_STAGES: Final = (Stage("symbolic", _symbolic, KERNEL),)
"""On each kernel."""

def to_lines(kernel: UOp, target: Target) -> list[UOp]:
    """From a kernel with loops to a list of what a machine does."""
    widest = max(target.vector_bits, default=0) // 8
    kernel = local_memory(kernel)
    kernel = arranged(kernel, target)
    kernel = rewrite(kernel, SYMBOLIC_LATE)
    kernel = expand(kernel, max(widest, 1))
    kernel = rewrite(kernel, SYMBOLIC_LATE)
    kernel = lower_index_dtype(kernel)
    lines = linearize(kernel)
    if settings.check:
        levels.check_linear(lines, "linearize")
    return lines


Watcher = Callable[[str, Level, UOp], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)


@contextmanager
def watched(watcher: Watcher, trace: Trace | None = None) -> Iterator[None]:
    """Let a function see the graph after every stage, in this thread or task.

    With a trace, every rewrite is recorded as well.
    """
    tokens = _watcher.set(watcher), _trace.set(trace)
    try:
        yield
    finally:
        _watcher.reset(tokens[0])
        _trace.reset(tokens[1])


def run_stage(stage: Stage, graph: UOp) -> UOp:
    """The graph after a stage, checked."""
    result = stage.run(graph)
    _seen(stage.name, stage.leaves, result)
    return result


def _seen(name: str, level: Level, graph: UOp) -> None:
    if settings.check:
        levels.check(graph, level, name)
    watcher = _watcher.get()
    if watcher is not None:
        watcher(name, level, graph)


def to_schedule(graph: UOp, *, cached: bool = True) -> Schedule:
    """From tensors (a SINK of them, on PARAMs) to an ordered list of kernels.

    Kernels that were seen before are taken as they are, unless `cached` is false.
    """
    if not cached:
        _done.clear()
    _seen("build", GRAPH, graph)
    for stage in GRAPH_STAGES:
        graph = run_stage(stage, graph)
    found = rangeify(graph)
    _seen("rangeify", RANGED, found.sink)
    sink, reasons = found.sink, found.reasons
    for stage in RANGED_STAGES:
        sink = run_stage(stage, sink)
    calls = [_finished(call) for call in kernels(sink, reasons)]
    return schedule(sink, calls, _assigned(graph))


def _assigned(graph: UOp) -> list[Assigned]:
    found = list(assignments.targets(graph))
    assignments.check([assign for _, assign in found])
    return [
        Assigned(place, assignments.base(assign), _stages(assignments.copy_kernel(assign)))
        for place, assign in found
    ]


def _finished(call: Call) -> Call:
    """A kernel after the stages that every kernel goes through; equal kernels only once."""
    return Call(_stages(call.kernel), call.values, call.why)


def _stages(kernel: UOp) -> UOp:
    done = _done.get(kernel)
    if done is None:
        done = kernel
        _seen("kernels", KERNEL, done)
        for stage in KERNEL_STAGES:
            done = run_stage(stage, done)
        if len(_done) >= MOST_KERNELS:
            _done.clear()
        _done[kernel] = done
    return done


MOST_KERNELS: Final = 10_000
_done: dict[UOp, UOp] = {}
"""Kernels before and after their stages."""

