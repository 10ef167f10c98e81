"""Faults: why an element has no value, kept until the element is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from porism.base.errors import EvaluationError
from porism.evaluate.varying_value import GOOD, INVALID, Axes, Value, label
from porism.ir.facts.effect_scopes import Scope
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.text.expression import show


@dataclass(frozen=True)
class Fault:
    """What a node did that is not allowed."""

    node: UOp
    what: str
    why: str
    fix: str


def describe(node: UOp) -> str:
    """A node in an error message.

    >>> i = UOp.variable("i", 0, 9)
    >>> describe(i).startswith("VARIABLE")
    True
    """
    return f"{node.op.name}: {show(node, limit=160)}"


def failure(fault: Fault, user: UOp | None = None, at: str = "") -> EvaluationError:
    """The error for a fault, met in `user`, at this iteration or thread."""
    where = describe(fault.node)
    if at:
        where += f"\nat {at}"
    if user is not None and user is not fault.node:
        where += f"\nused by {describe(user)}"
    return EvaluationError(fault.what, where=where, why=fault.why, fix=fault.fix)


def check_loops_closed(root: UOp, scope: Scope) -> None:
    """Raise if a loop or IF in the scope of a program's root is never closed."""
    for opener in sorted(scope, key=lambda node: node.key):
        raise failure(
            Fault(
                opener,
                f"{describe(opener)} is never closed",
                "what happens in a loop is closed by an END or a REDUCE, an IF by an ENDIF",
                "end the effect: effect.end(range)",
            ),
            root,
        )


def position(axes: Axes, index: Sequence[int]) -> str:
    """The iteration at which something happened."""
    pairs = zip(axes, index, strict=False)
    return ", ".join(f"{label(axis)} = {number}" for axis, number in pairs)


Where = Callable[[], str]
"""Says which thread and which iteration of its loops is running; asked only for a message."""


def nowhere() -> str:
    return ""


def place_of_fault(axes: Axes, index: Sequence[Any], thread: Where) -> str:
    """The iteration at an index of an array, in a thread."""
    parts = (thread(), position(axes, [int(i) for i in index]))
    return "; ".join(part for part in parts if part)


class Faults:
    """The faults of one evaluation by number; the numbers are what a state holds."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._codes: dict[Fault, int] = {}

    def code(self, fault: Fault) -> int:
        found = self._codes.get(fault)
        if found is None:
            self._faults.append(fault)
            found = self._codes[fault] = len(self._faults)
        return found

    def mark(
        self, state: Array | None, bad: Array, node: UOp, what: str, why: str, fix: str
    ) -> Array | None:
        """The state with a fault at the elements that are bad and were good."""
        if not bad.any():
            return state
        code = np.int32(self.code(Fault(node, what, why, fix)))
        if state is None:
            return np.where(bad, code, np.int32(GOOD))
        return np.where(bad & (state == GOOD), code, state)

    def demand(
        self, value: Value, user: UOp, active: Array | None = None, thread: Where = nowhere
    ) -> None:
        """Raise the first fault among the elements that are used (`active`)."""
        if value.state is None:
            return
        bad = value.state > GOOD
        if active is not None:
            bad = bad & active
        if not bad.any():
            return
        bad = np.broadcast_to(bad, value.data.shape)
        first = np.unravel_index(int(np.argmax(bad)), bad.shape)
        code = int(value.states[first])
        raise failure(self._faults[code - 1], user, place_of_fault(value.axes, first, thread))

    def demand_valid(self, value: Value, user: UOp, what: str, active: Array | None = None) -> None:
        """Raise if an element that is used is a fault or INVALID."""
        self.demand(value, user, active)
        if value.state is None:
            return
        bad = value.state == INVALID
        if active is not None:
            bad = bad & active
        if bad.any():
            raise failure(
                Fault(
                    user,
                    what,
                    "INVALID is the index of no element, not a value",
                    "choose another value where it is INVALID: WHERE(valid, value, other)",
                )
            )
