"""The pipeline on one page: every stage, in order, with the level of what it leaves.

    tensors      GRAPH_STAGES, then `rangeify`
    the graph in ranges      RANGED_STAGES, then it is cut into kernels
    each kernel      KERNEL_STAGES: loops without needless divisions, as few as possible
    each kernel for a target      TARGET_STAGES, then `linearize`

A stage is a function from graph to graph. After each one the level is checked, and a watcher, if
there is one, sees the graph: that is how `explain` shows the stages, and how tests find the one
that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from porism.base.settings import settings
from porism.base.target import Target
from porism.ir import levels
from porism.ir.levels import GRAPH, KERNEL, LANES, RANGED, THREADS, WORDS, Level
from porism.ir.node import UOp
from porism.ir.node_collector import quiet_collector
from porism.lower.decompose.decompose import decompose
from porism.lower.decompose.decomposition_options import Machine
from porism.lower.expand import expand
from porism.lower.gpu.block_memory import block_memory
from porism.lower.gpu.gpu_dims import gpu_dims, to_blocks
from porism.lower.gpu.group_reduce import group_reduce
from porism.lower.gpu.tensor_core_products import tensor_cores
from porism.lower.indirect_prefetch import with_later
from porism.lower.linearize import linearize
from porism.lower.local_memory import local_memory
from porism.lower.private_memory import private_memory
from porism.optimize.actions.loop_actions import Action, apply_all
from porism.optimize.strategy import heuristic
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rewrite_trace import Trace, begin
from porism.rewrite.rule import RuleSet
from porism.rules.addresses.index_dtype import lower_index_dtype
from porism.rules.algebra.fast_math_rules import FAST_MATH
from porism.rules.reductions.reduction_rules import FAST_REDUCTIONS, REDUCTIONS
from porism.rules.rule_sets import SYMBOLIC, SYMBOLIC_LATE
from porism.schedule import assignments
from porism.schedule.kernel_split import Call, kernels
from porism.schedule.loops.early_movement import early_movement
from porism.schedule.loops.initial_symbolic import symbolic
from porism.schedule.loops.loop_guards import shrink_ranges
from porism.schedule.loops.range_transforms import flatten_ends, merge_ranges, split_ranges
from porism.schedule.loops.scatter_stores import scatter
from porism.schedule.loops.split_reductions import split_reductions
from porism.schedule.ranged_stages import rewritten, without_needless_buffers
from porism.schedule.rangeify.rangeify import Ranged, rangeify
from porism.schedule.schedule import Assigned, Schedule, schedule

Watcher = Callable[[str, Level, UOp], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)


@dataclass(frozen=True, slots=True)
class Stage:
    """A step on one graph."""

    name: str
    run: Callable[[UOp], UOp]
    leaves: Level


@dataclass(frozen=True, slots=True)
class RangedStage:
    """A step on the whole graph in ranges, with what is known of its stored values."""

    name: str
    run: Callable[[Ranged], Ranged]


@dataclass(frozen=True, slots=True)
class TargetStage:
    """A step on a kernel that depends on the machine."""

    name: str
    run: Callable[[UOp, Target], UOp]
    leaves: Level


def _by(rules: RuleSet) -> Callable[[UOp], UOp]:
    return lambda graph: rewrite(graph, rules, trace=_trace.get())


EXACT: Final = REDUCTIONS + SYMBOLIC
FAST: Final = EXACT + FAST_MATH + FAST_REDUCTIONS


def _ranged_rules() -> RuleSet:
    """The rules for the whole graph; with `fast_math` also those that change float results."""
    return FAST if settings.fast_math else EXACT


GRAPH_STAGES: Final = (Stage("split reductions", split_reductions, GRAPH),)

RANGED_STAGES: Final = (
    RangedStage("simplify reductions", lambda r: rewritten(r, _by(_ranged_rules()))),
    RangedStage("remove buffers", without_needless_buffers),
)

KERNEL_STAGES: Final = (
    Stage("early movement", early_movement, KERNEL),
    Stage("flatten ends", flatten_ends, KERNEL),
    Stage("scatter", scatter, KERNEL),
    Stage("split ranges", split_ranges, KERNEL),
    Stage("symbolic", symbolic, KERNEL),
    Stage("shrink ranges", shrink_ranges, KERNEL),
    Stage("merge ranges", merge_ranges, KERNEL),
    Stage("split merged ranges", split_ranges, KERNEL),
    Stage("symbolic after merging", symbolic, KERNEL),
)

TARGET_STAGES: Final = (
    TargetStage("local memory", lambda kernel, _: local_memory(kernel), KERNEL),
    TargetStage("arrange loops", heuristic.schedule_loops, KERNEL),
    TargetStage("to blocks", to_blocks, KERNEL),
    TargetStage("private memory", lambda kernel, _: private_memory(kernel), KERNEL),
    TargetStage("tensor cores", tensor_cores, THREADS),
    TargetStage("block memory", block_memory, THREADS),
    TargetStage("group reduce", lambda kernel, _: group_reduce(kernel), THREADS),
    TargetStage("gpu dims", gpu_dims, THREADS),
    TargetStage("masks on loads", lambda kernel, _: _by(SYMBOLIC_LATE)(kernel), THREADS),
    TargetStage("expand", lambda kernel, target: expand(kernel, _widest(target)), LANES),
    TargetStage("symbolic on lanes", lambda kernel, _: _by(SYMBOLIC)(kernel), LANES),
    TargetStage("index dtype", lambda kernel, _: lower_index_dtype(kernel), WORDS),
    TargetStage("decompose", lambda kernel, target: decompose(kernel, _machine(target)), WORDS),
)

_ARRANGING: Final = [stage.name for stage in TARGET_STAGES].index("arrange loops")


def _widest(target: Target) -> int:
    """The lanes of a vector of bytes."""
    return max(target.vector_bits, default=8) // 8


def _machine(target: Target) -> Machine:
    return Machine(target=target, saturating_casts=True, divides_by_constants=True)


# -- running the stages ----------------------------------------------------------------------------


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


def _seen(name: str, level: Level, graph: UOp) -> UOp:
    if settings.check:
        levels.check(graph, level, name)
    watcher = _watcher.get()
    if watcher is not None:
        watcher(name, level, graph)
    return graph


def to_schedule(graph: UOp, *, cached: bool = True) -> Schedule:
    """From tensors (a SINK of them, on PARAMs) to an ordered list of kernels.

    Kernels that were seen before are taken as they are, unless `cached` is false.
    """
    if not cached:
        _done.clear()
    with quiet_collector():
        return _scheduled(graph)


def _scheduled(graph: UOp) -> Schedule:
    _seen("build", GRAPH, graph)
    for stage in GRAPH_STAGES:
        begin(stage.name)
        graph = _seen(stage.name, stage.leaves, stage.run(graph))
    begin("rangeify")
    ranged = rangeify(graph)
    _seen("rangeify", RANGED, ranged.sink)
    for step in RANGED_STAGES:
        begin(step.name)
        ranged = step.run(ranged)
        _seen(step.name, RANGED, ranged.sink)
    begin("kernels")
    calls = kernels(ranged.sink, ranged.reasons)
    calls = [Call(to_kernel(call.kernel), call.values, call.why) for call in calls]
    return schedule(ranged.sink, calls, _assigned(graph))


def to_kernel(kernel: UOp) -> UOp:
    """A kernel after the stages that every kernel goes through; equal kernels only once."""
    done = _done.get(kernel)
    if done is None:
        done = _seen("kernels", KERNEL, kernel)
        for stage in KERNEL_STAGES:
            begin(stage.name)
            done = _seen(stage.name, stage.leaves, stage.run(done))
        if len(_done) >= MOST_KERNELS:
            _done.clear()
        _done[kernel] = done
    return done


def to_loops(
    kernel: UOp,
    target: Target,
    *,
    arrange: bool = True,
    actions: Sequence[Action] | None = None,
    constants: frozenset[int] = frozenset(),
) -> UOp:
    """A kernel with its loops arranged for a target; if not `arrange`, as actions take it.

    Actions that are given take the place of the heuristic's. Constants are the numbers of buffers
    that can be laid out for the kernel before it is called.
    """
    for stage in TARGET_STAGES[: _ARRANGING + arrange]:
        begin(stage.name)
        run = _by_actions(stage, actions, constants)
        kernel = _seen(stage.name, stage.leaves, run(kernel, target))
    return kernel


def to_lines(
    kernel: UOp,
    target: Target,
    *,
    arranged: bool = False,
    actions: Sequence[Action] | None = None,
) -> list[UOp]:
    """From a kernel to a list of what a machine does; one that is `arranged` keeps its loops.

    Actions that are given take the place of the heuristic's.
    """
    with quiet_collector():
        for stage in TARGET_STAGES[(_ARRANGING + 1) * arranged :]:
            begin(stage.name)
            kernel = _seen(stage.name, stage.leaves, _by_actions(stage, actions)(kernel, target))
        begin("linearize")
        lines = with_later(linearize(kernel, fused="MULACC" in target.ops))
    if settings.check:
        levels.check_linear(lines, "linearize")
    return lines


def _by_actions(
    stage: TargetStage,
    actions: Sequence[Action] | None,
    constants: frozenset[int] = frozenset(),
) -> Callable[[UOp, Target], UOp]:
    if stage is not TARGET_STAGES[_ARRANGING] or (actions is None and not constants):
        return stage.run
    if actions is None:
        return lambda kernel, target: heuristic.schedule_loops(kernel, target, constants)
    return lambda kernel, target: apply_all(kernel, actions, target)


def _assigned(graph: UOp) -> list[Assigned]:
    found = list(assignments.targets(graph))
    assignments.check([assign for _, assign in found])
    return [
        Assigned(place, assignments.base(assign), to_kernel(assignments.copy_kernel(assign)))
        for place, assign in found
    ]


def forget_kernels() -> None:
    """Forget what became of kernels that were seen before."""
    _done.clear()


MOST_KERNELS: Final = 10_000
_done: dict[UOp, UOp] = {}
"""Kernels before and after their stages."""
