"""Element origins: from which elements each stored element is computed.

That the same elements are read as before does not show that each is used where it belongs. So the
lanes of reads are tracked that each stored lane is computed from:

    y[i] = x[i] + x[i + 1]      y[i] is computed from x[i] and x[i + 1]

How they are combined is not tracked. What a WHERE selects may be absent where it is not selected.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import Kind
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.verification.accesses.index_evaluation import Buffer, Lane, buffer_of, source_lane
from porism.verification.accesses.kernel_accesses import Access


@dataclass(frozen=True, slots=True)
class Origin:
    """The reads that a value is computed from."""

    reads: frozenset[Lane]
    always: frozenset[Lane]
    """Those of them that no WHERE can leave out."""


Origins = dict[Lane, Origin | None]
"""For each stored lane its origin; None where that is unknown."""


def origins(kernel: UOp) -> Origins:
    """Return the origins of everything that a kernel stores."""
    stores = [n for n in toposort(kernel) if n.op is ops.STORE]
    numbers: dict[Lane, int] = {}
    masks: dict[Lane, _Mask] = {}
    origins_of: Origins = {}

    def lanes(mask: int) -> frozenset[Lane]:
        return frozenset(lane_of for lane_of, number in numbers.items() if mask >> number & 1)

    for address, value in (store.src for store in stores):
        for lane in range(value.dtype.count):
            reads, always = _mask((value, lane), masks, numbers)
            known = not reads & _UNKNOWN
            origins_of[address, lane] = Origin(lanes(reads), lanes(always)) if known else None
    return origins_of


_Mask = tuple[int, int]
"""Reads as bit sets: all of them, and those that are always used."""

_UNKNOWN: Final = 1
"""The bit of unknown origins; the other bits are those of reads."""


def _mask(root: Lane, masks: dict[Lane, _Mask], numbers: dict[Lane, int]) -> _Mask:
    """Return the reads below a lane of a value, without recursion."""
    stack = [root]
    while stack:
        value_lane = stack[-1]
        if value_lane in masks:
            stack.pop()
            continue
        below = _source_lanes(*value_lane)
        missing = [s for s in below or () if s not in masks]
        if missing:
            stack += missing
            continue
        source_masks = [masks[s] for s in below or ()]
        reads = functools.reduce(
            operator.or_, (mask[0] for mask in source_masks), int(below is None)
        )
        if value_lane[0].op is ops.WHERE and len(source_masks) > 1:
            always = source_masks[0][1] | (source_masks[1][1] & source_masks[2][1])
        else:
            always = functools.reduce(operator.or_, (mask[1] for mask in source_masks), 0)
        if _is_read(value_lane[0]):
            bit = 1 << numbers.setdefault(value_lane, len(numbers) + 1)
            reads, always = reads | bit, always | bit
        masks[value_lane] = reads, always
        stack.pop()
    return masks[root]


def _is_read(node: UOp) -> bool:
    return node.op is ops.INDEX and buffer_of(node) is not None


def _source_lanes(node: UOp, lane: int) -> Sequence[Lane] | None:
    """Return the lanes that a lane is computed from; None if unknown."""
    if node.op in (ops.RANGE, ops.SPECIAL, ops.VARIABLE) or not node.src:
        return ()
    if node.op is ops.INDEX:
        return [_lane_of(s, lane) for s in node.src[1:]] if _is_read(node) else None
    if node.op is ops.LOAD:
        return [_lane_of(s, lane) for s in node.src]
    forwarded = source_lane(node, lane)
    if forwarded is not None:
        return (forwarded,)
    if node.op is ops.WHERE:
        return _selected(node, lane)
    if node.op.elementwise or node.op in (ops.CAST, ops.BITCAST):
        return [_lane_of(s, lane) for s in node.src]
    if node.op is ops.REDUCE and node.src[0].dtype.count == node.dtype.count:
        return (_lane_of(node.src[0], lane),)
    return None


def _selected(node: UOp, lane: int) -> Sequence[Lane]:
    condition, yes, no = node.src
    if condition.op in (ops.CONST, ops.VCONST):
        holds = condition.arg if condition.op is ops.CONST else condition.arg[lane]
        return (_lane_of(yes if holds else no, lane),)
    return [_lane_of(s, lane) for s in node.src]


def _lane_of(node: UOp, lane: int) -> Lane:
    wide = node.dtype.kind is not Kind.POINTER and node.dtype.count > 1
    return node, lane if wide else 0


# -- elements --------------------------------------------------------------------------------------

LaneAddresses = tuple[Mapping[UOp, int], bytes]
"""The values of loops that have become lanes, and the addresses of an access at all points."""

Element = tuple[Buffer, bytes]
"""A buffer, and the addresses of an element of it at all points."""

Read = tuple[Access, Access, bool]
"""A store, a read that it is computed from, and whether the read is always used."""


def element_sources(
    own: Sequence[Access],
    origins_of: Origins,
    copies: Mapping[Access, Sequence[LaneAddresses]],
    both: Collection[Buffer],
) -> dict[Element, dict[Element, Read] | None]:
    """Return for each stored element those that it is computed from; None if unknown.

    A read of memory that does not exist both before and after is taken for what was copied there.
    """
    reads = _reads_by_lane(own, both)
    sources: dict[Element, dict[Element, Read] | None] = {}
    for store in (a for a in own if a.store and a.buffer in both):
        origin = origins_of.get(store.number)
        if origin is None or not all(
            lane in reads and all(a in copies for a in reads[lane]) for lane in origin.reads
        ):
            for _, addresses in copies.get(store, ()):
                sources[store.buffer, addresses] = None
        else:
            used = [(a, lane in origin.always) for lane in origin.reads for a in reads[lane]]
            _add_sources(sources, store, used, copies)
    return sources


def _reads_by_lane(own: Sequence[Access], both: Collection[Buffer]) -> dict[Lane, list[Access]]:
    """Return the reads of buffers that exist before and after, by the lane of the INDEX."""
    reads: dict[Lane, list[Access]] = {}
    for access in (a for a in own if not a.store):
        if access.local_copy is None and access.buffer in both:
            reads.setdefault(access.number, []).append(access)
        elif access.local_copy is not None and access.local_copy.read.buffer not in both:
            reads.setdefault(access.local_copy.read.number, []).append(access)
    return reads


def _add_sources(
    sources: dict[Element, dict[Element, Read] | None],
    store: Access,
    reads: Sequence[tuple[Access, bool]],
    copies: Mapping[Access, Sequence[LaneAddresses]],
) -> None:
    """Add the elements that a store is computed from; reads come with whether always used."""
    rows = [_by_lanes(store, access, copies) for access, _ in reads]
    for fixed, addresses in copies.get(store, ()):
        parts = sources.setdefault((store.buffer, addresses), {})
        if parts is None:
            continue
        for (access, always), (lanes, row) in zip(reads, rows, strict=True):
            for read_addresses in row.get(tuple(fixed[r] for r in lanes), ()):
                known = parts.get((access.buffer, read_addresses))
                always_used = always or (known is not None and known[2])
                parts[access.buffer, read_addresses] = store, access, always_used


def _by_lanes(
    store: Access, read: Access, copies: Mapping[Access, Sequence[LaneAddresses]]
) -> tuple[list[UOp], dict[tuple[int, ...], set[bytes]]]:
    """Return the lane loops that a store and a read share, and what is read for their values."""
    lanes = [r for r in copies[read][0][0] if store in copies and r in copies[store][0][0]]
    addresses_by_lanes: dict[tuple[int, ...], set[bytes]] = {}
    for fixed, addresses in copies[read]:
        addresses_by_lanes.setdefault(tuple(fixed[r] for r in lanes), set()).add(addresses)
    return lanes, addresses_by_lanes
