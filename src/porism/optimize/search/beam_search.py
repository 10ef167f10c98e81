"""Search: better actions for a kernel than the heuristic's, by measuring.

It begins with the heuristic's list, and with whole plans that somebody thinks are good as well. The
best few of all that was measured are changed in all ways of one step; they take turns, a handful of
candidates each, of which the cost model has thrown out what is hopeless. What is found better takes
its turn next. The heuristic's own list is always among those that are compared, so that the result
is never worse. How something is measured is the caller's affair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.base.target import Target
from porism.ir.node import UOp
from porism.optimize.actions.action import Actions, apply_all
from porism.optimize.model.loop_cost import Cost, estimate_cost
from porism.optimize.search.candidates import neighbours

SLACK: Final = 1.4
"""How many times as many cycles as what it comes from something takes by the cost model, to be
thrown out. Of 1250 candidates for 28 kernels that were all measured, none within 5 % of the best of
its kernel takes more than 1.25, and two thirds of those that are half as slow again do."""

MOST_A_ROUND: Final = 256
"""Candidates of one round that are measured, the cheapest by the cost model."""

MEET: Final = 5
"""How many of the best are remembered, at least."""

TOGETHER: Final = 8
"""Candidates that are handed over to be measured at a time."""


@dataclass(frozen=True, slots=True)
class Result:
    """What measuring a candidate has given: its time, or why there is none."""

    seconds: float | None
    fault: str = ""


Measure = Callable[[Sequence[Actions], float], Iterator[tuple[int, Result]]]
"""Results with the numbers of the candidates, for which the best time so far is a bar."""


@dataclass(slots=True)
class Found:
    """How far a search has come."""

    actions: Actions
    """The best so far."""
    seconds: float
    before: float
    """The time of the actions that it began with."""
    tried: int = 0
    pruned: int = 0
    """Candidates that were not measured, by the cost model."""
    rounds: int = 0
    interrupted: bool = False
    faults: Counter[str] = field(default_factory=Counter)
    """Why candidates were dropped, and how many."""
    good: list[tuple[float, Actions]] = field(default_factory=list)
    """The best, in order."""


def search(
    kernel: UOp,
    target: Target,
    start: Actions,
    seconds: float,
    measure: Measure,
    *,
    width: int,
    go_on: Callable[[Found], bool],
    plans: Iterable[tuple[Actions, UOp]] = (),
    others: Sequence[Actions] = (),
) -> Found:
    """Look for better actions than `start`, which takes so many seconds.

    Whole plans are measured first. When nothing more is found from these and the start, the search
    begins again with each of the others. `go_on` is asked after every result. An interrupt from the
    keyboard ends the search with what it has found.
    """
    found = Found(start, seconds, seconds, good=[(seconds, start)])
    search = _Search(kernel, target, start, found, measure, width, go_on)
    try:
        search.run(plans, others)
    except KeyboardInterrupt:
        found.interrupted = True
    return found


@dataclass(slots=True, eq=False)
class _State:
    """A list of actions that was measured, and what is left to try from there."""

    seconds: float
    actions: Actions
    batches: Iterator[list[Actions]]
    over: bool = False


@dataclass(slots=True)
class _Search:
    kernel: UOp
    target: Target
    start: Actions
    found: Found
    measure: Measure
    width: int
    go_on: Callable[[Found], bool]
    seen: set[UOp] = field(default_factory=set)
    """Kernels that were tried."""

    def run(self, plans: Iterable[tuple[Actions, UOp]], others: Sequence[Actions]) -> None:
        """Whole plans, then steps from the best, then steps from other beginnings."""
        self.seen.add(apply_all(self.kernel, self.start, self.target))
        states = [self._state(self.found.before, self.start)]
        whole = list(self._new(plans))
        for begin in range(0, len(whole), TOGETHER):
            if not self._tried(whole[begin : begin + TOGETHER], states):
                return
        self._climb(states)
        for other in others:
            beginning: list[_State] = []
            if not self.go_on(self.found) or not self._tried([other], beginning):
                return
            self._climb(beginning)

    def _climb(self, states: list[_State]) -> None:
        """Steps from the best of some states, and of what is found, until there are none left."""
        while True:
            states.sort(key=lambda state: state.seconds)
            beam = [state for state in states[: self.width] if not state.over]
            if not beam:
                return
            self.found.rounds += 1
            for state in beam:
                if not self.go_on(self.found):
                    return
                batch = next(state.batches, None)
                if batch is None:
                    state.over = True
                elif not self._tried(batch, states):
                    return

    def _tried(self, candidates: Sequence[Actions], states: list[_State]) -> bool:
        """Measure some; whether there is time for more."""
        found = self.found
        for number, result in self.measure(candidates, found.seconds):
            found.tried += 1
            if result.seconds is None:
                found.faults[result.fault] += 1
            else:
                states.append(self._state(result.seconds, candidates[number]))
                _note(found, result.seconds, candidates[number], self.width)
            if not self.go_on(found):
                return False
        return True

    def _state(self, seconds: float, actions: Actions) -> _State:
        return _State(seconds, actions, self._batches(actions))

    def _batches(self, actions: Actions) -> Iterator[list[Actions]]:
        """Candidates a step away that are worth measuring, the cheapest first, a few at a time."""
        chosen = list(self._new(neighbours(self.kernel, actions, self.target), actions))
        for begin in range(0, len(chosen), TOGETHER):
            yield chosen[begin : begin + TOGETHER]

    def _new(
        self, candidates: Iterable[tuple[Actions, UOp]], near: Actions | None = None
    ) -> Iterator[Actions]:
        """Of candidates those that were not seen and are not hopeless.

        Steps from somewhere, the cheapest first; whole plans in the order in which they come.
        """
        own = apply_all(self.kernel, self.start if near is None else near, self.target)
        limit = SLACK * estimate_cost(own, self.target).cycles
        costs: list[tuple[Cost, Actions]] = []
        for candidate, after in candidates:
            if after in self.seen:
                continue
            self.seen.add(after)
            cost = estimate_cost(after, self.target)
            if cost.is_feasible(self.target) and cost.cycles <= limit:
                costs.append((cost, candidate))
            else:
                self.found.pruned += 1
            if len(costs) % TOGETHER == 0 and not self.go_on(self.found):
                break
        if near is not None:
            costs.sort(key=lambda pair: pair[0].cycles)
        self.found.pruned += max(len(costs) - MOST_A_ROUND, 0)
        for _, candidate in costs[:MOST_A_ROUND]:
            yield candidate


def _note(found: Found, seconds: float, actions: Actions, width: int) -> None:
    found.good = sorted([*found.good, (seconds, actions)], key=lambda good: good[0])
    del found.good[max(width, MEET) :]
    if seconds < found.seconds:
        found.seconds, found.actions = seconds, actions
