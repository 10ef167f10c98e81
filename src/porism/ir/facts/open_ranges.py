"""Open ranges: those that a node depends on and that nothing below it has closed, sorted by axis.

They are a field of every node, set when it is made. There are few sets of ranges for many nodes, so
the union of two sets is cached.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.ops import Op

if TYPE_CHECKING:
    from porism.ir.node import UOp

Ranges = tuple["UOp", ...]

CLOSERS: Final = frozenset({ops.END, ops.REDUCE, ops.BUFFERIZE})
"""Ops that close the ranges among their later sources."""

_MOST_UNIONS: Final = 10_000
_unions: dict[tuple[Ranges, Ranges], Ranges] = {}


def ranges_left_open(op: Op, src: tuple[UOp, ...], ranges: Ranges) -> Ranges:
    """Return the ranges of the sources that a node of an op does not close."""
    if op not in CLOSERS:
        return ranges
    closed = {s for s in src[1:] if s.op is ops.RANGE}
    return tuple([r for r in ranges if r not in closed])


def union_of_ranges(a: Ranges, b: Ranges) -> Ranges:
    """Return the union of two sets of ranges, sorted."""
    union = _unions.get((a, b))
    if union is None:
        union = a if set(b) <= set(a) else sort_ranges({*a, *b})
        if len(_unions) >= _MOST_UNIONS:
            _unions.clear()
        _unions[a, b] = union
    return union


def sort_ranges(ranges: Iterable[UOp]) -> Ranges:
    """Return ranges sorted by axis and kind, and by digest where these are equal."""
    ordered = sorted(ranges, key=_sort_key)
    keys = [_sort_key(r) for r in ordered]
    if any(map(operator.eq, keys, keys[1:])):
        ordered.sort(key=lambda r: (*_sort_key(r), r.key))
    return tuple(ordered)


_KINDS: Final = {kind: kind.value for kind in Axis}


def _sort_key(loop: UOp) -> tuple[tuple[int, ...], str]:
    axis, kind = loop.arg
    return axis, _KINDS[kind]


def clear_unions() -> None:
    """Clear the cache of unions, which holds ranges alive."""
    _unions.clear()
