"""Action serialization: every action can be written, and nothing but actions is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from porism.base.errors import ActionError
from porism.optimize.actions.action_serialization import read_actions, write_actions
from porism.optimize.actions.gpu.thread_block_actions import NoLocals
from porism.optimize.actions.loops.loop_interchange import Swap
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.actions.memory.packed_panels import Pack


def test_written_actions_are_read_back() -> None:
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
def test_other_data_are_refused(data: Any) -> None:
    with pytest.raises(ActionError, match="the data are not a list of actions"):
        read_actions(data)
