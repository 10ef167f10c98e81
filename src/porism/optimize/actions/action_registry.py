"""Known actions: the table of all of them, and lists of actions as plain data.

A list of actions is kept on disk and passed between processes as lists of names and fields, and
what is read is checked against the table: nothing is executed, and nothing else can be made.

>>> write_actions([Upcast("r1", 16), Thread("r0")])
[['Upcast', {'axis': 'r1', 'amount': 16, 'top': False}], ['Thread', {'axis': 'r0'}]]
>>> read_actions([["Thread", {"axis": "r0"}]])
(Thread(axis='r0'),)
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_type_hints

from porism.base.errors import ActionError
from porism.optimize.actions.block_actions import Group, GroupTop, Local
from porism.optimize.actions.epilogue import Finish
from porism.optimize.actions.loop_actions import (
    Action,
    Cover,
    Move,
    NoLocals,
    PadTo,
    Split,
    Swap,
    Thread,
    Unroll,
    Upcast,
)
from porism.optimize.actions.merge_loops import Merge
from porism.optimize.actions.packed_panels import Stage
from porism.optimize.actions.peeling import Peel
from porism.optimize.actions.reduction_blocking import Block
from porism.optimize.actions.scan_loop import Scan
from porism.optimize.actions.streaming_actions import Prefetch, Stream
from porism.optimize.actions.tensor_core_action import TC

Actions = tuple[Action, ...]

ACTIONS: Final[Mapping[str, type[Action]]] = {
    kind.__name__: kind
    for kind in (
        Upcast, Unroll, Split, Cover, Peel, Block, Thread, Swap, Move, Merge, PadTo, Stage, Finish,
        Scan, Stream, Prefetch, NoLocals, Local, Group, GroupTop, TC,
    )
}  # fmt: skip

MOST_ACTIONS: Final = 200
MOST_NAMES: Final = 16
LARGEST: Final = 1 << 31

_NAME: Final = r"r[0-9]{1,9}(?:_[0-9]{1,9}){0,9}"
_LOOP: Final = re.compile(_NAME)
_TERM: Final = rf"(?:[0-9]{{1,9}}\*)?{_NAME}"
_SUM: Final = re.compile(rf"{_TERM}(?:\+{_TERM}){{0,9}}")
"""Loops, or a sum of multiples of them."""


def write_actions(actions: Sequence[Action]) -> list[Any]:
    """Actions as what JSON can say."""
    return [
        [type(action).__name__, {name: _written(value) for name, value in vars(action).items()}]
        for action in actions
    ]


def _written(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def read_actions(data: Any) -> Actions:
    """The actions that data from anywhere describes; an `ActionError` if it does not."""
    if not isinstance(data, list) or len(data) > MOST_ACTIONS:
        raise _unreadable(f"a list of at most {MOST_ACTIONS} actions is wanted")
    return tuple(_read(row) for row in data)


def _read(row: Any) -> Action:
    if not isinstance(row, list) or len(row) != 2 or not isinstance(row[1], dict):
        raise _unreadable("an action is its name and its fields")
    name, given = row
    kind = ACTIONS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise _unreadable("there is no action of that name")
    types = get_type_hints(kind)
    wanted = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if sorted(given) != sorted(wanted):
        raise _unreadable(f"{name} has the fields {', '.join(wanted) or 'none'}")
    return kind(**{field: _value(given[field], types[field]) for field in wanted})


def _value(value: Any, kind: Any) -> Any:
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and type(value) is int and abs(value) < LARGEST:
        return value
    if kind is str and isinstance(value, str) and _LOOP.fullmatch(value):
        return value
    if kind == tuple[str, ...] and _are_sums(value):
        return tuple(value)
    raise _unreadable("a field has a value that it cannot have")


def _are_sums(value: Any) -> bool:
    if not isinstance(value, list) or len(value) > MOST_NAMES:
        return False
    return all(isinstance(each, str) and _SUM.fullmatch(each) for each in value)


def _unreadable(why: str) -> ActionError:
    return ActionError(
        "what is said to be actions is something else", why=why, fix="tune the kernel again"
    )
