"""Actions as plain data: all of them can be written, and nothing else is read."""

from __future__ import annotations

import inspect
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import porism.optimize
from porism.base.errors import ActionError
from porism.optimize.actions.action import Action
from porism.optimize.actions.action_registry import ACTIONS
from porism.optimize.actions.action_serialization import read_actions, write_actions
from porism.optimize.actions.gpu.thread_block_actions import NoLocals
from porism.optimize.actions.loops.loop_interchange import Swap
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.actions.memory.packed_panels import Pack

FOLDER = Path(porism.optimize.__file__).parent


def test_every_action_is_known() -> None:
    for path in FOLDER.rglob("[a-z]*.py"):
        import_module("porism.optimize." + ".".join(path.relative_to(FOLDER).with_suffix("").parts))

    def below(kind: Any) -> list[Any]:
        return [kind, *(each for one in kind.__subclasses__() for each in below(one))]

    own = {k for k in below(Action) if k.__module__.startswith("porism.optimize.")}
    assert {k for k in own if not inspect.isabstract(k)} == set(ACTIONS.values())


def test_what_is_written_is_read() -> None:
    actions = (
        Upcast("r1_0", 4, top=True), PadTo("r0", 8), Swap("r0", "r1"), NoLocals(),
        Pack(1, ("r2", "2*r1_1+r3"), 3),
    )  # fmt: skip
    assert read_actions(json.loads(json.dumps(write_actions(actions)))) == actions


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        "Upcast",
        [["Upcast"]],
        [["Upcast", {"axis": "r0", "amount": 4}]],
        [["Upcast", {"axis": "r0", "amount": 4, "top": False, "more": 1}]],
        [["Upcast", {"axis": "r0", "amount": True, "top": False}]],
        [["Upcast", {"axis": "r0", "amount": 4.0, "top": False}]],
        [["Upcast", {"axis": "r0", "amount": 1 << 40, "top": False}]],
        [["Upcast", {"axis": "r0", "amount": 4, "top": 0}]],
        [["Thread", {"axis": "../r0"}]],
        [["Thread", {"axis": "r" + "0" * 5000}]],
        [["Thread", {"axis": ["r0"]}]],
        [["Pack", {"buffer": 1, "axes": "r0", "load": 0}]],
        [["Pack", {"buffer": 1, "axes": ["r0"] * 17, "load": 0}]],
        [["Action", {}]],
        [["__class__", {}]],
        [[["Upcast"], {}]],
        [["NoLocals", {}]] * 201,
    ],
)
def test_anything_else_is_refused(data: Any) -> None:
    with pytest.raises(ActionError, match="the data are not a list of actions"):
        read_actions(data)
