"""Action serialization: lists of actions as JSON data.

A list of actions is saved on disk and passed between processes as lists of names and fields. What
is read is checked against the registry: nothing is executed, and only actions can be constructed.

>>> from porism.optimize.actions.loops.parallel_loop import Thread
>>> from porism.optimize.actions.loops.upcast_unroll import Upcast
>>> write_actions([Upcast("r1", 16), Thread("r0")])
[['Upcast', {'axis': 'r1', 'amount': 16, 'top': False}], ['Thread', {'axis': 'r0'}]]
>>> read_actions([["Thread", {"axis": "r0"}]])
(Thread(axis='r0'),)
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Final, get_type_hints

from porism.base.errors import ActionError
from porism.optimize.actions.action import Action, Actions
from porism.optimize.actions.action_registry import ACTIONS

MAX_ACTIONS: Final = 200
"""Actions of one list, at most; chosen by hand, far above what a kernel needs."""

MAX_AXES: Final = 16
"""Names in a field that is a tuple of axes, at most; chosen by hand."""

MAX_INTEGER: Final = 1 << 31
"""Absolute value of an integer field, exclusive."""

_NAME: Final = r"r[0-9]{1,9}(?:_[0-9]{1,9}){0,9}"
_LOOP: Final = re.compile(_NAME)
_TERM: Final = rf"(?:[0-9]{{1,9}}\*)?{_NAME}"
_SUM: Final = re.compile(rf"{_TERM}(?:\+{_TERM}){{0,9}}")
"""A loop's name, or a sum of multiples of loops."""


def write_actions(actions: Sequence[Action]) -> list[Any]:
    """Return actions as JSON data: for each its name and its fields."""
    return [
        [type(action).__name__, {name: _to_json(value) for name, value in vars(action).items()}]
        for action in actions
    ]


def _to_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def read_actions(data: Any) -> Actions:
    """Return the actions that untrusted data describe; raise an `ActionError` if they do not."""
    if not isinstance(data, list) or len(data) > MAX_ACTIONS:
        raise _unreadable(f"a list of at most {MAX_ACTIONS} actions is expected")
    return tuple(_read_action(row) for row in data)


def _read_action(row: Any) -> Action:
    """Return the action of a name and its fields."""
    if not isinstance(row, list) or len(row) != 2 or not isinstance(row[1], dict):
        raise _unreadable("an action is its name and its fields")
    name, values = row
    kind = ACTIONS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise _unreadable("there is no action of that name")
    types = get_type_hints(kind)
    fields = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if sorted(values) != sorted(fields):
        raise _unreadable(f"{name} has the fields {', '.join(fields) or 'none'}")
    return kind(**{field: _read_field(values[field], types[field]) for field in fields})


def _read_field(value: Any, kind: Any) -> Any:
    """Return the value of a field, if it is of the type that the action declares."""
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and type(value) is int and abs(value) < MAX_INTEGER:
        return value
    if kind is str and isinstance(value, str) and _LOOP.fullmatch(value):
        return value
    if kind == tuple[str, ...] and _are_axes(value):
        return tuple(value)
    raise _unreadable("a field has a value of the wrong type or out of range")


def _are_axes(value: Any) -> bool:
    """Return whether data are names of loops or sums of them."""
    if not isinstance(value, list) or len(value) > MAX_AXES:
        return False
    return all(isinstance(axis, str) and _SUM.fullmatch(axis) for axis in value)


def _unreadable(why: str) -> ActionError:
    return ActionError("the data are not a list of actions", why=why, fix="tune the kernel again")
