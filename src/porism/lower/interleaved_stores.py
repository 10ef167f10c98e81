"""Interleaved stores: vectors whose lanes are a few elements apart are stored together.

    for u < 16: for c < 2: y[2 * u + c] = x[c, u]     y[0:32] = the lanes of x[0, 0:16], x[1, 0:16]

Of the two ranges, the longer one becomes the lanes, along which loads may be contiguous. The copies
for the shorter one, its *parts*, are interleaved by shuffles, and stored as one vector. Both are
closed by the END of the store: nothing comes after one part alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from porism.ir import ops
from porism.ir.axis import INTERLEAVED_PARTS, MAX_INTERLEAVED_LANES
from porism.ir.node import UOp
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked


def interleaved_accesses(
    order: Sequence[UOp], expanded: Sequence[UOp]
) -> Mapping[UOp, tuple[UOp, UOp]]:
    """Return the access of each store that can be interleaved, with its ranges: lanes and parts."""
    found: dict[UOp, tuple[UOp, UOp]] = {}
    for end in order:
        if end.op is ops.END:
            effect, *closed = end.src
            own = [r for r in expanded if r in closed]
            for store in effect.src if effect.op is ops.GROUP else (effect,):
                ranges = _lanes_and_parts(store, own) if store.op is ops.STORE else None
                if ranges is not None:
                    found[store.src[0]] = ranges
    return found


def _lanes_and_parts(store: UOp, own: Sequence[UOp]) -> tuple[UOp, UOp] | None:
    """Return the ranges of lanes and of parts of a store, of those that its END closes."""
    address = store.src[0].src[1]
    if len(store.src[0].src) != 2 or is_masked(address):
        return None
    strides = {r: stride(address, r) for r in own if r in store.src[0].ranges}
    for part in strides:
        count = int(part.vmax) + 1
        if strides[part] != 1 or count not in INTERLEAVED_PARTS:
            continue
        for lane, step in strides.items():
            if step == count < int(lane.vmax) + 1 <= MAX_INTERLEAVED_LANES // count:
                return lane, part
    return None


def interleave(parts: Sequence[UOp]) -> UOp:
    """Return the first lanes of all vectors, then the second ones, and so on."""
    if len(parts) == 1:
        return parts[0]
    first, second = interleave(parts[0::2]), interleave(parts[1::2])
    count = first.dtype.count
    return ops.CAT(first, second).gep(*(k + half for k in range(count) for half in (0, count)))
