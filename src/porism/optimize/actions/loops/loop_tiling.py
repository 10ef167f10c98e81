"""Tiling: a loop split into an outer loop over tiles and an inner loop over one tile.

Split("r1", 64)          tiles of 64 iterations, which divide the extent
OverlapTail("r1", 12)    tiles of 12 iterations, where the last one overlaps the one before it

for i < 20: y[i] = f(i)        for o < 2: b = min(o * 12, 8)
                                          for t < 12: if b + t >= o * 12: y[b + t] = f(b + t)
"""

from __future__ import annotations

from dataclasses import dataclass

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action
from porism.optimize.actions.loop_substitution import replace_loop, split_loop
from porism.optimize.actions.loops.loop_padding import mask_index


@dataclass(frozen=True)
class Split(Action):
    """Split a loop into two, which run its iterations in the same order."""

    axis: str
    amount: int
    """The extent of the inner loop."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        loop = self.loop(kernel, self.axis)
        self.require_kind(loop, (Axis.LOOP, Axis.THREAD, Axis.GLOBAL, Axis.REDUCE))
        if self.divisible_extent(loop, self.amount) == self.amount:
            raise self.refuse(
                f"the extent of {self.axis} is {self.amount}",
                "the outer loop would have one iteration",
                "use a smaller amount",
            )
        kind = Axis.REDUCE if loop.arg[1] is Axis.REDUCE else Axis.LOOP
        return split_loop(kernel, loop, self.amount, kind)[0]


@dataclass(frozen=True)
class OverlapTail(Action):
    """Tile an output loop whose extent is no multiple, or varies, with an overlapping tail tile.

    The last tile begins earlier, so that it ends where the loop does. No load needs a mask; the
    stores of the last tile leave out the elements that the tile before it has stored.
    """

    axis: str
    amount: int
    """The extent of the inner loop."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        loop = self.loop(kernel, self.axis)
        self.require_kind(loop, (Axis.LOOP, Axis.THREAD, Axis.GLOBAL))
        extent = loop.src[0]
        known = int(extent.arg) if extent.op is ops.CONST else None
        least = extent.vmin if known is None else known - 1
        if not 2 <= self.amount <= least or (known is not None and known % self.amount == 0):
            raise self.refuse(
                f"the extent of {self.axis} is {show(extent)}",
                f"tiles of {self.amount} do not overlap there",
                "Split it into equal tiles, or use an amount that is smaller than the extent",
            )
        if any(n.op is ops.STORE and loop not in n.src[0].ranges and loop in n.src[1].ranges
               for n in toposort(kernel)):  # fmt: skip
            raise self.refuse(
                f"all iterations of {self.axis} store to the same address",
                "it is not known which of them the tile before has stored",
                "choose another loop",
            )
        return tile_with_overlap(kernel, loop, self.amount)


def tile_with_overlap(kernel: UOp, loop: UOp, amount: int) -> UOp:
    """Return a kernel with a loop of extent n in tiles, of which the last begins at n - amount.

    No iteration is beyond the end of the loop. The iterations that two tiles share are computed by
    both and stored by the first.
    """
    extent = loop.src[0]
    axis, kind = loop.arg
    outer = UOp.range((extent + (amount - 1)) // amount, (*axis, 0), kind)
    inner = UOp.range(amount, (*axis, 1), Axis.LOOP)
    first = ops.MIN(outer * amount, extent - amount)
    value = first + inner
    is_first_time = value >= outer * amount
    tiled = replace_loop(kernel, loop, value, [outer, inner])
    new: dict[UOp, UOp] = {}
    for node in toposort(tiled):
        src = tuple([new[s] for s in node.src])
        if node.op is ops.STORE and {outer, inner} & set(node.src[0].ranges):
            access = node.src[0]
            index = mask_index(is_first_time, new[access.src[1]])
            src = (access.replace((new[access.src[0]], index, *src[0].src[2:])), *src[1:])
        new[node] = node if src == node.src else node.replace(src)
    return new[tiled]
