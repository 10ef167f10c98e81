"""Finishing: what is done with the sums of a tile, in loops of its own after them.

    tile of s: …                              tile of s: … t[i, j] = s
    tile of y[i, j] = gelu(s + b[j])          for i: for j: y[i, j] = gelu(t[i, j] + b[j])

The sums of a tile are kept in registers while they are added up. What follows would be written out
for each of them; in a loop it is written once, which matters if it is long.

The lanes of the sums may be along another loop than that which is stored along. Then they are kept
as they are (`turned`), and the loops after them, in lanes along both, transpose parts of the tile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import Space, index
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.node_shape import flat
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.loop_actions import Action
from porism.optimize.actions.loop_transforms import ranges_of, says_where
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked

LONG: Final[Mapping[Op, int]] = {
    ops.EXP: 24, ops.EXP2: 24, ops.EXPM1: 24, ops.TANH: 24, ops.LOG2: 24, ops.SIN: 40,
    ops.SQRT: 4, ops.FDIV: 4, ops.RECIPROCAL: 4,
}  # fmt: skip
"""Instructions of what is more than one, about."""


@dataclass(frozen=True)
class Finish(Action):
    """What follows the sums of a tile, in loops after them."""

    lanes: int
    """Elements that it is done to together; with 1 the loops can be arranged further."""
    turned: bool = False
    """Whether the sums are kept with what is stored along as the slowest loop."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        if target.block:
            raise self.refuse("the target is a GPU", "it has other memory", "leave it out")
        end = kernel.src[0]
        if len(kernel.src) != 1 or end.op is not ops.END or end.src[0].op is not ops.STORE:
            raise self.refuse("the kernel stores several values", "one is finished", "leave it out")
        side = [r for r in end.src[1:] if r.arg[1] is Axis.UPCAST]
        sums = sums_of(end)
        if len(sums) != 1 or (sums[0] is end.src[0].src[1] and not self.turned):
            raise self.refuse(
                f"{len(sums)} reductions are followed by something",
                "the results of one are kept for what follows",
                "leave it out",
            )
        if not side or set(side) - set(sums[0].ranges):
            raise self.refuse(
                "there is no tile of which each element is one sum",
                "what is finished is a tile of sums",
                "Upcast loops that the reduction depends on first",
            )
        beside = toposort(end.src[0], within=lambda n: n.op is not ops.END and n not in sums)
        if any(n.op is ops.AFTER for n in beside):
            raise self.refuse(
                "what follows the sums reads local memory",
                "it would be filled for each loop anew",
                "leave it out",
            )
        if says_where(kernel, sums):
            raise self.refuse(
                "an index is computed from the sums",
                "how large it may be is not known of what is kept in memory",
                "leave it out",
            )
        lane = _lane(end.src[0], side)
        if self.lanes < 1 or self.counted(lane) % self.lanes:
            raise self.refuse(
                f"a row of the tile has {self.counted(lane)} elements",
                f"that is no multiple of {self.lanes}",
                "use a number that divides it",
            )
        order = [*(r for r in side if r is not lane), lane]
        return finished(kernel, sums[0], order, self.lanes, self.turned)


def finished(kernel: UOp, whole: UOp, side: Sequence[UOp], lanes: int, turned: bool) -> UOp:
    """A kernel with a tile of one sum kept, and what follows in loops; lanes along the last.

    Turned, the last is the slowest in memory, and else the fastest.
    """
    end = kernel.src[0]
    order = toposort(kernel)
    numbers = [n.arg for n in order if n.op is ops.DEFINE_LOCAL]
    first = max(r.arg[0][0] for r in ranges_of(kernel)) + 1
    sizes = [int(r.src[0].arg) for r in side]
    dtype = whole.dtype.pointer(Space.LOCAL, math.prod(sizes))
    memory = UOp(ops.DEFINE_LOCAL, dtype, (), max(numbers, default=-1) + 1)
    outer = [r for r in end.src[1:] if r not in side]
    room = memory.after(*outer) if outer else memory
    dims = [r.src[0] for r in side]
    kept = room.index(_place(side, dims, turned), dtype=whole.dtype).store(whole).end(*side)
    loops = [UOp.range(size, first + k) for k, size in enumerate(sizes[:-1])]
    values = list(loops)
    axis = first + len(loops)
    last = UOp.range(lanes, (axis, 1), Axis.UPCAST)
    if lanes == 1:
        last = UOp.range(sizes[-1], axis)
        values.append(last)
    elif sizes[-1] > lanes:
        loops.append(UOp.range(sizes[-1] // lanes, (axis, 0)))
        values.append(loops[-1] * lanes + last)
    else:
        values.append(last)
    sum_again = memory.after(kept).index(_place(values, dims, turned), dtype=whole.dtype)
    new = {whole: sum_again, **dict(zip(side, values, strict=True))}
    return ops.SINK(substitute(end.src[0], new).end(*outer, *loops, last), arg=kernel.arg)


def _place(values: Sequence[UOp], dims: Sequence[UOp], turned: bool) -> UOp:
    """Where an element of a tile is kept."""
    if turned:
        values, dims = [values[-1], *values[:-1]], [dims[-1], *dims[:-1]]
    return flat(values, dims)


def sums_of(end: UOp) -> list[UOp]:
    """The reductions whose results the store of an END is computed from."""
    found: dict[UOp, None] = {}
    stack = [end.src[0]]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node.op is ops.REDUCE:
            found[node] = None
            continue
        for s in node.src:
            if s not in seen and s.op is not ops.END:
                seen.add(s)
                stack.append(s)
    return list(found)


def following(end: UOp) -> list[UOp]:
    """What is computed from the sums for the store of an END."""
    below = {n for s in sums_of(end) for n in toposort(s)}
    inside = toposort(end.src[0], within=lambda n: n.op is not ops.END)
    return [n for n in inside if n not in below]


def instructions(end: UOp) -> int:
    """The instructions that follow the sums of an END, about, for one vector."""
    values = [n for n in following(end) if n.op.elementwise and n.dtype is not index]
    return sum(LONG.get(n.op, 1) for n in values)


def side_by_side(end: UOp) -> int:
    """The elements of a tile."""
    return math.prod(int(r.vmax) + 1 for r in end.src[1:] if r.arg[1] is Axis.UPCAST)


def _lane(store: UOp, side: Sequence[UOp]) -> UOp:
    """The range of a tile along which neighbours are stored, or the last."""
    at = store.src[0].src[1]
    at = at.src[1] if is_masked(at) else at
    return next((r for r in side if stride(at, r) == 1), side[-1])
