"""Ranged stages: passes on the whole graph in loops, which keep track of its stored values.

A pass makes new nodes. What is known of a stored value (why it is stored, whether it is pinned, and
which tensor it is) goes over to the node that replaces it.
"""

from __future__ import annotations

from collections.abc import Callable

from porism.base.target import Target
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.schedule.buffer_removal import remove_buffers
from porism.schedule.kernel_split import is_stored
from porism.schedule.rangeify.movement_indices import is_size_one
from porism.schedule.rangeify.rangeify import Ranged


def rewrite_ranged(ranged: Ranged, rewrite: Callable[[UOp], UOp]) -> Ranged:
    """Return a ranged graph after a rewrite of all of it."""
    roots = len(ranged.sink.src)
    sources = rewrite(ops.SINK(*ranged.sink.src, *ranged.reasons)).src
    new = dict(zip(ranged.reasons, sources[roots:], strict=True))
    return Ranged(
        ops.SINK(*sources[:roots]),
        {new[old]: reason for old, reason in ranged.reasons.items() if is_stored(new[old])},
        frozenset(new[old] for old in ranged.pinned if is_stored(new[old])),
        {new[old]: tensor for old, tensor in ranged.tensors.items() if is_stored(new[old])},
    )


def remove_cheap_buffers(ranged: Ranged, target: Target) -> Ranged:
    """Return a ranged graph without the buffers that cost more than they save."""
    sink, new = remove_buffers(ranged.sink, ranged.pinned, target)
    return Ranged(
        sink,
        {new[old]: reason for old, reason in ranged.reasons.items() if old in new},
        frozenset(new[old] for old in ranged.pinned if old in new),
        {
            new[old]: tensor
            for old, tensor in ranged.tensors.items()
            if old in new and _long_axes(old) == _long_axes(new[old])
        },
    )


def _long_axes(buffer: UOp) -> list[UOp]:
    """Return the sizes of the axes that have more than one element."""
    return [dim for dim in shape(buffer) if not is_size_one(dim)]
