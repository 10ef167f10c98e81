"""Uses: which values of a linear kernel are needed, by whom, and in which loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.ir import ops
from porism.ir.node import UOp

_EFFECTS: Final = frozenset(
    {ops.STORE, ops.RANGE, ops.END, ops.IF, ops.ENDIF, ops.BARRIER, ops.SINK}
)
_ORDER: Final = frozenset({ops.END, ops.ENDIF, ops.GROUP, ops.SINK, ops.NOOP, ops.BARRIER})


def live_nodes(lines: Sequence[UOp]) -> set[UOp]:
    """The nodes that have an effect, or that something with an effect needs."""
    live: set[UOp] = set()
    for node in reversed(lines):
        if node.op in _EFFECTS or node in live or _is_fetched(node):
            live.add(node)
            if node.op is ops.SINK:
                continue
            live.update(node.src[:1] if node.op is ops.AFTER else node.src)
    return live


def _is_fetched(node: UOp) -> bool:
    """Whether a node stands for what is fetched into the caches."""
    return node.op is ops.NOOP and bool(node.src)


def users(lines: Sequence[UOp], live: set[UOp]) -> dict[UOp, list[UOp]]:
    """Who writes the text of each value, as often as it does."""
    found: dict[UOp, list[UOp]] = {node: [] for node in lines}
    for node in lines:
        if node not in live or (node.op in _ORDER and not _is_fetched(node)):
            continue
        for source in node.src[:1] if node.op in (ops.AFTER, ops.RANGE, ops.IF) else node.src:
            found.setdefault(source, []).append(node)
    return found


def blocks(lines: Sequence[UOp]) -> dict[UOp, int]:
    """The innermost loop or condition that each node is inside of, by number."""
    stack, found = [0], {}
    for number, node in enumerate(lines, 1):
        if node.op in (ops.END, ops.ENDIF):
            stack.pop()
        found[node] = stack[-1]
        if node.op in (ops.RANGE, ops.IF):
            stack.append(number)
    return found
