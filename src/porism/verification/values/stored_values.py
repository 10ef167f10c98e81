"""Stored values: a kernel stores what its reference says, after every stage.

The last form is run first. If its values are right, so was every stage before it, as far as these
values show; if one is wrong, all forms are compared in order, to name the stage.
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
from porism.verification.values.kernel_references import Reference, buffers_of
from porism.verification.values.rounding_bounds import Bounded
from porism.verification.values.synthetic_inputs import TooLarge

MAX_COMPARED: Final = 1024
"""Most elements whose values are compared in a run; chosen by hand."""

Runner = Callable[[Reference, int | None], tuple[Array, Array]]
"""Runs a kernel on the data of a reference, its result perhaps over one of the inputs; returns the
contents of its buffer, and which elements were stored."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An element with a wrong value."""

    address: int
    expected: str
    computed: str

    def __str__(self) -> str:
        return f"element {self.address}: {self.expected} before, {self.computed} after"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many elements were compared."""

    compared: int
    size: int


def interpreter(kernel: partial_runs.Kernel, *, whole: bool = False) -> Runner:
    """Return a runner that interprets a kernel, all of it or some of its iterations."""

    nodes = toposort(kernel) if isinstance(kernel, UOp) else kernel
    types = {int(n.arg): n.dtype.element.numpy for n in nodes if n.op is ops.PARAM}

    def run(reference: Reference, overwritten: int | None) -> tuple[Array, Array]:
        stored = np.zeros(reference.size, np.bool_)
        data = np.zeros(reference.size, reference.dtype.numpy)
        if overwritten is not None:
            data = reference.inputs[overwritten].copy()
        buffers = buffers_of(reference, Memory(data, stored))
        if overwritten is not None:
            buffers[overwritten] = Memory(data)
        for number, dtype in types.items():  # a target may lack a type, and have its bits only
            memory = buffers[number]
            buffers[number] = Memory(memory.data.view(dtype), memory.written)
        round_number = reference.round_number
        complete = partial_runs.run(kernel, buffers, reference.variables, round_number, whole=whole)
        if complete and reference.complete and not stored.all():
            raise Unwritten(int(np.argmin(stored)))
        return data, stored

    return run


class Unwritten(Exception):  # noqa: N818 - caught where it is told
    """An element that a kernel does not store."""

    def __init__(self, address: int) -> None:
        super().__init__(address)
        self.address = address


class OutOfBoundsWrite(Exception):  # noqa: N818 - caught where it is told
    """Machine code that writes outside of one of its buffers."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def compare_stored(
    reference: Reference, run: Runner, overwritten: int | None = None
) -> Agreement | Difference:
    """Run a kernel, and compare what it stores with its reference.

    Raises TooLarge where that would take too long.
    """
    try:
        data, stored = run(reference, overwritten)
    except Unwritten as fault:
        return Difference(fault.address, _text(_expected(reference, np.array([fault.address]))),
                          "nothing")  # fmt: skip
    except OutOfBoundsWrite as fault:
        return Difference(-1, "nothing", f"bytes around buffer {fault.number} are overwritten")
    except EvaluationError as fault:
        return Difference(-1, "a value", str(fault))
    addresses = sample_addresses(np.flatnonzero(stored))
    while True:
        try:
            return _compare_elements(reference, data, addresses)
        except TooLarge:
            if len(addresses) <= 1:
                raise
            addresses = addresses[:: max(len(addresses) // max(len(addresses) // 8, 1), 2)]


def sample_addresses(addresses: Array) -> Array:
    """Return at most MAX_COMPARED of some addresses, the first and the last among them."""
    if len(addresses) <= MAX_COMPARED:
        return addresses
    generator = np.random.default_rng(len(addresses))
    some = generator.choice(len(addresses), MAX_COMPARED - 2, replace=False)
    return np.asarray(addresses[np.unique([0, len(addresses) - 1, *some])])


def _compare_elements(
    reference: Reference, data: Array, addresses: Array
) -> Agreement | Difference:
    """Compare the stored elements at some addresses with the expected ones."""
    expected = _expected(reference, addresses)
    computed = data[addresses]
    agrees = rounding_bounds.agree(reference.dtype, expected.data, expected.bound, computed)
    if settings.fast_math and reference.dtype.is_float:  # what is not finite may be anything
        agrees |= ~np.isfinite(rounding_bounds.wide(reference.dtype, expected.data))
    if agrees.all():
        return Agreement(len(addresses), reference.size)
    worst = int(np.argmin(agrees))
    return Difference(int(addresses[worst]), str(expected.data[worst]), str(computed[worst]))


def _expected(reference: Reference, addresses: Array) -> Bounded:
    """Return the expected elements at some addresses."""
    known = reference.expected(addresses)
    bound = known.bound
    return Bounded(
        np.broadcast_to(known.data, addresses.shape),
        None if bound is None else np.broadcast_to(bound, addresses.shape),
    )


def _text(known: Bounded) -> str:
    return str(known.data.reshape(-1)[0])


def first_wrong_form(
    forms: Sequence[tuple[str, UOp | Sequence[UOp]]], references: Sequence[Reference],
    overwritten: int | None,
) -> Iterator[tuple[str, Difference]]:  # fmt: skip
    """Yield the first form whose values are wrong, with its stage; nothing if none is."""
    for name, form in forms:
        for reference in references:
            try:
                result = compare_stored(reference, interpreter(form), overwritten)
            except TooLarge:
                continue
            if isinstance(result, Difference):
                yield name, result
                return
