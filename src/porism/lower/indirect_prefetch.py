"""Later: what is read in later iterations of a loop, at places that are looked up, fetched now.

    for r: i = at[r]                          for r: i, j = at[r], at[min(r + 2, last)]
           for c: y[r, c] = x[i * 64 + c]            for c: y[r, c] = x[i * 64 + c]
                                                            x[j * 64 + c] is fetched

Where a place is looked up, a processor sees too late what is read next. What leads to it is done
once more, for an iteration that comes later; in the last ones that is the last. A NOOP of a pointer
stands for the fetching: it reads nothing, so that no place needs to be inside of the buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from porism.base.target import LINE
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.op_signatures import PREFETCH
from porism.ir.traversal import toposort

COPIED: Final = frozenset({ops.INDEX, ops.LOAD, ops.CAST})


def insert_indirect_prefetches(lines: Sequence[UOp]) -> list[UOp]:
    """The lines of a kernel, and beside loads what its SINK says is fetched for later ones."""
    arg = lines[-1].arg
    said = arg[1:] if isinstance(arg, tuple) and arg[:1] == (PREFETCH,) else ()
    found = list(lines)
    for entry in said:
        if len(entry) == 4:
            number, ahead, _, axis = entry
            counter = next((n for n in found if n.op is ops.RANGE and n.arg[0] == axis), None)
            if counter is not None and counter.src[0].op is ops.CONST:
                found = _with(found, number, counter, ahead)
    return found


def _with(lines: Sequence[UOp], number: int, counter: UOp, ahead: int) -> list[UOp]:
    following = _following(lines, counter)
    loads = [
        n
        for n in lines
        if n.op is ops.LOAD and _is_of(n.src[0], number) and _is_looked_up(n.src[0], following)
    ]
    places = [n.src[0].src[1] for n in loads]
    below = set(toposort(*places, within=lambda n: n in following)) if places else set()
    if not all(n.op.elementwise or n.op in COPIED or n is counter for n in below):
        return list(lines)
    last = int(counter.src[0].arg) - 1
    new: dict[UOp, None] = {}
    later: dict[UOp, UOp] = {}
    for node in lines:
        new[node] = None
        if node is counter:
            later[node] = ops.MIN(node + ahead, UOp.const(node.dtype, last))
            _add(new, later[node])
        elif node in below:
            later[node] = node.replace(tuple([later.get(s, s) for s in node.src]))
            _add(new, later[node])
        elif node in loads:
            for there in _lines_of(node, later):
                _add(new, ops.NOOP(there))
    return list(new)


def _following(lines: Sequence[UOp], counter: UOp) -> set[UOp]:
    """What depends on the counter of a loop."""
    found = {counter}
    for node in lines:
        if not found.isdisjoint(node.src):
            found.add(node)
    return found


def _is_of(place: UOp, number: int) -> bool:
    if place.op is not ops.INDEX or place.src[1].dtype.count > 1:
        return False
    base = place.src[0]
    return base.op is ops.PARAM and bool(base.arg == number)


def _is_looked_up(place: UOp, following: Iterable[UOp]) -> bool:
    """Whether a place depends on what was loaded in the iteration."""
    return any(n.op is ops.LOAD for n in toposort(place.src[1], within=lambda n: n in following))


def _lines_of(load: UOp, later: dict[UOp, UOp]) -> list[UOp]:
    """Pointers to each line of the cache of what a load reads later."""
    base, at = load.src[0].src[:2]
    size = max(load.dtype.element.bits // 8, 1)
    firsts = range(0, load.dtype.count, max(LINE // size, 1))
    return [ops.INDEX(base, later[at] + first, dtype=base.dtype) for first in firsts]


def _add(lines: dict[UOp, None], node: UOp) -> None:
    """Append a node, after those of its sources that are not there yet."""
    for part in toposort(node, within=lambda n: n not in lines):
        lines[part] = None
