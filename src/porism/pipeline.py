"""Pipeline: every step that rewrites a graph or a kernel, in order, with the level it leaves.

    tensor graph             DIFFERENTIATE where gradients are asked for, and ERASE what was stated
                             for that; PARAMETRIZE and PRECOMPUTE constants, where the engine knows
                             them
                             GRAPH_STAGES: choose algorithms; then `rangeify`
    graph in ranges          RANGED_STAGES, then it is split into kernels
    kernel                   KERNEL_STAGES: simplify indices, merge and split loops
    kernel for a target      TARGET_STAGES: schedule the loops, lower them to what a machine has;
                             PREPACK and PREFETCH_PREPACKED after "schedule loops", for weights
    instructions             `linearize`, then INSTRUCTION_STAGES

A stage is a function from graph to graph. After each one the level is checked in check mode, and
the watcher, if there is one, is called with the graph: so `explain` shows the stages, and a test
finds the one that is wrong. A stage of a kernel that is only for some targets is skipped on others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Final, Generic, ParamSpec, TypeVar

from porism.base.settings import settings
from porism.base.target import GENERIC_CPU, Target
from porism.gradient.reverse_mode import pull_back
from porism.gradient.stated_pullbacks import erase_pullbacks
from porism.ir import levels
from porism.ir.levels import GRAPH, KERNEL, LANES, RANGED, THREADS, WORDS, Level
from porism.ir.node import UOp
from porism.ir.node_collector import on_full_collection, quiet_collector
from porism.ir.text.expression import show
from porism.lower.decompose.decompose import decompose
from porism.lower.decompose.decomposition_options import Machine
from porism.lower.expand import expand
from porism.lower.gpu.block_memory import block_memory
from porism.lower.gpu.gpu_dims import gpu_dims, to_blocks
from porism.lower.gpu.group_reduce import group_reduce
from porism.lower.gpu.tensor_core_products import tensor_cores
from porism.lower.indirect_prefetch import insert_indirect_prefetches
from porism.lower.linearize import linearize
from porism.lower.local_memory import local_memory
from porism.lower.private_memory import private_memory
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.strategy import heuristic
from porism.optimize.strategy.contractions.prepacked_weights import (
    PrepackedKernel,
    prepack_constants,
)
from porism.optimize.strategy.prefetch_placement import prefetch_prepacked
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rewrite_trace import Trace, begin_stage
from porism.rewrite.rule import RuleSet
from porism.rules.addresses.index_dtype import lower_index_dtype
from porism.rules.algebra.fast_math_rules import FAST_MATH
from porism.rules.reductions.reduction_rules import FAST_REDUCTIONS, REDUCTIONS
from porism.rules.rule_sets import SYMBOLIC, SYMBOLIC_LATE
from porism.schedule import assignments
from porism.schedule.algorithms.chunked_scan import chunk_scans
from porism.schedule.algorithms.symmetric_product import halve_symmetric_products
from porism.schedule.constants.constant_slots import parametrize
from porism.schedule.constants.constant_subgraphs import precompute_constants
from porism.schedule.kernel_split import split_kernels
from porism.schedule.loops.early_movement import early_movement
from porism.schedule.loops.initial_symbolic import simplify_symbolically
from porism.schedule.loops.loop_guards import shrink_ranges
from porism.schedule.loops.range_transforms import flatten_ends, merge_ranges, split_ranges
from porism.schedule.loops.scatter_stores import scatter_stores
from porism.schedule.loops.split_reductions import split_reductions
from porism.schedule.merged_outputs import merge_outputs
from porism.schedule.ranged_stages import remove_cheap_buffers, rewrite_ranged
from porism.schedule.rangeify.rangeify import Ranged, rangeify
from porism.schedule.schedule import Assigned, Replaced, Schedule, schedule

P = ParamSpec("P")
R = TypeVar("R")

Watcher = Callable[[str, Level, UOp], None]
"""Takes the name of a stage, the level it leaves, and the graph after it."""
InstructionWatcher = Callable[[str, Sequence[UOp]], None]
"""Takes the name of a stage and the instructions after it."""
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
_instruction_watcher: ContextVar[InstructionWatcher | None] = ContextVar(
    "instructions", default=None
)
_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)


# -- kinds of stages -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stage:
    """A step on one graph."""

    name: str
    run: Callable[[UOp], UOp]
    leaves: Level


@dataclass(frozen=True, slots=True)
class GraphStage:
    """A step on the tensor graph, which may choose an algorithm for the machine."""

    name: str
    run: Callable[[UOp, Target], UOp]


@dataclass(frozen=True, slots=True)
class RangedStage:
    """A step on the whole graph in ranges, together with what is known of its buffers."""

    name: str
    run: Callable[[Ranged, Target], Ranged]


def has_blocks(target: Target) -> bool:
    """Return whether a target runs blocks of threads, as a GPU does."""
    return bool(target.grid or target.block)


def every_target(target: Target) -> bool:
    """Return True: the stage is for all targets."""
    return True


@dataclass(frozen=True, slots=True)
class TargetStage:
    """A step on a kernel that depends on the machine, and may be only for some machines."""

    name: str
    run: Callable[[UOp, Target], UOp]
    leaves: Level
    only: Callable[[Target], bool] = every_target


@dataclass(frozen=True, slots=True)
class InstructionStage:
    """A step on the instructions of a kernel, in the order in which a machine runs them."""

    name: str
    run: Callable[[Sequence[UOp]], list[UOp]]


@dataclass(frozen=True, slots=True)
class ConstantStage(Generic[P, R]):
    """A step that needs to know more than the graph, and so is called by who knows it.

    That is which values never change, what is differentiated, or what is computed already.

    The next stage checks and shows what it leaves.
    """

    name: str
    run: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the step; the rewrites in it are recorded under its name."""
        begin_stage(self.name)
        return self.run(*args, **kwargs)


