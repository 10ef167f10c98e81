"""The search: what it tries, what it keeps, and when it ends; nothing is compiled here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

import porism
from porism.base.target import GENERIC_CPU, H200, Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.action import Action, Actions, apply_all
from porism.optimize.actions.action_registry import ACTIONS
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.actions.memory.packed_panels import Pack
from porism.optimize.model.loop_cost import estimate_cost
from porism.optimize.search.beam_search import Found, Result, search
from porism.optimize.search.candidates import ON_CPU, ON_GPU, neighbours, possible
from porism.optimize.strategy import heuristic
from porism.pipeline import unscheduled_kernel

CPU = GENERIC_CPU


def product(rows: int = 24, terms: int = 32, columns: int = 48, target: Target = CPU) -> UOp:
    shapes = ((rows, terms), (terms, columns))
    a, b = (porism.asarray(np.ones(s, np.float32)) for s in shapes)
    (kernel,) = porism.kernels(a @ b)
    return unscheduled_kernel(kernel.node, target)


def by(times: Callable[[Actions], Result]) -> Callable[..., Iterator[tuple[int, Result]]]:
    def measure(candidates: Sequence[Actions], bar: float) -> Iterator[tuple[int, Result]]:
        for number, actions in enumerate(candidates):
            yield number, times(actions)

    return measure


def found_by(times: Callable[[Actions], Result], *, width: int = 3, most: int = 300) -> Found:
    kernel = product()
    start = heuristic.choose_actions(kernel, CPU)
    return search(
        kernel, CPU, start, 1.0, by(times), width=width, go_on=lambda found: found.tried < most
    )


def model(actions: Actions) -> Result:
    """A machine that likes 6 rows, no threads, and a sum four at a time."""
    seconds = 1.0
    seconds *= 0.6 if any(isinstance(a, Upcast) and a.amount == 6 for a in actions) else 1.0
    seconds *= 0.7 if not any(isinstance(a, Thread) for a in actions) else 1.0
    seconds *= 0.5 if any(isinstance(a, Unroll) and a.amount == 4 for a in actions) else 1.0
    return Result(seconds)


# -- steps -----------------------------------------------------------------------------------------


def test_every_neighbour_is_legal_and_gives_what_is_said() -> None:
    kernel = product()
    start = heuristic.choose_actions(kernel, CPU)
    found = list(neighbours(kernel, start, CPU))
    assert len(found) > 30
    for actions, after in found:
        assert apply_all(kernel, actions, CPU) is after
    assert any(len(actions) < len(start) for actions, _ in found)  # one is left out
    changed = [a for a, _ in found if len(a) == len(start)]
    assert any(sum(x != y for x, y in zip(a, start, strict=True)) == 1 for a in changed)
    assert any(len(actions) == len(start) + 1 for actions, _ in found)


def test_neighbours_are_the_same_every_time() -> None:
    kernel = product()
    start = heuristic.choose_actions(kernel, CPU)
    first, second = ([a for a, _ in neighbours(kernel, start, CPU)] for _ in range(2))
    assert first == second


def test_every_action_is_proposed_where_it_can_be_done() -> None:
    assert {**ON_CPU, **ON_GPU}.keys() == set(ACTIONS.values())
    lanes = Upcast("r1", 16)
    squared = substitute(product(), {n: n * n for n in toposort(product()) if n.op is ops.REDUCE})
    (scan,) = porism.kernels(porism.asarray(np.ones((16, 32), np.float32)).cumsum(-1))
    kernels = [product(20, 32, 46), lanes.apply(product(), CPU), lanes.apply(squared, CPU)]
    kernels.append(unscheduled_kernel(scan.node, CPU))
    assert {type(a) for kernel in kernels for a, _ in possible(kernel, CPU)} == set(ON_CPU)
    gpu = {type(action) for action, _ in possible(product(20, 32, 48, H200), H200)}
    assert gpu >= {Upcast, Unroll, *(ACTIONS[n] for n in ("Local", "Group", "GroupTop"))}


# -- the cost model --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ([Upcast("r1", 4)], []),  # lanes that are neighbours
        ([Upcast("r1", 4)], [Upcast("r1", 4, top=True)]),
        ([Upcast("r1", 4), Upcast("r0", 4)], [Upcast("r1", 4)]),  # what is loaded is used again
        ([Upcast("r1", 4), Upcast("r0", 4)], [Upcast("r1", 16), Upcast("r0", 12)]),  # registers
    ],
)
def test_the_cost_model_tells_good_from_bad(better: list[Action], worse: list[Action]) -> None:
    one, other = (estimate_cost(apply_all(product(), a, CPU), CPU) for a in (better, worse))
    assert one.operations < other.operations


def test_large_code_and_large_local_memory_are_not_possible() -> None:
    kernel = product(64, 64, 64)
    assert estimate_cost(kernel, CPU).is_feasible(CPU)
    staged = Pack(2, ("r2", "r1"))
    copied = apply_all(product(512, 512, 512), [staged], CPU)
    assert not estimate_cost(copied, CPU).is_feasible(CPU)


# -- searching -------------------------------------------------------------------------------------


def test_the_best_is_found_and_counted() -> None:
    found = found_by(model, most=10_000)
    assert found.seconds == pytest.approx(0.6 * 0.7 * 0.5)
    assert model(found.actions).seconds == found.seconds
    assert found.before == 1.0
    assert found.good[0] == (found.seconds, found.actions)
    assert found.rounds > 2
    assert found.pruned > 0


def test_a_search_is_the_same_every_time() -> None:
    assert found_by(model).actions == found_by(model).actions


def test_a_wider_beam_is_never_worse_here() -> None:
    one, other = (found_by(model, width=width, most=10_000).seconds for width in (1, 4))
    assert other <= one


def test_if_all_candidates_fail_the_start_is_kept() -> None:
    faults = itertools.cycle(["crashed", "hung"])
    found = found_by(lambda actions: Result(None, next(faults)), most=20)
    assert found.seconds == found.before == 1.0
    assert found.actions == heuristic.choose_actions(product(), CPU)
    assert sum(found.faults.values()) == found.tried
    assert set(found.faults) == {"crashed", "hung"}


def test_nothing_slower_replaces_the_start() -> None:
    found = found_by(lambda actions: Result(1.5), most=1000)
    assert found.actions == heuristic.choose_actions(product(), CPU)
    assert not found.interrupted


def test_it_begins_again_where_the_start_leads_nowhere() -> None:
    """A machine on which the heuristic's first step is wrong, and what follows is needed."""
    kernel = product()
    start = heuristic.choose_actions(kernel, CPU)
    assert isinstance(start[0], Upcast)

    def times(actions: Actions) -> Result:
        if start[0] in actions:
            return Result(1.0 if len(actions) >= len(start) else 3.0)
        return Result(0.5 ** len(actions) + 0.9)

    def go_on(found: Found) -> bool:
        return found.tried < 2000

    alone = search(kernel, CPU, start, 1.0, by(lambda a: Result(1.0)), width=1, go_on=go_on)
    both = search(kernel, CPU, start, 1.0, by(times), width=1, go_on=go_on, others=[()])
    assert alone.actions == start
    assert start[0] not in both.actions
    assert both.seconds < 0.96


def test_it_ends_when_it_is_told_to() -> None:
    assert found_by(model, most=1).tried <= 8


def test_an_interrupt_keeps_the_best_so_far() -> None:
    count = itertools.count()

    def times(actions: Actions) -> Result:
        number = next(count)
        if number == 30:
            raise KeyboardInterrupt
        return Result(1.0 - number / 100)

    found = found_by(times)
    assert found.interrupted
    assert found.tried == 30
    assert found.seconds == pytest.approx(0.71)
