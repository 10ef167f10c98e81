"""The garbage collector does not visit nodes made under `quiet_collector`, and is not disabled."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from porism.ir import node_collector, ops
from porism.ir.node import UOp, raw
from porism.ir.node_collector import quiet_collector


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The generations that were collected meanwhile."""
    generations: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop":
            generations.append(info["generation"])

    gc.collect()
    gc.callbacks.append(note)
    try:
        yield generations
    finally:
        gc.callbacks.remove(note)


def many(count: int) -> UOp:
    with quiet_collector():
        node = UOp.variable("swept", 0, 9)
        for _ in range(count):
            node = raw(ops.NEG, None, (node,), None)
    return node


def test_a_graph_is_not_walked_while_it_is_made_nor_after(collections: list[int]) -> None:
    assert 5000 > gc.get_threshold()[0] > 0
    kept = many(5000)
    kept = raw(ops.NEG, None, (kept,), None)
    assert collections == []
    assert gc.get_count()[0] < 1000


def test_after_many_objects_all_are_collected(
    collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_collector, "_skipped_objects", node_collector._RARE_THRESHOLD)
    many(5000)
    assert 2 in collections
    assert node_collector._skipped_objects == 0


def test_what_a_user_has_frozen_stays_so() -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        many(5000)
        assert before * 0.9 < gc.get_freeze_count() <= before
    finally:
        gc.unfreeze()


def test_a_collector_that_is_off_stays_off(collections: list[int]) -> None:
    gc.disable()
    try:
        many(5000)
        assert not gc.isenabled()
        assert collections == []
    finally:
        gc.enable()


def test_an_error_inside_brings_the_thresholds_back() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyError), quiet_collector():
        raise KeyError
    assert gc.get_threshold() == before