def _apply(rules: RuleSet) -> Callable[[UOp], UOp]:
    return lambda graph: rewrite(graph, rules, trace=_trace.get())


EXACT: Final = REDUCTIONS + SYMBOLIC
FAST: Final = EXACT + FAST_MATH + FAST_REDUCTIONS


def _ranged_rules() -> RuleSet:
    """Return the rules for the whole graph; under `fast_math` also those that round otherwise."""
    return FAST if settings.fast_math else EXACT


def _max_lanes(target: Target) -> int:
    """Return the lanes of the widest vector of bytes: of a register, or of one access on a GPU."""
    return max(target.vector_bits, default=8 * max(target.load_bytes)) // 8


def _expand(kernel: UOp, target: Target) -> UOp:
    return expand(kernel, _max_lanes(target), is_simd=not has_blocks(target))


def _machine(target: Target) -> Machine:
    return Machine(target=target, saturating_casts=True, divides_by_constants=True)


# -- the stages, in order --------------------------------------------------------------------------

DIFFERENTIATE: Final = ConstantStage("differentiate", pull_back)
ERASE: Final = ConstantStage("erase pullbacks", erase_pullbacks)
PARAMETRIZE: Final = ConstantStage("parametrize constants", parametrize)
PRECOMPUTE: Final = ConstantStage("precompute constants", precompute_constants)

GRAPH_STAGES: Final = (
    GraphStage("halve symmetric products", halve_symmetric_products),
    GraphStage("chunk scans", chunk_scans),
    GraphStage("split reductions", lambda graph, _: split_reductions(graph)),
)

RANGED_STAGES: Final = (
    RangedStage("simplify reductions", lambda r, _: rewrite_ranged(r, _apply(_ranged_rules()))),
    RangedStage("remove buffers", remove_cheap_buffers),
)

KERNEL_STAGES: Final = (
    Stage("early movement", early_movement, KERNEL),
    Stage("flatten ends", flatten_ends, KERNEL),
    Stage("scatter", scatter_stores, KERNEL),
    Stage("split ranges", split_ranges, KERNEL),
    Stage("symbolic", simplify_symbolically, KERNEL),
    Stage("shrink ranges", shrink_ranges, KERNEL),
    Stage("merge ranges", merge_ranges, KERNEL),
    Stage("split merged ranges", split_ranges, KERNEL),
    Stage("symbolic after merging", simplify_symbolically, KERNEL),
)

TARGET_STAGES: Final = (
    TargetStage("local memory", lambda kernel, _: local_memory(kernel), KERNEL),
    TargetStage("schedule loops", heuristic.schedule_loops, KERNEL),
    TargetStage("to blocks", to_blocks, KERNEL, only=has_blocks),
    TargetStage("private memory", lambda kernel, _: private_memory(kernel), KERNEL),
    TargetStage("tensor cores", tensor_cores, THREADS, only=has_blocks),
    TargetStage("block memory", block_memory, THREADS, only=has_blocks),
    TargetStage("group reduce", lambda kernel, _: group_reduce(kernel), THREADS, only=has_blocks),
    TargetStage("gpu dims", gpu_dims, THREADS, only=has_blocks),
    TargetStage("masks on loads", lambda kernel, _: _apply(SYMBOLIC_LATE)(kernel), THREADS),
    TargetStage("expand", _expand, LANES),
    TargetStage("symbolic on lanes", lambda kernel, _: _apply(SYMBOLIC)(kernel), LANES),
    TargetStage("index dtype", lambda kernel, _: lower_index_dtype(kernel), WORDS),
    TargetStage("decompose", lambda kernel, target: decompose(kernel, _machine(target)), WORDS),
)

