"""GPU dims: parallel ranges become the block and thread indices of a GPU.

    before                     after
    GLOBAL ranges              block0, block1, block2: the blocks of a grid
    LOCAL, WARP, GROUP ranges  thread0, thread1, thread2: the threads of a block

Ranges that are never nested share indices (`rules.addresses.grid_dims`). Where there are more
ranges than dimensions, or an extent exceeds a limit of the machine, an index is split by division
and modulo. A store outside of a range that has an index runs only where that index is 0; surplus
blocks and threads store nothing.

The launch dimensions are expressions of the kernel's variables: see `rules.addresses.launch_dims`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from porism.base.dtypes import Space, index
from porism.base.errors import TargetError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import BLOCK_AXES, BLOCK_INDEX, THREAD_AXES, THREAD_INDEX, Axis
from porism.ir.facts.effect_scopes import scopes
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.rules.addresses.block_loops import block_loops
from porism.rules.addresses.grid_dims import (
    Slot,
    assign_slots,
    fit_dimensions,
    memory_space,
)
from porism.rules.addresses.validity import is_masked, masked

# -- blocks ----------------------------------------------------------------------------------------


def to_blocks(kernel: UOp, target: Target) -> UOp:
    """Return the kernel with its output loops as GLOBAL ranges, where no work is repeated.

    A loop stays a loop if its iterations depend on each other, if a reduction or a local buffer
    that they share would be computed in each block, or if the grid is too small for it. A kernel
    with an ORDERED loop runs in one block: earlier stores must be visible inside of that loop.
    """
    if not target.grid:
        return kernel
    loops = block_loops(kernel)
    changed = {r: ops.RANGE(*r.src, arg=(r.arg[0], Axis.GLOBAL)) for r in loops}
    while changed:
        new: dict[UOp, UOp] = {}
        for node in toposort(kernel):
            src = tuple(new[s] for s in node.src)
            again = changed.get(node, node)
            new[node] = again if again is not node or src == node.src else node.replace(src)
        sizes = [slot.extent for slot in assign_slots(new[kernel], BLOCK_AXES).slots]
        if fit_dimensions(sizes, target.grid) is not None:
            return new[kernel]
        changed.popitem()  # the innermost
    return kernel


# -- indices ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Nest:
    """Slots of ranges that are nested: those of another nest run on the same indices."""

    slots: Sequence[Slot]
    used: tuple[UOp, ...] = ()
    """The condition that surplus blocks or threads do not fulfil, if there are any."""


@dataclass(slots=True)
class _Indices:
    """The indices of the blocks, or of the threads, that ranges become."""

    nests: list[_Nest] = field(default_factory=list)
    """The first has an index for each slot."""
    value: dict[UOp, UOp] = field(default_factory=dict)
    """The expression that replaces each range."""

    def gates(self, scope: Iterable[UOp]) -> list[UOp]:
        """Return the conditions of a store inside of these ranges."""
        inside = set(scope)
        around = [n for n in self.nests if any(inside & set(s.ranges) for s in n.slots)]
        nest = (around or self.nests)[0]
        idle = [
            self.value[slot.ranges[0]].eq(0) for slot in nest.slots if not inside & set(slot.ranges)
        ]
        return [*nest.used, *idle]


def _store_gates(
    space: Space | None, scope: Iterable[UOp], blocks: _Indices, threads: _Indices
) -> list[UOp]:
    """Return the conditions under which a block and a thread store to a memory space."""
    gates = [] if space is Space.REGISTER else threads.gates(scope)
    return [*gates, *blocks.gates(scope)] if space is Space.GLOBAL else gates


def gpu_dims(kernel: UOp, target: Target) -> UOp:
    """Return the kernel with parallel ranges replaced by indices; unchanged without a grid."""
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
            gates = _store_gates(memory_space(node.src[0]), scope[node], blocks, threads)
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
    """Return the block or thread indices for the ranges of some kinds; raise if they do not fit."""
    assigned = assign_slots(kernel, kinds)
    sizes = [slot.extent for slot in assigned.slots]
    fitted = fit_dimensions(sizes, limits)
    if fitted is None:
        shown = " × ".join(show(size) for size in reversed(sizes))
        raise TargetError(
            f"{shown} {name}s do not fit the target {target.name}",
            why=f"it has {' × '.join(map(str, limits)) or 'none'} at most",
            fix="leave some of the loops as they are, or split them into smaller parts",
        )
    indices, one = _Indices(), UOp.const(index, 1)
    positions = [UOp(ops.SPECIAL, None, (dim,), f"{name}{k}") for k, dim in enumerate(fitted.dims)]
    number, launched = UOp.const(index, 0), one
    for position in positions:
        number = number + position * launched
        launched = launched * position.src[0]
    total = _product(sizes)
    used = () if total is launched else (number < total,)
    indices.nests.append(_Nest(assigned.slots, used if fitted.groups is None else ()))
    if fitted.groups is None:
        _split_index(indices, number, assigned.slots, exact=total is launched)
    else:
        for position, group in zip(positions, fitted.groups, strict=True):
            _split_index(indices, position, [assigned.slots[k] for k in group], exact=True)
    for slots in assigned.others:
        total = _product([slot.extent for slot in slots])
        used = () if total is launched else (number < total,)
        indices.nests.append(_Nest(slots, used))
        _split_index(indices, number, slots, exact=total is launched)
    return indices


def _product(sizes: Iterable[UOp]) -> UOp:
    total = UOp.const(index, 1)
    for size in sizes:
        total = total * size
    return total


def _split_index(indices: _Indices, number: UOp, slots: Sequence[Slot], *, exact: bool) -> None:
    """Split one index into the ranges of some slots, the first slot the fastest.

    A surplus index wraps around, so that every value is inside of its range.
    """
    stride = UOp.const(index, 1)
    for slot in slots:
        value = number // stride
        if not exact or slot is not slots[-1]:
            value = value % slot.extent
        indices.value.update(dict.fromkeys(slot.ranges, value))
        stride = stride * slot.extent


def _gated(address: UOp, gates: Sequence[UOp]) -> UOp:
    """Return the address of a store, masked by some conditions."""
    if not gates:
        return address
    condition = gates[0]
    for gate in gates[1:]:
        condition = condition & gate
    base, offset, *own = address.src
    if own:
        return base.index(offset, own[0] & condition, dtype=address.dtype)
    if is_masked(offset):
        old = offset.src
        return base.index(masked(old[0] & condition, old[1]), dtype=address.dtype)
    return base.index(masked(condition, offset), dtype=address.dtype)
