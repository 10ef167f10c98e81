"""Shrinking: a smaller program with the same fault, for a person to read.

Candidates are tried one after the other, the boldest first, and the first that still fails is
shrunk again: fewer steps, plain settings, fewer options, smaller sizes, simpler types.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fuzz.program.generate import Program, evaluated, pruned
from fuzz.program.run import PLAIN, Finding, How, symbol_of
from fuzz.program.steps import Call, Input, Ref, Step, lines, names_of, replaced, with_leaves

Fails = Callable[[Program, How], Finding | None]

Case = tuple[Program, How]


def shrunk(program: Program, how: How, finding: Finding, fails: Fails,
           seconds: float) -> tuple[Program, How, Finding]:  # fmt: skip
    """The smallest case found in some seconds that fails in the same way."""
    end = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for candidate, other in candidates(program, how):
            if time.monotonic() > end:
                break
            found = fails(candidate, other)
            if found is not None and found.kind == finding.kind:
                program, how, finding = candidate, other, found
                progress = True
                break
    return program, how, finding


def candidates(program: Program, how: How) -> Iterator[Case]:
    """Smaller cases, the boldest first."""
    for simpler in _plainer(how):
        yield program, simpler
    for steps, results in _smaller(program):
        try:
            yield pruned(evaluated(steps, results)), how
        except Exception:  # not every change leaves a program
            continue


def _plainer(how: How) -> Iterator[How]:
    if how != PLAIN:
        yield PLAIN
    for field in dataclasses.fields(how):
        if getattr(how, field.name) != field.default:
            changed: dict[str, Any] = {field.name: field.default}
            yield dataclasses.replace(how, **changed)


Parts = tuple[list[Step], tuple[int, ...]]


def _smaller(program: Program) -> Iterator[Parts]:
    steps, results = list(program.steps), program.results
    if len(results) > 1:
        for result in results:
            yield steps, (result,)
    last = max(results)
    for number in range(last):
        if not isinstance(steps[number], Input):
            yield steps, (number,)
    yield from _without_steps(program)
    yield from _with_smaller_sizes(steps, results)
    yield from _with_fewer_options(steps, results)
    yield from _with_plain_types(steps, results)


def _without_steps(program: Program) -> Iterator[Parts]:
    """Each call replaced by one of its operands, or by an input of its shape and type."""
    for number in range(len(program.steps) - 1, -1, -1):
        step, value = program.steps[number], program.known[number]
        if isinstance(step, Input):
            continue
        for other in dict.fromkeys(k.number for k in _refs(step)):
            if number not in program.results or not isinstance(program.steps[other], Input):
                yield _instead(program, number, other)
        if number in program.results or symbol_of(program.steps) is not None:
            continue
        steps = list(program.steps)
        low, high = (0, 2) if value.dtype == "bool" or value.dtype[0] == "u" else (-4, 5)
        if value.dtype.startswith("int") and value.array.size:
            low, high = int(value.array.min()), int(value.array.max()) + 1
            low, high = max(low, -9), min(max(high, low + 1), 10)
        steps[number] = Input(value.dtype, value.array.shape, number, low, max(high, low + 1))
        yield steps, program.results


def _refs(step: Call) -> list[Ref]:
    found: list[Ref] = []

    def leaf(value: Any) -> Any:
        if type(value) is Ref:
            found.append(value)
        return value

    with_leaves(step, leaf)
    return found


def _instead(program: Program, number: int, other: int) -> Parts:
    """The program in which one value takes the place of another."""

    def leaf(value: Any) -> Any:
        return Ref(other) if type(value) is Ref and value.number == number else value

    steps = [s if isinstance(s, Input) else with_leaves(s, leaf) for s in program.steps]
    return steps, tuple(other if k == number else k for k in program.results)


def _with_smaller_sizes(steps: list[Step], results: tuple[int, ...]) -> Iterator[Parts]:
    """One size smaller, everywhere in the inputs, and perhaps wherever the number occurs."""
    sizes = {n for step in steps if isinstance(step, Input) for n in step.shape}
    for size in sorted(sizes, reverse=True):
        for new in dict.fromkeys((1, 2, size // 2, size - 2, size - 1)):
            if not 0 < new < size:
                continue
            for deep in (False, True):
                yield [_resized(step, size, new, deep) for step in steps], results
    for number, step in enumerate(steps):  # of one input only
        if isinstance(step, Input):
            for axis, size in enumerate(step.shape):
                for new in dict.fromkeys((1, size // 2, size - 1)):
                    if 0 < new < size:
                        shape = (*step.shape[:axis], new, *step.shape[axis + 1 :])
                        changed = dataclasses.replace(step, shape=shape)
                        yield [*steps[:number], changed, *steps[number + 1 :]], results


def _resized(step: Step, size: int, new: int, deep: bool) -> Step:
    def leaf(value: Any) -> Any:
        return new if type(value) is int and value == size else value

    if isinstance(step, Input):
        return dataclasses.replace(step, shape=replaced(step.shape, leaf))
    return with_leaves(step, leaf) if deep else step


def _with_fewer_options(steps: list[Step], results: tuple[int, ...]) -> Iterator[Parts]:
    """Without a keyword argument, with smaller numbers, or written as a function."""
    for number, step in enumerate(steps):
        if isinstance(step, Input):
            continue
        changed: list[Call] = []
        for name in step.kwargs:
            rest = {k: v for k, v in step.kwargs.items() if k != name}
            changed.append(dataclasses.replace(step, kwargs=rest))
        changed += _with_smaller_numbers(step)
        for other in changed:
            yield [*steps[:number], other, *steps[number + 1 :]], results


def _with_smaller_numbers(step: Call) -> list[Call]:
    """Each number among the arguments made 0, 1 or smaller by 1."""
    count = 0

    def counting(value: Any) -> Any:
        nonlocal count
        count += type(value) is int
        return value

    with_leaves(step, counting)
    found = []
    for place in range(count):
        for change in (lambda _: 0, lambda _: 1, lambda n: n - 1 if n > 0 else n + 1):
            seen = -1

            def leaf(value: Any, place: int = place, change: Any = change) -> Any:
                nonlocal seen
                seen += type(value) is int
                if type(value) is int and seen == place and abs(change(value)) < abs(value):
                    return change(value)
                return value

            other = with_leaves(step, leaf)
            if other != step:
                found.append(other)
    return found


def _with_plain_types(steps: list[Step], results: tuple[int, ...]) -> Iterator[Parts]:
    """Floats as float32, integers as int32, and whole numbers without anything special."""
    for number, step in enumerate(steps):
        if not isinstance(step, Input):
            continue
        plain = step.dtype
        if "float" in plain:
            plain = "float32"
        elif "int" in plain:
            plain = "int32"
        low = max(step.low, -4) if step.high > 1 else step.low
        simple = dataclasses.replace(
            step, dtype=plain, over=1, special=False, low=low, high=max(min(step.high, 5), low + 1)
        )
        for other in (simple, dataclasses.replace(step, over=1, special=False)):
            if other != step:
                yield [*steps[:number], other, *steps[number + 1 :]], results


def script(program: Program, how: How, finding: Finding) -> str:
    """Python that a person can run: the program, what it gives, and what it should give."""
    names = names_of(program.steps)
    text = ["import numpy as np", "import porism", ""]
    text += lines(program.steps)
    for number in program.results:
        text.append(f"print({names[number]}.numpy())")
        shown = np.array2string(program.known[number].array, separator=", ", threshold=60)
        text += [f"# {'expected' if not k else '        '} {line}".rstrip()
                 for k, line in enumerate(filter(None, shown.split("\n")))]  # fmt: skip
    return "\n".join([f"# {finding.detail.splitlines()[0]}", f"# {how}", *text])


__all__ = ["script", "shrunk"]
