"""Verifying kernels: the pipeline run under the eyes of all checks.

After each stage its accesses are compared with those before it. Of the last graph that has loops
and no lanes yet, the writes of parallel iterations are compared; of the last graph of all, every
access with its buffer. The first fault is an error that names the stage.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from porism.base.errors import VerifyError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.expression import show
from porism.ir.levels import KERNEL, THREADS, WORDS, Level
from porism.ir.node import UOp
from porism.optimize import heuristic
from porism.optimize.actions import Action
from porism.pipeline import to_lines, to_schedule, watched
from porism.schedule.listing import listing
from porism.verification import claims, finished, places, scanning, scattering, stages
from porism.verification.accesses import Access
from porism.verification.claims import Answer
from porism.verification.points import named
from porism.verification.reading import Reading, Unknown
from porism.verification.report import Check, How, Report, Row
from porism.verification.stages import NOWHERE, Compared, effective
from porism.verification.sums import Sum, Sums

MADE: Final = "kernels"
"""The stage that makes kernels."""

ARRANGING: Final = "arrange loops"
"""The stage that is a row of actions, each of which is compared for itself."""

_FIX: Final = "this is a fault of Porism: report it with this message"

Names = Mapping[int, str]


def verified(graph: UOp, target: Target) -> Report:
    """Everything that is compiled for a graph of tensors, checked; an error at the first fault."""
    begin = time.perf_counter()
    rows: dict[UOp, list[Row]] = {}
    checking = _Checking()

    def see(name: str, level: Level, kernel: UOp) -> None:
        if level is not KERNEL:
            return
        if name == MADE:
            checking.begin(kernel)
        else:
            checking.stage(name, level, kernel)
            rows[kernel] = list(checking.rows)

    with watched(see):
        schedule = to_schedule(graph, cached=False)
    found: list[Row] = []
    done: set[UOp] = set()
    for number, step in enumerate(schedule.steps):
        if step.kernel in done:
            continue
        done.add(step.kernel)
        buffers = [schedule.buffers[b] for b in step.buffers]
        sizes = {
            k: b.dims for k, b in enumerate(buffers) if any(d.op is not ops.CONST for d in b.dims)
        }
        names = {k: b.name for k, b in enumerate(buffers)}
        own = [*rows.get(step.kernel, ()), *lowered(step.kernel, target, sizes, names)]
        found += [dataclasses.replace(row, kernel=number) for row in own]
    return Report(tuple(found), _note(), len(done), time.perf_counter() - begin)


def lowered(
    kernel: UOp,
    target: Target,
    sizes: places.Sizes | None = None,
    names: Names | None = None,
    *,
    arranged: bool = False,
    actions: Sequence[Action] | None = None,
) -> list[Row]:
    """The rows of a kernel from its loops to what a machine does.

    Actions that are given take the place of the heuristic's.
    """
    checking = _Checking(names, target, actions)
    checking.begin(kernel)
    with watched(checking.stage):
        to_lines(kernel, target, arranged=arranged, actions=actions)
    checking.ending(sizes or {})
    return checking.rows


def arranged(
    before: UOp, after: UOp, target: Target, names: Names, actions: Sequence[Action] = ()
) -> Report:
    """The loops of a kernel before and after some actions, and what is compiled from there."""
    begin = time.perf_counter()
    checking = _Checking(names, target)
    checking.begin(before)
    checking.actions("actions", after, actions)
    rows = [*checking.rows, *lowered(after, target, names=names, arranged=True)]
    return Report(tuple(rows), _note(), 1, time.perf_counter() - begin)


def _note() -> str:
    return claims.MISSING if claims.solver() is None else ""


class _Checking:
    """One kernel on its way through the stages."""

    def __init__(
        self,
        names: Names | None = None,
        target: Target | None = None,
        given: Sequence[Action] | None = None,
    ) -> None:
        self.names = names or {}
        self.target = target
        self.given = given
        self.rows: list[Row] = []

    def begin(self, kernel: UOp) -> None:
        self.made = self.last = self.loops = kernel
        self.level = KERNEL
        self.name = MADE
        self.loops_name = MADE
        self.rows = []

    def stage(self, name: str, level: Level, kernel: UOp) -> None:
        """Compare a graph with the one before; to be given to `porism.pipeline.watched`."""
        if name == ARRANGING and self.target is not None and kernel is not self.last:
            given = self.given
            chosen = heuristic.chosen(self.last, self.target) if given is None else given
            self.actions(name, kernel, chosen)
        else:
            self._stage(name, level, kernel)

    def actions(self, name: str, kernel: UOp, actions: Sequence[Action]) -> None:
        """Compare a graph with the one before, action by action.

        What each does to loops can be guessed; what all of them do together, seldom.
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
        if kernel is not self.last:
            found = self._compared(level, kernel)
            self._note(name, Check.INDEX, (self._index(name, c) for c in found))
        self.last, self.level, self.name = kernel, level, name
        if level in (KERNEL, THREADS):
            self.loops, self.loops_name = kernel, name

    def _compared(self, level: Level, kernel: UOp) -> Iterator[Compared]:
        for known in (scattering, scanning, finished):
            found = known.compared(self.last, kernel)
            if found is not None:
                return iter(found)
        return stages.compared(self.last, kernel, needs=level in (KERNEL, THREADS))

    def ending(self, sizes: places.Sizes) -> None:
        """Check the places of the last graphs."""
        assert self.level is WORDS, "all stages were seen"
        inside = (self._bounds(p, sizes) for p in places.bounds(self.last, sizes))
        self._note(self.name, Check.BOUNDS, inside)
        self._note(self.loops_name, Check.WRITES, map(self._writes, places.writes(self.loops)))

    def _note(self, stage: str, check: Check, answers: Iterator[tuple[Access, Answer]]) -> None:
        """A row for each access; of its lanes, the one that is known least."""
        begin = time.perf_counter()
        for _, group in itertools.groupby(answers, key=lambda answer: answer[0].node):
            access, worst = max(group, key=lambda answer: _RANK[_how(answer[1])])
            now = time.perf_counter()
            row = Row(0, stage, check, access.text, _how(worst), worst.detail, now - begin)
            self.rows.append(row)
            begin = now

    # -- faults ------------------------------------------------------------------------------------

    def _index(self, stage: str, found: Compared) -> tuple[Access, Answer]:
        if found.answer.holds:
            return found.after, found.answer
        point = found.answer.point or {}
        what = "writes" if found.after.store else "reads"
        if found.why:
            why = found.why
        elif found.before is found.after:
            kind = "store" if found.after.store else "read"
            why = f"the {kind} {found.after.text} is not done any more"
        elif found.before is None:
            why = f"nothing like {found.after.text} was there before"
        else:
            values = [
                self._at(found.before, point, found), self._at(found.after, point, None)
            ]  # fmt: skip
            why = (
                f"before: {found.before.text}\nafter: {found.after.text}\n"
                f"at {self._named(point)}: {values[0]} before, {values[1]} after"
            )
        raise VerifyError(
            f"the stage '{stage}' changed what a kernel {what}",
            where=self._kernel(self.made),
            why=why,
            fix=_FIX,
        )

    def _bounds(self, found: places.Placed, sizes: places.Sizes) -> tuple[Access, Answer]:
        if found.answer.holds:
            return found.access, found.answer
        point = found.answer.point or {}
        raise VerifyError(
            f"after the stage '{self.name}' a kernel leaves its buffer",
            where=self._kernel(self.made),
            why=f"{found.access.text} has {_count(found.access, sizes)}\n"
            f"at {self._named(point)}: {self._at(found.access, point, None)}",
            fix=_FIX,
        )

    def _writes(self, found: places.Placed) -> tuple[Access, Answer]:
        if found.answer.holds:
            return found.access, found.answer
        point = found.answer.point or {}
        assert found.other is not None
        raise VerifyError(
            f"after the stage '{self.loops_name}' parallel iterations write the same element",
            where=self._kernel(self.loops),
            why=f"{found.access.text} and {found.other.text}\n"
            f"at {self._named(point)}: both {self._at(found.access, point, None)}",
            fix=_FIX,
        )

    def _kernel(self, kernel: UOp) -> str:
        try:
            return listing(kernel, self.names)
        except (KeyError, ValueError, AssertionError):
            return show(kernel, limit=1000)

    def _named(self, point: Mapping[tuple[UOp, int], int]) -> str:
        nodes = {node: show(node) for node, _ in point}
        return named(point, nodes)

    def _at(
        self, access: Access, point: Mapping[tuple[UOp, int], int], found: Compared | None
    ) -> str:
        """The element of an access at a point, in words."""
        world = _Fixed(point)
        try:
            now = Reading(world)
            if found is None:
                value = effective(access, now)
            else:
                inside = [now.value(condition) for condition in found.inside]
                value = effective(access, Reading(world, found.meaning), inside)
        except Unknown:
            return "an element that depends on data"
        number = value.constant if isinstance(value, Sum) and not value.factors else None
        if number is None:
            return "an element that depends on data"
        return "nothing" if number == NOWHERE else f"element {number}"


_RANK: Final = {how: rank for rank, how in enumerate(How)}


def _how(answer: Answer) -> How:
    assert answer.how is not None, "what does not hold is an error"
    return answer.how


class _Fixed(Sums):
    """Sums in which every symbol has a value."""

    def __init__(self, point: Mapping[tuple[UOp, int], int]) -> None:
        self.point = point

    def symbol(self, node: UOp, copy: int, low: int, end: Sum) -> Sum:
        found = self.point.get((node, copy), self.point.get((node, 0)))
        if found is None:
            raise Unknown("a symbol without a value")
        return Sum(found)


def _count(access: Access, sizes: places.Sizes) -> str:
    name, number = access.buffer
    dims = sizes.get(number, ()) if name == ops.PARAM.name else ()
    return f"{' * '.join(map(show, dims)) if dims else access.size} elements"