INSTRUCTION_STAGES: Final = (InstructionStage("indirect prefetch", insert_indirect_prefetches),)

# after "schedule loops", for a kernel that reads constants
PREPACK: Final = ConstantStage("prepack weights", prepack_constants)
PREFETCH_PREPACKED: Final = ConstantStage("prefetch prepacked weights", prefetch_prepacked)

_SCHEDULING: Final = [stage.name for stage in TARGET_STAGES].index("schedule loops")


# -- running the stages ----------------------------------------------------------------------------


@contextmanager
def watched(
    watcher: Watcher,
    trace: Trace | None = None,
    instructions: InstructionWatcher | None = None,
) -> Iterator[None]:
    """Call a function with the graph after every stage, in this thread or task.

    With a trace, every rewrite is recorded as well; with a function for `instructions`, it is
    called with those of a kernel after `linearize` and each of INSTRUCTION_STAGES.
    """
    tokens = _watcher.set(watcher), _trace.set(trace), _instruction_watcher.set(instructions)
    try:
        yield
    finally:
        _watcher.reset(tokens[0])
        _trace.reset(tokens[1])
        _instruction_watcher.reset(tokens[2])


def _check_and_watch(name: str, level: Level, graph: UOp) -> UOp:
    """Check the level of a graph in check mode, show it to the watcher, and return it."""
    if settings.check:
        levels.check(graph, level, name)
    watcher = _watcher.get()
    if watcher is not None:
        watcher(name, level, graph)
    return graph


def schedule_graph(
    graph: UOp, *, cached: bool = True, target: Target = GENERIC_CPU, replaced: Replaced = ()
) -> Schedule:
    """Return the ordered kernels that compute a tensor graph: a SINK of tensors on PARAMs.

    Unless `cached` is false, kernels that were simplified before are not simplified again. Which
    values are stored is decided by the `StorageModel` of the target. Roots that are new values of
    inputs are `replaced`: they may be written in the memory of these.
    """
    if not cached:
        _simplified.clear()
    with quiet_collector():
        return _schedule_graph(graph, target, replaced)


def _schedule_graph(graph: UOp, target: Target, replaced: Replaced) -> Schedule:
    _check_and_watch("build", GRAPH, graph)
    for stage in GRAPH_STAGES:
        begin_stage(stage.name)
        graph = _check_and_watch(stage.name, GRAPH, stage.run(graph, target))
    begin_stage("rangeify")
    ranged = rangeify(graph, target)
    _check_and_watch("rangeify", RANGED, ranged.sink)
    for step in RANGED_STAGES:
        begin_stage(step.name)
        ranged = step.run(ranged, target)
        _check_and_watch(step.name, RANGED, ranged.sink)
    begin_stage("kernels")
    calls = merge_outputs(split_kernels(ranged.sink, ranged.reasons), ranged.sink.src)
    calls = [replace(call, kernel=simplify_kernel(call.kernel)) for call in calls]
    return schedule(ranged.sink, calls, _assigned(graph), replaced)


def _assigned(graph: UOp) -> list[Assigned]:
    """Return the assignments of a graph, each with the kernel that copies its value."""
    roots = list(assignments.assigned_roots(graph))
    assignments.check_distinct_targets([assign for _, assign in roots])
    return [
        Assigned(
            position,
            assignments.overwritten_buffer(assign),
            simplify_kernel(assignments.copy_kernel(assign)),
        )
        for position, assign in roots
    ]


def simplify_kernel(kernel: UOp) -> UOp:
    """Return a kernel after KERNEL_STAGES, which do not depend on a target; cached."""
    simplified = _simplified.get(kernel)
    if simplified is None:
        simplified = _check_and_watch("kernels", KERNEL, kernel)
        for stage in KERNEL_STAGES:
            begin_stage(stage.name)
            simplified = _check_and_watch(stage.name, stage.leaves, stage.run(simplified))
        if len(_simplified) >= MAX_CACHED_KERNELS:
            _simplified.clear()
        _simplified[kernel] = simplified
    return simplified


