"""Carried: stages on the whole ranged graph, which keep track of its stored values.

A stage makes new nodes. What is known of a stored value, why it is there and whether it must be,
goes over to the node that it has become.
"""

from __future__ import annotations

from collections.abc import Callable

from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.schedule.buffer_removal import remove_buffers
from porism.schedule.kernel_split import is_stored
from porism.schedule.rangeify.movement_indices import is_size_one
from porism.schedule.rangeify.rangeify import Ranged


def rewritten(ranged: Ranged, run: Callable[[UOp], UOp]) -> Ranged:
    """A ranged graph after a rewrite of all of it."""
    roots = len(ranged.sink.src)
    whole = run(ops.SINK(*ranged.sink.src, *ranged.reasons)).src
    new = dict(zip(ranged.reasons, whole[roots:], strict=True))
    return Ranged(
        ops.SINK(*whole[:roots]),
        {new[old]: why for old, why in ranged.reasons.items() if is_stored(new[old])},
        frozenset(new[old] for old in ranged.asked if is_stored(new[old])),
        {new[old]: tensor for old, tensor in ranged.tensors.items() if is_stored(new[old])},
    )


def without_needless_buffers(ranged: Ranged) -> Ranged:
    """A ranged graph without the buffers that are not worth their memory."""
    sink, becomes = remove_buffers(ranged.sink, ranged.asked)
    return Ranged(
        sink,
        {becomes[old]: why for old, why in ranged.reasons.items() if old in becomes},
        frozenset(becomes[old] for old in ranged.asked if old in becomes),
        {
            becomes[old]: tensor
            for old, tensor in ranged.tensors.items()
            if old in becomes and _long_axes(old) == _long_axes(becomes[old])
        },
    )


def _long_axes(buffer: UOp) -> list[UOp]:
    """The sizes of the axes that have more than one element."""
    return [dim for dim in shape(buffer) if not is_size_one(dim)]
