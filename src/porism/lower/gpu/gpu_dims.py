"""GPU dims: parallel ranges become the block and thread indices of the machine.

    GLOBAL ranges              block0, block1, block2: the blocks of a grid
    LOCAL, WARP, GROUP ranges  thread0, thread1, thread2: the threads of a block

Ranges that are never inside of each other take turns in one index (`rules.places`). Where there are
more ranges than dimensions, or a size is beyond a limit of the machine, an index is taken apart by
division. A store that is not inside of a range that takes an index is done only where that index
is 0; and none is done by blocks or threads that a division left over.

The sizes of the launch are expressions of the kernel's variables: see `launch_of`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.base.dtypes import Space, index
from porism.base.errors import TargetError
from porism.base.target import Target
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.axis import BLOCK_AXES, BLOCK_INDEX, THREAD_AXES, THREAD_INDEX, Axis
from porism.ir.facts.effect_scopes import scopes
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.rules.addresses.grid_dims import (
    Slot,
    fit,
    is_independent,
    rounded_bytes,
    slots,
    space_of,
    stores,
)
from porism.rules.addresses.validity import is_masked, masked

DIMENSIONS: Final = 3


# -- blocks ----------------------------------------------------------------------------------------


def to_blocks(kernel: UOp, target: Target) -> UOp:
    """A kernel whose output loops are blocks, where that computes nothing twice.

    A loop stays a loop if its iterations depend on each other, if what they share (a reduction, a
    row in local memory) would be made in each block, or if the grid has no room for it. A kernel
    with an ordered loop runs in one block: what it stores first must be there before the loop.
    """
    if not target.grid or any(r.arg[1] is Axis.ORDERED for r in _all_loops(kernel)):
        return kernel
    found = [r for r in _output_loops(kernel) if is_independent(kernel, r)]
    changed = {r: ops.RANGE(*r.src, arg=(r.arg[0], Axis.GLOBAL)) for r in found}
    while changed:
        new: dict[UOp, UOp] = {}
        for node in toposort(kernel):
            src = tuple(new[s] for s in node.src)
            again = changed.get(node, node)
            new[node] = again if again is not node or src == node.src else node.replace(src)
        sizes = [slot.size for slot in slots(new[kernel], BLOCK_AXES)]
        if fit(sizes, target.grid) is not None:
            return new[kernel]
        changed.popitem()  # the innermost
    return kernel


def _all_loops(kernel: UOp) -> list[UOp]:
    return [n for n in toposort(kernel) if n.op is ops.RANGE]


def _output_loops(kernel: UOp) -> list[UOp]:
    """The loops, from the outside in, that close nothing but stores to buffers."""
    found: dict[UOp, None] = {}
    other: set[UOp] = set()
    for effect in kernel.src:
        below = toposort(effect)
        closers = [n for n in below if n.op in (ops.END, ops.REDUCE)]
        own = dict.fromkeys(r for n in closers if _writes_buffers(n) for r in n.src[1:])
        made = [n for n in below if n.op is ops.REDUCE or _is_filled(n)]
        other.update(r for n in closers if not _writes_buffers(n) for r in n.src[1:])
        other.update(r for r in own if any(r not in n.ranges for n in made))
        found.update(own)
    plain = [r for r in found if r.arg[1] is Axis.LOOP and not r.src[0].ranges]
    return [r for r in plain if r not in other]


def _writes_buffers(node: UOp) -> bool:
    if node.op is not ops.END:
        return False
    return all(space_of(s.src[0]) is Space.GLOBAL for s in stores(node))


def _is_filled(node: UOp) -> bool:
    return node.op is ops.AFTER and node.src[0].op in (ops.DEFINE_LOCAL, ops.DEFINE_REG)


# -- indices ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Indices:
    """What the ranges of the blocks, or of the threads, become."""

    slots: Sequence[Slot]
    value: dict[UOp, UOp] = field(default_factory=dict)
    """What each range becomes."""
    first: list[UOp] = field(default_factory=list)
    """For each slot: whether this is its first iteration."""
    used: list[UOp] = field(default_factory=list)
    """What holds where a block or thread has something to do."""

    def gates(self, scope: Iterable[UOp]) -> list[UOp]:
        """The conditions of a store inside of these ranges."""
        inside = set(scope)
        idle = [
            first
            for slot, first in zip(self.slots, self.first, strict=True)
            if not inside & set(slot.ranges)
        ]
        return [*self.used, *idle]


def gpu_dims(kernel: UOp, target: Target) -> UOp:
    """A kernel without parallel ranges, for a target with a grid; for others as it is."""
    if not target.grid:
        return kernel
    blocks = _indices(kernel, BLOCK_AXES, BLOCK_INDEX, target.grid, target)
    threads = _indices(kernel, THREAD_AXES, THREAD_INDEX, target.block, target)
    values = {**blocks.value, **threads.value}
    order = toposort(kernel)
    scope = scopes(order)
    new: dict[UOp, UOp] = {}
    for node in order:
        src = tuple(new[s] for s in node.src)
        if node in values:
            new[node] = values[node]
        elif node.op is ops.END:
            loops = [new[r] for r in node.src[1:] if r not in values]
            new[node] = src[0].end(*loops) if loops else src[0]
        elif node.op is ops.STORE:
            space = space_of(node.src[0])
            gates = [] if space is Space.REGISTER else threads.gates(scope[node])
            if space is Space.GLOBAL:
                gates += blocks.gates(scope[node])
            new[node] = ops.STORE(_gated(src[0], gates), src[1])
        elif node.op is ops.AFTER:
            new[node] = src[0].after(*src[1:])
        else:
            closed = any(r in values for r in node.src[1:]) and node.op is ops.REDUCE
            assert not closed, "group_reduce comes before gpu_dims"
            new[node] = node if src == node.src else node.replace(src)
    return new[kernel]


def _indices(
    kernel: UOp, kinds: frozenset[Axis], name: str, limits: Sequence[int], target: Target
) -> _Indices:
    places = slots(kernel, kinds)
    found = _Indices(places)
    sizes = [slot.size for slot in places]
    fitted = fit(sizes, limits)
    if fitted is None:
        shown = " × ".join(show(size) for size in reversed(sizes))
        raise TargetError(
            f"{shown} {name}s do not fit the target {target.name}",
            why=f"it has {' × '.join(map(str, limits)) or 'none'} at most",
            fix="leave some of the loops as they are, or split them into smaller parts",
        )
    counters = [
        UOp(ops.SPECIAL, None, (dim,), f"{name}{place}") for place, dim in enumerate(fitted.dims)
    ]
    if fitted.groups is None:
        number, stride = UOp.const(index, 0), UOp.const(index, 1)
        for counter in counters:
            number = number + counter * stride
            stride = stride * counter.src[0]
        total = UOp.const(index, 1)
        for size in sizes:
            total = total * size
        if total is not stride:
            found.used.append(number < total)
        _take_apart(found, number, range(len(places)), exact=total is stride)
    else:
        for counter, group in zip(counters, fitted.groups, strict=True):
            _take_apart(found, counter, group, exact=True)
    found.first = [found.value[slot.ranges[0]].eq(0) for slot in places]
    return found


def _take_apart(found: _Indices, number: UOp, group: Sequence[int], *, exact: bool) -> None:
    """The ranges of some slots as parts of one number, the first the fastest.

    What is left over counts again from the start, so that every index is inside of its range.
    """
    stride = UOp.const(index, 1)
    for place in group:
        slot = found.slots[place]
        value = number // stride
        if not exact or place != group[-1]:
            value = value % slot.size
        found.value.update(dict.fromkeys(slot.ranges, value))
        stride = stride * slot.size


def _gated(place: UOp, gates: Sequence[UOp]) -> UOp:
    """A place that is written to only under some conditions."""
    if not gates:
        return place
    condition = gates[0]
    for gate in gates[1:]:
        condition = condition & gate
    base, at, *own = place.src
    if own:
        return base.index(at, own[0] & condition, dtype=place.dtype)
    if is_masked(at):
        return base.index(masked(at.src[0] & condition, at.src[1]), dtype=place.dtype)
    return base.index(masked(condition, at), dtype=place.dtype)


# -- the launch ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Launch:
    """How many blocks of how many threads a kernel is run in."""

    grid: tuple[UOp, ...]
    block: tuple[UOp, ...]
    local: int
    """Bytes of local memory of a block."""

    def sizes(
        self, variables: Mapping[str, int] | None = None
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The sizes of the grid and of a block for these variables."""

        def number(size: UOp) -> int:
            if size.op is ops.CONST:
                return int(size.arg)
            return int(evaluate(size, {}, variables or {})[0])

        return tuple(map(number, self.grid)), tuple(map(number, self.block))


def launch_of(nodes: Iterable[UOp]) -> Launch:
    """The launch of a kernel after `gpu_dims`: of its nodes, or of its lines."""
    nodes = list(nodes)
    one = UOp.const(index, 1)
    grid, block = [one] * DIMENSIONS, [one] * DIMENSIONS
    for node in nodes:
        if node.op is ops.SPECIAL:
            sizes = grid if node.arg.startswith(BLOCK_INDEX) else block
            sizes[int(node.arg.removeprefix(BLOCK_INDEX).removeprefix(THREAD_INDEX))] = node.src[0]
    local = sum(rounded_bytes(n, n.dtype.size) for n in nodes if n.op is ops.DEFINE_LOCAL)
    return Launch(tuple(grid), tuple(block), local)