def unscheduled_kernel(kernel: UOp, target: Target) -> UOp:
    """Return a kernel before "schedule loops": as loop actions and the heuristic take it."""
    for stage in TARGET_STAGES[:_SCHEDULING]:
        kernel = _run_stage(stage, stage.run, kernel, target)
    return kernel


def optimize_kernel(
    kernel: UOp,
    target: Target,
    *,
    actions: Sequence[Action] | None = None,
    constants: frozenset[int] = frozenset(),
) -> UOp:
    """Return a kernel with its loops scheduled for a target, by the heuristic or by actions.

    `constants` are the numbers of PARAMs that can be packed before the kernel is called.
    """
    kernel = unscheduled_kernel(kernel, target)
    stage = TARGET_STAGES[_SCHEDULING]
    return _run_stage(stage, _loop_scheduler(stage, actions, constants), kernel, target)


def prepack_kernel(
    kernel: UOp,
    target: Target,
    constants: Sequence[int],
    actions: Sequence[Action] | None = None,
) -> PrepackedKernel | None:
    """Return a kernel with scheduled loops that reads packed copies of constants.

    `constants` are numbers of PARAMs; each copy comes with the kernel that makes it, once. Returns
    None if no copy is worth it.
    """
    numbers = frozenset(constants)
    scheduled = optimize_kernel(kernel, target, actions=actions, constants=numbers)
    prepacked = PREPACK(scheduled, constants, target)
    if prepacked is None:
        return None
    copies = tuple(replace(c, kernel=_parallel_copy(c.kernel, target)) for c in prepacked.copies)
    kernel = PREFETCH_PREPACKED(prepacked.kernel, [copy.number for copy in copies], target)
    return PrepackedKernel(kernel, copies)


def _parallel_copy(kernel: UOp, target: Target) -> UOp:
    """Return a kernel that copies a constant, with its outermost loop run by several threads."""
    kernel = simplify_kernel(kernel)
    thread = Thread(show(kernel.src[0].src[1]))
    return thread.apply(kernel, target) if thread.is_legal(kernel, target) else kernel


def lower_kernel(
    kernel: UOp,
    target: Target,
    *,
    scheduled: bool = False,
    actions: Sequence[Action] | None = None,
) -> list[UOp]:
    """Return the instructions of a kernel for a target.

    A kernel whose loops are `scheduled` keeps them; those of another are scheduled by the heuristic
    or by actions.
    """
    with quiet_collector():
        if not scheduled:
            kernel = optimize_kernel(kernel, target, actions=actions)
        for stage in TARGET_STAGES[_SCHEDULING + 1 :]:
            kernel = _run_stage(stage, stage.run, kernel, target)
        begin_stage("linearize")
        fused = "MULACC" in target.ops
        instructions = _check_instructions("linearize", linearize(kernel, fused=fused))
        for step in INSTRUCTION_STAGES:
            begin_stage(step.name)
            instructions = _check_instructions(step.name, step.run(instructions))
    return instructions


def _check_instructions(name: str, instructions: list[UOp]) -> list[UOp]:
    """Check instructions in check mode, show them to their watcher, and return them."""
    if settings.check:
        levels.check_linear(instructions, name)
    watcher = _instruction_watcher.get()
    if watcher is not None:
        watcher(name, instructions)
    return instructions


def _run_stage(
    stage: TargetStage, run: Callable[[UOp, Target], UOp], kernel: UOp, target: Target
) -> UOp:
    """Return a kernel after a stage; unchanged if the stage is not for the target."""
    if not stage.only(target):
        return kernel
    begin_stage(stage.name)
    return _check_and_watch(stage.name, stage.leaves, run(kernel, target))


def _loop_scheduler(
    stage: TargetStage, actions: Sequence[Action] | None, constants: frozenset[int]
) -> Callable[[UOp, Target], UOp]:
    """Return what runs in the stage "schedule loops"."""
    if actions is not None:
        return lambda kernel, target: apply_all(kernel, actions, target)
    if constants:
        return lambda kernel, target: heuristic.schedule_loops(kernel, target, constants)
    return stage.run


MAX_CACHED_KERNELS: Final = 10_000
"""Kernels in the cache before it is emptied; chosen by hand."""
_simplified: dict[UOp, UOp] = {}
"""Kernels before and after KERNEL_STAGES."""
on_full_collection.append(_simplified.clear)
