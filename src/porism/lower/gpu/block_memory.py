"""Block memory: what is kept inside a loop, in memory of the block or of each thread.

Local memory belongs to all threads of a block. Where some of them fill it together, each for its
iterations, all wait until it is full, and before it is filled again:

    STORE(M[j], value).end(j), j a LOCAL range      BARRIER after it, and BARRIER(loops) before it
    M inside of l < 4, a LOCAL range                4 parts: element e is element l*n + e

What every thread fills for itself is no memory of the block: it becomes registers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from porism.base.dtypes import Space, index
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import BLOCK_AXES, THREAD_AXES
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rules.addresses.grid_dims import LANES, kept_around, shared_among, size_of


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a local memory becomes."""

    memory: UOp
    parts: tuple[UOp, ...]
    """The ranges that have a part of it each."""
    loops: tuple[UOp, ...]
    """The loops in which it is filled again and again."""
    shared: bool


def block_memory(kernel: UOp, target: Target) -> UOp:
    """A kernel for a GPU in which threads share local memory only where they wait for each other.

    A kernel for a CPU stays as it is: there local memory belongs to one thread.
    """
    order = toposort(kernel)
    if not target.block or not any(n.op is ops.DEFINE_LOCAL for n in order):
        return kernel
    names = itertools.count()
    kept = {n: _placed(n, order, next(names)) for n in order if n.op is ops.DEFINE_LOCAL}
    new: dict[UOp, UOp] = {}
    for node in order:
        src = tuple(new[s] for s in node.src)
        if node.op is ops.DEFINE_LOCAL:
            new[node] = kept[node].memory
        elif node.op is ops.INDEX and base_of(node) in kept:
            new[node] = _element(node, src, kept[base_of(node)])
        elif node.op is ops.STORE and base_of(node.src[0]) in kept:
            new[node] = ops.STORE(_waiting(src[0], kept[base_of(node.src[0])]), src[1])
        elif node.op is ops.AFTER and base_of(node) in kept and kept[base_of(node)].shared:
            new[node] = src[0].after(ops.BARRIER(*src[1:]))
        else:
            new[node] = node if src == node.src else _again(node, src)
    return new[kernel]


def around_again(node: UOp) -> tuple[UOp, ...]:
    """The loops around a node in which one thread meets it again and again."""
    return tuple(r for r in node.ranges if r.arg[1] not in BLOCK_AXES | THREAD_AXES | LANES)


def _placed(memory: UOp, order: Sequence[UOp], number: int) -> _Kept:
    around = kept_around(memory, order)
    if not shared_among(memory, order):
        dtype = memory.dtype.element.pointer(Space.REGISTER, memory.dtype.size)
        return _Kept(UOp(ops.DEFINE_REG, dtype, (), f"kept{number}"), (), (), shared=False)
    parts = tuple(r for r in around if r.arg[1] in THREAD_AXES)
    loops = tuple(r for r in around if r.arg[1] not in BLOCK_AXES | THREAD_AXES | LANES)
    dtype = memory.dtype.element.pointer(Space.LOCAL, memory.dtype.size * size_of(parts))
    return _Kept(UOp(ops.DEFINE_LOCAL, dtype, (), memory.arg), parts, loops, shared=True)


def _element(node: UOp, src: tuple[UOp, ...], kept: _Kept) -> UOp:
    base, at, *gates = src
    part = UOp.const(index, 0)
    for counter in kept.parts:
        part = part * (int(counter.vmax) + 1) + counter
    size = kept.memory.dtype.size // size_of(kept.parts)
    moved = part * size + at if kept.parts else at
    return base.index(moved, *gates, dtype=node.dtype)


def _waiting(place: UOp, kept: _Kept) -> UOp:
    """A place that is written when nobody reads what was there before."""
    if not kept.loops:
        return place
    base, *rest = place.src
    return place.replace((base.after(ops.BARRIER(*kept.loops)), *rest))


def _again(node: UOp, src: tuple[UOp, ...]) -> UOp:
    return src[0].after(*src[1:]) if node.op is ops.AFTER else node.replace(src)
