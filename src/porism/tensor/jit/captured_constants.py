"""Lasting: tensors that a jitted function finds outside and leaves as they are, such as weights.

What the function computes of them alone is computed once, and kept until one of them is assigned
to. A value is known by its BUFFER, of which no two have the same number; memory that is written
over gets another BUFFER. So a call only has to compare numbers.

Memory that a tensor shares with somebody else may change at any time. What is made of that is made
at every call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from porism.engine.run import array_allocator
from porism.engine.run.backend_runners import Prepared, Runner
from porism.engine.run.buffer_storage import Held, NoValue, held, held_if_any
from porism.engine.run.realize import realize
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.schedule.schedule import Schedule
from porism.tensor.jit.tracing import no_value
from porism.tensor.tensor import Tensor

ELSEWHERE: Final = np.empty(0)
"""In place of an array that something else holds on to."""


def held_of(tensor: Tensor) -> Held:
    """The values of a tensor in memory, computed if need be."""
    found = held_if_any(tensor._node)
    if found is not None:
        return found
    try:
        buffer = realize([tensor._node])[0]
        if all(dim.op is ops.CONST for dim in shape(tensor._node)):
            tensor._node = buffer
        return held(buffer)
    except NoValue:
        raise no_value() from None


def is_own(tensor: Tensor) -> bool:
    """Whether nobody else can write to the values of a tensor."""
    found = held_if_any(tensor._node)
    return found is None or array_allocator.is_own(
        found[0]
    )  # what is not computed yet will be ours


@dataclass(frozen=True, slots=True)
class Made:
    """What is at hand for a call, made of certain values."""

    numbers: list[Any]
    """Of the BUFFERs."""
    inputs: list[Any]
    """Those of the program; None for what each call has itself."""
    packs: Sequence[Held]
    """Copies for the kernels of the program, laid out as they are read."""
    program: Prepared | None
    """That which the copies are for."""


@dataclass(frozen=True, slots=True)
class Once:
    """What is computed of constants alone."""

    schedule: Schedule
    run: Runner
    sources: list[int | Held]
    """For each of its inputs which of the tensors it is, or what it is."""
    places: list[int]
    """For each of its outputs the input of the program that it is."""
    sizes: list[int]
    """Bytes of each."""


@dataclass(slots=True, eq=False)
class Lasting:
    """The tensors, and what was made of them."""

    tensors: list[Tensor]
    count: int
    """Of inputs of the program."""
    places: list[tuple[int, int]]
    """Inputs of the program, and which of the tensors each is."""
    constants: list[tuple[int, Held]]
    """Inputs of the program that never change."""
    once: Once | None
    program: Prepared | None
    """What runs at each call; None if there is nothing to compute."""
    derived: frozenset[int]
    """Those of the tensors of which something is made."""
    made: Made | None = field(default=None, init=False)
    """The latest, unless something of it may change unseen."""

    def is_known(self) -> bool:
        """Whether all tensors are what they were when things were made of them."""
        made = self.made
        return made is not None and made.numbers == [t._node.arg for t in self.tensors]

    def now(self) -> tuple[Made, list[UOp]]:
        """What is made of the values of this moment, and the BUFFERs, to be held meanwhile."""
        nodes = [tensor._node for tensor in self.tensors]
        made = self.made
        if (
            made is not None
            and made.program is self.program
            and made.numbers == [node.arg for node in nodes]
        ):
            return made, nodes
        return self._renewed()

    def _renewed(self) -> tuple[Made, list[UOp]]:
        nodes = [_buffer(tensor) for tensor in self.tensors]
        values = [held(node) for node in nodes]
        inputs: list[Any] = [None] * self.count
        for place, constant in self.constants:
            inputs[place] = constant
        for place, which in self.places:
            inputs[place] = values[which]
        once, program = self.once, self.program
        if once is not None:
            given = [values[one] if isinstance(one, int) else one for one in once.sources]
            for place, output in zip(once.places, once.run(given, {}), strict=True):
                inputs[place] = output
        packs = program.pack(inputs) if program is not None else ()
        for place, which in self.places:
            inputs[place] = (ELSEWHERE, values[which][1])
        made = Made([node.arg for node in nodes], inputs, packs, program)
        own = all(array_allocator.is_own(values[k][0]) for k in self.derived)
        self.made = made if own else None
        return made, nodes


def _buffer(tensor: Tensor) -> UOp:
    """The BUFFER with the values of a tensor, whose sizes are known."""
    node = tensor._node
    while held_if_any(node) is None:
        held_of(tensor)
        node = tensor._node
    return node
