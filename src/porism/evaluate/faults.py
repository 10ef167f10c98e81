"""Faults: errors of single elements, which are raised only when the element is used."""

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
    """An error of a node: the parts of its message."""

    node: UOp
    what: str
    why: str
    fix: str


def describe(node: UOp) -> str:
    """Return a node as text for an error message.

    >>> i = UOp.variable("i", 0, 9)
    >>> describe(i).startswith("VARIABLE")
    True
    """
    return f"{node.op.name}: {show(node, limit=160)}"


def failure(fault: Fault, user: UOp | None = None, at: str = "") -> EvaluationError:
    """Return the exception for a fault that `user` met at this iteration or thread."""
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


def iteration_text(axes: Axes, index: Sequence[int]) -> str:
    """Return an iteration as text: the number of each axis."""
    pairs = zip(axes, index, strict=False)
    return ", ".join(f"{label(axis)} = {number}" for axis, number in pairs)


ThreadText = Callable[[], str]
"""Returns the running thread and its iteration as text; called only for an error message."""


def no_thread() -> str:
    """Return no text: there are no threads."""
    return ""


def fault_text(axes: Axes, index: Sequence[Any], thread: ThreadText) -> str:
    """Return the thread, and the iteration at an index of an array, as text."""
    parts = (thread(), iteration_text(axes, [int(i) for i in index]))
    return "; ".join(part for part in parts if part)


class Faults:
    """The faults of one evaluation, numbered; states of elements hold these numbers."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._codes: dict[Fault, int] = {}

    def code(self, fault: Fault) -> int:
        """Return the number of a fault, from 1 on."""
        code = self._codes.get(fault)
        if code is None:
            self._faults.append(fault)
            code = self._codes[fault] = len(self._faults)
        return code

    def mark(
        self, state: Array | None, bad: Array, node: UOp, what: str, why: str, fix: str
    ) -> Array | None:
        """Return the state with a new fault at the elements that are `bad` and were good."""
        if not bad.any():
            return state
        code = np.int32(self.code(Fault(node, what, why, fix)))
        if state is None:
            return np.where(bad, code, np.int32(GOOD))
        return np.where(bad & (state == GOOD), code, state)

    def demand(
        self, value: Value, user: UOp, active: Array | None = None, thread: ThreadText = no_thread
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
        raise failure(self._faults[code - 1], user, fault_text(value.axes, first, thread))

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
