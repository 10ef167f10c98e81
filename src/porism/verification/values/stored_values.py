"""Values: that a kernel stores what its reference says, in every form that it goes through.

The last form is run first. If its values are right, so was every stage before it, as far as these
values show; if one is wrong, the forms are compared from the first on, to name the stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from porism.base.errors import EvaluationError
from porism.base.settings import settings
from porism.evaluate import Memory
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.verification.values import partial_runs, rounding_bounds
from porism.verification.values.element_values import Known
from porism.verification.values.kernel_references import Reference, buffers_of
from porism.verification.values.synthetic_inputs import TooLarge

ELEMENTS: Final = 1024
"""Elements whose values are compared in a run, at most; of fewer, all are."""

Runner = Callable[[Reference, int | None], tuple[Array, Array]]
"""Runs a kernel on the data of a reference, with its result in the memory of one of the inputs or
not: what is in its buffer then, and which elements were stored."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A wrong element."""

    address: int
    wanted: str
    found: str

    def __str__(self) -> str:
        return f"element {self.address}: {self.wanted} before, {self.found} after"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many elements were compared."""

    compared: int
    size: int


def interpreted(kernel: partial_runs.Kernel, *, whole: bool = False) -> Runner:
    """Run a kernel by the evaluator, all of it or some of its iterations."""

    nodes = toposort(kernel) if isinstance(kernel, UOp) else kernel
    types = {int(n.arg): n.dtype.element.numpy for n in nodes if n.op is ops.PARAM}

    def run(reference: Reference, over: int | None) -> tuple[Array, Array]:
        stored = np.zeros(reference.size, np.bool_)
        data = np.zeros(reference.size, reference.dtype.numpy)
        if over is not None:
            data = reference.inputs[over].copy()
        buffers = buffers_of(reference, Memory(data, stored))
        if over is not None:
            buffers[over] = Memory(data)
        for number, dtype in types.items():  # a target may lack a type, and have its bits only
            memory = buffers[number]
            buffers[number] = Memory(memory.data.view(dtype), memory.written)
        turn = reference.turn
        done = partial_runs.run(kernel, buffers, reference.variables, turn, whole=whole)
        if done and reference.complete and not stored.all():
            raise Unwritten(int(np.argmin(stored)))
        return data, stored

    return run


class Unwritten(Exception):  # noqa: N818 - caught where it is told
    """An element that a kernel does not store."""

    def __init__(self, address: int) -> None:
        super().__init__(address)
        self.address = address


class Outside(Exception):  # noqa: N818 - caught where it is told
    """A kernel in machine code that writes around one of its buffers."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def compared(reference: Reference, run: Runner, over: int | None = None) -> Agreement | Difference:
    """Run a kernel, and compare what it stores with its reference.

    `TooLarge` where that would take too long.
    """
    try:
        data, stored = run(reference, over)
    except Unwritten as fault:
        return Difference(fault.address, _text(_expected(reference, np.array([fault.address]))),
                          "nothing")  # fmt: skip
    except Outside as fault:
        return Difference(-1, "nothing", f"bytes around buffer {fault.number} are overwritten")
    except EvaluationError as fault:
        return Difference(-1, "a value", str(fault))
    addresses = chosen(np.flatnonzero(stored))
    while True:
        try:
            return _compared(reference, data, addresses)
        except TooLarge:
            if len(addresses) <= 1:
                raise
            addresses = addresses[:: max(len(addresses) // max(len(addresses) // 8, 1), 2)]


def chosen(addresses: Array) -> Array:
    """Some addresses, the first and the last among them."""
    if len(addresses) <= ELEMENTS:
        return addresses
    generator = np.random.default_rng(len(addresses))
    some = generator.choice(len(addresses), ELEMENTS - 2, replace=False)
    return np.asarray(addresses[np.unique([0, len(addresses) - 1, *some])])


def _compared(reference: Reference, data: Array, addresses: Array) -> Agreement | Difference:
    wanted = _expected(reference, addresses)
    found = data[addresses]
    good = rounding_bounds.agree(reference.dtype, wanted.data, wanted.bound, found)
    if settings.fast_math and reference.dtype.is_float:  # what is not finite may be anything
        good |= ~np.isfinite(rounding_bounds.wide(reference.dtype, wanted.data))
    if good.all():
        return Agreement(len(addresses), reference.size)
    worst = int(np.argmin(good))
    return Difference(int(addresses[worst]), str(wanted.data[worst]), str(found[worst]))


def _expected(reference: Reference, addresses: Array) -> Known:
    known = reference.expected(addresses)
    bound = known.bound
    return Known(
        np.broadcast_to(known.data, addresses.shape),
        None if bound is None else np.broadcast_to(bound, addresses.shape),
    )


def _text(known: Known) -> str:
    return str(known.data.reshape(-1)[0])


def first_wrong(
    forms: Sequence[tuple[str, UOp | Sequence[UOp]]], references: Sequence[Reference],
    over: int | None,
) -> Iterator[tuple[str, Difference]]:  # fmt: skip
    """The first form whose values are wrong, with its stage; nothing if none shows it."""
    for name, form in forms:
        for reference in references:
            try:
                result = compared(reference, interpreted(form), over)
            except TooLarge:
                continue
            if isinstance(result, Difference):
                yield name, result
                return
