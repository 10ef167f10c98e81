"""Indirect prefetch: gathered elements of later iterations are prefetched.

    before                                    after, with a distance of 2 iterations
    for r: i = at[r]                          for r: i, j = at[r], at[min(r + 2, last)]
           for c: y[r, c] = x[i * 64 + c]            for c: y[r, c] = x[i * 64 + c]
                                                            prefetch x[j * 64 + c]

The hardware cannot predict an address that is itself loaded. So the index computation is repeated
for a later iteration, clamped to the last one. A NOOP of a pointer is the prefetch instruction: it
reads nothing, so its address need not be inside of the buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from porism.base.target import CACHE_LINE
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.op_signatures import PREFETCH
from porism.ir.traversal import toposort

REPEATABLE: Final = frozenset({ops.INDEX, ops.LOAD, ops.CAST})
"""Ops of an index computation, besides arithmetic, that can be repeated for a later iteration."""


def insert_indirect_prefetches(instructions: Sequence[UOp]) -> list[UOp]:
    """Return the instructions with the indirect prefetches that the kernel's SINK asks for.

    The SINK has an entry (PARAM number, distance in iterations, …, axis of the loop) for each.
    """
    arg = instructions[-1].arg
    entries = arg[1:] if isinstance(arg, tuple) and arg[:1] == (PREFETCH,) else ()
    result = list(instructions)
    for entry in entries:
        if len(entry) == 4:
            number, distance, _, axis = entry
            loop = next((n for n in result if n.op is ops.RANGE and n.arg[0] == axis), None)
            if loop is not None and loop.src[0].op is ops.CONST:
                result = _with_prefetch(result, number, loop, distance)
    return result


def _with_prefetch(instructions: Sequence[UOp], number: int, loop: UOp, distance: int) -> list[UOp]:
    """Return the instructions with prefetches of what gathers of one PARAM read later."""
    dependent = _dependent_on(instructions, loop)
    gathers = [
        n
        for n in instructions
        if n.op is ops.LOAD and _is_scalar_index(n.src[0], number) and _is_indirect(n, dependent)
    ]
    repeated = _index_computation(gathers, dependent)
    if not all(n.op.elementwise or n.op in REPEATABLE or n is loop for n in repeated):
        return list(instructions)
    last = int(loop.src[0].arg) - 1
    result: dict[UOp, None] = {}
    later: dict[UOp, UOp] = {}  # nodes of an index computation, for the later iteration
    for node in instructions:
        result[node] = None
        if node is loop:
            later[node] = ops.MIN(node + distance, UOp.const(node.dtype, last))
            _append(result, later[node])
        elif node in repeated:
            later[node] = node.replace(tuple([later.get(s, s) for s in node.src]))
            _append(result, later[node])
        elif node in gathers:
            for address in _cache_lines(node, later):
                _append(result, ops.NOOP(address))
    return list(result)


def _index_computation(gathers: Sequence[UOp], dependent: set[UOp]) -> set[UOp]:
    """Return the nodes that compute the indices of gathers and depend on the loop."""
    indices = [n.src[0].src[1] for n in gathers]
    return set(toposort(*indices, within=lambda n: n in dependent)) if indices else set()


def _dependent_on(instructions: Sequence[UOp], loop: UOp) -> set[UOp]:
    """Return the instructions that depend on the induction variable of a loop, and the loop."""
    dependent = {loop}
    for node in instructions:
        if not dependent.isdisjoint(node.src):
            dependent.add(node)
    return dependent


def _is_scalar_index(address: UOp, number: int) -> bool:
    """Return whether an address is one index into the PARAM of this number."""
    if address.op is not ops.INDEX or address.src[1].dtype.count > 1:
        return False
    base = address.src[0]
    return base.op is ops.PARAM and bool(base.arg == number)


def _is_indirect(load: UOp, dependent: Iterable[UOp]) -> bool:
    """Return whether the index of a load depends on what was loaded in the same iteration."""
    index = load.src[0].src[1]
    return any(n.op is ops.LOAD for n in toposort(index, within=lambda n: n in dependent))


def _cache_lines(load: UOp, later: dict[UOp, UOp]) -> list[UOp]:
    """Return a pointer to each cache line that a load reads in the later iteration."""
    base, index = load.src[0].src[:2]
    size = max(load.dtype.element.bits // 8, 1)
    offsets = range(0, load.dtype.count, max(CACHE_LINE // size, 1))
    return [ops.INDEX(base, later[index] + offset, dtype=base.dtype) for offset in offsets]


def _append(instructions: dict[UOp, None], node: UOp) -> None:
    """Append a node, after those of its sources that are not there yet."""
    for part in toposort(node, within=lambda n: n not in instructions):
        instructions[part] = None
