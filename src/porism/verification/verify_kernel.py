"""Kernel verification: the pipeline runs with all checks after every stage.

After each stage its accesses are compared with those before it. In the last graph that has loops
and no vector lanes yet, parallel iterations are checked for races; in the last graph of all, every
access for its bounds. The first fault is an error that names the stage.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence

from porism.base.errors import PorismError, VerifyError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.levels import KERNEL, Level
from porism.ir.node import UOp
from porism.optimize.actions.action import Action
from porism.pipeline import lower_kernel, schedule_graph, simplify_kernel, watched
from porism.schedule.schedule import Schedule
from porism.verification import verify_memory_plan
from porism.verification.accesses import (
    bounds_and_races,
    iteration_conjectures,
)
from porism.verification.stage_checker import SPLIT_STAGE, Names, StageChecker
from porism.verification.values import value_comparison
from porism.verification.verification_report import Check, How, Report, Row


def verify_graph(
    graph: UOp, target: Target, level: int = 1, machine: value_comparison.Machine | None = None
) -> Report:
    """Verify everything that is compiled for a tensor graph; raise an error at the first fault.

    At level 2 values are compared as well, at level 3 also those of machine code, which `machine`
    compiles.
    """
    begin = time.perf_counter()
    checker_of: dict[UOp, StageChecker] = {}
    checker = StageChecker()

    def watch(name: str, leaves: Level, kernel: UOp) -> None:
        nonlocal checker
        if leaves is not KERNEL:
            return
        if name == SPLIT_STAGE:
            checker = StageChecker()
            checker.begin(kernel)
        else:
            checker.stage(name, leaves, kernel)
            checker_of[kernel] = checker

    with watched(watch):
        schedule = schedule_graph(graph, cached=False, target=target)
    memory_row = _check_memory(schedule)
    all_rows: list[Row] = []
    program = value_comparison.Program(graph, schedule, target) if level > 1 else None
    if program is not None:
        all_rows += program.graph_rows()
    checked: set[UOp] = set()
    for number, step in enumerate(schedule.steps):
        if step.kernel in checked:
            continue
        checked.add(step.kernel)
        buffers = [schedule.buffers[b] for b in step.buffers]
        sizes = {
            k: b.dims for k, b in enumerate(buffers) if any(d.op is not ops.CONST for d in b.dims)
        }
        names = {k: b.name for k, b in enumerate(buffers)}
        earlier = checker_of.get(step.kernel)
        later = _check_lowering(step.kernel, target, names, before=earlier)
        checkers = [later] if earlier is None else [earlier, later]

        if step.writes > 1:
            own = _merged_rows(program, number, checkers, sizes, target, level, machine)
        else:
            subject = functools.partial(_kernel_comparison, graph, schedule, program, number,
                                        target, _forms(checkers), names)  # fmt: skip
            own = _collect_rows(checkers, subject, sizes, level, machine)
        all_rows += [dataclasses.replace(row, kernel=number) for row in own]
    return Report((*all_rows, memory_row), _note(), len(checked), time.perf_counter() - begin)


def _kernel_comparison(
    graph: UOp,
    schedule: Schedule,
    program: value_comparison.Program | None,
    number: int,
    target: Target,
    forms: Sequence[tuple[str, value_comparison.Form]],
    names: Names,
) -> value_comparison.KernelComparison:
    """Return the comparison of a step with the part of the graph that it computes."""
    references = (program or value_comparison.Program(graph, schedule, target)).references(number)
    overwritten = verify_memory_plan.overwritten_parameter(schedule, number)
    return value_comparison.KernelComparison(
        references, forms, schedule.steps[number].kernel, target, overwritten, names
    )


def _merged_rows(
    program: value_comparison.Program | None,
    number: int,
    checkers: Sequence[StageChecker],
    sizes: bounds_and_races.Sizes,
    target: Target,
    level: int,
    machine: value_comparison.Machine | None,
) -> list[Row]:
    """Return the rows of a kernel with several results.

    Its accesses are compared stage by stage, as those of any kernel; values are compared for each
    of the kernels that were merged, alone.
    """
    suspicions = [checker.suspicion for checker in checkers if checker.suspicion is not None]
    if suspicions:
        raise suspicions[0]
    checkers[-1].finish(sizes)
    rows = [row for checker in checkers for row in checker.rows]
    if program is None:
        return rows
    for part in program.parts(number):
        kernel = simplify_kernel(part.kernel)
        checker = _check_lowering(kernel, target)
        references = program.references_of_call(part)
        subject = functools.partial(
            value_comparison.KernelComparison, references, checker.forms, kernel, target, None, {}
        )
        rows += _collect_rows([checker], subject, sizes, level, machine)
    return rows


def _check_memory(schedule: Schedule) -> Row:
    """Return the report row of the memory plan."""
    begin = time.perf_counter()
    count = verify_memory_plan.check_memory_plan(schedule)
    seconds = time.perf_counter() - begin
    return Row(0, "memory", Check.PLAN, f"{count} temporaries", How.PROVED, "proved", seconds)


def verify_lowering(
    kernel: UOp,
    target: Target,
    sizes: bounds_and_races.Sizes | None = None,
    names: Names | None = None,
    *,
    scheduled: bool = False,
    actions: Sequence[Action] | None = None,
    level: int = 1,
    machine: value_comparison.Machine | None = None,
) -> list[Row]:
    """Verify a kernel from its loops to its instructions; return the rows.

    Given actions replace those of the heuristic.
    """
    checker = _check_lowering(kernel, target, names, scheduled=scheduled, actions=actions)
    references = value_comparison.references_of(kernel)
    unscheduled = None if scheduled else kernel

    def subject() -> value_comparison.KernelComparison:
        return value_comparison.KernelComparison(
            references, checker.forms, unscheduled, target, None, names or {}, actions
        )

    return _collect_rows([checker], subject, sizes or {}, level, machine)


def _collect_rows(
    checkers: Sequence[StageChecker],
    subject: Callable[[], value_comparison.KernelComparison],
    sizes: bounds_and_races.Sizes,
    level: int,
    machine: value_comparison.Machine | None,
) -> list[Row]:
    """Return all rows of a kernel: suspicions, bounds and races, then values and machine code.

    The last of the checkers has the loops that are run.
    """
    suspicions = [checker.suspicion for checker in checkers if checker.suspicion is not None]
    compares_machine_code = machine is not None
    rows = (
        subject().check_suspicions(suspicions, compares_machine_code=compares_machine_code)
        if suspicions
        else []
    )
    try:
        checkers[-1].finish(sizes)
        if level > 1 and not suspicions:
            rows = [subject().values()]
        if machine is not None and (level > 2 or suspicions):  # what leaves no buffer can be run
            rows.append(subject().machine(machine))
            if suspicions and rows[-1].how is How.OPEN:
                raise suspicions[0]
    except VerifyError as fault:
        raise suspicions[0] if suspicions else fault from None
    return [*(row for checker in checkers for row in checker.rows), *rows]


def _forms(checkers: Sequence[StageChecker]) -> list[tuple[str, value_comparison.Form]]:
    return [form for checker in checkers for form in checker.forms]


def _check_lowering(
    kernel: UOp,
    target: Target,
    names: Names | None = None,
    *,
    scheduled: bool = False,
    actions: Sequence[Action] | None = None,
    before: StageChecker | None = None,
) -> StageChecker:
    """Lower a kernel with every stage checked; return the checker."""
    checker = StageChecker(names, target, actions)
    checker.begin(kernel)
    earlier = None if before is None else before.suspicion
    try:
        with watched(checker.stage):
            instructions = lower_kernel(kernel, target, scheduled=scheduled, actions=actions)
    except PorismError:  # what a wrong stage leaves may make no sense to those after it
        suspicion = earlier or checker.suspicion
        if suspicion is None:
            raise
        raise suspicion from None
    checker.forms.append(("linearize", instructions))
    return checker


def verify_actions(
    before: UOp,
    after: UOp,
    target: Target,
    names: Names,
    actions: Sequence[Action] = (),
    *,
    level: int = 1,
) -> Report:
    """Verify that actions keep what a kernel computes, and what is compiled from it."""
    begin = time.perf_counter()
    checker = StageChecker(names, target)
    checker.begin(before)
    checker.actions("actions", after, actions)
    later = _check_lowering(after, target, names, scheduled=True, before=checker)
    checkers = [checker, later]
    references = value_comparison.references_of(before)

    def subject() -> value_comparison.KernelComparison:
        return value_comparison.KernelComparison(
            references, _forms(checkers), None, target, None, names
        )

    rows = _collect_rows(checkers, subject, {}, level, None)
    return Report(tuple(rows), _note(), 1, time.perf_counter() - begin)


def _note() -> str:
    return iteration_conjectures.NO_SOLVER if iteration_conjectures.solver() is None else ""
