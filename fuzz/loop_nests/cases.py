"""Cases: a nest with a list of actions, taken through all stages, and the one that breaks it.

Each nest is evaluated once, as it was made. Then it is taken through the stages of every kernel,
and with each of some lists of actions through the stages of a target; only what comes out at the
end is run. Where that is wrong, the evaluator runs what every stage and every action has left, and
the first that differs is the one to blame. A program is compared in the same way before and after
it is scheduled, and its kernels are nests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from fuzz.loop_nests import stepping
from fuzz.loop_nests.actions import random_actions
from fuzz.loop_nests.choices import Choices
from fuzz.loop_nests.generate import Nest, nest, numbers
from fuzz.loop_nests.programs import program
from porism.backends.backend_table import BACKENDS
from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU, Memory, Target
from porism.engine.run import reference_runner
from porism.engine.run.array_allocator import new_array
from porism.engine.run.buffer_storage import node_storage, realized_buffer
from porism.engine.run.realize import request
from porism.engine.tune.kernel_trial import run_function
from porism.evaluate import Memory as Cells
from porism.evaluate import evaluate, run_list
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.levels import GRAPH, KERNEL, RANGED, Level
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.lower.linearize import linearize
from porism.optimize.actions.action import Action
from porism.optimize.actions.action_registry import ACTIONS
from porism.optimize.actions.gpu.tensor_core_action import TC
from porism.optimize.actions.gpu.thread_block_actions import ThreadBlockAction
from porism.optimize.actions.local_buffers import MAX_LOCAL_BYTES, local_bytes
from porism.pipeline import (
    INSTRUCTION_STAGES,
    KERNEL_STAGES,
    TARGET_STAGES,
    lower_kernel,
    schedule_graph,
    simplify_kernel,
    unscheduled_kernel,
    watched,
)
from tests.block_kernels import SMALL, TINY

WIDE: Final = Target(
    name="wide_cpu",
    ops=GENERIC_CPU.ops | {"MAX", "MIN", "MULACC", "TRUNC", "FLOOR", "CEIL", "ROUND"},
    dtypes=GENERIC_CPU.dtypes | {"f16"},
    vector_bits=(128, 256, 512),
    load_bytes=(1, 2, 4, 8, 16),
    memory=Memory(l1=32768, l2=1 << 20, l3=1 << 25, registers=32),
    cores=2,
)
"""A processor with vectors of several widths."""

HOST: Final = BACKENDS["llvm"].target()
"""This machine: kernels for it are compiled, and their machine code is run as well."""

TARGETS: Final = (*[WIDE] * 11, *[GENERIC_CPU] * 8, TINY, TINY, SMALL, SMALL, H200, HOST)
"""What kernels are made for; GPUs seldom, as their threads run one after the other."""

GPUS: Final = (TINY, TINY, SMALL, SMALL, SMALL, H200)
"""What kernels are made for where an action for GPUs is looked for."""

GUARD: Final = 64
"""Elements after each buffer that machine code may not change."""

MOST_IN_THREADS: Final = 300
"""Elements of all buffers of a nest that is run in threads."""

MACHINE_CODE: Final = "machine code"
"""The name under which faults and counts of compiled kernels are listed."""

Results = Mapping[int, Array]
Lists = Callable[[int], Sequence[Choices]]
"""For each nest of a case by number, the choices of its lists of actions."""


@dataclass(frozen=True)
class Fault:
    """A stage or an action that breaks a nest."""

    name: str
    """Of the stage or of the kind of action."""
    what: str
    """`wrong`, or the kind of the error."""
    detail: str
    nest: Nest
    actions: tuple[Action, ...] = ()
    target: Target = GENERIC_CPU

    @property
    def key(self) -> tuple[str, str]:
        """What tells faults apart."""
        return self.name, self.what


@dataclass
class Counts:
    """How many cases there were, and how often each action and stage changed a nest."""

    nests: int = 0
    cases: int = 0
    programs: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    stages: Counter[str] = field(default_factory=Counter)

    def add(self, other: Counts) -> None:
        """Take what another process has counted as well."""
        self.nests += other.nests
        self.cases += other.cases
        self.programs += other.programs
        self.actions += other.actions
        self.stages += other.stages


# -- nests -----------------------------------------------------------------------------------------


def check(
    choices: Choices,
    lists: Lists,
    counts: Counts,
    *,
    is_program: bool = False,
    only: str | None = None,
) -> Iterator[tuple[Choices | None, Fault]]:
    """The faults of a nest, or of a program; with the list of actions that each is found with."""
    nests = [] if is_program else [nest(choices)]
    if is_program:
        fault = check_program(choices, nests, counts)
        if fault is not None:
            yield None, fault
    for number, made in enumerate(nests):
        counts.nests += 1
        try:
            wanted = expected(made)
        except Exception as error:
            yield None, Fault("generate", type(error).__name__, str(error), made)
            continue
        for listed in lists(number):
            fault = check_list(made, wanted, listed, counts, only)
            if fault is not None:
                yield listed, fault


def expected(made: Nest) -> Results:
    """What the evaluator says of a nest as it was made."""
    with np.errstate(all="ignore"):
        found = evaluate(made.kernel, made.data)
    return dict(zip(made.outputs, found, strict=True))


def check_list(
    made: Nest, wanted: Results, choices: Choices, counts: Counts, only: str | None = None
) -> Fault | None:
    """The fault of a nest with one list of actions, if there is one."""
    wanted_on_gpu = (
        only is not None and only in ACTIONS and issubclass(ACTIONS[only], ThreadBlockAction)
    )
    target = choices.one_of(GPUS if wanted_on_gpu else TARGETS)
    if made.is_for_cores:
        target, only = H200, only or TC.__name__
    elif target.block and made.size > MOST_IN_THREADS:
        target = WIDE
    counts.cases += 1
    actions: list[Action] = []
    latest = made.kernel

    def see(name: str, _level: Level, graph: UOp) -> None:
        nonlocal latest
        if graph is not latest:
            counts.stages[name] += 1
        latest = graph

    try:
        with watched(see):
            latest = kernel = simplify_kernel(made.kernel)
            before = unscheduled_kernel(kernel, target)
            actions, latest = random_actions(choices, before, target, only)
            counts.stages["schedule loops"] += latest is not before
            lines = lower_kernel(latest, target, scheduled=True)
        counts.actions.update(type(action).__name__ for action in actions)
        counts.stages["linearize"] += 1
        found = stepping.run(lines, made.data, reverse=bool(choices.below(2)))
    except stepping.SteppingError:
        differs = _differs(wanted, partial(_stepped, lines, made))
        return located(made, wanted, actions, target) if differs else None
    except Exception as error:
        return located(made, wanted, actions, target, error)
    if all(np.array_equal(wanted[k], found.get(k, made.data[k])) for k in made.outputs):
        if target is not HOST:
            return None
        differs = _differs(wanted, partial(_run_on_machine, lines, made))
        counts.stages[MACHINE_CODE] += 1
        return Fault(MACHINE_CODE, *differs, made, tuple(actions), target) if differs else None
    return located(made, wanted, actions, target) or Fault(
        "stepping", "wrong", "the evaluator finds nothing", made, tuple(actions), target
    )


# -- programs --------------------------------------------------------------------------------------


def check_program(choices: Choices, nests: list[Nest], counts: Counts) -> Fault | None:
    """The fault of a program while it is scheduled, if there is one; its kernels are added."""
    root = program(choices).node
    if realized_buffer(root) is not None:  # it is one of its inputs
        return None
    asked = request([root])
    data = {k: node_storage(buffer)[0] for k, buffer in enumerate(asked.buffers)}
    made = Nest(asked.graph, data, (0,))
    counts.programs += 1
    wanted = evaluate(asked.graph, data)[0]
    graphs: list[tuple[str, Level, UOp]] = []
    with watched(lambda name, level, graph: graphs.append((name, level, graph))):
        try:
            schedule = schedule_graph(asked.graph, cached=False)
            flat = [np.ascontiguousarray(array).reshape(-1) for array in data.values()]
            found = reference_runner.run(schedule, flat, {})[0].reshape(wanted.shape)
        except Exception as error:
            failed: Exception | None = error
        else:
            failed = None
    latest: UOp | None = None
    for name, _, graph in graphs:
        if name == "kernels":
            nests.append(_kernel_nest(graph))
        elif latest is not graph:
            counts.stages[name] += 1
        latest = graph
    if failed is None and np.array_equal(wanted, found):
        return None
    return _located_in_program(made, wanted, graphs, failed)


def _kernel_nest(kernel: UOp) -> Nest:
    """A kernel of a program, with data of its own."""
    buffers = sorted((n for n in toposort(kernel) if n.op is ops.PARAM), key=lambda n: int(n.arg))
    data = {int(b.arg): numbers(b.dtype.element, b.dtype.size, int(b.arg), 2) for b in buffers}
    return Nest(kernel, data, (0,))


def _located_in_program(
    made: Nest,
    wanted: Array,
    graphs: Sequence[tuple[str, Level, UOp]],
    failed: Exception | None,
) -> Fault:
    """The first stage on whole graphs, or on kernels, after which the evaluator finds a fault."""
    kernel: Nest | None = None
    results: Results = {}
    for name, level, graph in graphs:
        differs: tuple[str, str] | None = None
        if level in (GRAPH, RANGED):
            differs = _differs({0: wanted}, partial(_evaluated_graph, graph, made, wanted))
        elif name == "kernels":
            kernel = _kernel_nest(graph)
            results = expected(kernel)
        elif level is KERNEL and kernel is not None:
            differs = _differs(results, partial(_evaluated, graph, kernel))
        if differs:
            return Fault(name, *differs, made)
    if failed is not None:
        return Fault(f"after {graphs[-1][0]}", type(failed).__name__, str(failed), made)
    return Fault("schedule", "wrong", "its kernels are right by themselves", made)


def _evaluated_graph(graph: UOp, made: Nest, wanted: Array) -> Results:
    return {0: evaluate(graph, made.data)[0].reshape(wanted.shape)}


# -- finding what is wrong -------------------------------------------------------------------------

Step = tuple[str, str, Callable[[UOp], UOp]]
"""The name of a stage or a kind of action, what it is in full, and what it does."""


def steps(actions: Sequence[Action], target: Target) -> Iterator[Step]:
    """All stages and actions that a nest goes through, in order."""
    for stage in KERNEL_STAGES:
        yield stage.name, stage.name, stage.run
    for later in TARGET_STAGES:
        if later.name == "schedule loops":
            for action in actions:
                yield type(action).__name__, str(action), _on(action.apply, target)
        elif later.only(target):
            yield later.name, later.name, _on(later.run, target)


def _on(run: Callable[[UOp, Target], UOp], target: Target) -> Callable[[UOp], UOp]:
    return lambda kernel: run(kernel, target)


def located(
    made: Nest,
    wanted: Results,
    actions: Sequence[Action],
    target: Target,
    error: Exception | None = None,
) -> Fault | None:
    """The first stage or action after which the evaluator finds something wrong."""

    def fault(name: str, what: str, detail: str) -> Fault:
        return Fault(name, what, detail, made, tuple(actions), target)

    kernel = made.kernel
    for name, said, run in steps(actions, target):
        try:
            before, kernel = kernel, run(kernel)
        except Exception as raised:
            return fault(name, type(raised).__name__, f"{said}: {raised}")
        differs = None
        if kernel is not before:
            differs = _differs(wanted, partial(_evaluated, kernel, made))
        if differs:
            return fault(name, differs[0], f"after {said}: {differs[1]}")
    try:
        lines = linearize(kernel, fused="MULACC" in target.ops)
        for final in INSTRUCTION_STAGES:
            lines = final.run(lines)
    except Exception as raised:
        return fault("linearize", type(raised).__name__, str(raised))
    differs = _differs(wanted, partial(_stepped, lines, made))
    if differs:
        return fault("linearize", *differs)
    return fault("check", type(error).__name__, str(error)) if error is not None else None


def _differs(wanted: Results, run: Callable[[], Results]) -> tuple[str, str] | None:
    """How the result of a run differs from what is wanted: in a word, and in a sentence."""
    try:
        found = run()
    except Exception as error:
        return type(error).__name__, str(error)
    for number, array in wanted.items():
        wrong = np.argwhere(array != found[number])
        if len(wrong):
            at = tuple(int(n) for n in wrong[0])
            return "wrong", (
                f"{len(wrong)} of {array.size} elements; p{number}{list(at)} is "
                f"{found[number][at]}, not {array[at]}"
            )
    return None


def _evaluated(kernel: UOp, made: Nest) -> Results:
    with np.errstate(all="ignore"):
        found = evaluate(kernel, made.data)
    return dict(zip(made.outputs, found, strict=True))


def _run_on_machine(lines: Sequence[UOp], made: Nest) -> Results:
    """What machine code leaves in the buffers; an error if it changes what is after them."""
    if local_bytes(lines[-1]) > MAX_LOCAL_BYTES:  # more than a stack has
        return _stepped(lines, made)
    load = BACKENDS["llvm"].load
    assert load is not None
    function = load({"kernel": lines})["kernel"]
    buffers = {}
    for number, array in made.data.items():
        whole = new_array(array.size + GUARD, array.dtype)[0]
        whole.view(np.uint8)[...] = 0xA5
        whole[: array.size] = array
        buffers[number] = whole
    run_function(function, buffers, {})
    for number, array in made.data.items():
        if (buffers[number][array.size :].view(np.uint8) != 0xA5).any():
            raise IndexError(f"an element after p{number} is overwritten")
    return {k: buffers[k][: made.data[k].size] for k in made.outputs}


def _stepped(lines: Sequence[UOp], made: Nest) -> Results:
    types = {int(n.arg): n.dtype.element.numpy for n in lines if n.op is ops.PARAM}
    copies = {k: array.copy() for k, array in made.data.items()}
    memories = [
        Cells(copies[k].view(types.get(k, copies[k].dtype))) if k in copies else Cells(np.zeros(0))
        for k in range(max(copies) + 1)
    ]
    with np.errstate(all="ignore"):
        run_list(lines, memories)
    return {k: copies[k] for k in made.outputs}
