"""Breaking: stages of the pipeline made wrong on purpose."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from porism import pipeline
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import rebuild, substitute, toposort

Change = Callable[[UOp], UOp]
"""What is done to a graph after a stage."""


def break_stage(monkeypatch: pytest.MonkeyPatch, name: str, change: Change) -> None:
    """Let a stage do something else with what it leaves."""
    found = False
    for table in ("KERNEL_STAGES", "TARGET_STAGES"):
        stages = list(getattr(pipeline, table))
        for place, stage in enumerate(stages):
            if stage.name == name:
                found = True
                stages[place] = dataclasses.replace(stage, run=_wrong(stage.run, change))
        monkeypatch.setattr(pipeline, table, tuple(stages))
    assert found, f"there is a stage {name}"


def _wrong(run: Callable[..., UOp], change: Change) -> Callable[..., UOp]:
    return lambda *arguments: change(run(*arguments))


def accesses_changed(change: Callable[[UOp], UOp | None], *, first: bool = True) -> Change:
    """A graph with an INDEX replaced, the first that the function has a replacement for.

    A program may have kernels without one; that there was one at all, the error shows.
    """

    def changed(graph: UOp) -> UOp:
        done = False

        def each(node: UOp, src: tuple[UOp, ...]) -> UOp:
            nonlocal done
            node = node.replace(src)
            other = change(node) if node.op is ops.INDEX and not (done and first) else None
            if other is None:
                return node
            done = True
            return other

        return rebuild(graph, each)

    return changed


def reads(number: int) -> Callable[[UOp], bool]:
    """Whether an INDEX leads to this parameter of the kernel."""
    return lambda node: node.src[0].op is ops.PARAM and node.src[0].arg == number


def moved(number: int, by: int = 1) -> Change:
    """An index of a parameter, off by some."""

    def change(node: UOp) -> UOp | None:
        if not reads(number)(node):
            return None
        at = node.src[1]
        if at.op is ops.WHERE:
            other = ops.WHERE(at.src[0], at.src[1] + by, at.src[2])
        else:
            other = at + by
        return node.src[0].index(other, *node.src[2:], dtype=node.dtype)

    return accesses_changed(change)


def masked_otherwise(number: int, by: int) -> Change:
    """The mask of a parameter with one of its limits moved."""

    def change(node: UOp) -> UOp | None:
        at = node.src[1]
        if not reads(number)(node) or at.op is not ops.WHERE:
            return None
        limit = next((n for n in toposort(at.src[0]) if n.op is ops.LT), None)
        if limit is None or limit.src[1].op is not ops.CONST:
            return None
        moved_limit = UOp(ops.LT, None, (limit.src[0], limit.src[1] + by))
        condition = substitute(at.src[0], {limit: moved_limit})
        other = ops.WHERE(condition, at.src[1], at.src[2])
        return node.src[0].index(other, *node.src[2:], dtype=node.dtype)

    return accesses_changed(change)
