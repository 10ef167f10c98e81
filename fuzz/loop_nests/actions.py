"""Random actions: every action of the table, with fields that fit the loops of a kernel."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, Final, get_type_hints

from fuzz.loop_nests.choices import Choices
from porism.base.errors import ActionError
from porism.base.settings import settings
from porism.base.target import Target
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action
from porism.optimize.actions.action_registry import ACTIONS
from porism.optimize.actions.gpu.thread_block_actions import ThreadBlockAction
from porism.optimize.actions.loop_substitution import ranges_of
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.loop_tiling import OverlapTail
from porism.optimize.actions.loops.peeling import Peel
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.search.candidates import CPU_PROPOSALS, GPU_PROPOSALS, KernelLoops
from porism.optimize.strategy import heuristic

AMOUNTS: Final = (2, 4, 3, 8, 5, 7, 6, 16, 1, 9)
NUMBERS: Final = {
    "buffer": (0, 1, 2),
    "load": (0, 1),
    "row": (0, 1, 2),
    "vector": (1, 1, 2, 4),
    "padding": (0, 0, 1, 3),
}
"""What fields of actions are that are no amounts."""

NARROW: Final = frozenset({"Block", "Pack", "Epilogue", "Scan", "Group", "GroupTop", "TC", "Stage"})
"""Actions that are legal on few loops, and tried more often."""

MOST: Final = 6
MOST_PROPOSED: Final = 60
TOGETHER: Final = (32, 32, 32, 64, 32, 32, 64, 256)
"""Unrolled and vectorized iterations, at most: more take long."""
ATTEMPTS: Final = 3
"""Actions that are tried for one that is done."""


@functools.cache
def fields_of(kind: type[Action]) -> dict[str, Any]:
    """The fields of an action and their types."""
    types = get_type_hints(kind)
    return {f.name: types[f.name] for f in dataclasses.fields(kind)}  # type: ignore[arg-type]


@functools.cache
def kinds_for(target: Target) -> tuple[type[Action], ...]:
    """The actions that may be legal on a target."""
    kinds = [k for k in ACTIONS.values() if target.block or not issubclass(k, ThreadBlockAction)]
    return tuple(k for k in kinds for _ in range(3 if k.__name__ in NARROW else 1))


def random_action(
    choices: Choices, kernel: UOp, target: Target, latest: Action | None, only: str | None
) -> Action | None:
    """An action on the loops of a kernel, legal or not; None where there is none to try.

    It often goes on with the loop and the amount of the latest one.
    """
    loops = ranges_of(kernel)
    if not loops:
        return None
    if only is not None and only in ACTIONS and choices.below(2):
        kind = ACTIONS[only]
    else:
        kind = choices.one_of(kinds_for(target))
    proposals = (GPU_PROPOSALS if target.block else CPU_PROPOSALS).get(kind)
    if proposals is not None and choices.below(2):
        proposed = list(itertools.islice(proposals(KernelLoops(kernel, target)), MOST_PROPOSED))
        return choices.one_of(proposed) if proposed else None
    amounts: tuple[int, ...] = AMOUNTS
    if latest is not None and choices.below(2):
        said = vars(latest)
        last = said.get("amount", said.get("multiple"))
        amounts = AMOUNTS if last is None else (last,)
        axis = said.get("axis")
        loops = [r for r in loops if axis and show(r).startswith(axis)] or loops
    chosen: list[UOp] = []
    values = {
        name: _field(choices, name, type_, loops, chosen, amounts)
        for name, type_ in fields_of(kind).items()
    }
    return kind(**values)


def _field(
    choices: Choices,
    name: str,
    type_: Any,
    loops: Sequence[UOp],
    chosen: list[UOp],
    amounts: Sequence[int],
) -> Any:
    """A value for a field of an action: by its type, and of a number also by its name."""
    if type_ is str:
        chosen.append(choices.one_of(loops))
        return show(chosen[-1])
    if type_ is bool:
        return choices.seldom(3)
    if type_ is int:
        if name in NUMBERS:
            return choices.one_of(NUMBERS[name])
        if chosen and len(amounts) > 1 and choices.below(2):
            size = int(chosen[0].vmax) + 1
            divisors = [n for n in range(2, size + 1) if size % n == 0]
            if divisors:
                return choices.one_of(divisors)
        return choices.one_of(amounts)
    assert type_ == tuple[str, ...], "a new type of field needs a line here"
    names = [show(r) for r in choices.shuffled(loops)[: 1 + choices.below(3)]]
    if len(names) > 1 and choices.seldom(4):
        names = ["+".join(names[:2]), *names[2:]]
    return tuple(names)


class _List:
    """Actions that were done, one after the other."""

    def __init__(self, kernel: UOp, target: Target, most: int) -> None:
        self.done: list[Action] = []
        self.kernel = kernel
        self.target = target
        self.most = most

    def attempt(self, action: Action) -> None:
        """Do an action, if it is legal and unrolls no more than the limit."""
        try:
            kernel = action.apply(self.kernel, self.target)
        except ActionError:
            return
        if isinstance(action, Upcast | Unroll) and _together(kernel) > self.most:
            return
        self.kernel = kernel
        self.done.append(action)


def random_actions(
    choices: Choices, kernel: UOp, target: Target, only: str | None = None
) -> tuple[list[Action], UOp]:
    """Legal actions one after the other, and the kernel after them.

    Often the first ones are those of the heuristic, which is what users get, or most loops are
    vectorized.
    """
    found = _List(kernel, target, choices.one_of(TOGETHER))
    begin = choices.below(6)
    if begin in (4, 5):
        _vectorize(choices, found)
    elif begin >= 2:
        with settings.override(check=True):  # which raises what a strategy does wrong
            chosen = list(heuristic.choose_actions(kernel, target))
        if begin == 3 and chosen:
            del chosen[choices.below(len(chosen))]
        for action in chosen:
            found.attempt(action)
        if begin == 2 and choices.below(2):
            return found.done, found.kernel
    for _ in range(ATTEMPTS * choices.below(MOST + 1)):
        latest = found.done[-1] if found.done else None
        tried = random_action(choices, found.kernel, target, latest, only)
        if tried is not None and len(found.done) <= 2 * MOST:
            found.attempt(tried)
    return found.done, found.kernel


def _vectorize(choices: Choices, found: _List) -> None:
    """Most loops in vectors, of sizes that they are made to fit."""
    for counter in choices.shuffled(ranges_of(found.kernel)):
        how = choices.below(6)
        if how == 5:
            continue
        axis, amount = show(counter), choices.one_of((4, 8, 2, 4, 16, 3))
        before: tuple[Action, ...] = (PadTo(axis, amount),)
        if how in (2, 3):
            before = (OverlapTail(axis, amount), Peel(axis, amount))
        names = {show(r) for r in ranges_of(found.kernel)}
        for action in before:
            found.attempt(action)
        for new in ranges_of(found.kernel):
            if show(new) == axis or show(new) not in names:
                found.attempt(Upcast(show(new), amount))
                found.attempt(Unroll(show(new), amount))


def _together(kernel: UOp) -> int:
    """Return the most unrolled and vectorized iterations of any node."""
    scopes = {n.ranges for n in toposort(kernel)}
    spread = (Axis.UPCAST, Axis.UNROLL)
    return max(
        math.prod(int(r.vmax) + 1 for r in ranges if r.arg[1] in spread) for ranges in scopes
    )
