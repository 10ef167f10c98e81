"""Scope: the ranges that a node depends on and that nothing below it has closed, ordered by axis.

Every node gets them when it is made. There are few sets of ranges for many nodes, so what two sets
have together is remembered.
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
    """Those of the ranges of its sources that a node does not close."""
    if op not in CLOSERS:
        return ranges
    closed = {s for s in src[1:] if s.op is ops.RANGE}
    return tuple([r for r in ranges if r not in closed])


def union_of_ranges(a: Ranges, b: Ranges) -> Ranges:
    """The ranges of both, in order."""
    found = _unions.get((a, b))
    if found is None:
        found = a if set(b) <= set(a) else sort_ranges({*a, *b})
        if len(_unions) >= _MOST_UNIONS:
            _unions.clear()
        _unions[a, b] = found
    return found


def sort_ranges(ranges: Iterable[UOp]) -> Ranges:
    """Ranges by axis and kind, and only where these are the same by their digest."""
    found = sorted(ranges, key=_sort_key)
    places = [_sort_key(r) for r in found]
    if any(map(operator.eq, places, places[1:])):
        found.sort(key=lambda r: (*_sort_key(r), r.key))
    return tuple(found)


_KINDS: Final = {kind: kind.value for kind in Axis}


def _sort_key(counter: UOp) -> tuple[tuple[int, ...], str]:
    axis, kind = counter.arg
    return axis, _KINDS[kind]


def clear_unions() -> None:
    """Let go of the ranges that were remembered."""
    _unions.clear()
