"""Value comparison: a kernel is run on data, to settle suspicious accesses, or on request.

A kernel that is too large to be interpreted is compared in two halves: as it is before its loops
are scheduled, element by element at its real sizes; and with shorter loops after the same actions
and the stages that follow them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from porism import pipeline
from porism.base.errors import ActionError, VerifyError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.strategy import heuristic
from porism.schedule.kernel_split import split_kernels
from porism.schedule.loop_listing import listing
from porism.schedule.merged_outputs import merge_outputs
from porism.schedule.rangeify.rangeify import rangeify
from porism.schedule.schedule import Call, Schedule, calls_in_batches
from porism.verification import verify_graphs
from porism.verification.values import rounding_bounds, synthetic_inputs
from porism.verification.values.kernel_references import (
    AssignmentReference,
    KernelReference,
    Reference,
    TensorReference,
)
from porism.verification.values.partial_runs import Kernel
from porism.verification.values.stored_values import (
    Agreement,
    Difference,
    Runner,
    compare_stored,
    first_wrong_form,
    interpreter,
    sample_addresses,
)
from porism.verification.values.synthetic_inputs import TooLarge
from porism.verification.verification_report import Check, How, Row
from porism.verification.verify_memory_plan import FIX

Form = Kernel
Machine = Callable[[UOp, Sequence[Action] | None], Runner]
"""Compiles a kernel, perhaps with given actions, to something that runs it."""

References = Callable[[int, bool], Reference]
"""Returns the reference of a kernel for a round; alone, or with the kernels that it reads from."""

SHORT_EXTENTS: Final = (4, 8, 16, 32, 48, 64, 96, 128, 256)
"""Extents that a long loop is shortened to, plus its remainder by them; chosen by hand."""

MIN_ELEMENTS: Final = 8
"""Fewest elements that are compared; while more take too long, every eighth is taken."""

TOO_LARGE: Final = "not compared: it takes too long"


class Program:
    """A tensor graph, after each stage until it is split into kernels."""

    def __init__(self, graph: UOp, schedule: Schedule, target: Target) -> None:
        self.graphs = [("build", graph)]
        for stage in pipeline.GRAPH_STAGES:
            graph = stage.run(graph, target)
            self.graphs.append((stage.name, graph))
        self.graph = graph
        ranged = rangeify(graph, target)
        self.ranged = [("rangeify", ranged)]
        for ranged_stage in pipeline.RANGED_STAGES:
            ranged = ranged_stage.run(ranged, target)
            self.ranged.append((ranged_stage.name, ranged))
        calls = merge_outputs(split_kernels(ranged.sink, ranged.reasons), ranged.sink.src)
        simplified = [replace(c, kernel=pipeline.simplify_kernel(c.kernel)) for c in calls]
        before = {id(new): call for new, call in zip(simplified, calls, strict=True)}
        ordered, _ = calls_in_batches(ranged.sink, simplified, {})
        self.calls = [before[id(call)] for call in ordered]
        self.assigned = [node for node in graph.src if node.op is ops.ASSIGN]
        assert len(self.calls) + len(self.assigned) == len(schedule.steps), "stages are functions"
        for call, its_step in zip(ordered, schedule.steps, strict=False):
            assert call.kernel is its_step.kernel, "the calls are in the order of the steps"

    def graph_rows(self) -> list[Row]:
        """Compare the tensor graphs before and after each stage on them."""
        rows: list[Row] = []
        for (_, before), (name, after) in zip(self.graphs, self.graphs[1:], strict=False):
            if before is after:
                continue
            begin = time.perf_counter()
            count, wrong = verify_graphs.find_difference(before, after)
            if wrong is not None:
                raise VerifyError(
                    f"the stage '{name}' changed what a program computes",
                    where=show(before, limit=1000),
                    why=wrong,
                    fix=FIX,
                )
            text, seconds = f"{count} tensors", time.perf_counter() - begin
            rows.append(Row(0, name, Check.VALUES, text, How.SAMPLED, "sampled", seconds))
        return rows

    def references(self, number: int) -> References:
        """Return the references of a step of the schedule."""
        if number >= len(self.calls):
            assign = self.assigned[number - len(self.calls)]
            return lambda round_number, alone: AssignmentReference(assign, round_number)
        return self.references_of_call(self.calls[number])

    def parts(self, number: int) -> tuple[Call, ...]:
        """Return the kernels that were merged to a step of the schedule; none if none were."""
        return self.calls[number].parts if number < len(self.calls) else ()

    def references_of_call(self, call: Call) -> References:
        """Return the references of a kernel that stores one result."""
        _, ranged = self.ranged[-1]

        def reference(round_number: int, alone: bool) -> Reference:
            tensors = TensorReference(self.graph, ranged, call, round_number, alone=alone)
            tensors.stages = self.ranged
            return tensors

        return reference


def references_of(kernel: UOp) -> References:
    """Return the references of a kernel whose tensor graph is not known."""
    return lambda round_number, alone: KernelReference(kernel, round_number)


class KernelComparison:
    """A kernel after each of its stages, compared with its reference."""

    def __init__(
        self,
        references: References,
        forms: Sequence[tuple[str, Form]],
        kernel: UOp | None,
        target: Target,
        overwritten: int | None,
        names: Mapping[int, str],
        actions: Sequence[Action] | None = None,
    ) -> None:
        self.references = references
        self.forms = forms
        self.kernel = kernel
        """The kernel before its loops are scheduled; None if it is not known."""
        self.target = target
        self.overwritten = overwritten
        """The parameter that the result overwrites."""
        self.names = names
        self.actions = actions

    def check_suspicions(
        self, suspicions: Sequence[VerifyError], *, compares_machine_code: bool
    ) -> list[Row]:
        """Raise the first suspicion if values differ, or if not all elements could be compared.

        Where machine code is compared as well, a sample of the elements is enough.
        """
        try:
            row = self.values(whole=not compares_machine_code)
        except VerifyError:
            raise suspicions[0] from None
        if row.how is How.OPEN and not compares_machine_code:
            raise suspicions[0]
        return [row]

    def values(self, *, whole: bool = False) -> Row:
        """Compare the values of the kernel after all stages; raise a VerifyError if they differ."""
        begin = time.perf_counter()
        agreements: list[Agreement] = []
        text, form = "", self.forms[-1][1]
        for round_number in range(synthetic_inputs.ROUNDS):
            try:
                run = interpreter(form, whole=whole)
                agreements.append(self._agreement(round_number, run, self._fault))
            except TooLarge:
                if round_number == 0 and not whole:
                    agreements = self._compare_in_halves()
                    text = "with shorter loops"
                break
        return _row("linearize", Check.VALUES, agreements, text, begin)

    def machine(self, machine: Machine) -> Row:
        """Compare the values that machine code computes; raise a VerifyError if they differ."""
        begin = time.perf_counter()
        assert self.kernel is not None
        run = machine(self.kernel, self.actions)
        agreements: list[Agreement] = []
        for round_number in range(synthetic_inputs.ROUNDS):
            try:
                agreements.append(self._agreement(round_number, run, self._machine_fault))
            except TooLarge:
                break
        return _row("machine code", Check.MACHINE, agreements, "", begin)

    def _agreement(
        self,
        round_number: int,
        run: Runner,
        fault: Callable[[Sequence[Reference], Difference], VerifyError],
    ) -> Agreement:
        """Compare one round; the inputs from other kernels are synthetic, unless that misleads."""
        reference = self.references(round_number, True)
        result = compare_stored(reference, run, self.overwritten)
        if isinstance(result, Agreement):
            return result
        try:
            together = self.references(round_number, False)
            again = compare_stored(together, run, self.overwritten)
        except TooLarge:
            raise fault([reference], result) from None
        if isinstance(again, Agreement):
            return again
        raise fault([together], again)

    def _fault(self, references: Sequence[Reference], difference: Difference) -> VerifyError:
        """Return the error for a wrong element, which names the first wrong stage."""
        (reference,) = references
        stage = self._wrong_stage(reference, difference)
        if stage is None:
            stage, difference = next(
                first_wrong_form(self.forms, references, self.overwritten),
                ("linearize", difference),
            )
        return self._verify_error(f"the stage '{stage}' changed what a kernel computes", difference)

    def _wrong_stage(self, reference: Reference, difference: Difference) -> str | None:
        """Return the stage on the ranged graph that is wrong; None if none is."""
        if not isinstance(reference, TensorReference) or difference.address < 0:
            return None
        addresses = np.array([difference.address])
        expected = reference.expected(addresses)
        for name, ranged in reference.stages:
            try:
                elements = reference.in_ranges(ranged, addresses)
            except TooLarge:
                continue
            if elements is not None and not np.all(
                rounding_bounds.agree(reference.dtype, expected.data, expected.bound, elements.data)
            ):
                return name
        return None

    def _machine_fault(self, _: Sequence[Reference], difference: Difference) -> VerifyError:
        what = "the machine code of a kernel computes something else than its list of operations"
        return self._verify_error(what, difference)

    def _verify_error(self, what: str, difference: Difference) -> VerifyError:
        """Return the error for a wrong element of this kernel."""
        shown = self.forms[0][1]
        assert isinstance(shown, UOp)
        try:
            where = listing(shown, self.names)
        except (KeyError, ValueError, AssertionError):
            where = show(shown, limit=1000)
        return VerifyError(what, where=where, why=str(difference), fix=FIX)

    # -- what is too large -------------------------------------------------------------------------

    def _compare_in_halves(self) -> list[Agreement]:
        """Compare a large kernel before its loops are scheduled, then with shorter loops."""
        if self.kernel is None:
            return []
        agreements: list[Agreement] = []
        try:
            for round_number in range(synthetic_inputs.ROUNDS):
                agreements.append(self._agreement(round_number, self._elementwise, self._fault))
            short = self._shorten()
            for round_number in range(synthetic_inputs.ROUNDS):
                reference = KernelReference(short[0], round_number)
                reference.complete = False
                result = compare_stored(reference, interpreter(short[1]))
                if isinstance(result, Difference):
                    what = "the stages after 'schedule loops' changed what a kernel computes"
                    raise self._verify_error(what, result)
        except TooLarge:  # with shorter loops, too
            return []
        return agreements

    def _elementwise(self, reference: Reference, overwritten: int | None) -> tuple[Array, Array]:
        """Run the kernel before its loops are scheduled, at some elements."""
        assert self.kernel is not None
        kernel = KernelReference(self.kernel, 0, {0: reference.size}, reference)
        addresses = sample_addresses(np.arange(reference.size))
        data = np.zeros(reference.size, reference.dtype.numpy)
        stored = np.zeros(reference.size, np.bool_)
        while True:
            try:
                data[addresses] = kernel.expected(addresses).data
                break
            except TooLarge:
                if len(addresses) < MIN_ELEMENTS:
                    raise
                addresses = addresses[::MIN_ELEMENTS]
        stored[addresses] = True
        return data, stored

    def _shorten(self) -> tuple[UOp, Sequence[UOp]]:
        """Return the kernel with shorter loops, and its instructions after the same actions."""
        assert self.kernel is not None
        actions = self.actions
        if actions is None:
            loops = pipeline.unscheduled_kernel(self.kernel, self.target)
            actions = heuristic.choose_actions(loops, self.target)
        kernel = shorten_loops(self.kernel, lambda k: self._is_schedulable(k, actions))
        return kernel, pipeline.lower_kernel(kernel, self.target, actions=actions)

    def _is_schedulable(self, kernel: UOp, actions: Sequence[Action]) -> bool:
        """Return whether actions apply to the loops of a kernel."""
        try:
            loops = pipeline.unscheduled_kernel(kernel, self.target)
            apply_all(loops, actions, self.target)
        except ActionError:
            return False
        return True


def shorten_loops(kernel: UOp, fits: Callable[[UOp], bool]) -> UOp:
    """Return a kernel with each long loop as short as `fits` allows.

    It computes a part of the elements, each from a part of its reduction. Loops that read a local
    buffer come before those that fill it, which stay as long as the reads need.
    """
    order = reversed(toposort(kernel))
    long = [n for n in order if n.op is ops.RANGE and n.src[0].op is ops.CONST]
    for axis in [n.arg for n in sorted(long, key=lambda n: -int(n.src[0].arg))]:
        node = next(n for n in toposort(kernel) if n.op is ops.RANGE and n.arg == axis)
        extent = int(node.src[0].arg)
        for length in SHORT_EXTENTS:
            shorter = length + extent % length
            if shorter >= extent:
                break
            loop = UOp.range(shorter, *axis)
            shortened = substitute(kernel, {node: loop})
            if _fills_what_is_read(shortened, loop) and fits(shortened):
                kernel = shortened
                break
    return kernel


def _fills_what_is_read(kernel: UOp, loop: UOp) -> bool:
    """Return whether the local buffers that a loop fills are read inside of its extent only."""
    reads = [n for n in toposort(kernel) if n.op is ops.INDEX and n.src[0].op is ops.BUFFERIZE]
    return all(
        index.vmax <= loop.vmax
        for read in reads
        for axis, index in zip(read.src[0].src[1:], read.src[1:], strict=False)
        if axis is loop
    )


def _row(stage: str, check: Check, agreements: Sequence[Agreement], text: str, begin: float) -> Row:
    """Return the report row of a comparison: all elements, a sample, or none."""
    seconds = time.perf_counter() - begin
    if not agreements:
        return Row(0, stage, check, "stored elements", How.OPEN, TOO_LARGE, seconds)
    least = min(agreements, key=lambda a: a.compared)
    every = least.compared == least.size and not text
    how = How.ALL if every else How.SAMPLED
    amount = (
        f"checked for all {least.size} elements"
        if every
        else f"sampled {least.compared} of {least.size} elements"
    )
    return Row(0, stage, check, f"stored elements {text}".rstrip(), how, amount, seconds)
