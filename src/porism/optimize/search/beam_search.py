"""Beam search: better actions for a kernel than the heuristic's, by measuring.

The search begins with the heuristic's actions and with other plans for the whole kernel. The best
few of all that were measured form the beam. Its members take turns: each time, a batch of their
neighbours is measured, after the cost model has pruned those that are hopeless. A candidate that
turns out better joins the beam at once. The heuristic's actions stay among those compared, so that
the result is never slower. How a candidate is measured is up to the caller.
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

MAX_COST_RATIO: Final = 1.4
"""Cycles of a candidate by the cost model, at most, in those of the actions it comes from. Of 1250
candidates for 28 kernels that were all measured, none within 5 % of the best of its kernel exceeds
1.25, and two thirds of those that are half as slow again do."""

MAX_CANDIDATES: Final = 256
"""Neighbours of one list of actions that are measured, at most: the cheapest by the cost model."""

MIN_REMEMBERED: Final = 5
"""How many of the best are remembered, at least, whatever the width of the beam."""

BATCH: Final = 8
"""Candidates that are handed over to be measured at a time (chosen by hand)."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The time of a candidate, or why there is none."""

    seconds: float | None
    fault: str = ""


Measure = Callable[[Sequence[Actions], float], Iterator[tuple[int, Measurement]]]
"""Takes candidates and the best time so far in seconds, and yields a measurement of each, with the
position of the candidate."""


@dataclass(slots=True)
class SearchResult:
    """What a search has found so far."""

    actions: Actions
    """The best so far."""
    seconds: float
    """The time of the best."""
    start_seconds: float
    """The time of the actions that the search began with."""
    measured: int = 0
    """Candidates that were measured."""
    pruned: int = 0
    """Candidates that were not measured, because of the cost model."""
    rounds: int = 0
    """Turns of the whole beam."""
    interrupted: bool = False
    faults: Counter[str] = field(default_factory=Counter)
    """Why candidates have no time, and how many."""
    best: list[tuple[float, Actions]] = field(default_factory=list)
    """The best few with their times, the fastest first."""
    history: list[tuple[float, Actions]] = field(default_factory=list)
    """All that were measured with their times, in order."""

    def add(self, seconds: float, actions: Actions, width: int) -> None:
        """Note the time of a candidate, for a beam of some width."""
        self.history.append((seconds, actions))
        self.best = sorted([*self.best, (seconds, actions)], key=lambda pair: pair[0])
        del self.best[max(width, MIN_REMEMBERED) :]
        if seconds < self.seconds:
            self.seconds, self.actions = seconds, actions


def beam_search(
    kernel: UOp,
    target: Target,
    start: Actions,
    seconds: float,
    measure: Measure,
    *,
    width: int,
    go_on: Callable[[SearchResult], bool],
    plans: Iterable[tuple[Actions, UOp]] = (),
    restarts: Sequence[Actions] = (),
) -> SearchResult:
    """Search for faster actions than `start`, which takes so many seconds.

    `plans` for the whole kernel are measured first. When the neighbours of these and of the start
    are exhausted, the search begins again from each of the `restarts`. It ends when `go_on`, which
    is asked after every measurement, returns False, or with a KeyboardInterrupt.
    """
    result = SearchResult(start, seconds, seconds, best=[(seconds, start)])
    search = _Search(kernel, target, start, result, measure, width, go_on)
    try:
        search.run(plans, restarts)
    except KeyboardInterrupt:
        result.interrupted = True
    return result


@dataclass(slots=True, eq=False)
class _State:
    """A measured list of actions, and the batches of its neighbours that are left to measure."""

    seconds: float
    actions: Actions
    batches: Iterator[list[Actions]]
    is_exhausted: bool = False


@dataclass(slots=True)
class _Search:
    """A search while it runs."""

    kernel: UOp
    target: Target
    start: Actions
    result: SearchResult
    measure: Measure
    width: int
    go_on: Callable[[SearchResult], bool]
    visited: set[UOp] = field(default_factory=set)
    """Scheduled kernels that were candidates already."""

    def run(self, plans: Iterable[tuple[Actions, UOp]], restarts: Sequence[Actions]) -> None:
        """Measure whole plans, then neighbours of the best, then those of other starts."""
        self.visited.add(apply_all(self.kernel, self.start, self.target))
        states = [self._state(self.result.start_seconds, self.start)]
        candidates = list(self._promising(plans))
        for begin in range(0, len(candidates), BATCH):
            if not self._measure_batch(candidates[begin : begin + BATCH], states):
                return
        self._climb(states)
        for actions in restarts:
            restarted: list[_State] = []
            if not self.go_on(self.result) or not self._measure_batch([actions], restarted):
                return
            self._climb(restarted)

    def _climb(self, states: list[_State]) -> None:
        """Measure neighbours of the best states, old and new, until all are exhausted."""
        while True:
            states.sort(key=lambda state: state.seconds)
            beam = [state for state in states[: self.width] if not state.is_exhausted]
            if not beam:
                return
            self.result.rounds += 1
            for state in beam:
                if not self.go_on(self.result):
                    return
                batch = next(state.batches, None)
                if batch is None:
                    state.is_exhausted = True
                elif not self._measure_batch(batch, states):
                    return

    def _measure_batch(self, candidates: Sequence[Actions], states: list[_State]) -> bool:
        """Measure candidates, append those with a time to the states; return whether to go on."""
        result = self.result
        for position, measurement in self.measure(candidates, result.seconds):
            result.measured += 1
            if measurement.seconds is None:
                result.faults[measurement.fault] += 1
            else:
                states.append(self._state(measurement.seconds, candidates[position]))
                result.add(measurement.seconds, candidates[position], self.width)
            if not self.go_on(result):
                return False
        return True

    def _state(self, seconds: float, actions: Actions) -> _State:
        return _State(seconds, actions, self._batches(actions))

    def _batches(self, actions: Actions) -> Iterator[list[Actions]]:
        """Yield batches of the neighbours of actions, the cheapest by the cost model first."""
        around = neighbours(self.kernel, actions, self.target)
        promising = list(self._promising(around, actions))
        for begin in range(0, len(promising), BATCH):
            yield promising[begin : begin + BATCH]

    def _promising(
        self, candidates: Iterable[tuple[Actions, UOp]], origin: Actions | None = None
    ) -> Iterator[Actions]:
        """Yield the candidates that were not visited and that the cost model does not prune.

        Neighbours of an origin come the cheapest first; whole plans in the order of their own.
        """
        compared = apply_all(self.kernel, self.start if origin is None else origin, self.target)
        limit = MAX_COST_RATIO * estimate_cost(compared, self.target).cycles
        costs: list[tuple[Cost, Actions]] = []
        for candidate, after in candidates:
            if after in self.visited:
                continue
            self.visited.add(after)
            cost = estimate_cost(after, self.target)
            if cost.is_feasible(self.target) and cost.cycles <= limit:
                costs.append((cost, candidate))
            else:
                self.result.pruned += 1
            if len(costs) % BATCH == 0 and not self.go_on(self.result):
                break
        if origin is not None:
            costs.sort(key=lambda pair: pair[0].cycles)
        self.result.pruned += max(len(costs) - MAX_CANDIDATES, 0)
        for _, candidate in costs[:MAX_CANDIDATES]:
            yield candidate
