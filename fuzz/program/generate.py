"""Generating: a random program from a seed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from fuzz.program.maker import Maker
from fuzz.program.steps import Input, Ref, Step, refs, with_leaves
from fuzz.program.table import COMPLEX, ROWS
from fuzz.program.values import PARTS, RefusedError, Value, value_of, widened

ALL: Final = {name: row.weight for name, row in ROWS.items()}
EXACT: Final = {name: row.weight for name, row in ROWS.items() if row.result != "near"}
"""How often each function is called: in any program, and in one whose results are exact."""

SHARE: Final = 0.6
"""The part of programs without functions that are only near."""

LEAST, MANY = 3, 25
"""Operations of a program."""


@dataclass(frozen=True, slots=True)
class Program:
    """Steps, what the oracle knows of each, and which are the results."""

    steps: tuple[Step, ...]
    known: tuple[Value, ...]
    results: tuple[int, ...]


def program(random: Random) -> Program:
    """A program of some operations, mostly few, each mostly on what the one before it gave."""
    maker = Maker(random)
    while not maker.steps:
        with contextlib.suppress(RefusedError):
            maker.new(maker.main, maker.shape())
    chosen = EXACT if random.random() < SHARE else ALL
    if maker.main in PARTS:
        chosen = {name: weight for name, weight in chosen.items() if name in COMPLEX}
    names, weights = list(chosen), list(chosen.values())
    wanted = min(LEAST + int(random.expovariate(0.28)), MANY)
    for _ in range(10 * MANY):
        last = len(maker.steps) - 1
        if operations(maker.steps, last) >= wanted or last > 2 * wanted + 20:
            break
        add(maker, random.choices(names, weights)[0])
    calls = [k for k, step in enumerate(maker.steps) if not isinstance(step, Input)]
    results = sorted(calls, key=lambda k: operations(maker.steps, k))[-1:]
    if random.random() < 0.15:  # all values that nothing uses
        used = {k for step in maker.steps for k in refs(step)}
        results = [k for k in calls if k not in used and k not in maker.dead][-4:]
    return pruned(Program(tuple(maker.steps), tuple(maker.known), tuple(results)))


def add(maker: Maker, name: str) -> bool:
    """Add a call of a function, if it goes with what there is."""
    mark = len(maker.steps)
    try:
        ROWS[name].draw(maker, name)
    except RefusedError:
        maker.forget(mark)
        return False
    return True


def operations(steps: Sequence[Step], number: int) -> int:
    """How many operations the value of a step takes."""
    return sum(not isinstance(steps[k], Input) for k in needed(steps, [number]))


def needed(steps: Sequence[Step], results: Sequence[int]) -> list[int]:
    """The steps that some results depend on, in order."""
    found: set[int] = set()
    todo = list(results)
    while todo:
        number = todo.pop()
        if number not in found:
            found.add(number)
            todo.extend(refs(steps[number]))
    return sorted(found)


def pruned(given: Program) -> Program:
    """Without the steps that no result needs."""
    kept = needed(given.steps, given.results)
    numbers = {old: new for new, old in enumerate(kept)}

    def leaf(value: Any) -> Any:
        return Ref(numbers[value.number]) if type(value) is Ref else value

    steps = [given.steps[k] for k in kept]
    return Program(
        tuple(step if isinstance(step, Input) else with_leaves(step, leaf) for step in steps),
        tuple(given.known[k] for k in kept),
        tuple(numbers[k] for k in given.results),
    )


def evaluated(steps: Sequence[Step], results: Sequence[int], shift: int = 0) -> Program:
    """A program of these steps, on the numbers of a shift; refused if it cannot be compared."""
    known: list[Value] = []
    for step in steps:
        if isinstance(step, Input):
            array = step.array(shift)
            known.append(Value(widened(array, step.dtype), step.dtype, True))
        else:
            row = ROWS[step.name]
            known.append(value_of(step, known, row.result, row.jumps))
    return Program(tuple(steps), tuple(known), tuple(results))
