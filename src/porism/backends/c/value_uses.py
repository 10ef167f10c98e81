"""Value uses: the live values of a linear kernel, their users, and their blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.ir import ops
from porism.ir.node import UOp

_EFFECT_OPS: Final = frozenset(
    {ops.STORE, ops.RANGE, ops.END, ops.IF, ops.ENDIF, ops.BARRIER, ops.SINK}
)
_ORDER_OPS: Final = frozenset({ops.END, ops.ENDIF, ops.GROUP, ops.SINK, ops.NOOP, ops.BARRIER})


def live_nodes(instructions: Sequence[UOp]) -> set[UOp]:
    """Return the nodes that have an effect, or that a node with an effect depends on."""
    live: set[UOp] = set()
    for node in reversed(instructions):
        if node.op in _EFFECT_OPS or node in live or _is_prefetch(node):
            live.add(node)
            if node.op is ops.SINK:
                continue
            live.update(node.src[:1] if node.op is ops.AFTER else node.src)
    return live


def _is_prefetch(node: UOp) -> bool:
    """Return whether a node is a prefetch."""
    return node.op is ops.NOOP and bool(node.src)


def users(instructions: Sequence[UOp], live: set[UOp]) -> dict[UOp, list[UOp]]:
    """Return the users of each value, a user once for each use."""
    users_of: dict[UOp, list[UOp]] = {node: [] for node in instructions}
    for node in instructions:
        if node not in live or (node.op in _ORDER_OPS and not _is_prefetch(node)):
            continue
        for source in node.src[:1] if node.op in (ops.AFTER, ops.RANGE, ops.IF) else node.src:
            users_of.setdefault(source, []).append(node)
    return users_of


def blocks(instructions: Sequence[UOp]) -> dict[UOp, int]:
    """Return the number of the innermost loop or condition around each node."""
    stack, block_of = [0], {}
    for number, node in enumerate(instructions, 1):
        if node.op in (ops.END, ops.ENDIF):
            stack.pop()
        block_of[node] = stack[-1]
        if node.op in (ops.RANGE, ops.IF):
            stack.append(number)
    return block_of
