"""Axis: what the iterations of a range become on the machine."""

from __future__ import annotations

import enum

from porism.base.fast_enum import quick


@quick
class Axis(enum.Enum):
    """The kind of a range."""

    OUTER = "outer"  # outside of all kernels
    LOOP = "loop"  # a plain loop, in order
    ORDERED = "ordered"  # a loop whose iterations depend on each other: it stays one
    GLOBAL = "global"  # blocks of a grid, in parallel
    THREAD = "thread"  # CPU threads, in parallel
    LOCAL = "local"  # threads of a block, sharing local memory
    WARP = "warp"  # threads of a warp, in lockstep
    GROUP = "group"  # threads of a block that reduce together
    REDUCE = "reduce"  # a loop that a reduction closes
    UPCAST = "upcast"  # lanes, side by side in registers
    UNROLL = "unroll"  # lanes of a reduction
