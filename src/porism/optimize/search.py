"""Search: better actions for a kernel than the heuristic's, by measuring.

It begins with the heuristic's list. In each round every list that is kept is changed in all ways of
one step; the cost model throws out what is hopeless, the rest is measured, and the best few are
kept. The heuristic's own list is always among those that are compared, so that the result is never
worse. How something is measured is the caller's affair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.base.target import Target
from porism.ir.node import UOp
from porism.optimize.candidates import neighbours
from porism.optimize.cost import Cost, cost_of
from porism.optimize.known_actions import Actions

SLACK: Final = 2.5
"""How much dearer than the best one by the cost model something is, to be thrown out."""

MOST_A_ROUND: Final = 256
"""Candidates of one round that are measured, the cheapest by the cost model."""

TOGETHER: Final = 8
"""Candidates that are handed over to be measured at a time."""

GAIN: Final = 0.99
"""A round that does not bring the time down to this part of what it was found nothing."""


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


@dataclass(frozen=True, slots=True)
class _State:
    seconds: float
    actions: Actions


def search(
    kernel: UOp,
    target: Target,
    start: Actions,
    seconds: float,
    measure: Measure,
    *,
    width: int,
    go_on: Callable[[Found], bool],
    others: Sequence[Actions] = (),
) -> Found:
    """Look for better actions than `start`, which takes so many seconds.

    When nothing more is found from there, the search begins again with each of the others. `go_on`
    is asked after every result. An interrupt from the keyboard ends the search with what it has
    found.
    """
    found = Found(start, seconds, seconds, good=[(seconds, start)])
    try:
        seen: set[UOp] = set()
        climb = _Climb(kernel, target, found, measure, width, go_on, seen)
        climb.run(_State(found.before, start))
        for other in others:
            if not go_on(found):
                break
            for _, result in measure([other], found.before):
                found.tried += 1
                if result.seconds is None:
                    found.faults[result.fault] += 1
                else:
                    climb.run(_State(result.seconds, other))
    except KeyboardInterrupt:
        found.interrupted = True
    return found


@dataclass(slots=True)
class _Climb:
    """A search from one list of actions, in rounds, until these find nothing better."""

    kernel: UOp
    target: Target
    found: Found
    measure: Measure
    width: int
    go_on: Callable[[Found], bool]
    seen: set[UOp]
    """Kernels that were tried, also from other beginnings."""

    def run(self, start: _State) -> None:
        found = self.found
        beam = [start]
        expanded: set[Actions] = set()
        rounds = 0
        while self.go_on(found):
            fresh = [state for state in beam if state.actions not in expanded]
            if not fresh:
                return
            expanded.update(state.actions for state in fresh)
            found.rounds += 1
            rounds += 1
            best = beam[0].seconds
            results: list[_State] = []
            for state in fresh:
                for candidates in self._batches(state.actions):
                    for number, result in self.measure(candidates, beam[0].seconds):
                        found.tried += 1
                        if result.seconds is None:
                            found.faults[result.fault] += 1
                        else:
                            results.append(_State(result.seconds, candidates[number]))
                            _note(found, results[-1], self.width)
                        if not self.go_on(found):
                            return
            beam = sorted([*beam, *results], key=lambda state: state.seconds)[: self.width]
            if beam[0].seconds > GAIN * best and rounds > 2:
                return

    def _batches(self, actions: Actions) -> Iterator[list[Actions]]:
        """Candidates that are worth measuring, the cheapest first, a few at a time."""
        own = self.kernel
        for action in actions:
            own = action.apply(own, self.target)
        self.seen.add(own)
        limit = SLACK * cost_of(own, self.target).operations
        costs: list[tuple[Cost, Actions]] = []
        for candidate, after in neighbours(self.kernel, actions, self.target):
            if after in self.seen:
                continue
            self.seen.add(after)
            cost = cost_of(after, self.target)
            if cost.is_possible(self.target) and cost.operations <= limit:
                costs.append((cost, candidate))
            else:
                self.found.pruned += 1
            if len(costs) % TOGETHER == 0 and not self.go_on(self.found):
                return
        costs.sort(key=lambda pair: pair[0].operations)
        self.found.pruned += max(len(costs) - MOST_A_ROUND, 0)
        chosen = [candidate for _, candidate in costs[:MOST_A_ROUND]]
        for begin in range(0, len(chosen), TOGETHER):
            yield chosen[begin : begin + TOGETHER]


def _note(found: Found, state: _State, width: int) -> None:
    found.good = sorted([*found.good, (state.seconds, state.actions)], key=lambda g: g[0])
    del found.good[max(width, 3) :]
    if state.seconds < found.seconds:
        found.seconds, found.actions = state.seconds, state.actions
