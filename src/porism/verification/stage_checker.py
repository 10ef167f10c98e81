"""Stage checker: one kernel, compared with itself after each stage.

After a stage its accesses are compared with those before it. In the last graph that has loops and
no vector lanes yet, parallel iterations are checked for races; in the last graph of all, every
access for its bounds.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from porism.base.errors import VerifyError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.levels import KERNEL, THREADS, WORDS, Level
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.actions.action import Action
from porism.optimize.strategy import heuristic
from porism.schedule.loop_listing import listing
from porism.verification import verify_memory_plan
from porism.verification.accesses import (
    bounds_and_races,
    stage_equivalence,
    verify_epilogues,
    verify_scans,
    verify_scatters,
)
from porism.verification.accesses.access_conjectures import NOT_EXECUTED, effective_address
from porism.verification.accesses.index_evaluation import Evaluation, Unknown
from porism.verification.accesses.iteration_conjectures import Answer
from porism.verification.accesses.kernel_accesses import Access
from porism.verification.accesses.linear_constraints import LinearDomain, LinearSum
from porism.verification.accesses.sample_points import point_text
from porism.verification.accesses.stage_equivalence import Comparison
from porism.verification.values import value_comparison
from porism.verification.verification_report import Check, How, Row

SPLIT_STAGE: Final = "kernels"
"""The stage that splits the graph into kernels."""

SCHEDULING_STAGE: Final = "schedule loops"
"""The stage that applies a list of actions, each of which is compared by itself."""

_FIX: Final = verify_memory_plan.FIX

Names = Mapping[int, str]


class StageChecker:
    """Checks one kernel, stage after stage."""

    def __init__(
        self,
        names: Names | None = None,
        target: Target | None = None,
        given_actions: Sequence[Action] | None = None,
    ) -> None:
        self.names = names or {}
        self.target = target
        self.given_actions = given_actions
        self.rows: list[Row] = []
        self.forms: list[tuple[str, value_comparison.Form]] = []
        """The kernel after each stage that has changed it."""
        self.suspicion: VerifyError | None = None
        """The first access that no loop map explains; values decide whether it is a fault."""

    def begin(self, kernel: UOp) -> None:
        """Begin with the kernel before its first stage."""
        self.forms = [(SPLIT_STAGE, kernel)]
        self.original = self.last = self.loops = kernel
        self.level = KERNEL
        self.name = SPLIT_STAGE
        self.loops_name = SPLIT_STAGE
        self.rows = []

    def stage(self, name: str, level: Level, kernel: UOp) -> None:
        """Compare a graph with the one before; a watcher for `porism.pipeline.watched`."""
        if name == SCHEDULING_STAGE and self.target is not None and kernel is not self.last:
            actions = self.given_actions
            if actions is None:
                actions = heuristic.choose_actions(self.last, self.target)
            self.actions(name, kernel, actions)
        else:
            self._stage(name, level, kernel)

    def actions(self, name: str, kernel: UOp, actions: Sequence[Action]) -> None:
        """Compare a graph with the one before, action by action.

        What one action does to loops can be guessed; what all of them do together, seldom.
        """
        assert self.target is not None
        steps = [self.last]
        for action in actions:
            steps.append(action.apply(steps[-1], self.target))
        if steps[-1] is kernel:
            for step in steps[1:-1]:
                self._stage(name, KERNEL, step)
        self._stage(name, KERNEL, kernel)

    def _stage(self, name: str, level: Level, kernel: UOp) -> None:
        """Compare a graph with the one before; keep the first suspicion."""
        if kernel is not self.last:
            self.forms.append((name, kernel))
            self._check_update_order(name, level, kernel)
            try:
                comparisons = self._compare(level, kernel)
                self._add_rows(
                    name, Check.INDEX, (self._require_same(name, c) for c in comparisons)
                )
            except VerifyError as suspicion:
                self.suspicion = self.suspicion or suspicion
        self.last, self.level, self.name = kernel, level, name
        if level in (KERNEL, THREADS):
            self.loops, self.loops_name = kernel, name

    def _check_update_order(self, stage: str, level: Level, kernel: UOp) -> None:
        """Raise an error if an update at indirect elements is in an unordered loop."""
        violation = verify_scatters.find_unordered_update(kernel) if level is KERNEL else None
        if violation is not None:
            store, r = violation
            raise self.suspicion or VerifyError(
                f"the stage '{stage}' changed what a kernel writes",
                where=self._kernel_text(self.original),
                why=f"{show(store, limit=200)} changes elements that indices name, and "
                f"the loop {show(r)} around it has no order",
                fix=_FIX,
            )

    def _compare(self, level: Level, kernel: UOp) -> Iterator[Comparison]:
        """Return the comparisons of the accesses, by the form of the stage if it is a known one."""
        for form in (verify_scatters, verify_scans, verify_epilogues):
            comparisons = form.compare(self.last, kernel)
            if comparisons is not None:
                return iter(comparisons)
        return stage_equivalence.compare(
            self.last, kernel, with_use_conditions=level in (KERNEL, THREADS)
        )

    def finish(self, sizes: bounds_and_races.Sizes) -> None:
        """Check the accesses of the last graphs for bounds and races."""
        assert self.level is WORDS, "all stages were seen"
        inside = (
            self._require_in_bounds(p, sizes)
            for p in bounds_and_races.check_bounds(self.last, sizes)
        )
        self._add_rows(self.name, Check.BOUNDS, inside)
        self._add_rows(
            self.loops_name,
            Check.WRITES,
            map(self._require_no_race, bounds_and_races.check_races(self.loops)),
        )

    def _add_rows(self, stage: str, check: Check, answers: Iterator[tuple[Access, Answer]]) -> None:
        """Add a row for each access; of its lanes, the least certain one."""
        begin = time.perf_counter()
        for _, group in itertools.groupby(answers, key=lambda answer: answer[0].node):
            access, worst = max(group, key=lambda answer: _RANK[_how(answer[1])])
            now = time.perf_counter()
            row = Row(0, stage, check, access.text, _how(worst), worst.detail, now - begin)
            self.rows.append(row)
            begin = now

    # -- faults ------------------------------------------------------------------------------------

    def _require_same(self, stage: str, comparison: Comparison) -> tuple[Access, Answer]:
        """Return an access that is the same as before; raise an error if it is not."""
        if comparison.answer.holds:
            return comparison.after, comparison.answer
        point = comparison.answer.point or {}
        what = "writes" if comparison.after.store else "reads"
        if comparison.why:
            why = comparison.why
        elif comparison.before is comparison.after:
            kind = "store" if comparison.after.store else "read"
            why = f"the {kind} {comparison.after.text} is not done any more"
        elif comparison.before is None:
            why = f"nothing like {comparison.after.text} was there before"
        else:
            values = [
                self._element_text(comparison.before, point, comparison),
                self._element_text(comparison.after, point, None),
            ]
            why = (
                f"before: {comparison.before.text}\nafter: {comparison.after.text}\n"
                f"at {self._point_text(point)}: {values[0]} before, {values[1]} after"
            )
        raise VerifyError(
            f"the stage '{stage}' changed what a kernel {what}",
            where=self._kernel_text(self.original),
            why=why,
            fix=_FIX,
        )

    def _require_in_bounds(
        self, check: bounds_and_races.AccessCheck, sizes: bounds_and_races.Sizes
    ) -> tuple[Access, Answer]:
        """Return an access that is in bounds; raise an error if it is not."""
        if check.answer.holds:
            return check.access, check.answer
        point = check.answer.point or {}
        raise VerifyError(
            f"after the stage '{self.name}' a kernel leaves its buffer",
            where=self._kernel_text(self.original),
            why=f"{check.access.text} has {_count(check.access, sizes)}\n"
            f"at {self._point_text(point)}: {self._element_text(check.access, point, None)}",
            fix=_FIX,
        )

    def _require_no_race(self, check: bounds_and_races.AccessCheck) -> tuple[Access, Answer]:
        """Return a store without a race; raise an error if there is one."""
        if check.answer.holds:
            return check.access, check.answer
        point = check.answer.point or {}
        assert check.other is not None
        raise VerifyError(
            f"after the stage '{self.loops_name}' parallel iterations write the same element",
            where=self._kernel_text(self.loops),
            why=f"{check.access.text} and {check.other.text}\n"
            f"at {self._point_text(point)}: both {self._element_text(check.access, point, None)}",
            fix=_FIX,
        )

    def _kernel_text(self, kernel: UOp) -> str:
        try:
            return listing(kernel, self.names)
        except (KeyError, ValueError, AssertionError):
            return show(kernel, limit=1000)

    def _point_text(self, point: Mapping[tuple[UOp, int], int]) -> str:
        nodes = {node: show(node) for node, _ in point}
        return point_text(point, nodes)

    def _element_text(
        self, access: Access, point: Mapping[tuple[UOp, int], int], comparison: Comparison | None
    ) -> str:
        """Return the element of an access at a point, as text."""
        domain = _PointValues(point)
        try:
            now = Evaluation(domain)
            if comparison is None:
                value = effective_address(access, now)
            else:
                inside = [now.value(condition) for condition in comparison.inside]
                value = effective_address(
                    access, Evaluation(domain, comparison.substitution), inside
                )
        except Unknown:
            return "an element that depends on data"
        number = value.constant if isinstance(value, LinearSum) and not value.coefficients else None
        if number is None:
            return "an element that depends on data"
        return "nothing" if number == NOT_EXECUTED else f"element {number}"


_RANK: Final = {how: rank for rank, how in enumerate(How)}


def _how(answer: Answer) -> How:
    assert answer.how is not None, "what does not hold is an error"
    return answer.how


class _PointValues(LinearDomain):
    """Linear sums in which every symbol has a value."""

    def __init__(self, point: Mapping[tuple[UOp, int], int]) -> None:
        self.point = point

    def symbol(self, node: UOp, copy: int, low: int, end: LinearSum) -> LinearSum:
        number = self.point.get((node, copy), self.point.get((node, 0)))
        if number is None:
            raise Unknown("a symbol without a value")
        return LinearSum(number)


def _count(access: Access, sizes: bounds_and_races.Sizes) -> str:
    name, number = access.buffer
    dims = sizes.get(number, ()) if name == ops.PARAM.name else ()
    return f"{' * '.join(map(show, dims)) if dims else access.size} elements"
