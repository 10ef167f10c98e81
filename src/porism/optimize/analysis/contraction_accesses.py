"""Analysis: what a kernel that is one contraction reads, and how far apart, loop by loop.

A contraction here is a kernel of one nest of output loops around reductions over the same loops.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from porism.ir import ops
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.memory.epilogue import epilogue_instructions
from porism.optimize.analysis.buffer_loads import converted_load, loads_of
from porism.optimize.analysis.loop_strides import iterations, step
from porism.optimize.strategy.action_plan import extent_of, is_unscheduled
from porism.rules.addresses.validity import is_masked


@dataclass(frozen=True)
class Operand:
    """What is read in a reduction, with what is done to each element on its own."""

    value: UOp
    load: UOp
    buffer: int
    which: int
    """Which of the loads of its buffer."""

    @cached_property
    def ranges(self) -> frozenset[UOp]:
        return frozenset(self.value.ranges)

    @cached_property
    def elements(self) -> int:
        """How often it is read, if once for each iteration of the loops it depends on."""
        return iterations(self.ranges)

    @cached_property
    def item(self) -> int:
        """Bytes of an element."""
        return int(self.value.dtype.numpy.itemsize)

    @cached_property
    def is_masked(self) -> bool:
        """Whether some elements are not read."""
        return self.value.op is ops.WHERE or is_masked(self.load.src[1])

    def step(self, counter: UOp) -> int | None:
        """Elements from one iteration of a loop to the next; None if that varies."""
        if counter not in self.ranges:
            return 0
        if counter not in self._steps:
            self._steps[counter] = step(self.load.src[1], counter)
        return self._steps[counter]

    @cached_property
    def _steps(self) -> dict[UOp, int | None]:
        return {}

    def window(self, counter: UOp, terms: Iterable[UOp]) -> tuple[UOp, int] | None:
        """A loop of a reduction that goes on where an output loop is, and how far that goes."""
        step = self.step(counter)
        for term in terms:
            other = self.step(term)
            if step and other and step % other == 0 and 1 <= step // other < extent_of(term):
                return term, step // other
        return None


@dataclass(frozen=True)
class Contraction:
    """A nest of loops around reductions."""

    outputs: tuple[UOp, ...]
    """The loops of what is stored, the outermost first."""
    terms: tuple[UOp, ...]
    """The loops of the reductions."""
    operands: tuple[Operand, ...]
    stores: tuple[UOp, ...]
    reductions: int
    bits: int
    """Of the widest type that is computed with."""
    following: int
    """Instructions that follow the sums, about."""
    constants: frozenset[int] = frozenset()
    """Buffers that can be laid out in any way, once before all calls."""

    def is_stored_along(self, counter: UOp) -> bool:
        """Whether neighbouring iterations of a loop store neighbouring elements."""
        return {step(store.src[0].src[1], counter) for store in self.stores} == {1}

    def is_stored_on(self, outer: UOp, inner: UOp) -> bool:
        """Whether an iteration of a loop stores where the one before, of another inside, ended."""
        steps = {step(store.src[0].src[1], outer) for store in self.stores}
        return self.is_stored_along(inner) and steps == {extent_of(inner)}

    @cached_property
    def work(self) -> int:
        """Terms of all reductions."""
        return self.results * self.length * self.reductions

    @cached_property
    def results(self) -> int:
        """Elements that are stored."""
        return iterations(self.outputs)

    @cached_property
    def length(self) -> int:
        """Terms of one reduction."""
        return iterations(self.terms)


def contraction(kernel: UOp, constants: frozenset[int] = frozenset()) -> Contraction | None:
    """What a kernel reads, if it is one nest of loops around reductions over the same loops."""
    if len(kernel.src) != 1 or kernel.src[0].op is not ops.END:
        return None
    effect, *outputs = kernel.src[0].src
    order = toposort(kernel)
    if sum(n.op is ops.END for n in order) > 1 or any(n.op is ops.AFTER for n in order):
        return None
    reductions = [n for n in order if n.op is ops.REDUCE]
    terms = reductions[0].src[1:] if reductions else ()
    if any(n.src[1:] != terms for n in reductions) or not terms:
        return None
    if not all(is_unscheduled(r) for r in (*outputs, *terms)):
        return None
    inside = set(toposort(*(n.src[0] for n in reductions)))
    if any(n.op is ops.REDUCE for n in inside):
        return None
    operands = []
    for number in sorted({_number(n) for n in loads_of(kernel)}):
        for which, load in enumerate(loads_of(kernel, number)):
            if load in inside:
                operands.append(Operand(converted_load(kernel, load), load, number, which))
    stores = effect.src if effect.op is ops.GROUP else (effect,)
    if not operands or any(s.op is not ops.STORE for s in stores):
        return None
    bits = [n.dtype.bits for n in order if n.op in (ops.INDEX, ops.REDUCE, ops.CAST)]
    return Contraction(
        tuple(outputs), tuple(terms), tuple(operands), tuple(stores), len(reductions),
        max([*bits, 8]), epilogue_instructions(kernel.src[0]), constants,
    )  # fmt: skip


def _number(load: UOp) -> int:
    return int(base_of(load).arg)
