"""Block memory: local buffers become shared memory of a thread block, or registers.

On a GPU, DEFINE_LOCAL is shared by all threads of a block. Where threads fill a buffer together,
each for its own iterations, barriers separate the stores from the loads:

    before                                          after
    STORE(M[j], value).end(j), j a LOCAL range      BARRIER after it, and BARRIER(loops) before it
    M inside of l < 4, a LOCAL range                4 parts: element e is element l*n + e

A buffer that every thread fills for itself becomes registers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from porism.base.dtypes import Space, index
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import BLOCK_AXES, THREAD_AXES
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rules.addresses.grid_dims import (
    UNROLLED_AXES,
    enclosing_ranges,
    filling_threads,
    trip_count,
)


@dataclass(frozen=True, slots=True)
class _BlockBuffer:
    """What a local buffer becomes."""

    memory: UOp
    parts: tuple[UOp, ...]
    """The thread ranges around the buffer: each of their iterations has a part of its own."""
    loops: tuple[UOp, ...]
    """The loops around the buffer, in each iteration of which it is filled again."""
    shared: bool


def block_memory(kernel: UOp, target: Target) -> UOp:
    """Return a kernel whose shared memory is synchronized by barriers, for a target with blocks.

    On a target without blocks the kernel stays as it is: there a local buffer has one thread.
    """
    order = toposort(kernel)
    if not target.block or not any(n.op is ops.DEFINE_LOCAL for n in order):
        return kernel
    names = itertools.count()
    buffers = {n: _block_buffer(n, order, next(names)) for n in order if n.op is ops.DEFINE_LOCAL}
    waits = _common_waits(order, buffers)
    if waits:  # what a barrier waits for comes before it
        alone = [s for sources in waits.values() if len(sources) > 1 for s in sources]
        order = toposort(*dict.fromkeys(alone), kernel)
    new: dict[UOp, UOp] = {}
    for node in order:
        src = tuple(new[s] for s in node.src)
        buffer = buffers.get(_accessed(node))
        if node in waits:
            new[node] = src[0].after(ops.BARRIER(*[new[s] for s in waits[node]]))
        elif buffer is None:
            new[node] = node if src == node.src else _rebuild(node, src)
        else:
            new[node] = _in_block_memory(node, src, buffer)
    return new[kernel]


def _accessed(node: UOp) -> UOp:
    """Return the memory that a node defines, indexes, stores to or waits for; else the node."""
    if node.op is ops.STORE:
        return base_of(node.src[0])
    return base_of(node) if node.op in (ops.INDEX, ops.AFTER) else node


def _in_block_memory(node: UOp, src: tuple[UOp, ...], buffer: _BlockBuffer) -> UOp:
    """Return a node that is about a local buffer, for a block of threads that share it."""
    if node.op is ops.DEFINE_LOCAL:
        return buffer.memory
    if node.op is ops.INDEX:
        return _element(node, src, buffer)
    if node.op is ops.STORE:
        return ops.STORE(_synchronized(src[0], buffer), src[1])
    return node if src == node.src else _rebuild(node, src)


def _common_waits(
    order: Sequence[UOp], buffers: Mapping[UOp, _BlockBuffer]
) -> dict[UOp, tuple[UOp, ...]]:
    """Return for each AFTER of shared memory the effects that its barrier waits for.

    Buffers that are filled inside of the same ranges, other than blocks, and not from shared memory
    have one barrier: the loads of all of them are in flight together.
    """
    together: dict[tuple[UOp, ...], list[UOp]] = {}
    waits: dict[UOp, tuple[UOp, ...]] = {}
    for node in order:
        if node.op is not ops.AFTER or not _is_shared(node, buffers):
            continue
        if any(_is_shared(n, buffers) for s in node.src[1:] for n in toposort(s)):
            waits[node] = node.src[1:]
        else:
            inside = tuple(r for r in node.ranges if r.arg[1] not in BLOCK_AXES)
            together.setdefault(inside, []).append(node)
    for group in together.values():
        effects = tuple(dict.fromkeys(s for node in group for s in node.src[1:]))
        waits.update(dict.fromkeys(group, effects))
    return waits


def _is_shared(node: UOp, buffers: Mapping[UOp, _BlockBuffer]) -> bool:
    """Return whether a node is shared memory after the stores that fill it."""
    buffer = buffers.get(base_of(node)) if node.op is ops.AFTER else None
    return buffer is not None and buffer.shared


def sequential_loops(node: UOp) -> tuple[UOp, ...]:
    """Return the loops around a node that one thread runs: no block, thread or lane ranges."""
    return tuple(r for r in node.ranges if r.arg[1] not in BLOCK_AXES | THREAD_AXES | UNROLLED_AXES)


def _block_buffer(memory: UOp, order: Sequence[UOp], number: int) -> _BlockBuffer:
    """Return what a local buffer becomes: shared memory with parts, or registers."""
    ranges = enclosing_ranges(memory, order)
    if not filling_threads(memory, order):
        dtype = memory.dtype.element.pointer(Space.REGISTER, memory.dtype.size)
        return _BlockBuffer(UOp(ops.DEFINE_REG, dtype, (), f"kept{number}"), (), (), shared=False)
    parts = tuple(r for r in ranges if r.arg[1] in THREAD_AXES)
    loops = tuple(r for r in ranges if r.arg[1] not in BLOCK_AXES | THREAD_AXES | UNROLLED_AXES)
    dtype = memory.dtype.element.pointer(Space.LOCAL, memory.dtype.size * trip_count(parts))
    return _BlockBuffer(UOp(ops.DEFINE_LOCAL, dtype, (), memory.arg), parts, loops, shared=True)


def _element(node: UOp, src: tuple[UOp, ...], buffer: _BlockBuffer) -> UOp:
    """Return an INDEX into the part of the buffer that belongs to this thread."""
    base, element, *gates = src
    part = UOp.const(index, 0)
    for loop in buffer.parts:
        part = part * (int(loop.vmax) + 1) + loop
    size = buffer.memory.dtype.size // trip_count(buffer.parts)
    offset = part * size + element if buffer.parts else element
    return base.index(offset, *gates, dtype=node.dtype)


def _synchronized(address: UOp, buffer: _BlockBuffer) -> UOp:
    """Return the address of a store, after a barrier if the buffer is filled repeatedly."""
    if not buffer.loops:
        return address
    base, *rest = address.src
    return address.replace((base.after(ops.BARRIER(*buffer.loops)), *rest))


def _rebuild(node: UOp, src: tuple[UOp, ...]) -> UOp:
    return src[0].after(*src[1:]) if node.op is ops.AFTER else node.replace(src)
