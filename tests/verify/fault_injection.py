"""Fault injection: stages of the pipeline that produce wrong graphs on purpose."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from porism import pipeline
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import rebuild, substitute, toposort

Change = Callable[[UOp], UOp]
"""Changes the graph that a stage returns."""


def break_stage(monkeypatch: pytest.MonkeyPatch, name: str, change: Change) -> None:
    """Let a stage return its graph after a change."""
    actual = False
    for table in ("KERNEL_STAGES", "TARGET_STAGES"):
        stages = list(getattr(pipeline, table))
        for number, stage in enumerate(stages):
            if stage.name == name:
                actual = True
                stages[number] = dataclasses.replace(stage, run=_then(stage.run, change))
        monkeypatch.setattr(pipeline, table, tuple(stages))
    assert actual, f"there is a stage {name}"


def _then(run: Callable[..., UOp], change: Change) -> Callable[..., UOp]:
    return lambda *arguments: change(run(*arguments))


def replace_access(change: Callable[[UOp], UOp | None], *, first: bool = True) -> Change:
    """Return a change that replaces the first INDEX, or every one, that `change` matches.

    A program may have kernels without such an INDEX; tests expect an error in one of them.
    """

    def apply(graph: UOp) -> UOp:
        replaced = False

        def visit(node: UOp, src: tuple[UOp, ...]) -> UOp:
            nonlocal replaced
            node = node.replace(src)
            replacement = (
                change(node) if node.op is ops.INDEX and not (replaced and first) else None
            )
            if replacement is None:
                return node
            replaced = True
            return replacement

        return rebuild(graph, visit)

    return apply


def reads(number: int) -> Callable[[UOp], bool]:
    """Return a predicate: whether an INDEX accesses this parameter of the kernel."""
    return lambda node: node.src[0].op is ops.PARAM and node.src[0].arg == number


def move_index(number: int, by: int = 1) -> Change:
    """Return a change that adds a number to an index of a parameter."""

    def change(node: UOp) -> UOp | None:
        if not reads(number)(node):
            return None
        address = node.src[1]
        if address.op is ops.WHERE:
            moved_address = ops.WHERE(address.src[0], address.src[1] + by, address.src[2])
        else:
            moved_address = address + by
        return node.src[0].index(moved_address, *node.src[2:], dtype=node.dtype)

    return replace_access(change)


def move_mask_limit(number: int, by: int) -> Change:
    """Return a change that adds a number to a limit in the mask of an access of a parameter."""

    def change(node: UOp) -> UOp | None:
        address = node.src[1]
        if not reads(number)(node) or address.op is not ops.WHERE:
            return None
        limit = next((n for n in toposort(address.src[0]) if n.op is ops.LT), None)
        if limit is None or limit.src[1].op is not ops.CONST:
            return None
        moved_limit = UOp(ops.LT, None, (limit.src[0], limit.src[1] + by))
        condition = substitute(address.src[0], {limit: moved_limit})
        moved_address = ops.WHERE(condition, address.src[1], address.src[2])
        return node.src[0].index(moved_address, *node.src[2:], dtype=node.dtype)

    return replace_access(change)
